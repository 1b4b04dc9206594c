//! Filters lines by texts without joining their parts.
//!
//! A text lies within one fragment of a line, or across a number. One search through the
//! distinct fragments finds the former. For the latter there are traces ([`super::traces`]):
//! fragments in which the text may begin or end, or which it may cover. Lines with such a
//! fragment are in doubt, and must be joined and tested. A text that may be a part of a number
//! is not tested here, see [`LineSearch::new`].
//!
//! Guarantees: a line for which [`LineOutcomes`] has no doubt passes or fails by the definition of
//! [`LineTest`].

use std::iter;

use logsvc_logql::engine::{LineTest, Literal};
use memchr::memmem::Finder;

use super::super::packed::Malformed;
use super::traces::{TracedEdges, TracedText, Tracer, is_digit};
use super::{Form, LineParts, SlotLines};

/// A conjunction of tests.
#[derive(Debug)]
pub struct LineSearch {
    /// The texts of each test. The index of a test is its bit in the masks.
    tests: Vec<Vec<Text>>,
    /// Tests that a line with a hit passes.
    positive: u32,
    /// Tests that a line with a hit fails.
    negative: u32,
    /// Tests for which a line with a hit is in doubt.
    undecided: u32,
    ignores_case: bool,
    /// Of all texts.
    edges: TracedEdges,
}

/// Most tests of a search.
const MAX_TESTS: usize = 16;

#[derive(Debug)]
struct Text {
    finder: Finder<'static>,
    ignore_case: bool,
    traced: TracedText,
}

/// The result for all lines of a block, one bit per line.
#[derive(Debug)]
pub struct LineOutcomes {
    /// Lines that pass.
    pub passing: Vec<u64>,
    /// Lines that must be joined and tested.
    pub doubtful: Vec<u64>,
}

impl LineSearch {
    /// A search by these tests, and whether all of them are part of it. `None` if no test can be
    /// decided without joining lines.
    pub fn new(tests: &[LineTest]) -> Option<(LineSearch, bool)> {
        let mut search = LineSearch {
            tests: Vec::new(),
            positive: 0,
            negative: 0,
            undecided: 0,
            ignores_case: false,
            edges: TracedEdges::new(iter::empty()),
        };
        let mut has_all = true;
        for test in tests {
            if search.tests.len() == MAX_TESTS || test.any_of.iter().any(may_be_number) {
                has_all = false;
                continue;
            }
            let bit = 1 << search.tests.len();
            *(if test.negated { &mut search.negative } else { &mut search.positive }) |= bit;
            search.undecided |= if test.decides { 0 } else { bit };
            search.ignores_case |= test.any_of.iter().any(|text| text.ignore_case);
            let texts = test.any_of.iter().map(|text| Text {
                finder: Finder::new(&text.bytes).into_owned(),
                ignore_case: text.ignore_case,
                traced: TracedText::new(&text.bytes, text.ignore_case),
            });
            search.tests.push(texts.collect());
        }
        search.edges = TracedEdges::new(search.tests.iter().flatten().map(|text| &text.traced));
        (!search.tests.is_empty()).then_some((search, has_all))
    }

    /// Tests all lines of a block. `slot_lines` are those of these parts.
    ///
    /// # Errors
    /// If the uses of the block are malformed.
    pub fn test(
        &self,
        parts: &LineParts,
        slot_lines: &mut SlotLines,
    ) -> Result<LineOutcomes, Malformed> {
        let flags = self.flags(parts);
        let found_in_all = flags.iter().fold(0, |all, flags| all | flags);
        let words = parts.line_count().div_ceil(64);
        let mut outcomes = LineOutcomes { passing: vec![0; words], doubtful: vec![0; words] };
        let (all_hits, all_traces) = (found_in_all & 0xffff, found_in_all >> 16);
        if self.positive & !(all_hits | all_traces) != 0 {
            // No line passes one of the tests.
            return Ok(outcomes);
        }
        // What the fragments of each line have.
        let mut found = vec![0; parts.line_count()];
        for slot in 0..parts.slot_count() {
            if flags[parts.fragments_of(slot)].iter().any(|&flags| flags != 0) {
                let lines = slot_lines.of(parts, slot)?;
                let note = |used, line: usize| found[line] |= flags[usize::from(used)];
                lines.each(parts.uses_of(slot), note);
            }
        }
        let tested = self.positive | self.negative;
        let words = outcomes.passing.iter_mut().zip(&mut outcomes.doubtful);
        for ((passing, doubtful), found) in words.zip(found.chunks(64)) {
            for (line, found) in found.iter().enumerate() {
                let (hits, traces) = (found & 0xffff, found >> 16);
                let fails = self.positive & !(hits | traces) != 0 || self.negative & hits != 0;
                let in_doubt = tested & traces & !hits != 0;
                *passing |= u64::from(!(fails || in_doubt)) << line;
                *doubtful |= u64::from(in_doubt && !fails) << line;
            }
        }
        Ok(outcomes)
    }

    /// For each fragment the bits of the tests with a text in it, and, 16 bits above, of the tests
    /// with a text of which it may have a part.
    fn flags(&self, parts: &LineParts) -> Vec<u32> {
        let mut flags = vec![0; parts.nexts.len()];
        let lower = if self.ignores_case { parts.text.to_ascii_lowercase() } else { Vec::new() };
        let edged = self.edges.fragments(parts);
        for (number, texts) in self.tests.iter().enumerate() {
            let hit = 1u32 << number;
            let hit = if self.undecided & hit == 0 { hit } else { hit << 16 };
            for text in texts {
                let fragments = if text.ignore_case { &lower } else { &parts.text };
                flag_hits(parts, fragments, &text.finder, hit, &mut flags);
                let tracer = Tracer { parts, text: &text.traced, fragments: &edged };
                tracer.each(|fragment| flags[fragment] |= 1 << (number + 16));
            }
        }
        flags
    }
}

/// Whether a text may be a part of a number, or of adjacent numbers.
fn may_be_number(text: &Literal) -> bool {
    text.bytes.iter().all(|byte| is_digit(Form::FixedHex(1), *byte))
}

fn flag_hits(parts: &LineParts, text: &[u8], finder: &Finder<'_>, hit: u32, flags: &mut [u32]) {
    let (mut at, mut fragment) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| finder.find(rest)) {
        let start = at + found;
        fragment += parts.fragment_ends[fragment..].partition_point(|&end| end as usize <= start);
        let end = parts.fragment_ends[fragment] as usize;
        if start + finder.needle().len() <= end {
            flags[fragment] |= hit;
            at = end;
        } else {
            at = start + 1;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;

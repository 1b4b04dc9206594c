//! Filters lines by texts while they are in parts.
//!
//! A text occurs in a line within one fragment, or it lies across a number. The first is
//! found by one search through the distinct fragments. The second leaves traces
//! ([`super::traces`]): fragments that the text may begin or end in, or cover; lines with
//! such a fragment are in doubt and have to be looked at. Of a text that could be a number altogether
//! nothing is known, see [`LineSearch::new`].
//!
//! Guarantees: a line that [`Verdicts`] gives as failing, or as passing without doubt,
//! does so by [`LineTest`]'s own words.

use logsvc_logql::engine::{LineTest, Literal};
use memchr::memmem::Finder;

use super::traces::{Tracer, is_digit};
use super::{Form, LineParts};

/// Tests of which lines are to pass all.
#[derive(Debug)]
pub struct LineSearch {
    /// One bit each.
    tests: Vec<Vec<Text>>,
    /// The bits of tests that are passed by a hit.
    positive: u32,
    /// The bits of tests that are failed by a hit.
    negative: u32,
    /// The bits of tests for which a hit is just a reason to look.
    undecided: u32,
    ignores_case: bool,
}

/// Tests at most.
const MAX_TESTS: usize = 16;

#[derive(Debug)]
struct Text {
    finder: Finder<'static>,
    ignore_case: bool,
}

/// What was found out about lines, one bit each.
#[derive(Debug)]
pub struct Verdicts {
    /// Lines that pass.
    pub passing: Vec<u64>,
    /// Lines that have to be looked at.
    pub doubtful: Vec<u64>,
}

impl LineSearch {
    /// A search by these tests; `None` if they say nothing about lines in parts. The
    /// second value says whether all of them are part of it.
    pub fn new(tests: &[LineTest]) -> Option<(LineSearch, bool)> {
        let mut search = LineSearch {
            tests: Vec::new(),
            positive: 0,
            negative: 0,
            undecided: 0,
            ignores_case: false,
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
            });
            search.tests.push(texts.collect());
        }
        (!search.tests.is_empty()).then_some((search, has_all))
    }

    /// Judges all lines of a block.
    pub fn judge(&self, parts: &LineParts) -> Verdicts {
        let flags = self.flags(parts);
        let found_in_all = flags.iter().fold(0, |all, flags| all | flags);
        let words = parts.line_count().div_ceil(64);
        let mut verdicts = Verdicts { passing: vec![0; words], doubtful: vec![0; words] };
        let (all_hits, all_traces) = (found_in_all & 0xffff, found_in_all >> 16);
        if self.positive & !(all_hits | all_traces) != 0 {
            // A test that no line passes.
            return verdicts;
        }
        let judged = self.positive | self.negative;
        let mut step = 0;
        for (line, &line_end) in parts.line_steps.iter().enumerate() {
            let steps = &parts.steps[step..line_end as usize];
            step = line_end as usize;
            let found =
                steps.iter().fold(0, |found, &fragment| found | flags[usize::from(fragment)]);
            let (hits, traces) = (found & 0xffff, found >> 16);
            let fails = self.positive & !(hits | traces) != 0 || self.negative & hits != 0;
            let in_doubt = judged & traces & !hits != 0;
            let bit = 1 << (line % 64);
            verdicts.passing[line / 64] |= if fails || in_doubt { 0 } else { bit };
            verdicts.doubtful[line / 64] |= if in_doubt && !fails { bit } else { 0 };
        }
        verdicts
    }

    /// For each fragment the bits of the tests of which it holds a text, and, 16 bits
    /// above, of those of which it may hold a part.
    fn flags(&self, parts: &LineParts) -> Vec<u32> {
        let mut flags = vec![0; parts.nexts.len()];
        let lower = if self.ignores_case { parts.text.to_ascii_lowercase() } else { Vec::new() };
        for (number, texts) in self.tests.iter().enumerate() {
            let hit = 1u32 << number;
            let hit = if self.undecided & hit == 0 { hit } else { hit << 16 };
            for text in texts {
                let fragments = if text.ignore_case { &lower } else { &parts.text };
                flag_hits(parts, fragments, &text.finder, hit, &mut flags);
                let needle = text.finder.needle();
                Tracer::new(parts, needle, text.ignore_case)
                    .fragments(|fragment| flags[fragment] |= 1 << (number + 16));
            }
        }
        flags
    }
}

/// Whether a text may be a part of a number, or of numbers that follow each other.
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
mod tests;

//! Filters lines by texts while they are in parts.
//!
//! A text occurs in a line within one segment, or it lies across a number. The first is
//! found by one search through the distinct segments. The second leaves a trace: a
//! segment that the text begins or ends in (or that it covers) so that what follows in
//! the text can be the beginning of a number of that column; lines with such a segment
//! are in doubt and have to be looked at. Of a text that could be a number altogether
//! nothing is known, see [`LineSearch::new`].
//!
//! Guarantees: a line that [`Verdicts`] gives as failing, or as passing without doubt,
//! does so by [`LineTest`]'s own words.

use logsvc_logql::engine::{LineTest, Literal};
use memchr::memmem::Finder;

use super::{END, Form, LineParts};

/// Tests of which lines are to pass all.
#[derive(Debug)]
pub(crate) struct LineSearch {
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
pub(crate) struct Verdicts {
    /// Lines that pass.
    pub(crate) passing: Vec<u64>,
    /// Lines that have to be looked at.
    pub(crate) doubtful: Vec<u64>,
}

impl LineSearch {
    /// A search by these tests; `None` if they say nothing about lines in parts. The
    /// second value says whether all of them are part of it.
    pub(crate) fn new(tests: &[LineTest]) -> Option<(LineSearch, bool)> {
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
    pub(crate) fn judge(&self, parts: &LineParts) -> Verdicts {
        let flags = self.flags(parts);
        let words = parts.line_count().div_ceil(64);
        let mut verdicts = Verdicts { passing: vec![0; words], doubtful: vec![0; words] };
        let judged = self.positive | self.negative;
        let mut step = 0;
        for (line, &line_end) in parts.line_steps.iter().enumerate() {
            let steps = &parts.steps[step..line_end as usize];
            step = line_end as usize;
            let found = steps.iter().fold(0, |found, &segment| found | flags[usize::from(segment)]);
            let (hits, traces) = (found & 0xffff, found >> 16);
            let fails = self.positive & !(hits | traces) != 0 || self.negative & hits != 0;
            let in_doubt = judged & traces & !hits != 0;
            let bit = 1 << (line % 64);
            verdicts.passing[line / 64] |= if fails || in_doubt { 0 } else { bit };
            verdicts.doubtful[line / 64] |= if in_doubt && !fails { bit } else { 0 };
        }
        verdicts
    }

    /// For each segment the bits of the tests of which it holds a text, and, 16 bits
    /// above, of those of which it may hold a part.
    fn flags(&self, parts: &LineParts) -> Vec<u32> {
        let mut flags = vec![0; parts.nexts.len()];
        let lower = if self.ignores_case { parts.text.to_ascii_lowercase() } else { Vec::new() };
        for (number, texts) in self.tests.iter().enumerate() {
            let hit = 1u32 << number;
            let hit = if self.undecided & hit == 0 { hit } else { hit << 16 };
            for text in texts {
                let segments = if text.ignore_case { &lower } else { &parts.text };
                flag_hits(parts, segments, &text.finder, hit, &mut flags);
                flag_traces(parts, text, 1 << (number + 16), &mut flags);
            }
        }
        flags
    }
}

/// Whether a text may be a part of a number, or of numbers that follow each other.
fn may_be_number(text: &Literal) -> bool {
    text.bytes.iter().all(|byte| is_digit(Form::FixedHex(1), *byte))
}

/// Whether a byte may stand in a number of this form.
fn is_digit(form: Form, byte: u8) -> bool {
    match form {
        Form::Decimal | Form::FixedDecimal(_) => byte.is_ascii_digit(),
        Form::FixedHex(_) => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        // There is none, and the next segment follows at once.
        Form::Nothing => true,
    }
}

fn flag_hits(parts: &LineParts, text: &[u8], finder: &Finder<'_>, hit: u32, flags: &mut [u32]) {
    let (mut at, mut segment) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| finder.find(rest)) {
        let start = at + found;
        segment += parts.segment_ends[segment..].partition_point(|&end| end as usize <= start);
        let end = parts.segment_ends[segment] as usize;
        if start + finder.needle().len() <= end {
            flags[segment] |= hit;
            at = end;
        } else {
            at = start + 1;
        }
    }
}

/// Where a text may be cut by a number of one form, on one side of it.
struct Cuts {
    /// Offsets within the text, neither 0 nor its length.
    offsets: Vec<usize>,
    /// The bytes of the text at those edges that touch a segment.
    edges: [bool; 256],
}

impl Cuts {
    /// Cuts behind which the text may go on with a number, or before which it may have
    /// come out of one.
    fn new(needle: &[u8], ignore_case: bool, form: Form, goes_on: bool) -> Cuts {
        let mut cuts = Cuts { offsets: Vec::new(), edges: [false; 256] };
        for offset in 1..needle.len() {
            let (before, behind) = (needle[offset - 1], needle[offset]);
            let (digit, edge) = if goes_on { (behind, before) } else { (before, behind) };
            if is_digit(form, digit) {
                cuts.offsets.push(offset);
                cuts.edges[usize::from(edge)] = true;
                cuts.edges[usize::from(edge.to_ascii_uppercase())] |= ignore_case;
            }
        }
        cuts
    }

    /// Whether a segment with this byte at its edge may hold a part of the text.
    fn touch(&self, edge: Option<&u8>) -> bool {
        edge.is_some_and(|&byte| self.edges[usize::from(byte)])
    }
}

/// One form of each kind that [`is_digit`] tells apart.
const KINDS: [Form; 3] = [Form::Decimal, Form::FixedHex(1), Form::Nothing];

fn kind_of(form: Form) -> usize {
    match form {
        Form::Decimal | Form::FixedDecimal(_) => 0,
        Form::FixedHex(_) => 1,
        Form::Nothing => 2,
    }
}

/// Flags segments that a text may share with the numbers around them.
fn flag_traces(parts: &LineParts, text: &Text, trace: u32, flags: &mut [u32]) {
    let needle = text.finder.needle();
    let into = KINDS.map(|form| Cuts::new(needle, text.ignore_case, form, true));
    let out_of = KINDS.map(|form| Cuts::new(needle, text.ignore_case, form, false));
    let equal = |a: &[u8], b: &[u8]| {
        if text.ignore_case { a.eq_ignore_ascii_case(b) } else { a == b }
    };
    for slot in 0..parts.slot_starts.len() {
        let first = parts.slot_starts[slot] as usize;
        let next_slot = parts.slot_starts.get(slot + 1);
        let end = next_slot.map_or(parts.nexts.len(), |&start| start as usize);
        let form_before = slot.checked_sub(1).and_then(|column| parts.form(column as u8));
        let out_of = form_before.map(|form| &out_of[kind_of(form)]);
        for (segment, flag) in flags.iter_mut().enumerate().take(end).skip(first) {
            let own = parts.segment(segment);
            let next = parts.nexts[segment];
            let form_behind = if next == END { None } else { parts.form(next) };
            let into = form_behind.map(|form| &into[kind_of(form)]);
            let begins = into.is_some_and(|cuts| {
                cuts.touch(own.last())
                    && cuts.offsets.iter().any(|&cut| {
                        cut <= own.len() && equal(&own[own.len() - cut..], &needle[..cut])
                    })
            });
            let ends_or_is_covered = out_of.is_some_and(|cuts| {
                cuts.touch(own.first())
                    && cuts.offsets.iter().any(|&cut| {
                        let rest = &needle[cut..];
                        let goes_on = |len| into.is_some_and(|c| c.offsets.contains(&(cut + len)));
                        if rest.len() <= own.len() {
                            equal(&own[..rest.len()], rest)
                        } else {
                            equal(own, &rest[..own.len()]) && goes_on(own.len())
                        }
                    })
            });
            if begins || ends_or_is_covered {
                *flag |= trace;
            }
        }
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;

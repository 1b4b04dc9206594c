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

/// Flags segments that a text may share with the numbers around them.
fn flag_traces(parts: &LineParts, text: &Text, trace: u32, flags: &mut [u32]) {
    let needle = text.finder.needle();
    let cuts = |form: Option<Form>, follows: bool| -> Vec<usize> {
        let Some(form) = form else { return Vec::new() };
        let touches = |cut: &usize| is_digit(form, needle[if follows { *cut } else { *cut - 1 }]);
        (1..needle.len()).filter(touches).collect()
    };
    // Where the text may go on with a number of each column, and where it may have come
    // out of one.
    let columns = 0..parts.slot_starts.len() as u8 - 1;
    let into: Vec<Vec<usize>> = columns.clone().map(|c| cuts(parts.form(c), true)).collect();
    let out_of: Vec<Vec<usize>> = columns.map(|c| cuts(parts.form(c), false)).collect();
    if into.iter().all(Vec::is_empty) && out_of.iter().all(Vec::is_empty) {
        return;
    }
    let equal = |a: &[u8], b: &[u8]| {
        if text.ignore_case { a.eq_ignore_ascii_case(b) } else { a == b }
    };
    let mut slot = 0;
    for (segment, flag) in flags.iter_mut().enumerate() {
        while parts.slot_starts.get(slot + 1).is_some_and(|&start| start as usize <= segment) {
            slot += 1;
        }
        let own = parts.segment(segment);
        let next = parts.nexts[segment];
        let none = Vec::new();
        let into = if next == END { &none } else { &into[usize::from(next)] };
        let out_of = if slot == 0 { &none } else { &out_of[slot - 1] };
        let begins = into
            .iter()
            .any(|&cut| cut <= own.len() && equal(&own[own.len() - cut..], &needle[..cut]));
        let ends = out_of.iter().any(|&cut| {
            let len = needle.len() - cut;
            len <= own.len() && equal(&own[..len], &needle[cut..])
        });
        let is_covered = out_of.iter().any(|&cut| {
            let end = cut + own.len();
            !own.is_empty() && into.contains(&end) && equal(own, &needle[cut..end])
        });
        if begins || ends || is_covered {
            *flag |= trace;
        }
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;

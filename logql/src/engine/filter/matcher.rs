//! One operand of a line filter: the test of a single line, and the search that
//! finds candidates over many contiguous lines at once.

use memchr::memmem::Finder;

use super::super::block::Lines;
use super::super::ip::IpSet;
use super::super::literals::{Literal, needles_of};
use super::super::meter::Meter;
use super::super::regex::{self as patterns, Anchoring};
use super::pattern::LinePattern;
use super::selection::Selection;
use crate::syntax::ast::{LineFilterOp, LineOperand};

/// The test of one line.
#[derive(Debug)]
enum Test {
    /// Every line passes.
    Everything,
    Literal(Box<Finder<'static>>),
    Regex(regex::bytes::Regex),
    Pattern(LinePattern),
    Ip(IpSet),
}

/// Finds candidates in the contiguous lines of a block. Every line that passes
/// the test has a hit that starts in it.
#[derive(Debug)]
enum Search {
    Literal(Box<Finder<'static>>),
    Regex(regex::bytes::Regex),
}

impl Search {
    /// The first hit in `bytes[from..]`, as a range of `bytes`.
    fn find(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Literal(finder) => {
                let start = from + finder.find(&bytes[from..])?;
                Some((start, start + finder.needle().len()))
            }
            Self::Regex(regex) => {
                let hit = regex.find_at(bytes, from)?;
                Some((hit.start(), hit.end()))
            }
        }
    }
}

/// Lines are searched in windows of about this size, with a check of the meter between them.
const WINDOW_BYTES: usize = 256 << 10;

fn finder_bytes(finder: &Finder<'_>) -> usize {
    size_of::<Finder<'_>>() + finder.needle().len()
}

/// Memory of [`patterns::alternation`] in bytes, about.
fn alternation_bytes<'n>(needles: impl Iterator<Item = (&'n [u8], bool)>) -> usize {
    let cost = needles.map(|(needle, ignore_case)| needle.len() * if ignore_case { 3 } else { 1 });
    patterns::held_bytes(cost.sum::<usize>() as u64)
}

fn finder_of(needle: &[u8]) -> Box<Finder<'static>> {
    Box::new(Finder::new(needle).into_owned())
}

/// A compiled operand.
#[derive(Debug)]
pub(crate) struct LineMatcher {
    test: Test,
    search: Option<Search>,
    /// A hit that ends within its line is a match and needs no test.
    hit_is_match: bool,
    /// Memory of the regular expressions in bytes, about.
    regex_bytes: usize,
}

impl LineMatcher {
    /// Compiles an operand of `op`.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(op: LineFilterOp, operand: &LineOperand) -> Result<Self, String> {
        let text = match operand {
            LineOperand::Text(text) => text.as_bytes(),
            LineOperand::Ip(pattern) => {
                return match op {
                    LineFilterOp::Contains | LineFilterOp::NotContains => Self::ip(pattern),
                    _ => Err("ip: invalid operation".to_owned()),
                };
            }
        };
        match op {
            LineFilterOp::Contains | LineFilterOp::NotContains => Ok(Self::literal(text)),
            LineFilterOp::Regex | LineFilterOp::NotRegex => Self::regex(text),
            LineFilterOp::Pattern | LineFilterOp::NotPattern => Self::pattern(text),
        }
    }

    /// Lines that contain `needle`.
    pub(crate) fn literal(needle: &[u8]) -> Self {
        if needle.is_empty() {
            return Self {
                test: Test::Everything,
                search: None,
                hit_is_match: false,
                regex_bytes: 0,
            };
        }
        let finder = finder_of(needle);
        let search = Some(Search::Literal(finder.clone()));
        Self { test: Test::Literal(finder), search, hit_is_match: true, regex_bytes: 0 }
    }

    /// Lines that contain one of several non-empty needles. A needle may ignore the case
    /// of its ASCII letters.
    pub(crate) fn any_literal<'n>(
        needles: impl Iterator<Item = (&'n [u8], bool)> + Clone,
    ) -> Result<Self, String> {
        let regex_bytes = alternation_bytes(needles.clone());
        let regex = patterns::alternation(needles)?;
        let search = Some(Search::Regex(regex.clone()));
        Ok(Self { test: Test::Regex(regex), search, hit_is_match: true, regex_bytes })
    }

    fn ip(pattern: &[u8]) -> Result<Self, String> {
        let set = std::str::from_utf8(pattern).ok().and_then(IpSet::parse).ok_or_else(|| {
            format!("ip: invalid pattern: \"{}\"", String::from_utf8_lossy(pattern))
        })?;
        let search = set.common_text().map(|text| Search::Literal(finder_of(text.as_bytes())));
        Ok(Self { test: Test::Ip(set), search, hit_is_match: false, regex_bytes: 0 })
    }

    fn pattern(pattern: &[u8]) -> Result<Self, String> {
        let pattern = LinePattern::parse(pattern)?;
        let search = pattern.longest_literal().map(|literal| Search::Literal(finder_of(literal)));
        Ok(Self { test: Test::Pattern(pattern), search, hit_is_match: false, regex_bytes: 0 })
    }

    fn regex(pattern: &[u8]) -> Result<Self, String> {
        let compiled = patterns::compile(pattern, Anchoring::Search)?;
        if patterns::matches_everything(&compiled.hir) {
            return Ok(Self {
                test: Test::Everything,
                search: None,
                hit_is_match: false,
                regex_bytes: 0,
            });
        }
        if let Some(literal) = patterns::as_literal(&compiled.hir) {
            return Ok(Self::literal(literal));
        }
        let regex = compiled.regex;
        let mut regex_bytes = patterns::held_bytes(compiled.cost);
        if patterns::searches_blocks(&compiled.hir) {
            let search = Some(Search::Regex(regex.clone()));
            return Ok(Self { test: Test::Regex(regex), search, hit_is_match: true, regex_bytes });
        }
        let search = match needles_of(&compiled.hir).as_deref() {
            Some([Literal { bytes, ignore_case: false }]) => {
                Some(Search::Literal(finder_of(bytes)))
            }
            Some(needles) => {
                let needles = needles.iter().map(|n| (n.bytes.as_slice(), n.ignore_case));
                regex_bytes += alternation_bytes(needles.clone());
                Some(Search::Regex(patterns::alternation(needles)?))
            }
            None => None,
        };
        Ok(Self { test: Test::Regex(regex), search, hit_is_match: false, regex_bytes })
    }

    /// True when every line passes.
    pub(crate) fn passes_everything(&self) -> bool {
        matches!(self.test, Test::Everything)
    }

    /// The needle when the operand is a plain substring.
    pub(crate) fn as_literal(&self) -> Option<&[u8]> {
        match &self.test {
            Test::Literal(finder) => Some(finder.needle()),
            _ => None,
        }
    }

    /// How dear the operand is per block, for ordering the filters of a chain.
    pub(crate) fn cost(&self) -> u32 {
        match (&self.search, &self.test) {
            (Some(Search::Literal(_)), Test::Literal(_)) => 0,
            (Some(Search::Literal(_)), _) => 1,
            (Some(Search::Regex(_)), _) => 2,
            (None, Test::Ip(_)) => 4,
            (None, _) => 3,
        }
    }

    /// The work of testing a byte of a line, see [`super::super::meter`].
    pub(crate) fn work_factor(&self) -> usize {
        match &self.test {
            Test::Everything | Test::Literal(_) | Test::Pattern(_) => 1,
            Test::Regex(_) => 2,
            Test::Ip(_) => 4,
        }
    }

    /// Heap memory in bytes; of regular expressions about.
    pub(crate) fn held_bytes(&self) -> usize {
        let search = match &self.search {
            Some(Search::Literal(finder)) => finder_bytes(finder),
            Some(Search::Regex(_)) | None => 0,
        };
        search
            + self.regex_bytes
            + match &self.test {
                Test::Everything | Test::Ip(_) | Test::Regex(_) => 0,
                Test::Literal(finder) => finder_bytes(finder),
                Test::Pattern(pattern) => pattern.held_bytes(),
            }
    }

    /// Tests one line.
    pub(crate) fn matches(&self, line: &[u8]) -> bool {
        match &self.test {
            Test::Everything => true,
            Test::Literal(finder) => finder.find(line).is_some(),
            Test::Regex(regex) => regex.is_match(line),
            Test::Pattern(pattern) => pattern.matches(line),
            Test::Ip(set) => set.found_in(line),
        }
    }

    /// True when [`LineMatcher::search`] can be used.
    pub(crate) fn can_search(&self) -> bool {
        self.search.is_some()
    }

    /// Narrows `selection` to the lines that match (that do not match, when
    /// `negated`), searching the block's contiguous bytes. Equivalent to testing
    /// every selected line, unless the leaf ends meanwhile.
    pub(crate) fn search(
        &self,
        lines: &Lines<'_>,
        negated: bool,
        selection: &mut Selection,
        meter: &Meter,
    ) {
        let Some(search) = &self.search else {
            selection.retain(|line| self.matches(lines.get(line)) != negated);
            return;
        };
        let (mut first, end) = selection.range();
        while first < end {
            let start = lines.start(first);
            // The window's last line ends behind it.
            let last = lines.line_at((start + WINDOW_BYTES).min(lines.end(end - 1)), first);
            let window = first..(last + 1).min(end);
            let window_bytes = lines.end(window.end - 1) - start;
            if !meter.work(window_bytes + window.len()) {
                return;
            }
            self.search_in(search, lines, window.clone(), negated, selection, meter);
            first = window.end;
        }
    }

    /// The same for some of the lines.
    fn search_in(
        &self,
        search: &Search,
        lines: &Lines<'_>,
        window: std::ops::Range<usize>,
        negated: bool,
        selection: &mut Selection,
        meter: &Meter,
    ) {
        let (first, end) = (window.start, window.end);
        let bytes = &lines.bytes[..lines.end(end - 1)];
        let mut line = first;
        let mut offset = lines.start(first);
        while let Some((hit_start, hit_end)) = search.find(bytes, offset) {
            let candidate = lines.line_at(hit_start, line);
            let line_end = lines.end(candidate);
            if !negated {
                selection.clear_range(line, candidate);
            }
            if selection.get(candidate) {
                // A literal that crosses the line's end has no room further right
                // in that line either; other tests decide.
                let matched = if self.hit_is_match && hit_end <= line_end {
                    true
                } else if matches!(self.test, Test::Literal(_)) {
                    false
                } else {
                    let line = lines.get(candidate);
                    meter.work(line.len() * self.work_factor()) && self.matches(line)
                };
                if matched == negated {
                    selection.clear(candidate);
                }
            }
            line = candidate + 1;
            offset = line_end;
        }
        if !negated {
            selection.clear_range(line, end);
        }
    }
}

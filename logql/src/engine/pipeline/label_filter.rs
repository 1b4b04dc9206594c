//! Label filters: `| status >= 500 and method = "GET"`.
//!
//! A value that cannot be compared keeps its entry, with an error, unless the filter is guarded,
//! see [`super::error_guard`]. Regular expressions work as in stream selectors: they are fully
//! anchored, and a `.` matches every character.
//!
//! Three defects of Loki are not copied:
//! - Loki also applies a filter inside the parsers before it. Here a filter is evaluated where it
//!   stands.
//! - Loki turns some regular expressions into tests for a part of the value. Here all are anchored.
//! - Loki takes a bad `ip` pattern below an `and` or an `or` for false. Here it is an error.

use super::super::convert;
use super::super::interner::equal;
use super::super::ip::IpSet;
use super::super::labels::{ERROR, EntryLabels, NameId};
use super::super::matcher::CompiledMatcher;
use super::super::regex as patterns;
use super::{CompiledStage, Entry};
use crate::syntax::ast::{self, CompareOp, MatchOp, Matcher};
use crate::syntax::go_regex::{Purpose, translate};

/// Most texts that are compared one after the other.
const MAX_LITERALS: usize = 16;
/// The error of a value that cannot be converted.
const FILTER_ERROR: &[u8] = b"LabelFilterErr";

/// The work of a test besides the bytes of the value, see [`super::super::meter`].
const TEST_WORK: usize = 16;
/// The work of a byte of a value.
const TEST_FACTOR: usize = 2;

/// The right-hand side of a comparison of strings.
#[derive(Debug)]
enum Text {
    /// Any of these.
    Literals(Vec<Box<[u8]>>),
    /// The pattern of the matcher, with its size in bytes, about.
    Pattern(Box<CompiledMatcher>, usize),
}

impl Text {
    fn compile(matcher: &Matcher) -> Result<Self, String> {
        let value = matcher.value.as_bytes();
        if matches!(matcher.op, MatchOp::Equal | MatchOp::NotEqual) {
            return Ok(Self::Literals(vec![value.into()]));
        }
        let pattern = CompiledMatcher::new(matcher)?;
        if let Some(literals) = pattern.pattern_literals()
            && literals.len() <= MAX_LITERALS
        {
            let literals = literals.iter().map(|text| text.as_bytes().into());
            return Ok(Self::Literals(literals.collect()));
        }
        let cost = translate(value, Purpose::Matcher)?.cost;
        Ok(Self::Pattern(Box::new(pattern), patterns::held_bytes(cost)))
    }

    fn held_bytes(&self) -> usize {
        match self {
            Self::Literals(literals) => {
                literals.capacity() * size_of::<Box<[u8]>>()
                    + literals.iter().map(|literal| literal.len()).sum::<usize>()
            }
            Self::Pattern(_, bytes) => size_of::<CompiledMatcher>() + bytes,
        }
    }

    fn accepts(&self, value: &[u8]) -> bool {
        match self {
            Self::Literals(literals) => literals.iter().any(|literal| equal(literal, value)),
            Self::Pattern(pattern, _) => pattern.pattern_matches_bytes(value),
        }
    }
}

/// The right-hand side of a comparison.
#[derive(Debug)]
enum Test {
    Text { text: Text, is_negated: bool },
    Number { op: CompareOp, value: f64 },
    Duration { op: CompareOp, value_ns: i64 },
    Bytes { op: CompareOp, value_bytes: i128 },
    Ip { set: IpSet, is_negated: bool },
}

/// A compiled filter.
#[derive(Debug)]
pub(crate) enum LabelFilter {
    Test(NameId, Box<LabelTest>),
    And(Box<LabelFilter>, Box<LabelFilter>),
    Or(Box<LabelFilter>, Box<LabelFilter>),
}

/// The test of one label.
#[derive(Debug)]
pub(crate) struct LabelTest {
    test: Test,
    /// Behind an error guard: a comparison that cannot be made ends the filter.
    is_guarded: bool,
}

/// A comparison behind an error guard cannot be made.
struct Incomparable;

impl LabelFilter {
    /// Compiles a filter. One that `is_guarded` drops an entry with which a comparison cannot
    /// be made.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(
        filter: &ast::LabelFilter,
        is_guarded: bool,
        labels: &mut EntryLabels,
    ) -> Result<Self, String> {
        let (name, test) = match filter {
            ast::LabelFilter::And(left, right) | ast::LabelFilter::Or(left, right) => {
                let left = Box::new(Self::compile(left, is_guarded, labels)?);
                let right = Box::new(Self::compile(right, is_guarded, labels)?);
                return Ok(match filter {
                    ast::LabelFilter::And(..) => Self::And(left, right),
                    _ => Self::Or(left, right),
                });
            }
            ast::LabelFilter::String(matcher) => {
                let is_negated = matches!(matcher.op, MatchOp::NotEqual | MatchOp::NotRegex);
                (&matcher.name, Test::Text { text: Text::compile(matcher)?, is_negated })
            }
            ast::LabelFilter::Number { name, op, value } => {
                (name, Test::Number { op: *op, value: *value })
            }
            ast::LabelFilter::Duration { name, op, value_ns } => {
                (name, Test::Duration { op: *op, value_ns: *value_ns })
            }
            ast::LabelFilter::Bytes { name, op, value_bytes } => {
                (name, Test::Bytes { op: *op, value_bytes: *value_bytes })
            }
            ast::LabelFilter::Ip { name, negated, pattern } => {
                let set = pattern.as_str().and_then(IpSet::parse).ok_or_else(|| {
                    format!("ip: invalid pattern: \"{}\"", pattern.to_string_lossy())
                })?;
                (name, Test::Ip { set, is_negated: *negated })
            }
        };
        let test = Box::new(LabelTest { test, is_guarded });
        Ok(Self::Test(labels.name_id(name.as_bytes()), test))
    }

    /// Heap memory in bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Test(_, test) => {
                let text = match &test.test {
                    Test::Text { text, .. } => text.held_bytes(),
                    _ => 0,
                };
                size_of::<LabelTest>() + text
            }
            Self::And(left, right) | Self::Or(left, right) => {
                2 * size_of::<Self>() + left.held_bytes() + right.held_bytes()
            }
        }
    }

    /// Whether the entry is kept. A value that cannot be converted keeps the entry
    /// and sets its error, unless an earlier one is there, or the filter is guarded.
    pub(crate) fn keeps(&self, labels: &mut EntryLabels) -> bool {
        matches!(self.admits(labels), Ok(true))
    }

    fn admits(&self, labels: &mut EntryLabels) -> Result<bool, Incomparable> {
        Ok(match self {
            Self::Test(name, test) => test.admits(*name, labels)?,
            // The right side may set an error, but an entry that the left side has
            // rejected is gone with its errors.
            Self::And(left, right) => left.admits(labels)? && right.admits(labels)?,
            Self::Or(left, right) => left.admits(labels)? || right.admits(labels)?,
        })
    }

    /// Calls `visit` for the names of all labels the filter reads.
    pub(crate) fn for_each_name(filter: &ast::LabelFilter, visit: &mut impl FnMut(&str)) {
        match filter {
            ast::LabelFilter::String(matcher) => visit(&matcher.name),
            ast::LabelFilter::Number { name, .. }
            | ast::LabelFilter::Duration { name, .. }
            | ast::LabelFilter::Bytes { name, .. }
            | ast::LabelFilter::Ip { name, .. } => visit(name),
            ast::LabelFilter::And(left, right) | ast::LabelFilter::Or(left, right) => {
                Self::for_each_name(left, visit);
                Self::for_each_name(right, visit);
            }
        }
    }
}

impl CompiledStage for LabelFilter {
    type Outcome = bool;

    fn process(&mut self, entry: &mut Entry<'_>) -> bool {
        self.keeps(entry.labels)
    }

    fn held_bytes(&self) -> usize {
        LabelFilter::held_bytes(self)
    }
}

impl LabelTest {
    fn admits(&self, name: NameId, labels: &mut EntryLabels) -> Result<bool, Incomparable> {
        let value = if name == ERROR && matches!(self.test, Test::Text { .. }) {
            labels.error()
        } else {
            labels.get(name)
        };
        let meter = labels.meter();
        if !meter.work(TEST_WORK + value.map_or(0, <[u8]>::len) * TEST_FACTOR) {
            return Ok(false);
        }
        match (&self.test, value) {
            (Test::Text { text, is_negated }, value) => {
                Ok(text.accepts(value.unwrap_or_default()) != *is_negated)
            }
            (Test::Ip { set, is_negated }, value) => Ok(labels.error().is_some()
                || value.is_some_and(|value| set.found_in(value) != *is_negated)),
            (_, None) => Ok(false),
            (test, Some(value)) => {
                let spare_bytes = convert::spare_bytes(value);
                if !meter.admit(spare_bytes) {
                    return Ok(false);
                }
                let outcome = match test.accepts_number(value) {
                    Ok(holds) => Ok(holds),
                    Err(_) if self.is_guarded => Err(Incomparable),
                    Err(details) => {
                        if labels.error().is_none() {
                            labels.set_error(FILTER_ERROR, details.as_bytes());
                        }
                        Ok(true)
                    }
                };
                labels.meter().release(spare_bytes);
                outcome
            }
        }
    }
}

impl Test {
    /// Whether a value passes that is to be converted.
    fn accepts_number(&self, text: &[u8]) -> Result<bool, String> {
        match self {
            Self::Number { op, value } => {
                convert::number(text).map(|number| compare(number, *op, *value))
            }
            Self::Duration { op, value_ns } => {
                convert::duration_ns(text).map(|duration_ns| compare(duration_ns, *op, *value_ns))
            }
            Self::Bytes { op, value_bytes } => {
                convert::bytes(text).map(|size| compare(i128::from(size), *op, *value_bytes))
            }
            // They compare the text.
            Self::Text { .. } | Self::Ip { .. } => Ok(false),
        }
    }
}

fn compare<T: PartialOrd>(left: T, op: CompareOp, right: T) -> bool {
    match op {
        CompareOp::Equal => left == right,
        CompareOp::NotEqual => left != right,
        CompareOp::Greater => left > right,
        CompareOp::GreaterOrEqual => left >= right,
        CompareOp::Less => left < right,
        CompareOp::LessOrEqual => left <= right,
    }
}

//! Label filters: `| status >= 500 and method = "GET"`, section 7 of the language
//! reference.
//!
//! A filter is evaluated where it stands and on nothing else (the reference also
//! applies it inside parsers, Q11), its regular expressions are those of stream
//! selectors, fully anchored (Q10) and with a `.` for every character, and a bad `ip`
//! pattern is reported wherever it is nested (Q3). A value that cannot be compared keeps
//! its entry, with an error, unless the filter is guarded, see [`super::error_guard`].

use super::super::interner::equal;
use super::super::ip::IpSet;
use super::super::matcher::CompiledMatcher;
use super::convert;
use super::labels::{ERROR, EntryLabels, NameId};
use crate::syntax::ast::{self, CompareOp, MatchOp, Matcher};

/// Most texts that are compared one after the other.
const MAX_LITERALS: usize = 16;
/// The error of a value that cannot be converted.
const FILTER_ERROR: &[u8] = b"LabelFilterErr";

/// What a string is compared with.
#[derive(Debug)]
enum Text {
    /// Any of these.
    Literals(Vec<Box<[u8]>>),
    /// What the pattern of the matcher accepts.
    Pattern(Box<CompiledMatcher>),
}

impl Text {
    fn compile(matcher: &Matcher) -> Result<Self, String> {
        let value = matcher.value.as_bytes();
        if matches!(matcher.op, MatchOp::Equal | MatchOp::NotEqual) {
            return Ok(Self::Literals(vec![value.into()]));
        }
        let pattern = CompiledMatcher::new(matcher)?;
        match pattern.pattern_literals() {
            Some(literals) if literals.len() <= MAX_LITERALS => {
                Ok(Self::Literals(literals.iter().map(|text| text.as_bytes().into()).collect()))
            }
            _ => Ok(Self::Pattern(Box::new(pattern))),
        }
    }

    fn accepts(&self, value: &[u8]) -> bool {
        match self {
            Self::Literals(literals) => literals.iter().any(|literal| equal(literal, value)),
            Self::Pattern(pattern) => pattern.pattern_matches_bytes(value),
        }
    }
}

/// What a label is compared with.
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
    /// The detail of the reference's stage error.
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

impl LabelTest {
    fn admits(&self, name: NameId, labels: &mut EntryLabels) -> Result<bool, Incomparable> {
        let outcome = match &self.test {
            Test::Text { text, is_negated } => {
                let value = if name == ERROR { labels.error() } else { labels.get(name) };
                return Ok(text.accepts(value.unwrap_or_default()) != *is_negated);
            }
            Test::Ip { set, is_negated } => {
                return Ok(labels.error().is_some()
                    || labels.get(name).is_some_and(|value| set.found_in(value) != *is_negated));
            }
            Test::Number { op, value } => {
                let Some(text) = labels.get(name) else { return Ok(false) };
                convert::number(text).map(|number| compare(number, *op, *value))
            }
            Test::Duration { op, value_ns } => {
                let Some(text) = labels.get(name) else { return Ok(false) };
                convert::duration_ns(text).map(|duration_ns| compare(duration_ns, *op, *value_ns))
            }
            Test::Bytes { op, value_bytes } => {
                let Some(text) = labels.get(name) else { return Ok(false) };
                convert::bytes(text).map(|size| compare(i128::from(size), *op, *value_bytes))
            }
        };
        let details = match outcome {
            Ok(holds) => return Ok(holds),
            Err(_) if self.is_guarded => return Err(Incomparable),
            Err(details) => details,
        };
        if labels.error().is_none() {
            labels.set_error(FILTER_ERROR, details.as_bytes());
        }
        Ok(true)
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

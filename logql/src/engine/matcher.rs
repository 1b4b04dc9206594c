//! Compiled matchers of label values, for stream selectors, label filters, `drop` and `keep`.
//!
//! A matcher is a *pattern*, perhaps negated. A shard resolves the selector of a leaf on its index.
//! For each matcher it looks up the values of [`CompiledMatcher::pattern_literals`], or tests the
//! values of the label with [`CompiledMatcher::pattern_walk`]. An absent label counts as the empty
//! value.

mod walk;

use memchr::memmem::Finder;
use regex_syntax::hir::{Dot, Hir, HirKind};

use super::literals::needles_of;
use super::regex::{self as patterns, Anchoring};
use crate::syntax::ast::{MatchOp, Matcher};
pub use walk::{PatternOutcome, PatternWalk};

/// Most alternatives a pattern is expanded to.
const MAX_LITERALS: usize = 128;

/// Shortest text that is looked for in a value before its pattern is tried.
const NEEDLE_MIN_LEN_BYTES: usize = 3;

/// The values that the pattern of a matcher accepts.
#[derive(Debug)]
enum Accepts {
    Everything,
    /// `.+`
    NonEmpty,
    /// Sorted, without duplicates.
    Literals(Vec<String>),
    /// `prefix.*`
    Prefix(Box<str>),
    /// `.*needle.*`
    Contains(Box<Finder<'static>>),
    Regex(Box<Expression>),
}

/// A pattern of no simpler shape.
#[derive(Debug)]
struct Expression {
    regex: regex::bytes::Regex,
    /// Its size in bytes, about.
    regex_bytes: usize,
    /// The pattern without its anchors.
    hir: Hir,
    /// A text in every value that matches.
    needle: Option<Finder<'static>>,
}

/// A matcher of a label's value. Regular expressions are fully anchored and `.`
/// matches every character, unless the pattern says `(?-s)`.
#[derive(Debug)]
pub struct CompiledMatcher {
    /// What it was compiled from.
    source: Matcher,
    accepts: Accepts,
    negated: bool,
}

impl CompiledMatcher {
    /// Compiles a matcher.
    ///
    /// # Errors
    /// `error parsing regexp: ...` for a bad pattern; the parser has checked the patterns
    /// of parsed queries.
    pub fn new(matcher: &Matcher) -> Result<Self, String> {
        let accepts = match matcher.op {
            MatchOp::Equal | MatchOp::NotEqual => {
                Accepts::Literals(vec![matcher.value.to_string_lossy().into_owned()])
            }
            MatchOp::Regex | MatchOp::NotRegex => accepts_of(matcher.value.as_bytes())?,
        };
        let negated = matches!(matcher.op, MatchOp::NotEqual | MatchOp::NotRegex);
        Ok(Self { source: matcher.clone(), accepts, negated })
    }

    /// Heap memory in bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.source.name.capacity()
            + self.source.value.len()
            + match &self.accepts {
                Accepts::Everything | Accepts::NonEmpty => 0,
                Accepts::Literals(literals) => {
                    literals.capacity() * size_of::<String>()
                        + literals.iter().map(String::capacity).sum::<usize>()
                }
                Accepts::Prefix(prefix) => prefix.len(),
                Accepts::Contains(finder) => size_of::<Finder<'_>>() + finder.needle().len(),
                Accepts::Regex(expression) => {
                    // The syntax tree is of about the size of the automaton.
                    size_of::<Expression>() + 2 * expression.regex_bytes
                }
            }
    }

    /// The label's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// What it was compiled from.
    #[must_use]
    pub fn source(&self) -> &Matcher {
        &self.source
    }

    /// Tests a label value; pass "" for an absent label.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        self.pattern_matches(value) != self.negated
    }

    /// Whether the matcher accepts the values that its pattern rejects.
    #[must_use]
    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// Tests a label value as if the matcher were not negated.
    #[must_use]
    pub fn pattern_matches(&self, value: &str) -> bool {
        self.accepts.accepts(value.as_bytes())
    }

    /// The same for the value of an entry's label, which is valid text as well.
    pub(crate) fn pattern_matches_bytes(&self, value: &[u8]) -> bool {
        self.accepts.accepts(value)
    }

    /// Whether the pattern matches every value.
    #[must_use]
    pub fn pattern_accepts_all(&self) -> bool {
        matches!(self.accepts, Accepts::Everything)
    }

    /// Whether the pattern matches every value but the empty one.
    #[must_use]
    pub fn pattern_accepts_non_empty(&self) -> bool {
        matches!(self.accepts, Accepts::NonEmpty)
    }

    /// The only values that the pattern matches, sorted, when these are few: of `a="x"`,
    /// `a!="x"` and `a=~"x|y"`. The empty string among them stands for streams without
    /// the label.
    #[must_use]
    pub fn pattern_literals(&self) -> Option<&[String]> {
        match &self.accepts {
            Accepts::Literals(literals) => Some(literals),
            _ => None,
        }
    }

    /// Whether there are values that the pattern rejects for how they begin, as far as that
    /// is known without trying.
    #[must_use]
    pub fn pattern_rejects_beginnings(&self) -> bool {
        match &self.accepts {
            Accepts::Prefix(_) => true,
            Accepts::Regex(expression) => !begins_with_any_run(&expression.hir),
            _ => false,
        }
    }
}

impl Accepts {
    fn accepts(&self, value: &[u8]) -> bool {
        match self {
            Self::Everything => true,
            Self::NonEmpty => !value.is_empty(),
            Self::Literals(literals) => {
                literals.binary_search_by(|literal| literal.as_bytes().cmp(value)).is_ok()
            }
            Self::Prefix(prefix) => value.starts_with(prefix.as_bytes()),
            Self::Contains(finder) => finder.find(value).is_some(),
            Self::Regex(expression) => expression.matches(value),
        }
    }
}

impl Expression {
    fn new(pattern: patterns::Pattern) -> Self {
        let needle = needle_of(&pattern.hir);
        let regex_bytes = patterns::held_bytes(pattern.cost);
        Self { needle, regex: pattern.regex, regex_bytes, hir: pattern.hir }
    }

    fn matches(&self, value: &[u8]) -> bool {
        self.needle.as_ref().is_none_or(|needle| needle.find(value).is_some())
            && self.regex.is_match(value)
    }
}

/// A text that every match contains, if it is worth looking for.
fn needle_of(hir: &Hir) -> Option<Finder<'static>> {
    match needles_of(hir)?.as_slice() {
        [only] if !only.ignore_case && only.bytes.len() >= NEEDLE_MIN_LEN_BYTES => {
            Some(Finder::new(&only.bytes).into_owned())
        }
        _ => None,
    }
}

fn accepts_of(pattern: &[u8]) -> Result<Accepts, String> {
    let compiled = patterns::compile(pattern, Anchoring::Full)?;
    if let Some(strings) = patterns::as_literal_set(&compiled.hir, MAX_LITERALS) {
        let literals: Result<Vec<String>, _> = strings.into_iter().map(String::from_utf8).collect();
        // A literal that is not UTF-8 equals no label value, but is left to the regex.
        if let Ok(literals) = literals {
            return Ok(Accepts::Literals(literals));
        }
    }
    let shape = shape_of(&compiled.hir);
    Ok(shape.unwrap_or_else(|| Accepts::Regex(Box::new(Expression::new(compiled)))))
}

/// Recognises `.*`, `.+`, `literal.*` and `.*literal.*`.
fn shape_of(hir: &Hir) -> Option<Accepts> {
    if let Some(min) = any_run(hir) {
        return Some(if min == 0 { Accepts::Everything } else { Accepts::NonEmpty });
    }
    let HirKind::Concat(parts) = hir.kind() else {
        return None;
    };
    match parts.as_slice() {
        [first, last] if any_run(last) == Some(0) => {
            let literal = patterns::as_literal(first)?;
            Some(Accepts::Prefix(std::str::from_utf8(literal).ok()?.into()))
        }
        [first, middle, last] if any_run(first) == Some(0) && any_run(last) == Some(0) => {
            let literal = patterns::as_literal(middle)?;
            Some(Accepts::Contains(Box::new(Finder::new(literal).into_owned())))
        }
        _ => None,
    }
}

/// The minimum of `.*` (0) or `.+` (1) over any character. Label values are valid
/// UTF-8, so such a run takes every value.
fn any_run(hir: &Hir) -> Option<u32> {
    match hir.kind() {
        HirKind::Capture(capture) => any_run(&capture.sub),
        HirKind::Repetition(repetition)
            if repetition.min <= 1
                && repetition.max.is_none()
                && *repetition.sub == Hir::dot(Dot::AnyChar) =>
        {
            Some(repetition.min)
        }
        _ => None,
    }
}

/// Whether a pattern begins with `.*` or `.+`.
fn begins_with_any_run(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(capture) => begins_with_any_run(&capture.sub),
        HirKind::Concat(parts) => parts.first().is_some_and(begins_with_any_run),
        _ => any_run(hir).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ast::Text;

    fn matcher(op: MatchOp, value: &str) -> CompiledMatcher {
        CompiledMatcher::new(&Matcher { name: "a".into(), op, value: Text::from(value) })
            .expect("valid")
    }

    const VALUES: [&str; 10] = ["", "a", "b", "ab", "abc", "xabcx", "A", "a\nb", "foo", "foobar"];

    #[test]
    fn shapes_and_literal_sets_match_like_the_anchored_regex() {
        for pattern in [
            "",
            "a",
            "a|b",
            "ab.*",
            ".*ab.*",
            ".*",
            ".+",
            "(.*)",
            "foo(bar)?",
            "a.b",
            "(?i)ab?",
            "^ab$",
            ".*ab",
            "[a-c]+",
            "x|",
            "(a|b)",
            "foo|foobar",
            ".*(a|x).*",
            "(?s).*",
            "a?.*",
            "(?-s)a.*",
            "(?-s).*",
            "(?-s).+",
            "(?-s).*b.*",
            "(?-s:a.)b",
            "a(?-s).*",
            "(?m)a$.^b",
            "(?m-s).*b",
            "(?U)a.*",
            "(?i-s)A.*",
        ] {
            let plain = regex::Regex::new(&format!(r"\A(?s:{pattern})\z")).expect("valid");
            let positive = matcher(MatchOp::Regex, pattern);
            let negative = matcher(MatchOp::NotRegex, pattern);
            for value in VALUES {
                assert_eq!(positive.matches(value), plain.is_match(value), "{pattern} on {value}");
                assert_eq!(negative.matches(value), !plain.is_match(value), "{pattern} on {value}");
            }
        }
    }

    #[test]
    fn the_index_learns_what_can_match() {
        assert_eq!(
            matcher(MatchOp::Regex, "b|a|ab").pattern_literals().expect("few"),
            ["a", "ab", "b"]
        );
        for op in [MatchOp::Equal, MatchOp::NotEqual] {
            assert_eq!(matcher(op, "x").pattern_literals().expect("one"), ["x"]);
        }
        assert!(matches!(matcher(MatchOp::Regex, ".*ab.*").accepts, Accepts::Contains(_)));
        assert!(matches!(matcher(MatchOp::Regex, ".+").accepts, Accepts::NonEmpty));
        assert!(matcher(MatchOp::NotRegex, ".*").pattern_accepts_all());
        assert!(!matcher(MatchOp::Regex, ".+").pattern_accepts_all());
    }

    #[test]
    fn it_is_known_what_can_be_rejected_early() {
        let known = [
            ("foo.*", true, None),
            ("foo-.*-[0-9]+", true, Some("foo-")),
            ("foo-.*-stage-[0-9]+", true, Some("-stage-")),
            (".*-pod-[0-9]+", false, Some("-pod-")),
            ("((.+)-[0-9]+)x", false, None),
            (".*ab.*", false, None),
            (".+", false, None),
            ("(?i)foo[0-9]+", true, None),
            ("a?b+", true, None),
            ("foo|b.*", true, None),
        ];
        for (pattern, rejects_beginnings, needle) in known {
            for op in [MatchOp::Regex, MatchOp::NotRegex] {
                let matcher = matcher(op, pattern);
                assert_eq!(matcher.pattern_rejects_beginnings(), rejects_beginnings, "{pattern}");
                let Accepts::Regex(expression) = &matcher.accepts else {
                    assert_eq!(needle, None, "{pattern}");
                    continue;
                };
                let found = expression.needle.as_ref().map(Finder::needle);
                assert_eq!(found, needle.map(str::as_bytes), "{pattern}");
            }
        }
    }

    #[test]
    fn equality_is_exact() {
        assert!(matcher(MatchOp::Equal, "ab").matches("ab"));
        assert!(!matcher(MatchOp::Equal, "ab").matches("abc"));
        assert!(matcher(MatchOp::NotEqual, "ab").matches(""));
        assert!(matcher(MatchOp::NotEqual, "ab").is_negated());
        assert!(matcher(MatchOp::NotEqual, "ab").pattern_matches("ab"));
    }
}

//! Label matchers of stream selectors, compiled.
//!
//! A shard resolves the selector of a leaf on its index: for each matcher it walks
//! the values of the label and asks [`CompiledMatcher::matches`], or looks the
//! values of [`CompiledMatcher::literals`] up directly. An absent label counts as
//! the empty value.

use memchr::memmem::Finder;
use regex_syntax::hir::{Dot, Hir, HirKind};

use super::regex::{self as patterns, Anchoring};
use crate::syntax::ast::{MatchOp, Matcher};

/// Most alternatives a pattern is expanded to.
const MAX_LITERALS: usize = 128;

/// What a positive matcher accepts.
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
    Regex(Box<regex::bytes::Regex>),
}

/// A matcher of a stream selector. Regular expressions are fully anchored and `.`
/// matches every character.
#[derive(Debug)]
pub struct CompiledMatcher {
    name: String,
    accepts: Accepts,
    negated: bool,
}

impl CompiledMatcher {
    /// Compiles a matcher.
    ///
    /// # Errors
    /// `error parsing regexp: ...` for a bad pattern; the parser has checked those
    /// of parsed queries.
    pub fn new(matcher: &Matcher) -> Result<Self, String> {
        let accepts = match matcher.op {
            MatchOp::Equal | MatchOp::NotEqual => {
                Accepts::Literals(vec![matcher.value.to_string_lossy().into_owned()])
            }
            MatchOp::Regex | MatchOp::NotRegex => accepts_of(matcher.value.as_bytes())?,
        };
        let negated = matches!(matcher.op, MatchOp::NotEqual | MatchOp::NotRegex);
        Ok(Self { name: matcher.name.clone(), accepts, negated })
    }

    /// The label's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tests a label value; pass "" for an absent label.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        let accepted = match &self.accepts {
            Accepts::Everything => true,
            Accepts::NonEmpty => !value.is_empty(),
            Accepts::Literals(literals) => {
                literals.binary_search_by(|literal| literal.as_str().cmp(value)).is_ok()
            }
            Accepts::Prefix(prefix) => value.starts_with(&**prefix),
            Accepts::Contains(finder) => finder.find(value.as_bytes()).is_some(),
            Accepts::Regex(regex) => regex.is_match(value.as_bytes()),
        };
        accepted != self.negated
    }

    /// The only values that can match, sorted, when the matcher is positive and
    /// these are few: `a="x"` and `a=~"x|y"`. The empty string among them stands
    /// for streams without the label.
    #[must_use]
    pub fn literals(&self) -> Option<&[String]> {
        match &self.accepts {
            Accepts::Literals(literals) if !self.negated => Some(literals),
            _ => None,
        }
    }

    /// A prefix of every value that matches, for an ordered index.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        match &self.accepts {
            Accepts::Prefix(prefix) if !self.negated => Some(prefix),
            _ => None,
        }
    }

    /// True when streams without the label match, so that the label's postings
    /// alone do not answer the matcher.
    #[must_use]
    pub fn matches_absent(&self) -> bool {
        self.matches("")
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
    Ok(shape_of(&compiled.hir).unwrap_or_else(|| Accepts::Regex(Box::new(compiled.regex))))
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
        assert_eq!(matcher(MatchOp::Regex, "b|a|ab").literals().expect("few"), ["a", "ab", "b"]);
        assert_eq!(matcher(MatchOp::Equal, "x").literals().expect("one"), ["x"]);
        assert_eq!(matcher(MatchOp::NotRegex, "a|b").literals(), None);
        assert_eq!(matcher(MatchOp::Regex, "foo.*").prefix(), Some("foo"));
        assert!(matches!(matcher(MatchOp::Regex, ".*ab.*").accepts, Accepts::Contains(_)));
        assert!(matches!(matcher(MatchOp::Regex, ".+").accepts, Accepts::NonEmpty));
        assert!(matcher(MatchOp::NotEqual, "x").matches_absent());
        assert!(!matcher(MatchOp::Regex, ".+").matches_absent());
    }

    #[test]
    fn equality_is_exact() {
        assert!(matcher(MatchOp::Equal, "ab").matches("ab"));
        assert!(!matcher(MatchOp::Equal, "ab").matches("abc"));
        assert!(matcher(MatchOp::NotEqual, "ab").matches(""));
    }
}

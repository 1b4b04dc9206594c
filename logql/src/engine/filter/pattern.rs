//! The pattern operators `|>` and `!>`: literal text with `<_>` wildcards.

use memchr::memmem::Finder;

use crate::syntax::pattern::{PatternNode, check_no_consecutive_captures, parse_pattern};

/// A compiled line pattern.
#[derive(Debug)]
pub(crate) struct LinePattern {
    /// The literals in order.
    literals: Vec<Finder<'static>>,
    starts_with_wildcard: bool,
    ends_with_wildcard: bool,
}

impl LinePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Loki's message for named and for adjacent captures.
    pub(crate) fn parse(pattern: &[u8]) -> Result<Self, String> {
        let nodes = parse_pattern(pattern);
        check_no_consecutive_captures(&nodes)?;
        let mut literals = Vec::new();
        for node in &nodes {
            match node {
                PatternNode::Literal(literal) => {
                    literals.push(Finder::new(literal).into_owned());
                }
                PatternNode::Capture(None) => {}
                PatternNode::Capture(Some(name)) => {
                    return Err(format!("named captures are not allowed: found '<{name}>'"));
                }
            }
        }
        let is_wildcard =
            |node: Option<&PatternNode>| matches!(node, Some(PatternNode::Capture(_)));
        Ok(Self {
            literals,
            starts_with_wildcard: is_wildcard(nodes.first()),
            ends_with_wildcard: is_wildcard(nodes.last()),
        })
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let texts: usize = self.literals.iter().map(|literal| literal.needle().len()).sum();
        texts + self.literals.capacity() * size_of::<Finder<'_>>()
    }

    /// The longest literal, which every matching line contains.
    pub(crate) fn longest_literal(&self) -> Option<&[u8]> {
        self.literals.iter().map(Finder::needle).max_by_key(|needle| needle.len())
    }

    /// Matches without backtracking: each literal is taken where it occurs first,
    /// a wildcard takes at least one byte, a leading literal is not anchored and a
    /// trailing one is, as in Loki.
    pub(crate) fn matches(&self, line: &[u8]) -> bool {
        let is_empty_pattern = self.literals.is_empty() && !self.ends_with_wildcard;
        if line.is_empty() || is_empty_pattern {
            return line.is_empty() && is_empty_pattern;
        }
        let mut offset = 0;
        for (i, literal) in self.literals.iter().enumerate() {
            let Some(distance) = literal.find(&line[offset..]) else {
                return false;
            };
            let follows_wildcard = i > 0 || self.starts_with_wildcard;
            if follows_wildcard && distance == 0 {
                return false;
            }
            offset += distance + literal.needle().len();
        }
        if self.ends_with_wildcard { offset < line.len() } else { offset == line.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, line: &str) -> bool {
        LinePattern::parse(pattern.as_bytes()).expect("valid").matches(line.as_bytes())
    }

    #[test]
    fn wildcards_take_at_least_one_byte_and_never_backtrack() {
        assert!(matches("<_> /cart <_>", "GET /cart 200"));
        assert!(matches("GET <_>", "x GET y"));
        assert!(!matches("GET <_>", "GET "));
        assert!(matches("<_>ms", "5ms"));
        assert!(!matches("<_>ms", "1ms 2ms"));
        assert!(!matches("GET /cart", "GET /cart 200"));
        assert!(matches("GET /cart", "GET /cart"));
        assert!(matches("<_>", "x"));
        assert!(!matches("<_>", ""));
        assert!(matches("", ""));
        assert!(!matches("", "x"));
        assert!(matches("<a-b> <_>", "x <a-b> y"));
    }

    #[test]
    fn named_and_adjacent_captures_are_refused() {
        let error = |pattern: &str| LinePattern::parse(pattern.as_bytes()).expect_err("invalid");
        assert_eq!(error("<name> x"), "named captures are not allowed: found '<name>'");
        assert_eq!(error("a<_><_>"), "found consecutive capture '<_><_>': invalid expression");
    }
}

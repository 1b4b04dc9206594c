//! A pipeline alone, and a selector that is no text, as they come from another node.
//!
//! The checks are those of a query, so that the tree has all that the parser guarantees of its
//! trees. Patterns of the selector count for the same sum.

use super::{MAX_QUERY_LEN_BYTES, Parser, longer_than};
use crate::syntax::ast::{MatchOp, Matcher, Stage, Unwrap};
use crate::syntax::lexer::Kind;
use crate::syntax::{PRINTED_FACTOR, ParseError};

/// Length in bytes from which the text of a pipeline is refused.
const MAX_PIPELINE_LEN_BYTES: usize = MAX_QUERY_LEN_BYTES * PRINTED_FACTOR;

/// The pattern of matchers that a volume has beside those of its query, for any number of labels.
/// It is quickly compiled, and is not part of the sum.
const ANY_VALUE: &[u8] = b".+";

/// Parses stages and the `unwrap` behind them, if there is one, of the streams that some matchers
/// select. An empty text has no stages.
///
/// # Errors
/// Those of the same pipeline in a query, and the patterns of the matchers are bad or too large.
pub(crate) fn parse_pipeline(
    matchers: &[Matcher],
    text: &str,
) -> Result<(Vec<Stage>, Option<Unwrap>), ParseError> {
    if text.len() >= MAX_PIPELINE_LEN_BYTES {
        return Err(longer_than(text.len(), MAX_PIPELINE_LEN_BYTES));
    }
    let mut parser = Parser::new(text);
    parser.check_matchers(matchers)?;
    let mut stages = Vec::new();
    let is_unwrapped = parser.pipeline(&mut stages, true)?;
    let unwrap = if is_unwrapped { Some(parser.unwrap()?) } else { None };
    if parser.peek()?.kind != Kind::End {
        return Err(parser.unexpected(""));
    }
    parser.odd_name.map_or(Ok((stages, unwrap)), Err)
}

/// Checks matchers that are no text.
///
/// # Errors
/// Their patterns are bad, or too large for one query.
pub(crate) fn check_matchers(matchers: &[Matcher]) -> Result<(), ParseError> {
    Parser::new("").check_matchers(matchers)
}

impl Parser<'_> {
    fn check_matchers(&mut self, matchers: &[Matcher]) -> Result<(), ParseError> {
        let is_pattern = |matcher: &&Matcher| {
            matches!(matcher.op, MatchOp::Regex | MatchOp::NotRegex)
                && matcher.value.as_bytes() != ANY_VALUE
        };
        for matcher in matchers.iter().filter(is_pattern) {
            self.check_matcher_regex(&matcher.value)?;
        }
        Ok(())
    }
}

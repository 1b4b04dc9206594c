//! Matchers of selectors, and the groups of them that select the streams of a look-up.

use super::VERSION;
use crate::engine::matcher::CompiledMatcher;
use crate::engine::wire::bytes::{Input, put_bytes, put_count};
use crate::engine::wire::{LeafError, WireError};
use crate::syntax::ast::{MatchOp, Matcher};
use crate::syntax::{ParseError, check_matchers};

/// The fewest bytes of a matcher: a name of no bytes, the operator, and a value of no bytes.
const MATCHER_MIN_BYTES: usize = 3;

/// Appends the groups of matchers of a look-up. A stream is selected by all matchers of a group.
pub fn encode_matchers(groups: &[Vec<CompiledMatcher>], out: &mut Vec<u8>) {
    out.push(VERSION);
    put_count(out, groups.len());
    for group in groups {
        put_count(out, group.len());
        group.iter().for_each(|matcher| put_one(out, matcher.source()));
    }
}

/// Reads groups of matchers that are still to be compiled: [`super::Estimate::of_matchers`] tells
/// what that takes. Their memory is in proportion to the bytes.
///
/// # Errors
/// The bytes are not those of groups.
pub fn read_matchers(bytes: &[u8]) -> Result<Vec<Vec<Matcher>>, WireError> {
    let mut input = Input::new(bytes);
    let version = input.u8()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let groups = input.list(1, read)?;
    input.end()?;
    Ok(groups)
}

/// Reads groups of matchers and compiles them, without a limit of memory but that the patterns of a
/// group are no larger than those of a query.
///
/// # Errors
/// Those of [`read_matchers`], and a pattern is bad or too large.
pub fn decode_matchers(bytes: &[u8]) -> Result<Vec<Vec<CompiledMatcher>>, LeafError> {
    let compiled = |group: Vec<Matcher>| {
        check_matchers(&group)?;
        let matchers = group.iter().map(CompiledMatcher::new);
        Ok(matchers.collect::<Result<_, _>>().map_err(ParseError::new)?)
    };
    read_matchers(bytes)?.into_iter().map(compiled).collect()
}

/// Appends the matchers of a selector.
pub(super) fn put(out: &mut Vec<u8>, matchers: &[Matcher]) {
    put_count(out, matchers.len());
    matchers.iter().for_each(|matcher| put_one(out, matcher));
}

fn put_one(out: &mut Vec<u8>, Matcher { name, op, value }: &Matcher) {
    put_bytes(out, name.as_bytes());
    out.push(match op {
        MatchOp::Equal => 0,
        MatchOp::NotEqual => 1,
        MatchOp::Regex => 2,
        MatchOp::NotRegex => 3,
    });
    put_bytes(out, value);
}

/// Reads the matchers of a selector. Their patterns are not checked.
pub(super) fn read(input: &mut Input<'_>) -> Result<Vec<Matcher>, WireError> {
    input.list(MATCHER_MIN_BYTES, |input| {
        Ok(Matcher {
            name: input.text()?.to_owned(),
            op: match input.u8()? {
                0 => MatchOp::Equal,
                1 => MatchOp::NotEqual,
                2 => MatchOp::Regex,
                3 => MatchOp::NotRegex,
                kind => return Err(WireError::Kind(kind)),
            },
            value: input.bytes()?.into(),
        })
    })
}

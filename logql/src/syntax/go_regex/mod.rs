//! Regular expressions written in Go's syntax.
//!
//! Queries carry patterns in the dialect of Go's `regexp` package (RE2). The
//! `regex` crate runs in linear time too, but reads another dialect: it refuses
//! `a{`, `\Q..\E` and octal escapes, accepts `a**` and `(?x)`, gives `\<`,
//! `[a&&b]` and `[[a]b]` a meaning of their own, and makes `\d \s \w \b` Unicode
//! classes. [`translate`] reads Go's dialect, reports Go's errors in Go's words,
//! and writes a pattern that means the same to the `regex` crate.
//!
//! Bounds: groups nest at most [`MAX_GROUP_DEPTH`] deep, repetitions multiply to
//! at most 1000 (Go's own rule), and [`Translation::cost`] of one pattern is at
//! most [`MAX_COST`]. All patterns match bytes.
//!
//! One difference stays: Go reads a byte that is not valid UTF-8 as U+FFFD, so
//! `.` matches it; here only literal bytes of the text can.

mod class;
mod failure;
mod repeat;
mod translate;

pub use translate::{Purpose, Translation, translate};

use regex::bytes::{Regex, RegexBuilder};

/// Deepest nesting of groups in a pattern.
pub const MAX_GROUP_DEPTH: usize = 100;

/// Largest [`Translation::cost`] of a pattern, roughly the number of states of
/// its automaton.
pub const MAX_COST: u64 = 300_000;

/// Compiled size at which the `regex` crate gives up, in bytes.
pub const SIZE_LIMIT_BYTES: usize = 10 << 20;

/// Most bytes of the states that a compiled pattern keeps, in either
/// direction; it forgets them then. Common patterns have tenths of this size.
pub const STATES_LIMIT_BYTES: usize = 512 << 10;

/// Nesting limit to give to the `regex` crate for translated patterns: every
/// group may hold an alternation of concatenations of repetitions.
pub const REGEX_NEST_LIMIT: u32 = 5 * MAX_GROUP_DEPTH as u32;

/// A pattern that is searched for anywhere; `.` excludes `\n`. For line filters,
/// and for `label_replace` after the caller wrote `^(?:` and `)$` around it.
///
/// # Errors
/// Go's message, `error parsing regexp: missing closing ): ...` for instance.
pub fn compile(pattern: &[u8]) -> Result<Regex, String> {
    build(&translate(pattern, Purpose::Search)?.pattern, false)
}

/// A pattern that must match the whole text; `.` includes `\n`. For values of
/// labels: in stream selectors, label filters, `drop` and `keep`.
///
/// # Errors
/// As [`compile`].
pub fn compile_matcher(pattern: &[u8]) -> Result<Regex, String> {
    build(&format!(r"\A(?:{})\z", translate(pattern, Purpose::Matcher)?.pattern), true)
}

/// A pattern whose groups are wanted, searched for anywhere; `.` excludes `\n`.
/// Group 0 is the whole match.
#[derive(Clone, Debug)]
pub struct CapturingRegex {
    /// The groups of this regex are numbered as written, and never named.
    pub regex: Regex,
    /// The names of groups 1, 2, ... as written; names may repeat.
    pub group_names: Vec<Option<String>>,
}

/// Compiles a pattern with its groups, for `regexp` and `label_replace`.
///
/// # Errors
/// As [`compile`].
pub fn compile_capturing(pattern: &[u8]) -> Result<CapturingRegex, String> {
    let translation = translate(pattern, Purpose::Captures)?;
    let regex = build(&translation.pattern, false)?;
    Ok(CapturingRegex { regex, group_names: translation.group_names })
}

fn build(pattern: &str, dot_matches_new_line: bool) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(SIZE_LIMIT_BYTES)
        .dfa_size_limit(STATES_LIMIT_BYTES)
        .nest_limit(REGEX_NEST_LIMIT)
        .dot_matches_new_line(dot_matches_new_line)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "error parsing regexp: expression too large".to_owned()
            }
            other => format!("error parsing regexp: {other}"),
        })
}

#[cfg(test)]
mod tests;

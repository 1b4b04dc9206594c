//! Errors of query text.

use std::fmt;

/// Why a query was refused. Its `Display` is the body that clients are shown.
///
/// A position of line 0 and column 0 means "no position". The line alone is 0
/// for tokens that Loki completes after its base scanner (two-character
/// operators, durations, byte sizes, ranges, flags); clients compare the text, so
/// this is kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ParseError {
    /// Line, from 1; 0 as described above.
    pub line: u32,
    /// Column in code points, from 1; 0 without a position.
    pub col: u32,
    /// The problem.
    pub message: String,
}

impl ParseError {
    /// An error about the query as a whole.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { line: 0, col: 0, message: message.into() }
    }

    /// An error at a place in the text.
    #[must_use]
    pub fn at(line: u32, col: u32, message: impl Into<String>) -> Self {
        Self { line, col, message: message.into() }
    }

    /// A stage that can't be built: its printed form names it.
    #[must_use]
    pub fn stage(stage: &impl fmt::Display, detail: impl fmt::Display) -> Self {
        Self::new(format!("stage '{stage}' : {detail}"))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 && self.col == 0 {
            write!(f, "parse error : {}", self.message)
        } else {
            write!(f, "parse error at line {}, col {}: {}", self.line, self.col, self.message)
        }
    }
}

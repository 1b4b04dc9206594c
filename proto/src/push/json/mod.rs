//! The JSON push, in its two dialects, scanned in place.
//!
//! Written by hand instead of over serde because Loki's leniency is
//! wanted (raw text as label value, anything behind the top-level value) and
//! because lines are bytes: they are located with a vectorised search, not
//! checked for UTF-8 and not copied unless they hold escapes.
//!
//! Accepted beyond the JSON standard: raw control characters inside strings.
//! Values of unknown fields are checked, at most [`MAX_DEPTH`] levels deep,
//! without recursion.

mod cursor;
mod document;
mod text;

pub use cursor::{Cursor, MAX_DEPTH, Value};
pub use document::{JsonPush, Streams};
pub use text::RawText;

/// Which JSON form a body is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// `{"streams":[{"stream":{..},"values":[["<ns>","line",{..}]]}]}`
    V1,
    /// `{"streams":[{"labels":"{..}","entries":[{"ts":"<RFC 3339>","line":".."}]}]}`
    Legacy,
}

/// Why a body is not a JSON push.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JsonError {
    /// The body is empty or blank.
    #[error("EOF")]
    Empty,
    /// The body is malformed.
    #[error("invalid JSON push at byte {}: {message}", offset_bytes + 1)]
    Invalid {
        /// Where, from 0.
        offset_bytes: usize,
        /// The problem, in words.
        message: &'static str,
    },
}

//! Text of a query to syntax tree and back.

pub mod ast;
mod errors;
mod go_bytes;
pub mod go_duration;
pub mod go_float;
pub mod go_regex;
pub mod go_text;
mod names;

pub use errors::ParseError;

/// Deepest nesting of metric expressions, counting one level per operand,
/// argument and pair of parentheses.
pub const MAX_EXPR_DEPTH: usize = 256;

/// Deepest nesting of one label filter expression.
pub const MAX_LABEL_FILTER_DEPTH: usize = 1000;

//! Text of a query to syntax tree and back.

pub mod ast;
pub mod go_regex;

/// Deepest nesting of metric expressions, counting one level per operand,
/// argument and pair of parentheses.
pub const MAX_EXPR_DEPTH: usize = 256;

/// Deepest nesting of one label filter expression.
pub const MAX_LABEL_FILTER_DEPTH: usize = 1000;

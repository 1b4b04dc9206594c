//! Text of a query to syntax tree and back.

pub mod ast;
mod checker;
mod errors;
pub mod go_regex;
pub(crate) mod idents;
mod lexer;
mod parser;
pub mod pattern;
mod printer;

pub use checker::check_executable;
pub use errors::ParseError;
pub use parser::{
    MAX_QUERY_LEN_BYTES, MAX_QUERY_REGEX_COST, SelectorError, parse, parse_bytes,
    parse_log_selector, parse_matchers, parse_selector,
};
pub(crate) use parser::{check_matchers, parse_pipeline};
pub use printer::format;
pub(crate) use printer::print_pipeline;

/// How much longer a pipeline may be as it goes to another node than it was in the query. Nothing
/// grows fivefold: control characters within back quotes become four, and each `a>9y` of a list
/// becomes `( a>78840h0m0s , ... )`.
pub(crate) const PRINTED_FACTOR: usize = 8;

/// Deepest nesting of metric expressions, counting one level per operand,
/// argument and pair of parentheses.
pub const MAX_EXPR_DEPTH: usize = 128;

/// Deepest nesting of one label filter expression.
pub const MAX_LABEL_FILTER_DEPTH: usize = 1000;

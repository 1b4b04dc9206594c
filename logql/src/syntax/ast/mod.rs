//! The syntax tree of a query.
//!
//! Plain owned data without interior mutability: a tree may be cloned, compared and sent to another
//! core. Errors that are raised after parsing name the printed text of a stage, never a source
//! position, so the nodes hold none. That also makes `parse(print(tree)) == tree` a usable
//! property.
//!
//! The parser guarantees of every tree that it returns (the evaluator may rely on it, and
//! [`crate::testing`] generates only trees like these):
//!
//! - the nesting of [`MetricExpr`] is at most [`super::MAX_EXPR_DEPTH`] and that of [`LabelFilter`]
//!   at most [`super::MAX_LABEL_FILTER_DEPTH`], so plain recursion over a tree is safe;
//! - patterns of [`Matcher`]s and of `regexp` compile ([`super::go_regex`]);
//! - lists named "non-empty" below are non-empty;
//! - two literals are never the operands of one binary operation: they are folded.
//!
//! Patterns of line filters, `ip()` patterns, JSON/logfmt source expressions and templates are
//! *not* checked here: the language reports them when the stages are built, with the printed stage
//! in the message.
//!
//! Comparing trees uses IEEE equality, hence a tree with a NaN literal is not equal to itself.

mod log;
mod metric;
mod names;
mod stage;
mod text;

pub use log::*;
pub use metric::*;
pub(in crate::syntax) use stage::{Arguments, Flag, Keyword};
pub use stage::{Extraction, LabelFormat, LabelFormatValue, LogfmtParser, NameOrMatcher, Stage};
pub use text::Text;

/// A whole query.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A query that yields entries.
    Log(LogExpr),
    /// A query that yields samples.
    Metric(MetricExpr),
}

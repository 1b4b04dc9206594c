//! Nodes of log queries.

use super::{Stage, Text};

/// A stream selector and the pipeline its entries pass through.
#[derive(Clone, PartialEq, Debug)]
pub struct LogExpr {
    /// Which streams are read.
    pub selector: Selector,
    /// The stages in written order; empty when there is no pipeline.
    pub stages: Vec<Stage>,
}

/// `{a="b", c=~"d"}`; all matchers must hold. After [`parse`](crate::syntax::parse) at least one
/// of them does not match the empty value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// The matchers in written order; a label name may repeat.
    pub matchers: Vec<Matcher>,
}

/// A test of one label against a string or a fully anchored regular expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matcher {
    /// Label name.
    pub name: String,
    /// How the value is compared.
    pub op: MatchOp,
    /// The string, or the pattern in Go syntax for the regex operators.
    pub value: Text,
}

/// Operator of a [`Matcher`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

/// One line filter: an operator and its operands.
///
/// The parser writes a negative chain `!= "a" or "b"` as the two filters
/// `!= "a"` `!= "b"`, which mean the same; only positive operators ever have more
/// than one operand. A positive filter keeps the line when any operand matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineFilter {
    /// How the line is tested.
    pub op: LineFilterOp,
    /// Non-empty.
    pub operands: Vec<LineOperand>,
}

/// Operator of a [`LineFilter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineFilterOp {
    /// `|=`
    Contains,
    /// `!=`
    NotContains,
    /// `|~`
    Regex,
    /// `!~`
    NotRegex,
    /// `|>`
    Pattern,
    /// `!>`
    NotPattern,
}

/// Operand of a line filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineOperand {
    /// A string, a regular expression or a pattern, depending on the operator.
    Text(Text),
    /// `ip("...")`; the operator and the pattern are checked when stages are built.
    Ip(Text),
}

/// A label filter expression.
#[derive(Clone, PartialEq, Debug)]
pub enum LabelFilter {
    /// `x = "s"`, `x =~ "re"`, ...
    String(Matcher),
    /// `x >= 500`
    Number {
        /// Label name.
        name: String,
        /// Comparison.
        op: CompareOp,
        /// Right-hand side.
        value: f64,
    },
    /// `x > 1.5s`
    Duration {
        /// Label name.
        name: String,
        /// Comparison.
        op: CompareOp,
        /// Right-hand side in nanoseconds.
        value_ns: i64,
    },
    /// `x > 5KB`
    Bytes {
        /// Label name.
        name: String,
        /// Comparison.
        op: CompareOp,
        /// Right-hand side in bytes. No label value is negative, but a query may ask
        /// for more than less than nothing.
        value_bytes: i128,
    },
    /// `x = ip("...")` and `x != ip("...")`.
    Ip {
        /// Label name.
        name: String,
        /// True for `!=`.
        negated: bool,
        /// Address, prefix or range; checked when stages are built.
        pattern: Text,
    },
    /// Both; the left one is evaluated first, the right one always.
    And(Box<LabelFilter>, Box<LabelFilter>),
    /// Either; the right one is evaluated only when the left one is false.
    Or(Box<LabelFilter>, Box<LabelFilter>),
}

/// Comparison of a numeric label filter; `=` and `==` are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOp {
    /// `==` (or `=`)
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

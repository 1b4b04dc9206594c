//! The syntax tree of a query.
//!
//! Plain owned data without interior mutability: a tree may be cloned, compared
//! and sent to another core. Errors that are raised after parsing name the
//! printed text of a stage, never a source position, so the nodes hold none;
//! that is also what makes `parse(print(tree)) == tree` a usable property.
//!
//! What the parser guarantees about every tree it returns (the evaluator may
//! rely on it, and [`crate::testing`] generates only such trees):
//!
//! - the nesting of [`MetricExpr`] is at most [`super::MAX_EXPR_DEPTH`] and that
//!   of [`LabelFilter`] at most [`super::MAX_LABEL_FILTER_DEPTH`], so plain
//!   recursion over a tree is safe;
//! - patterns of [`Matcher`]s and of `regexp` compile ([`super::go_regex`]);
//! - lists named "non-empty" below are non-empty;
//! - two literals are never the operands of one binary operation: they are folded.
//!
//! Patterns of line filters, `ip()` patterns, JSON/logfmt source expressions and
//! templates are *not* checked here: the language reports those when the stages
//! are built, with the printed stage in the message.
//!
//! Comparing trees uses IEEE equality, hence a tree with a NaN literal is not
//! equal to itself.

use std::ops::Deref;

/// A decoded string literal. Escapes such as `\xff` can make it invalid UTF-8,
/// and lines are bytes as well, so it is kept as bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Text(Box<[u8]>);

impl Text {
    /// The decoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text when it is valid UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text with every invalid byte sequence replaced by U+FFFD.
    #[must_use]
    pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// A whole query.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A query that yields entries.
    Log(LogExpr),
    /// A query that yields samples.
    Metric(MetricExpr),
}

// ---------------------------------------------------------------- log queries

/// A stream selector and the pipeline its entries pass through.
#[derive(Clone, PartialEq, Debug)]
pub struct LogExpr {
    /// Which streams are read.
    pub selector: Selector,
    /// The stages in written order; empty when there is no pipeline.
    pub stages: Vec<Stage>,
}

/// `{a="b", c=~"d"}`; all matchers must hold. After [`super::parse`] at least one
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

/// One stage of a pipeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Stage {
    /// A non-empty run of adjacent line filters.
    LineFilters(Vec<LineFilter>),
    /// `| json`, with or without extractions.
    Json(Vec<Extraction>),
    /// `| logfmt`
    Logfmt(LogfmtParser),
    /// `| regexp "..."`: the pattern compiles and has a named group.
    Regexp(Text),
    /// `| pattern "..."`: the pattern is well formed and names a capture.
    Pattern(Text),
    /// `| unpack`
    Unpack,
    /// `| status >= 500 and method = "GET"`
    LabelFilter(LabelFilter),
    /// `| line_format "template"`
    LineFormat(Text),
    /// `| label_format ...`, non-empty.
    LabelFormat(Vec<LabelFormat>),
    /// `| decolorize`
    Decolorize,
    /// `| drop ...`, non-empty.
    Drop(Vec<NameOrMatcher>),
    /// `| keep ...`, non-empty.
    Keep(Vec<NameOrMatcher>),
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

/// `label="source"` of a parameterised `json` or `logfmt`; `x` alone is `x="x"`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extraction {
    /// The label that is set.
    pub label: String,
    /// The source expression, unchecked.
    pub source: Text,
}

/// `| logfmt --strict --keep-empty a="b"`
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogfmtParser {
    /// `--strict`: stop at the first malformed pair and set an error.
    pub strict: bool,
    /// `--keep-empty`: keep keys without a value.
    pub keep_empty: bool,
    /// Empty for the implicit form, which extracts every pair.
    pub extractions: Vec<Extraction>,
}

/// One item of `label_format`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelFormat {
    /// The label that is set.
    pub label: String,
    /// What it is set to.
    pub value: LabelFormatValue,
}

/// Right-hand side of a `label_format` item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabelFormatValue {
    /// `dst=src`: move the value of another label.
    Rename(String),
    /// `dst="template"`, unchecked.
    Template(Text),
}

/// Item of `drop` and `keep`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameOrMatcher {
    /// The label whatever its value.
    Name(String),
    /// The label when its value matches.
    Matcher(Matcher),
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
        /// Right-hand side in bytes.
        value_bytes: u64,
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

// ------------------------------------------------------------- metric queries

/// An expression that yields samples.
#[derive(Clone, PartialEq, Debug)]
pub enum MetricExpr {
    /// A scalar.
    Literal(f64),
    /// `vector(s)`
    Vector(f64),
    /// `rate({...}[5m])` and its relatives.
    RangeAggregation(RangeAggregation),
    /// `sum by (x) (...)` and its relatives.
    VectorAggregation(VectorAggregation),
    /// `a / on (x) b`
    BinaryOperation(BinaryOperation),
    /// `label_replace(...)`
    LabelReplace(LabelReplace),
}

/// A function over the samples of a log range.
#[derive(Clone, PartialEq, Debug)]
pub struct RangeAggregation {
    /// Which function.
    pub function: RangeFunction,
    /// The quantile of `quantile_over_time`; `None` for every other function.
    pub parameter: Option<f64>,
    /// The entries it sees.
    pub range: LogRange,
    /// `by ()` (one series without labels) differs from `None` (labels kept).
    pub grouping: Option<Grouping>,
}

/// A log query over a moving window: entries in `(T-offset-range, T-offset]`.
#[derive(Clone, PartialEq, Debug)]
pub struct LogRange {
    /// Selector and pipeline.
    pub log: LogExpr,
    /// How entries become numbers; `None` counts entries or bytes.
    pub unwrap: Option<Unwrap>,
    /// Window length in nanoseconds, never negative; zero selects nothing.
    pub range_ns: i64,
    /// Shift into the past in nanoseconds; negative looks into the future.
    pub offset_ns: i64,
}

/// `| unwrap duration(x) | filters`
#[derive(Clone, PartialEq, Debug)]
pub struct Unwrap {
    /// The label whose value becomes the sample.
    pub label: String,
    /// How its text is converted.
    pub conversion: UnwrapConversion,
    /// Label filters that run after the conversion, one per `|`.
    pub filters: Vec<LabelFilter>,
}

/// Conversion applied by `unwrap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnwrapConversion {
    /// `unwrap x`: a decimal float.
    Number,
    /// `unwrap bytes(x)`: a humanised byte size, in bytes.
    Bytes,
    /// `unwrap duration(x)`: a Go duration, in seconds.
    Duration,
    /// `unwrap duration_seconds(x)`: the same as `duration`.
    DurationSeconds,
}

/// Functions over log ranges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "each is the language's function of that name")]
pub enum RangeFunction {
    Rate,
    RateCounter,
    CountOverTime,
    BytesRate,
    BytesOverTime,
    AvgOverTime,
    SumOverTime,
    MinOverTime,
    MaxOverTime,
    StdvarOverTime,
    StddevOverTime,
    QuantileOverTime,
    FirstOverTime,
    LastOverTime,
    AbsentOverTime,
}

/// A function over the samples of one evaluation time.
#[derive(Clone, PartialEq, Debug)]
pub struct VectorAggregation {
    /// Which function.
    pub function: VectorFunction,
    /// The `k` of `topk`, `bottomk` and `approx_topk`, at least 1 and at most
    /// `i64::MAX`; `None` for every other function.
    pub parameter: Option<u64>,
    /// What is aggregated.
    pub expr: Box<MetricExpr>,
    /// The parser writes `by ()` as `None`: both mean one group.
    pub grouping: Option<Grouping>,
}

/// Functions over vectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "each is the language's function of that name")]
pub enum VectorFunction {
    Sum,
    Avg,
    Max,
    Min,
    Count,
    Stddev,
    Stdvar,
    Bottomk,
    Topk,
    Sort,
    SortDesc,
    ApproxTopk,
}

/// `by (a, b)` or `without (a, b)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grouping {
    /// Keep or remove the listed labels.
    pub kind: GroupingKind,
    /// Label names in written order, possibly empty or repeated.
    pub labels: Vec<String>,
}

/// Keyword of a [`Grouping`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupingKind {
    /// Keep only the listed labels.
    By,
    /// Keep all but the listed labels.
    Without,
}

/// Two expressions joined by an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct BinaryOperation {
    /// The operator.
    pub op: BinaryOp,
    /// `bool` was written: comparisons yield 1 or 0 instead of filtering.
    /// Ignored by the other operators.
    pub return_bool: bool,
    /// How the samples of two vectors are paired.
    pub matching: VectorMatching,
    /// Left operand.
    pub left: Box<MetricExpr>,
    /// Right operand.
    pub right: Box<MetricExpr>,
}

/// Operator of a [`BinaryOperation`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is the operator of that name")]
pub enum BinaryOp {
    Or,
    And,
    Unless,
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
}

/// Pairing of samples in a vector operation. The default, `ignoring ()` one to
/// one, compares all labels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VectorMatching {
    /// Which labels form the signature.
    pub kind: MatchingKind,
    /// The labels of `on (...)` or `ignoring (...)`.
    pub labels: Vec<String>,
    /// Whether one side may have several samples per signature.
    pub cardinality: Cardinality,
}

/// Keyword of a [`VectorMatching`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MatchingKind {
    /// The signature is all labels but the listed ones.
    #[default]
    Ignoring,
    /// The signature is the listed labels.
    On,
}

/// Cardinality of a [`VectorMatching`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Cardinality {
    /// Signatures are unique on both sides (logical operators allow any number).
    #[default]
    OneToOne,
    /// `group_left (labels)`: many on the left; the labels are copied from the right.
    GroupLeft(Vec<String>),
    /// `group_right (labels)`: many on the right; the labels are copied from the left.
    GroupRight(Vec<String>),
}

/// `label_replace(v, "dst", "replacement", "src", "regex")`
#[derive(Clone, PartialEq, Debug)]
pub struct LabelReplace {
    /// The samples to relabel.
    pub expr: Box<MetricExpr>,
    /// Label that is set; not validated as a name.
    pub dst: Text,
    /// Expansion with `$1`, `${name}`, `$$`.
    pub replacement: Text,
    /// Label that is read; not validated as a name.
    pub src: Text,
    /// Pattern in Go syntax, fully anchored; it compiles.
    pub regex: Text,
}

//! Nodes of metric queries.

use super::{LabelFilter, LogExpr, Text};

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
    /// The operand.
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

//! For tests: random queries from a seed.
//!
//! [`Writer`] writes queries that find something in the lines that it writes.
//! [`Generator`] yields only trees that the parser can produce, with everything
//! the language has in them. The same seed gives the same trees, on every
//! machine. Use it where a test wants many different valid queries; the texts are
//! the trees' `Display`.

mod rng;
mod written;

pub use rng::Rng;
pub use written::Writer;

use crate::syntax::ast::{
    BinaryOp, BinaryOperation, Cardinality, CompareOp, Expr, Extraction, Grouping, GroupingKind,
    LabelFilter, LabelFormat, LabelFormatValue, LabelReplace, LineFilter, LineFilterOp,
    LineOperand, LogExpr, LogRange, LogfmtParser, MatchOp, Matcher, MatchingKind, MetricExpr,
    NameOrMatcher, RangeAggregation, RangeFunction, Selector, Stage, Text, Unwrap,
    UnwrapConversion, VectorAggregation, VectorFunction, VectorMatching,
};

const NAMES: [&str; 16] = [
    "app",
    "env",
    "level",
    "status",
    "trace_id",
    "_x",
    "a1",
    "__error__",
    "größe",
    "字",
    "sum",
    "count",
    "bytes",
    "duration",
    "ip",
    "first_over_time",
];

const REGEXES: [&str; 14] = [
    "err.*",
    "a|b",
    "error|warn",
    "(?i)fatal",
    "^x$",
    "[a-z]+",
    r"\d{1,3}",
    "",
    ".+",
    "x`y.",
    r"\Qa.b\E",
    "(foo|bar)?baz",
    "\\n.",
    "é+",
];

const REGEXP_STAGES: [&str; 3] =
    [r"(?P<method>\w+) (?P<path>\S+)", r"(?<code>\d+)", "(?P<a>x)(y)?`"];

const PATTERNS: [&str; 3] = ["<ip> - <_> \"<rest>\"", "a <b>", "<1x> <é> <x>\n"];

/// Makes random trees.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
}

impl Generator {
    /// The trees of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    fn some<T>(&mut self, max: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..1 + self.rng.below(max)).map(|_| make(self)).collect()
    }

    fn name(&mut self) -> String {
        (*self.rng.pick(&NAMES)).to_owned()
    }

    /// Any string, now and then with every kind of character that needs quoting.
    fn text(&mut self) -> Text {
        match self.rng.below(4) {
            0 => Text::from("plain text"),
            1 => Text::from("quo\"te `back` \\ tab\t line\n nul-free \u{7} é \u{a0} 🚀"),
            2 => Text::from(vec![0xff, b'a', 0xc3]),
            _ => {
                let len = self.rng.below(6);
                // Zero bytes are escaped when printed, so they may appear.
                Text::from((0..len).map(|_| self.rng.next_u64() as u8).collect::<Vec<u8>>())
            }
        }
    }

    /// A number that the text of a query can give exactly.
    fn number(&mut self) -> f64 {
        match self.rng.below(6) {
            0 => 0.0,
            1 => self.rng.below(1000) as f64,
            2 => self.rng.below(100_000) as f64 / 1000.0,
            3 => 1e6 * (1 + self.rng.below(9)) as f64,
            4 => 1e-7,
            _ => {
                let value = f64::from_bits(self.rng.next_u64() >> 1);
                if value.is_finite() { value } else { 1.5 }
            }
        }
    }

    fn signed_number(&mut self) -> f64 {
        let value = self.number();
        if self.rng.one_in(3) { -value } else { value }
    }

    fn duration_ns(&mut self) -> i64 {
        match self.rng.below(5) {
            0 => 0,
            1 => 1_000_000_000 * self.rng.below(10_000) as i64,
            2 => 1_000_000 * self.rng.below(100_000) as i64,
            3 => -(self.rng.below(1_000_000) as i64),
            _ => self.rng.next_u64() as i64,
        }
    }

    /// A range or an offset that Prometheus style can give: whole milliseconds.
    fn range_ns(&mut self) -> i64 {
        let unit_ms = *self.rng.pick(&[1, 1000, 60_000, 3_600_000, 86_400_000, 604_800_000]);
        1_000_000 * unit_ms * self.rng.below(400) as i64
    }

    fn match_op(&mut self) -> MatchOp {
        *self.rng.pick(&[MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex])
    }

    fn matcher(&mut self) -> Matcher {
        let (name, op) = (self.name(), self.match_op());
        let value = match op {
            MatchOp::Equal | MatchOp::NotEqual => self.text(),
            MatchOp::Regex | MatchOp::NotRegex => Text::from(*self.rng.pick(&REGEXES)),
        };
        Matcher { name, op, value }
    }

    /// A selector with a matcher that does not match the empty value.
    pub fn selector(&mut self) -> Selector {
        let mut matchers = if self.rng.one_in(2) { self.some(3, Self::matcher) } else { vec![] };
        let sufficient = Matcher { name: self.name(), op: MatchOp::Equal, value: Text::from("x") };
        let at = self.rng.below(matchers.len() + 1);
        matchers.insert(at, sufficient);
        Selector { matchers }
    }

    /// A log query.
    pub fn log_expr(&mut self) -> LogExpr {
        LogExpr { selector: self.selector(), stages: self.stages() }
    }

    fn stages(&mut self) -> Vec<Stage> {
        let mut stages: Vec<Stage> = Vec::new();
        for _ in 0..self.rng.below(5) {
            let stage = self.stage();
            // Two runs of line filters would be one; and `| drop a != "x"` is a
            // matcher of `drop`.
            let merges = match (stages.last(), &stage) {
                (Some(Stage::LineFilters(_)), Stage::LineFilters(_)) => true,
                (Some(Stage::Drop(items) | Stage::Keep(items)), Stage::LineFilters(filters)) => {
                    matches!(items.last(), Some(NameOrMatcher::Name(_)))
                        && filters[0].op.is_negative()
                }
                _ => false,
            };
            if !merges {
                stages.push(stage);
            }
        }
        stages
    }

    fn stage(&mut self) -> Stage {
        match self.rng.below(13) {
            0 | 1 => Stage::LineFilters(self.some(4, Self::line_filter)),
            2 => Stage::Json(self.extractions()),
            3 => Stage::Logfmt(LogfmtParser {
                strict: self.rng.one_in(2),
                keep_empty: self.rng.one_in(2),
                extractions: self.extractions(),
            }),
            4 => Stage::Regexp(Text::from(*self.rng.pick(&REGEXP_STAGES))),
            5 => Stage::Pattern(Text::from(*self.rng.pick(&PATTERNS))),
            6 => Stage::Unpack,
            7 | 8 => Stage::LabelFilter(self.label_filter()),
            9 => Stage::LineFormat(self.text()),
            10 => Stage::LabelFormat(self.some(3, |this| LabelFormat {
                label: this.name(),
                value: if this.rng.one_in(2) {
                    LabelFormatValue::Rename(this.name())
                } else {
                    LabelFormatValue::Template(this.text())
                },
            })),
            11 => Stage::Decolorize,
            _ => {
                let items = self.some(3, |this| {
                    if this.rng.one_in(2) {
                        NameOrMatcher::Name(this.name())
                    } else {
                        NameOrMatcher::Matcher(this.matcher())
                    }
                });
                if self.rng.one_in(2) { Stage::Drop(items) } else { Stage::Keep(items) }
            }
        }
    }

    fn extractions(&mut self) -> Vec<Extraction> {
        if self.rng.one_in(2) {
            return Vec::new();
        }
        self.some(3, |this| Extraction { label: this.name(), source: this.text() })
    }

    fn line_filter(&mut self) -> LineFilter {
        let op = *self.rng.pick(&[
            LineFilterOp::Contains,
            LineFilterOp::NotContains,
            LineFilterOp::Regex,
            LineFilterOp::NotRegex,
            LineFilterOp::Pattern,
            LineFilterOp::NotPattern,
        ]);
        let max = if op.is_negative() { 1 } else { 3 };
        let operands = self.some(max, |this| {
            if this.rng.one_in(5) {
                LineOperand::Ip(this.text())
            } else {
                LineOperand::Text(this.text())
            }
        });
        LineFilter { op, operands }
    }

    /// A label filter expression.
    pub fn label_filter(&mut self) -> LabelFilter {
        self.label_filter_of_depth(3)
    }

    fn label_filter_of_depth(&mut self, depth: usize) -> LabelFilter {
        if depth > 0 && self.rng.one_in(2) {
            let left = Box::new(self.label_filter_of_depth(depth - 1));
            let right = Box::new(self.label_filter_of_depth(depth - 1));
            return if self.rng.one_in(2) {
                LabelFilter::And(left, right)
            } else {
                LabelFilter::Or(left, right)
            };
        }
        let name = self.name();
        let op = *self.rng.pick(&[
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Greater,
            CompareOp::GreaterOrEqual,
            CompareOp::Less,
            CompareOp::LessOrEqual,
        ]);
        match self.rng.below(5) {
            0 => LabelFilter::String(self.matcher()),
            1 => LabelFilter::Number { name, op, value: self.signed_number() },
            2 => LabelFilter::Duration { name, op, value_ns: self.duration_ns() },
            3 => {
                let value = (self.rng.next_u64() >> self.rng.below(64)) as f64;
                let sign = if self.rng.one_in(4) { -1 } else { 1 };
                LabelFilter::Bytes { name, op, value_bytes: sign * i128::from(value as u64) }
            }
            _ => LabelFilter::Ip { name, negated: self.rng.one_in(2), pattern: self.text() },
        }
    }

    /// A metric query.
    pub fn metric_expr(&mut self) -> MetricExpr {
        self.metric_expr_of_depth(4)
    }

    fn metric_expr_of_depth(&mut self, depth: usize) -> MetricExpr {
        let choice = if depth == 0 { self.rng.below(5) } else { self.rng.below(12) };
        match choice {
            0 => MetricExpr::Literal(self.signed_number()),
            1 => MetricExpr::Vector(self.number()),
            2..5 => MetricExpr::RangeAggregation(self.range_aggregation()),
            5..8 => self.vector_aggregation(depth),
            8..11 => self.binary_operation(depth),
            _ => MetricExpr::LabelReplace(LabelReplace {
                expr: Box::new(self.metric_expr_of_depth(depth - 1)),
                dst: self.text(),
                replacement: self.text(),
                src: self.text(),
                regex: Text::from(*self.rng.pick(&REGEXES)),
            }),
        }
    }

    fn grouping(&mut self) -> Grouping {
        let kind = *self.rng.pick(&[GroupingKind::By, GroupingKind::Without]);
        Grouping { kind, labels: self.labels() }
    }

    fn labels(&mut self) -> Vec<String> {
        (0..self.rng.below(4)).map(|_| self.name()).collect()
    }

    fn range_aggregation(&mut self) -> RangeAggregation {
        let function = *self.rng.pick(&RangeFunction::ALL);
        let unwrapped =
            function.allows_unwrap() && (!function.allows_entries() || self.rng.one_in(2));
        let unwrap = unwrapped.then(|| Unwrap {
            label: self.name(),
            conversion: *self.rng.pick(&[
                UnwrapConversion::Number,
                UnwrapConversion::Bytes,
                UnwrapConversion::Duration,
                UnwrapConversion::DurationSeconds,
            ]),
            filters: (0..self.rng.below(3)).map(|_| self.label_filter()).collect(),
        });
        let offset_ns = match self.rng.below(4) {
            0 => self.duration_ns(),
            1 => self.range_ns(),
            _ => 0,
        };
        let range = LogRange { log: self.log_expr(), unwrap, range_ns: self.range_ns(), offset_ns };
        let quantile = function == RangeFunction::QuantileOverTime;
        let grouped = function.allows_grouping() && self.rng.one_in(2);
        RangeAggregation {
            function,
            parameter: quantile.then(|| self.number()),
            range,
            grouping: grouped.then(|| self.grouping()),
        }
    }

    fn vector_aggregation(&mut self, depth: usize) -> MetricExpr {
        let function = *self.rng.pick(&VectorFunction::ALL);
        let parameter =
            function.takes_parameter().then(|| 1 + (self.rng.next_u64() >> self.rng.below(64)) / 2);
        let mut grouping = self.rng.one_in(2).then(|| self.grouping());
        match function {
            VectorFunction::ApproxTopk => grouping = None,
            VectorFunction::Sort | VectorFunction::SortDesc => {
                grouping = grouping.filter(|g| g.labels.is_empty());
            }
            _ => {}
        }
        let grouping = grouping.filter(|g| g.kind == GroupingKind::Without || !g.labels.is_empty());
        let expr = Box::new(self.metric_expr_of_depth(depth - 1));
        MetricExpr::VectorAggregation(VectorAggregation { function, parameter, expr, grouping })
    }

    fn binary_operation(&mut self, depth: usize) -> MetricExpr {
        let op = *self.rng.pick(&[
            BinaryOp::Or,
            BinaryOp::And,
            BinaryOp::Unless,
            BinaryOp::Equal,
            BinaryOp::NotEqual,
            BinaryOp::Greater,
            BinaryOp::GreaterOrEqual,
            BinaryOp::Less,
            BinaryOp::LessOrEqual,
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::Div,
            BinaryOp::Mod,
            BinaryOp::Pow,
        ]);
        let mut left = self.metric_expr_of_depth(depth - 1);
        let mut right = self.metric_expr_of_depth(depth - 1);
        let is_literal = |expr: &MetricExpr| matches!(expr, MetricExpr::Literal(_));
        // Literals are folded, and sets can't be combined with them.
        if is_literal(&left) && (op.is_set_operation() || is_literal(&right)) {
            left = MetricExpr::Vector(1.0);
        }
        if is_literal(&right) && op.is_set_operation() {
            right = MetricExpr::RangeAggregation(self.range_aggregation());
        }
        let mut matching = VectorMatching::default();
        if self.rng.one_in(2) {
            matching.kind = *self.rng.pick(&[MatchingKind::On, MatchingKind::Ignoring]);
            matching.labels = self.labels();
            matching.cardinality = match self.rng.below(3) {
                0 => Cardinality::OneToOne,
                1 => Cardinality::GroupLeft(self.labels()),
                _ => Cardinality::GroupRight(self.labels()),
            };
        }
        MetricExpr::BinaryOperation(BinaryOperation {
            op,
            return_bool: self.rng.one_in(4),
            matching,
            left: Box::new(left),
            right: Box::new(right),
        })
    }

    /// Any query.
    pub fn expr(&mut self) -> Expr {
        if self.rng.one_in(3) {
            Expr::Log(self.log_expr())
        } else {
            Expr::Metric(self.metric_expr())
        }
    }
}

//! How operators and functions are written.

use super::{
    BinaryOp, CompareOp, LineFilterOp, MatchOp, RangeFunction, UnwrapConversion, VectorFunction,
};

impl MatchOp {
    /// The operator as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }
}

impl LineFilterOp {
    /// The operator as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Contains => "|=",
            Self::NotContains => "!=",
            Self::Regex => "|~",
            Self::NotRegex => "!~",
            Self::Pattern => "|>",
            Self::NotPattern => "!>",
        }
    }

    /// Whether lines are kept that do not match.
    #[must_use]
    pub fn is_negative(self) -> bool {
        matches!(self, Self::NotContains | Self::NotRegex | Self::NotPattern)
    }
}

impl CompareOp {
    /// The operator as printed; `=` reads the same as `==`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}

impl BinaryOp {
    /// The operator as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Unless => "unless",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::Pow => "^",
        }
    }

    /// Binding strength; a higher one binds tighter.
    #[must_use]
    pub fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Equal
            | Self::NotEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::Less
            | Self::LessOrEqual => 3,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Mod => 5,
            Self::Pow => 6,
        }
    }

    /// Whether `a op b op c` means `a op (b op c)`.
    #[must_use]
    pub fn is_right_associative(self) -> bool {
        self == Self::Pow
    }

    /// Whether it compares, so that `bool` changes its meaning.
    #[must_use]
    pub fn is_comparison(self) -> bool {
        self.precedence() == 3
    }

    /// `and`, `or`, `unless`: operations on sets of samples.
    #[must_use]
    pub fn is_set_operation(self) -> bool {
        self.precedence() <= 2
    }
}

impl RangeFunction {
    /// Every function.
    pub const ALL: [Self; 15] = [
        Self::Rate,
        Self::RateCounter,
        Self::CountOverTime,
        Self::BytesRate,
        Self::BytesOverTime,
        Self::AvgOverTime,
        Self::SumOverTime,
        Self::MinOverTime,
        Self::MaxOverTime,
        Self::StdvarOverTime,
        Self::StddevOverTime,
        Self::QuantileOverTime,
        Self::FirstOverTime,
        Self::LastOverTime,
        Self::AbsentOverTime,
    ];

    /// The function as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::RateCounter => "rate_counter",
            Self::CountOverTime => "count_over_time",
            Self::BytesRate => "bytes_rate",
            Self::BytesOverTime => "bytes_over_time",
            Self::AvgOverTime => "avg_over_time",
            Self::SumOverTime => "sum_over_time",
            Self::MinOverTime => "min_over_time",
            Self::MaxOverTime => "max_over_time",
            Self::StdvarOverTime => "stdvar_over_time",
            Self::StddevOverTime => "stddev_over_time",
            Self::QuantileOverTime => "quantile_over_time",
            Self::FirstOverTime => "first_over_time",
            Self::LastOverTime => "last_over_time",
            Self::AbsentOverTime => "absent_over_time",
        }
    }

    /// Whether `by` and `without` may follow.
    #[must_use]
    pub fn allows_grouping(self) -> bool {
        matches!(
            self,
            Self::AvgOverTime
                | Self::MaxOverTime
                | Self::MinOverTime
                | Self::StddevOverTime
                | Self::StdvarOverTime
                | Self::QuantileOverTime
                | Self::FirstOverTime
                | Self::LastOverTime
        )
    }

    /// Whether it works on unwrapped values.
    #[must_use]
    pub fn allows_unwrap(self) -> bool {
        !matches!(self, Self::CountOverTime | Self::BytesOverTime | Self::BytesRate)
    }

    /// Whether it works on entries that were not unwrapped.
    #[must_use]
    pub fn allows_entries(self) -> bool {
        matches!(
            self,
            Self::CountOverTime
                | Self::Rate
                | Self::BytesOverTime
                | Self::BytesRate
                | Self::AbsentOverTime
        )
    }
}

impl VectorFunction {
    /// Every function.
    pub const ALL: [Self; 12] = [
        Self::Sum,
        Self::Avg,
        Self::Max,
        Self::Min,
        Self::Count,
        Self::Stddev,
        Self::Stdvar,
        Self::Bottomk,
        Self::Topk,
        Self::Sort,
        Self::SortDesc,
        Self::ApproxTopk,
    ];

    /// The function as written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Min => "min",
            Self::Count => "count",
            Self::Stddev => "stddev",
            Self::Stdvar => "stdvar",
            Self::Bottomk => "bottomk",
            Self::Topk => "topk",
            Self::Sort => "sort",
            Self::SortDesc => "sort_desc",
            Self::ApproxTopk => "approx_topk",
        }
    }

    /// Whether it takes the number of samples to keep.
    #[must_use]
    pub fn takes_parameter(self) -> bool {
        matches!(self, Self::Topk | Self::Bottomk | Self::ApproxTopk)
    }
}

impl UnwrapConversion {
    /// The conversion as written; `None` for a plain number.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Number => None,
            Self::Bytes => Some("bytes"),
            Self::Duration => Some("duration"),
            Self::DurationSeconds => Some("duration_seconds"),
        }
    }
}

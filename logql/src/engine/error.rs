//! Reasons why a query cannot be planned or evaluated. The texts are shown to clients.

use super::meter::Stop;

/// A query that cannot be evaluated as it is written; the client's fault (400).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A part of the language that the engine does not evaluate yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// A stage that the parser accepts but that cannot be built.
    #[error("parse error : stage '{stage}' : {detail}")]
    Stage {
        /// The canonical text of the stage.
        stage: String,
        /// The fault.
        detail: String,
    },
    /// A bad pattern outside of a pipeline stage.
    #[error("parse error : {0}")]
    Pattern(String),
    /// A log query on the instant endpoint.
    #[error(
        "log queries are not supported as an instant query type, please change your query to a range query type"
    )]
    LogQueryIsNotInstant,
    /// A selector-less operand such as that of `sum(1)`.
    #[error(
        "parse error : queries require at least one regexp or equality matcher that does not have an empty-compatible value. For instance, app=~\".*\" does not meet this requirement, but app=~\".+\" will"
    )]
    NoSelector,
    /// `step` is zero or negative.
    #[error(
        "zero or negative query resolution step widths are not accepted. Try a positive integer"
    )]
    InvalidStep,
    /// `end` lies before `start`.
    #[error("end timestamp must not be before or equal to start time")]
    EndBeforeStart,
    /// The grid leaves the range of nanosecond timestamps.
    #[error("the query time range is too large")]
    TimeOutOfRange,
    /// There is no memory or time for compiling it.
    #[error("{0}")]
    Stopped(Stop),
    /// Too many points per series.
    #[error(
        "exceeded maximum resolution of {} points per time series. Try increasing the value of the step parameter",
        thousands(*.max_steps)
    )]
    TooManySteps {
        /// The limit.
        max_steps: u32,
    },
}

/// A query that fails while it is evaluated; the client's fault (400).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvalError {
    /// A series with an error label reached an aggregation.
    #[error(
        "pipeline error: '{error}' for series: '{series}'.\nUse a label filter to intentionally skip this error. (e.g | __error__!=\"{error}\").\nTo skip all potential errors you can match empty errors.(e.g __error__=\"\")\nThe label filter can also be specified after unwrap. (e.g | unwrap latency | __error__=\"\" )\n"
    )]
    Pipeline {
        /// Value of `__error__`.
        error: String,
        /// Canonical labels of the series.
        series: String,
    },
    /// The result has too many series.
    #[error(
        "maximum number of series ({max_series}) reached for a single query; consider reducing query cardinality by adding more specific stream selectors, reducing the time range, or aggregating results with functions like sum(), count() or topk()"
    )]
    TooManySeries {
        /// The limit.
        max_series: usize,
    },
    /// Windows of a function that needs all of its samples overlap too much.
    #[error(
        "the windows of quantile_over_time hold more than {max_reads} samples together; increase the step, or shorten the range"
    )]
    TooManyReads {
        /// The limit.
        max_reads: usize,
    },
    /// Samples of two vectors cannot be paired.
    #[error("{0}")]
    Matching(MatchingError),
    /// `label_replace` makes a value that is too long.
    #[error("label_replace: a value of label '{label}' is longer than {max_bytes} bytes")]
    ValueTooLong {
        /// The label that it is for.
        label: String,
        /// The limit.
        max_bytes: usize,
    },
    /// There is no memory or time for it.
    #[error("{0}")]
    Stopped(Stop),
}

/// Why samples of two vectors cannot be paired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MatchingError {
    /// Several samples on the side that must be unique.
    #[error(
        "found duplicate series on the {side} hand-side;many-to-many matching not allowed: matching labels must be unique on one side"
    )]
    DuplicateSeries {
        /// `left` or `right`.
        side: &'static str,
    },
    /// Several samples on the many side without `group_left` or `group_right`.
    #[error(
        "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
    )]
    ManyToOne,
    /// Two results with equal labels.
    #[error("multiple matches for labels: grouping labels must ensure unique matches")]
    NotUnique,
}

fn thousands(number: u32) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_error_groups_thousands() {
        for (max_steps, text) in [(11_000, "11,000"), (999, "999"), (1_234_567, "1,234,567")] {
            let message = PlanError::TooManySteps { max_steps }.to_string();
            assert!(message.contains(&format!("of {text} points")), "{message}");
        }
    }

    #[test]
    fn a_pipeline_error_has_four_lines() {
        let error = EvalError::Pipeline { error: "E".into(), series: "{}".into() }.to_string();
        assert_eq!(error.lines().count(), 4);
        assert!(error.starts_with("pipeline error: 'E' for series: '{}'.\n"));
        assert!(error.ends_with('\n'));
    }
}

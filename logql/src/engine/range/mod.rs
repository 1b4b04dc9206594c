//! Functions over the samples of a window, one file each where they are more than
//! a line.

mod keep;
pub(crate) mod quantile;
mod rate_counter;
mod select;
mod sliding;
mod summary;

pub(crate) use keep::Keep;
pub(crate) use select::Selector;
pub(crate) use sliding::SlidingWindow;
pub(crate) use summary::Summary;

use super::statistics::{RunningVariance, larger, running_mean, smaller};
use crate::syntax::ast::RangeFunction;

/// A sample of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WindowSample {
    pub(crate) timestamp_ns: i64,
    pub(crate) value: f64,
}

/// A window `(start_ns, end_ns]`. The bounds may lie outside the range of
/// timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) start_ns: i128,
    pub(crate) end_ns: i128,
}

impl Window {
    /// Length in seconds.
    pub(crate) fn range_s(&self) -> f64 {
        seconds(self.end_ns - self.start_ns)
    }
}

/// Nanoseconds as seconds.
fn seconds(duration_ns: i128) -> f64 {
    duration_ns as f64 / 1e9
}

/// A function with its parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SampleFunction {
    pub(crate) function: RangeFunction,
    /// The quantile of `quantile_over_time`; unused by the others.
    pub(crate) parameter: f64,
}

impl SampleFunction {
    /// Whether [`Summary::value`] gives the function.
    pub(crate) fn is_foldable(&self) -> bool {
        self.function != RangeFunction::QuantileOverTime
    }

    /// The value over the samples of a window, which is not empty and in time order.
    pub(crate) fn evaluate(&self, window: &Window, samples: &[WindowSample]) -> f64 {
        let values = || samples.iter().map(|sample| sample.value);
        match self.function {
            RangeFunction::SumOverTime => values().sum(),
            RangeFunction::Rate => values().sum::<f64>() / window.range_s(),
            RangeFunction::RateCounter => rate_counter::rate_counter(window, samples),
            RangeFunction::AvgOverTime => {
                (1..).zip(values()).fold(0.0, |mean, (count, v)| running_mean(mean, count, v))
            }
            RangeFunction::MinOverTime => values().fold(f64::NAN, smaller),
            RangeFunction::MaxOverTime => values().fold(f64::NAN, larger),
            RangeFunction::StdvarOverTime => variance(values()),
            RangeFunction::StddevOverTime => variance(values()).sqrt(),
            RangeFunction::QuantileOverTime => quantile::quantile(self.parameter, values()),
            RangeFunction::FirstOverTime => values().next().unwrap_or(f64::NAN),
            RangeFunction::LastOverTime => values().next_back().unwrap_or(f64::NAN),
            // The checker refuses the other functions over unwrapped values, except
            // for `absent_over_time`, which asks for presence.
            RangeFunction::CountOverTime
            | RangeFunction::BytesRate
            | RangeFunction::BytesOverTime
            | RangeFunction::AbsentOverTime => samples.len() as f64,
        }
    }
}

fn variance(values: impl Iterator<Item = f64>) -> f64 {
    let mut variance = RunningVariance::default();
    values.for_each(|value| variance.add(value));
    variance.variance()
}

//! Functions over the samples of a window.
//!
//! Most follow from a state of constant size ([`folds`]). Quantiles need all values, and rates of
//! counters all samples in their order.

pub(crate) mod folds;
mod keep;
pub(crate) mod quantile;
mod rate_counter;
mod select;
mod sliding;
mod summary;

pub(crate) use keep::{Keep, StateParts};
pub(crate) use select::Selector;
pub(crate) use sliding::SlidingWindow;
pub(crate) use summary::Summary;

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

/// A function that needs more of a window than a state of constant size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WholeFunction {
    /// The quantile of this rank.
    Quantile(f64),
    RateCounter,
}

impl WholeFunction {
    /// The value over the samples of a window, which is not empty and in time order.
    pub(crate) fn evaluate(self, window: &Window, samples: &[WindowSample]) -> f64 {
        match self {
            Self::Quantile(q) => quantile::quantile(q, samples.iter().map(|sample| sample.value)),
            Self::RateCounter => rate_counter::rate_counter(window, samples),
        }
    }
}

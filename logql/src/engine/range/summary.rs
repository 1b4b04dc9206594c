//! The joinable forms of the functions over a window.
//!
//! They give the same numbers as the plain forms up to the rounding of additions
//! that are done in another order.

use super::rate_counter::extrapolated;
use super::sliding::PartialAggregate;
use super::{Window, WindowSample};
use crate::engine::statistics::{larger, smaller};
use crate::syntax::ast::RangeFunction;

/// Everything that the foldable functions need of a run of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    count: f64,
    sum: f64,
    min: f64,
    max: f64,
    /// Mean and sum of squared distances from it.
    mean: f64,
    squares: f64,
    first: WindowSample,
    last: WindowSample,
    /// Sum of the values that were followed by a smaller one.
    resets: f64,
}

impl Summary {
    pub(crate) fn of(sample: &WindowSample) -> Self {
        let value = sample.value;
        Self {
            count: 1.0,
            sum: value,
            min: value,
            max: value,
            mean: value,
            squares: 0.0,
            first: *sample,
            last: *sample,
            resets: 0.0,
        }
    }

    /// The value of a function; `None` for one that cannot be folded.
    pub(crate) fn value(&self, function: RangeFunction, window: &Window) -> Option<f64> {
        Some(match function {
            RangeFunction::SumOverTime => self.sum,
            RangeFunction::Rate => self.sum / window.range_s(),
            RangeFunction::AvgOverTime => self.sum / self.count,
            RangeFunction::MinOverTime => self.min,
            RangeFunction::MaxOverTime => self.max,
            RangeFunction::StdvarOverTime => self.squares / self.count,
            RangeFunction::StddevOverTime => (self.squares / self.count).sqrt(),
            RangeFunction::FirstOverTime => self.first.value,
            RangeFunction::LastOverTime => self.last.value,
            RangeFunction::RateCounter => {
                let increase = self.last.value - self.first.value + self.resets;
                extrapolated(window, &self.first, &self.last, self.count, increase)
            }
            _ => return None,
        })
    }
}

impl PartialAggregate for Summary {
    fn join(self, later: Self) -> Self {
        let count = self.count + later.count;
        let delta = later.mean - self.mean;
        let reset = if later.first.value < self.last.value { self.last.value } else { 0.0 };
        Self {
            count,
            sum: self.sum + later.sum,
            min: smaller(self.min, later.min),
            max: larger(self.max, later.max),
            mean: self.mean + delta * (later.count / count),
            squares: self.squares
                + later.squares
                + delta * delta * (self.count * (later.count / count)),
            first: self.first,
            last: later.last,
            resets: self.resets + later.resets + reset,
        }
    }
}

//! The joinable form of `rate_counter`.
//!
//! It gives the same numbers as the plain form up to the rounding of additions that are done in
//! another order.

use super::rate_counter::extrapolated;
use super::sliding::PartialAggregate;
use super::{Window, WindowSample};

/// Everything that the function needs of a run of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    count: f64,
    first: WindowSample,
    last: WindowSample,
    /// Sum of the values that were followed by a smaller one.
    resets: f64,
}

impl Summary {
    pub(crate) fn of(sample: &WindowSample) -> Self {
        Self { count: 1.0, first: *sample, last: *sample, resets: 0.0 }
    }

    /// The rate per second over a window.
    pub(crate) fn rate(&self, window: &Window) -> f64 {
        let increase = self.last.value - self.first.value + self.resets;
        extrapolated(window, &self.first, &self.last, self.count, increase)
    }
}

impl PartialAggregate for Summary {
    fn join(&mut self, later: &Self) {
        let reset = if later.first.value < self.last.value { self.last.value } else { 0.0 };
        self.count += later.count;
        self.last = later.last;
        self.resets += later.resets + reset;
    }
}

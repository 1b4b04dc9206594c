//! The functions over a window that follow from a state of constant size.
//!
//! Guarantees: the value depends on the samples alone, not on how they were split among folds that
//! were joined in the order of time. First and last values depend on that order, the others on the
//! values only: -0 is smaller than 0, a number wins over NaN, and sums are exact
//! ([`ExactSum`], [`Moments`]).

use super::Window;
use super::sliding::PartialAggregate;
use crate::engine::exact_sum::{ExactSum, Moments};
use crate::syntax::ast::RangeFunction;

/// A fold of samples that gives the value of a function.
pub(crate) trait Fold: PartialAggregate {
    /// The fold of one sample.
    fn of(value: f64) -> Self;

    /// Adds the sample behind these.
    fn add(&mut self, value: f64) {
        self.join(&Self::of(value));
    }

    /// The value of one of its functions over the samples of a window.
    fn value(&self, function: RangeFunction, window: &Window) -> f64;

    /// Heap memory in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// The most heap memory that a fold has which is joined from some of these, in bytes.
    fn joined_heap_bytes<'f>(_folds: impl Iterator<Item = &'f Self> + Clone) -> usize
    where
        Self: 'f,
    {
        0
    }
}

/// For `min_over_time`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Least(pub(crate) f64);

/// For `max_over_time`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Greatest(pub(crate) f64);

/// For `first_over_time`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct First(pub(crate) f64);

/// For `last_over_time`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Last(pub(crate) f64);

/// For `sum_over_time`, `rate`, `avg_over_time`, and the number of samples.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Total {
    /// How many values there are; needed for means and numbers of samples.
    pub(crate) count: u64,
    pub(crate) sum: ExactSum,
}

/// The smaller value. All NaN count as one.
pub(crate) fn least(kept: f64, value: f64) -> f64 {
    if kept.is_nan() || value.total_cmp(&kept).is_lt() && !value.is_nan() { value } else { kept }
}

/// The larger value. All NaN count as one.
pub(crate) fn greatest(kept: f64, value: f64) -> f64 {
    if kept.is_nan() || value.total_cmp(&kept).is_gt() && !value.is_nan() { value } else { kept }
}

/// The value, with one NaN for all.
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

impl PartialAggregate for Least {
    fn join(&mut self, later: &Self) {
        self.0 = least(self.0, later.0);
    }
}

impl Fold for Least {
    fn of(value: f64) -> Self {
        Self(value)
    }

    fn value(&self, _: RangeFunction, _: &Window) -> f64 {
        canonical(self.0)
    }
}

impl PartialAggregate for Greatest {
    fn join(&mut self, later: &Self) {
        self.0 = greatest(self.0, later.0);
    }
}

impl Fold for Greatest {
    fn of(value: f64) -> Self {
        Self(value)
    }

    fn value(&self, _: RangeFunction, _: &Window) -> f64 {
        canonical(self.0)
    }
}

impl PartialAggregate for First {
    fn join(&mut self, _: &Self) {}
}

impl Fold for First {
    fn of(value: f64) -> Self {
        Self(value)
    }

    fn value(&self, _: RangeFunction, _: &Window) -> f64 {
        self.0
    }
}

impl PartialAggregate for Last {
    fn join(&mut self, later: &Self) {
        *self = *later;
    }
}

impl Fold for Last {
    fn of(value: f64) -> Self {
        Self(value)
    }

    fn value(&self, _: RangeFunction, _: &Window) -> f64 {
        self.0
    }
}

impl PartialAggregate for Total {
    fn join(&mut self, later: &Self) {
        self.count = self.count.saturating_add(later.count);
        self.sum.join(&later.sum);
    }
}

impl Fold for Total {
    fn of(value: f64) -> Self {
        Self { count: 1, sum: ExactSum::of(value) }
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum.add(value);
    }

    fn value(&self, function: RangeFunction, window: &Window) -> f64 {
        match function {
            RangeFunction::Rate => self.sum.value() / window.range_s(),
            RangeFunction::AvgOverTime => self.sum.mean(self.count),
            RangeFunction::SumOverTime => self.sum.value(),
            _ => self.count as f64,
        }
    }

    fn heap_bytes(&self) -> usize {
        self.sum.heap_bytes()
    }

    fn joined_heap_bytes<'f>(folds: impl Iterator<Item = &'f Self> + Clone) -> usize {
        ExactSum::joined_heap_bytes(folds.map(|fold| &fold.sum))
    }
}

impl PartialAggregate for Moments {
    fn join(&mut self, later: &Self) {
        Moments::join(self, later);
    }
}

impl Fold for Moments {
    fn of(value: f64) -> Self {
        let mut moments = Self::default();
        moments.add(value);
        moments
    }

    fn add(&mut self, value: f64) {
        Moments::add(self, value);
    }

    fn value(&self, function: RangeFunction, _: &Window) -> f64 {
        match function {
            RangeFunction::StddevOverTime => self.deviation(),
            _ => self.variance(),
        }
    }

    fn heap_bytes(&self) -> usize {
        Moments::heap_bytes(self)
    }

    fn joined_heap_bytes<'f>(folds: impl Iterator<Item = &'f Self> + Clone) -> usize {
        Moments::joined_heap_bytes(folds)
    }
}

//! `sum`, `count`, `avg`, `min`, `max`, `stddev` and `stdvar` over series.

use super::super::plan::group_labels;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::{Grouping, VectorFunction};

/// Folds the values of one group at one step.
#[derive(Clone, Copy, Debug, Default)]
struct Fold {
    count: u64,
    /// The sum, extremum or mean so far.
    value: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

/// How a fold takes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Sum,
    Count,
    Avg,
    Min,
    Max,
    Stdvar,
    Stddev,
}

impl Kind {
    fn of(function: VectorFunction) -> Option<Self> {
        Some(match function {
            VectorFunction::Sum => Self::Sum,
            VectorFunction::Count => Self::Count,
            VectorFunction::Avg => Self::Avg,
            VectorFunction::Min => Self::Min,
            VectorFunction::Max => Self::Max,
            VectorFunction::Stdvar => Self::Stdvar,
            VectorFunction::Stddev => Self::Stddev,
            VectorFunction::Bottomk
            | VectorFunction::Topk
            | VectorFunction::Sort
            | VectorFunction::SortDesc
            | VectorFunction::ApproxTopk => return None,
        })
    }
}

impl Fold {
    fn add(&mut self, kind: Kind, value: f64) {
        self.count += 1;
        let is_first = self.count == 1;
        match kind {
            Kind::Count => {}
            Kind::Sum => self.value = if is_first { value } else { self.value + value },
            Kind::Avg => self.value = running_mean(self.value, self.count, value),
            Kind::Min if is_first || value < self.value || self.value.is_nan() => {
                self.value = value;
            }
            Kind::Max if is_first || value > self.value || self.value.is_nan() => {
                self.value = value;
            }
            Kind::Min | Kind::Max => {}
            Kind::Stdvar | Kind::Stddev => {
                let delta = value - self.value;
                self.value += delta / self.count as f64;
                self.squares += delta * (value - self.value);
            }
        }
    }

    fn finish(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Count => self.count as f64,
            Kind::Sum | Kind::Avg | Kind::Min | Kind::Max => self.value,
            Kind::Stdvar => self.squares / self.count as f64,
            Kind::Stddev => (self.squares / self.count as f64).sqrt(),
        }
    }
}

/// The mean of `count` values, given the mean of all but the last. A mean that has
/// become infinite stays so unless NaN or the other infinity comes.
pub(crate) fn running_mean(mean: f64, count: u64, value: f64) -> f64 {
    if mean.is_infinite() {
        let same_sign = value.is_infinite() && (value > 0.0) == (mean > 0.0);
        if same_sign || value.is_finite() {
            return mean;
        }
    }
    let count = count as f64;
    mean + (value / count - mean / count)
}

/// Aggregates the series of each group. Values of one step are taken in the order
/// of the series, so that the result depends on nothing else.
///
/// # Panics
/// When `function` selects samples instead of folding them.
pub(crate) fn aggregate(
    function: VectorFunction,
    grouping: Option<&Grouping>,
    series: &[Series],
) -> Vec<Series> {
    let kind = Kind::of(function).expect("the caller handles selecting functions");
    let groups = Groups::of(series, |labels| group_labels(labels, grouping));
    let mut folds: Vec<Fold> = Vec::new();
    let mut out = Vec::with_capacity(groups.keys.len());
    for (labels, members) in groups.keys.into_iter().zip(&groups.members) {
        let members = || members.iter().map(|&member| &series[member].points);
        let first = members().filter_map(|points| points.first()).map(|point| point.step).min();
        let last = members().filter_map(|points| points.last()).map(|point| point.step).max();
        let (Some(first), Some(last)) = (first, last) else { continue };
        folds.clear();
        folds.resize((last - first + 1) as usize, Fold::default());
        for points in members() {
            for point in points {
                folds[(point.step - first) as usize].add(kind, point.value);
            }
        }
        let points = (first..)
            .zip(&folds)
            .filter(|(_, fold)| fold.count > 0)
            .map(|(step, fold)| Point { step, value: fold.finish(kind) })
            .collect();
        out.push(Series { labels, points });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(kind: Kind, values: &[f64]) -> f64 {
        let mut fold = Fold::default();
        for value in values {
            fold.add(kind, *value);
        }
        fold.finish(kind)
    }

    #[test]
    fn extrema_prefer_numbers_over_nan() {
        let nan = f64::NAN;
        assert_eq!(fold(Kind::Min, &[nan, 3.0, nan, 2.0, 5.0]), 2.0);
        assert_eq!(fold(Kind::Max, &[1.0, nan, 3.0]), 3.0);
        assert!(fold(Kind::Max, &[nan, nan]).is_nan());
    }

    #[test]
    fn the_mean_stays_infinite_with_finite_values() {
        let inf = f64::INFINITY;
        assert_eq!(fold(Kind::Avg, &[1.0, inf, 2.0, inf]), inf);
        assert!(fold(Kind::Avg, &[inf, -inf]).is_nan());
        assert_eq!(fold(Kind::Avg, &[1.0, 2.0, 3.0]), 2.0);
    }

    #[test]
    fn deviations_are_those_of_the_population() {
        assert_eq!(fold(Kind::Stddev, &[3.0, 1.0]), 1.0);
        assert_eq!(fold(Kind::Stdvar, &[5.0]), 0.0);
        assert_eq!(fold(Kind::Stdvar, &[3.0, 1.0, 2.0, 2.0, 5.0]), 1.839_999_999_999_999_9);
    }
}

//! `sum`, `count`, `avg`, `min`, `max`, `stddev` and `stdvar` over series.

use super::super::meter::Meter;
use super::super::statistics::{RunningVariance, larger, running_mean, smaller};
use super::grouping::group_labels;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::{Grouping, VectorFunction};

/// Aggregates the values of one group at one step.
#[derive(Clone, Copy, Debug, Default)]
struct Accumulator {
    count: u64,
    /// The sum, extremum or mean so far.
    value: f64,
    variance: RunningVariance,
}

/// How an accumulator takes a value.
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

impl Accumulator {
    fn add(&mut self, kind: Kind, value: f64) {
        self.count += 1;
        let is_first = self.count == 1;
        match kind {
            Kind::Count => {}
            Kind::Sum => self.value += value,
            Kind::Avg => self.value = running_mean(self.value, self.count, value),
            Kind::Min => self.value = if is_first { value } else { smaller(self.value, value) },
            Kind::Max => self.value = if is_first { value } else { larger(self.value, value) },
            Kind::Stdvar | Kind::Stddev => self.variance.add(value),
        }
    }

    fn finish(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Count => self.count as f64,
            Kind::Sum | Kind::Avg | Kind::Min | Kind::Max => self.value,
            Kind::Stdvar => self.variance.variance(),
            Kind::Stddev => self.variance.variance().sqrt(),
        }
    }
}

/// Aggregates the series of each group. Values of one step are taken in the order
/// of the labels of their series, so that the result depends on nothing else. A meter that
/// is stopped ends it early.
///
/// # Panics
/// When `function` selects samples instead of folding them.
pub(crate) fn aggregate(
    meter: &Meter,
    function: VectorFunction,
    grouping: Option<&Grouping>,
    series: &[Series],
) -> Vec<Series> {
    let kind = Kind::of(function).expect("the caller handles selecting functions");
    let mut groups = Groups::of(meter, series, |labels| group_labels(labels, grouping));
    groups.order_members(meter, series);
    let mut folds: Vec<Accumulator> = Vec::new();
    if !meter.admit(groups.keys.len() * size_of::<Series>()) {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(groups.keys.len());
    for (labels, members) in groups.keys.into_iter().zip(&groups.members) {
        let members = || members.iter().map(|&member| &series[member].points);
        let first = members().filter_map(|points| points.first()).map(|point| point.step).min();
        let last = members().filter_map(|points| points.last()).map(|point| point.step).max();
        let (Some(first), Some(last)) = (first, last) else { continue };
        let steps = (last - first + 1) as usize;
        if !meter.admit(steps.saturating_sub(folds.capacity()) * 2 * size_of::<Accumulator>()) {
            break;
        }
        folds.clear();
        folds.resize(steps, Accumulator::default());
        for points in members() {
            if !meter.work(points.len() * size_of::<Point>()) {
                break;
            }
            for point in points {
                folds[(point.step - first) as usize].add(kind, point.value);
            }
        }
        let count = folds.iter().filter(|fold| fold.count > 0).count();
        if !meter.admit(count * size_of::<Point>()) || !meter.work(steps * size_of::<Accumulator>())
        {
            break;
        }
        let mut points = Vec::with_capacity(count);
        let kept = (first..).zip(&folds).filter(|(_, fold)| fold.count > 0);
        points.extend(kept.map(|(step, fold)| Point { step, value: fold.finish(kind) }));
        out.push(Series { labels, points });
    }
    out
}

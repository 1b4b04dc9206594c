//! The half of a query that runs once: merging the leaves of all shards and evaluating the
//! expression above them.
//!
//! Results of leaves may be added in any order; the answer depends neither on the order nor on the
//! number of shards. Expressions are evaluated over whole series, with the meaning of a separate
//! evaluation at every step.
//!
//! A [`Meter`] admits memory before it is allocated, and counts work, for the partial results that
//! are added and for every list that is made of them. Functions that find the meter stopped return
//! an incomplete result, which is dropped: [`MergeState::finish`] gives an error then.

mod aggregate;
mod binary;
mod folded;
mod grouping;
mod label_replace;
mod log;
mod samples;
mod select;
mod series;
mod sets;
mod states;
mod unwrapped;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::error::EvalError;
use super::leaf::log::LogPartial;
use super::leaf::range::SumSeries;
use super::leaf::runs::SumPoint;
use super::leaf::{LeafData, LeafResult, LeafStats};
use super::meter::{Allowance, Meter, Stop, Unlimited};
use super::params::{Grid, Windows};
use super::patterns::{self, FoundTemplate};
use super::place::Place;
use super::plan::{Node, Plan, Root};
use super::result::{MatrixSeries, QueryResult, ResultPoint, VectorSample};
use crate::syntax::ast::VectorFunction;
use samples::MergedSamples;
use series::{Point, SERIES_WORK, Series, Value};
use states::MergedStates;
use unwrapped::Unwrapped;
use values::MergedValues;

/// Bytes of a series in a tree of series, besides its labels and points.
const MAP_ENTRY_BYTES: usize = 2 * size_of::<(PairOrder, Vec<SumPoint>)>() + size_of::<usize>();

/// The merged results of the shards for one leaf so far.
#[derive(Debug, Default)]
struct LeafState {
    logs: Vec<LogPartial>,
    /// Ordered by pairs rather than by text, the order of metric results.
    sums: BTreeMap<PairOrder, Vec<SumPoint>>,
    samples: MergedSamples,
    values: MergedValues,
    states: MergedStates,
    patterns: Vec<FoundTemplate>,
}

/// Labels in the order of metric results.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PairOrder(Labels);

impl PartialOrd for PairOrder {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PairOrder {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp_pairs(&other.0)
    }
}

/// Merges the results of a plan's leaves.
#[derive(Debug)]
pub struct MergeState {
    root: Arc<Root>,
    leaves: Vec<LeafState>,
    failure: Option<EvalError>,
    stats: LeafStats,
    meter: Meter,
}

impl MergeState {
    /// Nothing merged yet, with unlimited memory and time.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self::with_allowance(plan, Box::new(Unlimited), 0)
    }

    /// Nothing merged yet. Of the allowance `taken_bytes` are taken already, for the parts that
    /// will be added.
    #[must_use]
    pub fn with_allowance(plan: &Plan, allowance: Box<dyn Allowance>, taken_bytes: u64) -> Self {
        let taken_bytes = usize::try_from(taken_bytes).unwrap_or(usize::MAX);
        Self {
            root: Arc::clone(&plan.root),
            leaves: plan.leaves.iter().map(|_| LeafState::default()).collect(),
            failure: None,
            stats: LeafStats::default(),
            meter: Meter::holding(allowance, taken_bytes),
        }
    }

    /// Takes the result of one leaf on one shard. Drops a part for which there is no memory;
    /// [`MergeState::finish`] fails then.
    ///
    /// # Panics
    /// When the result belongs to another plan.
    pub fn add(&mut self, result: LeafResult) {
        self.stats.add(&result.stats);
        let meter = &self.meter;
        if meter.is_stopped() {
            return;
        }
        let leaf = &mut self.leaves[result.leaf];
        match result.data {
            LeafData::Log(partial) => leaf.logs.push(partial),
            LeafData::Sums(series) => {
                let lists_bytes = series.capacity() * size_of::<SumSeries>();
                for SumSeries { labels, points } in series {
                    let work = labels.as_bytes().len() + points.len() * size_of::<SumPoint>();
                    if !meter.work(SERIES_WORK + work) || !meter.admit(MAP_ENTRY_BYTES) {
                        return;
                    }
                    let merged = leaf.sums.entry(PairOrder(labels)).or_default();
                    add_points(meter, merged, points);
                }
                meter.release(lists_bytes);
            }
            LeafData::Samples(partial) => leaf.samples.add(partial),
            LeafData::Values(part) => values::add(meter, &mut leaf.values, part),
            LeafData::States(part) => leaf.states.add(meter, part),
            LeafData::Patterns(found) => leaf.patterns.extend(found),
            LeafData::Failed(error) => {
                // The reported failure must not depend on the order of arrival.
                let is_first =
                    self.failure.as_ref().is_none_or(|known| error.to_string() < known.to_string());
                if is_first {
                    self.failure = Some(error);
                }
            }
        }
    }

    /// True when the query has failed, so that leaves that still run may stop.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The work of all leaves added.
    #[must_use]
    pub fn stats(&self) -> LeafStats {
        self.stats
    }

    /// The answer.
    ///
    /// # Errors
    /// When a leaf failed, samples cannot be paired, there are too many series, or there is no
    /// memory or time for it.
    pub fn finish(self) -> Result<QueryResult, EvalError> {
        self.finish_held().map(|finished| finished.result)
    }

    /// The answer with all that belongs to it.
    ///
    /// # Errors
    /// As for [`MergeState::finish`].
    pub fn finish_held(self) -> Result<Finished, EvalError> {
        let Self { root, leaves, failure, meter, .. } = self;
        meter.check()?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut last = None;
        let result = match &*root {
            Root::Log(answer) => {
                let partials = leaves.into_iter().flat_map(|leaf| leaf.logs).collect();
                let streams;
                (streams, last) = answer.finish(&meter, partials);
                QueryResult::Streams(streams)
            }
            Root::Patterns { step_ns } => {
                let found: Vec<_> = leaves.into_iter().flat_map(|leaf| leaf.patterns).collect();
                let found_bytes: usize = found.iter().map(FoundTemplate::held_bytes).sum();
                // Once joined, once as series, and once as the texts that they are sorted by.
                if !meter.work(PATTERN_WORK * found_bytes) || !meter.admit(3 * found_bytes) {
                    return Err(stopped(&meter));
                }
                QueryResult::Matrix(patterns::merge(found, *step_ns))
            }
            Root::Metric { node, grid, is_instant, max_series } => {
                let leaves: Vec<MergedLeaf> = leaves
                    .into_iter()
                    .map(|leaf| MergedLeaf {
                        sums: leaf.sums,
                        unwrapped: Unwrapped {
                            samples: leaf.samples.finish(&meter),
                            values: leaf.values,
                            states: leaf.states.finish(&meter),
                        },
                    })
                    .collect();
                meter.check()?;
                let (meter, grid, is_instant) = (&meter, *grid, *is_instant);
                let evaluation = Evaluation { meter, leaves: &leaves, grid, is_instant };
                let value = evaluation.evaluate(node)?;
                drop(leaves);
                meter.release_to(value.held_bytes());
                shape(meter, value, node, grid, is_instant, *max_series)?
            }
        };
        // Partial results that did not enter the answer are dropped.
        meter.reconcile(result.held_bytes());
        Ok(Finished { result, last, memory: meter.into_allowance()? })
    }
}

/// The answer of a query.
pub struct Finished {
    /// The answer.
    pub result: QueryResult,
    /// The place of the last entry of a log query, if there may be more.
    pub last: Option<Place>,
    /// Holds the memory of the answer.
    pub memory: Box<dyn Allowance>,
}

impl From<Stop> for EvalError {
    fn from(stop: Stop) -> Self {
        EvalError::Stopped(stop)
    }
}

/// The work of joining a byte of patterns.
const PATTERN_WORK: usize = 16;

/// Adds points to points, steps ascending on both sides.
fn add_points(meter: &Meter, merged: &mut Vec<SumPoint>, points: Vec<SumPoint>) {
    if merged.is_empty() {
        *merged = points;
        return;
    }
    let (before, added) = (merged.capacity(), points.capacity());
    let most = merged.len() + points.len();
    if !meter.admit(most * size_of::<SumPoint>()) {
        return;
    }
    let mut out = Vec::with_capacity(most);
    let mut left = merged.iter().copied().peekable();
    let mut right = points.into_iter().peekable();
    loop {
        match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.step == b.step => {
                out.push(SumPoint { step: a.step, sum: a.sum.saturating_add(b.sum) });
                left.next();
                right.next();
            }
            (Some(a), Some(b)) if a.step > b.step => out.extend(right.next()),
            (Some(_), _) => out.extend(left.next()),
            (None, Some(_)) => out.extend(right.next()),
            (None, None) => break,
        }
    }
    // As long as it is: mostly both sides have the same steps.
    out.shrink_to_fit();
    meter.release((before + added + most - out.capacity()) * size_of::<SumPoint>());
    *merged = out;
}

/// The series of a leaf, of all shards together.
struct MergedLeaf {
    sums: BTreeMap<PairOrder, Vec<SumPoint>>,
    unwrapped: Unwrapped,
}

/// Evaluates nodes over merged leaves.
struct Evaluation<'m> {
    meter: &'m Meter,
    leaves: &'m [MergedLeaf],
    grid: Grid,
    is_instant: bool,
}

impl Evaluation<'_> {
    /// The value of a node. The memory of its intermediate values is free afterwards.
    fn evaluate(&self, node: &Node) -> Result<Value, EvalError> {
        let before_bytes = self.meter.used_bytes();
        let value = self.evaluated(node)?;
        self.meter.check()?;
        self.meter.release_to(before_bytes.saturating_add(value.held_bytes()));
        Ok(value)
    }

    fn evaluated(&self, node: &Node) -> Result<Value, EvalError> {
        let meter = self.meter;
        Ok(match node {
            Node::Scalar(value) => Value::Scalar(*value),
            Node::Vector(value) => Value::Samples(self.constant(Labels::empty(), *value)),
            Node::Sums { leaf, divisor_s } => Value::Samples(self.sums(*leaf, *divisor_s)),
            Node::Samples { leaf, function, windows } => {
                let unwrapped = &self.leaves[*leaf].unwrapped;
                Value::Samples(unwrapped.evaluate(meter, function, windows)?)
            }
            Node::Absent { leaf, labels, windows } => {
                Value::Samples(self.absent(*leaf, labels, windows))
            }
            Node::Aggregate { function, parameter, grouping, input } => {
                let series = self.samples(input)?;
                let k = parameter.unwrap_or(0);
                let grouping = grouping.as_ref();
                Value::Samples(match function {
                    VectorFunction::Topk => select::extreme(meter, k, true, grouping, series),
                    VectorFunction::Bottomk => select::extreme(meter, k, false, grouping, series),
                    VectorFunction::Sort => self.sorted(false, series),
                    VectorFunction::SortDesc => self.sorted(true, series),
                    folding => aggregate::aggregate(meter, *folding, grouping, &series),
                })
            }
            Node::Binary { op, return_bool, matching, left, right } => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                binary::evaluate(meter, *op, *return_bool, matching, left, right)?
            }
            Node::LabelReplace { replace, input } => {
                let mut series = self.samples(input)?;
                label_replace::relabel(meter, replace, &mut series)?;
                Value::Samples(series)
            }
        })
    }

    /// The samples of an operand; the plan refuses scalars where samples are needed.
    fn samples(&self, node: &Node) -> Result<Vec<Series>, EvalError> {
        Ok(match self.evaluate(node)? {
            Value::Samples(series) => series,
            Value::Scalar(value) => self.constant(Labels::empty(), value),
        })
    }

    /// One series with the same value at each step.
    fn constant(&self, labels: Labels, value: f64) -> Vec<Series> {
        constant(self.meter, self.grid, labels, value)
    }

    fn sums(&self, leaf: usize, divisor_s: Option<f64>) -> Vec<Series> {
        let value = |sum: u64| match divisor_s {
            Some(divisor_s) => sum as f64 / divisor_s,
            None => sum as f64,
        };
        let sums = &self.leaves[leaf].sums;
        if !self.meter.admit(sums.len() * size_of::<Series>()) {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(sums.len());
        for (labels, points) in sums {
            let bytes = labels.0.as_bytes().len() + points.len() * size_of::<Point>();
            if !self.meter.work(SERIES_WORK + bytes) || !self.meter.admit(bytes) {
                break;
            }
            let point = |point: &SumPoint| Point { step: point.step, value: value(point.sum) };
            let points = points.iter().map(point).collect();
            out.push(Series { labels: labels.0.clone(), points });
        }
        out
    }

    fn absent(&self, leaf: usize, labels: &Labels, windows: &Windows) -> Vec<Series> {
        let mut series = self.constant(labels.clone(), 1.0);
        let leaf = &self.leaves[leaf];
        let mut present = leaf.unwrapped.steps_with_samples(self.meter, windows);
        for points in leaf.sums.values() {
            if !self.meter.work(points.len() * size_of::<SumPoint>()) {
                break;
            }
            for point in points {
                present[point.step as usize] = true;
            }
        }
        for one in &mut series {
            one.points.retain(|point| !present[point.step as usize]);
        }
        series.retain(|one| !one.points.is_empty());
        series
    }

    /// Sorting shows in instant queries only.
    fn sorted(&self, descending: bool, mut series: Vec<Series>) -> Vec<Series> {
        let scratch_bytes = series.len() * size_of::<Series>();
        let work = series.len() * SERIES_WORK;
        if self.is_instant && self.meter.work(work) && self.meter.admit(scratch_bytes) {
            select::sort(descending, &mut series);
        }
        series
    }
}

/// One series with the same value at each step.
fn constant(meter: &Meter, grid: Grid, labels: Labels, value: f64) -> Vec<Series> {
    let bytes = size_of::<Series>() + grid.steps as usize * size_of::<Point>();
    if !meter.work(bytes) || !meter.admit(bytes + labels.as_bytes().len()) {
        return Vec::new();
    }
    let points = (0..grid.steps).map(|step| Point { step, value }).collect();
    vec![Series { labels, points }]
}

/// Puts a value into the form and order of the response: a vector is ordered by the pairs of
/// its labels, a matrix by their printed form, in which `{}` comes last, as in Loki.
fn shape(
    meter: &Meter,
    value: Value,
    node: &Node,
    grid: Grid,
    is_instant: bool,
    max_series: usize,
) -> Result<QueryResult, EvalError> {
    let mut series = match value {
        Value::Scalar(value) if is_instant => {
            return Ok(QueryResult::Scalar { timestamp_ms: grid.time_ms(0), value });
        }
        Value::Scalar(value) => constant(meter, grid, Labels::empty(), value),
        Value::Samples(series) => series,
    };
    let row_bytes = size_of::<MatrixSeries>().max(size_of::<VectorSample>());
    let rows =
        if is_instant { series.iter().map(|one| one.points.len()).sum() } else { series.len() };
    // Sorted beside itself, and as rows of the answer.
    let lists_bytes = series.len() * size_of::<Series>() + rows * row_bytes;
    if !meter.work(series.iter().map(Series::work).sum()) || !meter.admit(lists_bytes) {
        return Err(stopped(meter));
    }
    if !(is_instant && node.sorts()) {
        series.sort_by(|a, b| {
            // A sort cannot end early.
            meter.work(SERIES_WORK / 4);
            match is_instant {
                true => a.labels.cmp_pairs(&b.labels),
                false => a.labels.cmp(&b.labels),
            }
        });
    }
    let result = if is_instant {
        QueryResult::Vector(vector(meter, grid, rows, series))
    } else {
        QueryResult::Matrix(matrix(meter, grid, series))
    };
    if meter.is_stopped() {
        return Err(stopped(meter));
    }
    let count = match &result {
        QueryResult::Matrix(matrix) => matrix.len(),
        QueryResult::Vector(samples) => samples.len(),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => 0,
    };
    if max_series > 0 && count > max_series {
        return Err(EvalError::TooManySeries { max_series });
    }
    Ok(result)
}

/// The reason why a stopped meter is stopped.
fn stopped(meter: &Meter) -> EvalError {
    EvalError::Stopped(meter.stop().unwrap_or(Stop::Busy))
}

/// The samples of series, each with its labels. `count` is the number of samples.
fn vector(meter: &Meter, grid: Grid, count: usize, series: Vec<Series>) -> Vec<VectorSample> {
    let mut out = Vec::with_capacity(count);
    for Series { labels, points } in series {
        let (mut points, labels_bytes) = (points.into_iter(), labels.as_bytes().len());
        let last = points.next_back();
        let copies_bytes = points.len().saturating_mul(labels_bytes);
        if !meter.work(SERIES_WORK + copies_bytes) || !meter.admit(copies_bytes) {
            break;
        }
        out.extend(
            points.map(|one| VectorSample { labels: labels.clone(), point: point(grid, one) }),
        );
        out.extend(last.map(|one| VectorSample { labels, point: point(grid, one) }));
    }
    out
}

/// The series of the answer. Series with equal labels become one series with several points at a
/// time, as in Loki.
fn matrix(meter: &Meter, grid: Grid, series: Vec<Series>) -> Vec<MatrixSeries> {
    let mut out: Vec<MatrixSeries> = Vec::with_capacity(series.len());
    let mut series = series.into_iter().peekable();
    while let Some(Series { labels, mut points }) = series.next() {
        if !meter.work(points.len() * size_of::<Point>()) {
            break;
        }
        let mut is_alone = true;
        while let Some(same) = series.next_if(|other| other.labels == labels) {
            is_alone = false;
            // A list that doubles, and is sorted beside itself.
            if !meter.work(SERIES_WORK + 4 * same.points.len() * size_of::<Point>())
                || !meter.admit(4 * same.points.len() * size_of::<Point>())
            {
                break;
            }
            points.extend(same.points);
        }
        if !is_alone {
            points.sort_by_key(|point| point.step);
        }
        // In place: both kinds of points are equally large.
        let points = points.into_iter().map(|one| point(grid, one)).collect();
        out.push(MatrixSeries { labels, points });
    }
    out
}

fn point(grid: Grid, point: Point) -> ResultPoint {
    ResultPoint { timestamp_ms: grid.time_ms(point.step), value: point.value }
}

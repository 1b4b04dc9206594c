//! The half of a query that runs once: merging the leaves of all shards and
//! evaluating what stands above them.
//!
//! Results of leaves may be added in any order; the answer does not depend on it,
//! nor on how many shards there are. Expressions are evaluated over whole series,
//! with the meaning of a separate evaluation at every step.

mod aggregate;
mod binary;
mod grouping;
mod label_replace;
mod log;
mod samples;
mod select;
mod series;
mod sets;

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::error::EvalError;
use super::leaf::log::LogPartial;
use super::leaf::range::SumSeries;
use super::leaf::runs::SumPoint;
use super::leaf::{LeafData, LeafResult, LeafStats};
use super::params::{Grid, Windows};
use super::patterns::{self, FoundTemplate};
use super::plan::{Node, Plan, Root};
use super::range::WindowSample;
use super::result::{MatrixSeries, QueryResult, ResultPoint, VectorSample};
use crate::syntax::ast::VectorFunction;
use log::LogMerge;
use samples::MergedSamples;
use series::{Point, Series, Value};

/// What the shards have found for one leaf so far.
#[derive(Debug, Default)]
struct LeafState {
    logs: Vec<LogPartial>,
    /// Ordered by pairs rather than by text, the order of metric results.
    sums: BTreeMap<PairOrder, Vec<SumPoint>>,
    samples: MergedSamples,
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
    held_bytes: usize,
}

impl MergeState {
    /// Nothing merged yet.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            root: Arc::clone(&plan.root),
            leaves: plan.leaves.iter().map(|_| LeafState::default()).collect(),
            failure: None,
            stats: LeafStats::default(),
            held_bytes: 0,
        }
    }

    /// Takes the result of one leaf on one shard.
    ///
    /// # Panics
    /// When the result belongs to another plan.
    pub fn add(&mut self, result: LeafResult) {
        self.stats.add(&result.stats);
        self.held_bytes += result.held_bytes();
        let leaf = &mut self.leaves[result.leaf];
        match result.data {
            LeafData::Log(partial) => leaf.logs.push(partial),
            LeafData::Sums(series) => {
                for SumSeries { labels, points } in series {
                    let merged = leaf.sums.entry(PairOrder(labels)).or_default();
                    add_points(merged, points);
                }
            }
            LeafData::Samples(partial) => leaf.samples.add(partial),
            LeafData::Patterns(found) => leaf.patterns.extend(found),
            LeafData::Failed(error) => {
                // Which failure is told must not depend on the order of arrival.
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

    /// Memory taken by what was added, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// About how many bytes [`MergeState::finish`] takes at most beside those that were
    /// added: the points of all leaves once as series, once as the result of an operation
    /// or of the query, and once in order. No operation gives more points than it is given.
    #[must_use]
    pub fn finish_bytes(&self) -> u64 {
        let Root::Metric { grid, .. } = &*self.root else { return self.held_bytes as u64 };
        let steps = u64::from(grid.steps);
        // What stands for nothing that was stored, such as constants and absent series.
        let mut points = steps;
        for leaf in &self.leaves {
            let stored: usize = leaf.sums.values().map(Vec::len).sum();
            points += stored as u64 + (leaf.samples.series_count_max() as u64 + 1) * steps;
        }
        let point_bytes = size_of::<Point>() + size_of::<ResultPoint>() + size_of::<&Point>();
        points * point_bytes as u64 + self.held_bytes as u64
    }

    /// The work of all leaves added.
    #[must_use]
    pub fn stats(&self) -> LeafStats {
        self.stats
    }

    /// The answer.
    ///
    /// # Errors
    /// When a leaf failed, samples cannot be paired, or there are too many series.
    pub fn finish(self) -> Result<QueryResult, EvalError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match &*self.root {
            Root::Log { direction, limit, interval_ns, categorize_labels } => {
                let merge = LogMerge {
                    direction: *direction,
                    limit: *limit,
                    interval_ns: *interval_ns,
                    categorize_labels: *categorize_labels,
                };
                let partials = self.leaves.into_iter().flat_map(|leaf| leaf.logs).collect();
                Ok(QueryResult::Streams(merge.finish(partials)))
            }
            Root::Patterns { step_ns } => {
                let found = self.leaves.into_iter().flat_map(|leaf| leaf.patterns).collect();
                Ok(QueryResult::Matrix(patterns::merge(found, *step_ns)))
            }
            Root::Metric { node, grid, is_instant, max_series } => {
                let leaves: Vec<MergedLeaf> = self
                    .leaves
                    .into_iter()
                    .map(|leaf| MergedLeaf { sums: leaf.sums, samples: leaf.samples.finish() })
                    .collect();
                let evaluation =
                    Evaluation { leaves: &leaves, grid: *grid, is_instant: *is_instant };
                let value = evaluation.evaluate(node)?;
                shape(value, node, *grid, *is_instant, *max_series)
            }
        }
    }
}

/// Adds points to points, steps ascending on both sides.
fn add_points(merged: &mut Vec<SumPoint>, points: Vec<SumPoint>) {
    if merged.is_empty() {
        *merged = points;
        return;
    }
    let mut out = Vec::with_capacity(merged.len().max(points.len()));
    let mut left = merged.iter().copied().peekable();
    let mut right = points.into_iter().peekable();
    loop {
        match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if a.step == b.step => {
                out.push(SumPoint { step: a.step, sum: a.sum + b.sum });
                left.next();
                right.next();
            }
            (Some(a), Some(b)) if a.step > b.step => out.extend(right.next()),
            (Some(_), _) => out.extend(left.next()),
            (None, Some(_)) => out.extend(right.next()),
            (None, None) => break,
        }
    }
    *merged = out;
}

/// The series of a leaf, of all shards together.
struct MergedLeaf {
    sums: BTreeMap<PairOrder, Vec<SumPoint>>,
    samples: BTreeMap<PairOrder, Vec<WindowSample>>,
}

/// Evaluates nodes over merged leaves.
struct Evaluation<'m> {
    leaves: &'m [MergedLeaf],
    grid: Grid,
    is_instant: bool,
}

impl Evaluation<'_> {
    fn evaluate(&self, node: &Node) -> Result<Value, EvalError> {
        Ok(match node {
            Node::Scalar(value) => Value::Scalar(*value),
            Node::Vector(value) => Value::Samples(vec![self.constant(Labels::empty(), *value)]),
            Node::Sums { leaf, divisor_s } => Value::Samples(self.sums(*leaf, *divisor_s)),
            Node::Samples { leaf, function, windows } => {
                Value::Samples(samples::evaluate(function, windows, &self.leaves[*leaf].samples)?)
            }
            Node::Absent { leaf, labels, windows } => {
                Value::Samples(self.absent(*leaf, labels, windows))
            }
            Node::Aggregate { function, parameter, grouping, input } => {
                let series = self.samples(input)?;
                let k = parameter.unwrap_or(0);
                let grouping = grouping.as_ref();
                Value::Samples(match function {
                    VectorFunction::Topk => select::extreme(k, true, grouping, series),
                    VectorFunction::Bottomk => select::extreme(k, false, grouping, series),
                    VectorFunction::Sort => self.sorted(false, series),
                    VectorFunction::SortDesc => self.sorted(true, series),
                    folding => aggregate::aggregate(*folding, grouping, &series),
                })
            }
            Node::Binary { op, return_bool, matching, left, right } => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                binary::evaluate(*op, *return_bool, matching, left, right)?
            }
            Node::LabelReplace { replace, input } => {
                let mut series = self.samples(input)?;
                label_replace::relabel(replace, &mut series);
                Value::Samples(series)
            }
        })
    }

    /// The samples of an operand; the plan refuses scalars where samples are needed.
    fn samples(&self, node: &Node) -> Result<Vec<Series>, EvalError> {
        Ok(match self.evaluate(node)? {
            Value::Samples(series) => series,
            Value::Scalar(value) => vec![self.constant(Labels::empty(), value)],
        })
    }

    fn constant(&self, labels: Labels, value: f64) -> Series {
        let points = (0..self.grid.steps).map(|step| Point { step, value }).collect();
        Series { labels, points }
    }

    fn sums(&self, leaf: usize, divisor_s: Option<f64>) -> Vec<Series> {
        let value = |sum: u64| match divisor_s {
            Some(divisor_s) => sum as f64 / divisor_s,
            None => sum as f64,
        };
        self.leaves[leaf]
            .sums
            .iter()
            .map(|(labels, points)| Series {
                labels: labels.0.clone(),
                points: points
                    .iter()
                    .map(|point| Point { step: point.step, value: value(point.sum) })
                    .collect(),
            })
            .collect()
    }

    fn absent(&self, leaf: usize, labels: &Labels, windows: &Windows) -> Vec<Series> {
        let mut series = self.constant(labels.clone(), 1.0);
        let leaf = &self.leaves[leaf];
        let mut present = samples::steps_with_samples(windows, &leaf.samples);
        for point in leaf.sums.values().flatten() {
            present[point.step as usize] = true;
        }
        series.points.retain(|point| !present[point.step as usize]);
        if series.points.is_empty() { Vec::new() } else { vec![series] }
    }

    /// Sorting shows in instant queries only.
    fn sorted(&self, descending: bool, mut series: Vec<Series>) -> Vec<Series> {
        if self.is_instant {
            select::sort(descending, &mut series);
        }
        series
    }
}

/// Puts a value into the form and order of the response: a vector is ordered by the pairs of
/// its labels, a matrix by their printed form, in which `{}` comes last, as in the reference.
fn shape(
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
        Value::Scalar(value) => {
            let points = (0..grid.steps).map(|step| Point { step, value }).collect();
            vec![Series { labels: Labels::empty(), points }]
        }
        Value::Samples(series) => series,
    };
    if !is_instant {
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
    } else if !node.sorts() {
        series.sort_by(|a, b| a.labels.cmp_pairs(&b.labels));
    }
    let point =
        |point: &Point| ResultPoint { timestamp_ms: grid.time_ms(point.step), value: point.value };
    let result = if is_instant {
        let samples = series.iter().flat_map(|one| {
            one.points
                .iter()
                .map(|sample| VectorSample { labels: one.labels.clone(), point: point(sample) })
        });
        QueryResult::Vector(samples.collect())
    } else {
        let mut matrix: Vec<MatrixSeries> = Vec::with_capacity(series.len());
        for same in series.chunk_by(|a, b| a.labels == b.labels) {
            // Series that became equal are one, with several points at a time (Q14).
            let mut points: Vec<&Point> = same.iter().flat_map(|one| &one.points).collect();
            points.sort_by_key(|point| point.step);
            let points = points.into_iter().map(point).collect();
            matrix.push(MatrixSeries { labels: same[0].labels.clone(), points });
        }
        QueryResult::Matrix(matrix)
    };
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

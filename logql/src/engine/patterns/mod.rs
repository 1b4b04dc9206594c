//! Patterns: the templates that the lines of streams follow, with counts over time.
//!
//! Each shard mines them from its stored lines while the query runs; [`tree`] has the algorithm.
//! The results of shards are merged like the results of any other leaf. The answer is a matrix
//! with a series for each template: the label `pattern` is the template in the syntax of pattern
//! filters, `level` the detected level of its lines.
//!
//! Many lines are sampled: after the first [`FULL_LINES`] of a leaf every second line is read and
//! counted twice, after twice as many every fourth line, and so on. So the work grows with the
//! logarithm of the number of lines.

mod token;
mod tree;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use logsvc_proto::Labels;

use super::block::{EntryBlock, MetadataColumn};
use super::error::PlanError;
use super::meter::Meter;
use super::plan::{LeafKind, LeafPlan, Plan, Root};
use super::result::{MatrixSeries, ResultPoint};
use crate::syntax::ast::{LogExpr, Selector};
use tree::Tree;
pub(crate) use tree::{FoundTemplate, TEMPLATES_MAX};

/// The first lines of a leaf, all of which are read.
const FULL_LINES: u64 = 1 << 17;

/// Shortest step in ns; patterns are counted no finer.
pub(crate) const STEP_MIN_NS: i64 = 10_000_000_000;

/// Where a template has so many lines, templates of fewer lines are left out: a user looks for
/// frequent templates, and Loki leaves the rare ones out as well.
const FREQUENT_LINES: u64 = 30;

/// The structured metadata that carries the level of an entry.
const LEVEL_NAME: &str = "detected_level";

/// The levels that are distinguished; the first stands for all others.
const LEVELS: [&str; 8] =
    ["unknown", "critical", "fatal", "error", "warn", "info", "debug", "trace"];

impl Plan {
    /// Plans the patterns of the lines with `start_ns <= t < end_ns` of the selected
    /// streams, counted by steps that begin at multiples of `step_ns` since the epoch;
    /// a step is no shorter than ten seconds.
    ///
    /// # Errors
    /// The range is empty, or the step is not positive.
    pub fn patterns(
        selector: &Selector,
        (start_ns, end_ns): (i64, i64),
        step_ns: i64,
    ) -> Result<Plan, PlanError> {
        if end_ns <= start_ns {
            return Err(PlanError::EndBeforeStart);
        }
        if step_ns <= 0 {
            return Err(PlanError::InvalidStep);
        }
        let step_ns = step_ns.max(STEP_MIN_NS);
        let leaf = LeafPlan {
            index: 0,
            log: Arc::new(LogExpr { selector: selector.clone(), stages: Vec::new() }),
            start_ns,
            end_ns,
            now_ns: end_ns,
            kind: LeafKind::Patterns { step_ns },
            series_limit: None,
            only_stream: None,
        };
        leaf.compiled_matchers()?;
        Ok(Plan { leaves: [leaf].into(), root: Arc::new(Root::Patterns { step_ns }) })
    }
}

/// Mines the lines of a leaf.
#[derive(Debug)]
pub(crate) struct PatternCollector {
    step_ns: i64,
    tree: Tree,
    seen: u64,
}

impl PatternCollector {
    pub(crate) fn new(step_ns: i64) -> Self {
        Self { step_ns, tree: Tree::new(), seen: 0 }
    }

    /// Takes entry `i` of a block.
    pub(crate) fn add(&mut self, block: &EntryBlock<'_>, i: usize, meter: &Meter) {
        let stride = stride_at(self.seen);
        self.seen += 1;
        if !self.seen.is_multiple_of(stride) {
            return;
        }
        let step = block.timestamps_ns[i].div_euclid(self.step_ns);
        self.tree.add(level_of(block, i), block.line_view().get(i), step, stride, meter);
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.tree.held_bytes()
    }

    /// The templates. They are incomplete if the leaf is stopped here.
    pub(crate) fn finish(self, meter: &Meter) -> Vec<FoundTemplate> {
        self.tree.finish(meter)
    }
}

/// The step between read lines after so many lines: one line of each step is read.
fn stride_at(seen: u64) -> u64 {
    match (seen / FULL_LINES).checked_ilog2() {
        None => 1,
        Some(doublings) => 2 << doublings,
    }
}

fn level_of(block: &EntryBlock<'_>, i: usize) -> u8 {
    let MetadataColumn::Sets { set_ids, sets } = block.metadata else { return 0 };
    if set_ids[i] == 0 {
        return 0;
    }
    let value = sets.get(set_ids[i]).find(|(name, _)| *name == LEVEL_NAME);
    let level = value.and_then(|(_, value)| LEVELS.iter().position(|level| *level == value));
    level.unwrap_or(0) as u8
}

/// Joins the results of leaves in any order, and gives the series,
/// most frequent first.
pub(crate) fn merge(mut found: Vec<FoundTemplate>, step_ns: i64) -> Vec<MatrixSeries> {
    let total = |one: &FoundTemplate| {
        one.samples().values().fold(0u64, |sum, count| sum.saturating_add(*count))
    };
    found.sort_by_cached_key(|one| (std::cmp::Reverse(total(one)), one.level(), one.pattern()));
    let mut tree = Tree::new();
    found.into_iter().for_each(|one| tree.merge(one));
    let mut joined = tree.finish(&Meter::default());
    if joined.iter().any(|one| total(one) >= FREQUENT_LINES) {
        joined.retain(|one| total(one) >= FREQUENT_LINES);
    }
    joined.sort_by_cached_key(|one| (std::cmp::Reverse(total(one)), one.level(), one.pattern()));
    let series = joined.iter().map(|one| {
        let (pattern, level) = (one.pattern(), LEVELS[usize::from(one.level())]);
        let pairs = [("level", level), ("pattern", pattern.as_str())];
        let points = one.samples().iter().map(|(step, count)| ResultPoint {
            timestamp_ms: step.saturating_mul(step_ns) / 1_000_000,
            value: *count as f64,
        });
        MatrixSeries {
            labels: Labels::from_result_pairs(pairs).expect("the two names are different"),
            points: points.collect(),
        }
    });
    series.collect()
}

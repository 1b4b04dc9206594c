//! How many bytes streams hold: the plan behind the volume and statistics endpoints.
//!
//! It is a sum of the sizes of entries, lines and metadata, per bucket of time that is
//! grouped by labels of the *streams*. Most blocks that lie within one bucket are answered
//! by their directory entries. Where these do not tell the bytes of metadata, they are estimated
//! (`leaf/sizes.rs`); lines and numbers of entries are always exact.

use std::sync::Arc;

use super::error::PlanError;
use super::params::{Grid, Windows};
use super::plan::EntryValue;
use super::plan::{LeafKind, LeafPlan, Node, Plan, Root, SeriesLabels, StreamLabels};
use crate::syntax::ast::{LogExpr, Selector};

/// The measure of the size of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeOf {
    /// The line: answered by directories of blocks alone.
    Line,
    /// The line, and the names and values of its structured metadata.
    Entry,
}

impl Plan {
    /// Plans the bytes of the entries with `start_ns <= t < end_ns` of the selected
    /// streams. `by` are the labels that tell series apart.
    ///
    /// With a step there is one sample for each bucket that holds entries; buckets
    /// begin at multiples of `step_ns` since the epoch, and their samples are stamped
    /// with the last millisecond that begins in them. Without a step there is one
    /// bucket for the whole range. The result is a matrix in both cases.
    ///
    /// # Errors
    /// The range is empty, the step is not positive, there are more buckets than a
    /// query may have, or the buckets leave the range of timestamps.
    pub fn volume(
        selector: &Selector,
        by: StreamLabels,
        (start_ns, end_ns): (i64, i64),
        step_ns: Option<i64>,
        size: SizeOf,
    ) -> Result<Plan, PlanError> {
        if end_ns <= start_ns {
            return Err(PlanError::EndBeforeStart);
        }
        let windows = match step_ns {
            Some(step_ns) if step_ns <= 0 => return Err(PlanError::InvalidStep),
            Some(step_ns) => buckets(start_ns, end_ns, step_ns)?,
            None => {
                let range_ns = end_ns.checked_sub(start_ns).ok_or(PlanError::TimeOutOfRange)?;
                let grid = Grid { start_ns: end_ns - 1, step_ns: 1, steps: 1 };
                Windows { grid, range_ns, offset_ns: 0 }
            }
        };
        let leaf = LeafPlan {
            index: 0,
            log: Arc::new(LogExpr { selector: selector.clone(), stages: Vec::new() }),
            start_ns,
            end_ns,
            now_ns: end_ns,
            kind: LeafKind::Range {
                windows,
                value: match size {
                    SizeOf::Line => EntryValue::LineLength,
                    SizeOf::Entry => EntryValue::StoredSize,
                },
                series: SeriesLabels::Stream(by.in_order()),
            },
            series_limit: None,
            only_stream: None,
        };
        leaf.compiled_matchers()?;
        let node = Node::Sums { leaf: 0, divisor_s: None };
        let root = Root::Metric { node, grid: windows.grid, is_instant: false, max_series: 0 };
        Ok(Plan { leaves: [leaf].into(), root: Arc::new(root) })
    }
}

impl StreamLabels {
    /// The same with listed labels in their order, and each of them once.
    fn in_order(mut self) -> Self {
        if let Self::Listed(names) | Self::Names(Some(names)) = &mut self {
            names.sort_unstable();
            names.dedup();
        }
        self
    }
}

/// Most buckets, as for the steps of a query; two more may be cut by the range.
const MAX_BUCKETS: u32 = 11_000;

/// Windows that are the buckets of a step: a window ends with its evaluation time, a
/// bucket before the next one begins, so evaluation is a nanosecond earlier.
fn buckets(start_ns: i64, end_ns: i64, step_ns: i64) -> Result<Windows, PlanError> {
    let first = start_ns.div_euclid(step_ns);
    let last = (end_ns - 1).div_euclid(step_ns);
    let steps = i128::from(last) - i128::from(first) + 1;
    let steps = u32::try_from(steps).ok().filter(|&steps| steps <= MAX_BUCKETS + 2);
    let steps = steps.ok_or(PlanError::TooManySteps { max_steps: MAX_BUCKETS })?;
    let end_of = |bucket: i64| (i128::from(bucket) + 1) * i128::from(step_ns) - 1;
    let in_range = |time_ns| i64::try_from(time_ns).map_err(|_| PlanError::TimeOutOfRange);
    in_range(end_of(last))?;
    let grid = Grid { start_ns: in_range(end_of(first))?, step_ns, steps };
    Ok(Windows { grid, range_ns: step_ns, offset_ns: 0 })
}

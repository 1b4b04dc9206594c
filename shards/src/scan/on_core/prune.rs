//! Asks the filters of a segment which blocks may have a match.
//!
//! Guarantees: a block with an entry that the query uses is never ruled out. Only the ranges of
//! the filters are read that the texts of the query lead to.

use std::ops::Range;

use logsvc_runtime::Runtime;

use super::load::read_all;
use super::{ScanEnv, ScanJob};
use crate::scan::error::ReadError;
use crate::sealed::{Condition, Conditions, SealedSegment, all_conditions_of};
use crate::types::ScanStats;
use logsvc_segment::Directory;
use logsvc_segment::filter::BlockSet;

/// The conditions of a job's plan that hold for all of its streams.
pub(super) fn conditions(job: &ScanJob) -> Vec<Condition> {
    let has_label = |name: &str| job.streams.all_labels().any(|labels| labels.get(name).is_some());
    let mut conditions = all_conditions_of(&job.request.plan);
    conditions.retain(|condition| condition.holds(has_label));
    conditions
}

/// The blocks that may fulfil the conditions.
pub(super) async fn candidates<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    directory: &Directory,
    conditions: &Conditions,
    blocks: BlockSet,
    stats: &mut ScanStats,
) -> Result<BlockSet, ReadError> {
    let region = segment.footer.filters_range();
    let mut probe = directory.filters().probe(conditions.clone(), blocks);
    while let Some(ranges) = probe.next_reads() {
        let in_file = |range: &Range<u64>| region.start + range.start..region.start + range.end;
        let ranges: Vec<_> = ranges.iter().map(in_file).collect();
        probe.supply(&read_all(env, segment, &ranges, stats).await?)?;
    }
    Ok(probe.into_candidates())
}

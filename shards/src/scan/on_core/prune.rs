//! Asks the filters of a segment which blocks may have a match.
//!
//! Guarantees: a block with an entry that the query uses is never ruled out. Only the ranges of
//! the filters are read that the texts of the query lead to.

use logsvc_logql::engine::LeafPlan;
use logsvc_runtime::Runtime;

use super::load::read;
use super::{ScanEnv, ScanJob};
use crate::scan::error::ReadError;
use crate::sealed::SealedSegment;
use crate::types::ScanStats;
use logsvc_segment::Directory;
use logsvc_segment::filter::{BlockSet, Needle};

/// The needles that every entry of the query must have: of each element, one of the alternatives.
pub(super) type Conditions = Vec<Vec<Needle>>;

/// The conditions of a job's plan that hold for all of its streams.
pub(super) fn conditions(job: &ScanJob) -> Conditions {
    let plan: &LeafPlan = &job.request.plan;
    let has_label = |name: &str| job.streams.iter().any(|stream| stream.labels.get(name).is_some());
    let mut conditions = Conditions::new();
    for item in plan.required_text() {
        if item.unless_labels.iter().any(|name| has_label(name)) {
            continue;
        }
        let texts = item.any_of.iter().map(|literal| Needle::substring(&literal.bytes));
        let Some(mut needles) = texts.collect::<Option<Vec<_>>>() else { continue };
        needles.extend(item.unless_labels.iter().map(|n| Needle::metadata_name(n.as_bytes())));
        conditions.push(needles);
    }
    for (name, value) in plan.required_metadata() {
        if !has_label(&name) {
            conditions.push(vec![Needle::metadata(name.as_bytes(), value.as_bytes())]);
        }
    }
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
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            let range = region.start + range.start..region.start + range.end;
            pieces.push(read(env, segment, range, stats).await?);
        }
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        probe.supply(&pieces)?;
    }
    Ok(probe.into_candidates())
}

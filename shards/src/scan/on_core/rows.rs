//! Finds the rows of a segment that a selector may select, through the segment's label index.
//!
//! Guarantees: no row of a selected stream is left out. Only the pages are read that the matchers
//! lead to, at most 256 KiB of them at a time, and then the core's other tasks get their turn. A
//! segment without an index, or with a damaged one, has no answer: then its labels are read.

use logsvc_runtime::Runtime;

use super::ScanEnv;
use super::load::read;
use crate::scan::error::ReadError;
use crate::scan::selector::StreamSelector;
use crate::sealed::SealedSegment;
use crate::types::ScanStats;
use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::TenantId;
use logsvc_segment::{LabelIndex, RowSet};

/// The rows of a segment that may be of selected streams; `None` if any row may be.
pub(super) async fn rows_by_labels<R: Runtime>(
    env: &ScanEnv<R>,
    selector: &StreamSelector,
    segment: &SealedSegment,
    stats: &mut ScanStats,
) -> Option<RowSet> {
    match find(env, selector, segment, stats).await {
        Ok(rows) => rows,
        Err(error) => {
            env.note_damage(segment, None, "label index", &error);
            None
        }
    }
}

async fn find<R: Runtime>(
    env: &ScanEnv<R>,
    selector: &StreamSelector,
    segment: &SealedSegment,
    stats: &mut ScanStats,
) -> Result<Option<RowSet>, ReadError> {
    let files = &env.directories.files;
    let Some(index) = env.label_roots.get(&env.runtime, files, segment).await? else {
        return Ok(None);
    };
    let mut rows = RowSet::new();
    for tenant in selector.tenants.tenants() {
        let Some(all) = index.tenant_rows(tenant.as_str()) else { continue };
        if selector.groups.is_empty() {
            rows = rows.union(&RowSet::from(all));
            continue;
        }
        for group in selector.groups.iter() {
            if let Some(matchers) = selector.tenants.stored_matchers(tenant, group) {
                let found = select(env, segment, &index, (tenant, &matchers), stats).await?;
                rows = rows.union(&found);
            }
        }
    }
    Ok(Some(rows))
}

async fn select<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    index: &LabelIndex,
    (tenant, matchers): (&TenantId, &[&CompiledMatcher]),
    stats: &mut ScanStats,
) -> Result<RowSet, ReadError> {
    let mut select = index.select(tenant.as_str(), matchers);
    while let Some(ranges) = select.next_reads() {
        let ranges = ranges.to_vec();
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            pieces.push(read(env, segment, range, stats).await?);
        }
        let mut decoder = env.decoders.take();
        let supplied = select.supply(&mut decoder, &pieces);
        env.decoders.give_back(decoder);
        supplied?;
        env.runtime.yield_now().await;
    }
    Ok(select.into_rows())
}

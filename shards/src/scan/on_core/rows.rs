//! Finds the rows of a segment that a selector may select, and the names of their labels, through the
//! segment's label index.
//!
//! Guarantees: no row of a selected stream is left out. Only the pages are read that the matchers
//! lead to, at most 256 KiB of them at a time, and then the core's other tasks get their turn. A
//! segment without an index, or with a damaged one, has no answer: then its labels are read.

use std::collections::BTreeSet;

use logsvc_runtime::Runtime;

use super::ScanEnv;
use super::load::read_all;
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

/// The names of the labels that streams of a selector's tenant have in a segment; `None` if they are
/// not known.
pub(super) async fn label_names<R: Runtime>(
    env: &ScanEnv<R>,
    selector: &StreamSelector,
    segment: &SealedSegment,
    stats: &mut ScanStats,
) -> Option<BTreeSet<Box<str>>> {
    match find_names(env, selector, segment, stats).await {
        Ok(names) => names,
        Err(error) => {
            env.note_damage(segment, None, "label index", &error);
            None
        }
    }
}

async fn find_names<R: Runtime>(
    env: &ScanEnv<R>,
    selector: &StreamSelector,
    segment: &SealedSegment,
    stats: &mut ScanStats,
) -> Result<Option<BTreeSet<Box<str>>>, ReadError> {
    let files = &env.directories.files;
    let root = env.label_roots.get(&env.runtime, files, segment).await?;
    // Streams of several tenants are seen with labels that the index does not have.
    let (Some(index), [tenant], true) =
        (root, selector.tenants.tenants(), selector.tenants.is_plain())
    else {
        return Ok(None);
    };
    let mut names = BTreeSet::new();
    let mut listing = index.names(tenant.as_str());
    while let Some(ranges) = listing.next_reads() {
        let pieces = read_all(env, segment, ranges, stats).await?;
        let mut decoder = env.decoders.take();
        let listed = listing.supply(&mut decoder, &pieces, |name, _| {
            names.insert(name.into());
        });
        env.decoders.give_back(decoder);
        listed?;
        env.runtime.yield_now().await;
    }
    Ok(Some(names))
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
        let pieces = read_all(env, segment, ranges, stats).await?;
        let mut decoder = env.decoders.take();
        let supplied = select.supply(&mut decoder, &pieces);
        env.decoders.give_back(decoder);
        supplied?;
        env.runtime.yield_now().await;
    }
    Ok(select.into_rows())
}

//! What is left of the write-ahead log of an ended writer that nobody needs.

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::Store;
use logsvc_store::bucket::ObjectInfo;
use logsvc_store::log::{IN_FLIGHT_MAX, LogError, fence, may_be_fence, may_exclude};

use crate::ledger::LogPlace;
use crate::sink::log_of;

/// Leaves nothing but what excludes the writer of a log. Makes a fence in the name of `own` if there is
/// none: a folder's own earlier starts leave logs that nobody had to take over.
///
/// # Errors
/// The store refuses, the deadline has passed, or a log without a fence does not take one. To be made
/// again.
pub(crate) async fn remove_ended<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    own: u32,
    log: &[(LogPlace, ObjectInfo)],
    until: Monotonic,
) -> Result<u64, LogError> {
    let Some((first, _)) = log.first() else { return Ok(0) };
    // No entry of such a log is as short: a piece is longer.
    if !log.iter().any(|(_, info)| may_be_fence(info.len_bytes)) {
        let Ok(name) = log_of(first.epoch) else { return Ok(0) };
        // What was written out of order before a crash may lie behind a gap.
        let gap = log.windows(2).find(|pair| pair[1].0.number != pair[0].0.number + 1);
        let last = gap.map_or(log.last(), |pair| pair.first());
        let last = last.map_or(0, |(place, _)| place.number);
        // It may be void.
        let from = last.saturating_sub(IN_FLIGHT_MAX).max(first.number);
        match fence(runtime, store, &name, from, own, until).await {
            // So may be where that began. The first one is not: it may be what voids others.
            Err(LogError::Forked { .. } | LogError::Damaged { .. }) => {
                fence(runtime, store, &name, first.number, own, until).await?;
            }
            other => drop(other?),
        }
    }
    let mut removed = 0;
    for (_, info) in log.iter().filter(|(_, info)| !may_exclude(info.len_bytes)) {
        store.remove(&info.name, until).await?;
        removed += 1;
    }
    Ok(removed)
}

//! The counters of a scan, as a list of numbers. A later version may append more of them.

use logsvc_shards::types::{ScanStats, StoreReads};

/// The largest counter that is believed. Those of some thousand messages can be added up.
pub(crate) const COUNTER_MAX: u64 = u64::MAX >> 16;

/// The counters in their order.
pub(super) fn counters_of(stats: &ScanStats) -> Vec<u64> {
    let mut stats = *stats;
    all(&mut stats).map(|counter| *counter).to_vec()
}

/// The counters that were sent; those that are missing are 0.
pub(super) fn stats_of(counters: &[u64]) -> ScanStats {
    let mut stats = ScanStats::default();
    for (counter, sent) in all(&mut stats).into_iter().zip(counters) {
        *counter = (*sent).min(COUNTER_MAX);
    }
    stats
}

fn all(stats: &mut ScanStats) -> [&mut u64; 22] {
    let ScanStats {
        streams,
        head_blocks,
        sealed_blocks,
        blocks_filtered,
        blocks_searched,
        read_bytes,
        cached_bytes,
        decoded_bytes,
        unreadable_parts,
        sealed_entries,
        sealed_line_bytes,
        sealed_entries_kept,
        sealed_metadata_bytes,
        head_metadata_bytes,
        cache_lookups,
        cache_hits,
        entries_hidden,
        cut_leaves,
        read_time_ns,
        store,
    } = stats;
    let StoreReads { requests, bytes, time_ns } = store;
    [
        streams,
        head_blocks,
        sealed_blocks,
        blocks_filtered,
        blocks_searched,
        read_bytes,
        cached_bytes,
        decoded_bytes,
        unreadable_parts,
        sealed_entries,
        sealed_line_bytes,
        sealed_entries_kept,
        sealed_metadata_bytes,
        head_metadata_bytes,
        cache_lookups,
        cache_hits,
        entries_hidden,
        read_time_ns,
        requests,
        bytes,
        time_ns,
        cut_leaves,
    ]
}

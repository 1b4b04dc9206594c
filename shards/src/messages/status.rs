//! Numbers of a shard, for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::Monotonic;
use logsvc_runtime::mesh::InboxCounters;

use crate::sealed::{CacheCounters, DirectoryCounters, ReadCounters};
use crate::tail::TailStatus;
use crate::wal::restored::RecoverySummary;
use crate::wal::writer::WalCounters;

/// Numbers of a shard for metrics.
#[derive(Debug, Clone, Default)]
pub struct ShardStatus {
    /// Streams per tenant.
    pub streams: Vec<(TenantId, u64)>,
    /// Streams that pushes made known since the start.
    pub created_streams: TenantCounts,
    /// Streams that were forgotten since the start.
    pub removed_streams: TenantCounts,
    /// Entries in memory.
    pub head_entries: u64,
    /// Bytes of lines in memory.
    pub head_line_bytes: u64,
    /// Bytes reserved from the heads' budget.
    pub head_reserved_bytes: u64,
    /// Entries dropped as duplicates since the start.
    pub duplicates: u64,
    /// Times that a new stream was refused because there was no memory for it.
    pub refused_streams: u64,
    /// Log counters since the start.
    pub wal: WalCounters,
    /// Commit latency since the start, in counts per bucket of
    /// [`COMMIT_LATENCY_BOUNDS_US`] and one above.
    pub commit_latency: CommitLatency,
    /// The findings of recovery at the start.
    pub recovery: RecoverySummary,
    /// Segments and sealing.
    pub seal: SealStatus,
    /// Pushes that had to wait for memory.
    pub pauses: PauseStatus,
    /// Live tails.
    pub tails: TailStatus,
    /// Decoded blocks of the shard's core.
    pub cache: CacheCounters,
    /// Directories of segments on the shard's core.
    pub directories: DirectoryCounters,
    /// Where reads of segments were answered on the shard's core.
    pub reads: ReadCounters,
    /// Requests that came through the lanes.
    pub lane: InboxCounters,
}

/// Counts by tenant, which only grow. The first [`TenantCounts::ALONE_MAX`] tenants have counts of
/// their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// By tenant.
    pub alone: BTreeMap<TenantId, u64>,
    /// Of all further tenants.
    pub others: u64,
}

impl TenantCounts {
    /// Most tenants with counts of their own.
    pub const ALONE_MAX: usize = 1024;

    /// Counts one more.
    pub fn add(&mut self, tenant: &TenantId) {
        let has_room = self.alone.len() < TenantCounts::ALONE_MAX;
        if let Some(count) = self.alone.get_mut(tenant) {
            *count += 1;
        } else if has_room {
            self.alone.insert(tenant.clone(), 1);
        } else {
            self.others += 1;
        }
    }
}

/// How pushes of a shard have waited since the start for memory that sealing releases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PauseStatus {
    /// Times that a push had to wait while no other did.
    pub pauses: u64,
    /// How long at least one push waited, in all.
    pub total: Duration,
}

/// Numbers of a shard's segments. A segment of another number of shards is counted
/// by each shard that reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SealStatus {
    /// Generations that were sealed since the start.
    pub sealed: u64,
    /// Generations of these that were written as drafts.
    pub drafts: u64,
    /// Line bytes of the drafts that are there.
    pub draft_line_bytes: u64,
    /// Attempts to seal that failed.
    pub failures: u64,
    /// Segments that are open.
    pub segments: u64,
    /// Bytes of their files.
    pub file_bytes: u64,
    /// Bundles of filters of segments.
    pub bundles: u64,
    /// Bytes of their files.
    pub bundle_bytes: u64,
    /// Entries in the segments.
    pub entries: u64,
    /// Bytes of their lines.
    pub line_bytes: u64,
    /// Bytes of their directories, most of which are on the disk only.
    pub directory_bytes: u64,
    /// Segments of the live set that could not be opened at the start.
    pub damaged_segments: u64,
    /// Blocks written since the start whose encoded lines did not decode to the original lines.
    /// They were stored in a simpler way.
    pub refused_blocks: u64,
    /// Merges and removals of segments.
    pub maintenance: MaintenanceStatus,
}

/// Merges and removals of a shard's segments since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MaintenanceStatus {
    /// Times that segments were merged or one was rewritten.
    pub merges: u64,
    /// Segments that went into that.
    pub merged_segments: u64,
    /// Line bytes that went into that.
    pub line_bytes_in: u64,
    /// Line bytes that came out of it.
    pub line_bytes_out: u64,
    /// Entries that went on the way: repeated, or expired.
    pub dropped_entries: u64,
    /// Entries that were removed for requests for deletion.
    pub purged_entries: u64,
    /// Bytes of their lines.
    pub purged_line_bytes: u64,
    /// Line bytes that were written anew for that, in segments that lost only a part.
    pub purge_rewritten_line_bytes: u64,
    /// Segments that were removed as a whole.
    pub removed_segments: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Since when no attempt has succeeded, although there is work; `None`: all is well.
    pub failing_since: Option<Monotonic>,
    /// How long the last merge or removal took.
    pub last_job: Option<Duration>,
    /// Streams that were forgotten because nothing is left of them.
    pub forgotten_streams: u64,
    /// Segments that are not live any more, but that scans read.
    pub retired_segments: u64,
}

/// Upper bounds of the commit latency buckets, in microseconds.
pub const COMMIT_LATENCY_BOUNDS_US: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_000_000];

/// A histogram of commit latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitLatency {
    /// Commits per bucket, not cumulative; the last has no upper bound.
    pub buckets: [u64; COMMIT_LATENCY_BOUNDS_US.len() + 1],
    /// Sum of all latencies in microseconds.
    pub sum_us: u64,
}

impl CommitLatency {
    /// Counts a commit.
    pub fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.buckets[COMMIT_LATENCY_BOUNDS_US.partition_point(|&bound| bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tenants_count_apart() {
        let tenant = |number: usize| TenantId::new(&format!("t{number}")).expect("a tenant");
        let mut counts = TenantCounts::default();
        for number in 0..TenantCounts::ALONE_MAX + 2 {
            counts.add(&tenant(number));
        }
        counts.add(&tenant(3));
        counts.add(&tenant(TenantCounts::ALONE_MAX));
        assert_eq!((counts.alone.len(), counts.others), (TenantCounts::ALONE_MAX, 3));
        assert_eq!((counts.alone[&tenant(3)], counts.alone[&tenant(4)]), (2, 1));
    }
}

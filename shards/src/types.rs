//! The vocabulary that all floors of the storage engine share: streams, sets of streams, time
//! ranges, the counters of a scan, and the flag that ends a query.
//!
//! This module imports no other module of the crate.

mod owned;
mod partitions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logsvc_proto::{Labels, StreamId, TenantId};

pub use owned::OwnedPartitions;
pub(crate) use partitions::may_share_streams;
pub use partitions::{Layout, Part, StreamPartitions};

/// A stream: its id, its tenant and its labels.
#[derive(Clone, Debug)]
pub struct StreamDefinition {
    /// The id, computed from the other two.
    pub id: StreamId,
    /// The tenant that owns the stream.
    pub tenant: TenantId,
    /// Its labels.
    pub labels: Arc<Labels>,
}

/// A time range in ns since the Unix epoch, `start_ns <= t < end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First nanosecond.
    pub start_ns: i64,
    /// First nanosecond behind the range.
    pub end_ns: i64,
}

impl TimeRange {
    /// Whether entries from `min_ns` to `max_ns`, both included, may lie in it.
    pub fn overlaps(self, (min_ns, max_ns): (i64, i64)) -> bool {
        min_ns < self.end_ns && max_ns >= self.start_ns
    }
}

/// Tells a query that no client waits for it any more. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Stops the query within one block.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Streams that matched and overlap the time range.
    pub streams: u64,
    /// Blocks of heads that were read.
    pub head_blocks: u64,
    /// Sealed blocks of which at least one column was read.
    pub sealed_blocks: u64,
    /// Sealed blocks that filters have ruled out.
    pub blocks_filtered: u64,
    /// Sealed blocks of which not all lines were put together.
    pub blocks_searched: u64,
    /// Bytes of columns and filters read from segments, as stored.
    pub read_bytes: u64,
    /// Bytes of decoded columns that the cache had.
    pub cached_bytes: u64,
    /// Bytes of columns decoded.
    pub decoded_bytes: u64,
    /// Blocks that could not be read because their bytes are damaged, and segments of
    /// the query's time that could not be opened.
    pub unreadable_parts: u64,
    /// Entries of sealed blocks that were looked at.
    pub sealed_entries: u64,
    /// Bytes of their lines that were looked at.
    pub sealed_line_bytes: u64,
    /// Entries of sealed blocks that passed the pipeline.
    pub sealed_entries_kept: u64,
    /// Bytes of metadata, as in a batch without counts, of the sealed blocks whose
    /// metadata was looked at.
    pub sealed_metadata_bytes: u64,
    /// The same of the blocks of heads.
    pub head_metadata_bytes: u64,
    /// Columns of sealed blocks that were looked for in the cache.
    pub cache_lookups: u64,
    /// Columns of these that the cache had.
    pub cache_hits: u64,
    /// Entries that requests for deletion have hidden.
    pub entries_hidden: u64,
    /// Leaves that looked for fewer entries than their plan has, see
    /// [`crate::scan::LeafRequest::entries_each`].
    pub cut_leaves: u64,
    /// Time spent waiting for bytes of segments, in nanoseconds.
    pub read_time_ns: u64,
    /// What a bucket was asked for.
    pub store: StoreReads,
}

/// Reads of segments that are in a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreReads {
    /// Requests, without second attempts.
    pub requests: u64,
    /// Bytes that these were for.
    pub bytes: u64,
    /// The part of [`ScanStats::read_time_ns`] in which a bucket was waited for.
    pub time_ns: u64,
}

impl ScanStats {
    /// Adds what another scan has waited for, and what it has asked of a bucket.
    pub(crate) fn add_waits(&mut self, other: &ScanStats) {
        self.read_time_ns += other.read_time_ns;
        self.store.requests += other.store.requests;
        self.store.bytes += other.store.bytes;
        self.store.time_ns += other.store.time_ns;
    }

    /// Adds the counters of another scan.
    pub fn add(&mut self, other: &ScanStats) {
        self.streams += other.streams;
        self.head_blocks += other.head_blocks;
        self.sealed_blocks += other.sealed_blocks;
        self.blocks_filtered += other.blocks_filtered;
        self.blocks_searched += other.blocks_searched;
        self.read_bytes += other.read_bytes;
        self.cached_bytes += other.cached_bytes;
        self.decoded_bytes += other.decoded_bytes;
        self.unreadable_parts += other.unreadable_parts;
        self.sealed_entries += other.sealed_entries;
        self.sealed_line_bytes += other.sealed_line_bytes;
        self.sealed_entries_kept += other.sealed_entries_kept;
        self.sealed_metadata_bytes += other.sealed_metadata_bytes;
        self.head_metadata_bytes += other.head_metadata_bytes;
        self.cache_lookups += other.cache_lookups;
        self.cache_hits += other.cache_hits;
        self.entries_hidden += other.entries_hidden;
        self.cut_leaves += other.cut_leaves;
        self.add_waits(other);
    }
}

//! What crosses the lanes between front cores and shards. Everything here is
//! owned, `Send`, and checked to be so at compile time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logsvc_logql::engine::{CompiledMatcher, LeafPlan, LeafResult};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::mesh::InboxCounters;
use logsvc_runtime::{Account, Grant};

use crate::retention::RetentionPolicy;
use crate::scan::{ScanError, ScanJob};
use crate::scope::TenantScope;
use crate::sealed::{CacheCounters, DirectoryCounters};
use crate::tail::{TailBatch, TailJoin, TailPoll, TailStatus};
use crate::wal::writer::WalUnavailable;

/// What a stream id stands for.
#[derive(Clone, Debug)]
pub struct StreamDefinition {
    /// The id, computed from the other two.
    pub id: StreamId,
    /// Who owns the stream.
    pub tenant: TenantId,
    /// Its labels.
    pub labels: Arc<Labels>,
}

/// Entries of one push for one shard.
#[derive(Debug)]
pub struct AppendRequest {
    /// The entries, see [`crate::batch`].
    pub batch: Vec<u8>,
    /// The streams of the batch that the sender does not know the shard to know.
    pub definitions: Vec<StreamDefinition>,
    /// Entries older than their stream's newest one by more than this many ns are
    /// refused; `None` accepts any order.
    pub out_of_order_window_ns: Option<i64>,
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

/// Which streams a question is about.
#[derive(Clone, Debug)]
pub struct StreamSelection {
    /// Whose streams.
    pub tenants: TenantScope,
    /// Alternatives, each a list of matchers that must all hold. Empty means
    /// every stream of the tenants.
    pub matcher_groups: Arc<[Vec<CompiledMatcher>]>,
    /// Only streams that may have entries in this range.
    pub range: TimeRange,
}

/// Tells a query that nobody waits for it any more. Cheap to clone.
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

/// One shard's part of a query.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    /// Whose streams are read.
    pub tenants: TenantScope,
    /// What to compute.
    pub plan: Arc<LeafPlan>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// Memory of the query.
    pub account: Account,
}

/// What a front core may ask of a shard.
#[derive(Debug)]
pub enum ShardRequest {
    /// Store entries; answered when they are committed.
    Append(AppendRequest),
    /// Compute a part of a query.
    Leaf(LeafRequest),
    /// Run a share of a [`LeafReply::rest`], whoever owns its streams; answered as
    /// [`ShardRequest::Leaf`].
    Share(Box<ScanJob>),
    /// Names of the labels of the selected streams.
    LabelNames(StreamSelection),
    /// Values of one label of the selected streams.
    LabelValues(StreamSelection, Box<str>),
    /// Label sets of the selected streams.
    Series(StreamSelection),
    /// Follow the entries of a query from now on; answered as [`ShardRequest::Leaf`],
    /// with what came before.
    TailJoin(TailJoin),
    /// Ask what has come for the tails of the calling core.
    TailPoll(TailPoll),
    /// End a subscription of the calling core.
    TailClose(u64),
    /// Numbers for metrics.
    Status,
    /// Keep entries for other periods from now on.
    Retain(Arc<RetentionPolicy>),
    /// Write everything that is in memory to segments; answered when that is on
    /// stable storage.
    Flush,
    /// Commit, sync and seal what is there; answered when the log is idle and durable.
    /// Appends that arrive later are refused.
    Stop,
}

/// The first entries that were refused in a stream, and how many in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooFarBehind {
    /// The stream.
    pub stream: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Timestamps of refused entries in ns, at most [`REFUSALS_LISTED_MAX`], each
    /// with the oldest timestamp that would have been accepted.
    pub entries: Vec<(i64, i64)>,
    /// How many were refused.
    pub refused: u64,
    /// How many the push had for the stream.
    pub total: u64,
}

/// How many refused entries a reply lists per stream.
pub const REFUSALS_LISTED_MAX: usize = 10;

/// What became of an [`AppendRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Entries stored (duplicates of stored ones count as stored).
    pub accepted: u64,
    /// Streams with entries that were too far behind.
    pub too_far_behind: Vec<TooFarBehind>,
    /// New streams that there is no memory for, with their number of entries; by id.
    pub refused_streams: Vec<(StreamId, u64)>,
}

/// Why a shard stored nothing of an [`AppendRequest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The batch uses streams that the shard does not know, although all that it uses
    /// were defined.
    #[error("the shard does not know a stream of the batch")]
    UnknownStream,
    /// The log cannot take it now.
    #[error(transparent)]
    Log(#[from] WalUnavailable),
    /// The write or the sync that carried the batch failed.
    #[error("the write-ahead log could not be written: {0}")]
    Disk(Arc<str>),
    /// The memory for entries is used up.
    #[error("the memory for recent entries is used up")]
    HeadsFull,
    /// The shard is stopping.
    #[error("the shard is stopping")]
    Stopping,
    /// The batch does not decode: a defect of the sender.
    #[error("{0}")]
    Malformed(String),
}

/// What a shard's part of a query gave.
#[derive(Debug)]
pub struct LeafReply {
    /// The part's result.
    pub result: LeafResult,
    /// What it holds of the query's memory.
    pub memory: Grant,
    /// What it has cost.
    pub stats: ScanStats,
    /// What is left to read, if that is so much that all cores should share it.
    pub rest: Option<Box<ScanJob>>,
}

/// What a scan has touched.
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
    /// Bytes read from segments, as stored.
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
    /// Those of them that passed the pipeline.
    pub sealed_entries_kept: u64,
    /// Bytes of metadata, as in a batch without counts, of the sealed blocks whose
    /// metadata was looked at.
    pub sealed_metadata_bytes: u64,
    /// The same of the blocks of heads.
    pub head_metadata_bytes: u64,
    /// Columns of sealed blocks that were looked for in the cache.
    pub cache_lookups: u64,
    /// Those of them that it had.
    pub cache_hits: u64,
    /// Time spent waiting for bytes of segments, in nanoseconds.
    pub read_time_ns: u64,
}

impl ScanStats {
    /// Adds what another scan has touched.
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
        self.read_time_ns += other.read_time_ns;
    }
}

/// Numbers of a shard for metrics.
#[derive(Debug, Clone, Default)]
pub struct ShardStatus {
    /// Streams per tenant.
    pub streams: Vec<(TenantId, u64)>,
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
    pub wal: crate::wal::writer::WalCounters,
    /// Commit latency since the start, in counts per bucket of
    /// [`COMMIT_LATENCY_BOUNDS_US`] and one above.
    pub commit_latency: CommitLatency,
    /// What recovery found at the start.
    pub recovery: crate::wal::recovery::RecoverySummary,
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
    /// Requests that came through the lanes.
    pub lane: InboxCounters,
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
    /// Those of them that were written as drafts.
    pub drafts: u64,
    /// Line bytes of the drafts that are there.
    pub draft_line_bytes: u64,
    /// Attempts to seal that failed.
    pub failures: u64,
    /// Segments that are open.
    pub segments: u64,
    /// Bytes of their files.
    pub file_bytes: u64,
    /// Entries in them.
    pub entries: u64,
    /// Bytes of their lines.
    pub line_bytes: u64,
    /// Bytes of their directories, most of which are on the disk only.
    pub directory_bytes: u64,
    /// Segments of the live set that could not be opened at the start.
    pub damaged_segments: u64,
    /// Blocks written since the start whose encoded lines did not decode to what they were,
    /// so that they were stored in a simpler way.
    pub refused_blocks: u64,
    /// What was done about segments.
    pub maintenance: MaintenanceStatus,
}

/// What a shard has done about its segments since the start.
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
    /// Segments that were removed as a whole.
    pub removed_segments: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Streams that were forgotten because nothing is left of them.
    pub forgotten_streams: u64,
    /// Segments that are not live any more, but are still read by scans.
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
    pub fn record(&mut self, latency: std::time::Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.buckets[COMMIT_LATENCY_BOUNDS_US.partition_point(|&bound| bound < us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }
}

/// A shard's answer; the variant follows the request's.
#[derive(Debug)]
pub enum ShardReply {
    /// To [`ShardRequest::Append`].
    Append(Result<AppendOutcome, AppendError>),
    /// To [`ShardRequest::Append`]: it uses streams that the shard does not know, or has
    /// forgotten since. Nothing is stored. To be sent again with all definitions.
    Unknown(Box<AppendRequest>),
    /// To [`ShardRequest::Leaf`], [`ShardRequest::Share`] and [`ShardRequest::TailJoin`].
    Leaf(Result<Box<LeafReply>, ScanError>),
    /// To [`ShardRequest::LabelNames`] and [`ShardRequest::LabelValues`]: sorted.
    Texts(Vec<Box<str>>),
    /// To [`ShardRequest::Series`].
    Series(Vec<Arc<Labels>>),
    /// To [`ShardRequest::TailPoll`] and [`ShardRequest::TailClose`].
    Tailed(Vec<TailBatch>),
    /// To [`ShardRequest::Status`].
    Status(Box<ShardStatus>),
    /// To [`ShardRequest::Retain`].
    Retained,
    /// To [`ShardRequest::Flush`].
    Flushed(Result<(), Arc<str>>),
    /// To [`ShardRequest::Stop`].
    Stopped(Result<(), Arc<str>>),
}

impl ShardReply {
    /// Memory of what the shard has listed, in bytes; label sets are the shard's own.
    pub fn listed_bytes(&self) -> usize {
        match self {
            ShardReply::Texts(texts) => {
                texts.iter().map(|text| size_of::<Box<str>>() + text.len()).sum()
            }
            ShardReply::Series(series) => series.len() * size_of::<Arc<Labels>>(),
            _ => 0,
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<ShardRequest>();
const _: () = assert_send::<ShardReply>();

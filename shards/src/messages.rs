//! The requests and replies on the lanes between front cores and shards.
//!
//! Guarantees: all of them are owned and `Send`, and the compiler checks it.

mod status;

use std::path::PathBuf;
use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::Account;

use crate::deletion::{DeleteFilter, DeleteId};
pub use crate::deletion::{PurgeTarget, RemovedTotals};
use crate::manifest::{LiveSegment, SegmentName, ToldEdit};
use crate::retention::RetentionPolicy;
use crate::scan::{LeafReply, LeafRequest, Listed, ScanError, ScanJob};
use crate::scope::TenantScope;
use crate::tail::{TailBatch, TailFollow, TailJoin, TailPoll};
use crate::types::{Cancellation, OwnedPartitions, StreamDefinition, StreamPartitions, TimeRange};
use crate::wal::format::WalName;
use crate::wal::writer::WalUnavailable;
use logsvc_segment::Footer;
pub use status::{
    COMMIT_LATENCY_BOUNDS_US, CommitLatency, MaintenanceStatus, PauseStatus, SealStatus,
    ShardStatus, TenantCounts,
};

/// Entries of one push for one shard.
#[derive(Debug)]
pub struct AppendRequest {
    /// The entries, see [`logsvc_segment::batch`].
    pub batch: Vec<u8>,
    /// The streams of the batch that the sender does not know the shard to know.
    pub definitions: Vec<StreamDefinition>,
    /// Entries older than their stream's newest one by more than this many ns are
    /// refused; `None` accepts any order.
    pub out_of_order_window_ns: Option<i64>,
    /// They come from the log of an ended writer. Tails do not show them as new ones.
    pub is_replayed: bool,
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
    /// Memory of the request.
    pub account: Account,
    /// Ends the work early.
    pub cancellation: Cancellation,
}

/// A request of a front core to a shard.
#[derive(Debug)]
pub enum ShardRequest {
    /// Store entries; answered when they are committed.
    Append(AppendRequest),
    /// Compute a part of a query.
    Leaf(LeafRequest),
    /// Run a share of a [`LeafReply::rest`], also of streams of other shards; answered as
    /// [`ShardRequest::Leaf`].
    Share(Box<ScanJob>),
    /// Names of the labels of the selected streams.
    LabelNames(StreamSelection),
    /// Values of one label of the selected streams.
    LabelValues(StreamSelection, Box<str>),
    /// Label sets of the selected streams.
    Series(StreamSelection),
    /// Follow the new entries of a query; answered as [`ShardRequest::Leaf`], with the entries that
    /// came before the request.
    TailJoin(TailJoin),
    /// The same without the entries that came before; answered once it follows, with no batch.
    TailFollow(TailFollow),
    /// Ask for new entries of the tails of the calling core.
    TailPoll(TailPoll),
    /// End a subscription of the calling core.
    TailClose(u64),
    /// Answered at once. Whoever has the answer knows that the shard has taken all earlier requests of
    /// the same core in, and has made their snapshots.
    Reach,
    /// Numbers for metrics.
    Status,
    /// Keep entries for other periods from this moment on.
    Retain(Arc<RetentionPolicy>),
    /// Hide the entries of a request for deletion from queries whose version says so.
    Hide(Arc<DeleteFilter>),
    /// Forget the filter of a request for deletion, which has ended.
    Unhide(DeleteId),
    /// Remove entries from the disk; answered when no file of the shard's list holds one. One at a
    /// time.
    Purge(PurgeRequest),
    /// Write everything that is in memory to segments; answered when that is on
    /// stable storage.
    Flush,
    /// Keep only the ends of these segments on the local disk, of the shard's and as far as they are
    /// live: the bucket has them. Answered when that is done.
    Evict(Arc<[SegmentName]>),
    /// Tell the edits of the live set since the last such request. The host of the shard answers
    /// it. Only of use with a bucket.
    Edits,
    /// Own more partitions; answered when it does. Only of use for a node among others, as the
    /// following ones.
    Gain(Box<GainRequest>),
    /// Accept no more entries for some of its partitions, and make no more edits about them; answered
    /// when all that was accepted is in live segments.
    Settle(OwnedPartitions),
    /// Go on with partitions that were being settled; answered at once.
    Resume(OwnedPartitions),
    /// Own these partitions no more; answered at once.
    Lose(OwnedPartitions),
    /// Commit, sync and seal everything; answered when the log is idle and durable.
    /// Appends that arrive later are refused.
    Stop,
}

/// See [`ShardRequest::Gain`].
#[derive(Clone, Debug)]
pub struct GainRequest {
    /// The partitions, none of which the shard owns.
    pub partitions: OwnedPartitions,
    /// All live segments that may have streams of these partitions.
    pub segments: Vec<GainedSegment>,
}

/// A live segment of a [`GainRequest`].
#[derive(Clone, Debug)]
pub struct GainedSegment {
    /// Its record.
    pub live: LiveSegment,
    /// Where its file is, if it is on the local disk.
    pub path: PathBuf,
    /// Its footer.
    pub footer: Footer,
    /// Streams that have left it, and those that it cannot have although its name says so.
    pub left: StreamPartitions,
}

/// See [`ShardRequest::Purge`].
#[derive(Clone, Debug)]
pub struct PurgeRequest {
    /// An entry that several of them hide counts for the first.
    pub targets: Arc<[PurgeTarget]>,
}

/// The outcome of a [`ShardRequest::Purge`].
#[derive(Clone, Debug, Default)]
pub struct PurgeOutcome {
    /// Of each target.
    pub removed: Vec<RemovedTotals>,
    /// Line bytes that were written anew for it, in segments that lost only a part.
    pub rewritten_line_bytes: u64,
    /// Files that the shard does not read any more. They go when no query reads them, and when no
    /// other shard does.
    pub leaving: Vec<PathBuf>,
    /// The first log file that the shard has begun since. Its older ones go.
    pub first_log: Option<WalName>,
}

/// What a shard has done to the live set since it was asked last.
#[derive(Clone, Debug, Default)]
pub struct ShardEdits {
    /// The edits that have come into force, in their order.
    pub edits: Vec<ToldEdit>,
    /// Segments that have left the live set and that nothing reads any more.
    pub retired: Vec<SegmentName>,
    /// Segments that were read.
    pub used: Vec<SegmentName>,
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
pub(crate) const REFUSALS_LISTED_MAX: usize = 10;

/// The outcome of an [`AppendRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendOutcome {
    /// Entries stored (duplicates of stored ones count as stored).
    pub accepted: u64,
    /// Streams with entries that were too far behind.
    pub too_far_behind: Vec<TooFarBehind>,
    /// New streams that there is no memory for, with their number of entries; by id.
    pub refused_streams: Vec<(StreamId, u64)>,
    /// Streams that another node has refused because their tenant has too many, with their number of
    /// entries; by id. Shards know no such limit.
    pub over_limit: Vec<(StreamId, u64)>,
}

/// Why a shard stored nothing of an [`AppendRequest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The batch uses streams that the shard does not know, although all that it uses
    /// were defined.
    #[error("the shard does not know a stream of the batch")]
    UnknownStream,
    /// The log cannot take the push at this moment.
    #[error(transparent)]
    Log(#[from] WalUnavailable),
    /// The write or the sync that carried the batch failed.
    #[error("the write-ahead log could not be written: {0}")]
    Disk(Arc<str>),
    /// The bucket has not taken the log for too long, or never will. The entries of the push may be
    /// stored, on the disk of the node and in the bucket.
    #[error("{0}")]
    Bucket(Arc<str>),
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

/// A shard's answer; the variant follows the request's.
#[derive(Debug)]
pub enum ShardReply {
    /// To [`ShardRequest::Append`].
    Append(Result<AppendOutcome, AppendError>),
    /// To [`ShardRequest::Append`]: it uses streams that the shard does not know, or has
    /// forgotten since. Nothing is stored. To be sent again with all definitions.
    Unknown(Box<AppendRequest>),
    /// To [`ShardRequest::Append`]: it has streams of partitions that the shard does not own, or is
    /// about to give up. Nothing is stored.
    Elsewhere(Box<AppendRequest>),
    /// To [`ShardRequest::Leaf`], [`ShardRequest::Share`] and [`ShardRequest::TailJoin`].
    Leaf(Result<Box<LeafReply>, ScanError>),
    /// To [`ShardRequest::LabelNames`] and [`ShardRequest::LabelValues`]: sorted; and how many parts
    /// of segments could not be read, so that the list lacks their streams.
    Texts(Vec<Box<str>>, u64),
    /// To [`ShardRequest::Series`]; the number as above.
    Series(Vec<Arc<Labels>>, u64),
    /// To [`ShardRequest::LabelNames`], [`ShardRequest::LabelValues`] and [`ShardRequest::Series`]:
    /// why there is no list.
    Unlisted(ScanError),
    /// To [`ShardRequest::TailFollow`], [`ShardRequest::TailPoll`] and [`ShardRequest::TailClose`].
    Tailed(Vec<TailBatch>),
    /// To [`ShardRequest::Reach`].
    Reached,
    /// To [`ShardRequest::Status`].
    Status(Box<ShardStatus>),
    /// To [`ShardRequest::Retain`], [`ShardRequest::Hide`] and [`ShardRequest::Unhide`].
    Retained,
    /// To [`ShardRequest::Purge`]; or why it did not end well. What was removed stays removed.
    Purged(Result<PurgeOutcome, Arc<str>>),
    /// To [`ShardRequest::Flush`].
    Flushed(Result<(), Arc<str>>),
    /// To [`ShardRequest::Settle`]; an error if it was called off.
    Settled(Result<(), Arc<str>>),
    /// To [`ShardRequest::Gain`], [`ShardRequest::Resume`] and [`ShardRequest::Lose`].
    Owned,
    /// To [`ShardRequest::Edits`].
    Edits(ShardEdits),
    /// To [`ShardRequest::Evict`]: those whose files are gone, and whose ends are there.
    Evicted(Vec<SegmentName>),
    /// To [`ShardRequest::Stop`].
    Stopped(Result<(), Arc<str>>),
}

impl From<Result<(Listed, u64), ScanError>> for ShardReply {
    fn from(listed: Result<(Listed, u64), ScanError>) -> ShardReply {
        match listed {
            Ok((Listed::Texts(texts), parts)) => ShardReply::Texts(texts, parts),
            Ok((Listed::Series(series), parts)) => ShardReply::Series(series, parts),
            Err(error) => ShardReply::Unlisted(error),
        }
    }
}

impl ShardReply {
    /// Memory of a list of labels, values or series, in bytes.
    pub fn listed_bytes(&self) -> usize {
        match self {
            ShardReply::Texts(texts, _) => {
                texts.iter().map(|text| size_of::<Box<str>>() + text.len()).sum()
            }
            ShardReply::Series(series, _) => {
                let of = |labels: &Arc<Labels>| size_of::<Arc<Labels>>() + labels.as_bytes().len();
                series.iter().map(of).sum()
            }
            _ => 0,
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<ShardRequest>();
const _: () = assert_send::<ShardReply>();

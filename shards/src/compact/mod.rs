//! Merges many small segments into few large ones, and takes out entries that have expired or that
//! are deleted.
//!
//! A shard plans the jobs ([`plan`], and [`crate::retention`] for expiry) and gives the
//! [`Compactor`] one [`MaintenanceJob`] at a time, while it seals nothing. Side threads ([`aside`])
//! do the computing, and the [`Throttle`] keeps a job from slowing down pushes.
//!
//! Guarantees: one edit of the manifest changes the live set, so a crash at any point leaves the
//! old segments or the new one. Queries show the same entries before and after, except the ones
//! that the [`CompactionFilter`] drops. Several shards share a segment if it was written with
//! another number of shards. A job takes only the streams of its own shard out of a shared segment,
//! and the same edit records that they have left it. If the disk fails, nothing has changed, and
//! the shard tries again after a pause. A segment with damaged bytes stays as it is, and is not
//! merged until the next start.

mod ahead;
mod aside;
mod block;
mod bundle;
mod compactor;
mod drafts;
mod evaluate;
mod find;
mod input;
mod inspect;
mod late;
mod marked;
mod merge;
mod plan;
mod purge;
mod repeats;
mod source;
mod stored;
#[cfg(test)]
mod tests;
mod throttle;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use bundle::BundleJob;
pub(crate) use bundle::Bundled;
pub(crate) use compactor::Compactor;
pub use drafts::DraftPolicy;
pub(crate) use drafts::{Drafts, Heads};
pub(crate) use inspect::{Findings, OwnTotals};
pub use inspect::{Inspected, Inspection};
pub(crate) use plan::{Candidate, choose};
pub use purge::PurgeJob;
pub(crate) use purge::Purged;
pub use throttle::{Activity, Throttle};

use crate::manifest::{LiveSegment, SegmentName};
use crate::retention::CompactionFilter;
use crate::sealed::{OpenedSegment, SealedSegment};
use logsvc_segment::{SegmentError, WriteError};

/// When a shard merges segments.
#[derive(Clone, Copy, Debug)]
pub struct CompactionPolicy {
    /// Whether segments are merged at all.
    pub enabled: bool,
    /// So many neighbours of similar size are merged, at least 2; then of any size. The number is
    /// large because each merge encodes small blocks anew.
    pub min_inputs: usize,
    /// So many are enough where no more can be waited for: on a day that is not the newest,
    /// or if they make a segment that is large enough.
    pub min_last_inputs: usize,
    /// And at most so many at once: each takes some MB while it is read.
    pub max_inputs: usize,
    /// Line bytes that a merged segment has at most. Segments of half of this are
    /// large enough.
    pub target_line_bytes: u64,
    /// A merged segment has at most so many runs: a merge holds the directories of its output and
    /// its inputs, with 29 to 57 bytes for each run, and a query of one stream reads a directory.
    pub max_runs: u64,
    /// The filters of so many settled segments are joined: below that the directories of all
    /// segments are in memory, most likely.
    pub min_bundled: usize,
    /// And of at most so many at once.
    pub max_bundled: usize,
    /// With about so many blocks together, at most: a search takes 16 bytes for each and each of the
    /// texts that it asks for.
    pub max_bundled_blocks: u64,
    /// All segments with fewer line bytes count as equally small.
    pub small_line_bytes: u64,
    /// When drafts are written and merged; `None`: no drafts.
    pub drafts: Option<DraftPolicy>,
    /// How long after a failure the next attempt is made; twice as long after each
    /// further one, up to [`RETRY_PAUSE_MAX`].
    pub retry_pause: Duration,
    /// How often it is looked whether something has expired.
    pub check_interval: Duration,
}

/// The longest pause after failures.
pub(crate) const RETRY_PAUSE_MAX: Duration = Duration::from_secs(300);

impl CompactionPolicy {
    /// No merging; retention goes on.
    pub const OFF: CompactionPolicy = CompactionPolicy {
        enabled: false,
        min_inputs: 12,
        min_last_inputs: 4,
        max_inputs: 16,
        target_line_bytes: 1 << 30,
        max_runs: 1 << 18,
        min_bundled: 32,
        max_bundled: 64,
        max_bundled_blocks: 1 << 16,
        small_line_bytes: 1 << 20,
        drafts: None,
        retry_pause: Duration::from_secs(5),
        check_interval: Duration::from_secs(60),
    };
}

impl Default for CompactionPolicy {
    fn default() -> CompactionPolicy {
        let drafts = Some(DraftPolicy::default());
        CompactionPolicy { enabled: true, drafts, ..CompactionPolicy::OFF }
    }
}

/// Segments to be merged into one, or one to be rewritten.
#[derive(Debug)]
pub struct MergeJob {
    /// At least one, in their order, all with the same [`LiveSegment::day`]. No other segment of
    /// the shard that overlaps them in time stands between them.
    pub inputs: Vec<Arc<SealedSegment>>,
    /// Segments that come before them in the order and overlap them in time.
    pub earlier: Vec<Arc<SealedSegment>>,
    /// Decides which entries stay.
    pub keep: Box<dyn CompactionFilter>,
    /// Tells the activity of the shard.
    pub throttle: Arc<Throttle>,
}

/// A job that is done beside a shard.
#[derive(Debug)]
pub enum MaintenanceJob {
    /// Merge or rewrite.
    Merge(MergeJob),
    /// Take these segments out of the live set.
    Remove(Vec<Arc<SealedSegment>>),
    /// Take the shard's streams out of these segments, which several shards share.
    Leave(Vec<Arc<SealedSegment>>),
    /// Tell what of a segment is the shard's, and when it expires.
    Inspect(Inspection),
    /// Give up shared segments that the shard's streams have left and that it does not read
    /// any more. The last shard that does so takes them out of the live set.
    Release(Vec<LiveSegment>),
    /// Remove the entries of requests for deletion from a segment.
    Purge(Box<PurgeJob>),
    /// Remove half-made segments of attempts that failed, and tell the files that are being removed.
    Sweep,
    /// Join the filters of segments.
    Bundle(BundleJob),
    /// Remove bundles.
    Unbundle(Vec<PathBuf>),
    /// Finish the job that has failed, if there is one.
    Resume,
}

/// The outcome of a job. It is in force and on stable storage.
#[derive(Debug, Default)]
pub struct MaintenanceOutcome {
    /// The segment that was made; `None` if nothing was left.
    pub added: Option<OpenedSegment>,
    /// Segments that the shard does not read any more. Their files exist.
    pub removed: Vec<SegmentName>,
    /// The outcome of a [`MaintenanceJob::Inspect`].
    pub inspected: Option<Inspected>,
    /// Whether segments were merged or rewritten.
    pub is_merge: bool,
    /// Entries that a merge has read.
    pub entries_in: u64,
    /// Entries that it has written.
    pub entries_out: u64,
    /// Line bytes that it has read.
    pub line_bytes_in: u64,
    /// Line bytes that it has written.
    pub line_bytes_out: u64,
    /// Shared segments that left the live set.
    pub released: u64,
    /// The outcome of a [`MaintenanceJob::Purge`].
    pub(crate) purged: Option<Purged>,
    /// The outcome of a [`MaintenanceJob::Bundle`].
    pub(crate) bundled: Option<Bundled>,
    /// The files that a [`MaintenanceJob::Sweep`] has found leaving.
    pub leaving: Option<Vec<PathBuf>>,
}

/// Why a job did not end well. The shard sees no change. An edit of the manifest that failed may
/// have taken effect, so it is tried again first.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// The disk refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// An input has damaged bytes.
    #[error("{}: {error}", segment.file_name())]
    Damaged {
        /// Which one.
        segment: SegmentName,
        /// Where and how.
        error: SegmentError,
    },
    /// The writer refuses an entry or a block of the inputs.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The shard is stopping.
    #[error("the shard is stopping")]
    Stopped,
}

impl From<throttle::Stopped> for CompactError {
    fn from(_: throttle::Stopped) -> CompactError {
        CompactError::Stopped
    }
}

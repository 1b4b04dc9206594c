//! One pass: the shards remove the entries of some requests, then their files go.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::Runtime;

use super::gone::{Folders, Leaving};
use super::records::PassPart;
use crate::follower::BucketStatus;
use crate::lanes::{Lanes, Stopped};
use crate::messages::{PurgeRequest, PurgeTarget, RemovedTotals, ShardReply, ShardRequest};
use crate::sink::SinkStatus;

/// How often the pass looks whether the bucket has come so far.
const BUCKET_PAUSE: Duration = Duration::from_millis(50);
/// How long it waits for that.
const BUCKET_PATIENCE: Duration = Duration::from_secs(600);
/// Entries may arrive while the pass waits for files to go. After a longer wait the shards look
/// once more.
const SHORT_WAIT: Duration = Duration::from_secs(5);
/// How often they look at most.
const ROUNDS_MAX: u32 = 4;

/// How often the shards put entries into segments so that objects of the log may go which have
/// entries beside deleted ones.
const SEALS_MAX: u32 = 4;

/// What holds entries outside of the node.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    pub(super) bucket: Arc<BucketStatus>,
    /// If the bucket gets the log.
    pub(super) sink: Option<Arc<SinkStatus>>,
}

/// Why a pass has not ended well.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassError {
    /// A shard has stopped.
    #[error("a shard has stopped")]
    Stopped,
    /// A shard could not remove its entries.
    #[error("shard {0}: {1}")]
    Shard(usize, Arc<str>),
    /// A file is read for very long.
    #[error("{} is still there", .0.display())]
    StillThere(PathBuf),
    /// Bytes that a start could not use may be deleted entries.
    #[error("{} holds files, which may hold deleted entries; remove them", .0.display())]
    Quarantine(PathBuf),
    /// The bucket may have deleted entries.
    #[error("the bucket does not do what it is asked, and may hold deleted entries")]
    Bucket,
    /// A shard could not put its entries into segments.
    #[error("entries that are beside deleted ones in the bucket cannot be sealed: {0}")]
    Seal(Arc<str>),
    /// A folder cannot be listed or synced.
    #[error("cannot {action} {}: {source}", .folder.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The folder.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl From<Stopped> for PassError {
    fn from(_: Stopped) -> PassError {
        PassError::Stopped
    }
}

/// The end of a pass.
pub(super) struct PassEnd {
    pub(super) parts: Vec<PassPart>,
    /// Of each part, also if the pass has failed: these entries are gone.
    pub(super) removed: Vec<RemovedTotals>,
    /// Line bytes that were read and written for it.
    pub(super) rewritten_line_bytes: u64,
    pub(super) result: Result<(), PassError>,
}

/// Removes the entries of the parts.
pub(super) async fn run<R: Runtime>(
    lanes: Lanes<R>,
    folders: Folders,
    outside: Option<Outside>,
    parts: Vec<PassPart>,
) -> PassEnd {
    let removed = vec![RemovedTotals::default(); parts.len()];
    let mut end = PassEnd { parts, removed, rewritten_line_bytes: 0, result: Ok(()) };
    end.result = rounds(&lanes, &folders, &mut end).await;
    if end.result.is_ok()
        && let Some(outside) = outside
    {
        end.result = leave_bucket(&lanes, &outside).await;
    }
    end
}

/// Waits until the bucket has nothing that the shards have removed.
async fn leave_bucket<R: Runtime>(lanes: &Lanes<R>, outside: &Outside) -> Result<(), PassError> {
    // The log files that had the entries are gone, so all of them was sent.
    let sent = outside.sink.as_ref().map(|sink| (sink, sink.sent()));
    reach(&lanes.runtime, &outside.bucket).await?;
    let Some((sink, sent)) = sent else { return Ok(()) };
    for _ in 0..SEALS_MAX {
        if sink.has_left(&sent) {
            return Ok(());
        }
        // Objects have pieces of all cores. Those of others may be of files that are still needed.
        for reply in lanes.ask_all(|| ShardRequest::Flush).await? {
            if let ShardReply::Flushed(Err(cause)) = reply {
                return Err(PassError::Seal(cause));
            }
        }
        reach(&lanes.runtime, &outside.bucket).await?;
    }
    if sink.has_left(&sent) { Ok(()) } else { Err(PassError::Bucket) }
}

/// Waits until the bucket has all that the shards have done.
async fn reach<R: Runtime>(runtime: &R, bucket: &BucketStatus) -> Result<(), PassError> {
    let wanted = bucket.want_clean();
    let deadline = runtime.now().after(BUCKET_PATIENCE);
    while !bucket.has_reached(wanted) {
        if runtime.now() >= deadline || bucket.is_lost() {
            return Err(PassError::Bucket);
        }
        runtime.sleep_until(runtime.now().after(BUCKET_PAUSE)).await;
    }
    Ok(())
}

async fn rounds<R: Runtime>(
    lanes: &Lanes<R>,
    folders: &Folders,
    end: &mut PassEnd,
) -> Result<(), PassError> {
    let targets: Arc<[PurgeTarget]> = end.parts.iter().map(|part| part.target.clone()).collect();
    for _ in 0..ROUNDS_MAX {
        let leaving = purge(lanes, &targets, end).await?;
        if folders.wait_until_gone(&lanes.runtime, &leaving).await? <= SHORT_WAIT {
            break;
        }
    }
    folders.remove_torn_copies(&lanes.runtime).await?;
    match folders.quarantine(&lanes.runtime).await? {
        Some(folder) => Err(PassError::Quarantine(folder)),
        None => Ok(()),
    }
}

/// Has all shards remove the entries, counts them, and gives the files that have to go.
async fn purge<R: Runtime>(
    lanes: &Lanes<R>,
    targets: &Arc<[PurgeTarget]>,
    end: &mut PassEnd,
) -> Result<Leaving, PassError> {
    let request = || ShardRequest::Purge(PurgeRequest { targets: Arc::clone(targets) });
    let replies = lanes.ask_all(request).await?;
    let mut leaving = Leaving::default();
    let mut failure = None;
    for (shard, reply) in replies.into_iter().enumerate() {
        let outcome = match reply {
            ShardReply::Purged(Ok(outcome)) => outcome,
            ShardReply::Purged(Err(cause)) => {
                failure.get_or_insert(PassError::Shard(shard, cause));
                continue;
            }
            _ => {
                failure.get_or_insert(PassError::Shard(shard, "it gave another answer".into()));
                continue;
            }
        };
        leaving.add(&outcome.leaving, outcome.first_log);
        end.rewritten_line_bytes += outcome.rewritten_line_bytes;
        for (sum, removed) in end.removed.iter_mut().zip(outcome.removed) {
            sum.entries += removed.entries;
            sum.line_bytes += removed.line_bytes;
        }
    }
    failure.map_or(Ok(leaving), Err)
}

//! Removes the entries of requests for deletion from one segment.
//!
//! The search ([`super::find`]) says which entries go. If none do, the segment stays. If all of
//! the shard's part do, the segment leaves the live set unread. Otherwise it is rewritten by a
//! merge with one input, which copies blocks without such entries as they are stored.
//!
//! Guarantees: those of [`super::merge`], and that the segment which is added has no hidden entry
//! if the search was complete. A segment that others share is left in any case if the job says so,
//! because its file goes only when all shards have left it.

use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;

use super::compactor::{Compactor, Pending};
use super::find::{Found, find};
use super::input::Input;
use super::marked::{BITS_MAX_BYTES, PurgeFilter};
use super::throttle::Throttle;
use super::{CompactError, MergeJob};
use crate::deletion::{PurgeTarget, RemovedTotals, SelectedStream};
use crate::manifest::SegmentName;
use crate::retention::CompactionFilter;
use crate::sealed::{HeldDirectory, SealedSegment};

/// A segment from which entries are removed.
#[derive(Debug)]
pub struct PurgeJob {
    pub(crate) segment: Arc<SealedSegment>,
    /// Segments that come before it in the order and overlap it in time.
    pub(crate) earlier: Vec<Arc<SealedSegment>>,
    /// Whose entries go.
    pub(crate) targets: Arc<[PurgeTarget]>,
    /// All streams of the shard that a target selects, by their ids.
    pub(crate) streams: Arc<[SelectedStream]>,
    /// Entries of the shard's part of the segment.
    pub(crate) own_entries: u64,
    /// Whether the shard has to leave the segment although no entry goes.
    pub(crate) must_leave: bool,
    /// Decides which of the other entries stay, if it is rewritten.
    pub(crate) keep: Box<dyn CompactionFilter>,
    /// Tells the activity of the shard.
    pub(crate) throttle: Arc<Throttle>,
}

/// The outcome for the segment of a [`PurgeJob`].
#[derive(Debug)]
pub(crate) struct Purged {
    /// The segment.
    pub(crate) segment: SegmentName,
    /// The entries that were removed, of each target.
    pub(crate) removed: Vec<RemovedTotals>,
    /// Whether the segment, or the segment that was made of it, has no hidden entry.
    pub(crate) is_clean: bool,
    /// The times of the selected streams that are left in the segment, or in the segment that was
    /// made of it.
    pub(crate) bounds_ns: Vec<(StreamId, (i64, i64))>,
}

impl<R: Runtime> Compactor<R> {
    pub(super) async fn purge(&self, job: PurgeJob) -> Result<Pending, CompactError> {
        let folder = self.folder();
        let mut input = Input::open(folder, Arc::clone(&job.segment)).await?;
        let found = find(&folder.runtime, &mut input, &job, BITS_MAX_BYTES).await?;
        let directory = Arc::clone(&input.directory);
        drop(input);
        let entries = found.entries();
        let PurgeJob { segment, earlier, streams, own_entries, must_leave, keep, throttle, .. } =
            job;
        let Found { marked, totals, is_complete } = found;
        let mut purged = Purged {
            segment: segment.live.name,
            removed: totals,
            is_clean: is_complete,
            bounds_ns: Vec::new(),
        };
        let mut pending = if entries == 0 && !must_leave {
            purged.bounds_ns = bounds_of(&directory, &streams, &segment);
            Pending::default()
        } else if entries == own_entries {
            self.without(&segment).await
        } else {
            let keep = Box::new(PurgeFilter { marked, others: keep });
            let inputs = vec![Arc::clone(&segment)];
            let merged = self.merge(MergeJob { inputs, earlier, keep, throttle }).await?;
            if let Some(added) = &merged.outcome.added {
                purged.bounds_ns = bounds_of(&added.directory, &streams, &added.segment);
            }
            merged
        };
        pending.outcome.purged = Some(purged);
        Ok(pending)
    }

    /// Takes the shard's part of a segment out of the live set.
    async fn without(&self, segment: &Arc<SealedSegment>) -> Pending {
        let name = segment.live.name;
        let mut pending = Pending::default();
        if self.is_shared(name) {
            pending.edit.left.push(self.left(name));
        } else {
            pending.edit.removed.push(name);
        }
        pending.outcome.removed = vec![self.with_directory(segment).await];
        pending
    }
}

/// The times of the selected streams in a segment.
pub(crate) fn bounds_of(
    directory: &HeldDirectory,
    streams: &[SelectedStream],
    segment: &SealedSegment,
) -> Vec<(StreamId, (i64, i64))> {
    let row =
        |stream: &SelectedStream| directory.find_stream(stream.id).map(|row| (stream.id, row));
    let rows = streams.iter().filter(|stream| segment.has_live(stream.id)).filter_map(row);
    rows.map(|(id, row)| (id, directory.stream_bounds_ns(row))).collect()
}

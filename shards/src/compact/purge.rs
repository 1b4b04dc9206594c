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

use logsvc_runtime::Runtime;

use super::compactor::{Compactor, Pending};
use super::find::{Found, find};
use super::input::Input;
use super::marked::{BITS_MAX_BYTES, PurgeFilter};
use super::throttle::{Pace, Throttle};
use super::{CompactError, MergeJob};
use crate::deletion::{PurgeTarget, RemovedTotals, SelectedStream};
use crate::manifest::SegmentName;
use crate::retention::CompactionFilter;
use crate::sealed::SealedSegment;
use crate::types::StreamDefinition;

/// Streams whose labels are looked at before others get their turn.
const STREAMS_PER_TURN: usize = 1024;

/// A segment from which entries are removed.
#[derive(Debug)]
pub struct PurgeJob {
    pub(crate) segment: Arc<SealedSegment>,
    /// Segments that come before it in the order and overlap it in time.
    pub(crate) earlier: Vec<Arc<SealedSegment>>,
    /// Whose entries go.
    pub(crate) targets: Arc<[PurgeTarget]>,
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
}

impl<R: Runtime> Compactor<R> {
    pub(super) async fn purge(&self, job: PurgeJob) -> Result<Pending, CompactError> {
        let folder = self.folder();
        let mut input = Input::open(folder, Arc::clone(&job.segment)).await?;
        let streams = selected(&folder.runtime, &mut input, &job).await?;
        let found = find(&folder.runtime, &mut input, &job, streams, BITS_MAX_BYTES).await?;
        drop(input);
        let entries = found.entries();
        let PurgeJob { segment, earlier, own_entries, must_leave, keep, throttle, .. } = job;
        let Found { marked, totals, is_complete } = found;
        let purged = Purged { segment: segment.live.name, removed: totals, is_clean: is_complete };
        let mut pending = if entries == 0 && !must_leave {
            Pending::default()
        } else if entries == own_entries {
            self.without(&segment)
        } else {
            let keep = Box::new(PurgeFilter { marked, others: keep });
            let inputs = vec![Arc::clone(&segment)];
            self.merge(MergeJob { inputs, earlier, keep, throttle }).await?
        };
        pending.outcome.purged = Some(purged);
        Ok(pending)
    }

    /// Takes the shard's part of a segment out of the live set.
    fn without(&self, segment: &Arc<SealedSegment>) -> Pending {
        let name = segment.live.name;
        let mut pending = Pending::default();
        self.leave(segment, &mut pending.edit);
        pending.outcome.removed = vec![name];
        pending
    }
}

/// The shard's streams of a segment that a target selects and that have its times, by their rows.
///
/// # Errors
/// The labels cannot be read, or the shard is stopping.
pub(super) async fn selected<R: Runtime>(
    runtime: &R,
    input: &mut Input<R>,
    job: &PurgeJob,
) -> Result<Arc<[SelectedStream]>, CompactError> {
    let mut pace = Pace::new(runtime, &job.throttle);
    let mut selected = Vec::new();
    let mut count = 0;
    input.load_stream(runtime).await?;
    while let Some(StreamDefinition { tenant, labels, .. }) = input.stream().cloned() {
        let Some(row) = input.take_stream() else { break };
        let (min_ns, max_ns) = input.directory.stream_bounds_ns(row);
        let is_hit = |target: &PurgeTarget| {
            target.overlaps(min_ns, max_ns) && target.filter.selects(&tenant, &labels)
        };
        let targets = (0u16..).zip(job.targets.iter()).filter(|(_, target)| is_hit(target));
        let targets: Vec<u16> = targets.map(|(number, _)| number).collect();
        if !targets.is_empty() {
            selected.push(SelectedStream { row, labels, targets });
        }
        input.load_stream(runtime).await?;
        count += 1;
        if count % STREAMS_PER_TURN == 0 {
            pace.rest(runtime).await?;
        }
    }
    Ok(selected.into())
}

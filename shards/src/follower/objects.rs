//! The objects of segments and logs in the bucket: which are there, and which go.
//!
//! Guarantees: an object of a segment goes when the node's log says that the segment is live no more,
//! and no shard reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::log::LogError;

use super::Follower;
use super::files::Recorder;
use super::fold::Batch;
use super::orphans::Orphans;
use super::send::Sender;
use crate::ledger::{Ledger, LedgerState};
use crate::manifest::{Day, LiveSegment, SegmentName};
use crate::node::NodePlan;

/// How long a removal of an object has patience.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);
/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 64;

/// A segment that is not live in the bucket any more.
pub(super) struct Gone {
    pub(super) day: Day,
    /// Shards that may still read it.
    pub(super) readers: u16,
}

/// What a removal has come to.
pub(super) struct Removed {
    /// Segments whose objects are gone.
    segments: Vec<SegmentName>,
    /// See [`Objects::logs_removed`]; 0 if that is not known.
    logs_removed: u64,
}

/// See the module.
pub(super) struct Objects {
    /// Segments that the bucket has.
    pub(super) live: BTreeMap<SegmentName, Day>,
    /// Segments that it has no more; their objects go when nobody reads them.
    pub(super) gone: BTreeMap<SegmentName, Gone>,
    /// Segments that this start has opened.
    pub(super) opened: BTreeSet<SegmentName>,
    /// Segments of these that are of other writers: a node among others has them.
    pub(super) foreign: BTreeSet<SegmentName>,
    /// Shards that have told that they read a segment no more, before the bucket knew.
    retired: BTreeMap<SegmentName, u16>,
    pub(super) removing: Option<Pin<Box<dyn Future<Output = Removed>>>>,
    pub(super) orphans: Orphans,
    /// Logs in the bucket, as its log of edits says.
    pub(super) stored_logs: BTreeSet<u32>,
    /// How often logs have left there, and how many of these times their objects are gone.
    logs_left: u64,
    logs_removed: u64,
}

impl Objects {
    pub(super) fn new(now: Monotonic, bucket: &LedgerState, plan: &NodePlan) -> Objects {
        // No query of this start has ever read them.
        let gone = |live: &LiveSegment| (live.name, Gone { day: live.day, readers: 0 });
        Objects {
            live: bucket.live.values().map(|live| (live.name, live.day)).collect(),
            gone: bucket.removed.values().flatten().map(gone).collect(),
            opened: plan.segments.iter().map(|live| live.name).collect(),
            foreign: BTreeSet::new(),
            retired: BTreeMap::new(),
            removing: None,
            orphans: Orphans::new(now),
            stored_logs: bucket.wal.keys().copied().collect(),
            // A start may have ended before it had removed them.
            logs_left: u64::from(!plan.options.is_member),
            logs_removed: 0,
        }
    }
}

impl Objects {
    /// Forgets who has told that a segment is read no more.
    pub(super) fn forget_retired(&mut self, name: SegmentName) {
        self.retired.remove(&name);
    }
}

impl<R: Runtime> Follower<R> {
    /// A shard reads a segment no more.
    pub(super) fn retire(&mut self, name: SegmentName) {
        if let Some(gone) = self.objects.gone.get_mut(&name) {
            gone.readers = gone.readers.saturating_sub(1);
        } else if self.is_known(name) {
            *self.objects.retired.entry(name).or_default() += 1;
        }
    }

    pub(super) fn note_sent(&mut self, ledger: &Ledger<R>, batch: &Batch) {
        let logs: BTreeSet<u32> = ledger.state.wal.keys().copied().collect();
        if self.objects.stored_logs.difference(&logs).next().is_some() {
            self.objects.logs_left += 1;
        }
        self.objects.stored_logs = logs;
        let edit = batch.edit();
        self.objects.live.extend(edit.added.iter().map(|live| (live.name, live.day)));
        for live in &edit.added {
            self.disk.cache.add(live);
            self.objects.orphans.begun.remove(&live.name);
        }
        let of_left = edit.left.iter().map(|part| part.segment);
        for name in edit.removed.iter().copied().chain(of_left) {
            if self.objects.foreign.contains(&name) {
                if ledger.state.removed.contains_key(&name) {
                    self.objects.foreign.remove(&name);
                    self.objects.live.remove(&name);
                    self.objects.retired.remove(&name);
                }
                continue;
            }
            if ledger.state.live.contains_key(&name) {
                continue;
            }
            let Some(day) = self.objects.live.remove(&name) else { continue };
            self.disk.cache.remove(name);
            let retired = self.objects.retired.remove(&name).unwrap_or(0);
            let users = if self.is_open(name) { self.plan.node_segments.users(name) } else { 0 };
            let readers = users.saturating_sub(retired);
            self.objects.gone.insert(name, Gone { day, readers });
        }
    }

    /// Whether a segment is in the bucket, or may come into it.
    fn is_known(&self, name: SegmentName) -> bool {
        self.objects.live.contains_key(&name)
            || self.in_flight.added.contains_key(&name)
            || self.fold.lacks(name)
    }

    /// Whether a segment was opened by this start, or made.
    fn is_open(&self, name: SegmentName) -> bool {
        name.epoch == self.plan.epoch || self.objects.opened.contains(&name)
    }

    /// Begins to remove objects that nobody reads.
    pub(super) fn remove_objects(&mut self) {
        if self.objects.removing.is_some() {
            return;
        }
        let unread = self.objects.gone.iter().filter(|(_, gone)| gone.readers == 0);
        let names = unread.map(|(name, gone)| (*name, gone.day));
        let names: Vec<(SegmentName, Day)> = names.take(REMOVALS_AT_ONCE).collect();
        let logs_left = self.objects.logs_left;
        let earlier = logs_left > self.objects.logs_removed;
        if names.is_empty() && !earlier && !self.logs.has_unneeded() {
            return;
        }
        let (runtime, store) = (self.runtime.clone(), self.store.clone());
        let (logs, needed) = (self.logs.clone(), self.objects.stored_logs.clone());
        let status = Arc::clone(&self.status);
        self.objects.removing = Some(Box::pin(async move {
            let until = || runtime.now().after(REMOVAL_PATIENCE);
            let unneeded_gone = logs.remove_unneeded(&store, until()).await.map_err(LogError::from);
            let earlier_gone = if earlier {
                logs.remove_earlier(&runtime, &store, needed, until()).await
            } else {
                Ok(())
            };
            let logs_removed = if earlier_gone.is_ok() { logs_left } else { 0 };
            if let Err(error) = unneeded_gone.and(earlier_gone) {
                status.note_failure(runtime.now());
                tracing::warn!("cannot remove an object of a write-ahead log: {error}");
            }
            let mut segments = Vec::new();
            for (name, day) in names {
                let object = name.object_name(day);
                let until = runtime.now().after(REMOVAL_PATIENCE);
                match store.remove(&object, until).await {
                    Ok(()) => {
                        status.note_removed();
                        segments.push(name);
                    }
                    Err(error) => {
                        status.note_failure(runtime.now());
                        tracing::warn!("cannot remove an object, which is tried again: {error}");
                        break;
                    }
                }
            }
            Removed { segments, logs_removed }
        }));
    }

    /// Whether nothing is there of earlier logs that are not needed, nor of the node's own log before
    /// this number. Sees to it that the newest object goes, if it is before it.
    pub(super) fn has_removed_logs(&self, up_to: u64) -> bool {
        let is_gone = self.logs.first_left().is_none_or(|number| number >= up_to);
        if !is_gone && self.logs.lacks_end() {
            self.logs.ask_for_end();
        }
        is_gone && self.objects.logs_removed >= self.objects.logs_left
    }

    pub(super) fn end_removal(&mut self, removed: Removed) {
        self.objects.logs_removed = removed.logs_removed.max(self.objects.logs_removed);
        for name in removed.segments {
            self.objects.gone.remove(&name);
            if let Some(Sender { recorder: Recorder { ledger, .. }, .. }) = &mut self.sender
                && (!ledger.is_member || name.epoch == ledger.epoch)
            {
                ledger.state.forget_removed(name);
            }
        }
        self.check_reached();
    }
}

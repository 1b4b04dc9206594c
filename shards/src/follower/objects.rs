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

use super::Follower;
use super::fold::Batch;
use super::sweep::{Known, sweep};
use crate::ledger::{Ledger, LedgerState};
use crate::manifest::{Day, LiveSegment, SegmentName};
use crate::node::NodePlan;

/// How long a removal of an object has patience.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(60);
/// How long after its start a node looks for objects that nothing names, and how often from then
/// on.
const FIRST_SWEEP: Duration = Duration::from_secs(300);
const SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 64;

/// A segment that is not live in the bucket any more.
pub(super) struct Gone {
    day: Day,
    /// Shards that may still read it.
    readers: u16,
}

/// See the module.
pub(super) struct Objects {
    /// Segments that the bucket has.
    pub(super) live: BTreeMap<SegmentName, Day>,
    /// Segments that it has no more; their objects go when nobody reads them.
    pub(super) gone: BTreeMap<SegmentName, Gone>,
    /// Segments that this start has opened.
    pub(super) opened: BTreeSet<SegmentName>,
    /// Shards that have told that they read a segment no more, before the bucket knew.
    retired: BTreeMap<SegmentName, u16>,
    pub(super) removing: Option<Pin<Box<dyn Future<Output = Vec<SegmentName>>>>>,
    pub(super) sweeping: Option<Pin<Box<dyn Future<Output = ()>>>>,
    pub(super) next_sweep: Monotonic,
    /// Logs in the bucket, as its log of edits says.
    pub(super) stored_logs: BTreeSet<u32>,
    /// Whether earlier logs have gone from there.
    has_earlier_logs: bool,
}

impl Objects {
    pub(super) fn new(now: Monotonic, bucket: &LedgerState, plan: &NodePlan) -> Objects {
        // No query of this start has ever read them.
        let gone = |live: &LiveSegment| (live.name, Gone { day: live.day, readers: 0 });
        Objects {
            live: bucket.live.values().map(|live| (live.name, live.day)).collect(),
            gone: bucket.removed.values().flatten().map(gone).collect(),
            opened: plan.segments.iter().map(|live| live.name).collect(),
            retired: BTreeMap::new(),
            removing: None,
            sweeping: None,
            next_sweep: now.after(FIRST_SWEEP),
            stored_logs: bucket.wal.keys().copied().collect(),
            has_earlier_logs: false,
        }
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
        self.objects.has_earlier_logs |=
            self.objects.stored_logs.difference(&logs).next().is_some();
        self.objects.stored_logs = logs;
        let edit = batch.edit();
        self.objects.live.extend(edit.added.iter().map(|live| (live.name, live.day)));
        edit.added.iter().for_each(|live| self.disk.cache.add(live));
        let of_left = edit.left.iter().map(|part| part.segment);
        for name in edit.removed.iter().copied().chain(of_left) {
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
        let earlier = std::mem::take(&mut self.objects.has_earlier_logs);
        if names.is_empty() && !earlier && !self.logs.has_unneeded() {
            return;
        }
        let (runtime, store) = (self.runtime.clone(), self.store.clone());
        let (logs, needed) = (self.logs.clone(), self.objects.stored_logs.clone());
        let status = Arc::clone(&self.status);
        self.objects.removing = Some(Box::pin(async move {
            let until = || runtime.now().after(REMOVAL_PATIENCE);
            let mut logs_gone = logs.remove_unneeded(&store, until()).await;
            if earlier {
                // What stays after a failure goes with the next start that has such logs.
                logs_gone = logs_gone.and(logs.remove_earlier(&store, needed, until()).await);
            }
            if let Err(error) = logs_gone {
                status.note_failure(runtime.now());
                tracing::warn!("cannot remove an object of a write-ahead log: {error}");
            }
            let mut removed = Vec::new();
            for (name, day) in names {
                let object = name.object_name(day);
                let until = runtime.now().after(REMOVAL_PATIENCE);
                match store.remove(&object, until).await {
                    Ok(()) => {
                        status.note_removed();
                        removed.push(name);
                    }
                    Err(error) => {
                        status.note_failure(runtime.now());
                        tracing::warn!("cannot remove an object, which is tried again: {error}");
                        break;
                    }
                }
            }
            removed
        }));
    }

    /// Begins to look for objects that nothing names.
    pub(super) fn begin_sweep(&mut self, log: u32, base: Option<u32>) {
        self.objects.next_sweep = self.runtime.now().after(SWEEP_INTERVAL);
        let fold = self.fold.added().map(|added| added.live.name);
        let segments = fold.chain(self.in_flight.added.keys().copied());
        let segments = segments
            .chain(self.objects.live.keys().chain(self.objects.gone.keys()).copied())
            .collect();
        let known = Known { segments, log, base, epoch: self.plan.epoch };
        let (runtime, store) = (self.runtime.clone(), self.store.clone());
        self.objects.sweeping = Some(Box::pin(async move {
            match sweep(&runtime, &store, known).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "removed objects that nothing names"),
                Err(error) => tracing::warn!("cannot look for objects to be removed: {error}"),
            }
        }));
    }

    pub(super) fn end_removal(&mut self, names: Vec<SegmentName>) {
        for name in names {
            self.objects.gone.remove(&name);
            if let Some(sender) = &mut self.sender {
                sender.ledger.state.forget_removed(name);
            }
        }
        self.check_reached();
    }
}

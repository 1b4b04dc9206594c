//! Objects of segments that no edit will ever name: their upload was begun, and then their segment was
//! merged or removed, or the process has died.
//!
//! Guarantees: what this start may have uploaded goes as soon as it is known that it will not be named.
//! What earlier starts have left goes before anybody is told that the bucket is
//! [clean](super::BucketStatus::want_clean), and otherwise with the next [sweep](super::sweep). An upload
//! whose outcome was not known may make an object after it was removed; a later sweep finds it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

use super::Follower;
use super::objects::Gone;
use super::sweep::{Known, sweep};
use crate::manifest::{Day, SegmentName};

/// How long after its start a node looks for objects that nothing names, and how often from then
/// on.
const FIRST_SWEEP: Duration = Duration::from_secs(300);
const SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// How long after a failure it looks again.
const SWEEP_PAUSE: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Orphans {
    /// Segments that the bucket does not name, although there may be an object.
    pub(super) begun: BTreeMap<SegmentName, Day>,
    /// Tells whether the sweep has come to its end.
    pub(super) sweeping: Option<Pin<Box<dyn Future<Output = bool>>>>,
    next_sweep: Monotonic,
    /// Whether the objects of earlier starts are gone.
    has_swept_earlier: bool,
    /// The same once the sweep has ended well.
    sweeps_earlier: bool,
}

impl Orphans {
    pub(super) fn new(now: Monotonic) -> Orphans {
        Orphans {
            begun: BTreeMap::new(),
            sweeping: None,
            next_sweep: now.after(FIRST_SWEEP),
            has_swept_earlier: false,
            sweeps_earlier: false,
        }
    }

    pub(super) fn end_sweep(&mut self, now: Monotonic, is_complete: bool) {
        self.sweeping = None;
        self.has_swept_earlier |= is_complete && self.sweeps_earlier;
        if !is_complete {
            self.next_sweep = now.after(SWEEP_PAUSE);
        }
    }
}

impl<R: Runtime> Follower<R> {
    /// Has the objects removed of segments that will not be named.
    pub(super) fn find_orphans(&mut self) {
        let is_to_come =
            |name: &SegmentName| self.fold.lacks(*name) || self.in_flight.added.contains_key(name);
        let begun = &mut self.objects.orphans.begun;
        let orphans: Vec<_> = begun.extract_if(.., |name, _| !is_to_come(name)).collect();
        for (name, day) in orphans {
            if !self.objects.live.contains_key(&name) {
                // Nobody reads an object that the bucket does not name.
                self.objects.gone.entry(name).or_insert(Gone { day, readers: 0 });
            }
        }
    }

    /// Whether no earlier start has left objects that somebody wants to be gone.
    pub(super) fn has_no_orphans(&self) -> bool {
        self.objects.orphans.has_swept_earlier
            || self.plan.options.is_member
            || !self.status.is_clean_wanted()
    }

    /// Looks for objects that nothing names, if it is time.
    pub(super) fn sweep(&mut self) {
        let orphans = &self.objects.orphans;
        let is_wanted = self.status.is_clean_wanted() && !orphans.has_swept_earlier;
        let is_due = self.runtime.now() >= orphans.next_sweep;
        let Some(sender) = &self.sender else { return };
        if self.plan.options.is_member {
            // What no log of this node names may be named by one of another node.
            return;
        }
        if orphans.sweeping.is_some() || !(is_due || is_wanted) {
            return;
        }
        let segments = self.fold.added().map(|added| added.live.name);
        let segments = segments.chain(self.in_flight.added.keys().copied());
        let segments = segments
            .chain(self.objects.live.keys().chain(self.objects.gone.keys()).copied())
            .collect();
        let ledger = &sender.recorder.ledger;
        let known = Known {
            segments,
            files: ledger.state.files.values().map(|file| file.object).collect(),
            log: ledger.epoch,
            base: ledger.base,
            epoch: self.plan.epoch,
            has_to_be_clean: is_wanted,
        };
        let (runtime, store) = (self.runtime.clone(), self.store.clone());
        let orphans = &mut self.objects.orphans;
        orphans.next_sweep = self.runtime.now().after(SWEEP_INTERVAL);
        orphans.sweeps_earlier = is_wanted;
        orphans.sweeping = Some(Box::pin(async move {
            let removed = sweep(&runtime, &store, known).await;
            match &removed {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "removed objects that nothing names"),
                Err(error) => tracing::warn!("cannot look for objects to be removed: {error}"),
            }
            removed.is_ok()
        }));
    }
}

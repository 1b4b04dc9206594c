//! Which write-ahead logs in the bucket are needed, and the removal of objects that are not.
//!
//! Guarantees: an entry of the node's log of edits calls a log needed from an object on before which
//! all entries are in segments that the bucket has with that edit. Objects go after the edit is there.
//! The newest object of a log stays: in an ended log it is a fence, which a writer that was taken over
//! must find, however late. So do torn objects that may be beginnings of fences.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::bucket::ObjectInfo;
use logsvc_store::log::LogError;
use logsvc_store::{Folder, ObjectName, Store, StoreError};

use super::ended::remove_ended;
use super::fold::Batch;
use crate::ledger::{LedgerState, LogPlace};
use crate::node::NodePlan;
use crate::sink::{FOLDER, WalIndex, log_of};
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::WalName;

/// Objects of a log that are removed at once.
const REMOVALS_AT_ONCE: usize = 256;

/// See the module. Cheap to clone; stays on its core.
#[derive(Clone, Debug)]
pub(super) struct WalLogs {
    /// The epoch of the node.
    own: u32,
    /// The objects of its log, if the bucket gets it.
    pub(super) index: Option<WalIndex>,
    /// The log files that the start has replayed.
    replayed: Rc<[WalName]>,
}

impl WalLogs {
    pub(super) fn new(plan: &NodePlan) -> WalLogs {
        let replayed = plan.files.iter().map(|file| file.name).collect();
        WalLogs { own: plan.epoch, index: None, replayed }
    }

    /// Which logs are needed when the node's log of edits begins.
    pub(super) fn at_begin(&self, state: &LedgerState) -> BTreeMap<u32, u64> {
        let mut wal = state.wal.clone();
        if self.index.is_some() {
            wal.entry(self.own).or_insert(0);
        }
        wal
    }

    /// Which logs are needed once the batch is in the bucket.
    pub(super) fn after(&self, state: &LedgerState, batch: &Batch) -> BTreeMap<u32, u64> {
        let mut wal = state.wal.clone();
        let mut covers: Vec<Cover> = state.covers.clone();
        covers.extend(batch.covers());
        let is_covered = |name: &WalName| FileCovers::of(&covers, *name).covers_file(*name);
        // The folder may have had segments of entries whose log files it had no more.
        if batch.has_all_of_start && self.replayed.iter().all(is_covered) {
            wal.retain(|&epoch, _| epoch >= self.own);
        }
        if let Some(index) = &self.index {
            let first = index.first_needed(&covers);
            let known = wal.entry(self.own).or_insert(0);
            *known = first.max(*known);
        }
        wal
    }

    /// Takes over what the node's log of edits says.
    pub(super) fn note_appended(&self, state: &LedgerState) {
        let Some(index) = &self.index else { return };
        if let Some(&first) = state.wal.get(&self.own) {
            index.announce();
            index.note_needed(first);
        }
    }

    /// Whether objects of the node's own log have to go.
    pub(super) fn has_unneeded(&self) -> bool {
        self.index.as_ref().is_some_and(|index| !index.unneeded().is_empty())
    }

    /// See [`WalIndex::first_left`].
    pub(super) fn first_left(&self) -> Option<u64> {
        self.index.as_ref().and_then(WalIndex::first_left)
    }

    /// The first object of the node's own log that is needed, as its log of edits says.
    pub(super) fn first_needed(&self, state: &LedgerState) -> u64 {
        state.wal.get(&self.own).copied().unwrap_or(0)
    }

    /// See [`WalIndex::lacks_end`].
    pub(super) fn lacks_end(&self) -> bool {
        self.index.as_ref().is_some_and(WalIndex::lacks_end)
    }

    /// See [`WalIndex::ask_for_end`].
    pub(super) fn ask_for_end(&self) {
        self.index.as_ref().inspect(|index| index.ask_for_end());
    }

    /// Removes objects of the node's own log.
    ///
    /// # Errors
    /// The store refuses, or the deadline has passed. To be made again.
    pub(super) async fn remove_unneeded<R: Runtime>(
        &self,
        store: &Store<R>,
        until: Monotonic,
    ) -> Result<(), StoreError> {
        let Some(index) = &self.index else { return Ok(()) };
        let Ok(log) = log_of(self.own) else { return Ok(()) };
        for number in index.unneeded().into_iter().take(REMOVALS_AT_ONCE) {
            store.remove(&log.entry(number)?, until).await?;
            index.forget(number);
        }
        Ok(())
    }

    /// Removes all objects of earlier logs that are not in `needed`, but for those that exclude their
    /// writers, as far as a listing shows them.
    ///
    /// # Errors
    /// The store refuses, the deadline has passed, or a log without a fence does not take one. To be
    /// made again.
    pub(super) async fn remove_earlier<R: Runtime>(
        &self,
        runtime: &R,
        store: &Store<R>,
        needed: BTreeSet<u32>,
        until: Monotonic,
    ) -> Result<(), LogError> {
        let Ok(folder) = Folder::new(FOLDER) else { return Ok(()) };
        let mut log: Vec<(LogPlace, ObjectInfo)> = Vec::new();
        let mut after: Option<ObjectName> = None;
        loop {
            let page = store.list_page(&folder, after.as_ref(), until).await?;
            after = page.objects.last().map(|info| info.name.clone());
            for info in page.objects {
                let Some(place) = LogPlace::parse(FOLDER, &info.name) else { continue };
                if place.epoch >= self.own || needed.contains(&place.epoch) {
                    continue;
                }
                if log.last().is_some_and(|(last, _)| last.epoch != place.epoch) {
                    remove_ended(runtime, store, self.own, &log, until).await?;
                    log.clear();
                }
                log.push((place, info));
            }
            if !page.has_more || after.is_none() {
                remove_ended(runtime, store, self.own, &log, until).await?;
                return Ok(());
            }
        }
    }
}

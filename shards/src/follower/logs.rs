//! Which write-ahead logs in the bucket are needed, and the removal of objects that are not.
//!
//! Guarantees: an entry of the node's log of edits calls a log needed from an object on before which
//! all entries are in segments that the bucket has with that edit. Objects go after the edit is there.
//! The newest object of a log stays, and so do fences: a writer that was taken over must find them,
//! however late.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::bucket::ObjectInfo;
use logsvc_store::log::may_be_fence;
use logsvc_store::{Folder, ObjectName, Store, StoreError};

use super::fold::Batch;
use crate::ledger::LedgerState;
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

    /// Removes objects of earlier logs that are not in `needed`, as far as a listing shows them.
    ///
    /// # Errors
    /// As above.
    pub(super) async fn remove_earlier<R: Runtime>(
        &self,
        store: &Store<R>,
        needed: BTreeSet<u32>,
        until: Monotonic,
    ) -> Result<(), StoreError> {
        let Ok(folder) = Folder::new(FOLDER) else { return Ok(()) };
        let mut last: Option<(u32, ObjectInfo)> = None;
        let mut after: Option<ObjectName> = None;
        loop {
            let page = store.list_page(&folder, after.as_ref(), until).await?;
            after = page.objects.last().map(|info| info.name.clone());
            for info in page.objects {
                let Some(epoch) = epoch_of(&info.name) else { continue };
                if epoch >= self.own || needed.contains(&epoch) {
                    continue;
                }
                // The newest of a log is the one behind which another log, or nothing, comes.
                let before = last.replace((epoch, info));
                if let Some((of, before)) = before
                    && of == epoch
                    && !may_be_fence(before.len_bytes)
                {
                    store.remove(&before.name, until).await?;
                }
            }
            if !page.has_more || after.is_none() {
                return Ok(());
            }
        }
    }
}

fn epoch_of(name: &ObjectName) -> Option<u32> {
    let (epoch, _) = name.as_str().strip_prefix(FOLDER)?.strip_prefix('/')?.split_once('/')?;
    if epoch.len() == 8 { u32::from_str_radix(epoch, 16).ok() } else { None }
}

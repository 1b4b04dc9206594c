//! How the nodes of a cluster remove entries together.
//!
//! Each node removes the entries of due requests from the partitions that it owns, by passes as a single
//! node makes them, and remembers for which partitions it has done so. The node that keeps the requests
//! gathers that ([`RemovalReport`]). When all partitions are done, and the bucket has nothing any more
//! that was of no need before, the request is processed.
//!
//! Guarantees: a partition counts for a request only if its owner has owned it from the beginning of a
//! pass to its end. Whoever owns it later has got what that pass has left.
//!
//! What can go wrong: nodes that come and go all the time delay the end; entries stay hidden. Entries
//! that arrive between the pass and the end are hidden until then, and show from then on.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_cluster::map::Partition;
use logsvc_runtime::{Monotonic, Runtime};

use super::Keeper;
use super::pass::{self, PassEnd, PassError};
use super::records::{Change, Entry, PassOutcome};
use crate::deletion::{
    DeleteId, DeleteRequest, DeleteState, RemovalReport, RemovedTotals as Totals,
};

/// What a node has removed for a request.
#[derive(Debug, Default)]
struct Done {
    /// From which partitions, each with the number of the map since which the node owned it.
    partitions: BTreeMap<Partition, u64>,
    removed: Totals,
}

/// What the keeper of the requests knows of one that all nodes have done.
#[derive(Debug)]
struct Covered {
    /// When it knew.
    at: Monotonic,
    removed: Totals,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Removals {
    done: BTreeMap<DeleteId, Done>,
    /// What the node has owned when the pass under way began.
    begun_with: BTreeMap<Partition, u64>,
    covered: BTreeMap<DeleteId, Covered>,
}

impl Removals {
    /// Whether entries of a request may be in one of these partitions.
    fn lacks(&self, id: DeleteId, owned: &BTreeMap<Partition, u64>) -> bool {
        let done = self.done.get(&id).map(|done| &done.partitions);
        let is_done = |(partition, since): (&Partition, &u64)| {
            done.is_some_and(|done| done.get(partition) == Some(since))
        };
        !owned.iter().all(is_done)
    }

    fn forget(&mut self, is_known: impl Fn(DeleteId) -> bool) {
        self.done.retain(|id, _| is_known(*id));
        self.covered.retain(|id, _| is_known(*id));
    }
}

impl<R: Runtime> Keeper<R> {
    /// Begins to remove the entries of due requests from what the node owns.
    pub(super) fn begin_common_pass(&mut self, is_quarantine_empty: bool) {
        let (times, batch) = (self.times(), self.config.batch_size.max(1));
        let Some(record) = &mut self.common else { return };
        let Some(owned) = record.owned() else { return };
        let (removes, removals) = (&self.config.removes, &record.removals);
        let wants = |request: &DeleteRequest| {
            removes(&request.tenant) && removals.lacks(request.id, &owned)
        };
        let parts = self.records.begin_pass(batch, &times, is_quarantine_empty, wants);
        if parts.is_empty() {
            return;
        }
        record.removals.begun_with = owned;
        let run = pass::run(self.lanes.clone(), self.folders.clone(), self.outside.clone(), parts);
        self.pass = Some(Box::pin(run));
    }

    /// Remembers what a pass has done.
    pub(super) fn end_common_pass(&mut self, end: &PassEnd) {
        let outcome = match &end.result {
            Ok(()) => PassOutcome::Done,
            Err(PassError::Quarantine(_)) => PassOutcome::Quarantine,
            Err(_) => PassOutcome::Failed,
        };
        self.records.leave_pass(&end.parts, outcome);
        let Some(record) = &mut self.common else { return };
        let mut stayed = std::mem::take(&mut record.removals.begun_with);
        // While partitions come or go, it is not known which have stayed.
        let owned = record.owned();
        stayed.retain(|partition, since| {
            owned.as_ref().is_some_and(|owned| owned.get(partition) == Some(since))
        });
        for (part, removed) in end.parts.iter().zip(&end.removed) {
            let done = record.removals.done.entry(part.id).or_default();
            done.removed.entries += removed.entries;
            done.removed.line_bytes += removed.line_bytes;
            if outcome == PassOutcome::Done {
                done.partitions.extend(&stayed);
            }
        }
    }

    /// What this node has removed for requests that are pending: those that it has removed from all
    /// that it owns.
    pub(super) fn removal_report(&self) -> RemovalReport {
        let Some(record) = &self.common else { return RemovalReport::default() };
        let Some(owned) = record.owned() else { return RemovalReport::default() };
        let (times, removals) = (self.times(), &record.removals);
        let due = self.records.due(&times);
        let done = due.filter(|id| !removals.lacks(*id, &owned)).map(|id| {
            (id, removals.done.get(&id).map_or_else(Totals::default, |done| done.removed))
        });
        RemovalReport { owned: owned.keys().copied().collect(), done: done.collect() }
    }

    /// Whether this node keeps the requests and waits for reports of others.
    pub(super) fn wants_reports(&self) -> bool {
        let Some(record) = self.common.as_ref().filter(|record| record.is_keeper()) else {
            return false;
        };
        let is_open = |id: DeleteId| !record.removals.covered.contains_key(&id);
        self.config.is_removing && self.records.due(&self.times()).any(is_open)
    }

    /// Takes the reports of all nodes, of about one moment.
    pub(super) fn take_reports(&mut self, reports: &[RemovalReport]) {
        let (times, at) = (self.times(), self.runtime.now());
        let Some(record) = &mut self.common else { return };
        let owned: BTreeSet<Partition> =
            reports.iter().flat_map(|report| report.owned.iter().copied()).collect();
        if owned.len() < record.partitions() {
            return;
        }
        let owners = || reports.iter().filter(|report| !report.owned.is_empty());
        for id in self.records.due(&times) {
            if !owners().all(|report| report.done.contains_key(&id)) {
                continue;
            }
            let mut removed = Totals::default();
            for totals in reports.iter().filter_map(|report| report.done.get(&id)) {
                removed.entries += totals.entries;
                removed.line_bytes += totals.line_bytes;
            }
            record.removals.covered.entry(id).or_insert(Covered { at, removed });
        }
    }

    /// Ends requests whose entries nothing has any more.
    pub(super) async fn end_covered(&mut self) {
        let (records, Some(record)) = (&self.records, &mut self.common) else { return };
        let is_pending =
            |id| records.get(id).is_some_and(|entry: &Entry| entry.request.is_pending());
        record.removals.forget(is_pending);
        if !record.is_keeper() {
            record.removals.covered.clear();
            return;
        }
        let Some(clean_until) = record.clean_until() else { return };
        let at_ms = self.runtime.unix_nanos() / 1_000_000;
        let mut change = Change::default();
        for (id, covered) in &record.removals.covered {
            let Some(entry) = self.records.get(*id) else { continue };
            if covered.at >= clean_until {
                continue;
            }
            let request = DeleteRequest {
                state: DeleteState::Processed { at_ms },
                removed_entries: covered.removed.entries,
                removed_line_bytes: covered.removed.line_bytes,
                ..entry.request.clone()
            };
            change.replaced.insert(*id, request);
        }
        if change.replaced.is_empty() {
            return;
        }
        match self.change_common(&change, true).await {
            Ok(()) => {
                change.replaced.values().for_each(|request| self.note_processed(request));
                self.status.last_success_ms = Some(at_ms);
            }
            // The next look does it.
            Err(error) => tracing::warn!("the end of delete requests is not recorded yet: {error}"),
        }
    }
}

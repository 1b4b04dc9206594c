//! The requests in memory: which there are, what a client may do with them, and which are next.
//!
//! Nothing here does I/O. A [`Change`] is written down first ([`Records::with`] gives the requests
//! for the file) and takes effect afterwards ([`Records::apply`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::Monotonic;

use crate::deletion::format::{FILE_MAX_BYTES, record_len};
use crate::deletion::store::LoadedRequests;
use crate::deletion::{
    CancelError, CreateError, DeleteFilter, DeleteId, DeleteRequest, DeleteState,
};
use crate::messages::{PurgeTarget, RemovedTotals};

/// Pending requests of the node.
pub(super) const PENDING_MAX: usize = 10_000;
/// Pending requests of one tenant, and, apart from them, processed ones.
pub(super) const TENANT_MAX: usize = 2_000;
/// Bytes that the pending requests of one tenant may take in the file, and, apart from them, the
/// processed ones.
const TENANT_MAX_BYTES: usize = 1 << 20;
/// The most bytes of memory that the list of one tenant's requests takes.
pub(super) const LISTED_MAX_BYTES: usize =
    2 * (TENANT_MAX_BYTES + TENANT_MAX * size_of::<DeleteRequest>());
/// Bytes of the file that requests may take; progress makes no record longer.
const RECORDS_MAX_BYTES: usize = FILE_MAX_BYTES - (1 << 20);

/// How long a processed request stays in the record.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A pass does at most this part of a request at once, unless its parts are fewer. So progress in
/// percent still has each number, and short parts cost no pass each.
const PASSES_PER_REQUEST: u32 = 100;

/// The clocks at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// For requests of this start.
    pub(super) now: Monotonic,
    /// For requests of earlier starts: the time by which entries may be removed, in ns since the
    /// Unix epoch.
    pub(super) retention_ns: i64,
    /// The cancel period.
    pub(super) cancel_period: Duration,
}

/// A change of the record.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Requests that leave.
    pub(super) removed: BTreeSet<DeleteId>,
    /// Requests that progress.
    pub(super) replaced: BTreeMap<DeleteId, DeleteRequest>,
    /// Requests that come.
    pub(super) added: Vec<DeleteRequest>,
}

/// A request with everything that this start knows about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) request: DeleteRequest,
    /// `None` when it is processed.
    pub(super) filter: Option<Arc<DeleteFilter>>,
    /// When it was made; `None` if an earlier start has made it.
    made_at: Option<Monotonic>,
    /// The number of the last pass that worked on it; 0 if none has.
    last_pass: u64,
    /// Whether a pass works on it.
    is_under_way: bool,
    /// Whether a pass has found files in a quarantine folder.
    waits_for_quarantine: bool,
}

impl Entry {
    fn is_due(&self, times: &Times) -> bool {
        self.due_in(times).is_zero()
    }

    /// How long its cancel period lasts from now on.
    fn due_in(&self, times: &Times) -> Duration {
        if let Some(made_at) = self.made_at {
            // The wall clock may have jumped since.
            return times.cancel_period.saturating_sub(times.now.since(made_at));
        }
        let created_ns = i128::from(self.request.created_ms) * 1_000_000;
        let due_ns = created_ns + times.cancel_period.as_nanos() as i128;
        let left_ns = due_ns - i128::from(times.retention_ns);
        Duration::from_nanos(left_ns.clamp(0, i128::from(u64::MAX)) as u64)
    }

    fn parts_done(&self) -> u32 {
        match self.request.state {
            DeleteState::Pending { parts_done } => parts_done,
            DeleteState::Processed { .. } => self.request.parts(),
        }
    }

    fn len_bytes(&self) -> usize {
        record_len(&self.request.tenant, &self.request.query)
    }
}

/// The part of a request that a pass removes.
#[derive(Clone, Debug)]
pub(super) struct PassPart {
    pub(super) id: DeleteId,
    /// The parts that are done when the pass has ended well.
    pub(super) parts_done: u32,
    pub(super) target: PurgeTarget,
}

/// The way in which a request is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// It leaves the record.
    Removed,
    /// It is listed as processed.
    Ended,
}

/// All requests, oldest first.
#[derive(Debug)]
pub(super) struct Records {
    entries: Vec<Entry>,
    passes: u64,
    /// Whether other nodes work on the requests, too.
    pub(super) is_shared: bool,
}

impl Records {
    /// The requests of earlier starts.
    pub(super) fn new(loaded: &LoadedRequests) -> Records {
        let mut filters = loaded.filters.iter();
        let entry = |request: &DeleteRequest| Entry {
            filter: request.is_pending().then(|| filters.next().cloned()).flatten(),
            request: request.clone(),
            made_at: None,
            last_pass: 0,
            is_under_way: false,
            waits_for_quarantine: false,
        };
        Records {
            entries: loaded.requests.iter().map(entry).collect(),
            passes: 0,
            is_shared: false,
        }
    }

    /// Puts what another node has recorded in the place of all requests. What this start knows of those
    /// that stay is not changed.
    pub(super) fn replace(&mut self, recorded: &LoadedRequests) {
        let mut next = Records::new(recorded).entries;
        for entry in &mut next {
            if let Some(known) = self.get(entry.request.id) {
                entry.made_at = known.made_at;
                entry.last_pass = known.last_pass;
            }
        }
        self.entries = next;
    }

    /// The filters of the pending ones.
    pub(super) fn filters(&self) -> impl Iterator<Item = (DeleteId, Arc<DeleteFilter>)> {
        self.pending().filter_map(|entry| Some((entry.request.id, entry.filter.clone()?)))
    }

    /// The pending ones.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.request.is_pending())
    }

    /// The request of an id.
    pub(super) fn get(&self, id: DeleteId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.request.id == id)
    }

    fn get_mut(&mut self, id: DeleteId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.request.id == id)
    }

    /// The requests of a tenant by the time at which they were made; only those that overlap the
    /// bounds, if there are any.
    pub(super) fn list(
        &self,
        tenant: &TenantId,
        bounds_ns: Option<(i64, i64)>,
    ) -> Vec<DeleteRequest> {
        let overlaps = |request: &DeleteRequest| {
            bounds_ns.is_none_or(|(min, max)| request.start_ns <= max && min <= request.end_ns)
        };
        let all = self.entries.iter().map(|entry| &entry.request);
        let mut listed: Vec<_> =
            all.filter(|r| r.tenant == *tenant && overlaps(r)).cloned().collect();
        listed.sort_by_key(|request| request.created_ms);
        listed
    }

    /// Whether another request fits beside the ones that a change adds already.
    pub(super) fn admit(
        &self,
        tenant: &TenantId,
        query: &str,
        change: &Change,
    ) -> Result<(), CreateError> {
        let pending = || self.pending().map(|entry| &entry.request).chain(&change.added);
        let size = |request: &DeleteRequest| record_len(&request.tenant, &request.query);
        let len = record_len(tenant, query);
        let of_node = pending().count();
        let bytes: usize = pending().map(size).sum();
        if of_node >= PENDING_MAX || bytes + len > RECORDS_MAX_BYTES {
            return Err(CreateError::TooMany { max: of_node });
        }
        let of_tenant = || pending().filter(|request| request.tenant == *tenant);
        let count = of_tenant().count();
        let bytes: usize = of_tenant().map(size).sum();
        if count >= TENANT_MAX || bytes + len > TENANT_MAX_BYTES {
            return Err(CreateError::TooMany { max: count });
        }
        Ok(())
    }

    /// The processed requests that leave the record to make room for the requests of a change: the
    /// oldest ones.
    pub(super) fn crowded_out(&self, change: &Change) -> BTreeSet<DeleteId> {
        let processed = || self.entries.iter().filter(|entry| !entry.request.is_pending());
        let mut of_tenant: BTreeMap<&TenantId, (usize, usize)> = BTreeMap::new();
        for entry in processed() {
            let (count, bytes) = of_tenant.entry(&entry.request.tenant).or_default();
            *count += 1;
            *bytes += entry.len_bytes();
        }
        let added = change.added.iter().map(|r| record_len(&r.tenant, &r.query));
        let mut bytes: usize = self.entries.iter().map(Entry::len_bytes).chain(added).sum();
        let mut removed = BTreeSet::new();
        for entry in processed() {
            let (count, own_bytes) = of_tenant.entry(&entry.request.tenant).or_default();
            let has_many = *count > TENANT_MAX || *own_bytes > TENANT_MAX_BYTES;
            if has_many || bytes > RECORDS_MAX_BYTES {
                *count -= 1;
                *own_bytes -= entry.len_bytes();
                bytes -= entry.len_bytes();
                removed.insert(entry.request.id);
            }
        }
        removed
    }

    /// The processed requests that are old enough to leave the record.
    pub(super) fn expired(&self, retention_ns: i64) -> BTreeSet<DeleteId> {
        let kept_ns = KEPT_FOR.as_nanos() as i128;
        let is_old = |request: &&DeleteRequest| match request.state {
            DeleteState::Pending { .. } => false,
            DeleteState::Processed { at_ms } => {
                i128::from(at_ms) * 1_000_000 + kept_ns <= i128::from(retention_ns)
            }
        };
        let all = self.entries.iter().map(|entry| &entry.request);
        all.filter(is_old).map(|request| request.id).collect()
    }

    /// How a tenant's request is cancelled.
    pub(super) fn cancel(
        &self,
        tenant: &TenantId,
        id: DeleteId,
        is_forced: bool,
        times: &Times,
    ) -> Result<Cancel, CancelError> {
        let entry = self.get(id).filter(|entry| entry.request.tenant == *tenant);
        let entry = entry.ok_or(CancelError::Unknown)?;
        if !entry.request.is_pending() {
            return Err(CancelError::Processed);
        }
        let is_begun_elsewhere = self.is_shared && entry.is_due(times);
        let has_begun = entry.is_under_way || entry.parts_done() > 0 || is_begun_elsewhere;
        if !is_forced && (has_begun || entry.is_due(times)) {
            return Err(CancelError::TooLate);
        }
        Ok(if has_begun { Cancel::Ended } else { Cancel::Removed })
    }

    /// The requests of the file after a change.
    pub(super) fn with<'r>(
        &'r self,
        change: &'r Change,
    ) -> impl Iterator<Item = &'r DeleteRequest> {
        let stays = |entry: &&Entry| !change.removed.contains(&entry.request.id);
        let old = self.entries.iter().filter(stays).map(|entry| {
            let request = &entry.request;
            change.replaced.get(&request.id).unwrap_or(request)
        });
        old.chain(&change.added)
    }

    /// Makes a change, and gives the filters of the requests that have ended by it. The added
    /// requests have these filters, in their order, and were made now.
    pub(super) fn apply(
        &mut self,
        change: Change,
        filters: Vec<Arc<DeleteFilter>>,
        now: Monotonic,
    ) -> Vec<Arc<DeleteFilter>> {
        let mut ended = Vec::new();
        for entry in &mut self.entries {
            if let Some(request) = change.replaced.get(&entry.request.id) {
                entry.request = request.clone();
            }
            let leaves = change.removed.contains(&entry.request.id);
            if leaves || !entry.request.is_pending() {
                ended.extend(entry.filter.take());
            }
        }
        self.entries.retain(|entry| !change.removed.contains(&entry.request.id));
        self.entries.extend(change.added.into_iter().zip(filters).map(|(request, filter)| Entry {
            request,
            filter: Some(filter),
            made_at: Some(now),
            last_pass: 0,
            is_under_way: false,
            waits_for_quarantine: false,
        }));
        ended
    }

    /// The time until the next cancel period of a tenant that lets entries be removed is over;
    /// `None` if nothing waits for it.
    pub(super) fn next_due_in(&self, times: &Times) -> Option<Duration> {
        self.pending().map(|entry| entry.due_in(times)).filter(|left| !left.is_zero()).min()
    }

    /// Takes the next parts of up to so many requests that `wants` names, those first that have waited
    /// for longest; among other nodes all of their parts. They are under way until
    /// [`Records::leave_pass`].
    pub(super) fn begin_pass(
        &mut self,
        batch: usize,
        times: &Times,
        is_quarantine_empty: bool,
        wants: impl Fn(&DeleteRequest) -> bool,
    ) -> Vec<PassPart> {
        let is_next = |entry: &&mut Entry| {
            entry.request.is_pending()
                && (is_quarantine_empty || !entry.waits_for_quarantine)
                && entry.is_due(times)
                && wants(&entry.request)
        };
        let passes_per_request = if self.is_shared { 1 } else { PASSES_PER_REQUEST };
        let mut next: Vec<&mut Entry> = self.entries.iter_mut().filter(is_next).collect();
        // The sort is stable: of those that have waited equally long the oldest come first.
        next.sort_by_key(|entry| entry.last_pass);
        next.truncate(batch);
        self.passes += u64::from(!next.is_empty());
        let parts = next.into_iter().filter_map(|entry| {
            let (all, first) = (entry.request.parts(), entry.parts_done());
            let last = first.saturating_add(all.div_ceil(passes_per_request)).min(all) - 1;
            let filter = Arc::clone(entry.filter.as_ref()?);
            (entry.last_pass, entry.is_under_way) = (self.passes, true);
            let (start_ns, _) = entry.request.part_bounds_ns(first);
            let (_, end_ns) = entry.request.part_bounds_ns(last);
            let target = PurgeTarget { filter, start_ns, end_ns };
            Some(PassPart { id: entry.request.id, parts_done: last + 1, target })
        });
        parts.collect()
    }

    /// Notes that a pass has ended.
    pub(super) fn leave_pass(&mut self, parts: &[PassPart], end: PassOutcome) {
        for part in parts {
            let Some(entry) = self.get_mut(part.id) else { continue };
            entry.is_under_way = false;
            entry.waits_for_quarantine = end == PassOutcome::Quarantine;
        }
    }

    /// The pending requests whose cancel period is over.
    pub(super) fn due(&self, times: &Times) -> impl Iterator<Item = DeleteId> {
        self.pending().filter(|entry| entry.is_due(times)).map(|entry| entry.request.id)
    }

    /// Ends a pass: adds the entries that were removed, and gives the progress that is to be
    /// written down, none if the pass did not end well.
    pub(super) fn end_pass(
        &mut self,
        parts: &[PassPart],
        removed: &[RemovedTotals],
        end: PassOutcome,
        at_ms: i64,
    ) -> Change {
        self.leave_pass(parts, end);
        let mut change = Change::default();
        for (index, part) in parts.iter().enumerate() {
            let Some(entry) = self.get_mut(part.id) else { continue };
            let totals = removed.get(index).copied().unwrap_or_default();
            let request = &mut entry.request;
            request.removed_entries = request.removed_entries.saturating_add(totals.entries);
            request.removed_line_bytes =
                request.removed_line_bytes.saturating_add(totals.line_bytes);
            // A request that was cancelled meanwhile stays as it is.
            if end == PassOutcome::Done && request.is_pending() {
                let parts_done = part.parts_done;
                let state = if parts_done >= request.parts() {
                    DeleteState::Processed { at_ms }
                } else {
                    DeleteState::Pending { parts_done }
                };
                let request = DeleteRequest { state, ..request.clone() };
                change.replaced.insert(part.id, request);
            }
        }
        change
    }
}

/// How a pass has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassOutcome {
    /// No file holds an entry of its parts.
    Done,
    /// The quarantine folders hold files.
    Quarantine,
    /// Something failed.
    Failed,
}

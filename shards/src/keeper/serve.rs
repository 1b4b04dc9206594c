//! The answers to requests, and the changes that they make.

use std::io;
use std::sync::Arc;

use futures_util::future::try_join_all;
use logsvc_logql::engine::Estimate;
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Inbox, ReplyTo};
use logsvc_runtime::{Runtime, SideQueue};

use super::records::{Cancel, Change};
use super::{Incomings, Keeper};
use crate::deletion::{
    CancelError, CreateError, DeleteFilter, DeleteId, DeleteRequest, DeleteState, DeletionReply,
    DeletionRequest, DeletionStatus, DeletionVersion, NewDelete,
};
use crate::kept::{KeptPath, NotKept, Settling};
use crate::messages::ShardRequest;

/// The most time that the query of a request may take to be parsed, and to be compiled: some
/// hundred patterns. Queries of 130 kilobytes may take seconds, and others wait meanwhile.
const COMPILED_WITHIN_NS: u64 = 100_000_000;

/// Requests that are written down at once.
const GROUP_MAX: usize = 64;

type Reply = ReplyTo<DeletionReply>;

impl<R: Runtime> Keeper<R> {
    /// Answers a request, together with those that wait behind it.
    pub(super) async fn serve(
        &mut self,
        first: Incomings,
        inbox: &mut Inbox<DeletionRequest, DeletionReply>,
    ) {
        let mut creates = Vec::new();
        let mut others = Vec::new();
        let mut next = Some(first);
        while let Some(incoming) = next.take() {
            match incoming.request {
                DeletionRequest::Create(new) => creates.push((*new, incoming.reply_to)),
                other => others.push((other, incoming.reply_to)),
            }
            if creates.len() + others.len() < GROUP_MAX {
                next = inbox.try_receive();
            }
        }
        if !creates.is_empty() {
            self.create(creates).await;
        }
        for (request, reply_to) in others {
            let reply = match request {
                DeletionRequest::List { tenant, bounds_ns } => {
                    DeletionReply::Listed(self.records.list(&tenant, bounds_ns))
                }
                DeletionRequest::Cancel { tenant, id, is_forced } => {
                    let outcome = self.cancel(&tenant, id, is_forced).await;
                    // One that is unknown may have been cancelled a moment ago.
                    let is_changed = matches!(outcome, Ok(()) | Err(CancelError::Unknown));
                    let settling = if is_changed { self.settled() } else { None };
                    self.answer(settling, move |kept| {
                        let outcome = kept.map_err(|_| CancelError::Bucket).and(outcome);
                        reply_to.send(DeletionReply::Cancelled(outcome));
                    });
                    continue;
                }
                DeletionRequest::Status => DeletionReply::Status(Box::new(self.status())),
                DeletionRequest::Removed => DeletionReply::Removed(self.removal_report()),
                DeletionRequest::WantsReports => DeletionReply::WantsReports(self.wants_reports()),
                DeletionRequest::Reported(reports) => {
                    self.take_reports(&reports);
                    DeletionReply::WantsReports(self.wants_reports())
                }
                DeletionRequest::Create(_) => unreachable!("creates are apart"),
            };
            reply_to.send(reply);
        }
    }

    /// Records requests with one write, and brings them into force.
    async fn create(&mut self, creates: Vec<(NewDelete, Reply)>) {
        let mut change = Change::default();
        let (mut filters, mut replies) = (Vec::new(), Vec::new());
        for (new, reply_to) in creates {
            match self.prepare(new, &change).await {
                Ok((request, filter)) => {
                    replies.push((request.id, reply_to));
                    change.added.push(request);
                    filters.push(Arc::new(filter));
                }
                Err(error) => reply_to.send(DeletionReply::Created(Err(error))),
            }
        }
        if filters.is_empty() {
            return;
        }
        change.removed = self.records.crowded_out(&change);
        let outcome = self.bring_into_force(change, &filters).await;
        let settling = if outcome.is_ok() { self.settled() } else { None };
        self.answer(settling, move |kept| {
            let outcome = kept.map_err(|_| CreateError::Bucket).and(outcome);
            for (id, reply_to) in replies {
                reply_to.send(DeletionReply::Created(outcome.clone().map(|()| id)));
            }
        });
    }

    /// Waits until the bucket has what was written; `None` if answers do not wait.
    fn settled(&self) -> Option<Settling> {
        self.files.as_ref()?.settled(&self.runtime)
    }

    /// Answers when the bucket has what was written, or does not take it. Other requests do not wait
    /// for that.
    fn answer(
        &self,
        settling: Option<Settling>,
        answer: impl FnOnce(Result<(), NotKept>) + 'static,
    ) {
        match settling {
            None => answer(Ok(())),
            Some(settling) => {
                drop(self.runtime.spawn(async move { answer(settling.await) }));
            }
        }
    }

    /// The record and the filter of a request. A side thread does what takes long.
    async fn prepare(
        &self,
        new: NewDelete,
        change: &Change,
    ) -> Result<(DeleteRequest, DeleteFilter), CreateError> {
        if self.is_stopping {
            return Err(CreateError::Stopping);
        }
        self.records.admit(&new.tenant, &new.query, change)?;
        let memory = self.memory.try_reserve(DeleteFilter::held_bytes_of(&new.query));
        let memory = memory.ok_or(CreateError::NoMemory)?;
        let is_used = |id| {
            self.records.get(id).is_some() || change.added.iter().any(|request| request.id == id)
        };
        let id = loop {
            let id = DeleteId(self.runtime.random_u64() as u32);
            if !is_used(id) {
                break id;
            }
        };
        let bounds_ns = (new.start_ns, new.end_ns);
        let since = self.deletions.version().next();
        let (tenant, query) = (new.tenant.clone(), new.query.clone());
        let parse = move || syntax::parse_log_selector(&query);
        let estimate = Estimate::of_text(&new.query);
        if estimate.time_ns > COMPILED_WITHIN_NS {
            return Err(CreateError::TooComplex);
        }
        let log = if estimate.is_short() {
            parse()
        } else {
            self.runtime.offload_to(SideQueue::Queries, parse).await
        };
        let log = log.map_err(|error| CreateError::Query(error.to_string()))?;
        let estimate = Estimate::of_stages(&log) + Estimate::of_matchers(&log.selector.matchers);
        if estimate.time_ns > COMPILED_WITHIN_NS {
            return Err(CreateError::TooComplex);
        }
        let compile = move || DeleteFilter::new(id, tenant, &log, bounds_ns, since);
        let filter = if estimate.is_short() {
            compile()
        } else {
            self.runtime.offload_to(SideQueue::Queries, compile).await
        };
        let filter = filter.map_err(|error| CreateError::Query(error.to_string()))?;
        let filter = filter.with_memory(memory);
        let request = DeleteRequest {
            id,
            tenant: new.tenant,
            query: new.query,
            start_ns: new.start_ns,
            end_ns: new.end_ns,
            created_ms: self.runtime.unix_nanos() / 1_000_000,
            part_ns: new.part_ns.filter(|&ns| ns > 0),
            state: DeleteState::Pending { parts_done: 0 },
            removed_entries: 0,
            removed_line_bytes: 0,
        };
        Ok((request, filter))
    }

    async fn bring_into_force(
        &mut self,
        change: Change,
        filters: &[Arc<DeleteFilter>],
    ) -> Result<(), CreateError> {
        if self.common.is_some() {
            self.change_common(&change, true).await?;
            self.note_recorded(&change);
            return Ok(());
        }
        let written = self.write(&change).await;
        written.map_err(|error| CreateError::Disk(error.to_string().into()))?;
        let hide = |filter| self.lanes.ask_all(move || ShardRequest::Hide(Arc::clone(filter)));
        if try_join_all(filters.iter().map(hide)).await.is_err() {
            // Some shards may know them already, so no later version may be published.
            self.is_stopping = true;
            return Err(CreateError::Stopping);
        }
        self.publish(self.deletions.version().next(), filters);
        self.note_recorded(&change);
        self.records.apply(change, filters.to_vec(), self.runtime.now());
        Ok(())
    }

    fn note_recorded(&mut self, change: &Change) {
        for request in &change.added {
            self.status.tenants.entry(request.tenant.clone()).or_default().received += 1;
            tracing::info!(
                tenant = request.tenant.as_str(),
                id = %request.id,
                start_ns = request.start_ns,
                end_ns = request.end_ns,
                "a delete request is recorded"
            );
        }
    }

    async fn cancel(
        &mut self,
        tenant: &TenantId,
        id: DeleteId,
        is_forced: bool,
    ) -> Result<(), CancelError> {
        if self.is_stopping {
            return Err(CancelError::Stopping);
        }
        let cancel = self.records.cancel(tenant, id, is_forced, &self.times())?;
        let Some(entry) = self.records.get(id) else { return Err(CancelError::Unknown) };
        let request = entry.request.clone();
        let mut change = Change::default();
        match cancel {
            Cancel::Removed => drop(change.removed.insert(id)),
            Cancel::Ended => {
                let at_ms = self.runtime.unix_nanos() / 1_000_000;
                let state = DeleteState::Processed { at_ms };
                change.replaced.insert(id, DeleteRequest { state, ..request.clone() });
            }
        }
        let mut ended = Vec::new();
        if self.common.is_some() {
            self.change_common(&change, true).await?;
        } else {
            let written = self.write(&change).await;
            written.map_err(|error| CancelError::Disk(error.to_string().into()))?;
            ended = self.records.apply(change, Vec::new(), self.runtime.now());
        }
        tracing::info!(
            tenant = tenant.as_str(),
            id = %id,
            start_ns = request.start_ns,
            end_ns = request.end_ns,
            removed_entries = request.removed_entries,
            is_forced,
            "a delete request is cancelled"
        );
        self.end(&ended).await;
        Ok(())
    }

    /// Ends filters: their entries show from the next version on.
    pub(super) async fn end(&mut self, ended: &[Arc<DeleteFilter>]) {
        if ended.is_empty() {
            return;
        }
        let version = self.deletions.version().next();
        ended.iter().for_each(|filter| filter.end_at(version));
        self.publish(version, ended);
        self.unhide(ended).await;
    }

    /// Has the shards forget filters that have ended, after a while.
    pub(super) async fn unhide(&mut self, ended: &[Arc<DeleteFilter>]) {
        let unhide = |filter: &Arc<DeleteFilter>| {
            let id = filter.id;
            self.lanes.ask_all(move || ShardRequest::Unhide(id))
        };
        let is_stopping = try_join_all(ended.iter().map(unhide)).await.is_err();
        self.is_stopping |= is_stopping;
    }

    /// Brings a version into force, in which filters begin or end to hold.
    pub(super) fn publish(&self, version: DeletionVersion, filters: &[Arc<DeleteFilter>]) {
        let count = || {
            for filter in filters {
                self.changes.deletions_changed(&filter.tenant, filter.start_ns, filter.end_ns);
            }
        };
        // In front of the version: a query that sees the new one must not add to steps that were
        // computed by the old one.
        count();
        self.deletions.publish(version);
        // And behind it: an answer that is computed by the old one meanwhile must not hold.
        count();
    }

    /// Writes down the requests after a change.
    pub(super) async fn write(&mut self, change: &Change) -> io::Result<()> {
        let written = self.store.replace(self.records.with(change)).await;
        self.is_unsure = written.is_err();
        // After a failure, too: it may be either.
        if let Some(files) = &self.files {
            files.note(KeptPath::requests());
        }
        if let Err(error) = &written {
            tracing::error!(%error, "cannot write the record of delete requests");
        }
        written
    }

    fn status(&self) -> DeletionStatus {
        let pending = || self.records.pending().map(|entry| entry.request.created_ms);
        DeletionStatus {
            pending: pending().count() as u64,
            oldest_pending_ms: pending().min(),
            ..self.status.clone()
        }
    }
}

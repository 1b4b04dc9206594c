//! The state of one shard.
//!
//! [`Shard::step`] takes an event, changes the state to completion and hands back effects: log
//! operations to perform, replies to send, scans to run. It never waits and does no I/O. The
//! driver in [`crate::host`] does this, and feeds the outcome back as the next event. A start
//! rebuilds the state before the first step (`restore.rs`). Nothing else changes it.
//!
//! Guarantees: a push is answered with success only after the commit that holds it. Its entries
//! are visible to every request that arrives after the answer. A push whose commit failed leaves
//! no entry behind. If the disk fails, pushes are refused, and reads go on. If memory runs out,
//! pushes are refused.

mod active;
mod answers;
mod append;
mod deletions;
mod event;
mod lists;
mod maintain;
mod ownership;
mod restore;
mod seal;
mod stream;
mod tails;

use std::sync::Arc;

use ahash::{HashMap, RandomState};
use logsvc_proto::StreamId;
use logsvc_runtime::mesh::{Incoming, ReplyTo};
use logsvc_runtime::{Budget, Monotonic, Reservation};

use crate::changes::{ShardChanges, TenantKey};
use crate::compact::Drafts;
use crate::deletion::DeleteFilters;
use crate::index::{LabelIndex, Slot};
use crate::manifest::{LiveSegment, SegmentName};
use crate::messages::{
    AppendError, AppendOutcome, CommitLatency, ShardEdits, ShardReply, ShardRequest, TenantCounts,
};
use crate::scan::Listing;
use crate::sealed::SealedSegment;
use crate::types::{OwnedPartitions, StreamDefinition};
use crate::wal::format::WalName;
use crate::wal::restored::RecoverySummary;
use crate::wal::writer::{InFrame, WalConfig, WalWriter};
use logsvc_segment::batch::{Section, checked_sections};
use logsvc_segment::head::{BlockPool, StreamHead};

use active::ActiveStreams;
use deletions::Deletions;
pub use event::{Effect, Event, StepContext};
use maintain::Maintenance;
pub use maintain::MaintenanceConfig;
use ownership::Ownership;
pub use seal::SealPolicy;
use seal::Sealing;
use stream::{Defined, StreamMemory, StreamState, define_streams};
use tails::Tails;

/// Settings of a shard.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Settings of its log.
    pub wal: WalConfig,
    /// The core that it is on.
    pub core: u16,
    /// The partitions that it owns at first.
    pub owned: OwnedPartitions,
    /// Whether these change, since the node is one of many.
    pub is_member: bool,
    /// The first file that it writes.
    pub first_wal: WalName,
    /// Memory for entries; shared by all shards of the node.
    pub heads: Budget,
    /// Memory for streams, besides their entries; shared by all shards of the node.
    pub streams: Budget,
    /// When heads are written to segments.
    pub seal: SealPolicy,
    /// Merging, retention and disk space.
    pub maintenance: MaintenanceConfig,
    /// Memory for new entries on their way to tails; shared by all shards of the node.
    pub tails: Budget,
    /// Counts its changes for caches of answers.
    pub changes: ShardChanges,
    /// The filters of requests for deletion that are not processed.
    pub deletions: DeleteFilters,
}

impl ShardConfig {
    /// Segments that the shard seals have orders from this one on; segments of earlier starts have
    /// smaller ones.
    fn first_order(&self) -> u64 {
        let WalName { epoch, shards, shard, .. } = self.first_wal;
        // A gained segment counts as one of order 0.
        SegmentName { epoch, shards, shard, seq: 0 }.sealed_order().max(self.is_member.into())
    }

    fn cores(&self) -> u16 {
        self.maintenance.node.layout().cores()
    }
}

/// A push on its way through the log.
#[derive(Debug)]
struct PendingAppend {
    reply_to: ReplyTo<ShardReply>,
    slots: Vec<Slot>,
    outcome: AppendOutcome,
    reserved_bytes: u64,
    is_replayed: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    streams: Vec<StreamState>,
    by_id: HashMap<StreamId, Slot>,
    active: ActiveStreams,
    index: LabelIndex,
    changes: ShardChanges,
    wal: WalWriter<PendingAppend>,
    sealing: Sealing,
    ownership: Ownership,
    maintenance: Maintenance,
    drafts: Drafts,
    deferred: append::Deferred,
    tails: Tails,
    deletions: Deletions,
    /// Segments that hold streams of this shard, in their order.
    segments: Vec<Arc<SealedSegment>>,
    /// Live segments that cannot be read.
    missing: Vec<LiveSegment>,
    head_memory: HeadMemory,
    stream_memory: StreamMemory,
    stop: Stop,
    counters: Counters,
    recovery: RecoverySummary,
}

/// The memory of the entries in heads.
#[derive(Debug)]
struct HeadMemory {
    reserved: Reservation,
    /// Blocks of heads that are free.
    pool: BlockPool,
    /// Bytes that entries on their way through the log will take in heads.
    in_log_bytes: u64,
}

impl HeadMemory {
    fn release(&mut self, bytes: u64) {
        self.reserved.shrink_to(self.reserved.bytes().saturating_sub(bytes));
    }
}

/// The stop of a shard. A shard that was told to stop refuses pushes.
#[derive(Debug, Default)]
struct Stop {
    /// Whether the shard was told to stop.
    begun: bool,
    /// The answer to the request, until it is given.
    reply_to: Option<ReplyTo<ShardReply>>,
    /// Why the last commit after the request failed.
    error: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct Counters {
    /// Entries in heads, and bytes of their lines.
    entries: u64,
    line_bytes: u64,
    duplicates: u64,
    commit_latency: CommitLatency,
    /// Batches looked at so far; tells looks apart.
    checks: u64,
}

impl Shard {
    /// An empty shard.
    ///
    /// # Errors
    /// A budget does not even allow an empty reservation.
    pub fn new(config: &ShardConfig) -> Option<Shard> {
        Some(Shard {
            streams: Vec::new(),
            by_id: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)),
            active: ActiveStreams::new(config.owned.clone(), config.first_order()),
            index: LabelIndex::default(),
            changes: config.changes.clone(),
            wal: WalWriter::new(config.wal, config.first_wal),
            sealing: Sealing::new(config.seal),
            ownership: Ownership::new(config.is_member.then(|| config.owned.clone())),
            maintenance: Maintenance::new(
                config.maintenance.clone(),
                config.core,
                config.owned.clone(),
            ),
            drafts: Drafts::new(&config.maintenance.compaction),
            deferred: append::Deferred::default(),
            tails: Tails::new(config.tails.clone()),
            deletions: Deletions::new(&config.deletions),
            segments: Vec::new(),
            missing: Vec::new(),
            head_memory: HeadMemory {
                reserved: config.heads.try_reserve(0)?,
                pool: BlockPool::default(),
                in_log_bytes: 0,
            },
            stream_memory: StreamMemory {
                reserved: config.streams.try_reserve(0)?,
                share_bytes: config.streams.max_bytes() / u64::from(config.cores()),
                uncounted_bytes: 0,
                refused: 0,
                tenants: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)),
                created: TenantCounts::default(),
                removed: TenantCounts::default(),
            },
            stop: Stop::default(),
            counters: Counters::default(),
            recovery: RecoverySummary::default(),
        })
    }

    /// Takes an event and appends its effects to `effects`.
    pub fn step(&mut self, event: Event, context: StepContext, effects: &mut Vec<Effect>) {
        match event {
            Event::Request(incoming) => self.request(incoming, context, effects),
            Event::WalOpened(result) => {
                let failed = self.wal.opened(result.is_ok(), context.now);
                let cause = result.err().unwrap_or_else(|| "opening failed".into());
                self.refuse(failed, &cause, effects);
            }
            Event::WalCommitted { result, frame, latency } => {
                let commit = self.wal.committed(result.is_ok(), frame, context.now);
                match result {
                    Ok(()) => {
                        self.counters.commit_latency.record(latency);
                        self.apply(commit.batches, &commit.frame, effects);
                        self.sealing.note_time(context.now);
                        if !self.deferred.is_empty() {
                            self.append_deferred(context, effects);
                        }
                    }
                    Err(cause) => {
                        if self.stop.begun {
                            self.stop.error = Some(cause.clone());
                        }
                        self.refuse(commit.batches, &cause, effects);
                    }
                }
                self.wal.recycle(commit.frame);
            }
            Event::Sealed(result) => {
                self.sealed(result, context, effects);
                self.append_deferred(context, effects);
            }
            Event::Maintained(result) => self.maintained(*result, context),
            Event::LogsGivenBack => self.logs_given_back(),
            Event::Timer => self.append_deferred(context, effects),
        }
        self.change_ownership(effects);
        self.seal_if_due(context, effects);
        let streams = &mut self.streams;
        let op = self.wal.next_op(
            context.now,
            context.random,
            context.unix_ns,
            |append, position, out| {
                define_streams(streams, &append.slots, position, out);
            },
        );
        effects.extend(op.map(Effect::Wal));
        self.maintain_if_due(context, effects);
        self.forget_ended_filters(context.now);
        self.serve_tails(context.now, effects);
        self.answer_settled(effects);
        self.finish_stop(effects);
    }

    /// When a [`Event::Timer`] is due although nothing else happens.
    pub(crate) fn next_wakeup(&self) -> Option<Monotonic> {
        let due = [
            self.wal.next_wakeup(),
            self.sealing.next_wakeup(),
            self.deferred.next_wakeup(),
            self.maintenance.next_wakeup(),
            self.deletions.next_wakeup(),
        ];
        due.into_iter().flatten().min()
    }

    /// Makes a stream known; one that is known already stays as it is.
    fn define_stream(&mut self, definition: StreamDefinition) {
        let StreamDefinition { id, tenant, labels } = definition;
        if self.by_id.contains_key(&id) {
            return;
        }
        let tenant_key = TenantKey::of(&tenant);
        self.stream_memory.add_stream(tenant_key);
        let sealed_newest_ns = self.unknown_newest_ns();
        let text_len: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        let state = StreamState {
            id,
            tenant_key,
            definition_len: (text_len + tenant.as_str().len() + 64) as u32,
            tenant,
            labels,
            head: StreamHead::default(),
            frozen: None,
            sealed_bounds_ns: None,
            sealed_newest_ns,
            sealed_order: None,
            idle_place: 0,
            in_log: 0,
            newest_admitted_ns: i64::MIN,
            checked_in: 0,
            newest_checked_ns: i64::MIN,
            defined: Defined::default(),
            indexed: false,
            tails: None,
            deletions: None,
        };
        let slot = match self.active.free.pop() {
            Some(slot) => {
                self.streams[slot as usize] = state;
                slot
            }
            None => {
                self.streams.push(state);
                (self.streams.len() - 1) as Slot
            }
        };
        self.by_id.insert(id, slot);
    }

    fn request(
        &mut self,
        incoming: Incoming<ShardRequest, ShardReply>,
        context: StepContext,
        effects: &mut Vec<Effect>,
    ) {
        let Incoming { request, reply_to, .. } = incoming;
        let reply = match request {
            ShardRequest::Append(append) => {
                self.append(append, reply_to, context, effects);
                return;
            }
            ShardRequest::Leaf(leaf) => match self.scan_job(leaf) {
                Ok(job) => {
                    effects.push(Effect::Scan(Box::new(job), reply_to));
                    return;
                }
                Err(error) => ShardReply::Leaf(Err(error)),
            },
            ShardRequest::Share(job) => {
                effects.push(Effect::Scan(job, reply_to));
                return;
            }
            ShardRequest::Stop => {
                self.stop.begun = true;
                self.stop.reply_to = Some(reply_to);
                self.append_deferred(context, effects);
                return;
            }
            ShardRequest::Flush => {
                self.flush(reply_to);
                return;
            }
            ShardRequest::TailJoin(join) => {
                self.tail_join(join, reply_to, context.now, effects);
                return;
            }
            ShardRequest::TailFollow(follow) => {
                match self.tail_follow(follow, reply_to.caller(), context.now) {
                    Ok(()) => ShardReply::Tailed(Vec::new()),
                    Err(error) => ShardReply::Leaf(Err(error)),
                }
            }
            ShardRequest::TailPoll(poll) => {
                self.tail_poll(poll, reply_to, context.now, effects);
                return;
            }
            ShardRequest::TailClose(subscription) => {
                self.tail_close(reply_to.caller(), subscription, effects);
                ShardReply::Tailed(Vec::new())
            }
            ShardRequest::LabelNames(selection) => {
                self.list(Listing::Names, selection, reply_to, effects);
                return;
            }
            ShardRequest::LabelValues(selection, name) => {
                self.list(Listing::Values(name), selection, reply_to, effects);
                return;
            }
            ShardRequest::Series(selection) => {
                self.list(Listing::Series, selection, reply_to, effects);
                return;
            }
            ShardRequest::Retain(policy) => {
                self.retain(policy);
                ShardReply::Retained
            }
            ShardRequest::Hide(filter) => {
                self.hide(&filter);
                ShardReply::Retained
            }
            ShardRequest::Unhide(id) => {
                self.unhide(id, context.now);
                ShardReply::Retained
            }
            ShardRequest::Purge(purge) => {
                self.purge(purge, reply_to, effects);
                return;
            }
            ShardRequest::Evict(names) => {
                let is_named = |segment: &&Arc<SealedSegment>| names.contains(&segment.live.name);
                let segments = self.segments.iter().filter(is_named).cloned().collect();
                effects.push(Effect::Evict(segments, reply_to));
                return;
            }
            ShardRequest::Gain(gain) => {
                self.gain(*gain, reply_to);
                return;
            }
            ShardRequest::Settle(partitions) => {
                self.settle(partitions, reply_to);
                return;
            }
            ShardRequest::Resume(partitions) => {
                self.resume(&partitions, effects);
                ShardReply::Owned
            }
            ShardRequest::Lose(partitions) => self.lose(&partitions, effects),
            // The host answers it.
            ShardRequest::Edits => ShardReply::Edits(ShardEdits::default()),
            ShardRequest::Reach => ShardReply::Reached,
            ShardRequest::Status => ShardReply::Status(Box::new(self.status())),
        };
        effects.push(Effect::Reply(reply_to, reply));
    }

    /// Makes committed batches visible and answers their pushes.
    fn apply(
        &mut self,
        batches: Vec<InFrame<PendingAppend>>,
        frame: &[u8],
        effects: &mut Vec<Effect>,
    ) {
        self.ownership.note_ended(batches.len());
        for InFrame { waiting, range } in batches {
            self.head_memory.in_log_bytes -= waiting.reserved_bytes;
            let mut kept_bytes = 0;
            // The batch was checked when it was let in.
            let sections = checked_sections(&frame[range]).flatten();
            for (section, &slot) in sections.zip(&waiting.slots) {
                self.streams[slot as usize].in_log -= 1;
                let kept = self.append_section(slot, &section);
                kept_bytes += kept;
                // Otherwise it was pushed again, and all of it is known.
                if kept > 0 && !waiting.is_replayed {
                    self.tail_section(slot, &section);
                }
            }
            self.adjust_reservation(waiting.reserved_bytes, kept_bytes);
            let reply = ShardReply::Append(Ok(waiting.outcome));
            effects.push(Effect::Reply(waiting.reply_to, reply));
        }
    }

    /// Appends a section to its stream's head; returns the bytes that it keeps.
    fn append_section(&mut self, slot: Slot, section: &Section<'_>) -> u64 {
        let stream = &mut self.streams[slot as usize];
        let was_empty = stream.head.is_empty();
        let appended = stream.head.append(section, &mut self.head_memory.pool);
        self.counters.entries += appended.entries;
        self.counters.line_bytes += appended.line_bytes;
        self.counters.duplicates += appended.duplicates;
        if appended.entries > 0 {
            let bounds_ns = (section.min_ns, section.max_ns);
            self.changes.changed(stream.tenant_key, section.min_ns, section.max_ns);
            self.maintenance.entries_added(&stream.tenant, &stream.labels, bounds_ns);
        }
        let cost = append::section_cost(section);
        let mut kept_bytes = cost * appended.entries / (section.entry_count() as u64);
        if was_empty && appended.entries > 0 {
            kept_bytes += append::HEAD_OVERHEAD_BYTES;
        }
        self.sealing.note_entries(slot, was_empty, kept_bytes);
        self.show(slot);
        kept_bytes
    }

    /// Shows a stream in the index.
    fn show(&mut self, slot: Slot) {
        let stream = &mut self.streams[slot as usize];
        if !stream.indexed {
            stream.indexed = true;
            stream.tails = self.tails.matching(&stream.tenant, &stream.labels);
            stream.deletions = self.deletions.matching(&stream.tenant, &stream.labels);
            self.index.insert(&stream.tenant, slot, &stream.labels);
        }
    }

    /// Answers pushes whose commit failed.
    fn refuse(
        &mut self,
        batches: Vec<InFrame<PendingAppend>>,
        cause: &Arc<str>,
        effects: &mut Vec<Effect>,
    ) {
        self.ownership.note_ended(batches.len());
        for InFrame { waiting, .. } in batches {
            self.head_memory.in_log_bytes -= waiting.reserved_bytes;
            self.head_memory.release(waiting.reserved_bytes);
            for &slot in &waiting.slots {
                self.streams[slot as usize].in_log -= 1;
            }
            let reply = ShardReply::Append(Err(AppendError::Disk(cause.clone())));
            effects.push(Effect::Reply(waiting.reply_to, reply));
        }
    }

    /// Turns the reservation of a push into the memory that its entries take.
    fn adjust_reservation(&mut self, reserved_bytes: u64, kept_bytes: u64) {
        match kept_bytes.checked_sub(reserved_bytes) {
            None => self.head_memory.release(reserved_bytes - kept_bytes),
            // The heads of its streams were frozen meanwhile, so they need blocks of their own.
            // Bytes that find no room are not counted on release, either.
            Some(more_bytes) if !self.head_memory.reserved.try_grow(more_bytes) => {
                self.sealing.uncount(more_bytes);
            }
            Some(_) => {}
        }
    }

    /// Answers a stop once nothing is under way and everything is synced.
    fn finish_stop(&mut self, effects: &mut Vec<Effect>) {
        if self.stop.reply_to.is_none() || !self.wal.is_idle() || !self.sealing_allows_stop() {
            return;
        }
        if self.maintenance.is_running() {
            // It gives up after the next block.
            return;
        }
        if let Some(op) = self.wal.sync_now() {
            effects.push(Effect::Wal(op));
            return;
        }
        if let Some(reply_to) = self.stop.reply_to.take() {
            let result = self.stop.error.take().map_or(Ok(()), Err);
            effects.push(Effect::Reply(reply_to, ShardReply::Stopped(result)));
        }
    }
}

#[cfg(test)]
mod tests;

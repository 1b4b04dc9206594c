//! Subscriptions to new entries, see [`crate::tail`].
//!
//! Guarantees: a stream without subscriptions pays one branch per section of a push. An entry is
//! copied once however many subscriptions match it. A slow or silent subscriber never delays a
//! push. Each queue is bounded by its subscription, and all together by the budget for tails. A
//! subscription whose core has not asked for [`SILENT_MAX_TIME`] is closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::mesh::ReplyTo;
use logsvc_runtime::{Budget, CoreId, Monotonic};

use super::{Effect, Shard, StreamState};
use crate::deletion::{DeleteFilter, DeleteFilters, StreamDeletions};
use crate::index::{LabelIndex, Slot};
use crate::messages::ShardReply;
use crate::scan::ScanError;
use crate::scope::TenantScope;
use crate::tail::{
    DROPPED_LISTED_MAX, TailBatch, TailBlock, TailDropped, TailFollow, TailJoin, TailPart,
    TailPoll, TailStatus, copy_bytes, copy_of,
};
use logsvc_segment::batch::{Section, SectionEntry};

/// Copies are made in pieces of about this many bytes of lines, and of at most this
/// many entries.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_ENTRIES: usize = 1024;

/// A core that has not asked for so long has forgotten its subscriptions.
const SILENT_MAX_TIME: Duration = Duration::from_secs(60);

/// Number of a subscription within its shard.
pub(super) type SubscriptionIndex = u32;

/// The subscriptions that match a stream.
pub(super) type StreamSubscriptions = Option<Box<Vec<SubscriptionIndex>>>;

/// All subscriptions of a shard.
#[derive(Debug)]
pub(super) struct Tails {
    memory: Budget,
    /// A closed subscription leaves its index to the next one.
    subscriptions: Vec<Option<Subscription>>,
    by_id: BTreeMap<(CoreId, u64), SubscriptionIndex>,
    cores: BTreeMap<CoreId, Asking>,
    tailed_streams: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Subscription {
    core: CoreId,
    id: u64,
    tenants: TenantScope,
    matchers: Vec<CompiledMatcher>,
    epoch: u64,
    queue_max_bytes: usize,
    parts: Vec<TailPart>,
    queued_bytes: usize,
    dropped: Vec<TailDropped>,
    dropped_count: u64,
}

/// A core that has subscriptions.
#[derive(Debug)]
struct Asking {
    /// Where the next answer goes.
    waiting: Option<ReplyTo<ShardReply>>,
    /// Subscriptions with something to tell.
    ready: Vec<SubscriptionIndex>,
    heard: Monotonic,
}

impl Subscription {
    fn matches(&self, tenant: &TenantId, labels: &Labels) -> bool {
        self.tenants.accepts(tenant, labels, &self.matchers)
    }

    fn has_room(&self) -> bool {
        self.queued_bytes < self.queue_max_bytes
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.dropped_count == 0
    }

    fn queue(&mut self, block: &Arc<TailBlock>) {
        self.queued_bytes += block.held_bytes();
        self.parts.push(TailPart { epoch: self.epoch, block: Arc::clone(block) });
    }

    fn drop_entries<'a>(
        &mut self,
        labels: &Arc<Labels>,
        entries: impl Iterator<Item = SectionEntry<'a>>,
        count: usize,
    ) {
        self.dropped_count += count as u64;
        let listed = DROPPED_LISTED_MAX.saturating_sub(self.dropped.len()).min(count);
        self.dropped.extend(entries.take(listed).map(|entry| TailDropped {
            epoch: self.epoch,
            labels: Arc::clone(labels),
            timestamp_ns: entry.timestamp_ns,
        }));
    }

    fn take(&mut self) -> TailBatch {
        self.queued_bytes = 0;
        TailBatch {
            subscription: self.id,
            parts: std::mem::take(&mut self.parts),
            dropped: std::mem::take(&mut self.dropped),
            dropped_count: std::mem::take(&mut self.dropped_count),
        }
    }
}

impl Tails {
    /// Without subscriptions; their copies of entries are taken from `memory`.
    pub(super) fn new(memory: Budget) -> Tails {
        Tails {
            memory,
            subscriptions: Vec::new(),
            by_id: BTreeMap::new(),
            cores: BTreeMap::new(),
            tailed_streams: 0,
            dropped: 0,
        }
    }

    pub(super) fn status(&self) -> TailStatus {
        TailStatus {
            subscriptions: self.by_id.len() as u64,
            streams: self.tailed_streams,
            dropped: self.dropped,
        }
    }

    /// The subscriptions that match a new stream.
    pub(super) fn matching(&mut self, tenant: &TenantId, labels: &Labels) -> StreamSubscriptions {
        if self.by_id.is_empty() {
            return None;
        }
        let matches = |&index: &SubscriptionIndex| {
            let subscription = self.subscriptions[index as usize].as_ref();
            subscription.is_some_and(|open| open.matches(tenant, labels))
        };
        let indices: Vec<SubscriptionIndex> =
            self.by_id.values().copied().filter(matches).collect();
        self.tailed_streams += u64::from(!indices.is_empty());
        (!indices.is_empty()).then(|| Box::new(indices))
    }

    /// Queues the entries of a section that has become visible.
    pub(super) fn offer(
        &mut self,
        indices: &[SubscriptionIndex],
        labels: &Arc<Labels>,
        deletions: Option<&DeleteFilters>,
        section: &Section<'_>,
    ) {
        let hiding = deletions.and_then(|filters| open_within(filters, labels, section));
        let mut entries = section.entries();
        let mut left = section.entry_count();
        while left > 0 {
            let wanted = indices.iter().any(|&index| {
                self.subscriptions[index as usize].as_ref().is_some_and(Subscription::has_room)
            });
            let before = entries.clone();
            let copied =
                if wanted { self.copy_piece(&mut entries, labels, hiding.as_ref()) } else { None };
            // Without a copy, the rest of the section shares the fate of its first piece.
            let count = copied.as_ref().map_or(left, |block| block.entry_count());
            left -= count;
            for &index in indices {
                let Some(subscription) = &mut self.subscriptions[index as usize] else { continue };
                if subscription.is_empty()
                    && let Some(core) = self.cores.get_mut(&subscription.core)
                {
                    core.ready.push(index);
                }
                match &copied {
                    Some(block) if subscription.has_room() => subscription.queue(block),
                    _ => {
                        subscription.drop_entries(labels, before.clone(), count);
                        self.dropped += count as u64;
                    }
                }
            }
        }
    }

    /// Copies the next entries; `None` if there is no memory for them.
    fn copy_piece<'a>(
        &self,
        entries: &mut (impl Iterator<Item = SectionEntry<'a>> + Clone),
        labels: &Arc<Labels>,
        hiding: Option<&Arc<StreamDeletions>>,
    ) -> Option<Arc<TailBlock>> {
        let (mut count, mut lines_len, mut piece_bytes) = (0, 0, 0);
        for entry in entries.clone() {
            count += 1;
            lines_len += entry.line.len();
            piece_bytes += copy_bytes(&entry);
            if lines_len >= PIECE_BYTES || count == PIECE_ENTRIES {
                break;
            }
        }
        let memory = self.memory.try_reserve(piece_bytes as u64)?;
        let copy = copy_of(entries.by_ref().take(count), count, lines_len);
        Some(Arc::new(TailBlock::new(Arc::clone(labels), copy, hiding.cloned(), memory)))
    }

    /// Answers cores that wait for new entries.
    pub(super) fn answer(&mut self, now: Monotonic, effects: &mut Vec<Effect>) {
        let subscriptions = &mut self.subscriptions;
        for asking in self.cores.values_mut() {
            if asking.ready.is_empty() {
                continue;
            }
            let Some(reply_to) = asking.waiting.take() else { continue };
            asking.heard = now;
            let mut batches = Vec::with_capacity(asking.ready.len());
            for index in asking.ready.drain(..) {
                let open = subscriptions.get_mut(index as usize).and_then(Option::as_mut);
                batches.extend(open.map(Subscription::take));
            }
            effects.push(Effect::Reply(reply_to, ShardReply::Tailed(batches)));
        }
    }

    fn open(
        &mut self,
        core: CoreId,
        follow: TailFollow,
        matchers: Vec<CompiledMatcher>,
    ) -> SubscriptionIndex {
        let TailFollow { subscription: id, epoch, queue_max_bytes, tenants, .. } = follow;
        let subscription = Subscription {
            core,
            id,
            tenants,
            matchers,
            epoch,
            queue_max_bytes,
            parts: Vec::new(),
            queued_bytes: 0,
            dropped: Vec::new(),
            dropped_count: 0,
        };
        let free = self.subscriptions.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.subscriptions.push(None);
            self.subscriptions.len() - 1
        });
        self.subscriptions[index] = Some(subscription);
        self.by_id.insert((core, id), index as SubscriptionIndex);
        index as SubscriptionIndex
    }

    /// Tells all cores that there will be nothing more.
    fn close_all(&mut self) {
        self.subscriptions.clear();
        self.by_id.clear();
        self.cores.clear();
    }

    /// Subscriptions of cores that have not asked for long.
    fn forgotten(&self, now: Monotonic) -> Vec<(CoreId, u64)> {
        let is_silent = |core: &CoreId| {
            self.cores.get(core).is_none_or(|asking| {
                asking.waiting.is_none() && now.since(asking.heard) > SILENT_MAX_TIME
            })
        };
        self.by_id.keys().filter(|(core, _)| is_silent(core)).copied().collect()
    }
}

/// The filters that may hide entries of a new section. A filter hides new entries from the moment
/// at which the shard knows it until it has an end.
fn open_within(
    filters: &DeleteFilters,
    labels: &Arc<Labels>,
    section: &Section<'_>,
) -> Option<Arc<StreamDeletions>> {
    let hides = |filter: &&Arc<DeleteFilter>| {
        !filter.is_ended() && filter.overlaps(section.min_ns, section.max_ns)
    };
    let filters: Vec<_> = filters.iter().filter(hides).cloned().collect();
    let labels = Arc::clone(labels);
    (!filters.is_empty()).then(|| Arc::new(StreamDeletions { labels, filters: filters.into() }))
}

impl Tails {
    /// Notes that a stream with subscriptions is not in memory any more.
    pub(super) fn stream_forgotten(&mut self) {
        self.tailed_streams -= 1;
    }
}

/// Slots of the streams that a subscription matches.
fn matched(index: &LabelIndex, streams: &[StreamState], subscription: &Subscription) -> Vec<Slot> {
    subscription.tenants.select(index, &subscription.matchers, |slot| {
        let stream = &streams[slot as usize];
        (&stream.tenant, &stream.labels)
    })
}

impl Shard {
    /// Queues a section for the tails of its stream, if it has any.
    #[inline]
    pub(super) fn tail_section(&mut self, slot: Slot, section: &Section<'_>) {
        let stream = &self.streams[slot as usize];
        if let Some(indices) = &stream.tails {
            self.tails.offer(indices, &stream.labels, stream.deletions.as_ref(), section);
        }
    }

    pub(super) fn tail_join(
        &mut self,
        join: TailJoin,
        reply_to: ReplyTo<ShardReply>,
        now: Monotonic,
        effects: &mut Vec<Effect>,
    ) {
        let core = reply_to.caller();
        let TailJoin { subscription, epoch, queue_max_bytes, history } = join;
        let (tenants, plan) = (history.tenants.clone(), Arc::clone(&history.plan));
        let follow = TailFollow { subscription, epoch, queue_max_bytes, tenants, plan };
        // Entries of the snapshot come before the join, later entries behind it.
        let job = self.scan_job(history).and_then(|job| {
            self.tail_follow(follow, core, now)?;
            Ok(job)
        });
        effects.push(match job {
            Ok(job) => Effect::Scan(Box::new(job), reply_to),
            Err(error) => Effect::Reply(reply_to, ShardReply::Leaf(Err(error))),
        });
    }

    /// Opens a subscription, or begins another epoch of it.
    ///
    /// # Errors
    /// A pattern is bad.
    pub(super) fn tail_follow(
        &mut self,
        follow: TailFollow,
        core: CoreId,
        now: Monotonic,
    ) -> Result<(), ScanError> {
        let matchers = follow.plan.compiled_matchers();
        let matchers = matchers.map_err(|error| ScanError::Plan(error.to_string()))?;
        if self.stop.begun {
            return Ok(());
        }
        let tails = &mut self.tails;
        let asking = tails.cores.entry(core).or_insert_with(|| Asking {
            waiting: None,
            ready: Vec::new(),
            heard: now,
        });
        asking.heard = now;
        if let Some(&index) = tails.by_id.get(&(core, follow.subscription)) {
            if let Some(subscription) = &mut tails.subscriptions[index as usize] {
                subscription.epoch = follow.epoch;
            }
            return Ok(());
        }
        let index = tails.open(core, follow, matchers);
        let Some(subscription) = &tails.subscriptions[index as usize] else { return Ok(()) };
        for slot in matched(&self.index, &self.streams, subscription) {
            let indices = &mut self.streams[slot as usize].tails;
            tails.tailed_streams += u64::from(indices.is_none());
            indices.get_or_insert_default().push(index);
        }
        Ok(())
    }

    pub(super) fn tail_poll(
        &mut self,
        poll: TailPoll,
        reply_to: ReplyTo<ShardReply>,
        now: Monotonic,
        effects: &mut Vec<Effect>,
    ) {
        let core = reply_to.caller();
        for (id, queue_max_bytes) in poll.queue_max_bytes {
            if let Some(&index) = self.tails.by_id.get(&(core, id))
                && let Some(subscription) = &mut self.tails.subscriptions[index as usize]
            {
                subscription.queue_max_bytes = queue_max_bytes;
            }
        }
        let nothing = ShardReply::Tailed(Vec::new());
        match self.tails.cores.get_mut(&core) {
            Some(asking) => {
                asking.heard = now;
                if let Some(former) = asking.waiting.replace(reply_to) {
                    effects.push(Effect::Reply(former, nothing));
                }
            }
            None => effects.push(Effect::Reply(reply_to, nothing)),
        }
    }

    /// Closes a subscription. A core that has none left gets its answer.
    pub(super) fn tail_close(&mut self, core: CoreId, id: u64, effects: &mut Vec<Effect>) {
        let tails = &mut self.tails;
        let Some(index) = tails.by_id.remove(&(core, id)) else { return };
        if let Some(subscription) = tails.subscriptions[index as usize].take() {
            for slot in matched(&self.index, &self.streams, &subscription) {
                let indices = &mut self.streams[slot as usize].tails;
                if let Some(open) = indices {
                    open.retain(|&other| other != index);
                    if open.is_empty() {
                        *indices = None;
                        tails.tailed_streams -= 1;
                    }
                }
            }
        }
        let has_others = tails.by_id.range((core, 0)..=(core, u64::MAX)).next().is_some();
        if let Some(asking) = tails.cores.get_mut(&core) {
            asking.ready.retain(|&other| other != index);
            if !has_others {
                let waiting = asking.waiting.take();
                tails.cores.remove(&core);
                let nothing = ShardReply::Tailed(Vec::new());
                effects.extend(waiting.map(|reply_to| Effect::Reply(reply_to, nothing)));
            }
        }
    }

    /// The end of a step: hands out new entries, and closes the subscriptions of silent cores.
    #[inline]
    pub(super) fn serve_tails(&mut self, now: Monotonic, effects: &mut Vec<Effect>) {
        if self.tails.by_id.is_empty() {
            return;
        }
        if self.stop.begun {
            for stream in &mut self.streams {
                stream.tails = None;
            }
            self.tails.tailed_streams = 0;
            self.tails.close_all();
            return;
        }
        self.tails.answer(now, effects);
        for (core, id) in self.tails.forgotten(now) {
            tracing::warn!(%core, subscription = id, "closed a tail that nobody asked for");
            self.tail_close(core, id, effects);
        }
    }
}

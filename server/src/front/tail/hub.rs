//! State that the tails of one core share: subscriptions to the shards, groups of equal tails, and
//! the limit on sent bytes.
//!
//! One task per shard polls that shard for new entries of all groups of this core; it runs while
//! there are groups, or other nodes that follow this one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logsvc_logql::engine::LeafPlan;
use logsvc_proto::error::ApiError;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::scope::TenantScope;
use logsvc_shards::tail::{DROPPED_LISTED_MAX, TailBatch, TailDropped, TailFollow, TailPoll};

use super::counts::TailCounts;
use super::group;
use super::outbox::Outbox;
use super::{GroupKey, TailRequest};
use crate::front::core::Core;
use crate::front::query::Querier;
use crate::metrics::Metric;

/// Bytes that all tails of a core together are sent in a second, and at once after a pause. It
/// keeps many tails of a busy stream from taking the core from pushes.
pub(super) const OUTPUT_MAX_BYTES_PER_S: i64 = 16 << 20;

/// A shard that had something is asked again after this.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// When a lane is full.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Memory of entries that wait for a group, in bytes; further entries are missed.
const WAITING_MAX_BYTES: usize = 16 << 20;

/// The epoch of the entries of a group that nobody joins later.
pub(super) const EPOCH: u64 = 1;

/// See the module.
pub(super) struct Hub<R: Runtime> {
    pub(super) core: Rc<Core<R>>,
    pub(super) querier: Rc<Querier<R>>,
    pub(super) counts: Arc<TailCounts>,
    groups: RefCell<BTreeMap<GroupKey, (u64, Rc<Inbox>)>>,
    inboxes: RefCell<BTreeMap<u64, Rc<Inbox>>>,
    last_id: Cell<u64>,
    /// Open tails.
    tails: Cell<usize>,
    /// Bytes that may be sent now, as of a moment.
    output: Cell<(i64, Monotonic)>,
    shards: RefCell<Vec<ShardLink>>,
}

#[derive(Default)]
struct ShardLink {
    is_asked: bool,
    /// New bounds of the queues of subscriptions, for the next question.
    queue_max_bytes: BTreeMap<u64, usize>,
}

/// A client that joins a group.
pub(super) struct Join {
    pub(super) start_ns: Option<i64>,
    pub(super) limit: u32,
    pub(super) outbox: Rc<Outbox>,
}

/// The inbox of a group's task, or of another node's. Batches that have no room are counted as
/// dropped.
#[derive(Default)]
pub(super) struct Inbox {
    inner: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    joins: Vec<Join>,
    batches: Vec<TailBatch>,
    batches_bytes: usize,
    /// Something had no room since batches were taken.
    has_dropped: bool,
    changed: bool,
    waker: Option<Waker>,
}

impl Inbox {
    fn change(&self, change: impl FnOnce(&mut Waiting)) {
        let waker = {
            let inner = &mut *self.inner.borrow_mut();
            change(inner);
            inner.changed = true;
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Says that a client has left, or that something else has changed.
    pub(super) fn notice(&self) {
        self.change(|_| {});
    }

    /// Adds a batch.
    pub(super) fn push(&self, mut batch: TailBatch) {
        self.change(|waiting| {
            let bytes: usize = batch.parts.iter().map(|part| part.block.held_bytes()).sum();
            let has_room = waiting.batches_bytes + bytes <= WAITING_MAX_BYTES;
            if has_room || waiting.batches_bytes == 0 {
                waiting.batches_bytes += bytes;
            } else {
                drop_parts(&mut batch);
                waiting.has_dropped = true;
                if let Some(last) = waiting.batches.last_mut().filter(|last| last.parts.is_empty())
                {
                    last.dropped_count += batch.dropped_count;
                    let room = DROPPED_LISTED_MAX.saturating_sub(last.dropped.len());
                    last.dropped.extend(batch.dropped.into_iter().take(room));
                    return;
                }
            }
            waiting.batches.push(batch);
        });
    }

    pub(super) fn take_joins(&self) -> Vec<Join> {
        std::mem::take(&mut self.inner.borrow_mut().joins)
    }

    pub(super) fn has_joins(&self) -> bool {
        !self.inner.borrow().joins.is_empty()
    }

    pub(super) fn has_batches(&self) -> bool {
        !self.inner.borrow().batches.is_empty()
    }

    /// The batches, and whether some had no room.
    pub(super) fn take_batches(&self) -> (Vec<TailBatch>, bool) {
        let inner = &mut *self.inner.borrow_mut();
        inner.batches_bytes = 0;
        (std::mem::take(&mut inner.batches), std::mem::take(&mut inner.has_dropped))
    }

    /// Ready when something has changed since it was ready before.
    pub(super) fn poll_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        if std::mem::take(&mut inner.changed) {
            return Poll::Ready(());
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl<R: Runtime> Hub<R> {
    /// Without tails.
    pub(super) fn new(querier: Rc<Querier<R>>, counts: Arc<TailCounts>) -> Hub<R> {
        let core = Rc::clone(&querier.core);
        let shards = usize::from(core.runtime.core_count());
        Hub {
            output: Cell::new((OUTPUT_MAX_BYTES_PER_S, core.runtime.now())),
            core,
            querier,
            counts,
            groups: RefCell::default(),
            inboxes: RefCell::default(),
            last_id: Cell::new(0),
            tails: Cell::new(0),
            shards: RefCell::new((0..shards).map(|_| ShardLink::default()).collect()),
        }
    }

    /// Counts tails that begin, or end.
    pub(super) fn count_tails(&self, change: isize) {
        let tails = self.tails.get().saturating_add_signed(change);
        self.tails.set(tails);
        self.core.counters().numbers.set(Metric::Tails, tails as u64);
    }

    /// Adds a client to the group of its tail. The inbox is to be noticed when the
    /// client leaves.
    pub(super) fn join(self: &Rc<Self>, request: &TailRequest, outbox: &Rc<Outbox>) -> Rc<Inbox> {
        let join =
            Join { start_ns: request.start_ns, limit: request.limit, outbox: Rc::clone(outbox) };
        let known = self.groups.borrow().get(&request.key).map(|(_, inbox)| Rc::clone(inbox));
        let inbox = known.unwrap_or_else(|| self.start_group(request));
        inbox.change(|waiting| waiting.joins.push(join));
        inbox
    }

    fn start_group(self: &Rc<Self>, request: &TailRequest) -> Rc<Inbox> {
        let inbox = Rc::new(Inbox::default());
        let id = self.open(&inbox);
        self.groups.borrow_mut().insert(request.key.clone(), (id, Rc::clone(&inbox)));
        let (hub, key, log) = (Rc::clone(self), request.key.clone(), Arc::clone(&request.log));
        drop(self.core.runtime.spawn(group::run(hub, key, log, id, Rc::clone(&inbox))));
        inbox
    }

    /// Begins to fill an inbox with what the subscriptions of the returned number get.
    pub(super) fn open(self: &Rc<Self>, inbox: &Rc<Inbox>) -> u64 {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.inboxes.borrow_mut().insert(id, Rc::clone(inbox));
        for shard in (0..self.core.runtime.core_count()).map(CoreId) {
            let was_asked =
                std::mem::replace(&mut self.shards.borrow_mut()[shard.index()].is_asked, true);
            if !was_asked {
                drop(self.core.runtime.spawn(ask_shard(Rc::clone(self), shard)));
            }
        }
        id
    }

    /// Subscribes to the streams of a leaf in all shards, without what came before.
    ///
    /// # Errors
    /// The node is too busy. Some shards may have been subscribed to.
    pub(super) fn follow(
        &self,
        id: u64,
        queue_max_bytes: usize,
        tenants: &TenantScope,
        plan: &Arc<LeafPlan>,
    ) -> Result<Vec<PendingReply<ShardReply>>, ApiError> {
        self.core.ask_all(|| {
            ShardRequest::TailFollow(TailFollow {
                subscription: id,
                epoch: EPOCH,
                queue_max_bytes,
                tenants: tenants.clone(),
                plan: Arc::clone(plan),
            })
        })
    }

    /// Forgets a group, whose task ends, and closes its subscriptions.
    pub(super) fn end_group(self: &Rc<Self>, key: &GroupKey, id: u64) {
        let mut groups = self.groups.borrow_mut();
        if groups.get(key).is_some_and(|(known, _)| *known == id) {
            groups.remove(key);
        }
        drop(groups);
        self.close(id);
    }

    /// Closes subscriptions, and forgets their inbox.
    pub(super) fn close(self: &Rc<Self>, id: u64) {
        self.inboxes.borrow_mut().remove(&id);
        for shard in (0..self.core.runtime.core_count()).map(CoreId) {
            self.shards.borrow_mut()[shard.index()].queue_max_bytes.remove(&id);
            if self.core.lanes.call(shard, ShardRequest::TailClose(id)).is_err() {
                let hub = Rc::clone(self);
                drop(self.core.runtime.spawn(async move {
                    while hub.core.lanes.call(shard, ShardRequest::TailClose(id)).is_err() {
                        hub.core
                            .runtime
                            .sleep_until(hub.core.runtime.now().after(RETRY_AFTER))
                            .await;
                    }
                }));
            }
        }
    }

    /// Changes how much may wait for a group in each shard.
    pub(super) fn bound_queue(&self, id: u64, queue_max_bytes: usize) {
        for link in self.shards.borrow_mut().iter_mut() {
            link.queue_max_bytes.insert(id, queue_max_bytes);
        }
    }

    /// Bytes that each tail of this core may be sent now; none are left if not positive.
    pub(super) fn output_share(&self) -> i64 {
        let ((left, then), now) = (self.output.get(), self.core.runtime.now());
        let passed_ns = i64::try_from(now.since(then).as_nanos()).unwrap_or(i64::MAX);
        let gained = passed_ns.min(1_000_000_000) * (OUTPUT_MAX_BYTES_PER_S / 1_000_000);
        let left = left.saturating_add(gained / 1000).min(OUTPUT_MAX_BYTES_PER_S);
        self.output.set((left, now));
        left / self.tails.get().max(1) as i64
    }

    /// Counts bytes that are sent.
    pub(super) fn charge_output(&self, bytes: usize) {
        let (left, then) = self.output.get();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        // A debt of more than a second is forgiven.
        let left = left.saturating_sub(bytes).max(-OUTPUT_MAX_BYTES_PER_S);
        self.output.set((left, then));
    }

    fn deliver(&self, batches: Vec<TailBatch>) {
        let inboxes = self.inboxes.borrow();
        for batch in batches {
            // Groups may have ended meanwhile.
            if let Some(inbox) = inboxes.get(&batch.subscription) {
                inbox.push(batch);
            }
        }
    }
}

/// Counts the entries of a batch as dropped.
fn drop_parts(batch: &mut TailBatch) {
    for part in std::mem::take(&mut batch.parts) {
        let (labels, times_ns) = (part.block.labels(), part.block.timestamps_ns());
        batch.dropped_count += times_ns.len() as u64;
        let room = DROPPED_LISTED_MAX.saturating_sub(batch.dropped.len());
        batch.dropped.extend(times_ns.iter().take(room).map(|&timestamp_ns| TailDropped {
            epoch: part.epoch,
            labels: Arc::clone(labels),
            timestamp_ns,
        }));
    }
}

/// Polls a shard for new entries, for as long as there are groups.
async fn ask_shard<R: Runtime>(hub: Rc<Hub<R>>, shard: CoreId) {
    loop {
        let poll = {
            let link = &mut hub.shards.borrow_mut()[shard.index()];
            if hub.inboxes.borrow().is_empty() {
                link.is_asked = false;
                return;
            }
            let bounds = std::mem::take(&mut link.queue_max_bytes);
            TailPoll { queue_max_bytes: bounds.into_iter().collect() }
        };
        let pause = match hub.core.lanes.call(shard, ShardRequest::TailPoll(poll)) {
            Ok(reply) => match reply.await {
                Ok(ShardReply::Tailed(batches)) => {
                    hub.deliver(batches);
                    ASK_EVERY
                }
                Ok(_) | Err(_) => {
                    // The shard has stopped.
                    hub.shards.borrow_mut()[shard.index()].is_asked = false;
                    return;
                }
            },
            Err(refused) => {
                if let ShardRequest::TailPoll(poll) = refused.request {
                    let link = &mut hub.shards.borrow_mut()[shard.index()];
                    for (id, bound) in poll.queue_max_bytes {
                        link.queue_max_bytes.entry(id).or_insert(bound);
                    }
                }
                RETRY_AFTER
            }
        };
        hub.core.runtime.sleep_until(hub.core.runtime.now().after(pause)).await;
    }
}

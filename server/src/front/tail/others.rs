//! The links of a tail to the other nodes, if this node is one of many.
//!
//! There is a link to each other member of the newest map, whether it owns something or not: what it
//! takes from the moment at which it owns something comes by it. A link that ends is opened again.
//!
//! Guarantees: from when [`Others::is_whole`] says yes for the first time, and as long as links neither
//! begin nor end, every entry that an owner takes reaches the inbox, or is counted as dropped. Whenever
//! one begins or ends, [`Others::is_behind`] says so until the tail has asked for what it may have missed
//! ([`Others::begin_catching_up`]). When this is dropped, the links end.
//!
//! What can go wrong: a node that says nothing for [`SILENCE_MAX`] counts as gone. A node of an earlier
//! version cannot be followed, and the tail ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::StatusCode;
use logsvc_cluster::map::{Epoch, MemberInfo};
use logsvc_peers::client::Unanswered;
use logsvc_peers::frame::Addressee;
use logsvc_peers::question::{Asked, Question};
use logsvc_peers::tail::{TailEnd, TailWord};
use logsvc_runtime::{Latch, Monotonic, Runtime};
use logsvc_shards::messages::ShardReply;
use logsvc_shards::tail::{TailBatch, TailDropped, TailPart};

use super::hub::{EPOCH, Hub, Inbox};

/// A node that says nothing for so long is taken for gone. There is a word each second.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// The pause before a link that has ended is opened again, and before what was missed is asked for
/// again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Entries whose times are by so much older than the time at which they come are found if they were
/// missed.
const SLACK_NS: i64 = 10_000_000_000;

/// Entries are remembered for so long although nothing is missed: a client may send one again whose
/// node has died.
const REMEMBER_NS: i64 = 60_000_000_000;

/// Ends tasks when it is dropped.
#[derive(Default)]
struct Ending(Latch);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

/// What the tasks of links tell.
#[derive(Default)]
struct Told {
    /// How often links have begun or ended.
    changes: Cell<u64>,
    /// Whether the shards of this node are followed.
    is_joined: Cell<bool>,
    /// Why the tail cannot go on.
    refusal: RefCell<Option<String>>,
}

/// A link as its task knows it.
#[derive(Default)]
struct LinkState {
    is_open: Cell<bool>,
    /// When the last word came, in ns since the Unix epoch.
    heard_ns: Cell<i64>,
    /// The newest map that the other node knew then.
    number: Cell<u64>,
}

struct Link {
    state: Rc<LinkState>,
    _ending: Ending,
}

/// See the module.
pub(super) struct Others<R: Runtime> {
    hub: Rc<Hub<R>>,
    inbox: Rc<Inbox>,
    question: Arc<Question>,
    links: BTreeMap<Epoch, Link>,
    told: Rc<Told>,
    /// Triggered when all owners are followed for the first time.
    ready: Latch,
    /// [`Told::changes`] as of the last time at which nothing was missed.
    caught_up: u64,
    /// [`Told::changes`] as of when the tail began to ask for what it had missed.
    catching_up: Option<u64>,
    retry_at: Monotonic,
    /// Entries that came to their owners before this time are known, in ns since the Unix epoch.
    heard_ns: i64,
    _ending: Ending,
}

impl<R: Runtime> Others<R> {
    /// Begins to follow the shards of this node and the other nodes. `question` has the one leaf of
    /// the tail, and `id` is the subscription of its inbox.
    ///
    /// # Errors
    /// This node is too busy.
    pub(super) fn follow(
        hub: &Rc<Hub<R>>,
        id: u64,
        inbox: &Rc<Inbox>,
        question: Question,
        queue_max_bytes: usize,
    ) -> Result<Others<R>, String> {
        let none = || "only log selector is supported".to_owned();
        let Asked::Leaves(leaves) = &question.asked else { return Err(none()) };
        let leaf = leaves.first().ok_or_else(none)?;
        let replies = hub.follow(id, queue_max_bytes, &question.tenants, leaf);
        let replies = replies.map_err(|error| error.message)?;
        let others = Others {
            hub: Rc::clone(hub),
            inbox: Rc::clone(inbox),
            question: Arc::new(question),
            links: BTreeMap::new(),
            told: Rc::default(),
            ready: Latch::new(),
            caught_up: 0,
            catching_up: None,
            retry_at: hub.core.runtime.now(),
            heard_ns: hub.core.runtime.unix_nanos(),
            _ending: Ending::default(),
        };
        let (told, inbox) = (Rc::clone(&others.told), Rc::clone(inbox));
        others.spawn(&others._ending, async move {
            for reply in replies {
                if !matches!(reply.await, Ok(ShardReply::Tailed(_))) {
                    let text = "a shard of this node is not running".to_owned();
                    told.refusal.replace(Some(text));
                }
            }
            told.is_joined.set(true);
            inbox.notice();
        });
        let (hub, inbox) = (Rc::clone(hub), Rc::clone(&others.inbox));
        others.spawn(&others._ending, async move {
            let Some(routes) = hub.core.cluster().and_then(|cluster| cluster.routes()) else {
                return;
            };
            let mut number = 0;
            loop {
                number = routes.when(|routes| routes.number > number).await.number;
                inbox.notice();
            }
        });
        Ok(others)
    }

    /// Runs something until it, or what it belongs to, has ended.
    fn spawn(&self, ending: &Ending, work: impl Future<Output = ()> + 'static) {
        let ended = ending.0.wait();
        drop(self.hub.core.runtime.spawn(async move {
            let (ended, work) = (pin!(ended), pin!(work));
            select(ended, work).await;
        }));
    }

    /// Begins and ends links as the newest map says, and notes what was heard. To be called whenever
    /// the inbox was noticed.
    ///
    /// # Errors
    /// Why the tail cannot go on.
    pub(super) fn step(&mut self) -> Result<(), String> {
        if let Some(refusal) = self.told.refusal.take() {
            return Err(refusal);
        }
        let Some(routes) = self.hub.core.routes() else { return Ok(()) };
        let before = self.links.len();
        self.links.retain(|member, _| routes.map.members.contains_key(member));
        if self.links.len() < before {
            self.told.changes.set(self.told.changes.get() + 1);
        }
        for (&member, info) in &routes.map.members {
            if member != routes.me && !self.links.contains_key(&member) {
                let link = self.open(member, info);
                self.links.insert(member, link);
            }
        }
        if !self.ready.is_triggered() && self.is_whole() {
            self.heard_ns = self.hub.core.runtime.unix_nanos();
            self.caught_up = self.told.changes.get();
            self.ready.trigger();
        }
        let is_current = |link: &Link| link.state.number.get() <= routes.number;
        if !self.is_behind() && self.is_whole() && self.links.values().all(is_current) {
            let heard_ns = self.links.values().map(|link| link.state.heard_ns.get()).min();
            let heard_ns = heard_ns.unwrap_or_else(|| self.hub.core.runtime.unix_nanos());
            self.heard_ns = self.heard_ns.max(heard_ns);
        }
        Ok(())
    }

    fn open(&self, to: Epoch, info: &MemberInfo) -> Link {
        let (state, ending) = (Rc::new(LinkState::default()), Ending::default());
        let task = LinkTask {
            hub: Rc::clone(&self.hub),
            inbox: Rc::clone(&self.inbox),
            question: Arc::clone(&self.question),
            to,
            info: info.clone(),
            state: Rc::clone(&state),
            told: Rc::clone(&self.told),
        };
        self.spawn(&ending, task.run());
        Link { state, _ending: ending }
    }

    /// Triggered when all owners are followed for the first time.
    pub(super) fn ready(&self) -> Latch {
        self.ready.clone()
    }

    /// Whether all owners are followed. One that has ended, and that nobody has taken over yet, takes
    /// no entries.
    fn is_whole(&self) -> bool {
        let Some(routes) = self.hub.core.routes() else { return false };
        let is_followed = |owner: Epoch| {
            owner == routes.me
                || !routes.map.members.contains_key(&owner)
                || self.links.get(&owner).is_some_and(|link| link.state.is_open.get())
        };
        self.told.is_joined.get()
            && routes.map.slots.iter().filter_map(|slot| slot.owner).all(is_followed)
    }

    /// Whether entries may have been missed.
    fn is_behind(&self) -> bool {
        self.told.changes.get() != self.caught_up
    }

    /// From which time on the tail has to ask for what it may have missed, in ns since the Unix epoch;
    /// `None` if there is nothing, or it cannot ask now. Otherwise
    /// [`Others::end_catching_up`] has to follow.
    pub(super) fn begin_catching_up(&mut self) -> Option<i64> {
        let now = self.hub.core.runtime.now();
        let has_to = self.ready.is_triggered()
            && self.is_behind()
            && self.catching_up.is_none()
            && self.is_whole()
            && now >= self.retry_at;
        has_to.then(|| {
            self.catching_up = Some(self.told.changes.get());
            self.heard_ns.saturating_sub(SLACK_NS)
        })
    }

    /// The tail has what it asked for, or has failed to get it.
    pub(super) fn end_catching_up(&mut self, is_done: bool) {
        let begun = self.catching_up.take();
        match begun {
            Some(changes) if is_done => self.caught_up = changes,
            _ => self.retry_at = self.hub.core.runtime.now().after(RETRY_AFTER),
        }
    }

    /// When the tail may ask again, if it has to.
    pub(super) fn next_due(&self) -> Monotonic {
        let waits = self.is_behind() && self.catching_up.is_none() && self.ready.is_triggered();
        if waits && self.is_whole() { self.retry_at } else { Monotonic::NEVER }
    }

    /// Entries with older times are never asked for again, in ns since the Unix epoch.
    pub(super) fn settled_ns(&self) -> i64 {
        let now_ns = self.hub.core.runtime.unix_nanos();
        self.heard_ns.saturating_sub(SLACK_NS).min(now_ns.saturating_sub(REMEMBER_NS))
    }
}

/// Keeps a link to a node open.
struct LinkTask<R: Runtime> {
    hub: Rc<Hub<R>>,
    inbox: Rc<Inbox>,
    question: Arc<Question>,
    to: Epoch,
    info: MemberInfo,
    state: Rc<LinkState>,
    told: Rc<Told>,
}

/// Why a link has ended.
#[derive(Debug, thiserror::Error)]
enum LinkEnd {
    #[error("it stops")]
    Stops,
    #[error("it says nothing")]
    Silent,
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
    #[error("it says {0}")]
    Failed(String),
}

impl<R: Runtime> LinkTask<R> {
    async fn run(self) {
        let runtime = &self.hub.core.runtime;
        loop {
            let end = self.follow().await;
            tracing::debug!(node = %self.info.name, "a tail does not hear of a node any more: {end}");
            if self.state.is_open.replace(false) {
                self.note_change();
            }
            if let LinkEnd::Unanswered(Unanswered::Status {
                status: status @ (StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST),
                ..
            }) = &end
            {
                let name = &self.info.name;
                let text = format!(
                    "the node {name} has another version, which tells no other node new entries \
                     ({status})"
                );
                self.told.refusal.replace(Some(text));
                self.inbox.notice();
                return;
            }
            runtime.sleep_until(runtime.now().after(RETRY_AFTER)).await;
        }
    }

    fn note_change(&self) {
        self.told.changes.set(self.told.changes.get() + 1);
        self.inbox.notice();
    }

    /// What comes within the time in which a node that lives says something.
    async fn soon<T>(&self, work: impl Future<Output = T>) -> Result<T, LinkEnd> {
        let runtime = &self.hub.core.runtime;
        let late = pin!(runtime.sleep_until(runtime.now().after(SILENCE_MAX)));
        match select(pin!(work), late).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(LinkEnd::Silent),
        }
    }

    async fn follow(&self) -> LinkEnd {
        match self.follow_until_end().await {
            Ok(()) => LinkEnd::Stops,
            Err(end) => end,
        }
    }

    async fn follow_until_end(&self) -> Result<(), LinkEnd> {
        let core = &self.hub.core;
        let Some(peers) = core.peers.get() else { return Ok(()) };
        let number = core.routes().map_or(0, |routes| routes.number);
        let to = Addressee { writer: self.to.0, number };
        let message = Bytes::from(self.question.encode(to, Duration::ZERO));
        let memory = &core.budgets().tails;
        let following = peers.follow(&self.info.address, message, memory);
        let mut following = self.soon(following).await??;
        // A word that is long, or that waits for others on the way, comes in pieces.
        while let Some(words) = self.soon(following.next()).await?? {
            for word in words {
                if let Some(end) = self.take(word) {
                    return Err(end);
                }
            }
        }
        Ok(())
    }

    /// Hands a word to the tail. Gives the end, if it is the last one.
    fn take(&self, word: TailWord) -> Option<LinkEnd> {
        let TailWord { number, parts, dropped, dropped_count, end } = word;
        if let Some(TailEnd::Failed(failure)) = end {
            return Some(LinkEnd::Failed(failure.text));
        }
        let core = &self.hub.core;
        if core.routes().is_some_and(|routes| routes.number < number) {
            core.tell_heard(number);
        }
        if !parts.is_empty() || dropped_count > 0 {
            let part = |block| TailPart { epoch: EPOCH, block: Arc::new(block) };
            let dropped = dropped.into_iter().map(|(labels, timestamp_ns)| TailDropped {
                epoch: EPOCH,
                labels,
                timestamp_ns,
            });
            self.inbox.push(TailBatch {
                subscription: 0,
                parts: parts.into_iter().map(part).collect(),
                dropped: dropped.collect(),
                dropped_count,
            });
        }
        self.state.heard_ns.set(core.runtime.unix_nanos());
        self.state.number.set(self.state.number.get().max(number));
        match self.state.is_open.replace(true) {
            true => self.inbox.notice(),
            false => self.note_change(),
        }
        end.map(|_| LinkEnd::Stops)
    }
}

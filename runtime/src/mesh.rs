//! Lanes for requests and replies between the cores of one process.
//!
//! Guarantees:
//! - [`Caller::call`] never waits. A full request lane, or too many calls in
//!   flight from this core, gives the request back.
//! - Each accepted call ends exactly once: with the reply, or with
//!   [`Disconnected`] if the other side dropped the request, its [`ReplyTo`] or
//!   its [`Inbox`] without an answer. Nothing hangs while the caller's
//!   [`Caller::pump_replies`] runs.
//! - Replies travel on lanes of their own that hold all that may be in flight,
//!   so a burst of requests cannot hold back the answers that would drain it.
//! - Requests from one core to another arrive in the order of the calls.
//!
//! What can go wrong: a request that is neither answered nor dropped keeps its
//! caller waiting and one place of the caller's in-flight limit taken, so a core
//! whose handlers are stuck ends in refusals on all cores that call it.
//!
//! Each core has one request lane that all cores (itself included) send to, and
//! one reply lane. A lane is a bounded flume channel; its wakes are plain
//! [`std::task::Waker`]s, so it needs nothing from the runtime backend.

mod calls;

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use flume::{Receiver, Sender, TrySendError};

use self::calls::{CallId, Calls};
use crate::CoreId;

/// Limits of a [`Mesh`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshOptions {
    /// Requests that may wait in front of one core.
    pub request_lane_messages: usize,
    /// Calls of one core whose replies have not come back yet, over all targets.
    pub inflight_per_core: usize,
}

/// The other side went away, or dropped the request, without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the called core dropped the request without an answer")]
pub struct Disconnected;

/// Which limit refused a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullLane {
    /// [`MeshOptions::request_lane_messages`] of the target core.
    Request,
    /// [`MeshOptions::inflight_per_core`] of the calling core.
    Inflight,
}

/// A refused call, with the request as it was.
pub struct LaneFull<Req> {
    /// The request, untouched.
    pub request: Req,
    /// The limit that was reached.
    pub limit: FullLane,
}

impl<Req> fmt::Debug for LaneFull<Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneFull").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<Req> fmt::Display for LaneFull<Req> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.limit {
            FullLane::Request => "the request lane of the called core is full",
            FullLane::Inflight => "too many calls of this core wait for replies",
        })
    }
}

impl<Req> std::error::Error for LaneFull<Req> {}

/// All lanes of a process, before its cores have taken their ends. Built before
/// launch; each core calls [`Mesh::attach`] once.
pub struct Mesh<Req, Rep> {
    /// One channel per core that holds the core's ends until it takes them.
    ends: Arc<[Receiver<CoreEnds<Req, Rep>>]>,
}

/// The ends that belong to one core.
struct CoreEnds<Req, Rep> {
    lanes: Arc<[RequestLane<Req, Rep>]>,
    inbox: Inbox<Req, Rep>,
    replies: (Sender<Reply<Rep>>, Receiver<Reply<Rep>>),
    inflight_max: usize,
}

/// The way to one core. Dropped when the last caller of the process is.
struct RequestLane<Req, Rep> {
    sender: Sender<Incoming<Req, Rep>>,
    /// Only for emptying the lane after its inbox is gone.
    leftovers: Receiver<Incoming<Req, Rep>>,
    inbox_gone: Arc<AtomicBool>,
}

struct Reply<Rep> {
    call: CallId,
    outcome: Result<Rep, Disconnected>,
}

impl<Req, Rep> Clone for Mesh<Req, Rep> {
    fn clone(&self) -> Self {
        Mesh { ends: Arc::clone(&self.ends) }
    }
}

impl<Req, Rep> Mesh<Req, Rep> {
    /// Lanes between `cores` cores.
    pub fn new(cores: u16, options: MeshOptions) -> Self {
        let (lanes, inboxes): (Vec<_>, Vec<_>) = (0..cores)
            .map(|core| {
                let (sender, requests) = flume::bounded(options.request_lane_messages);
                let inbox = Inbox {
                    core: CoreId(core),
                    requests,
                    gone: Arc::new(AtomicBool::new(false)),
                    counters: InboxCounters::default(),
                };
                let lane = RequestLane {
                    sender,
                    leftovers: inbox.requests.clone(),
                    inbox_gone: Arc::clone(&inbox.gone),
                };
                (lane, inbox)
            })
            .unzip();
        let lanes: Arc<[_]> = lanes.into();
        let ends = |inbox| {
            let (sender, receiver) = flume::bounded(1);
            let ends = CoreEnds {
                lanes: Arc::clone(&lanes),
                inbox,
                replies: flume::bounded(options.inflight_per_core),
                inflight_max: options.inflight_per_core,
            };
            assert!(sender.try_send(ends).is_ok(), "a new channel has room for one message");
            receiver
        };
        Mesh { ends: inboxes.into_iter().map(ends).collect() }
    }

    /// Takes the ends of `core`. To be called on that core, which must then
    /// spawn [`Caller::pump_replies`].
    ///
    /// # Panics
    /// If the core's ends were taken before, or there is no such core.
    pub fn attach(&self, core: CoreId) -> (Caller<Req, Rep>, Inbox<Req, Rep>) {
        let ends = self.ends[core.index()].try_recv();
        let Ok(CoreEnds { lanes, inbox, replies, inflight_max }) = ends else {
            panic!("core {core} attached to the mesh twice");
        };
        let (reply_sender, replies) = replies;
        let calls = Rc::new(RefCell::new(Calls::new()));
        let ends = CallerEnds { core, lanes, reply_sender, replies, calls, inflight_max };
        (Caller { ends: Rc::new(ends) }, inbox)
    }
}

/// A core's end for making calls. Clones share the in-flight limit. Stays on
/// its core.
pub struct Caller<Req, Rep> {
    ends: Rc<CallerEnds<Req, Rep>>,
}

struct CallerEnds<Req, Rep> {
    core: CoreId,
    lanes: Arc<[RequestLane<Req, Rep>]>,
    reply_sender: Sender<Reply<Rep>>,
    replies: Receiver<Reply<Rep>>,
    calls: Rc<RefCell<Calls<Rep>>>,
    inflight_max: usize,
}

impl<Req, Rep> Clone for Caller<Req, Rep> {
    fn clone(&self) -> Self {
        Caller { ends: Rc::clone(&self.ends) }
    }
}

impl<Req, Rep> Caller<Req, Rep> {
    /// Sends `request` to `target`, which may be this core. Never waits.
    ///
    /// # Errors
    /// Gives the request back if the target's request lane is full or this core
    /// has reached its in-flight limit. A target that is gone is no error here:
    /// the reply is [`Disconnected`] then.
    pub fn call(&self, target: CoreId, request: Req) -> Result<PendingReply<Rep>, LaneFull<Req>> {
        let ends = &*self.ends;
        let lane = &ends.lanes[target.index()];
        if ends.calls.borrow().unanswered() >= ends.inflight_max {
            return Err(LaneFull { request, limit: FullLane::Inflight });
        }
        let call = ends.calls.borrow_mut().start();
        let reply_to = ReplyTo { caller: ends.core, call, lane: Some(ends.reply_sender.clone()) };
        match lane.sender.try_send(Incoming { request, reply_to }) {
            Ok(()) => {
                // The inbox empties its lane after it has raised the flag, so
                // one of the two sees this request if the inbox goes away now.
                if lane.inbox_gone.load(Ordering::Acquire) {
                    drop(lane.leftovers.drain());
                }
            }
            Err(TrySendError::Full(Incoming { request, reply_to })) => {
                reply_to.disarm();
                ends.calls.borrow_mut().cancel(call);
                return Err(LaneFull { request, limit: FullLane::Request });
            }
            Err(TrySendError::Disconnected(_)) => {
                unreachable!("the lane itself holds a receiver")
            }
        }
        Ok(PendingReply { call, calls: Rc::clone(&ends.calls) })
    }

    /// Moves replies from this core's reply lane to the futures that wait for
    /// them. The owner spawns it once per core; it ends when all callers of the
    /// core are dropped and all their calls are answered.
    pub fn pump_replies(&self) -> impl Future<Output = ()> + use<Req, Rep> {
        // Holds no sender, or the lanes would never close.
        let replies = self.ends.replies.clone();
        let calls = Rc::clone(&self.ends.calls);
        async move {
            while let Ok(Reply { call, outcome }) = replies.recv_async().await {
                let settled = calls.borrow_mut().settle(call, outcome);
                // Foreign code (wakers, destructors) runs outside the borrow.
                settled.finish();
            }
        }
    }

    /// The core that makes the calls.
    pub fn core(&self) -> CoreId {
        self.ends.core
    }

    /// Requests that wait in front of `target` now, from all cores.
    pub fn request_lane_depth(&self, target: CoreId) -> usize {
        self.ends.lanes[target.index()].sender.len()
    }

    /// Calls of this core whose replies have not come back yet, including calls whose
    /// [`PendingReply`] was dropped.
    pub fn inflight(&self) -> usize {
        self.ends.calls.borrow().unanswered()
    }
}

/// A call's reply to come. Dropping it throws the reply away when it arrives.
#[must_use = "dropping it throws the reply away"]
pub struct PendingReply<Rep> {
    call: CallId,
    calls: Rc<RefCell<Calls<Rep>>>,
}

impl<Rep> Future for PendingReply<Rep> {
    type Output = Result<Rep, Disconnected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let (poll, _replaced_waker) = self.calls.borrow_mut().poll(self.call, waker);
        poll
    }
}

impl<Rep> Drop for PendingReply<Rep> {
    fn drop(&mut self) {
        let _thrown_away = self.calls.borrow_mut().abandon(self.call);
    }
}

/// A core's end for receiving requests. Dropping it disconnects every request
/// that waits in front of the core.
pub struct Inbox<Req, Rep> {
    core: CoreId,
    requests: Receiver<Incoming<Req, Rep>>,
    gone: Arc<AtomicBool>,
    counters: InboxCounters,
}

/// The numbers of requests that an inbox has given out so far. Each request is answered by one
/// message on the caller's reply lane. `received - waited` requests lay in the lane already when
/// the request ahead of them was answered, so no wake-up of the core was needed for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InboxCounters {
    /// All requests, also the core's own.
    pub received: u64,
    /// Requests that came from other cores.
    pub from_other_cores: u64,
    /// Requests that the core had waited for.
    pub waited: u64,
}

impl<Req, Rep> Inbox<Req, Rep> {
    /// The next request; `None` once every caller of every core is dropped. May
    /// be dropped while it waits without losing a request.
    pub async fn receive(&mut self) -> Option<Incoming<Req, Rep>> {
        if let Some(incoming) = self.try_receive() {
            return Some(incoming);
        }
        let incoming = self.requests.recv_async().await.ok()?;
        self.counters.waited += 1;
        Some(self.count(incoming))
    }

    /// The next request if one waits already.
    pub fn try_receive(&mut self) -> Option<Incoming<Req, Rep>> {
        let incoming = self.requests.try_recv().ok()?;
        Some(self.count(incoming))
    }

    fn count(&mut self, incoming: Incoming<Req, Rep>) -> Incoming<Req, Rep> {
        self.counters.received += 1;
        self.counters.from_other_cores += u64::from(incoming.reply_to.caller != self.core);
        incoming
    }

    /// Requests since the start.
    pub fn counters(&self) -> InboxCounters {
        self.counters
    }

    /// Requests that wait now.
    pub fn depth(&self) -> usize {
        self.requests.len()
    }
}

impl<Req, Rep> Drop for Inbox<Req, Rep> {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
        drop(self.requests.drain());
    }
}

/// A request as it arrives.
#[derive(Debug)]
pub struct Incoming<Req, Rep> {
    /// The request that the caller sent.
    pub request: Req,
    /// The way to answer the caller.
    pub reply_to: ReplyTo<Rep>,
}

/// The right to answer one call. Dropping it tells the caller [`Disconnected`].
pub struct ReplyTo<Rep> {
    caller: CoreId,
    call: CallId,
    /// `None` once the answer is on its way.
    lane: Option<Sender<Reply<Rep>>>,
}

impl<Rep> std::fmt::Debug for ReplyTo<Rep> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplyTo").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<Rep> ReplyTo<Rep> {
    /// Answers the call. Never waits, and cannot fail: a caller that has gone away needs no
    /// answer.
    pub fn send(mut self, reply: Rep) {
        self.deliver(Ok(reply));
    }

    /// The core that made the call.
    pub fn caller(&self) -> CoreId {
        self.caller
    }

    fn deliver(&mut self, outcome: Result<Rep, Disconnected>) {
        let Some(lane) = self.lane.take() else { return };
        match lane.try_send(Reply { call: self.call, outcome }) {
            // Disconnected: the calling core has dropped its ends.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                unreachable!("a reply lane holds all that may be in flight")
            }
        }
    }

    fn disarm(mut self) {
        self.lane = None;
    }
}

impl<Rep> Drop for ReplyTo<Rep> {
    fn drop(&mut self) {
        self.deliver(Err(Disconnected));
    }
}

#[cfg(test)]
mod tests;

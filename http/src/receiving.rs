//! Heads and bodies that a core is receiving, and that are not complete yet.
//!
//! A client decides how long its request takes to arrive, and the request holds memory meanwhile.
//! Guarantees: a body that comes slower than [`ServerConfig::pace_min_bytes`] in each
//! [`ServerConfig::pace_window`] is ended; when seven eighths of the memory for bodies are used,
//! slow ones are ended, the one first that has been slow for longest, until there is room, and
//! where nobody lacks memory, only bodies that have been slow for a second; and while a client
//! wants memory, clients over their share give some back. Failure: all clients send fast and none
//! is over its share; then a request waits for room for [`ServerConfig::room_patience`] and is
//! refused.
//!
//! Each core looks at its own requests only, every 50 ms while it has some; the budget knows the
//! memory of all together.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{Monotonic, Owner, Runtime};

use crate::body::FIRST_BYTES;
use crate::config::ServerConfig;
use crate::refusal::Refusal;

/// Time between two looks.
const SWEEP_INTERVAL: Duration = Duration::from_millis(50);
/// Over this time it is measured whether a request comes slowly.
const PACE_INTERVAL: Duration = Duration::from_millis(250);
/// A request that has been slow for so long is ended even if nobody lacks memory.
const SLOW_TIME: Duration = Duration::from_secs(1);
/// How often a request that waits for room looks for it.
const ROOM_INTERVAL: Duration = Duration::from_millis(10);
/// How long others keep to their shares for a client that found no room.
const WANT_TIME: Duration = Duration::from_millis(500);

/// The requests that one core is receiving.
pub(crate) struct Receiving<R> {
    runtime: R,
    config: Rc<ServerConfig>,
    entries: RefCell<Entries>,
    is_sweeping: Cell<bool>,
    /// Refusals that the budget had counted at the last look, and when there was a new one.
    refused: Cell<(u64, Monotonic)>,
}

#[derive(Default)]
struct Entries {
    places: Vec<Option<Entry>>,
    free: Vec<usize>,
}

/// Bytes that had come at a time.
#[derive(Clone, Copy)]
struct Mark {
    at: Monotonic,
    received_bytes: u64,
}

/// One request that is being received.
struct Entry {
    owner: Owner,
    /// Heads have a deadline of their own, and no minimum pace.
    is_body: bool,
    held_bytes: u64,
    received_bytes: u64,
    window: Mark,
    pace: Mark,
    /// Bytes of the last complete interval of the pace.
    pace_bytes: u64,
    slow_since: Option<Monotonic>,
    /// It is the server that keeps the request waiting.
    waits_for_room: bool,
    ended: Option<Refusal>,
    waker: Option<Waker>,
}

impl Entry {
    fn end(&mut self, refusal: Refusal) {
        self.ended = Some(refusal);
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// Brings the measurements up to date.
    fn measure(&mut self, now: Monotonic, config: &ServerConfig) {
        let mark = Mark { at: now, received_bytes: self.received_bytes };
        if self.waits_for_room {
            (self.window, self.pace, self.slow_since) = (mark, mark, None);
            return;
        }
        if now.since(self.pace.at) >= PACE_INTERVAL {
            self.pace_bytes = self.received_bytes - self.pace.received_bytes;
            let expected_bytes = bytes_at_rate(config, now.since(self.pace.at));
            if self.pace_bytes >= expected_bytes {
                self.slow_since = None;
            } else if self.slow_since.is_none() {
                self.slow_since = Some(self.pace.at);
            }
            self.pace = mark;
        }
        if self.is_body && now.since(self.window.at) >= config.pace_window {
            if self.received_bytes - self.window.received_bytes < config.pace_min_bytes {
                self.end(Refusal::BodyTimeout);
            }
            self.window = mark;
        }
    }
}

fn bytes_at_rate(config: &ServerConfig, time: Duration) -> u64 {
    let bytes = u128::from(config.min_rate_bytes_per_s) * time.as_millis() / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl<R: Runtime> Receiving<R> {
    pub(crate) fn new(runtime: R, config: Rc<ServerConfig>) -> Rc<Receiving<R>> {
        let entries = RefCell::default();
        let (is_sweeping, refused) = (Cell::new(false), Cell::new((0, Monotonic(0))));
        Rc::new(Receiving { runtime, config, entries, is_sweeping, refused })
    }

    /// Begins to watch a body, or a head.
    pub(crate) fn begin(self: &Rc<Self>, owner: Owner, is_body: bool) -> ReceivingGuard<R> {
        let mark = Mark { at: self.runtime.now(), received_bytes: 0 };
        let entry = Entry {
            owner,
            is_body,
            held_bytes: 0,
            received_bytes: 0,
            window: mark,
            pace: mark,
            pace_bytes: 0,
            slow_since: None,
            waits_for_room: false,
            ended: None,
            waker: None,
        };
        let mut entries = self.entries.borrow_mut();
        let place = entries.free.pop().unwrap_or_else(|| {
            entries.places.push(None);
            entries.places.len() - 1
        });
        entries.places[place] = Some(entry);
        drop(entries);
        if !self.is_sweeping.replace(true) {
            let receiving = Rc::clone(self);
            drop(self.runtime.spawn(async move { receiving.sweep_until_empty().await }));
        }
        ReceivingGuard { receiving: Rc::clone(self), place }
    }

    async fn sweep_until_empty(&self) {
        loop {
            self.runtime.sleep_until(self.runtime.now().after(SWEEP_INTERVAL)).await;
            if !self.sweep() {
                self.is_sweeping.set(false);
                return;
            }
        }
    }

    /// Ends slow requests. False if nothing is being received.
    fn sweep(&self) -> bool {
        let (now, budget) = (self.runtime.now(), &self.config.body_budget);
        let mut entries = self.entries.borrow_mut();
        let mut is_empty = true;
        for entry in entries.places.iter_mut().flatten() {
            is_empty = false;
            if entry.ended.is_none() {
                entry.measure(now, &self.config);
            }
        }
        if budget.expire_wants(now) {
            entries.end_excess(|owner| budget.excess_bytes(owner));
        }
        let threshold_bytes = budget.max_bytes() / 8 * 7;
        let is_lacking = self.is_lacking(now);
        let is_meant = |since: Monotonic| is_lacking || now.since(since) >= SLOW_TIME;
        entries.end_slow(budget.used_bytes().saturating_sub(threshold_bytes), is_meant);
        !is_empty
    }

    /// Whether somebody on any core found no memory lately.
    fn is_lacking(&self, now: Monotonic) -> bool {
        let (known, mut at) = self.refused.get();
        let count = self.config.body_budget.refused_count();
        if count != known {
            at = now;
        }
        self.refused.set((count, at));
        at > Monotonic(0) && now.since(at) < SLOW_TIME
    }
}

impl Entries {
    /// Places of entries that hold memory.
    fn holding(&self, mut is_meant: impl FnMut(&Entry) -> bool) -> Vec<usize> {
        let is_candidate =
            |entry: &Entry| entry.ended.is_none() && entry.held_bytes > 0 && is_meant(entry);
        let mut is_candidate = is_candidate;
        let places = self.places.iter().enumerate();
        places
            .filter_map(|(place, entry)| {
                entry.as_ref().is_some_and(&mut is_candidate).then_some(place)
            })
            .collect()
    }

    fn entry(&mut self, place: usize) -> &mut Entry {
        self.places[place].as_mut().expect("a place that was just looked at")
    }

    /// Ends requests that come slowly until so many bytes are free.
    fn end_slow(&mut self, mut wanted_bytes: u64, is_meant: impl Fn(Monotonic) -> bool) {
        if wanted_bytes == 0 {
            return;
        }
        let mut slow = self.holding(|entry| entry.slow_since.is_some_and(&is_meant));
        slow.sort_by_key(|&place| self.places[place].as_ref().and_then(|entry| entry.slow_since));
        for place in slow {
            let entry = self.entry(place);
            entry.end(Refusal::GaveWay);
            wanted_bytes = wanted_bytes.saturating_sub(entry.held_bytes);
            if wanted_bytes == 0 {
                return;
            }
        }
    }

    /// Ends requests, slow ones first, of owners that hold more than their share.
    fn end_excess(&mut self, excess_bytes: impl Fn(Owner) -> u64) {
        let mut over = self.holding(|entry| excess_bytes(entry.owner) > 0);
        over.sort_by_key(|&place| self.places[place].as_ref().map(|entry| entry.pace_bytes));
        let mut freed = Vec::<(Owner, u64)>::new();
        for place in over {
            let entry = self.entry(place);
            let known = freed.iter().position(|(owner, _)| *owner == entry.owner);
            let at = known.unwrap_or_else(|| {
                freed.push((entry.owner, 0));
                freed.len() - 1
            });
            if freed[at].1 < excess_bytes(entry.owner) {
                freed[at].1 += entry.held_bytes;
                entry.end(Refusal::GaveWay);
            }
        }
    }
}

/// One request that is being received, until it is dropped.
pub(crate) struct ReceivingGuard<R> {
    receiving: Rc<Receiving<R>>,
    place: usize,
}

impl<R> ReceivingGuard<R> {
    fn with<T>(&self, look: impl FnOnce(&mut Entry) -> T) -> T {
        look(self.receiving.entries.borrow_mut().entry(self.place))
    }

    /// Notes the received bytes, and the memory that is reserved for them.
    pub(crate) fn note(&self, received_bytes: u64, held_bytes: u64) {
        self.with(|entry| {
            entry.received_bytes = received_bytes.max(entry.received_bytes);
            entry.held_bytes = held_bytes;
            entry.waits_for_room = false;
        });
    }

    /// Notes that the server does not read on for now, so that the client cannot be slow. It
    /// lasts until the next note.
    pub(crate) fn pause(&self) {
        self.with(|entry| entry.waits_for_room = true);
    }

    /// Why the request is ended, if it is; otherwise the task is woken when it happens.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Option<Refusal> {
        self.with(|entry| {
            if entry.ended.is_none() {
                match &mut entry.waker {
                    Some(waker) if waker.will_wake(cx.waker()) => {}
                    waker => *waker = Some(cx.waker().clone()),
                }
            }
            entry.ended
        })
    }
}

impl<R: Runtime> ReceivingGuard<R> {
    /// Waits a moment for memory that was not there. `since` is when the request began to
    /// wait for it; set it to `None` when there was some.
    ///
    /// # Errors
    /// The request is ended, or has waited for long enough.
    pub(crate) async fn wait_for_room(&self, since: &mut Option<Monotonic>) -> Result<(), Refusal> {
        let Receiving { runtime, config, .. } = &*self.receiving;
        let now = runtime.now();
        let (owner, held_bytes) = self.with(|entry| {
            entry.waits_for_room = true;
            (entry.owner, entry.held_bytes)
        });
        // Requests that hold much must not wait for each other: the memory of the first to give up
        // is for requests that have nothing yet.
        let is_large = held_bytes > FIRST_BYTES as u64;
        let patience = if is_large { config.room_patience / 4 } else { config.room_patience };
        if now.since(*since.get_or_insert(now)) >= patience {
            return Err(Refusal::BudgetExhausted);
        }
        config.body_budget.want(owner, now.after(WANT_TIME));
        let ended = poll_fn(|cx| match self.poll_ended(cx) {
            Some(refusal) => Poll::Ready(refusal),
            None => Poll::Pending,
        });
        let soon = pin!(runtime.sleep_until(now.after(ROOM_INTERVAL)));
        match select(pin!(ended), soon).await {
            Either::Left((refusal, _)) => Err(refusal),
            Either::Right(_) => Ok(()),
        }
    }
}

impl<R> Drop for ReceivingGuard<R> {
    fn drop(&mut self) {
        let entry = {
            let mut entries = self.receiving.entries.borrow_mut();
            entries.free.push(self.place);
            entries.places[self.place].take()
        };
        drop(entry);
    }
}

//! A queue that admits a fixed number of jobs at a time, shared fairly between keys.
//!
//! Each caller asks under a *key*. A free place goes to the key that holds the fewest places;
//! among equal keys it goes to the key that has waited longest. Callers of one key are served in
//! the order of their arrival. So a key that floods the queue leaves each other key its share,
//! and two keys whose jobs take equally long are served alternately.
//!
//! Guarantees, on any interleaving of cores: no more places are held than exist; a free place
//! is given away at once if a waiting key may take it; no wake-up is lost; no ticket waits for ever
//! as long as places come back. A dropped [`Ticket`] leaves nothing behind. A dropped [`Permit`]
//! goes to the next waiting ticket. What can go wrong: [`QueueFull`].
//!
//! A mutex guards the state (ARCHITECTURE.md, *Locks*). A core holds it for a few operations on
//! maps, never while a waker runs, and only for events as rare as a query. The queue is not for
//! hot paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

/// The bounds of one key. 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyBounds {
    /// Most places that the key holds at a time.
    pub max_running: usize,
    /// Most tickets of the key that wait for a place.
    pub max_waiting: usize,
}

/// The key has as many waiting tickets as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} wait in the queue already")]
pub struct QueueFull {
    /// Tickets that wait under the key.
    pub waiting: usize,
}

/// The queue that the module's header describes. Clones share it.
pub struct FairQueue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for FairQueue<K> {
    fn clone(&self) -> FairQueue<K> {
        FairQueue { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<K> {
    places: usize,
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    state: Mutex<State<K>>,
}

struct State<K> {
    /// Places that permits and unpolled tickets hold.
    running: usize,
    /// Counts arrivals, and places that are given and given back.
    moment: u64,
    last_ticket: u64,
    /// Keys with tickets or permits.
    lines: BTreeMap<K, Line>,
    /// Keys with a waiting ticket that may run, ordered by places held, then by the moment
    /// since which the key waits for its turn.
    ready: BTreeSet<(usize, u64, K)>,
}

/// The state of one key.
struct Line {
    running: usize,
    /// The moment at which the key last got a place or gave one back, or else when it came.
    since: u64,
    /// The bound that the newest ticket came with; 0 is no bound.
    max_running: usize,
    /// By ticket number; numbers are given in order of arrival.
    waiting: BTreeMap<u64, Option<Waker>>,
}

impl Line {
    fn may_run_one_more(&self) -> bool {
        self.max_running == 0 || self.running < self.max_running
    }
}

impl<K: Ord + Clone> Shared<K> {
    fn with_state<T>(&self, change: impl FnOnce(&mut State<K>) -> T) -> T {
        // No change can panic half way, so poison has no meaning here.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Frees a held place, and gives it to the next ticket.
    fn give_back(&self, key: &K) {
        let woken = self.with_state(|state| {
            state.moment += 1;
            let since = state.moment;
            // Keys that came while the place was held come first.
            state.change(key, |line| (line.running, line.since) = (line.running - 1, since));
            state.running -= 1;
            state.give_away(self.places)
        });
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<K: Ord + Clone> State<K> {
    /// Changes the line of a key and keeps `ready` up to date. Does nothing if the key has
    /// no line.
    fn change(&mut self, key: &K, change: impl FnOnce(&mut Line)) {
        let Some(line) = self.lines.get_mut(key) else { return };
        self.ready.remove(&(line.running, line.since, key.clone()));
        change(line);
        if line.running == 0 && line.waiting.is_empty() {
            self.lines.remove(key);
        } else if !line.waiting.is_empty() && line.may_run_one_more() {
            self.ready.insert((line.running, line.since, key.clone()));
        }
    }

    /// Gives free places to the tickets whose turn it is. Returns the wakers of these tickets.
    fn give_away(&mut self, places: usize) -> Vec<Waker> {
        let mut woken = Vec::new();
        while self.running < places
            && let Some((_, _, key)) = self.ready.first().cloned()
        {
            self.moment += 1;
            let since = self.moment;
            self.change(&key, |line| {
                // A ticket that is not in `waiting` has its place.
                if let Some((_, waker)) = line.waiting.pop_first() {
                    woken.extend(waker);
                }
                line.running += 1;
                line.since = since;
            });
            self.running += 1;
        }
        woken
    }
}

impl<K: Ord + Clone> FairQueue<K> {
    /// A queue with this many places, at least one.
    pub fn new(places: usize) -> FairQueue<K> {
        let state = State {
            running: 0,
            moment: 0,
            last_ticket: 0,
            lines: BTreeMap::new(),
            ready: BTreeSet::new(),
        };
        FairQueue { shared: Arc::new(Shared { places: places.max(1), state: state.into() }) }
    }

    /// Asks for a place: await the ticket, which may have one at once.
    /// `bounds.max_running` applies to all tickets that wait under the key.
    ///
    /// # Errors
    /// No place is free, and as many tickets wait under the key as may.
    pub fn enter(&self, key: K, bounds: KeyBounds) -> Result<Ticket<K>, QueueFull> {
        let places = self.shared.places;
        let (entered, woken) = self.shared.with_state(|state| {
            let moment = state.moment + 1;
            let line = state.lines.entry(key.clone()).or_insert_with(|| Line {
                running: 0,
                since: moment,
                max_running: 0,
                waiting: BTreeMap::new(),
            });
            let (running, waiting) = (line.running, line.waiting.len());
            // Waiting tickets cannot run, so a ticket that may run overtakes none.
            let max_running = bounds.max_running;
            let runs_at_once = state.running < places
                && waiting == 0
                && (max_running == 0 || running < max_running);
            if !runs_at_once && bounds.max_waiting > 0 && waiting >= bounds.max_waiting {
                // Leaves a line that existed as it was, and drops a new one.
                state.change(&key, |_| {});
                return (Err(QueueFull { waiting }), Vec::new());
            }
            state.moment = moment;
            state.last_ticket += 1;
            let ticket = state.last_ticket;
            state.change(&key, |line| {
                line.max_running = max_running;
                line.waiting.insert(ticket, None);
            });
            (Ok(ticket), state.give_away(places))
        });
        woken.into_iter().for_each(Waker::wake);
        let ticket = entered?;
        Ok(Ticket { shared: Arc::clone(&self.shared), key: Some(key), ticket })
    }

    /// The number of places.
    pub fn places(&self) -> usize {
        self.shared.places
    }

    /// The number of places that are held.
    pub fn running(&self) -> usize {
        self.shared.with_state(|state| state.running)
    }

    /// Keys with waiting tickets, and their number.
    pub fn waiting(&self) -> Vec<(K, usize)> {
        self.shared.with_state(|state| {
            let lines = state.lines.iter().filter(|(_, line)| !line.waiting.is_empty());
            lines.map(|(key, line)| (key.clone(), line.waiting.len())).collect()
        })
    }
}

impl<K> fmt::Debug for FairQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairQueue").field("places", &self.shared.places).finish_non_exhaustive()
    }
}

/// A position in the queue: a future that ends with a [`Permit`]. It can be dropped at any
/// time, and awaited on any core.
#[must_use = "a ticket gives its permit only to a task that awaits it"]
pub struct Ticket<K: Ord + Clone> {
    shared: Arc<Shared<K>>,
    /// `None` once the ticket has given out its permit.
    key: Option<K>,
    ticket: u64,
}

impl<K: Ord + Clone + Unpin> Future for Ticket<K> {
    type Output = Permit<K>;

    /// # Panics
    /// If it is polled after it has ended.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit<K>> {
        let this = &mut *self;
        let key = this.key.as_ref().expect("a ticket is not polled after its end");
        // Wakers are foreign code: cloned before the lock is taken, dropped after it.
        let waker = cx.waker().clone();
        let (waits, _replaced) = this.shared.with_state(|state| {
            let slot = state.lines.get_mut(key).and_then(|line| line.waiting.get_mut(&this.ticket));
            match slot {
                Some(slot) => (true, slot.replace(waker)),
                None => (false, Some(waker)),
            }
        });
        if waits {
            return Poll::Pending;
        }
        match this.key.take() {
            Some(key) => Poll::Ready(Permit { shared: Arc::clone(&this.shared), key }),
            None => Poll::Pending,
        }
    }
}

impl<K: Ord + Clone> Drop for Ticket<K> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let left = self.shared.with_state(|state| {
            let mut left = None;
            state.change(&key, |line| left = line.waiting.remove(&self.ticket));
            left
        });
        // The ticket had a place, but was not polled since.
        if left.is_none() {
            self.shared.give_back(&key);
        }
    }
}

/// The right to run one job. Dropping it, on any core, lets the next ticket in.
#[must_use = "a dropped permit lets the next ticket in"]
pub struct Permit<K: Ord + Clone> {
    shared: Arc<Shared<K>>,
    key: K,
}

impl<K: Ord + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        self.shared.give_back(&self.key);
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Permit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! Work that several callers ask for at the same time and that runs once.
//!
//! The first caller of a key *leads*: it gets the right to do the work, and should do it in a
//! task of its own, so that the work does not end with the caller's request. The other callers
//! *follow*. All of them, the leader's own request too, wait for the outcome as [`Follower`]s,
//! on any core.
//!
//! Guarantees: every follower gets the outcome, or learns that there will be none. The leader
//! learns when no follower is left. Only callers that asked before the end get the outcome: nothing
//! is remembered. A caller that asks after the work has begun ([`Leader::begin`]) follows only if
//! its *stamp* equals the stamp at the beginning; otherwise it leads the same work once more. So,
//! if the stamp changes with the data, no follower gets an outcome that is older than its question.
//!
//! A mutex guards the list of runs (ARCHITECTURE.md, *Locks*). A core holds it for one operation on
//! a map, never while a waker runs.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use crate::{Latch, LatchWait};

/// The list of runs, see the module's header. Clones share it.
pub struct SharedRuns<K, V> {
    shared: Arc<Shared<K, V>>,
}

impl<K, V> Clone for SharedRuns<K, V> {
    fn clone(&self) -> SharedRuns<K, V> {
        SharedRuns { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<K, V> {
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    last_id: u64,
    /// All runs that have a leader or a follower.
    runs: BTreeMap<u64, Run<V>>,
    /// The run that a caller may join, by key.
    open: BTreeMap<K, u64>,
}

struct Run<V> {
    outcome: Arc<Outcome<V>>,
    followers: usize,
    /// The stamp with which it has begun.
    begun: Option<u64>,
}

struct Outcome<V> {
    /// If it is unset when `ended` is triggered, there is no outcome.
    value: OnceLock<V>,
    ended: Latch,
    abandoned: Latch,
}

impl<K: Ord, V> Shared<K, V> {
    fn with_state<T>(&self, change: impl FnOnce(&mut State<K, V>) -> T) -> T {
        // Nothing in a change can panic half way, so poison says nothing here.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: Ord, V> State<K, V> {
    /// Lets no later caller join a run.
    fn close(&mut self, key: &K, id: u64) {
        if self.open.get(key) == Some(&id) {
            self.open.remove(key);
        }
    }
}

/// The part of a caller in the work that it asked for.
pub enum Joined<K: Ord + Clone, V> {
    /// The work is to be done.
    Leads(Leader<K, V>, Follower<K, V>),
    /// Another caller leads the work.
    Follows(Follower<K, V>),
}

impl<K: Ord + Clone, V> Default for SharedRuns<K, V> {
    fn default() -> SharedRuns<K, V> {
        let state = State { last_id: 0, runs: BTreeMap::new(), open: BTreeMap::new() };
        SharedRuns { shared: Arc::new(Shared { state: state.into() }) }
    }
}

impl<K: Ord + Clone, V> SharedRuns<K, V> {
    /// Asks for work. `stamp` is that of the data at this moment.
    pub fn join(&self, key: K, stamp: u64) -> Joined<K, V> {
        let (id, outcome, leads) = self.shared.with_state(|state| {
            if let Some(&id) = state.open.get(&key)
                && let Some(run) = state.runs.get_mut(&id)
                && run.begun.is_none_or(|begun| begun == stamp)
            {
                run.followers += 1;
                return (id, Arc::clone(&run.outcome), false);
            }
            state.last_id += 1;
            let id = state.last_id;
            let outcome = Arc::new(Outcome {
                value: OnceLock::new(),
                ended: Latch::new(),
                abandoned: Latch::new(),
            });
            let run = Run { outcome: Arc::clone(&outcome), followers: 1, begun: None };
            state.runs.insert(id, run);
            state.open.insert(key.clone(), id);
            (id, outcome, true)
        });
        let shared = || Arc::clone(&self.shared);
        let ended = outcome.ended.wait();
        let follower = Follower {
            shared: shared(),
            key: key.clone(),
            id,
            outcome: Arc::clone(&outcome),
            ended,
        };
        match leads {
            true => Joined::Leads(Leader { shared: shared(), key, id, outcome }, follower),
            false => Joined::Follows(follower),
        }
    }

    /// The number of runs that have not ended and have a follower.
    pub fn running(&self) -> usize {
        self.shared.with_state(|state| state.runs.len())
    }
}

impl<K, V> fmt::Debug for SharedRuns<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRuns").finish_non_exhaustive()
    }
}

/// The right to do the work. Dropping it without [`Leader::finish`] tells all followers that there
/// is no outcome.
pub struct Leader<K: Ord + Clone, V> {
    shared: Arc<Shared<K, V>>,
    key: K,
    id: u64,
    outcome: Arc<Outcome<V>>,
}

impl<K: Ord + Clone, V> Leader<K, V> {
    /// Says that the data is looked at now; `stamp` was taken just before.
    pub fn begin(&self, stamp: u64) {
        self.shared.with_state(|state| {
            if let Some(run) = state.runs.get_mut(&self.id) {
                run.begun = Some(stamp);
            }
        });
    }

    /// Ends when no follower is left.
    pub fn abandoned(&self) -> LatchWait {
        self.outcome.abandoned.wait()
    }

    /// Gives the outcome to all followers.
    pub fn finish(self, value: V) {
        // Only a leader sets the value, and this call consumes the leader.
        let _ = self.outcome.value.set(value);
    }
}

impl<K: Ord + Clone, V> Drop for Leader<K, V> {
    fn drop(&mut self) {
        let ended = self.shared.with_state(|state| {
            state.close(&self.key, self.id);
            state.runs.remove(&self.id)
        });
        self.outcome.ended.trigger();
        drop(ended);
    }
}

/// A future that waits for the outcome. It ends with `None` if there is no outcome. May be
/// dropped at any time.
#[must_use = "a follower gets the outcome only in a task that awaits it"]
pub struct Follower<K: Ord, V> {
    shared: Arc<Shared<K, V>>,
    key: K,
    id: u64,
    outcome: Arc<Outcome<V>>,
    ended: LatchWait,
}

impl<K: Ord + Unpin, V: Clone> Future for Follower<K, V> {
    type Output = Option<V>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<V>> {
        ready!(Pin::new(&mut self.ended).poll(cx));
        Poll::Ready(self.outcome.value.get().cloned())
    }
}

impl<K: Ord, V> Drop for Follower<K, V> {
    fn drop(&mut self) {
        let is_last = self.shared.with_state(|state| {
            let Some(run) = state.runs.get_mut(&self.id) else { return false };
            run.followers -= 1;
            if run.followers > 0 {
                return false;
            }
            // A run that is about to be given up takes no more followers.
            state.close(&self.key, self.id);
            true
        });
        if is_last {
            self.outcome.abandoned.trigger();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{block_on, on_thread, poll_once};

    type Runs = SharedRuns<&'static str, u32>;

    fn lead(
        runs: &Runs,
        key: &'static str,
        stamp: u64,
    ) -> (Leader<&'static str, u32>, Follower<&'static str, u32>) {
        match runs.join(key, stamp) {
            Joined::Leads(leader, follower) => (leader, follower),
            Joined::Follows(_) => panic!("{key} is under way"),
        }
    }

    fn follow(runs: &Runs, key: &'static str, stamp: u64) -> Follower<&'static str, u32> {
        match runs.join(key, stamp) {
            Joined::Leads(..) => panic!("{key} is not under way"),
            Joined::Follows(follower) => follower,
        }
    }

    #[test]
    fn everybody_gets_the_outcome_of_one_run() {
        let runs = Runs::default();
        let (leader, mut own) = lead(&runs, "a", 1);
        let mut second = follow(&runs, "a", 2);
        let (other, _other_own) = lead(&runs, "b", 1);
        assert!(poll_once(&mut own).is_pending());
        // The first to ask goes away; the work goes on.
        drop(own);
        assert!(poll_once(&mut leader.abandoned()).is_pending());
        leader.finish(7);
        assert_eq!(poll_once(&mut second), Poll::Ready(Some(7)));
        // Nothing is remembered.
        let (_again, _own) = lead(&runs, "a", 1);
        drop(other);
        assert_eq!(runs.running(), 1);
    }

    #[test]
    fn who_asks_after_a_change_is_not_given_what_began_before_it() {
        let runs = Runs::default();
        let (leader, mut own) = lead(&runs, "a", 1);
        leader.begin(5);
        let mut same = follow(&runs, "a", 5);
        let (newer, mut newer_own) = lead(&runs, "a", 6);
        let mut newest = follow(&runs, "a", 9);
        leader.finish(1);
        assert_eq!(poll_once(&mut own), Poll::Ready(Some(1)));
        assert_eq!(poll_once(&mut same), Poll::Ready(Some(1)));
        assert!(poll_once(&mut newer_own).is_pending());
        newer.begin(9);
        newer.finish(2);
        assert_eq!(poll_once(&mut newer_own), Poll::Ready(Some(2)));
        assert_eq!(poll_once(&mut newest), Poll::Ready(Some(2)));
        assert_eq!(runs.running(), 0);
    }

    #[test]
    fn work_that_nobody_waits_for_is_given_up() {
        let runs = Runs::default();
        let (leader, own) = lead(&runs, "a", 1);
        let second = follow(&runs, "a", 1);
        drop(second);
        let mut abandoned = leader.abandoned();
        assert!(poll_once(&mut abandoned).is_pending());
        drop(own);
        assert!(poll_once(&mut abandoned).is_ready());
        // A run that was given up takes no followers.
        let (next, mut next_own) = lead(&runs, "a", 1);
        drop(leader);
        assert!(poll_once(&mut next_own).is_pending());
        let mut third = follow(&runs, "a", 1);
        // A leader that fails tells all followers.
        drop(next);
        assert_eq!(poll_once(&mut next_own), Poll::Ready(None));
        assert_eq!(poll_once(&mut third), Poll::Ready(None));
        assert_eq!(runs.running(), 0);
    }

    #[test]
    fn threads_that_race_all_get_an_outcome() {
        let runs = SharedRuns::<u32, u32>::default();
        let askers: Vec<_> = (0..8)
            .map(|number| {
                let runs = runs.clone();
                on_thread(move || {
                    for round in 0..500 {
                        let follower = match runs.join(round % 3, 0) {
                            Joined::Follows(follower) => follower,
                            Joined::Leads(leader, follower) => {
                                let _done = on_thread(move || {
                                    leader.begin(0);
                                    leader.finish(round % 3);
                                });
                                follower
                            }
                        };
                        if (round + number) % 5 != 0 {
                            assert_eq!(block_on(follower), Some(round % 3));
                        }
                    }
                })
            })
            .collect();
        for asker in askers {
            asker.join().expect("the asker does not panic");
        }
    }
}

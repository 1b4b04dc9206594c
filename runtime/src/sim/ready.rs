//! The tasks that are ready, and the order in which they run.
//!
//! They run in rounds: within a round the order is random, and a woken task joins
//! the running round or the next one. So no task starves, but any order that
//! independent cores could produce may occur. A task that yields goes on in the
//! round after the next, when all that was ready has run.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use super::random::Random;

/// A task's number; never used twice.
pub(super) type TaskId = u64;

/// A woken task joins the next round instead of the running one so often.
const NEXT_ROUND_ONE_IN: u64 = 4;

/// The state that the wakers of a task share.
pub(super) struct TaskWaker {
    task: TaskId,
    queued: AtomicBool,
    woken: flume::Sender<TaskId>,
}

impl TaskWaker {
    /// From now on a wake makes the task ready again.
    pub(super) fn begin_poll(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            // Fails only after the simulation is gone.
            let _ = self.woken.send(self.task);
        }
    }
}

pub(super) struct ReadyTasks {
    /// Wakers must be `Send`, so their wake-ups go through a channel.
    woken: (flume::Sender<TaskId>, flume::Receiver<TaskId>),
    rounds: RefCell<Rounds>,
}

#[derive(Default)]
struct Rounds {
    number: u64,
    current: Vec<TaskId>,
    next: Vec<TaskId>,
    /// Tasks that yielded, with the round in which they go on.
    yielded: Vec<(u64, Waker)>,
}

impl ReadyTasks {
    pub(super) fn new() -> ReadyTasks {
        ReadyTasks { woken: flume::unbounded(), rounds: RefCell::default() }
    }

    /// The waker of a new task, which is not ready yet.
    pub(super) fn waker(&self, task: TaskId) -> Arc<TaskWaker> {
        let queued = AtomicBool::new(false);
        Arc::new(TaskWaker { task, queued, woken: self.woken.0.clone() })
    }

    /// Puts a task back into the running round.
    pub(super) fn push(&self, task: TaskId) {
        self.rounds.borrow_mut().current.push(task);
    }

    /// Number of the running round.
    pub(super) fn round(&self) -> u64 {
        self.rounds.borrow().number
    }

    pub(super) fn wake_in_round(&self, number: u64, waker: Waker) {
        self.rounds.borrow_mut().yielded.push((number, waker));
    }

    pub(super) fn is_empty(&self) -> bool {
        let rounds = self.rounds.borrow();
        self.woken.1.is_empty()
            && rounds.current.is_empty()
            && rounds.next.is_empty()
            && rounds.yielded.is_empty()
    }

    /// Takes out the task that runs next.
    pub(super) fn pick(&self, random: &Random) -> Option<TaskId> {
        loop {
            let mut rounds = self.rounds.borrow_mut();
            for task in self.woken.1.try_iter() {
                let joins_next = random.one_in(NEXT_ROUND_ONE_IN);
                if joins_next { rounds.next.push(task) } else { rounds.current.push(task) }
            }
            if !rounds.current.is_empty() {
                let index = random.index(rounds.current.len());
                return Some(rounds.current.swap_remove(index));
            }
            if rounds.next.is_empty() && rounds.yielded.is_empty() {
                return None;
            }
            rounds.number += 1;
            rounds.current = std::mem::take(&mut rounds.next);
            let number = rounds.number;
            let due: Vec<_> = rounds.yielded.extract_if(.., |(due, _)| *due <= number).collect();
            // A waker may belong to a combinator and run anything.
            drop(rounds);
            due.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// Forgets everything; returns the wakers, which the caller drops outside of any borrow.
    pub(super) fn clear(&self) -> Vec<(u64, Waker)> {
        let rounds = self.rounds.take();
        self.woken.1.drain();
        rounds.yielded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(ready: &ReadyTasks, count: u64) -> Vec<Arc<TaskWaker>> {
        (0..count).map(|task| ready.waker(task)).collect()
    }

    #[test]
    fn every_order_occurs() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let (random, ready) = (Random::derive(seed, 0), ReadyTasks::new());
            let wakers = tasks(&ready, 3);
            wakers.iter().for_each(Wake::wake_by_ref);
            wakers[0].wake_by_ref();
            let order: Vec<_> = std::iter::from_fn(|| ready.pick(&random)).collect();
            assert_eq!(order.len(), 3, "a task is ready once, however often it is woken");
            orders.insert(order);
        }
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn tasks_that_are_always_ready_starve_nobody() {
        let (random, ready) = (Random::derive(1, 0), ReadyTasks::new());
        let wakers = tasks(&ready, 3);
        ready.wake_in_round(2, Waker::from(Arc::clone(&wakers[2])));
        wakers[..2].iter().for_each(Wake::wake_by_ref);
        let turn = (0..1_000).find(|_| {
            let picked = ready.pick(&random).expect("two are ready");
            if let Some(waker) = wakers[..2].get(picked as usize) {
                waker.begin_poll();
                waker.wake_by_ref();
            }
            picked == 2
        });
        assert!(turn.is_some());
    }

    #[test]
    fn a_yield_waits_for_all_that_was_ready() {
        for seed in 0..100 {
            let (random, ready) = (Random::derive(seed, 0), ReadyTasks::new());
            let wakers = tasks(&ready, 5);
            wakers[..4].iter().for_each(Wake::wake_by_ref);
            assert!(ready.pick(&random) < Some(4));
            ready.wake_in_round(ready.round() + 2, Waker::from(Arc::clone(&wakers[4])));
            let order: Vec<_> = std::iter::from_fn(|| ready.pick(&random)).collect();
            assert_eq!((order.len(), order[3]), (4, 4), "seed {seed}");
        }
    }
}

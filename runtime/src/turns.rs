//! Turns of the tasks of one core that compute for long.
//!
//! A backend enters its driver when no task is ready. Only the driver submits operations to the
//! system, and only the driver sees completions and messages from other cores. If eight requests
//! are ready, and each computes for a millisecond, then the I/O of the first one waits for the
//! seven others while the disk rests; afterwards all of them wait for the disk while the core
//! rests. So such tasks take turns. Between two turns the core enters the driver twice: first
//! for completions, then with the operations that the woken tasks have begun, above all the next
//! write of a log.
//!
//! Guarantees: between two calls of [`Turns::next`] that return, with at least [`TURN_BYTES`]
//! noted between them, the core enters the driver twice. Tasks get their turns in the order in
//! which they asked. A task waits for the turns before its own and for the driver, and for
//! nothing else. A dropped wait leaves nothing behind. What can go wrong: a task that awaits
//! something else within its turn computes without a turn when it is woken.
//!
//! Worth (2026-11-25, two CPUs, pushes over 32 connections): 790 to 850 MB/s; without turns 590 to
//! 640. With four connections there is no difference.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures_channel::oneshot;

use crate::Runtime;

/// Bytes that tasks look at before the core enters the driver. At about 2 ns a byte, a core
/// computes for a quarter of a millisecond; an entry costs some microseconds.
pub const TURN_BYTES: usize = 128 << 10;

/// The turns of one core. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    shared: Rc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes that tasks have looked at since the core entered the driver.
    noted_bytes: Cell<usize>,
    /// Whether a [`Change`] is out.
    is_changing: Cell<bool>,
    waiting: RefCell<VecDeque<oneshot::Sender<Change>>>,
}

/// The right to decide whose turn is next. Dropping it passes it on.
#[derive(Debug)]
struct Change {
    shared: Rc<Shared>,
}

impl Drop for Change {
    fn drop(&mut self) {
        while let Some(next) = self.shared.waiting.borrow_mut().pop_front() {
            // One that gets it and then waits no more passes it on in turn.
            if !next.is_canceled() {
                drop(next.send(Change { shared: Rc::clone(&self.shared) }));
                return;
            }
        }
        self.shared.is_changing.set(false);
    }
}

impl Turns {
    /// Waits for the caller's turn, which lasts until it awaits something.
    pub async fn next<R: Runtime>(&self, runtime: &R) {
        let _change = self.change().await;
        if self.shared.noted_bytes.get() >= TURN_BYTES {
            runtime.yield_now().await;
            runtime.yield_now().await;
            self.shared.noted_bytes.set(0);
        }
    }

    /// Counts bytes that the caller looks at in its turn.
    pub fn note(&self, bytes: usize) {
        let noted_bytes = &self.shared.noted_bytes;
        noted_bytes.set(noted_bytes.get().saturating_add(bytes));
    }

    async fn change(&self) -> Change {
        if !self.shared.is_changing.replace(true) {
            return Change { shared: Rc::clone(&self.shared) };
        }
        let (sender, receiver) = oneshot::channel();
        self.shared.waiting.borrow_mut().push_back(sender);
        let Ok(change) = receiver.await else {
            unreachable!("a sender waits in the queue until it has sent")
        };
        change
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::sim::Simulation;

    #[test]
    fn short_turns_share_an_entry_into_the_driver() {
        Simulation::new(1).block_on(|runtime| async move {
            let turns = Turns::default();
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..3 {
                for _ in 0..64 {
                    let mut next = pin!(turns.next(&runtime));
                    assert_eq!(next.as_mut().poll(&mut context), Poll::Ready(()));
                    turns.note(TURN_BYTES / 64);
                }
                let mut next = pin!(turns.next(&runtime));
                assert_eq!(next.as_mut().poll(&mut context), Poll::Pending, "in the driver");
                next.await;
            }
        });
    }

    #[test]
    fn who_learns_of_an_end_between_turns_can_begin_anew() {
        for seed in 0..20 {
            println!("seed {seed}");
            Simulation::new(seed).block_on(|runtime| async move {
                let (turns, ended) = (Turns::default(), Rc::new(Cell::new(0)));
                let (inner, counted) = (runtime.clone(), Rc::clone(&ended));
                drop(runtime.spawn(async move {
                    loop {
                        // Begins something that is over when the driver has been entered.
                        inner.yield_now().await;
                        counted.set(counted.get() + 1);
                    }
                }));
                for turn in 0..10 {
                    assert!(ended.get() >= turn, "{} in {turn} turns", ended.get());
                    turns.note(TURN_BYTES);
                    turns.next(&runtime).await;
                }
            });
        }
    }

    #[test]
    fn those_who_wait_no_more_hold_up_nobody() {
        Simulation::new(1).block_on(|runtime| async move {
            let turns = Turns::default();
            turns.note(TURN_BYTES);
            let mut context = Context::from_waker(Waker::noop());
            let mut first = Box::pin(turns.next(&runtime));
            assert_eq!(first.as_mut().poll(&mut context), Poll::Pending, "in the driver");
            let mut gone: Vec<_> = (0..100_000).map(|_| Box::pin(turns.next(&runtime))).collect();
            for waiting in &mut gone {
                assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
            }
            let mut last = pin!(turns.next(&runtime));
            assert_eq!(last.as_mut().poll(&mut context), Poll::Pending);
            // One of them has been given the turn, the others are in the queue.
            drop(first);
            drop(gone);
            last.await;
            assert!(!turns.shared.is_changing.get());
            assert!(turns.shared.waiting.borrow().is_empty());
        });
    }
}

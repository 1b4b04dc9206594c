//! Turns of the scans of one core.
//!
//! A scan yields after each slice, but if dozens of scans are under way, each of them a
//! slice long, everything else on the core waits for all their slices before it comes to
//! its turn: a push, which goes through the core's tasks several times, waited for a tenth
//! of a second. So only [`PLACES`] scans are ready to run at a time, and the others wait
//! here, in the order in which they came; who has had a slice goes to the end. The first
//! slice of a scan needs no place, so a query that is done within it waits for nobody.
//!
//! Guarantees: a place that is free while somebody waits is given away at once, to the one
//! that has waited longest; who stops waiting, or is dropped with a place, passes it on.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Scans that may be ready to run beside those in their first slice. One would leave the
/// core idle while it waits for the disk.
const PLACES: usize = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Cell<usize>,
    /// Never borrowed across a wake-up.
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Debug)]
struct Waiter {
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Waits,
    HasPlace,
    Gone,
}

impl Turns {
    /// Waits for a place.
    pub(super) fn take(&self) -> Wait<'_> {
        Wait { turns: self, waiter: None }
    }

    fn pass_on(&self) {
        loop {
            let Some(next) = self.waiting.borrow_mut().pop_front() else {
                self.taken.set(self.taken.get() - 1);
                return;
            };
            if next.state.get() == State::Waits {
                next.state.set(State::HasPlace);
                let waker = next.waker.borrow_mut().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
                return;
            }
        }
    }
}

/// The right to run slices. Dropping it lets the next one.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.pass_on();
    }
}

/// Waits for a place; may be dropped at any time.
#[derive(Debug)]
pub(super) struct Wait<'t> {
    turns: &'t Turns,
    waiter: Option<Rc<Waiter>>,
}

impl<'t> Future for Wait<'t> {
    type Output = Turn<'t>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Turn<'t>> {
        let turns = self.turns;
        match &self.waiter {
            Some(waiter) if waiter.state.get() == State::HasPlace => {
                self.waiter = None;
                return Poll::Ready(Turn { turns });
            }
            Some(waiter) => *waiter.waker.borrow_mut() = Some(cx.waker().clone()),
            // Whoever waits has been passed over by nobody: places go to the first in line.
            None if turns.taken.get() < PLACES => {
                turns.taken.set(turns.taken.get() + 1);
                return Poll::Ready(Turn { turns });
            }
            None => {
                let waker = RefCell::new(Some(cx.waker().clone()));
                let waiter = Rc::new(Waiter { state: Cell::new(State::Waits), waker });
                turns.waiting.borrow_mut().push_back(Rc::clone(&waiter));
                self.waiter = Some(waiter);
            }
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.state.replace(State::Gone) == State::HasPlace {
            self.turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<'t>(wait: &mut Wait<'t>) -> Option<Turn<'t>> {
        match Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    #[test]
    fn places_go_round_in_the_order_of_waiting() {
        let turns = Turns::default();
        let mut taken: Vec<Turn<'_>> =
            (0..PLACES).map(|_| poll(&mut turns.take()).expect("a free place")).collect();
        let mut waits: Vec<Wait<'_>> = (0..4).map(|_| turns.take()).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        // One that was given a place goes away, and one that was not.
        taken.pop();
        drop(waits.remove(0));
        drop(waits.remove(1));
        let first = poll(&mut waits[0]).expect("the place was passed on");
        assert!(poll(&mut waits[1]).is_none());
        drop(first);
        let second = poll(&mut waits[1]).expect("the last one's turn");
        // Who comes anew goes to the end.
        let mut again = turns.take();
        assert!(poll(&mut again).is_none());
        drop(second);
        taken.extend(poll(&mut again));
        assert_eq!(taken.len(), PLACES);
        drop(taken);
        assert_eq!(turns.taken.get(), 0);
        assert!(turns.waiting.borrow().is_empty());
    }
}

//! Lets the tasks of one core take turns.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Something that one task at a time may do.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// The turn; ends when dropped.
#[derive(Debug)]
pub(super) struct Turn<'t>(&'t Turns);

impl Turns {
    /// Waits until nobody else has the turn.
    pub(super) async fn take(&self) -> Turn<'_> {
        poll_fn(|context| {
            if self.taken.replace(true) {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(Turn(self))
            }
        })
        .await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        // All of them: one may have given up, and turns are rare.
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

//! Wakes the one task that waits for a change, on the same core.
//!
//! A signal that is given while nobody waits is kept for the next wait. Several signals in a row
//! may be seen as one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

#[derive(Debug, Default)]
pub(super) struct Signal {
    is_set: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Signal {
    /// Gives the signal.
    pub(super) fn set(&self) {
        self.is_set.set(true);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the next signal. May be dropped.
    pub(super) async fn wait(&self) {
        poll_fn(|context| {
            if self.is_set.replace(false) {
                return Poll::Ready(());
            }
            self.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

//! A lock among the tasks of one core.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Lets one task at a time do something.
#[derive(Debug, Default)]
pub(super) struct TaskLock {
    taken: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct TaskGuard<'l>(&'l TaskLock);

impl TaskLock {
    /// Waits until no other task holds the lock.
    pub(super) async fn lock(&self) -> TaskGuard<'_> {
        poll_fn(|context| {
            if self.taken.replace(true) {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(TaskGuard(self))
            }
        })
        .await
    }
}

impl Drop for TaskGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        // All of them: one may have given up, and waiting is rare.
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

//! Wakes a task of the same core. One task listens.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A ring before or while somebody listens is heard once.
#[derive(Debug, Default)]
pub(super) struct Bell {
    is_rung: Cell<bool>,
    listener: RefCell<Option<Waker>>,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.is_rung.set(true);
        let listener = self.listener.take();
        if let Some(waker) = listener {
            waker.wake();
        }
    }

    pub(super) async fn heard(&self) {
        poll_fn(|context| {
            if self.is_rung.replace(false) {
                return Poll::Ready(());
            }
            self.listener.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

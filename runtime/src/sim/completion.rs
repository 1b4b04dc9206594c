//! One result on its way from an event to the future that waits for it.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Slot<T> {
    result: Cell<Option<T>>,
    waker: Cell<Option<Waker>>,
}

/// The end that receives the result. Dropping it drops the result on arrival.
pub(super) struct Completion<T> {
    slot: Rc<Slot<T>>,
}

/// The end that gives the result. Dropped without one, the receiver waits for
/// ever: that happens only when its node has crashed.
pub(super) struct Completer<T> {
    slot: Rc<Slot<T>>,
}

pub(super) fn completion<T>() -> (Completer<T>, Completion<T>) {
    let slot = Rc::new(Slot { result: Cell::new(None), waker: Cell::new(None) });
    (Completer { slot: Rc::clone(&slot) }, Completion { slot })
}

impl<T> Completer<T> {
    pub(super) fn complete(self, result: T) {
        self.slot.result.set(Some(result));
        if let Some(waker) = self.slot.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Completion<T> {
    pub(super) fn take(&self) -> Option<T> {
        self.slot.result.take()
    }
}

impl<T> Future for Completion<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.slot.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.slot.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

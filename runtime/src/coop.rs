//! Cooperative scheduling of sockets: a socket that never has to wait still lets other tasks
//! run.
//!
//! On epoll and on glommio a read or write that is possible at once does not leave the task, and
//! neither does accepting on any backend. A fast peer could keep a core to itself. So each
//! socket counts the operations that did not wait, and yields when its budget is spent.
//!
//! This bounds how long one peer keeps others waiting. It is no matter of speed: pushes over four
//! connections on io_uring are as fast without it (2026-11-25).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Operations in a row that need no yield between them.
const COOP_OPERATIONS: u32 = 32;

#[derive(Default)]
pub(crate) struct CoopBudget {
    done: Cell<u32>,
}

impl CoopBudget {
    /// Whether the caller has to yield before its next operation. If so, the budget is full
    /// again.
    pub(crate) fn is_spent(&self) -> bool {
        if self.done.get() < COOP_OPERATIONS {
            return false;
        }
        self.done.set(0);
        true
    }

    /// Counts an operation that did not wait.
    pub(crate) fn add(&self) {
        self.done.set(self.done.get() + 1);
    }

    /// Runs `operation` and counts it, or refills the budget if it waits.
    pub(crate) async fn count<O: Future>(&self, operation: O) -> O::Output {
        let mut operation = pin!(operation);
        self.add();
        poll_fn(|cx| {
            let poll = operation.as_mut().poll(cx);
            if poll.is_pending() {
                self.done.set(0);
            }
            poll
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::Poll;

    use super::*;
    use crate::testing::block_on;

    #[test]
    fn only_waiting_or_yielding_refills_the_budget() {
        let coop = CoopBudget::default();
        for _ in 0..2 {
            for _ in 0..COOP_OPERATIONS {
                assert!(!coop.is_spent());
                block_on(coop.count(ready(())));
            }
            assert!(coop.is_spent());
        }
        for _ in 0..COOP_OPERATIONS - 1 {
            coop.add();
        }
        let mut waited = false;
        block_on(coop.count(poll_fn(|cx| {
            if waited {
                return Poll::Ready(());
            }
            waited = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
        assert!(!coop.is_spent());
    }
}

//! Fairness between sockets: a socket that never has to wait must still let
//! others run.
//!
//! On epoll and on glommio a read or write that can be done at once is done
//! without leaving the task, and accepting is like that everywhere. A fast peer
//! could then keep a core to itself. So each socket counts what it did in a row
//! without waiting, and yields when that gets long.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// Operations in a row that need no yield between them.
const LONGEST_STREAK: u32 = 32;

#[derive(Default)]
pub(crate) struct Streak {
    done: Cell<u32>,
}

impl Streak {
    /// To be asked before an operation: whether to yield first. The count
    /// starts anew then.
    pub(crate) fn is_over(&self) -> bool {
        if self.done.get() < LONGEST_STREAK {
            return false;
        }
        self.done.set(0);
        true
    }

    /// Counts an operation that did not wait.
    pub(crate) fn add(&self) {
        self.done.set(self.done.get() + 1);
    }

    /// Runs `operation` and counts it, or ends the streak if it waits.
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
    fn only_waiting_or_yielding_ends_a_streak() {
        let streak = Streak::default();
        for _ in 0..2 {
            for _ in 0..LONGEST_STREAK {
                assert!(!streak.is_over());
                block_on(streak.count(ready(())));
            }
            assert!(streak.is_over());
        }
        for _ in 0..LONGEST_STREAK - 1 {
            streak.add();
        }
        let mut waited = false;
        block_on(streak.count(poll_fn(|cx| {
            if waited {
                return Poll::Ready(());
            }
            waited = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
        assert!(!streak.is_over());
    }
}

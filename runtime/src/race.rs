//! A deadline beside an operation that must not be dropped midway.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Drives `operation` until it is done, or until `sleep` is over: then `None`,
/// and `operation` is still alive. The caller decides how it ends, because a
/// completion ring may own its buffer until then.
///
/// The timer comes into being only when the operation has to wait.
pub(crate) async fn race<O, S>(
    mut operation: Pin<&mut O>,
    sleep: impl FnOnce() -> S,
) -> Option<O::Output>
where
    O: Future,
    S: Future<Output = ()>,
{
    let first = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await;
    if let Poll::Ready(output) = first {
        return Some(output);
    }
    let mut sleep = pin!(sleep());
    poll_fn(|cx| {
        if let Poll::Ready(output) = operation.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;
    use crate::testing::block_on;

    #[test]
    fn a_ready_operation_needs_no_timer() {
        let timers = Cell::new(0);
        let outcome = block_on(race(pin!(ready(7)), || {
            timers.set(timers.get() + 1);
            pending()
        }));
        assert_eq!((outcome, timers.get()), (Some(7), 0));
    }

    #[test]
    fn a_passed_deadline_leaves_the_operation_alive() {
        let polls = Cell::new(0);
        let mut operation = pin!(poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() > 2 { Poll::Ready(9) } else { Poll::Pending }
        }));
        assert_eq!(block_on(race(operation.as_mut(), || ready(()))), None);
        assert_eq!(block_on(operation), 9);
    }
}

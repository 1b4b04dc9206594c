//! How a task of a group waits.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use logsvc_runtime::Latch;

/// The output of a future, unless the latch is triggered before.
pub(super) async fn unless<F: Future>(ended: &Latch, future: F) -> Option<F::Output> {
    let (mut ended, mut future) = (pin!(ended.wait()), pin!(future));
    poll_fn(|context| {
        if ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// A sleep before the evaluation of a rule, of the same length each time.
pub(super) fn jitter(hash: u64, most: Duration) -> Duration {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(if most_ns == 0 { 0 } else { hash % most_ns })
}

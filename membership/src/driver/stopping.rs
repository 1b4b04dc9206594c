//! Waits that end when the node stops.

use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use logsvc_runtime::Latch;

/// Waits for something, or until the node stops: then `None`. What is waited for may be dropped.
pub(super) async fn unless_stopped<T>(waiting: impl Future<Output = T>, stop: &Latch) -> Option<T> {
    match select(pin!(waiting), pin!(stop.wait())).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

//! Asks all shards and gathers their answers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use logsvc_http::Disconnect;
use logsvc_proto::error::ApiError;
use logsvc_runtime::mesh::{LaneFull, PendingReply};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::messages::{Cancellation, ShardReply, ShardRequest};

use super::Front;
use crate::metrics::add;

impl<R: Runtime> Front<R> {
    /// Sends a request to one shard. A full lane refuses at once.
    pub(super) fn ask(
        &self,
        shard: CoreId,
        request: ShardRequest,
    ) -> Result<PendingReply<ShardReply>, ApiError> {
        self.caller.call(shard, request).map_err(|LaneFull { .. }| {
            add(&self.counters().lane_full, 1);
            ApiError::too_many_requests("too many outstanding requests", 1)
        })
    }

    /// Sends a request to every shard.
    pub(super) fn ask_all(
        &self,
        mut request: impl FnMut() -> ShardRequest,
    ) -> Result<Vec<PendingReply<ShardReply>>, ApiError> {
        let shards = (0..self.runtime.core_count()).map(CoreId);
        shards.map(|shard| self.ask(shard, request())).collect()
    }

    /// Sends a request to every shard and waits for all answers.
    pub(super) async fn gather(
        &self,
        request: impl FnMut() -> ShardRequest,
    ) -> Result<Vec<ShardReply>, ApiError> {
        let mut replies = Vec::new();
        for reply in self.ask_all(request)? {
            replies.push(reply.await.map_err(|_| shard_gone())?);
        }
        Ok(replies)
    }

    /// Runs `work` until it ends, its time is up, or the client goes away; then
    /// the shards are told to stop.
    pub(super) async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, ApiError>>,
        cancellation: &Cancellation,
        disconnect: &Disconnect,
        timeout: Option<Duration>,
    ) -> Result<T, ApiError> {
        let mut work = pin!(work);
        let mut gone = pin!(disconnect.wait());
        let mut late = pin!(async {
            match timeout {
                Some(timeout) => {
                    let deadline = self.runtime.now().after(timeout);
                    self.runtime.sleep_until(deadline).await;
                }
                None => std::future::pending().await,
            }
        });
        let outcome = poll_fn(|context| {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(result);
            }
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(ApiError::query_timeout()));
            }
            if gone.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(client_gone()));
            }
            Poll::Pending
        })
        .await;
        if outcome.is_err() {
            cancellation.cancel();
        }
        outcome
    }
}

/// A shard that does not answer any more: the node is going down.
pub(super) fn shard_gone() -> ApiError {
    ApiError::unavailable("a shard of this node is not running")
}

/// Nobody reads this answer; it is counted under its status.
fn client_gone() -> ApiError {
    let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
    ApiError::new(status, "the request was cancelled by the client")
}

//! Requests to all shards.

use std::time::Duration;

use futures_util::future::join_all;
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{CoreId, Runtime};

use crate::messages::{ShardReply, ShardRequest};

/// When the lane to a shard is full.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// A shard has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// The lanes to all shards.
#[derive(Clone)]
pub(crate) struct Lanes<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) caller: Caller<ShardRequest, ShardReply>,
}

impl<R: Runtime> Lanes<R> {
    /// Asks all shards at once and waits for all, by their numbers.
    pub(crate) async fn ask_all(
        &self,
        request: impl Fn() -> ShardRequest,
    ) -> Result<Vec<ShardReply>, Stopped> {
        let shards = (0..self.runtime.core_count()).map(CoreId);
        let replies = join_all(shards.map(|shard| self.ask(shard, &request))).await;
        replies.into_iter().collect()
    }

    /// Asks a shard and waits for it.
    pub(crate) async fn ask(
        &self,
        shard: CoreId,
        request: &impl Fn() -> ShardRequest,
    ) -> Result<ShardReply, Stopped> {
        let mut next = request();
        loop {
            match self.caller.call(shard, next) {
                Ok(reply) => return reply.await.map_err(|_| Stopped),
                // The shard gets through its requests.
                Err(full) => next = full.request,
            }
            self.runtime.sleep_until(self.runtime.now().after(RETRY_AFTER)).await;
        }
    }
}

//! Asks the shards, the keeper of the requests for deletion and the ruler, and gathers their answers.

use logsvc_cluster::member::Answer;
use logsvc_proto::error::ApiError;
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::mesh::{LaneFull, PendingReply};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::deletion::{DeletionReply, DeletionRequest, RemovalReport};
use logsvc_shards::messages::{ShardReply, ShardRequest};

use super::Core;
use super::errors::{node_stopping, shard_gone, too_busy};
use crate::cluster::MemberRequest;
use crate::metrics::Metric;

impl<R: Runtime> Core<R> {
    /// Sends a request to one shard. A full lane refuses at once.
    pub(crate) fn ask(
        &self,
        shard: CoreId,
        request: ShardRequest,
    ) -> Result<PendingReply<ShardReply>, ApiError> {
        self.lanes.call(shard, request).map_err(|LaneFull { .. }| {
            self.counters().numbers.add(Metric::LaneFull, 1);
            too_busy()
        })
    }

    /// Sends a request to every shard.
    pub(crate) fn ask_all(
        &self,
        mut request: impl FnMut() -> ShardRequest,
    ) -> Result<Vec<PendingReply<ShardReply>>, ApiError> {
        let shards = (0..self.runtime.core_count()).map(CoreId);
        shards.map(|shard| self.ask(shard, request())).collect()
    }

    /// Sends a request to the keeper of the requests for deletion, and waits for the answer.
    pub(crate) async fn ask_keeper(
        &self,
        request: DeletionRequest,
    ) -> Result<DeletionReply, ApiError> {
        let reply = self.keeper.call(CoreId(0), request).map_err(|LaneFull { .. }| {
            self.counters().numbers.add(Metric::LaneFull, 1);
            too_busy()
        })?;
        reply.await.map_err(|_| node_stopping())
    }

    /// What this node, as one of many, has removed for requests for deletion; `None` if it is stopping.
    pub(crate) async fn removal_report(&self) -> Option<RemovalReport> {
        match self.ask_keeper(DeletionRequest::Removed).await {
            Ok(DeletionReply::Removed(report)) => Some(report),
            _ => None,
        }
    }

    /// Sends a request to the ruler, and waits for the answer.
    pub(crate) async fn ask_ruler(&self, request: RulesRequest) -> Result<RulesReply, ApiError> {
        let reply = self.ruler.call(CoreId(0), request).map_err(|LaneFull { .. }| {
            self.counters().numbers.add(Metric::LaneFull, 1);
            too_busy()
        })?;
        reply.await.map_err(|_| node_stopping())
    }

    /// What the member says; `None` if it is too busy, or has ended.
    pub(crate) async fn ask_member(&self, request: MemberRequest) -> Option<Answer> {
        self.member.call(CoreId(0), request).ok()?.await.ok()
    }

    /// Tells the member that somebody knows the map of this number.
    pub(crate) fn tell_heard(&self, number: u64) {
        // Without room it hears it from others.
        drop(self.member.call(CoreId(0), MemberRequest::Heard { number }));
    }

    /// Tells the log of common files that somebody knows the entry of this number.
    pub(crate) fn tell_common(&self, number: u64) {
        drop(self.member.call(CoreId(0), MemberRequest::HeardCommon { number }));
    }

    /// Sends a request to every shard and waits for all answers.
    pub(crate) async fn gather(
        &self,
        request: impl FnMut() -> ShardRequest,
    ) -> Result<Vec<ShardReply>, ApiError> {
        let mut replies = Vec::new();
        for reply in self.ask_all(request)? {
            replies.push(reply.await.map_err(|_| shard_gone())?);
        }
        Ok(replies)
    }
}

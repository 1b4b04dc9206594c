//! What the shards of this node answer as the owners of their partitions, for this node or for others.
//!
//! Guarantees: the shards have taken their snapshots between two instants at which the node was the
//! owner of all of its partitions by the map that was asked for. When the answer is there, the bucket has
//! all entries that it has: they cannot get lost any more.

use std::time::Duration;

use logsvc_cluster::member::Answer;
use logsvc_peers::question::{Asked, Found, Question, Streams};
use logsvc_proto::error::ApiError;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::{Grant, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{ShardReply, ShardRequest, StreamSelection};
use logsvc_shards::scan::{LeafRequest, stop_of};

use super::Bounds;
use crate::cluster::MemberRequest;
use crate::front::core::errors::shard_gone;
use crate::front::query::Querier;
use crate::front::query::errors::stopped;
use crate::front::query::leaves::{LeafError, gather_leaves};

/// How often an answer looks whether the bucket has what it needs. The log brings it there each 250 ms.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What this node says to a question.
#[derive(Debug)]
pub(crate) enum HereReply {
    /// What its shards have found, and the memory of that.
    Found(Box<Found>, Grant),
    /// It knows the map of this number.
    Newer(u64),
    /// It knows this version of the requests for deletion, which is later than the question's.
    Hides(DeletionVersion),
    /// It cannot answer now.
    Wait,
    /// It does not own the partitions.
    NotOwner,
}

impl<R: Runtime> Querier<R> {
    /// Answers a question by the map of this number.
    ///
    /// # Errors
    /// A part of it has failed, or there is no memory for it.
    pub(crate) async fn answer_here(
        &self,
        question: &Question,
        number: u64,
        bounds: &Bounds,
    ) -> Result<HereReply, ApiError> {
        match self.core.ask_member(MemberRequest::MayAnswer { number }).await {
            Some(Answer::Yes) => {}
            Some(Answer::Newer(number)) => return Ok(HereReply::Newer(number)),
            Some(Answer::NotOwner) => return Ok(HereReply::NotOwner),
            Some(Answer::ReadOn | Answer::Unproven | Answer::Wait) | None => {
                return Ok(HereReply::Wait);
            }
        }
        match self.hides_by(question.deletions, number) {
            Hides::Equally => {}
            Hides::Later(version) => return Ok(HereReply::Hides(version)),
            Hides::Unknown => return Ok(HereReply::Wait),
        }
        let mut replies = Vec::new();
        for request in self.requests(question, bounds) {
            replies.extend(self.core.ask_all(request)?);
        }
        // A shard takes the requests of a core in their order. When it has answered this one, it has
        // made the snapshots of those before.
        self.core.gather(|| ShardRequest::Reach).await?;
        let sink = self.core.cluster().and_then(|cluster| cluster.sink.as_ref());
        let mark = sink.map(|sink| sink.sent());
        if self.core.ask_member(MemberRequest::StillMay { number }).await != Some(Answer::Yes) {
            return Ok(HereReply::Wait);
        }
        let (found, memory) = match &question.asked {
            Asked::Leaves(_) => self.leaves(replies, bounds).await?,
            Asked::LabelNames(_) | Asked::LabelValues(..) | Asked::Series(_) => {
                lists(replies, bounds).await?
            }
        };
        // Otherwise an heir could lack an entry that this answer had.
        while let (Some(sink), Some(mark)) = (sink, &mark)
            && !sink.is_confirmed(mark)
        {
            if sink.numbers().is_lost {
                return Ok(HereReply::NotOwner);
            }
            self.core.runtime.sleep_until(self.core.runtime.now().after(LOOK_INTERVAL)).await;
        }
        Ok(HereReply::Found(Box::new(found), memory))
    }

    /// Whether this node hides what a version of the requests for deletion hides, by the map of this
    /// number. The keeper of the requests is among the owners that are asked, so an answer of all of
    /// them is by the newest version.
    fn hides_by(&self, wanted: DeletionVersion, number: u64) -> Hides {
        if wanted == DeletionVersion::NONE {
            return Hides::Equally;
        }
        let (Some(cluster), Some(routes)) = (self.core.cluster(), self.core.routes()) else {
            return Hides::Unknown;
        };
        if routes.number != number {
            return Hides::Unknown;
        }
        if let Some(since) = routes.keeper_since
            && !cluster.common.get().keeps(since)
        {
            return Hides::Unknown;
        }
        let known = self.core.node.deletions.version();
        if known < wanted {
            self.core.tell_common(wanted.common_number());
            return Hides::Unknown;
        }
        if known > wanted { Hides::Later(known) } else { Hides::Equally }
    }

    /// What the shards of this node list, if there are no others.
    ///
    /// # Errors
    /// As for [`Querier::answer_here`].
    pub(crate) async fn list_here(
        &self,
        question: &Question,
        bounds: &Bounds,
    ) -> Result<(Found, Grant), ApiError> {
        let mut replies = Vec::new();
        for request in self.requests(question, bounds) {
            replies.extend(self.core.ask_all(request)?);
        }
        lists(replies, bounds).await
    }

    /// What makes the requests to each shard, one behind the other.
    fn requests<'q>(
        &self,
        question: &'q Question,
        bounds: &'q Bounds,
    ) -> Vec<Box<dyn FnMut() -> ShardRequest + 'q>> {
        let selection = move |streams: &Streams| StreamSelection {
            tenants: question.tenants.clone(),
            matcher_groups: streams.matcher_groups.clone(),
            range: streams.range,
            account: bounds.account.clone(),
            cancellation: bounds.cancellation.clone(),
        };
        match &question.asked {
            Asked::Leaves(leaves) => {
                let of = |plan| -> Box<dyn FnMut() -> ShardRequest> {
                    Box::new(move || {
                        ShardRequest::Leaf(LeafRequest {
                            tenants: question.tenants.clone(),
                            plan: std::sync::Arc::clone(plan),
                            deletions: question.deletions,
                            cancellation: bounds.cancellation.clone(),
                            account: bounds.account.clone(),
                            entries_each: question.entries_each,
                        })
                    })
                };
                leaves.iter().map(of).collect()
            }
            Asked::LabelNames(streams) => {
                vec![Box::new(move || ShardRequest::LabelNames(selection(streams)))]
            }
            Asked::LabelValues(streams, name) => {
                vec![Box::new(move || ShardRequest::LabelValues(selection(streams), name.clone()))]
            }
            Asked::Series(streams) => {
                vec![Box::new(move || ShardRequest::Series(selection(streams)))]
            }
        }
    }

    async fn leaves(
        &self,
        replies: Vec<PendingReply<ShardReply>>,
        bounds: &Bounds,
    ) -> Result<(Found, Grant), ApiError> {
        let cores = self.core.runtime.core_count();
        let ask = |core, request| self.core.ask(core, request);
        let gathered = gather_leaves(ask, cores, replies, bounds.account.grant()).await?;
        let (parts, memory, stats) = gathered.into_parts();
        Ok((Found { parts, stats, ..Found::default() }, memory))
    }
}

/// What this node knows of a version of the requests for deletion.
enum Hides {
    /// It is the one in force.
    Equally,
    /// This one is in force, which is later.
    Later(DeletionVersion),
    /// It has to learn more first.
    Unknown,
}

async fn lists(
    replies: Vec<PendingReply<ShardReply>>,
    bounds: &Bounds,
) -> Result<(Found, Grant), ApiError> {
    let mut found = Found::default();
    for reply in replies {
        match reply.await.map_err(|_| shard_gone())? {
            ShardReply::Texts(texts, parts) => {
                found.texts.extend(texts);
                found.unreadable_parts += parts;
            }
            ShardReply::Series(series, parts) => {
                found.series.extend(series);
                found.unreadable_parts += parts;
            }
            ShardReply::Unlisted(error) => return Err(LeafError::Scan(error).into()),
            _ => return Err(shard_gone()),
        }
    }
    let mut memory = bounds.account.grant();
    let held = found.held_bytes() as u64;
    memory.grow(held).map_err(|denied| stopped(stop_of(denied)))?;
    Ok((found, memory))
}

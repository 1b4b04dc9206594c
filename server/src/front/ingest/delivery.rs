//! Brings batches to whoever owns their streams, if this node is one of many.
//!
//! Guarantees: a batch counts as stored only when owners have said so of all its entries. Partitions
//! that go from one node to another meanwhile are followed. Entries are a set, so one that is sent twice,
//! because the first reply was lost, counts once.
//!
//! What can go wrong: a partition has no owner that takes entries. The push waits for [`PATIENCE`], in
//! the memory that it has; then the client hears that it shall come again.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, LocalBoxFuture, select};
use logsvc_cluster::map::Epoch;
use logsvc_peers::frame::{Addressee, Failure};
use logsvc_peers::push::{Push, PushReply};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_segment::batch::checked_sections;
use logsvc_shards::messages::{AppendOutcome, AppendRequest, ShardReply, ShardRequest};
use logsvc_shards::types::StreamDefinition;

use super::Ingest;
use super::outcome::{Took, took};
use super::stream_cache::CachedStream;
use crate::front::core::Core;
use crate::front::core::errors::node_stopping;
use crate::front::core::targets::{Target, Targets};
use crate::front::query::owners::api_error;

/// How long a push waits for an owner. Clients give up after ten seconds and more, and come again.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an owner may take to store a batch: its bucket may be slow.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The first pause before a batch is sent again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(250);

impl<R: Runtime> Ingest<R> {
    /// Brings a batch of these streams to their owners. It goes on if the result is dropped.
    pub(super) fn deliver(
        &self,
        tenant: &TenantId,
        append: AppendRequest,
        streams: &[Rc<CachedStream>],
    ) -> LocalBoxFuture<'static, Result<AppendOutcome, ApiError>> {
        let definitions = streams.iter().map(|stream| stream.definition(tenant)).collect();
        let delivery = Delivery {
            core: Rc::clone(&self.core),
            definitions,
            outcome: AppendOutcome {
                accepted: 0,
                too_far_behind: Vec::new(),
                refused_streams: Vec::new(),
                over_limit: Vec::new(),
            },
        };
        let task = self.core.runtime.spawn(delivery.run(append));
        Box::pin(task)
    }
}

/// A batch on its way.
struct Delivery<R: Runtime> {
    core: Rc<Core<R>>,
    /// Of all of its streams.
    definitions: Vec<StreamDefinition>,
    outcome: AppendOutcome,
}

/// What became of a part of a batch.
enum Sent {
    Stored(AppendOutcome),
    /// The owner does not know a stream that was not defined.
    Unknown(AppendRequest),
    /// The target does not take it, or has not answered. The number of a map that may tell more.
    Again(AppendRequest, Option<u64>),
}

impl<R: Runtime> Delivery<R> {
    async fn run(mut self, append: AppendRequest) -> Result<AppendOutcome, ApiError> {
        let give_up = self.core.runtime.now().after(PATIENCE);
        let (mut due, mut pause) = (vec![append], PAUSE_MIN);
        loop {
            let (targets, routes) = (self.core.targets(), self.core.routes());
            let number = routes.map_or(0, |routes| routes.number);
            let mut again = Vec::new();
            for append in due {
                for (to, part) in split(append, &targets) {
                    self.bring(to, number, part, &mut again).await?;
                }
            }
            if again.is_empty() {
                self.outcome.refused_streams.sort_unstable_by_key(|(stream, _)| *stream);
                self.outcome.over_limit.sort_unstable_by_key(|(stream, _)| *stream);
                return Ok(self.outcome);
            }
            if self.core.cluster().is_some_and(|cluster| cluster.ended.is_triggered()) {
                return Err(node_stopping());
            }
            if self.core.runtime.now() >= give_up {
                return Err(no_owner());
            }
            self.await_change(number, pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            due = again;
        }
    }

    /// Brings a part to its target, as often as it takes to tell it about the streams.
    async fn bring(
        &mut self,
        to: Target,
        number: u64,
        part: AppendRequest,
        again: &mut Vec<AppendRequest>,
    ) -> Result<(), ApiError> {
        let mut part = part;
        loop {
            let sent = match to {
                Target::Shard(core) => self.to_shard(core, part).await?,
                Target::Node(node) => self.to_node(node, number, part).await?,
                Target::Nobody => Sent::Again(part, None),
            };
            match sent {
                Sent::Stored(outcome) => {
                    add(&mut self.outcome, outcome);
                    return Ok(());
                }
                Sent::Unknown(append) => part = self.with_definitions(append)?,
                Sent::Again(append, look) => {
                    if let Some(look) = look {
                        self.core.tell_heard(look);
                    }
                    again.push(append);
                    return Ok(());
                }
            }
        }
    }

    async fn to_shard(&self, shard: CoreId, append: AppendRequest) -> Result<Sent, ApiError> {
        let reply = self.core.ask(shard, ShardRequest::Append(append))?.await;
        if let Ok(ShardReply::Unknown(append)) = reply {
            return Ok(Sent::Unknown(*append));
        }
        Ok(match took(&self.core, shard, reply)? {
            Took::Stored(outcome) => Sent::Stored(outcome),
            Took::Elsewhere(append) => Sent::Again(append, None),
        })
    }

    async fn to_node(
        &self,
        node: Epoch,
        number: u64,
        append: AppendRequest,
    ) -> Result<Sent, ApiError> {
        let peers = self.core.peers.get().ok_or_else(node_stopping)?;
        let routes = self.core.routes().ok_or_else(node_stopping)?;
        let Some(info) = routes.map.members.get(&node) else {
            return Ok(Sent::Again(append, Some(number + 1)));
        };
        let message =
            Bytes::from(Push { to: Addressee { writer: node.0, number }, append }.encode());
        let reply = {
            let pushing = pin!(peers.push(&info.address, message.clone(), STORE_TIMEOUT));
            match select(pushing, pin!(self.taken_over(node))).await {
                Either::Left((reply, _)) => Some(reply),
                // It may never answer.
                Either::Right(_) => None,
            }
        };
        // The batch again, if it is needed. Nobody else holds the message by then.
        let back = || {
            let push = Push::decode(Vec::from(message));
            push.map(|push| push.append).map_err(|error| ApiError::internal(error.to_string()))
        };
        let Some(reply) = reply else { return Ok(Sent::Again(back()?, None)) };
        Ok(match reply {
            Ok(PushReply::Stored(outcome)) => Sent::Stored(outcome),
            Ok(PushReply::Unknown) => Sent::Unknown(back()?),
            Ok(PushReply::Elsewhere { newest }) => Sent::Again(back()?, Some(newest)),
            // It stops, or its bucket is away. Perhaps it is about to lose the partition.
            Ok(PushReply::Failed(Failure { status: 503, .. })) => {
                Sent::Again(back()?, Some(number + 1))
            }
            Ok(PushReply::Failed(failure)) => return Err(api_error(failure)),
            Err(error) => {
                tracing::debug!(node = %info.name, "a node has not answered a push: {error}");
                Sent::Again(back()?, Some(number + 1))
            }
        })
    }

    /// Ends when a node is no member any more, or this one is none.
    async fn taken_over(&self, node: Epoch) {
        let cluster = self.core.cluster();
        match cluster.and_then(|cluster| Some((cluster.routes()?, cluster.ended.wait()))) {
            Some((routes, ended)) => {
                let gone = routes.when(|routes| !routes.map.members.contains_key(&node));
                select(pin!(gone), ended).await;
            }
            None => std::future::pending().await,
        }
    }

    /// A batch with the definitions of all its streams.
    fn with_definitions(&self, append: AppendRequest) -> Result<AppendRequest, ApiError> {
        let had = append.definitions.len();
        let has = |definition: &&StreamDefinition| {
            checked_sections(&append.batch)
                .map_while(Result::ok)
                .any(|section| section.stream == definition.id)
        };
        let definitions: Vec<_> = self.definitions.iter().filter(has).cloned().collect();
        if definitions.len() <= had {
            // It has said that it does not know what it was told.
            return Err(ApiError::internal("the owner of a stream does not know it"));
        }
        Ok(AppendRequest { definitions, ..append })
    }

    /// Waits for a map with a higher number, for a while.
    async fn await_change(&self, number: u64, pause: Duration) {
        let timer = pin!(self.core.runtime.sleep_until(self.core.runtime.now().after(pause)));
        match self.core.cluster().and_then(|cluster| cluster.routes()) {
            Some(routes) => {
                let newer = pin!(routes.when(|routes| routes.number > number));
                select(newer, timer).await;
            }
            None => timer.await,
        }
    }
}

/// The parts of a batch that was checked, by their targets. A batch for one target is not copied.
pub(crate) fn split(append: AppendRequest, targets: &Targets) -> Vec<(Target, AppendRequest)> {
    let mut parts: Vec<Option<Vec<u8>>> = vec![None; targets.list().len()];
    let mut rest = checked_sections(&append.batch);
    let mut places = rest.clone().map_while(Result::ok).map(|one| targets.place_of(one.stream));
    if let Some(first) = places.next()
        && places.all(|place| place == first)
    {
        return vec![(targets.list()[first], append)];
    }
    // A section is whole in itself.
    let mut start = 0;
    while let Some(Ok(section)) = rest.next() {
        let part = parts[targets.place_of(section.stream)].get_or_insert_default();
        part.extend_from_slice(&append.batch[start..rest.offset()]);
        start = rest.offset();
    }
    let mut split = Vec::new();
    for (place, batch) in parts.into_iter().enumerate() {
        let Some(batch) = batch else { continue };
        let is_here = |definition: &&StreamDefinition| targets.place_of(definition.id) == place;
        let definitions = append.definitions.iter().filter(is_here).cloned().collect();
        let AppendRequest { out_of_order_window_ns, is_replayed, .. } = append;
        let part = AppendRequest { batch, definitions, out_of_order_window_ns, is_replayed };
        split.push((targets.list()[place], part));
    }
    split
}

/// Adds the outcome of a part.
pub(crate) fn add(all: &mut AppendOutcome, part: AppendOutcome) {
    all.accepted += part.accepted;
    all.too_far_behind.extend(part.too_far_behind);
    all.refused_streams.extend(part.refused_streams);
    all.over_limit.extend(part.over_limit);
}

fn no_owner() -> ApiError {
    let text = "too many unhealthy instances in the ring: no node takes entries of some of the streams \
                now, since their owner is gone, or is giving them to another one";
    ApiError { retry_after_s: Some(1), ..ApiError::unavailable(text) }
}

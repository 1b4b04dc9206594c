//! Brings what ended writers have left into the shards of their heirs: as appends, so that it is in the
//! own log before anybody is told that it is there.
//!
//! Guarantees: when this ends, every entry of the heritage that no live segment has was acknowledged by
//! a shard, in the order of its stream. Entries that came meanwhile may stand before it. Entries are a
//! set, so what is replayed twice counts once.
//!
//! Memory: a few batches on their way, and what [`heritage::read`] says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use logsvc_cluster::map::{Epoch, Map};
use logsvc_runtime::{CoreId, Runtime};

use super::MemberError;
use super::jobs::{Gaining, Tools};
use crate::ledger::Union;
use crate::messages::{AppendError, AppendRequest, ShardReply, ShardRequest};
use crate::sink::heritage::{self, Heritage, HeritageBatch, HeritageError};
use crate::types::{OwnedPartitions, StreamPartitions};

/// Batches that are on their way to a shard.
const IN_FLIGHT: usize = 8;
/// The pause before an append is tried again that a shard has no room for.
const PAUSE: Duration = Duration::from_millis(100);

/// Why the replay of a log has to begin anew, or cannot go on.
enum ReplayError {
    Heritage(HeritageError),
    Member(MemberError),
}

impl From<HeritageError> for ReplayError {
    fn from(error: HeritageError) -> ReplayError {
        ReplayError::Heritage(error)
    }
}

/// Replays the heritages of partitions that shards have gained.
pub(super) async fn replay<R: Runtime>(
    tools: &Tools<R>,
    map: &Map,
    union: &Union,
    by_core: &BTreeMap<CoreId, Vec<&Gaining>>,
) -> Result<(), MemberError> {
    let of = tools.plan.layout().partitions();
    for (&core, gained) in by_core {
        let writers: BTreeSet<Epoch> = gained.iter().flat_map(|one| &one.from).copied().collect();
        for writer in writers {
            let concerned = gained.iter().filter(|one| one.from.contains(&writer));
            let wanted = OwnedPartitions::some(of, concerned.map(|one| one.partition));
            let wanted: StreamPartitions = wanted.parts().collect();
            // Without a number nothing of the log was ever needed.
            let Some(&from) = union.wal.get(&writer.0) else { continue };
            let Some(ends) = map.ended.get(&writer) else { continue };
            let heritage = Heritage { epoch: writer.0, from, end: ends.wal };
            while let Err(error) = replay_log(tools, heritage, union, &wanted, core).await {
                match error {
                    ReplayError::Member(error) => return Err(error),
                    ReplayError::Heritage(error) => tools.pause(&error).await,
                }
            }
        }
    }
    Ok(())
}

async fn replay_log<R: Runtime>(
    tools: &Tools<R>,
    heritage: Heritage,
    union: &Union,
    wanted: &StreamPartitions,
    core: CoreId,
) -> Result<(), ReplayError> {
    let covers = &union.stored.covers;
    let mut appends = Appends { tools, core, waiting: VecDeque::new() };
    let take = async |batch: HeritageBatch| appends.push(batch).await.map_err(ReplayError::Member);
    let totals =
        heritage::read(&tools.runtime, &tools.store, heritage, covers, wanted, take).await?;
    appends.finish().await.map_err(ReplayError::Member)?;
    if totals.entries > 0 {
        tracing::info!(
            writer = heritage.epoch,
            core = core.0,
            entries = totals.entries,
            objects = totals.objects,
            "replayed what an ended writer has left"
        );
    }
    Ok(())
}

/// Batches on their way to a shard, in their order.
struct Appends<'a, R: Runtime> {
    tools: &'a Tools<R>,
    core: CoreId,
    waiting: VecDeque<LocalBoxFuture<'a, Result<(), MemberError>>>,
}

impl<'a, R: Runtime> Appends<'a, R> {
    async fn push(&mut self, batch: HeritageBatch) -> Result<(), MemberError> {
        if self.waiting.len() >= IN_FLIGHT
            && let Some(first) = self.waiting.pop_front()
        {
            first.await?;
        }
        let mut append = Box::pin(append(self.tools, self.core, batch));
        // The request goes into the lane at the first poll, so that batches keep their order.
        if let std::task::Poll::Ready(ended) = futures_util::poll!(append.as_mut()) {
            return ended;
        }
        self.waiting.push_back(append);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), MemberError> {
        while let Some(first) = self.waiting.pop_front() {
            first.await?;
        }
        Ok(())
    }
}

/// Appends a batch, however long it takes.
async fn append<R: Runtime>(
    tools: &Tools<R>,
    core: CoreId,
    batch: HeritageBatch,
) -> Result<(), MemberError> {
    let request = || {
        ShardRequest::Append(AppendRequest {
            batch: batch.batch.clone(),
            definitions: batch.definitions.clone(),
            out_of_order_window_ns: None,
            is_replayed: true,
        })
    };
    loop {
        let failure = match tools.lanes.ask(core, &request).await? {
            ShardReply::Append(Ok(outcome)) if outcome.refused_streams.is_empty() => return Ok(()),
            ShardReply::Append(Ok(_)) => AppendError::HeadsFull,
            ShardReply::Append(Err(error @ AppendError::Stopping)) => {
                return Err(MemberError::Shards(Arc::from(error.to_string())));
            }
            ShardReply::Append(Err(error)) => error,
            // It has all definitions, and the shard owns their partitions.
            other => return Err(MemberError::Shards(Arc::from(format!("{other:?}")))),
        };
        tracing::debug!(%failure, "a replayed batch is tried again");
        tools.runtime.sleep_until(tools.runtime.now().after(PAUSE)).await;
    }
}

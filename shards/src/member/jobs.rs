//! What is done so that the shards have what the member owns.
//!
//! Guarantees: a job ends when all of it is done. What may pass is tried again until then.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use logsvc_cluster::map::{Epoch, Map, Partition};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_store::Store;

use super::MemberError;
use super::engine::ByCore;
use crate::follower::{BucketStatus, OwnedSegments};
use crate::lanes::Lanes;
use crate::ledger::{Logs, Union};
use crate::manifest::read_stored_footer;
use crate::messages::{GainRequest, GainedSegment, ShardReply, ShardRequest};
use crate::node::NodePlan;
use crate::sink::SinkStatus;
use crate::types::{OwnedPartitions, StreamPartitions};

/// How long an attempt to read has patience.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// How often it is looked whether the bucket has everything.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What jobs work with.
pub(super) struct Tools<R: Runtime> {
    pub(super) runtime: R,
    pub(super) store: Store<R>,
    pub(super) plan: NodePlan,
    pub(super) lanes: Lanes<R>,
    pub(super) bucket: Arc<BucketStatus>,
    pub(super) sink: Option<Arc<SinkStatus>>,
    pub(super) owned: OwnedSegments,
    pub(super) me: Epoch,
}

/// A partition on its way to a shard.
#[derive(Clone, Debug)]
pub(super) struct Gaining {
    pub(super) partition: Partition,
    pub(super) core: CoreId,
    pub(super) since: u64,
    /// Ended writers that may have left entries of it.
    pub(super) from: BTreeSet<Epoch>,
}

impl<R: Runtime> Tools<R> {
    pub(super) async fn pause(&self, failure: &dyn std::fmt::Display) {
        tracing::warn!("partitions are on their way, and this is tried again: {failure}");
        self.runtime.sleep_until(self.runtime.now().after(PAUSE)).await;
    }

    /// Asks the shards of some partitions.
    async fn ask_each(
        &self,
        by_core: ByCore,
        request: impl Fn(OwnedPartitions) -> ShardRequest,
    ) -> Result<Vec<ShardReply>, MemberError> {
        let request = &request;
        let asked = by_core.into_iter().map(|(core, partitions)| async move {
            self.lanes.ask(core, &|| request(partitions.clone())).await
        });
        Ok(try_join_all(asked).await?)
    }

    /// Waits until the log of edits has all that the shards have done before this call; gives its
    /// position then.
    async fn recorded(&self) -> u64 {
        let wanted = self.bucket.want();
        while !self.bucket.is_recorded(wanted) {
            self.runtime.sleep_until(self.runtime.now().after(LOOK_INTERVAL)).await;
        }
        self.bucket.position()
    }

    /// Reads on in all logs, at least as far as a map says.
    async fn read_logs(&self, logs: &mut Logs, map: &Map) -> Union {
        let positions: BTreeMap<u32, u64> =
            map.positions().into_iter().map(|(epoch, position)| (epoch.0, position)).collect();
        loop {
            let until = self.runtime.now().after(PATIENCE);
            match logs.read_on(&self.store, &positions, until).await {
                Ok(_) => return logs.union(),
                Err(error) => self.pause(&error).await,
            }
        }
    }
}

fn owned(reply: ShardReply) -> Result<(), MemberError> {
    match reply {
        ShardReply::Owned => Ok(()),
        ShardReply::Settled(Err(why)) => Err(MemberError::Shards(why)),
        other => Err(MemberError::Shards(Arc::from(format!("{other:?}")))),
    }
}

/// Takes partitions away from shards, which have settled them; these are left.
pub(super) async fn lose<R: Runtime>(
    tools: &Tools<R>,
    by_core: ByCore,
    left: OwnedPartitions,
) -> Result<(), MemberError> {
    let replies = tools.ask_each(by_core, ShardRequest::Lose).await?;
    tools.owned.note_left_with(left);
    replies.into_iter().try_for_each(owned)
}

/// Has shards take entries again for partitions that they have settled.
pub(super) async fn resume<R: Runtime>(
    tools: &Tools<R>,
    by_core: ByCore,
) -> Result<(), MemberError> {
    let replies = tools.ask_each(by_core, ShardRequest::Resume).await?;
    replies.into_iter().try_for_each(owned)
}

/// Has partitions settled, and gives the position of the log that has all of them. All pushes that were
/// accepted for them have been answered then: when the node has given everything away it ends its own
/// log, and a push that waits for it would fail.
pub(super) async fn settle<R: Runtime>(
    tools: &Tools<R>,
    by_core: ByCore,
) -> Result<u64, MemberError> {
    for reply in tools.ask_each(by_core, ShardRequest::Settle).await? {
        match reply {
            ShardReply::Settled(Ok(())) => {}
            ShardReply::Settled(Err(why)) => return Err(MemberError::Shards(why)),
            other => return Err(MemberError::Shards(Arc::from(format!("{other:?}")))),
        }
    }
    if let Some(sink) = &tools.sink {
        let mark = sink.sent();
        while !sink.is_confirmed(&mark) && !sink.numbers().is_lost {
            tools.runtime.sleep_until(tools.runtime.now().after(LOOK_INTERVAL)).await;
        }
    }
    Ok(tools.recorded().await)
}

/// Appends to the own log what the logs of some ended writers say; gives its position then.
pub(super) async fn adopt<R: Runtime>(
    tools: &Tools<R>,
    mut logs: Logs,
    map: &Map,
    epochs: &BTreeSet<Epoch>,
) -> Result<(Logs, u64), MemberError> {
    tools.read_logs(&mut logs, map).await;
    let ended = epochs.iter().map(|epoch| epoch.0).collect();
    // The follower puts in what the log says of write-ahead logs.
    let entries = logs.adoption(tools.me.0, &ended, &BTreeMap::new(), |_| false);
    tools.owned.adopt(entries);
    Ok((logs, tools.recorded().await))
}

/// Brings partitions to shards, with their segments, and then what ended writers have left.
pub(super) async fn gain<R: Runtime>(
    tools: &Rc<Tools<R>>,
    mut logs: Logs,
    map: &Map,
    gained: &[Gaining],
) -> Result<Logs, MemberError> {
    let union = tools.read_logs(&mut logs, map).await;
    let of = tools.plan.layout().partitions();
    let mut by_core: BTreeMap<CoreId, Vec<&Gaining>> = BTreeMap::new();
    gained.iter().for_each(|one| by_core.entry(one.core).or_default().push(one));
    for (&core, gained) in &by_core {
        let partitions = OwnedPartitions::some(of, gained.iter().map(|one| one.partition));
        let segments = segments(tools, &union, &partitions).await;
        let request = GainRequest { partitions, segments };
        for segment in &request.segments {
            tools.owned.note_gained(segment.live.name, segment.live.day);
        }
        owned(tools.lanes.ask(core, &|| ShardRequest::Gain(Box::new(request.clone()))).await?)?;
    }
    super::replay::replay(tools, map, &union, &by_core).await?;
    Ok(logs)
}

/// The live segments of some partitions.
async fn segments<R: Runtime>(
    tools: &Tools<R>,
    union: &Union,
    partitions: &OwnedPartitions,
) -> Vec<GainedSegment> {
    let wanted: StreamPartitions = partitions.parts().collect();
    let mut segments = Vec::new();
    for found in union.segments_of(&wanted) {
        let live = *found.live;
        let footer = loop {
            let read = read_stored_footer(&tools.runtime, &tools.store, &live, found.footer).await;
            match read {
                Ok(footer) => break footer,
                Err(error) => tools.pause(&error).await,
            }
        };
        let path = live.name.path(&tools.plan.segments_dir, live.day);
        let left = found.left.iter().map(|part| part.part).collect();
        segments.push(GainedSegment { live, path, footer, left });
    }
    segments
}

//! The start of a shard: its state comes back from segments and log.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::mesh::Inbox;
use logsvc_runtime::{Budget, Runtime};
use logsvc_segment::version::{UnknownVersion, describe};
use logsvc_store::Store;

use super::acks::Acks;
use super::log::Log;
use super::{Driver, run};
use crate::changes::NodeChanges;
use crate::compact::{CompactionPolicy, Compactor};
use crate::deletion::DeleteFilters;
use crate::messages::{ShardReply, ShardRequest};
use crate::node::NodePlan;
use crate::retention::RetentionPolicy;
use crate::scan::{ScanConfig, ScanEnv};
use crate::sealed::{self, Directories, Sealer, SegmentFolder};
use crate::shard::{MaintenanceConfig, SealPolicy, Shard, ShardConfig};
use crate::sink::SinkMesh;
use crate::wal::files::LogFiles;
use crate::wal::format::WalName;
use crate::wal::recovery::{ReplayTask, replay};
use crate::wal::restored::RecoverySummary;
use crate::wal::writer::WalConfig;

/// Settings and shared memory of a shard.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Settings of the log.
    pub wal: WalConfig,
    /// Memory for entries; shared by all shards of the node.
    pub heads: Budget,
    /// Memory for streams, besides their entries; shared by all shards of the node.
    pub streams: Budget,
    /// When heads are written to segments.
    pub seal: SealPolicy,
    /// When segments are merged.
    pub compaction: CompactionPolicy,
    /// How long entries stay.
    pub retention: Arc<RetentionPolicy>,
    /// Settings of scans.
    pub scan: ScanConfig,
    /// Memory for new entries on their way to tails; shared by all shards of the node.
    pub tails: Budget,
    /// The counters of the node for the changes of its shards.
    pub changes: NodeChanges,
    /// The filters of requests for deletion that are not processed.
    pub deletions: DeleteFilters,
    /// The ways to the sink of the node, if the bucket gets the log. The log's policy has to be
    /// [`SyncPolicy::Always`] then.
    pub sink: Option<SinkMesh>,
}

/// Why a shard cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The budget for entries or streams does not even allow an empty reservation.
    #[error("the memory for recent entries and streams allows nothing; raise memory.max-bytes")]
    NoMemory,
    /// Another version of the program has written segments.
    #[error(
        "the data folder has segments that this version of logsvc cannot read: {}. To start \
         without what they hold, set storage.ignore_unknown_versions",
        describe(.0)
    )]
    UnknownVersions(Vec<UnknownVersion>),
    /// A log file cannot be read or mended.
    #[error("cannot replay the write-ahead log: {0}")]
    Replay(#[from] io::Error),
}

/// Drafts take at most one part in so many of the disk space of segments.
const DRAFTS_DISK_SHARE: u64 = 8;

/// Brings a shard's state back from segments and log, and runs it in a task of its
/// own until its lanes are closed. A segment that cannot be opened is counted and
/// logged, and the rest goes on. Segments whose files are not there are read from `store`.
///
/// # Errors
/// See [`StartError`].
pub async fn start<R: Runtime>(
    runtime: &R,
    plan: &NodePlan,
    config: HostConfig,
    inbox: Inbox<ShardRequest, ShardReply>,
    store: Option<Store<R>>,
) -> Result<RecoverySummary, StartError> {
    let (core, cores) = (runtime.core(), runtime.core_count());
    let (shards, shard) = plan.wal_writer(core.0);
    let first_wal = WalName { epoch: plan.epoch, shards, shard, index: 0 };
    // With a bucket the disk holds copies, and none of them goes for good.
    let disk_max_bytes = match &plan.bucket {
        Some(_) => None,
        None => disk_max_bytes(runtime, plan, &config.retention).await?,
    };
    let mut compaction = config.compaction;
    if let (Some(drafts), Some(disk_max_bytes)) = (&mut compaction.drafts, disk_max_bytes) {
        // Drafts must not push out encoded segments.
        let share_bytes = disk_max_bytes / DRAFTS_DISK_SHARE / u64::from(cores);
        drafts.max_line_bytes = drafts.max_line_bytes.min(share_bytes);
    }
    let maintenance = MaintenanceConfig {
        compaction,
        disk_max_bytes,
        retention: config.retention,
        node: Arc::clone(&plan.node_segments),
        clock: Some(plan.clock),
    };
    let shard_config = ShardConfig {
        core: core.0,
        owned: plan.owned_by(core.0),
        is_member: plan.options.is_member,
        wal: config.wal,
        first_wal,
        heads: config.heads,
        streams: config.streams,
        seal: config.seal,
        maintenance,
        tails: config.tails,
        changes: config.changes.of_shard(core.0),
        deletions: config.deletions,
    };
    let mut state = Shard::new(&shard_config).ok_or(StartError::NoMemory)?;
    let directories = Directories::new(runtime.clone(), &config.scan.directories);
    let directories = Rc::new(directories.with_store(store));
    let unknown = sealed::open_all(runtime, plan, &mut state).await;
    if !unknown.is_empty() && !plan.options.ignores_unknown_versions {
        return Err(StartError::UnknownVersions(unknown));
    }
    let task = ReplayTask {
        wal_dir: &plan.wal_dir,
        files: &plan.files,
        covers: &plan.covers,
        replayed: &plan.replayed,
        progress: &plan.progress,
        shard: core.0,
        layout: plan.layout(),
    };
    let found = replay(runtime, task, &mut state).await?;
    let folder = SegmentFolder::new(runtime.clone(), plan, first_wal, Rc::clone(&directories));
    let folder = Rc::new(folder);
    let replayed = Arc::clone(&plan.replayed);
    let logs = LogFiles::new(runtime.clone(), plan.wal_dir.clone(), config.wal.sync);
    let logs = Rc::new(logs);
    let sealer = Sealer::new(Rc::clone(&folder), Rc::clone(&logs), first_wal, replayed);
    let compactor = Compactor::new(Rc::clone(&folder), Arc::clone(&plan.node_segments));
    let env = Rc::new(ScanEnv::new(runtime.clone(), config.scan, directories));
    let attached = config.sink.map(|mesh| mesh.attach(core));
    let acks = attached.map(|end| Acks::new(runtime.clone(), end, Rc::clone(&logs)));
    let sync = config.wal.sync;
    let log = Log { files: logs, sync, file: None, name: None, giving_back: None };
    let driver = Driver {
        clock_path: Rc::from(plan.clock_path()),
        runtime: runtime.clone(),
        env,
        log,
        acks,
        folder,
        operation: None,
        sealer: Some(sealer),
        sealing: None,
        compactor: Some(compactor),
        maintaining: None,
        lane: inbox.counters(),
    };
    drop(runtime.spawn(run(driver, state, inbox)));
    Ok(found)
}

/// The bytes that the segments of the node may take on the disk.
async fn disk_max_bytes<R: Runtime>(
    runtime: &R,
    plan: &NodePlan,
    retention: &RetentionPolicy,
) -> io::Result<Option<u64>> {
    let Some(percent) = retention.disk_max_percent else { return Ok(retention.disk_max_bytes) };
    let space = runtime.disk_space(&plan.segments_dir).await?;
    let share_bytes = (space.total_bytes as f64 * percent / 100.0) as u64;
    Ok(Some(retention.disk_max_bytes.map_or(share_bytes, |bytes| bytes.min(share_bytes))))
}

//! The bucket of the node: how a core reaches it, and who brings segments and files into it.

use std::sync::Arc;
use std::time::Duration;

use logsvc_cluster::member::Answer;
use logsvc_http::client::{Client, ClientConfig};
use logsvc_runtime::mesh::{Caller, Inbox};
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::follower::{Follower, FollowerConfig, OwnedSegments};
use logsvc_shards::kept::KeptFiles;
use logsvc_shards::ledger::{LedgerOptions, SumsConfig};
use logsvc_shards::member::MemberParts;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::node::Node;
use logsvc_shards::sink::{SinkConfig, SinkMesh};
use logsvc_store::cloud::CloudBucket;
use logsvc_store::folder::FolderBucket;
use logsvc_store::{Counters, Store};

use crate::cluster::{self, MemberRequest, MemberTask};
use crate::config::{BucketConfig, Config, Durability};
use crate::dialer::{Dialer, dialer};
use crate::node::{NodeState, PART_MAX_BYTES, PART_MIN_BYTES};
use crate::version;

/// Memory for log on its way into the bucket.
const SINK_MEMORY_MIN_BYTES: u64 = 4 << 20;
const SINK_MEMORY_MAX_BYTES: u64 = 32 << 20;

/// Connections to the bucket that a core keeps.
const IDLE_CONNECTIONS: usize = 64;
/// How long it is waited for a byte of the bucket. An object of unknown length is given the time of the
/// longest one: what a lost connection holds up should be asked for again much sooner.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The bucket as a core sees it; `None` if everything is in the data folder. Requests are counted in
/// `counters`.
///
/// # Errors
/// The settings contradict each other, or the folder cannot be used.
pub(crate) async fn store<R: Runtime>(
    runtime: &R,
    config: &Config,
    counters: Arc<Counters>,
) -> Result<Option<Store<R>>, String> {
    let text = |error: &dyn std::fmt::Display| format!("cannot use the bucket: {error}");
    match &config.bucket {
        None => Ok(None),
        Some(BucketConfig::Folder(path)) => {
            let bucket = FolderBucket::open(runtime.clone(), path).await;
            let bucket = bucket.map_err(|error| text(&error))?;
            Ok(Some(Store::counting(runtime.clone(), Box::new(bucket), counters)))
        }
        Some(BucketConfig::Cloud(cloud)) => {
            let client = client(runtime).await?;
            let bucket = CloudBucket::new(runtime.clone(), client, cloud);
            let bucket = bucket.map_err(|error| text(&error))?;
            Ok(Some(Store::counting(runtime.clone(), Box::new(bucket), counters)))
        }
        #[cfg(feature = "swift")]
        Some(BucketConfig::Swift(swift)) => {
            let client = client(runtime).await?;
            let bucket =
                logsvc_store::swift::SwiftBucket::new(runtime.clone(), client, swift.clone());
            Ok(Some(Store::new(runtime.clone(), Box::new(bucket))))
        }
    }
}

async fn client<R: Runtime>(runtime: &R) -> Result<Client<R, Dialer<R>>, String> {
    let dialer = dialer(runtime).await;
    let dialer = dialer.map_err(|error| format!("cannot use the bucket: {error}"))?;
    let settings = ClientConfig {
        head_timeout: SILENCE_MAX,
        progress_timeout: SILENCE_MAX,
        max_idle_per_destination: IDLE_CONNECTIONS,
        ..ClientConfig::default()
    };
    Ok(Client::new(runtime.clone(), dialer, settings))
}

/// How the node joins the writers of its bucket.
pub(crate) fn ledger_options(config: &Config) -> LedgerOptions {
    LedgerOptions {
        who: format!("logsvc {}, process {}", version::NUMBER, std::process::id()),
        partitions: config.storage.partitions,
        is_log_stored: config.wal.durability == Durability::Store,
        sums: SumsConfig::default(),
    }
}

/// The ways of the cores to the sink; `None` if the bucket does not get the log.
pub(crate) fn sinks(config: &Config) -> Option<SinkMesh> {
    let is_wanted = config.bucket.is_some() && config.wal.durability == Durability::Store;
    let waiting_max_bytes =
        (config.memory_max_bytes / 32).clamp(SINK_MEMORY_MIN_BYTES, SINK_MEMORY_MAX_BYTES);
    let settings = SinkConfig { waiting_max_bytes, ..SinkConfig::default() };
    is_wanted.then(|| SinkMesh::new(config.cores, settings))
}

/// Where changes of kept files are noted on core 0; `None` if there is no bucket. Nodes among others have
/// them in common.
pub(crate) fn kept_files(config: &Config) -> Option<KeptFiles> {
    config.bucket.as_ref().filter(|_| config.cluster.is_none())?;
    Some(KeptFiles::new(config.wal.durability == Durability::Store))
}

/// The node cannot go on, unless it leaves the others: whoever has given everything away ends its own
/// logs.
fn end(node: &NodeState, text: String) {
    match &node.cluster {
        Some(cluster) if cluster.is_leaving() => tracing::debug!("{text}"),
        _ => node.fail(text),
    }
}

/// The bucket of core 0.
pub(crate) struct Parts<'a, R: Runtime> {
    pub(crate) store: Store<R>,
    pub(crate) sinks: Option<&'a SinkMesh>,
    pub(crate) kept: Option<KeptFiles>,
}

/// Begins to bring segments into the bucket, and the log if it gets it, until the latch is
/// triggered. The node ends if the bucket is another's. A node among others joins them; `inbox` has the
/// requests of the cores to its member. For core 0.
pub(crate) fn follow<R: Runtime>(
    runtime: &R,
    node: &Arc<NodeState>,
    folder: &mut Node<R>,
    Parts { store, sinks, kept }: Parts<'_, R>,
    shards: &Caller<ShardRequest, ShardReply>,
    stop: &Latch,
    inbox: Inbox<MemberRequest, Answer>,
) -> (Vec<R::Task<()>>, Option<MemberTask<R>>) {
    let memory = node.budgets.uploads.clone();
    let settings = &node.config;
    let disk_bytes = [settings.storage.cache_max_bytes, settings.retention_max_disk_bytes];
    let config = FollowerConfig {
        cache_max_bytes: disk_bytes.into_iter().filter(|&bytes| bytes > 0).min(),
        cache_max_percent: Some(settings.retention_max_disk_percent).filter(|&part| part > 0),
        max_age: settings.storage.upload_max_age,
        part_bytes: (memory.max_bytes() / 4).clamp(PART_MIN_BYTES, PART_MAX_BYTES),
        memory,
    };
    let (status, epoch) = (Arc::clone(&node.bucket), folder.plan.epoch);
    let follower =
        Follower::new(runtime.clone(), folder, store.clone(), shards.clone(), config, status);
    let Some(mut follower) = follower else { return (Vec::new(), None) };
    if let Some(kept) = kept {
        follower = follower.with_files(kept);
    }
    let (mut tasks, mut member) = (Vec::new(), None);
    // A node among others hears of a fence, too, and ends by that.
    let lost = Latch::new();
    if let Some(settings) = &node.config.cluster {
        let owned = OwnedSegments::default();
        follower = follower.with_owned_segments(owned.clone());
        let parts = MemberParts {
            store: store.clone(),
            plan: folder.plan.clone(),
            shards: shards.clone(),
            bucket: Arc::clone(&node.bucket),
            sink: sinks.map(|sinks| Arc::clone(sinks.status())),
            owned,
        };
        match cluster::join(runtime, node, settings, parts, lost.clone(), inbox) {
            Ok(joined) => member = Some(joined),
            Err(error) => node.fail(error),
        }
    }
    if let Some(sinks) = sinks {
        match sinks.sink(runtime.clone(), store, epoch) {
            Ok(sink) => {
                follower = follower.with_log(sink.index());
                let (node, stop, lost) = (Arc::clone(node), stop.clone(), lost.clone());
                tasks.push(runtime.spawn(async move {
                    if let Err(error) = sink.run(stop).await {
                        lost.trigger();
                        let text = format!("the bucket does not take the log any more: {error}");
                        end(&node, text);
                    }
                }));
            }
            Err(error) => node.fail(format!("cannot use the bucket: {error}")),
        }
    }
    let (node, stop) = (Arc::clone(node), stop.clone());
    tasks.push(runtime.spawn(async move {
        if let Err(error) = follower.run(stop).await {
            lost.trigger();
            end(&node, format!("the bucket cannot be written any more: {error}"));
        }
    }));
    (tasks, member)
}

//! The life of one core, from the first look at the data folder to the last sync.
//!
//! All cores walk through the same steps; where one has to wait for the others
//! there is a [`Barrier`]:
//!
//! 1. Core 0 claims the data folder and tells the others which logs to replay. Meanwhile
//!    every core listens and answers that it is not ready.
//! 2. Every core replays its part of the log and starts its shard. When all have,
//!    the node is ready.
//! 3. On the stop signal every core stops accepting and finishes the requests under
//!    way. When all have, no request can reach a shard. Then the ruler ends, and the keeper of the
//!    requests for deletion, which core 0 runs and which ask the shards on their own.
//! 4. Every core stops its shard, which commits and syncs its entries. When all have, the follower
//!    brings what is left into the bucket, if there is one. Then the cores return and the process
//!    ends.
//!
//! A failure in steps 1 and 2 (folder in use, unreadable log, port taken) stops the node with one
//! clear text, see [`NodeState::failure`].

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_rules::lanes::{LaneEvaluator, RuleMesh, rule_mesh};
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::mesh::{Caller, Inbox, Mesh, MeshOptions};
use logsvc_runtime::{LEAVING_INTERVAL, LEAVING_PATIENCE, Latch, Runtime, lock_holder_is_leaving};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::deletion::{DeletionReply, DeletionRequest};
use logsvc_shards::host::{self, HostConfig};
use logsvc_shards::keeper::{Keeper, KeeperConfig, KeeperLinks};
use logsvc_shards::kept::KeptFiles;
use logsvc_shards::ledger::check_unshared;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::node::{Node, NodeError, NodePlan, OpenOptions, open_node_in};
use logsvc_shards::scan::ScanConfig;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::SinkMesh;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::Store;

use crate::banner;
use crate::bucket;
use crate::cluster::{self, MemberMesh, OneOfMany};
use crate::config::{Config, DeletionMode, LimitsOfTenants, retention};
use crate::folder;
use crate::front::{self, Front, Lanes, Shared, was_prepared};
use crate::listen;
use crate::metrics::NodeMetrics;
use crate::node::{Barrier, Doors, NodeState, Surroundings};
use crate::refusals::REST_INTERVAL;
use crate::reload;
use crate::ruler;
use crate::services::{Component, State};
use crate::watch;

/// Calls that one core may have in flight to all shards together.
const INFLIGHT_PER_CORE: usize = 4096;

/// Requests that wait in one lane between two cores.
const REQUEST_LANE_MESSAGES: usize = 1024;

/// Requests that wait in front of the keeper of the requests for deletion.
const KEEPER_LANE_MESSAGES: usize = 256;

/// Requests that wait in front of the ruler.
const RULER_LANE_MESSAGES: usize = 256;

/// How often the keeper looks at the modes of tenants, which may change while the node runs.
const KEEPER_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes that a merge holds in directories for each run: where every run is of another
/// stream, its row in an input and its row in the output.
const MERGED_RUN_BYTES: u64 = 2 * 53;

/// Merges of so many runs are made whatever the memory.
const MERGED_RUNS_MIN: u64 = 1 << 14;

/// Everything that all cores of a node share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Boot {
    /// The state of the node.
    pub(crate) node: Arc<NodeState>,
    shared: Shared,
    start: Arc<Start>,
    mesh: Mesh<ShardRequest, ShardReply>,
    keeper_mesh: Mesh<DeletionRequest, DeletionReply>,
    rule_mesh: RuleMesh,
    ruler_mesh: Mesh<RulesRequest, RulesReply>,
    member_mesh: MemberMesh,
    /// The ways to the sink, if the bucket gets the log.
    sinks: Option<SinkMesh>,
}

/// Where cores wait for each other, besides [`NodeState::recovered`].
struct Start {
    /// The logs that core 0 has found in the data folder; `None` if it cannot be opened.
    plan: OnceLock<Option<NodePlan>>,
    plan_known: Latch,
    drained: Barrier,
    /// Nobody asks a shard for deletions any more.
    keeper_ended: Latch,
    stopped: Barrier,
    /// The bucket has what it gets of this start.
    followed: Latch,
}

impl Boot {
    /// Prepares a node.
    pub(crate) fn new(
        config: Arc<Config>,
        limits: LimitsOfTenants,
        doors: Doors,
        stop: Latch,
        surroundings: Surroundings,
    ) -> Boot {
        let cores = config.cores;
        let mesh_options = MeshOptions {
            request_lane_messages: REQUEST_LANE_MESSAGES,
            inflight_per_core: INFLIGHT_PER_CORE,
        };
        let keeper_options = MeshOptions {
            request_lane_messages: KEEPER_LANE_MESSAGES,
            inflight_per_core: KEEPER_LANE_MESSAGES,
        };
        let ruler_options = MeshOptions {
            request_lane_messages: RULER_LANE_MESSAGES,
            inflight_per_core: RULER_LANE_MESSAGES,
        };
        let metrics = NodeMetrics::new(cores, front::METRIC_NAMES);
        let sinks = bucket::sinks(&config);
        let of_sinks = || sinks.as_ref().map(|sinks| Arc::clone(sinks.status()));
        let cluster = config.cluster.as_ref().map(|_| Arc::new(OneOfMany::new(of_sinks())));
        let node = NodeState::new(config, limits, doors, stop, metrics, cluster, surroundings);
        Boot {
            shared: Shared::new(&node),
            node: Arc::new(node),
            start: Arc::new(Start {
                plan: OnceLock::new(),
                plan_known: Latch::new(),
                drained: Barrier::new(cores),
                keeper_ended: Latch::new(),
                stopped: Barrier::new(cores),
                followed: Latch::new(),
            }),
            mesh: Mesh::new(cores, mesh_options),
            keeper_mesh: Mesh::new(cores, keeper_options),
            rule_mesh: rule_mesh(cores),
            ruler_mesh: Mesh::new(cores, ruler_options),
            member_mesh: cluster::mesh(cores),
            sinks,
        }
    }
}

/// Runs one core until the node stops.
pub(crate) async fn run_core<R: Runtime>(runtime: R, boot: Boot) {
    run_core_with(runtime, boot, |_| ()).await;
}

/// [`run_core`]. `meet` gets the core's way to have queries of rules evaluated.
async fn run_core_with<R: Runtime>(runtime: R, boot: Boot, meet: impl FnOnce(LaneEvaluator<R>)) {
    let (caller, inbox) = boot.mesh.attach(runtime.core());
    drop(runtime.spawn(caller.pump_replies()));
    let (keeper_caller, keeper_inbox) = boot.keeper_mesh.attach(runtime.core());
    drop(runtime.spawn(keeper_caller.pump_replies()));
    let (rule_caller, rule_inbox) = boot.rule_mesh.attach(runtime.core());
    drop(runtime.spawn(rule_caller.pump_replies()));
    let (ruler_caller, ruler_inbox) = boot.ruler_mesh.attach(runtime.core());
    drop(runtime.spawn(ruler_caller.pump_replies()));
    let (member_caller, member_inbox) = boot.member_mesh.attach(runtime.core());
    drop(runtime.spawn(member_caller.pump_replies()));
    let (core, node) = (runtime.core(), Arc::clone(&boot.node));
    let services = &node.services;
    services.set_some(core, &Component::FRONT, State::Starting);
    let lanes_ruler = ruler_caller.clone();
    let lanes = Lanes {
        shards: caller.clone(),
        keeper: keeper_caller,
        ruler: ruler_caller,
        member: member_caller,
    };
    let front = Front::new(runtime.clone(), Arc::clone(&node), boot.shared.clone(), lanes);
    let serving = listen::start(&runtime, &node, &front);
    let answering = listen::start_for_peers(&runtime, &node, &front).await;
    drop(runtime.spawn(watch::run(runtime.clone(), Arc::clone(&node))));

    let asked = Arc::clone(&node.metrics.core(core).asked_of_bucket);
    let store = match bucket::store(&runtime, &node.config, asked).await {
        Ok(store) => store,
        Err(text) => {
            node.fail(text);
            None
        }
    };
    // Held until the end: it keeps other processes off the data folder.
    let mut folder =
        if core.0 == 0 { claim_folder(&runtime, &boot, store.clone()).await } else { None };
    boot.start.plan_known.wait().await;
    let shard_runs = match boot.start.plan.get() {
        Some(Some(plan)) => {
            let outside = Outside { store: store.clone(), sinks: boot.sinks.clone() };
            start_shard(&runtime, &node, plan, outside, inbox).await
        }
        _ => false,
    };
    if shard_runs {
        services.set_some(core, &Component::FRONT, State::Running);
    }
    node.recovered.arrive();
    let evaluator = LaneEvaluator::new(runtime.clone(), rule_caller);
    meet(evaluator.clone());
    let evaluating = runtime.spawn(front.serve_rules(rule_inbox, node.stop.clone()));
    let syslog = runtime.spawn(front.serve_syslog());
    let (keeper_stop, ruler_stop) = (Latch::new(), Latch::new());
    let follower_stop = Latch::new();
    let (mut keeping, mut ruling, mut following) = (None, None, Vec::new());
    let mut membership = None;
    if runtime.core().0 == 0 {
        node.recovered.wait().await;
        let kept = bucket::kept_files(&node.config);
        if node.failure().is_none()
            && let (Some(folder), Some(store)) = (&mut folder, store)
        {
            let (sinks, kept) = (boot.sinks.as_ref(), kept.clone());
            let parts = bucket::Parts { store, sinks, kept };
            let stop = &follower_stop;
            (following, membership) =
                bucket::follow(&runtime, &node, folder, parts, &caller, stop, member_inbox);
        }
        if let Some(mut keeper) = keeper(&runtime, &boot, &caller, kept.clone()) {
            if let Some(membership) = &membership {
                keeper = keeper.with_common(membership.common.clone());
            }
            keeping = Some(runtime.spawn(keeper.run(keeper_inbox, keeper_stop.clone())));
            if membership.is_some() {
                drop(runtime.spawn(front.gather_removals(keeper_stop.clone())));
            }
        }
        let has_folder = matches!(boot.start.plan.get(), Some(Some(_)));
        if has_folder && node.failure().is_none() {
            let stop = ruler_stop.clone();
            ruling = Some(match &membership {
                Some(membership) => runtime.spawn(ruler::run_among_others(
                    runtime.clone(),
                    Arc::clone(&node),
                    evaluator.clone(),
                    membership.common.clone(),
                    ruler_inbox,
                    stop,
                )),
                None => {
                    let ruler = ruler::ruler(&runtime, &node, evaluator.clone(), kept);
                    runtime.spawn(ruler.run(ruler_inbox, stop))
                }
            });
            services.set_whole(Component::Ruler, State::Running);
        }
        drop(runtime.spawn(tell_rests(runtime.clone(), Arc::clone(&node))));
        let links = reload::Links { shards: caller.clone(), ruler: lanes_ruler };
        drop(runtime.spawn(reload::run(runtime.clone(), Arc::clone(&node), links)));
        if node.failure().is_none()
            && let Some(address) = node.address()
        {
            banner::ready(&node.config, runtime.driver_name(), address);
            node.surroundings.manager.ready(&format!("listening on {address}"));
        }
    }

    node.stop.wait().await;
    if core.0 == 0 {
        node.surroundings.manager.stopping();
    }
    services.set_some(core, &Component::FRONT, State::Stopping);
    if let Some(serving) = serving {
        services.set(core, Component::Server, State::Stopping);
        serving.await;
        services.set(core, Component::Server, State::Terminated);
    }
    syslog.await;
    evaluating.await;
    services.set_some(core, &Component::FRONT, State::Terminated);
    boot.start.drained.arrive();
    boot.start.drained.wait().await;
    if runtime.core().0 == 0 {
        services.set_whole(Component::Ruler, State::Stopping);
        ruler_stop.trigger();
        if let Some(ruling) = ruling {
            ruling.await;
        }
        services.set_whole(Component::Ruler, State::Terminated);
        keeper_stop.trigger();
        if let Some(keeping) = keeping {
            keeping.await;
        }
        // Others go on asking this node until it has nothing any more.
        if let Some(membership) = membership {
            membership.leave(&runtime).await;
        }
        if let Some(cluster) = &node.cluster {
            cluster.peers_stop.trigger();
        }
        boot.start.keeper_ended.trigger();
    }
    boot.start.keeper_ended.wait().await;
    if let Some(answering) = answering {
        answering.await;
    }
    if shard_runs {
        stop_shard(&runtime, &node, &caller).await;
    }
    boot.start.stopped.arrive();
    boot.start.stopped.wait().await;
    if runtime.core().0 == 0 {
        follower_stop.trigger();
        for task in following {
            task.await;
        }
        boot.start.followed.trigger();
    }
    // The follower asks all shards.
    boot.start.followed.wait().await;
    if runtime.core().0 == 0 {
        node.refusals.tell_rest(runtime.now(), true);
    }
    if folder.is_some() {
        node.services.set_whole(Component::Store, State::Terminated);
    }
    drop(folder);
}

/// Tells again and again what was left out of the log, until the node stops.
async fn tell_rests<R: Runtime>(runtime: R, node: Arc<NodeState>) {
    let mut stopped = pin!(node.stop.wait());
    loop {
        let next = pin!(runtime.sleep_until(runtime.now().after(REST_INTERVAL)));
        if let Either::Left(_) = select(&mut stopped, next).await {
            return;
        }
        node.refusals.tell_rest(runtime.now(), false);
    }
}

/// The keeper of the requests for deletion, if all shards have started.
fn keeper<R: Runtime>(
    runtime: &R,
    boot: &Boot,
    caller: &Caller<ShardRequest, ShardReply>,
    files: Option<KeptFiles>,
) -> Option<Keeper<R>> {
    let node = &boot.node;
    let plan = boot.start.plan.get()?.as_ref().filter(|_| node.failure().is_none())?;
    let limits = Arc::clone(&node.limits);
    let config = KeeperConfig {
        cancel_period: node.config.delete_cancel_period,
        batch_size: node.config.delete_batch_size,
        check_interval: KEEPER_CHECK_INTERVAL,
        is_removing: node.config.retention_enabled,
        removes: Box::new(move |tenant| {
            limits.current().of(tenant).deletion_mode == DeletionMode::FilterAndDelete
        }),
    };
    let links = KeeperLinks {
        shards: caller.clone(),
        changes: node.changes.clone(),
        deletions: node.deletions.clone(),
        memory: node.budgets.streams.clone(),
        bucket: node.config.bucket.is_some().then(|| Arc::clone(&node.bucket)),
        sink: boot.sinks.as_ref().map(|sinks| Arc::clone(sinks.status())),
        files,
    };
    Some(Keeper::new(runtime.clone(), plan, links, config))
}

/// Opens the data folder. Waits for a process that holds it and is going.
async fn open_folder<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    store: Option<Store<R>>,
) -> Result<Node<R>, NodeError> {
    let data_dir = &node.config.data_dir;
    if let (Some(store), None) = (&store, &node.config.cluster) {
        check_unshared(runtime, store).await?;
    }
    let options = OpenOptions {
        ignores_unknown_versions: node.config.ignore_unknown_versions,
        is_member: node.config.cluster.is_some(),
        ..OpenOptions::default()
    };
    let deadline = runtime.now().after(LEAVING_PATIENCE);
    let mut has_waited = false;
    loop {
        let bucket = store.clone().map(|store| (store, bucket::ledger_options(&node.config)));
        let opened = open_node_in(runtime, data_dir, options, bucket).await;
        let is_over = runtime.now() >= deadline || node.stop.is_triggered();
        if is_over || !matches!(opened, Err(NodeError::InUse(_))) {
            return opened;
        }
        let lock = data_dir.join("LOCK");
        if !runtime.offload(move || lock_holder_is_leaving(&lock)).await {
            return opened;
        }
        if !has_waited {
            tracing::warn!(
                folder = %data_dir.display(), patience_ms = LEAVING_PATIENCE.as_millis() as u64,
                "the data folder is held by a process that has ended; waiting for the kernel to \
                 let go of it"
            );
            has_waited = true;
        }
        runtime.sleep_until(runtime.now().after(LEAVING_INTERVAL)).await;
    }
}

async fn claim_folder<R: Runtime>(
    runtime: &R,
    boot: &Boot,
    store: Option<Store<R>>,
) -> Option<Node<R>> {
    boot.node.services.set_whole(Component::Store, State::Starting);
    let opened = match folder::check(runtime, &boot.node.config).await {
        // The bucket cannot be used, which was told.
        Ok(()) if boot.node.failure().is_some() => Err(None),
        Ok(()) => open_folder(runtime, &boot.node, store).await.map_err(|error| {
            let (config, user) = (&boot.node.config, &boot.node.surroundings.user);
            Some(folder::explain(&error, &config.data_dir, user))
        }),
        Err(text) => Err(Some(text)),
    };
    let (plan, node) = match opened {
        Ok(node) => {
            boot.node.services.set_whole(Component::Store, State::Running);
            match was_prepared(runtime, &boot.node.config.data_dir).await {
                Ok(is_set) => boot.node.asked.is_prepared.store(is_set, Ordering::Release),
                Err(error) => boot.node.fail(format!("cannot read the data folder: {error}")),
            }
            boot.node.replay.layout.get_or_init(|| node.plan.layout());
            boot.node.replay.progress.get_or_init(|| Arc::clone(&node.plan.progress));
            (Some(node.plan.clone()), Some(node))
        }
        Err(error) => {
            boot.node.services.set_whole(Component::Store, State::Failed);
            if let Some(error) = error {
                boot.node.fail(error);
            }
            (None, None)
        }
    };
    boot.start.plan.get_or_init(|| plan);
    boot.start.plan_known.trigger();
    node
}

/// Where a shard's data goes besides the data folder.
struct Outside<R: Runtime> {
    store: Option<Store<R>>,
    sinks: Option<SinkMesh>,
}

/// Replays this core's part of the log and starts its shard. Returns whether it
/// runs.
async fn start_shard<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    plan: &NodePlan,
    Outside { store, sinks }: Outside<R>,
    inbox: Inbox<ShardRequest, ShardReply>,
) -> bool {
    let core = runtime.core();
    node.services.set(core, Component::Ingester, State::Starting);
    let cores = u64::from(node.config.cores);
    let config = HostConfig {
        wal: WalConfig {
            sync: node.config.wal.sync,
            file_max_bytes: node.config.wal.file_max_bytes,
            ..WalConfig::default()
        },
        heads: node.budgets.heads.clone(),
        streams: node.budgets.streams.clone(),
        seal: SealPolicy {
            head_max_bytes: node.config.head_max_bytes,
            // While one half is being sealed the other one fills.
            wal_max_bytes: node.config.wal.max_bytes / cores / 2,
            max_age: node.config.head_max_age,
            // A machine that has stopped in order can be replaced.
            on_stop: node.config.wal.flush_on_shutdown || node.config.bucket.is_some(),
        },
        compaction: CompactionPolicy {
            enabled: node.config.compaction_enabled,
            // A merge holds about 7 % of its output: filters and the directory.
            target_line_bytes: (node.config.memory_max_bytes / cores)
                .min(CompactionPolicy::default().target_line_bytes),
            // A merge holds the directories of its output and of its inputs.
            max_runs: (node.config.directory_budget_bytes / cores / MERGED_RUN_BYTES)
                .clamp(MERGED_RUNS_MIN, CompactionPolicy::default().max_runs),
            ..CompactionPolicy::default()
        },
        retention: Arc::new(retention::policy(&node.config, &node.limits.current())),
        scan: ScanConfig::new(
            node.budgets.cache.clone(),
            node.budgets.directories.clone(),
            node.budgets.queries.clone(),
        ),
        tails: node.budgets.tails.clone(),
        changes: node.changes.clone(),
        deletions: Arc::clone(&plan.deletions.filters),
        sink: sinks,
    };
    let begun = runtime.now();
    match host::start(runtime, plan, config, inbox, store).await {
        Ok(found) => {
            if found.files > 0 {
                tracing::info!(
                    shard = core.0,
                    files = found.files,
                    entries = found.entries,
                    read_bytes = found.read_bytes,
                    torn_bytes = found.torn_bytes,
                    damaged_bytes = found.damaged_bytes,
                    took_ms = runtime.now().since(begun).as_millis() as u64,
                    "replayed the write-ahead log"
                );
            }
            let took_us = runtime.now().since(begun).as_micros();
            node.replay
                .slowest_us
                .fetch_max(u64::try_from(took_us).unwrap_or(u64::MAX), Ordering::AcqRel);
            node.services.set(core, Component::Ingester, State::Running);
            true
        }
        Err(error) => {
            node.services.set(core, Component::Ingester, State::Failed);
            node.fail(format!("shard {core}: {error}"));
            false
        }
    }
}

async fn stop_shard<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    caller: &Caller<ShardRequest, ShardReply>,
) {
    let core = runtime.core();
    node.services.set(core, Component::Ingester, State::Stopping);
    if node.asked.is_prepared.load(Ordering::Acquire)
        && let Some(ShardReply::Flushed(Err(cause))) =
            ask_own_shard(runtime, caller, || ShardRequest::Flush).await
    {
        // They are in the write-ahead log.
        tracing::error!(shard = core.0, "memory could not be written to segments: {cause}");
    }
    let failure = match ask_own_shard(runtime, caller, || ShardRequest::Stop).await {
        Some(ShardReply::Stopped(Ok(()))) => None,
        Some(ShardReply::Stopped(Err(cause))) => {
            Some(format!("shard {core} could not commit its last entries: {cause}"))
        }
        Some(_) | None => Some(format!("shard {core} did not stop in order")),
    };
    let state = if failure.is_none() { State::Terminated } else { State::Failed };
    node.services.set(core, Component::Ingester, state);
    if let Some(text) = failure {
        node.fail(text);
    }
}

/// The answer of this core's shard; `None` if it has stopped answering.
async fn ask_own_shard<R: Runtime>(
    runtime: &R,
    caller: &Caller<ShardRequest, ShardReply>,
    request: impl Fn() -> ShardRequest,
) -> Option<ShardReply> {
    loop {
        match caller.call(runtime.core(), request()) {
            Ok(reply) => break reply.await.ok(),
            // The lane is still full of work that the shard is getting through.
            Err(_) => runtime.sleep_until(runtime.now().after(Duration::from_millis(5))).await,
        }
    }
}

#[cfg(test)]
mod tests;

//! The life of one core, from the first look at the data folder to the last sync.
//!
//! All cores walk through the same steps; where one has to wait for the others
//! there is a [`Barrier`]:
//!
//! 1. Core 0 claims the data folder and tells the others what to replay. Meanwhile
//!    every core listens and answers that it is not ready.
//! 2. Every core replays its part of the log and starts its shard. When all have,
//!    the node is ready.
//! 3. On the stop signal every core stops accepting and finishes the requests under
//!    way. When all have, no request can reach a shard any more.
//! 4. Every core stops its shard, which commits and syncs what it has. When all
//!    have, the cores return and the process ends.
//!
//! What can go wrong in steps 1 and 2 (folder in use, unreadable log, port taken)
//! stops the node with one clear text, see [`Boot::failure`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use logsvc_http::ConnectionLimit;
use logsvc_runtime::mesh::{Caller, Inbox, Mesh, MeshOptions};
use logsvc_runtime::{
    Budget, LEAVING_INTERVAL, LEAVING_PATIENCE, Latch, Runtime, lock_holder_is_leaving,
};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::host::{self, HostConfig};
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::node::{Node, NodeError, NodePlan, OpenOptions, open_node_with};
use logsvc_shards::scan::ScanConfig;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::banner;
use crate::config::{Config, LimitsOfTenants, TenantLimits, TlsAcceptor, retention};
use crate::front::Front;
use crate::front::ingest::active_streams::ActiveStreams;
use crate::front::ingest::rate_limit::Buckets;
use crate::front::operate::shutdown::was_prepared;
use crate::front::query::queue::Queues;
use crate::front::query::results::Results;
use crate::front::query::sharing::QueryRuns;
use crate::front::routes::METRIC_NAMES;
use crate::front::tail::TailCounts;
use crate::listen;
use crate::metrics::{NodeMetrics, Reloads};
use crate::reload;
use crate::services::{Part, Services, State};

/// Calls that one core may have in flight to all shards together.
const INFLIGHT_PER_CORE: usize = 4096;

/// Requests that wait in one lane between two cores.
const REQUEST_LANE_MESSAGES: usize = 1024;

/// Tenants and streams whose rates are known at a time; those that push slowly need
/// no place.
const TENANT_RATES: usize = 4096;
const STREAM_RATES: usize = 16384;

/// Streams that are counted for the limit on active streams.
const ACTIVE_STREAMS: usize = 1 << 17;

/// Bytes that a merge holds in directories for each run: where every run is of another
/// stream, its row in an input and its row in the output.
const MERGED_RUN_BYTES: u64 = 2 * 53;

/// Merges of so many runs are made whatever the memory.
const MERGED_RUNS_MIN: u64 = 1 << 14;

/// Where all cores wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    missing: Arc<AtomicU16>,
    complete: Latch,
}

impl Barrier {
    fn new(cores: u16) -> Barrier {
        Barrier { missing: Arc::new(AtomicU16::new(cores)), complete: Latch::new() }
    }

    /// Tells that this core has come so far. Each core says so once.
    fn arrive(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete.trigger();
        }
    }

    async fn arrive_and_wait(&self) {
        self.arrive();
        self.complete.wait().await;
    }

    /// Whether all cores have.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.is_triggered()
    }
}

/// What all cores of a node share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Boot {
    /// Settings.
    pub(crate) config: Arc<Config>,
    /// What tenants may do.
    pub(crate) limits: Arc<TenantLimits>,
    /// What connections with TLS need; `None` if they have none.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is none"))]
    pub(crate) tls: Option<TlsAcceptor>,
    /// How many connections may be open.
    pub(crate) connections: ConnectionLimit,
    /// Ends the node when triggered.
    pub(crate) stop: Latch,
    /// What became of the files with the limits of tenants.
    pub(crate) reloads: Arc<Reloads>,
    /// Counters of all cores.
    pub(crate) metrics: Arc<NodeMetrics>,
    /// How far the parts of the node have come.
    pub(crate) services: Arc<Services>,
    /// Whether stopping writes memory to segments, whatever the settings say.
    pub(crate) prepared: Arc<AtomicBool>,
    /// When caches of answers outside of the node last became invalid, in ns since the
    /// Unix epoch; 0 if they never did.
    pub(crate) cache_generation: Arc<AtomicI64>,
    /// Memory for request bodies.
    pub(crate) bodies: Budget,
    /// Memory for handshakes of TLS.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there are none"))]
    pub(crate) handshakes: Budget,
    /// Memory for entries that are not in segments.
    pub(crate) heads: Budget,
    /// Memory for streams, besides their entries.
    pub(crate) streams: Budget,
    /// Memory for decoded blocks of segments.
    pub(crate) cache: Budget,
    /// Memory for directories of segments.
    pub(crate) directories: Budget,
    /// Memory for intermediate results of queries.
    pub(crate) queries: Budget,
    /// Who may query now.
    pub(crate) queues: Queues,
    /// Queries that run, for those that ask for the same.
    pub(crate) runs: QueryRuns,
    /// Answers to queries, to be used again.
    pub(crate) results: Results,
    /// What the shards have changed, for those who keep answers.
    pub(crate) changes: NodeChanges,
    /// Memory for entries on their way to tails.
    pub(crate) tails: Budget,
    /// Tails of each tenant.
    pub(crate) tail_counts: Arc<TailCounts>,
    /// What tenants may still push.
    pub(crate) tenant_rates: Arc<Buckets>,
    /// What may still be pushed to streams.
    pub(crate) stream_rates: Arc<Buckets>,
    /// Streams that got entries lately.
    pub(crate) active_streams: Arc<ActiveStreams>,
    /// Passed when every shard has replayed its log.
    pub(crate) recovered: Barrier,
    /// How long the slowest of them took, in us.
    pub(crate) replay_us: Arc<AtomicU64>,
    drained: Barrier,
    stopped: Barrier,
    mesh: Mesh<ShardRequest, ShardReply>,
    plan: Arc<OnceLock<Option<NodePlan>>>,
    plan_known: Latch,
    address: Arc<OnceLock<SocketAddr>>,
    failure: Arc<OnceLock<String>>,
}

impl Boot {
    /// Prepares a node.
    pub(crate) fn new(
        config: Arc<Config>,
        limits: LimitsOfTenants,
        tls: Option<TlsAcceptor>,
        connections: ConnectionLimit,
        stop: Latch,
    ) -> Boot {
        let cores = config.cores;
        let mesh_options = MeshOptions {
            request_lane_messages: REQUEST_LANE_MESSAGES,
            inflight_per_core: INFLIGHT_PER_CORE,
        };
        Boot {
            limits: Arc::new(TenantLimits::new(limits)),
            reloads: Arc::new(Reloads::default()),
            metrics: Arc::new(NodeMetrics::new(cores, METRIC_NAMES)),
            services: Arc::new(Services::new(cores)),
            prepared: Arc::new(AtomicBool::new(false)),
            cache_generation: Arc::new(AtomicI64::new(0)),
            bodies: Budget::with_owners("bodies", config.body_budget_bytes),
            handshakes: Budget::new("handshakes", config.body_budget_bytes / 32),
            heads: Budget::new("heads", config.heads_budget_bytes),
            streams: Budget::new("streams", config.stream_budget_bytes),
            cache: Budget::new("cache", config.cache_budget_bytes),
            directories: Budget::new("directories", config.directory_budget_bytes),
            queries: Budget::new("queries", config.query_budget_bytes),
            queues: Queues::new(&config),
            runs: QueryRuns::default(),
            results: Results::new(Budget::new("results", config.result_budget_bytes)),
            changes: NodeChanges::new(cores),
            tails: Budget::new("tails", config.tail_budget_bytes),
            tail_counts: Arc::new(TailCounts::new(TENANT_RATES)),
            tenant_rates: Arc::new(Buckets::new(TENANT_RATES)),
            stream_rates: Arc::new(Buckets::new(STREAM_RATES)),
            active_streams: Arc::new(ActiveStreams::new(ACTIVE_STREAMS, TENANT_RATES)),
            recovered: Barrier::new(cores),
            replay_us: Arc::default(),
            drained: Barrier::new(cores),
            stopped: Barrier::new(cores),
            mesh: Mesh::new(cores, mesh_options),
            plan: Arc::new(OnceLock::new()),
            plan_known: Latch::new(),
            address: Arc::new(OnceLock::new()),
            failure: Arc::new(OnceLock::new()),
            config,
            tls,
            connections,
            stop,
        }
    }

    /// Why the node did not come up or did not end well, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    /// Where the node listens, once it does. Port 0 has been replaced by the real
    /// one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }

    /// Where all cores listen: `local`, unless another core was faster.
    pub(crate) fn choose_address(&self, local: SocketAddr) -> SocketAddr {
        *self.address.get_or_init(|| local)
    }

    /// Keeps the first failure and ends the node.
    pub(crate) fn fail(&self, text: String) {
        tracing::error!("{text}");
        // Only the first failure matters; those that follow are its echoes.
        let _ = self.failure.set(text);
        self.stop.trigger();
    }
}

/// Runs one core until the node stops.
pub(crate) async fn run_core<R: Runtime>(runtime: R, boot: Boot) {
    let (caller, inbox) = boot.mesh.attach(runtime.core());
    drop(runtime.spawn(caller.pump_replies()));
    let (core, services) = (runtime.core(), Arc::clone(&boot.services));
    services.set_some(core, &Part::FRONT, State::Starting);
    let front = Front::new(runtime.clone(), &boot, caller.clone());
    let serving = listen::start(&runtime, &boot, &front);

    // Held until the end: it keeps other processes off the data folder.
    let node = if runtime.core().0 == 0 { claim_folder(&runtime, &boot).await } else { None };
    boot.plan_known.wait().await;
    let shard_runs = match boot.plan.get() {
        Some(Some(plan)) => start_shard(&runtime, &boot, plan, inbox).await,
        _ => false,
    };
    if shard_runs {
        services.set_some(core, &Part::FRONT, State::Running);
    }
    boot.recovered.arrive();
    if runtime.core().0 == 0 {
        boot.recovered.complete.wait().await;
        if !boot.config.runtime_files.is_empty() {
            drop(runtime.spawn(reload::run(runtime.clone(), boot.clone(), caller.clone())));
        }
        if boot.failure().is_none()
            && let Some(address) = boot.address()
        {
            banner::ready(&boot.config, runtime.driver_name(), address);
        }
    }

    boot.stop.wait().await;
    services.set_some(core, &Part::FRONT, State::Stopping);
    if let Some(serving) = serving {
        services.set(core, Part::Server, State::Stopping);
        serving.await;
        services.set(core, Part::Server, State::Terminated);
    }
    services.set_some(core, &Part::FRONT, State::Terminated);
    boot.drained.arrive_and_wait().await;
    if shard_runs {
        stop_shard(&runtime, &boot, &caller).await;
    }
    boot.stopped.arrive_and_wait().await;
    if node.is_some() {
        boot.services.set_whole(Part::Store, State::Terminated);
    }
    drop(node);
}

/// Opens the data folder. Waits for a process that holds it and is going.
async fn open_folder<R: Runtime>(runtime: &R, boot: &Boot) -> Result<Node<R>, NodeError> {
    let data_dir = &boot.config.data_dir;
    let options = OpenOptions { ignores_unknown_versions: boot.config.ignore_unknown_versions };
    let deadline = runtime.now().after(LEAVING_PATIENCE);
    let mut has_waited = false;
    loop {
        let opened = open_node_with(runtime, data_dir, options).await;
        let is_over = runtime.now() >= deadline || boot.stop.is_triggered();
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

async fn claim_folder<R: Runtime>(runtime: &R, boot: &Boot) -> Option<Node<R>> {
    boot.services.set_whole(Part::Store, State::Starting);
    let opened = open_folder(runtime, boot).await;
    let (plan, node) = match opened {
        Ok(node) => {
            boot.services.set_whole(Part::Store, State::Running);
            match was_prepared(runtime, &boot.config.data_dir).await {
                Ok(is_set) => boot.prepared.store(is_set, Ordering::Release),
                Err(error) => boot.fail(format!("cannot read the data folder: {error}")),
            }
            (Some(node.plan.clone()), Some(node))
        }
        Err(error) => {
            boot.services.set_whole(Part::Store, State::Failed);
            boot.fail(error.to_string());
            (None, None)
        }
    };
    boot.plan.get_or_init(|| plan);
    boot.plan_known.trigger();
    node
}

/// Replays this core's part of the log and starts its shard. Returns whether it
/// runs.
async fn start_shard<R: Runtime>(
    runtime: &R,
    boot: &Boot,
    plan: &NodePlan,
    inbox: Inbox<ShardRequest, ShardReply>,
) -> bool {
    let core = runtime.core();
    boot.services.set(core, Part::Ingester, State::Starting);
    let cores = u64::from(boot.config.cores);
    let config = HostConfig {
        wal: WalConfig {
            sync: boot.config.wal.sync,
            file_max_bytes: boot.config.wal.file_max_bytes,
            ..WalConfig::default()
        },
        heads: boot.heads.clone(),
        streams: boot.streams.clone(),
        seal: SealPolicy {
            head_max_bytes: boot.config.head_max_bytes,
            // While one half is being sealed the other one fills.
            wal_max_bytes: boot.config.wal.max_bytes / cores / 2,
            max_age: boot.config.head_max_age,
            on_stop: boot.config.wal.flush_on_shutdown,
        },
        compaction: CompactionPolicy {
            enabled: boot.config.compaction_enabled,
            // A merge holds about 7 % of what it makes: filters and the directory.
            target_line_bytes: (boot.config.memory_max_bytes / cores)
                .min(CompactionPolicy::default().target_line_bytes),
            // It holds the directory of what it makes, and those of what it reads.
            max_runs: (boot.config.directory_budget_bytes / cores / MERGED_RUN_BYTES)
                .clamp(MERGED_RUNS_MIN, CompactionPolicy::default().max_runs),
            ..CompactionPolicy::default()
        },
        retention: Arc::new(retention::policy(&boot.config, &boot.limits.current())),
        scan: ScanConfig::new(boot.cache.clone(), boot.directories.clone(), boot.queries.clone()),
        tails: boot.tails.clone(),
        changes: boot.changes.clone(),
    };
    let begun = runtime.now();
    match host::start(runtime, plan, config, inbox).await {
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
            boot.replay_us.fetch_max(u64::try_from(took_us).unwrap_or(u64::MAX), Ordering::AcqRel);
            boot.services.set(core, Part::Ingester, State::Running);
            true
        }
        Err(error) => {
            boot.services.set(core, Part::Ingester, State::Failed);
            boot.fail(format!("shard {core}: {error}"));
            false
        }
    }
}

async fn stop_shard<R: Runtime>(
    runtime: &R,
    boot: &Boot,
    caller: &Caller<ShardRequest, ShardReply>,
) {
    let core = runtime.core();
    boot.services.set(core, Part::Ingester, State::Stopping);
    if boot.prepared.load(Ordering::Acquire)
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
    boot.services.set(core, Part::Ingester, state);
    if let Some(text) = failure {
        boot.fail(text);
    }
}

/// The answer of this core's shard; `None` if it does not answer any more.
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

//! A node on the simulation, brought up as the server does it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{
    Direction, MergeState, Plan, QueryParams, QueryResult, QueryTime, StreamResult,
};
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Caller, Mesh, MeshOptions, PendingReply};
use logsvc_runtime::sim::{Node, SimRuntime, Simulation};
use logsvc_runtime::{Account, Budget, CoreId, Latch, Runtime};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::deletion::{DeleteFilters, DeletionVersion};
use logsvc_shards::host::{self, HostConfig};
use logsvc_shards::messages::{
    AppendError, AppendOutcome, AppendRequest, ShardReply, ShardRequest, ShardStatus,
};
use logsvc_shards::node::{NodePlan, open_node};
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::scan::{LeafRequest, ScanConfig};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::types::Cancellation;
use logsvc_shards::wal::restored::RecoverySummary;
use logsvc_shards::wal::writer::WalConfig;

pub(crate) type ShardCaller = Caller<ShardRequest, ShardReply>;

/// Where the node keeps its data.
pub(crate) const DATA_DIR: &str = "/srv/data";
/// Its log files.
pub(crate) const WAL_DIR: &str = "/srv/data/wal";
/// Its segments.
pub(crate) const SEGMENTS_DIR: &str = "/srv/data/segments";

/// How often a query is repeated whose answer has holes.
const TRIES_MAX: usize = 100;

/// A condition that each core contributes to once.
#[derive(Clone)]
struct Barrier {
    missing: Rc<Cell<u16>>,
    complete: Latch,
}

impl Barrier {
    fn new(cores: u16) -> Barrier {
        Barrier { missing: Rc::new(Cell::new(cores)), complete: Latch::new() }
    }

    async fn arrive_and_wait(&self) {
        self.missing.set(self.missing.get() - 1);
        if self.missing.get() == 0 {
            self.complete.trigger();
        }
        self.complete.wait().await;
    }
}

/// The handling of entries after the log: sealing, merging, retention.
#[derive(Clone, Debug)]
pub(crate) struct Upkeep {
    pub(crate) seal: SealPolicy,
    pub(crate) compaction: CompactionPolicy,
    pub(crate) retention: Arc<RetentionPolicy>,
    /// Memory for decoded blocks.
    pub(crate) cache_max_bytes: u64,
    /// Memory for the streams of a shard.
    pub(crate) streams_max_bytes: u64,
    /// The requests for deletion that the start knows.
    pub(crate) deletions: DeleteFilters,
}

/// Room for all that most tests store.
pub(crate) const CACHE_MAX_BYTES: u64 = 1 << 20;

impl From<SealPolicy> for Upkeep {
    /// Nothing is merged, nothing expires.
    fn from(seal: SealPolicy) -> Upkeep {
        Upkeep {
            seal,
            compaction: CompactionPolicy::OFF,
            retention: Arc::default(),
            cache_max_bytes: CACHE_MAX_BYTES,
            streams_max_bytes: 1 << 30,
            deletions: Arc::from([]),
        }
    }
}

/// The state that the cores of one start share.
struct Boot {
    data_dir: &'static str,
    wal: WalConfig,
    upkeep: Upkeep,
    mesh: Mesh<ShardRequest, ShardReply>,
    heads: Budget,
    queries: Budget,
    changes: NodeChanges,
    callers: RefCell<Vec<(u16, ShardCaller)>>,
    plan: RefCell<Option<NodePlan>>,
    plan_known: Latch,
    recovered: Barrier,
    stopped: Barrier,
    failure: RefCell<Option<String>>,
    /// Ends the node in order.
    stop: Latch,
}

impl Boot {
    fn fail(&self, text: String) {
        self.failure.borrow_mut().get_or_insert(text);
    }
}

async fn run_core(runtime: SimRuntime, boot: Rc<Boot>) {
    let core = runtime.core();
    let (caller, inbox) = boot.mesh.attach(core);
    drop(runtime.spawn(caller.pump_replies()));
    boot.callers.borrow_mut().push((core.0, caller.clone()));
    let mut claim = None;
    if core.0 == 0 {
        match open_node(&runtime, Path::new(boot.data_dir)).await {
            Ok(node) => {
                *boot.plan.borrow_mut() = Some(node.plan.clone());
                claim = Some(node);
            }
            Err(error) => boot.fail(error.to_string()),
        }
        boot.plan_known.trigger();
    }
    boot.plan_known.wait().await;
    let plan = boot.plan.borrow().clone();
    let mut runs = false;
    if let Some(plan) = plan {
        let config = HostConfig {
            wal: boot.wal,
            heads: boot.heads.clone(),
            streams: Budget::new("streams", boot.upkeep.streams_max_bytes),
            seal: boot.upkeep.seal,
            compaction: boot.upkeep.compaction,
            retention: Arc::clone(&boot.upkeep.retention),
            scan: ScanConfig {
                divide_after_bytes: 2_000,
                // A scan that waits for the disk is computed aside from then on.
                first_slice: Duration::from_micros(100),
                heavy_after: Duration::from_micros(300),
                // Little enough that directories have to be read again and again.
                ..ScanConfig::new(
                    Budget::new("cache", boot.upkeep.cache_max_bytes),
                    Budget::new("directories", 4 << 10),
                    boot.queries.clone(),
                )
            },
            tails: Budget::new("tails", 1 << 20),
            changes: boot.changes.clone(),
            deletions: [&*boot.upkeep.deletions, &*plan.deletions.filters].concat().into(),
        };
        match host::start(&runtime, &plan, config, inbox).await {
            Ok(_) => runs = true,
            Err(error) => boot.fail(format!("shard {core}: {error}")),
        }
    }
    boot.recovered.arrive_and_wait().await;
    boot.stop.wait().await;
    if runs {
        match call(&caller, core, ShardRequest::Stop).await {
            Some(ShardReply::Stopped(Ok(()))) => {}
            other => boot.fail(format!("shard {core} did not stop in order: {other:?}")),
        }
    }
    boot.stopped.arrive_and_wait().await;
    drop(claim);
}

/// Calls a shard; `None` if it is gone.
pub(crate) async fn call(
    caller: &ShardCaller,
    shard: CoreId,
    request: ShardRequest,
) -> Option<ShardReply> {
    caller.call(shard, request).expect("the lanes have room").await.ok()
}

/// One start of the node.
pub(crate) struct Cluster<'s> {
    pub(crate) simulation: &'s Simulation,
    pub(crate) node: Node,
    pub(crate) shards: u16,
    boot: Rc<Boot>,
}

impl<'s> Cluster<'s> {
    /// Starts the node without waiting for anything.
    pub(crate) fn launch(
        simulation: &'s Simulation,
        shards: u16,
        wal: WalConfig,
        upkeep: impl Into<Upkeep>,
    ) -> Cluster<'s> {
        Cluster::launch_at(DATA_DIR, simulation, shards, wal, upkeep)
    }

    /// Starts a node with another data folder without waiting for anything.
    pub(crate) fn launch_at(
        data_dir: &'static str,
        simulation: &'s Simulation,
        shards: u16,
        wal: WalConfig,
        upkeep: impl Into<Upkeep>,
    ) -> Cluster<'s> {
        let options = MeshOptions { request_lane_messages: 256, inflight_per_core: 256 };
        let boot = Rc::new(Boot {
            data_dir,
            wal,
            upkeep: upkeep.into(),
            mesh: Mesh::new(shards, options),
            heads: Budget::new("heads", 1 << 40),
            queries: Budget::new("queries", 1 << 20),
            changes: NodeChanges::new(shards),
            callers: RefCell::default(),
            plan: RefCell::default(),
            plan_known: Latch::new(),
            recovered: Barrier::new(shards),
            stopped: Barrier::new(shards),
            failure: RefCell::default(),
            stop: Latch::new(),
        });
        let for_cores = Rc::clone(&boot);
        let node =
            simulation.start_node(shards, move |runtime| run_core(runtime, Rc::clone(&for_cores)));
        Cluster { simulation, node, shards, boot }
    }

    /// Starts the node, which keeps everything in heads and log, and waits until all
    /// shards have recovered.
    pub(crate) fn start(
        simulation: &'s Simulation,
        shards: u16,
        wal: WalConfig,
    ) -> Result<Cluster<'s>, String> {
        Cluster::start_sealing(simulation, shards, wal, SealPolicy::ON_REQUEST)
    }

    /// Starts the node and waits until all shards have recovered.
    pub(crate) fn start_sealing(
        simulation: &'s Simulation,
        shards: u16,
        wal: WalConfig,
        upkeep: impl Into<Upkeep>,
    ) -> Result<Cluster<'s>, String> {
        let cluster = Cluster::launch(simulation, shards, wal, upkeep);
        cluster.await_start().map(|()| cluster)
    }

    /// Waits until all shards have recovered. A node that fails to do so has ended.
    pub(crate) fn await_start(&self) -> Result<(), String> {
        let recovered = self.boot.recovered.complete.clone();
        let run = self.simulation.run_until(|| recovered.is_triggered());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        match self.failure() {
            None => Ok(()),
            Some(failure) => {
                self.node.crash();
                Err(failure)
            }
        }
    }

    fn failure(&self) -> Option<String> {
        self.boot.failure.borrow().clone()
    }

    /// Stops the node as a signal does.
    pub(crate) fn stop(self) -> Result<(), String> {
        self.boot.stop.trigger();
        let run = self.simulation.run_until(|| !self.node.is_running());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(self.boot.queries.used_bytes(), 0, "scans have given back what they held");
        self.failure().map_or(Ok(()), Err)
    }

    /// Memory for queries.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn queries(&self) -> &Budget {
        &self.boot.queries
    }

    /// The means of a core to call shards.
    pub(crate) fn caller(&self, core: u16) -> ShardCaller {
        let callers = self.boot.callers.borrow();
        callers.iter().find(|(number, _)| *number == core).expect("every core attaches").1.clone()
    }

    /// The changes of the shards since this start.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn changes(&self) -> &NodeChanges {
        &self.boot.changes
    }

    /// Runs something on core 0 to its end.
    pub(crate) fn run<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&output);
        drop(self.node.runtime(CoreId(0)).spawn(async move {
            let result = work.await;
            *slot.borrow_mut() = Some(result);
        }));
        let run = self.simulation.run_until(|| output.borrow().is_some());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        output.take().expect("it has ended")
    }

    /// Everything of a tenant, stream by stream, oldest entry first.
    pub(crate) fn everything(&self, tenant: &TenantId) -> Vec<StreamResult> {
        let expr = syntax::parse("{app=~`.+`}").expect("a query");
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams {
            limit: 1 << 20,
            direction: Direction::Forward,
            categorize_labels: true,
            ..QueryParams::new(time)
        };
        let plan = Plan::new(&expr, &params).expect("it can be planned");
        let leaf = LeafRequest {
            tenants: tenant.clone().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
        };
        // A read that the disk refuses leaves a hole, and the answer says so.
        for _ in 0..TRIES_MAX {
            let mut merge = MergeState::new(&plan);
            let mut unreadable_parts = 0;
            let mut take = |reply| {
                let ShardReply::Leaf(Ok(reply)) = reply else { panic!("{reply:?}") };
                unreadable_parts += reply.stats.unreadable_parts;
                merge.add(reply.result);
                reply.rest
            };
            let replies = self.ask_all(|| ShardRequest::Leaf(leaf.clone()));
            let rests: Vec<_> = replies.into_iter().filter_map(&mut take).collect();
            for rest in rests {
                let mut jobs = rest.divide(self.shards).into_iter();
                let share = || ShardRequest::Share(Box::new(jobs.next().expect("one per shard")));
                for reply in self.ask_all(share) {
                    assert!(take(reply).is_none(), "a share is not divided again");
                }
            }
            match merge.finish() {
                Ok(QueryResult::Streams(_)) if unreadable_parts > 0 => {}
                Ok(QueryResult::Streams(streams)) => return streams,
                other => panic!("{other:?}"),
            }
        }
        panic!("the disk refuses to read again and again");
    }

    /// Status of every shard.
    pub(crate) fn statuses(&self) -> Vec<ShardStatus> {
        let status = |reply| match reply {
            ShardReply::Status(status) => *status,
            other => panic!("{other:?}"),
        };
        self.ask_all(|| ShardRequest::Status).into_iter().map(status).collect()
    }

    /// The contents of the data folder that the start has found.
    pub(crate) fn plan(&self) -> NodePlan {
        self.boot.plan.borrow().clone().expect("the node has started")
    }

    /// The findings of recovery, over all shards.
    pub(crate) fn recovery(&self) -> RecoverySummary {
        let mut sum = RecoverySummary::default();
        self.statuses().iter().for_each(|status| sum.add(&status.recovery));
        sum
    }

    fn ask_all(&self, mut request: impl FnMut() -> ShardRequest) -> Vec<ShardReply> {
        let caller = self.caller(0);
        let replies: Vec<_> = (0..self.shards)
            .map(|shard| caller.call(CoreId(shard), request()).expect("the lanes have room"))
            .collect();
        self.run(async move {
            let mut answers = Vec::new();
            for reply in replies {
                answers.push(reply.await.expect("an answer"));
            }
            answers
        })
    }
}

/// Waits for the outcome of an append; `None` if the shard is gone.
pub(crate) async fn append_outcome(
    reply: PendingReply<ShardReply>,
) -> Option<Result<AppendOutcome, AppendError>> {
    match reply.await.ok()? {
        ShardReply::Append(result) => Some(result),
        ShardReply::Unknown(_) => Some(Err(AppendError::UnknownStream)),
        other => panic!("{other:?}"),
    }
}

/// Sends an append; `None` if the lane is full.
pub(crate) fn send_append(
    caller: &ShardCaller,
    shard: u16,
    request: AppendRequest,
) -> Option<PendingReply<ShardReply>> {
    caller.call(CoreId(shard), ShardRequest::Append(request)).ok()
}

/// Sleeps on the virtual clock.
pub(crate) async fn sleep(runtime: &SimRuntime, duration: Duration) {
    runtime.sleep_until(runtime.now().after(duration)).await;
}

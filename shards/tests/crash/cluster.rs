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
use logsvc_runtime::sim::{Node, SimRuntime, SimTask, Simulation};
use logsvc_runtime::{Account, Budget, CoreId, Latch, Runtime};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::common::CommonFiles;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::deletion::{DeleteFilters, DeletionVersion};
use logsvc_shards::follower::{BucketStatus, Follower, FollowerConfig, OwnedSegments};
use logsvc_shards::host::{self, HostConfig};
use logsvc_shards::kept::KeptFiles;
use logsvc_shards::ledger::{LedgerOptions, SumsConfig};
use logsvc_shards::member::{MemberError, MemberHandle};
use logsvc_shards::messages::{
    AppendError, AppendOutcome, AppendRequest, ShardReply, ShardRequest, ShardStatus,
};
use logsvc_shards::node::{NodeBucket, NodePlan, OpenOptions, open_node_in};
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::scan::{LeafRequest, ScanConfig};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::{SinkConfig, SinkMesh, SinkStatus};
use logsvc_shards::types::{Cancellation, Layout};
use logsvc_shards::wal::restored::RecoverySummary;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::World;
use logsvc_store::{Request, Store};

#[path = "as_member.rs"]
mod as_member;
pub(crate) use as_member::AsMember;

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
    /// Memory for directories; by default little enough that they have to be read again and again.
    pub(crate) directories_max_bytes: u64,
    /// Memory for queries.
    pub(crate) queries_max_bytes: u64,
    /// Memory for the streams of a shard.
    pub(crate) streams_max_bytes: u64,
    /// The requests for deletion that the start knows.
    pub(crate) deletions: DeleteFilters,
    /// The number of partitions; `None`: one for each shard.
    pub(crate) partitions: Option<u16>,
    /// The bucket that follows the node.
    pub(crate) followed: Option<InBucket>,
    /// The bucket that has segments whose files are not there.
    pub(crate) bucket: Option<TestBucket>,
    /// How the node is one of many, if it is.
    pub(crate) member: Option<AsMember>,
    /// When it sums up its log of edits, as one of many.
    pub(crate) sums: SumsConfig,
}

/// The bucket of a node.
#[derive(Clone, Debug)]
pub(crate) struct InBucket {
    pub(crate) world: World,
    /// How it gets the log, too.
    pub(crate) sink: Option<SinkConfig>,
    /// How old segments get before they are sent.
    pub(crate) max_age: Duration,
    /// See [`FollowerConfig::cache_max_bytes`].
    pub(crate) cache_max_bytes: Option<u64>,
}

/// A bucket in memory.
#[derive(Clone)]
pub(crate) struct TestBucket(pub(crate) World);

impl std::fmt::Debug for TestBucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestBucket")
    }
}

/// What the cores of a start have asked of the bucket.
#[derive(Clone, Copy, Debug, Default)]
#[allow(dead_code, reason = "not all tests that use a cluster ask")]
pub(crate) struct StoreReads {
    /// Requests to read.
    pub(crate) requests: u64,
    /// Those that were made for the second time, since the first was slow.
    pub(crate) seconds: u64,
}

impl Upkeep {
    /// The same with some number of partitions, which starts at different times do not share.
    pub(crate) fn with_some_partitions(self, simulation: &Simulation) -> Upkeep {
        let numbers = [None, Some(64), Some(7), Some(1000)];
        Upkeep { partitions: numbers[(simulation.now().0 % 4) as usize], ..self }
    }
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
            directories_max_bytes: 4 << 10,
            queries_max_bytes: 1 << 20,
            streams_max_bytes: 1 << 30,
            deletions: Arc::from([]),
            partitions: None,
            bucket: None,
            followed: None,
            member: None,
            sums: SumsConfig::default(),
        }
    }
}

/// The state that the cores of one start share.
struct Boot {
    data_dir: &'static str,
    options: OpenOptions,
    wal: WalConfig,
    upkeep: Upkeep,
    mesh: Mesh<ShardRequest, ShardReply>,
    heads: Budget,
    queries: Budget,
    changes: NodeChanges,
    callers: RefCell<Vec<(u16, ShardCaller)>>,
    stores: RefCell<Vec<Store<SimRuntime>>>,
    plan: RefCell<Option<NodePlan>>,
    plan_known: Latch,
    recovered: Barrier,
    stopped: Barrier,
    failure: RefCell<Option<String>>,
    /// Ends the node in order.
    stop: Latch,
    /// How the node and its bucket stand.
    bucket_status: Arc<BucketStatus>,
    sinks: Option<SinkMesh>,
    /// Changes of kept files.
    kept: KeptFiles,
    followed: Latch,
    member: RefCell<Option<MemberHandle>>,
    common: RefCell<Option<CommonFiles<SimRuntime>>>,
    /// Why the member has ended, once it has.
    member_end: RefCell<Option<MemberError>>,
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
        let bucket = bucket_of(&runtime, &boot);
        let data_dir = Path::new(boot.data_dir);
        match open_node_in(&runtime, data_dir, boot.options, bucket).await {
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
                ..ScanConfig::new(
                    Budget::new("cache", boot.upkeep.cache_max_bytes),
                    Budget::new("directories", boot.upkeep.directories_max_bytes),
                    boot.queries.clone(),
                )
            },
            tails: Budget::new("tails", 1 << 20),
            changes: boot.changes.clone(),
            deletions: [&*boot.upkeep.deletions, &*plan.deletions.filters].concat().into(),
            sink: boot.sinks.clone(),
        };
        let store = store_of(&runtime, &boot);
        boot.stores.borrow_mut().extend(store.clone());
        match host::start(&runtime, &plan, config, inbox, store).await {
            Ok(_) => runs = true,
            Err(error) => boot.fail(format!("shard {core}: {error}")),
        }
    }
    boot.recovered.arrive_and_wait().await;
    let stop_following = Latch::new();
    let mut following = Vec::new();
    if boot.failure.borrow().is_none()
        && let Some(node) = &mut claim
    {
        following = follow(&runtime, &boot, node, &caller, &stop_following);
    }
    boot.stop.wait().await;
    if runs {
        match call(&caller, core, ShardRequest::Stop).await {
            Some(ShardReply::Stopped(Ok(()))) => {}
            other => boot.fail(format!("shard {core} did not stop in order: {other:?}")),
        }
    }
    boot.stopped.arrive_and_wait().await;
    if core.0 == 0 {
        stop_following.trigger();
        for task in following {
            task.await;
        }
        boot.followed.trigger();
    }
    boot.followed.wait().await;
    drop(claim);
}

/// The bucket of a core.
fn store_of(runtime: &SimRuntime, boot: &Boot) -> Option<Store<SimRuntime>> {
    let bucket = boot.upkeep.bucket.as_ref().map(|TestBucket(world)| world);
    let world = boot.upkeep.followed.as_ref().map(|bucket| &bucket.world).or(bucket)?;
    let bucket = world.bucket_timed_by(runtime.clone(), runtime.exact());
    Some(Store::new(runtime.clone(), Box::new(bucket)))
}

fn bucket_of(runtime: &SimRuntime, boot: &Boot) -> Option<NodeBucket<SimRuntime>> {
    let partitions = boot.upkeep.partitions.unwrap_or(64);
    let is_log_stored = boot.upkeep.followed.as_ref()?.sink.is_some();
    let sums = boot.upkeep.sums;
    let options = LedgerOptions { who: "a test".to_owned(), partitions, is_log_stored, sums };
    store_of(runtime, boot).map(|store| (store, options))
}

/// Brings what the shards make into the bucket. That another node takes over is no failure.
fn follow(
    runtime: &SimRuntime,
    boot: &Rc<Boot>,
    node: &mut logsvc_shards::node::Node<SimRuntime>,
    caller: &ShardCaller,
    stop: &Latch,
) -> Vec<SimTask<()>> {
    let (Some(bucket), Some(store)) = (&boot.upkeep.followed, store_of(runtime, boot)) else {
        return Vec::new();
    };
    let config = FollowerConfig {
        max_age: bucket.max_age,
        // Little, so that most segments come in parts.
        memory: Budget::new("uploads", 2_000),
        cache_max_bytes: bucket.cache_max_bytes,
        cache_max_percent: None,
        part_bytes: 1_000,
    };
    let (status, epoch) = (Arc::clone(&boot.bucket_status), node.plan.epoch);
    let follower =
        Follower::new(runtime.clone(), node, store.clone(), caller.clone(), config, status);
    let mut follower = follower.expect("it has a bucket").with_files(boot.kept.clone());
    let mut tasks = Vec::new();
    let lost = Latch::new();
    if let Some(member) = &boot.upkeep.member {
        let owned = OwnedSegments::default();
        follower = follower.with_owned_segments(owned.clone());
        as_member::join(runtime, boot, node, caller, (member, owned, lost.clone()));
    }
    if let Some(sinks) = &boot.sinks {
        let sink = sinks.sink(runtime.clone(), store, epoch).expect("a name");
        follower = follower.with_log(sink.index());
        let (stop, lost) = (stop.clone(), lost.clone());
        tasks.push(runtime.spawn(async move {
            if sink.run(stop).await.is_err() {
                lost.trigger();
            }
        }));
    }
    let stop = stop.clone();
    tasks.push(runtime.spawn(async move {
        if follower.run(stop).await.is_err() {
            lost.trigger();
        }
    }));
    tasks
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
    /// Which shard owns which streams.
    pub(crate) layout: Layout,
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
        let mesh_options = MeshOptions { request_lane_messages: 256, inflight_per_core: 256 };
        let upkeep: Upkeep = upkeep.into();
        let options = OpenOptions {
            partitions: upkeep.partitions,
            is_member: upkeep.member.is_some(),
            ..OpenOptions::default()
        };
        let queries = Budget::new("queries", upkeep.queries_max_bytes);
        let sink = upkeep.followed.as_ref().and_then(|bucket| bucket.sink);
        let kept = KeptFiles::new(sink.is_some());
        let sinks = sink.map(|config| SinkMesh::new(shards, config));
        let boot = Rc::new(Boot {
            data_dir,
            options,
            wal,
            upkeep,
            mesh: Mesh::new(shards, mesh_options),
            heads: Budget::new("heads", 1 << 40),
            queries,
            changes: NodeChanges::new(shards),
            callers: RefCell::default(),
            stores: RefCell::default(),
            plan: RefCell::default(),
            plan_known: Latch::new(),
            recovered: Barrier::new(shards),
            stopped: Barrier::new(shards),
            failure: RefCell::default(),
            stop: Latch::new(),
            bucket_status: Arc::default(),
            sinks,
            kept,
            followed: Latch::new(),
            member: RefCell::default(),
            common: RefCell::default(),
            member_end: RefCell::default(),
        });
        let for_cores = Rc::clone(&boot);
        let node =
            simulation.start_node(shards, move |runtime| run_core(runtime, Rc::clone(&for_cores)));
        Cluster { simulation, node, shards, layout: options.layout(shards), boot }
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

    /// The ways to the sink.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn sinks(&self) -> &SinkMesh {
        self.boot.sinks.as_ref().expect("the bucket gets the log")
    }

    /// How the log and the bucket stand, if that gets the log.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn sink_status(&self) -> Option<Arc<SinkStatus>> {
        self.boot.sinks.as_ref().map(|sinks| Arc::clone(sinks.status()))
    }

    /// How the node and its bucket stand.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn bucket_status(&self) -> &Arc<BucketStatus> {
        &self.boot.bucket_status
    }

    /// Where changes of kept files are noted.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn kept(&self) -> &KeptFiles {
        &self.boot.kept
    }

    /// Memory for queries.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn queries(&self) -> &Budget {
        &self.boot.queries
    }

    /// The node as one among others.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn member(&self) -> Option<MemberHandle> {
        self.boot.member.borrow().clone()
    }

    /// What the node knows of the files that all have in common.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn common(&self) -> Option<CommonFiles<SimRuntime>> {
        self.boot.common.borrow().clone()
    }

    /// Why it is none any more.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn member_end(&self) -> Option<String> {
        self.boot.member_end.borrow().as_ref().map(ToString::to_string)
    }

    /// The means of a core to call shards.
    pub(crate) fn caller(&self, core: u16) -> ShardCaller {
        let callers = self.boot.callers.borrow();
        callers.iter().find(|(number, _)| *number == core).expect("every core attaches").1.clone()
    }

    /// What this start has asked of the bucket.
    #[allow(dead_code, reason = "not all tests that use a cluster ask")]
    pub(crate) fn store_reads(&self) -> StoreReads {
        let mut reads = StoreReads::default();
        for store in self.boot.stores.borrow().iter() {
            reads.requests += store.counters().of(Request::Read).count;
            reads.seconds += store.counters().second_reads();
        }
        reads
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
            entries_each: None,
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

    pub(crate) fn ask_all(&self, mut request: impl FnMut() -> ShardRequest) -> Vec<ShardReply> {
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

//! The shard as its driver sees it: events in, effects out. The tests decide when
//! and how each log operation ends.

mod appends;
mod ownership;
mod purges;
mod reads;
mod seals;
mod stops;
mod tails;

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use logsvc_logql::engine::{
    Direction, MergeState, Plan, QueryParams, QueryResult, QueryTime, StreamResult,
};
use logsvc_logql::syntax;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::mesh::{Caller, Inbox, Mesh, MeshOptions, PendingReply};
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{Account, CoreId};

use super::*;
use crate::changes::NodeChanges;
use crate::compact::{MaintenanceJob, MaintenanceOutcome};
use crate::deletion::DeletionVersion;
use crate::messages::{AppendRequest, PauseStatus, ShardStatus, StreamSelection};
use crate::scan::{self, LeafRequest, ScanConfig, ScanEnv};
use crate::sealed::{Directories, OpenedSegment, SealJob};
use crate::types::{Cancellation, OwnedPartitions, Part, TimeRange};
use crate::wal::SyncPolicy;
use crate::wal::format::{FRAME_HEADER_LEN, FrameHeader, Record, records};
use crate::wal::writer::WalOp;
use logsvc_segment::batch::BatchBuilder;

/// Memory for tails in these tests.
const TAILS_BUDGET_BYTES: u64 = 1 << 20;

const ALL: TimeRange = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };

type Reply = PendingReply<ShardReply>;
type AppendReply = Result<AppendOutcome, AppendError>;

pub(in crate::shard) struct Bench {
    pub(in crate::shard) shard: Shard,
    caller: Caller<ShardRequest, ShardReply>,
    pump: Pin<Box<dyn Future<Output = ()>>>,
    inbox: Inbox<ShardRequest, ShardReply>,
    budget: Budget,
    streams: Budget,
    pub(in crate::shard) now: Monotonic,
    /// The log operation under way.
    op: Option<WalOp>,
    /// The job that is being sealed.
    seal: Option<SealJob>,
    /// The maintenance job under way.
    job: Option<MaintenanceJob>,
    /// Whether log files serve again, if the shard has said so.
    reuses_logs: Option<bool>,
    /// The partitions and the first order of the last change.
    owned: Option<(OwnedPartitions, u64)>,
    /// See [`ScanConfig::first_slice`]; the rest of the configuration is the usual one.
    first_slice: Duration,
    simulation: Simulation,
}

impl Bench {
    pub(in crate::shard) fn new() -> Bench {
        Bench::with(SyncPolicy::Always, 1 << 30, 1 << 20)
    }

    fn with(sync: SyncPolicy, budget_bytes: u64, file_max_bytes: u64) -> Bench {
        let options = MeshOptions { request_lane_messages: 64, inflight_per_core: 64 };
        let mesh = Mesh::new(1, options);
        let (caller, inbox) = mesh.attach(CoreId(0));
        let budget = Budget::new("heads", budget_bytes);
        let streams = Budget::new("streams", 1 << 20);
        let config = ShardConfig {
            wal: WalConfig { sync, file_max_bytes, waiting_max_bytes: 4096 },
            core: 0,
            owned: Part::one(1, 0).into(),
            is_member: false,
            first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
            heads: budget.clone(),
            streams: streams.clone(),
            seal: SealPolicy::ON_REQUEST,
            maintenance: MaintenanceConfig::default(),
            tails: Budget::new("tails", TAILS_BUDGET_BYTES),
            changes: NodeChanges::new(1).of_shard(0),
            deletions: Arc::from([]),
        };
        Bench {
            shard: Shard::new(&config).unwrap(),
            pump: Box::pin(caller.pump_replies()),
            caller,
            inbox,
            budget,
            streams,
            now: Monotonic(1_000_000_000),
            op: None,
            seal: None,
            job: None,
            reuses_logs: None,
            owned: None,
            first_slice: Duration::MAX,
            simulation: Simulation::new(0),
        }
    }

    pub(in crate::shard) fn step(&mut self, event: Event) {
        let context = StepContext { now: self.now, unix_ns: 1, random: self.now.0 };
        let mut effects = Vec::new();
        self.shard.step(event, context, &mut effects);
        for effect in effects {
            match effect {
                Effect::Reply(to, reply) => to.send(reply),
                Effect::Wal(op) => {
                    assert!(self.op.replace(op).is_none(), "one operation at a time");
                }
                Effect::Scan(job, to) => {
                    let first_slice = self.first_slice;
                    let scan = |runtime: SimRuntime| async move {
                        scan::run(&scan_env(runtime, first_slice), *job).await
                    };
                    to.send(ShardReply::Leaf(self.simulation.block_on(scan).map(Box::new)));
                }
                Effect::List(job, to) => {
                    let first_slice = self.first_slice;
                    let list = |runtime: SimRuntime| async move {
                        scan::list(&scan_env(runtime, first_slice), *job).await
                    };
                    to.send(self.simulation.block_on(list).into());
                }
                Effect::Seal(job) => {
                    assert!(self.seal.replace(*job).is_none(), "one sealing at a time");
                }
                Effect::Maintain(job) => match *job {
                    MaintenanceJob::Merge(job) => panic!("too few segments for {job:?}"),
                    job => assert!(self.job.replace(job).is_none(), "one job at a time"),
                },
                Effect::Own { owned, first_order } => self.owned = Some((owned, first_order)),
                Effect::StopLogReuse => self.reuses_logs = Some(false),
                Effect::AllowLogReuse => self.reuses_logs = Some(true),
                Effect::Evict(segments, _) => panic!("{segments:?} are evicted"),
                Effect::Retire { path, .. } => panic!("{path:?} is live"),
                Effect::KeepClock { unix_ns } => panic!("nothing expires, at {unix_ns} or ever"),
            }
        }
    }

    fn send(&mut self, request: ShardRequest) -> Reply {
        let reply = self.caller.call(CoreId(0), request).unwrap();
        let incoming = self.inbox.try_receive().expect("a request was sent");
        self.step(Event::Request(incoming));
        reply
    }

    /// The reply if it has come.
    fn reply(&mut self, reply: &mut Reply) -> Option<ShardReply> {
        let mut context = Context::from_waker(Waker::noop());
        assert!(self.pump.as_mut().poll(&mut context).is_pending());
        match pin!(reply).poll(&mut context) {
            Poll::Ready(reply) => Some(reply.expect("an answer")),
            Poll::Pending => None,
        }
    }

    fn ask(&mut self, request: ShardRequest) -> ShardReply {
        let mut reply = self.send(request);
        self.reply(&mut reply).expect("an answer at once")
    }

    fn append_reply(&mut self, reply: &mut Reply) -> Option<AppendReply> {
        self.reply(reply).map(|reply| match reply {
            ShardReply::Append(result) => result,
            ShardReply::Unknown(_) => Err(AppendError::UnknownStream),
            other => panic!("{other:?}"),
        })
    }

    /// Ends the log operation under way, and gives it.
    fn end_op(&mut self, success: bool) -> WalOp {
        let op = self.op.take().expect("an operation is under way");
        let result = if success { Ok(()) } else { Err("the disk said no".into()) };
        let (event, op) = match op {
            WalOp::Open { .. } => (Event::WalOpened(result), op),
            WalOp::Commit { frame, offset, sync } => {
                let latency = Duration::from_micros(300);
                let copy = frame.clone();
                let event = Event::WalCommitted { result, frame, latency };
                (event, WalOp::Commit { frame: copy, offset, sync })
            }
        };
        self.step(event);
        op
    }

    /// Ends the sealing under way.
    fn end_seal(&mut self, result: Result<Vec<OpenedSegment>, Arc<str>>) -> SealJob {
        let job = self.seal.take().expect("something is being sealed");
        self.step(Event::Sealed(result));
        job
    }

    /// Ends log operations with success until none is under way.
    fn run_to_idle(&mut self) {
        while self.op.is_some() {
            self.end_op(true);
        }
    }

    fn append(&mut self, push: AppendRequest) -> AppendReply {
        let mut reply = self.send(ShardRequest::Append(push));
        self.run_to_idle();
        self.append_reply(&mut reply).expect("an answer once the log is idle")
    }

    /// Sends a request that has no other answer than that it is done.
    pub(in crate::shard) fn tell(&mut self, request: ShardRequest) {
        let reply = self.ask(request);
        assert!(matches!(reply, ShardReply::Retained), "{reply:?}");
    }

    /// Stores a push.
    pub(in crate::shard) fn stores(&mut self, push: AppendRequest) {
        self.append(push).expect("it is stored");
    }

    fn status(&mut self) -> ShardStatus {
        match self.ask(ShardRequest::Status) {
            ShardReply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// All entries of a tenant that a query sees, as stream and (time, line).
    fn query(&mut self, tenant: &str, query: &str) -> Vec<(String, Vec<(i64, String)>)> {
        let expr = syntax::parse(query).unwrap();
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params =
            QueryParams { limit: 10_000, direction: Direction::Forward, ..QueryParams::new(time) };
        let plan = Plan::new(&expr, &params).unwrap();
        let leaf = LeafRequest {
            tenants: TenantId::new(tenant).unwrap().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
            entries_each: None,
        };
        let ShardReply::Leaf(reply) = self.ask(ShardRequest::Leaf(leaf)) else { panic!() };
        let mut merge = MergeState::new(&plan);
        merge.add(reply.unwrap().result);
        let Ok(QueryResult::Streams(streams)) = merge.finish() else { panic!() };
        let entries = |stream: StreamResult| {
            let line = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
            let entries = stream.entries.iter().map(|e| (e.timestamp_ns, line(&e.line)));
            (stream.labels.canonical(), entries.collect())
        };
        streams.into_iter().map(entries).collect()
    }

    fn series(&mut self, selection: StreamSelection) -> Vec<String> {
        let ShardReply::Series(series, _) = self.ask(ShardRequest::Series(selection)) else {
            panic!()
        };
        series.iter().map(|labels| labels.canonical()).collect()
    }
}

fn scan_env(runtime: SimRuntime, first_slice: Duration) -> ScanEnv<SimRuntime> {
    let cache = Budget::new("cache", 0);
    let directories = Budget::new("directories", 1 << 20);
    let queries = Budget::new("queries", 1 << 20);
    let config = ScanConfig { first_slice, ..ScanConfig::new(cache, directories, queries) };
    let directories = Directories::new(runtime.clone(), &config.directories);
    ScanEnv::new(runtime, config, Rc::new(directories))
}

pub(in crate::shard) fn tenant() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn definition(pairs: &[(&str, &str)]) -> StreamDefinition {
    let labels = Labels::from_pairs(pairs.iter().copied()).unwrap();
    let tenant = tenant();
    StreamDefinition { id: StreamId::new(&tenant, &labels), tenant, labels: Arc::new(labels) }
}

fn app(name: &str) -> StreamDefinition {
    definition(&[("app", name)])
}

/// A push of these sections, which defines their streams.
pub(in crate::shard) fn push(sections: &[(&StreamDefinition, &[(i64, &str)])]) -> AppendRequest {
    let mut builder = BatchBuilder::new(Vec::new());
    for (definition, entries) in sections {
        builder.begin(definition.id);
        for (timestamp_ns, line) in *entries {
            builder.push(*timestamp_ns, line.as_bytes(), std::iter::empty::<(&str, &str)>());
        }
        builder.end();
    }
    let definitions = sections.iter().map(|(definition, _)| (*definition).clone()).collect();
    AppendRequest {
        batch: builder.finish(),
        definitions,
        out_of_order_window_ns: None,
        is_replayed: false,
    }
}

fn everything(matcher_groups: &[&str], range: TimeRange) -> StreamSelection {
    let group = |text: &&str| {
        let selector = syntax::parse_selector(text).unwrap();
        let compile = |matcher| logsvc_logql::engine::CompiledMatcher::new(matcher).unwrap();
        selector.matchers.iter().map(compile).collect()
    };
    let matcher_groups = matcher_groups.iter().map(group).collect();
    StreamSelection {
        tenants: tenant().into(),
        matcher_groups,
        range,
        account: Account::alone(1 << 30),
        cancellation: Cancellation::default(),
    }
}

/// Ids of the streams that a commit's frame defines.
fn defined_by(op: &WalOp) -> Vec<StreamId> {
    let WalOp::Commit { frame, .. } = op else { panic!("{op:?}") };
    let id = |record| match record {
        Ok(Record::Definition { id, .. }) => Some(id),
        Ok(Record::Batch(_)) => None,
        Err(error) => panic!("{error}"),
    };
    let header = FrameHeader::decode_any(frame).expect("a frame header that checks");
    let payload = &frame[FRAME_HEADER_LEN..][..header.payload_len as usize];
    records(payload).filter_map(id).collect()
}

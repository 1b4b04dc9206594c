//! Measures the cost of 100,000 streams for one shard: bytes of memory for each, and the time to
//! resolve matchers and to list labels, values and series.
//!
//! `cargo bench -p logsvc-shards --bench index [-- STREAMS]` prints one line for each
//! question: the median and the worst of some runs. The answers' sizes are checked, so
//! that no figure is that of a wrong answer.
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark owns its clock; nothing of it is ever simulated"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use logsvc_logql::engine::{CompiledMatcher, Plan, QueryParams, QueryTime};
use logsvc_logql::syntax;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::mesh::{Caller, Inbox, Mesh, MeshOptions};
use logsvc_runtime::{Account, Budget, CoreId, Monotonic};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{AppendRequest, ShardReply, ShardRequest, StreamSelection};
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::shard::{
    Effect, Event, MaintenanceConfig, SealPolicy, Shard, ShardConfig, StepContext,
};
use logsvc_shards::types::{Cancellation, Part, StreamDefinition, TimeRange};
use logsvc_shards::wal::format::WalName;
use logsvc_shards::wal::writer::{WalConfig, WalOp};

/// Counts the bytes that are in use.
struct Counting;

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on as it is to the system's allocator, which keeps the
// contract; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        USED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this method, which is the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

const EVERYTHING: TimeRange = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };

const RUNS: usize = 15;

struct Bench {
    shard: Shard,
    caller: Caller<ShardRequest, ShardReply>,
    inbox: Inbox<ShardRequest, ShardReply>,
    tenant: TenantId,
    streams: Budget,
}

impl Bench {
    fn new() -> Bench {
        let mesh =
            Mesh::new(1, MeshOptions { request_lane_messages: 64, inflight_per_core: 1 << 14 });
        let (caller, inbox) = mesh.attach(CoreId(0));
        let budget = |name| Budget::new(name, 16 << 30);
        let streams = budget("streams");
        let config = ShardConfig {
            wal: WalConfig::default(),
            core: 0,
            owned: Part::one(1, 0).into(),
            is_member: false,
            first_wal: WalName { epoch: 0, shards: 1, shard: 0, index: 0 },
            heads: budget("heads"),
            streams: streams.clone(),
            seal: SealPolicy::ON_REQUEST,
            maintenance: MaintenanceConfig::default(),
            tails: budget("tails"),
            changes: NodeChanges::new(1).of_shard(0),
            deletions: std::sync::Arc::from([]),
        };
        let shard = Shard::new(&config).expect("the budgets are large");
        let tenant = TenantId::new("bench").expect("a good name");
        Bench { shard, caller, inbox, tenant, streams }
    }

    /// Performs a step and all log operations that follow; gives the reply and the number of
    /// streams to be scanned.
    fn step(&mut self, event: Event) -> (Option<ShardReply>, usize) {
        let mut events = vec![event];
        let (mut answer, mut scanned) = (None, 0);
        while let Some(event) = events.pop() {
            let context = StepContext { now: Monotonic(1), unix_ns: 1, random: 1 };
            let mut effects = Vec::new();
            self.shard.step(event, context, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Reply(_, reply) => answer = Some(reply),
                    Effect::Wal(WalOp::Open { .. }) => events.push(Event::WalOpened(Ok(()))),
                    Effect::Wal(WalOp::Commit { frame, .. }) => {
                        let latency = Duration::ZERO;
                        events.push(Event::WalCommitted { result: Ok(()), frame, latency });
                    }
                    Effect::Scan(job, _) => scanned = job.held_streams(),
                    Effect::Seal(_) => events.push(Event::Sealed(Ok(Vec::new()))),
                    other => panic!("nothing asked for {other:?}"),
                }
            }
        }
        (answer, scanned)
    }

    fn ask(&mut self, request: ShardRequest) -> (Option<ShardReply>, usize) {
        let reply = self.caller.call(CoreId(0), request).expect("the lane is empty");
        let incoming = self.inbox.try_receive().expect("a request was sent");
        let result = self.step(Event::Request(incoming));
        // The reply did not go through the lane, so the call stays in flight, of which there
        // may be as many as the benchmark asks.
        let mut context = Context::from_waker(Waker::noop());
        let mut reply = pin!(reply);
        assert!(!matches!(reply.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        result
    }

    fn push(&mut self, definitions: Vec<StreamDefinition>) {
        let mut builder = BatchBuilder::default();
        for definition in &definitions {
            builder.begin(definition.id);
            builder.push(1, b"a line", std::iter::empty::<(&str, &str)>());
            builder.end();
        }
        let batch = builder.finish();
        let append =
            AppendRequest { batch, definitions, out_of_order_window_ns: None, is_replayed: false };
        match self.ask(ShardRequest::Append(append)).0 {
            Some(ShardReply::Append(Ok(_))) => {}
            other => panic!("{other:?}"),
        }
    }

    fn definition(&self, number: usize) -> StreamDefinition {
        let (app, namespace) =
            (format!("service-{}", number % 500), format!("team-{}", number % 40));
        let pod = format!("{app}-6d4cf56db6-{:05x}", number * 7919);
        let (node, job) = (format!("node-{}", number % 300), format!("{namespace}/{app}"));
        let file = format!("/var/log/pods/{namespace}_{pod}/main/0.log");
        let pairs = [
            ("app", &*app),
            ("cluster", "production-eu-1"),
            ("container", "main"),
            ("filename", &*file),
            ("job", &*job),
            ("namespace", &*namespace),
            ("node", &*node),
            ("pod", &*pod),
            ("service_name", &*app),
            ("stream", if number.is_multiple_of(2) { "stdout" } else { "stderr" }),
        ];
        let labels = Labels::from_pairs(pairs).expect("good names");
        let id = StreamId::new(&self.tenant, &labels);
        StreamDefinition { id, tenant: self.tenant.clone(), labels: Arc::new(labels) }
    }

    fn selection(&self, selector: &str) -> StreamSelection {
        let matchers = match selector {
            "" => Vec::new(),
            text => vec![compiled(text)],
        };
        StreamSelection {
            tenants: self.tenant.clone().into(),
            matcher_groups: matchers.into(),
            range: EVERYTHING,
            account: Account::alone(1 << 30),
            cancellation: Cancellation::default(),
        }
    }

    /// Asks some times and prints how long it took. `count` gives the size of an answer.
    fn time(&mut self, what: &str, expected: usize, mut ask: impl FnMut(&mut Bench) -> usize) {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let count = ask(self);
            times.push(begun.elapsed());
            assert_eq!(count, expected, "{what}");
        }
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (median, worst) = (ms(times[RUNS / 2]), ms(times[RUNS - 1]));
        println!("{median:8.3} ms {worst:8.3} ms {expected:8}  {what}");
    }

    fn select(&mut self, selector: &str, expected: usize) {
        let expr = syntax::parse(selector).expect("a query");
        let time = QueryTime::Range { start_ns: 0, end_ns: 10, step_ns: 1 };
        let plan = Plan::new(&expr, &QueryParams::new(time)).expect("a plan");
        let leaf = LeafRequest {
            tenants: self.tenant.clone().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
            entries_each: None,
        };
        self.time(&format!("streams of {selector}"), expected, |bench| {
            bench.ask(ShardRequest::Leaf(leaf.clone())).1
        });
    }

    fn texts(&mut self, what: &str, expected: usize, request: impl Fn(&Bench) -> ShardRequest) {
        self.time(what, expected, |bench| match bench.ask(request(bench)).0 {
            Some(ShardReply::Texts(texts, _)) => texts.len(),
            Some(ShardReply::Series(series, _)) => series.len(),
            other => panic!("{other:?}"),
        });
    }
}

fn compiled(selector: &str) -> Vec<CompiledMatcher> {
    let selector = syntax::parse_selector(selector).expect("a selector");
    let compile = |matcher| CompiledMatcher::new(matcher).expect("a good pattern");
    selector.matchers.iter().map(compile).collect()
}

fn main() {
    let streams = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let streams: usize = streams.unwrap_or(100_000);
    let mut bench = Bench::new();
    let before = used_bytes();
    for first in (0..streams).step_by(1000) {
        let definitions = (first..streams.min(first + 1000)).map(|number| bench.definition(number));
        let definitions: Vec<_> = definitions.collect();
        bench.push(definitions);
    }
    let with_entries = used_bytes() - before;
    println!("{:8} bytes for each stream with one line in memory", with_entries / streams);
    println!("{:8} bytes of them counted in the budget for streams", {
        bench.streams.used_bytes() as usize / streams
    });
    println!("  median      worst    found");
    let per = |divisor: usize| streams.div_ceil(divisor);
    bench.select("{app=\"service-7\"}", per(500));
    bench.select("{namespace=\"team-7\", stream=\"stderr\"}", per(40));
    bench.select("{pod=~\"service-7-.*\"}", per(500));
    bench.select("{pod=~\".*-6d4cf56db6-.*\"}", streams);
    let ends_low = (0..streams).filter(|number| number * 7919 % 16 < 8).count();
    bench.select("{pod=~\".*-[0-9a-f]+[0-7]\"}", ends_low);
    // These select nothing, so their time is the time of trying the pattern.
    bench.select("{pod=~\".*-[0-9a-f]+-[0-7]\"}", 0);
    bench.select("{pod=~\".*-6d4cf56db7-.*\"}", 0);
    bench.select("{pod=~\"(?i).*-6D4CF56DB7-.*\"}", 0);
    bench.select("{pod=~\"service-[0-9]+-7.*\"}", 0);
    bench.select("{app=~\".+\", pod!~\".*-[0-9a-f]+\"}", 0);
    bench.select("{app=\"service-7\", pod=~\".*-[0-9a-f]+\"}", per(500));
    bench.select("{app=~\"service-7|service-8\"}", 2 * per(500));
    bench.select("{app=~\".+\", pod!~\".*db6.*\"}", 0);
    bench.select("{cluster=\"production-eu-1\", level=\"\"}", streams);
    bench.select("{cluster=\"production-eu-1\", app!=\"service-7\"}", streams - per(500));
    bench.texts("names of all labels", 10, |bench| ShardRequest::LabelNames(bench.selection("")));
    bench.texts("names of the labels of {app=\"service-7\"}", 10, |bench| {
        ShardRequest::LabelNames(bench.selection("{app=\"service-7\"}"))
    });
    bench.texts("values of app", 500, |bench| {
        ShardRequest::LabelValues(bench.selection(""), "app".into())
    });
    bench.texts("values of pod", streams, |bench| {
        ShardRequest::LabelValues(bench.selection(""), "pod".into())
    });
    bench.texts("values of pod of {app=\"service-7\"}", per(500), |bench| {
        ShardRequest::LabelValues(bench.selection("{app=\"service-7\"}"), "pod".into())
    });
    bench.texts("series of {app=\"service-7\"}", per(500), |bench| {
        ShardRequest::Series(bench.selection("{app=\"service-7\"}"))
    });
    bench.texts("all series", streams, |bench| ShardRequest::Series(bench.selection("")));
}

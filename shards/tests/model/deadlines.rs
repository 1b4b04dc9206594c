//! Stages, functions and aggregations as expensive as their limits allow: no core computes for long
//! in one go, for any query.
//!
//! Computing costs time of the simulation's clock, a tenth of a millisecond for each look of the
//! engine whether it may go on.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::testing::TestEntry;
use logsvc_logql::engine::{Plan, QueryParams};
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{Account, CoreId, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::types::Cancellation;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, ShardCaller};
use crate::data::SECOND_NS;
use crate::life::Life;

const START_NS: i64 = 1_795_000_000_000_000_000;
const ENTRIES: i64 = 3_000;
const SHARDS: u16 = 2;

/// The cost of a look.
const LOOK: Duration = Duration::from_micros(100);

/// The longest time that a core may compute in one go.
const TURN_MAX: Duration = Duration::from_millis(5);

fn entries() -> Vec<(usize, TestEntry)> {
    let entry = |number: i64| {
        let words = "word ".repeat((number % 60) as usize);
        let line = format!("level=info id={number} n={} msg=\"{words}\"", number % 977);
        let timestamp_ns = START_NS + number * SECOND_NS / 10;
        let entry = TestEntry { timestamp_ns, line: line.into_bytes(), metadata: Vec::new() };
        ((number % 2) as usize, entry)
    };
    (0..ENTRIES).map(entry).collect()
}

/// Each is about all lines.
fn queries() -> Vec<String> {
    let long = "(repeat 100000 `ab`)";
    let templates = [
        "repeat 1000000000 `a`".to_owned(),
        "alignRight 1000000000 `a`".to_owned(),
        "nindent 1000000 __line__".to_owned(),
        "printf `%1000000s` __line__".to_owned(),
        "urlencode (repeat 1000000 `%`)".to_owned(),
        "replace `` `xxxxxxxxxxxxxxxx` (repeat 100000 `a`)".to_owned(),
        format!("regexReplaceAll `(a|ab)(c|bcd)*$` {long} `$1`"),
        format!("count `(a?){{30}}b` {long}"),
        format!("title {long}"),
        format!("fromJson {long}"),
    ];
    let stages = [
        "json",
        "logfmt",
        "unpack",
        "decolorize",
        "pattern `<a> <b> <c> <d>`",
        "regexp `(?P<a>(a|ab)*(c|bcd)*)x(?P<b>.*)`",
        "logfmt | n > 5 or id=~`.*1.*2.*`",
        "logfmt | label_format a=id, b=n, c=msg | drop a | keep b",
    ];
    let longer = "line_format `{{ repeat 3000 __line__ }}`";
    let mut queries: Vec<String> = templates
        .iter()
        .map(|text| format!("{{s=~`.+`}} | line_format \"{{{{ {text} }}}}\""))
        .collect();
    for stage in stages {
        queries.push(format!("{{s=~`.+`}} | {longer} | {stage}"));
        queries.push(format!("count_over_time({{s=~`.+`}} | {longer} | {stage} [1h])"));
    }
    for filter in ["|~ `(a?){30}b`", "!~ `.*w.*x.*y.*z.*e$`", "|> `<_>a<_>b<_>c<_>d`"] {
        queries.push(format!("{{s=~`.+`}} | {longer} {filter}"));
    }
    for function in ["sum_over_time", "max_over_time", "stddev_over_time", "rate_counter"] {
        queries.push(format!("{function}({{s=~`.+`}} | logfmt | unwrap n [1h])"));
    }
    queries.push("quantile_over_time(0.9, {s=~`.+`} | logfmt | unwrap n [1h])".to_owned());
    queries.push("topk(3, count_over_time({s=~`.+`} | logfmt [1h]))".to_owned());
    queries
}

/// Asks all shards, with any answer, and has all share the rest; ends when no shard computes for it
/// any more.
async fn ask(caller: ShardCaller, leaf: LeafRequest) {
    let send = |shard, request| caller.call(CoreId(shard), request).expect("the lanes have room");
    let asked: Vec<_> =
        (0..SHARDS).map(|shard| send(shard, ShardRequest::Leaf(leaf.clone()))).collect();
    let mut shares = Vec::new();
    for reply in asked {
        let Ok(ShardReply::Leaf(reply)) = reply.await else { panic!("a shard is gone") };
        if let Some(rest) = reply.ok().and_then(|reply| reply.rest) {
            let jobs = (0..SHARDS).zip(rest.divide(SHARDS));
            shares.extend(jobs.map(|(shard, job)| send(shard, ShardRequest::Share(Box::new(job)))));
        }
    }
    for reply in shares {
        drop(reply.await.expect("a shard is there"));
    }
}

#[test]
fn no_query_keeps_a_core() {
    let simulation = Simulation::new(1);
    let mut life = Life::new(&simulation, 1);
    let cluster =
        Cluster::start_sealing(&simulation, SHARDS, WalConfig::default(), SealPolicy::ON_REQUEST)
            .expect("a healthy disk");
    assert!(life.push_entries(&cluster, entries()));
    let tenant = life.model.streams[0].definition.tenant.clone();
    simulation.set_look_cost(LOOK);
    let mut costly = 0;
    for text in queries() {
        let took = time_of(&cluster, &tenant, &text);
        let longest = simulation.longest_poll();
        assert!(longest <= TURN_MAX, "{text}: {longest:?} in one go");
        costly += usize::from(took > LOOK * 50);
    }
    // Otherwise they are no test.
    assert!(costly > 10, "{costly}");
    simulation.set_look_cost(Duration::ZERO);
    cluster.stop().expect("a healthy disk");
}

fn time_of(cluster: &Cluster<'_>, tenant: &TenantId, text: &str) -> Duration {
    let expr = syntax::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let end_ns = START_NS + ENTRIES * SECOND_NS / 10;
    let params = QueryParams { limit: 100, ..QueryParams::range(START_NS, end_ns, 60 * SECOND_NS) };
    let plan = Plan::new(&expr, &params).unwrap_or_else(|error| panic!("{text}: {error}"));
    let leaf = LeafRequest {
        tenants: tenant.clone().into(),
        plan: Arc::new(plan.leaves()[0].clone()),
        deletions: DeletionVersion::NONE,
        cancellation: Cancellation::default(),
        account: Account::alone(64 << 20),
        entries_each: None,
    };
    let runtime = cluster.node.runtime(CoreId(0));
    let begun = runtime.now();
    cluster.run(ask(cluster.caller(0), leaf));
    runtime.now().since(begun)
}

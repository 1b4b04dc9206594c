//! Counts of whole segments from totals of streams, one by one and in groups, beside streams of the
//! same blocks that are left: they repeat entries of an earlier segment, or have no label of the
//! group.

use logsvc_logql::engine::testing::{Layout, TestEntry};
use logsvc_logql::engine::{Plan, QueryParams, SizeOf, StreamLabels};
use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::sim::Simulation;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::Cluster;
use crate::data::SECOND_NS;
use crate::life::Life;
use crate::naive::Model;
use crate::queries::{Query, Tally, ask_plan, compare};

const START_NS: i64 = 1_795_000_000_000_000_000;
const STREAMS: usize = 9;
const ENTRIES: i64 = 40;

fn model(tenant: &TenantId) -> Model {
    let mut model = Model::default();
    for number in 0..STREAMS {
        let (zone, s) = (["a", "b", "a", ""][number % 4], number.to_string());
        let mut pairs = vec![("app", "m"), ("s", &s)];
        pairs.extend((!zone.is_empty()).then_some(("zone", zone)));
        model.add(tenant, Labels::from_pairs(pairs).expect("valid labels"));
    }
    model
}

/// An entry a second of each stream that `is_wanted`.
fn entries(seconds: std::ops::Range<i64>, is_wanted: fn(usize) -> bool) -> Vec<(usize, TestEntry)> {
    let entry = |second: i64, stream: usize| {
        let timestamp_ns = START_NS + second * SECOND_NS;
        let line = format!("line {second} of {stream}").into_bytes();
        (stream, TestEntry { timestamp_ns, line, metadata: Vec::new() })
    };
    let streams = || (0..STREAMS).filter(|stream| is_wanted(*stream));
    seconds.flat_map(|second| streams().map(move |stream| entry(second, stream))).collect()
}

/// The entries of a stream without a zone have one in their metadata, now and then.
fn with_zones(mut entries: Vec<(usize, TestEntry)>) -> Vec<(usize, TestEntry)> {
    for (stream, entry) in &mut entries {
        if *stream % 4 == 3 && entry.timestamp_ns / SECOND_NS % 3 == 0 {
            entry.metadata.push(("zone".to_owned(), "a".to_owned()));
        }
    }
    entries
}

/// Counts over windows that see all of both segments, all of one of them, and less than one.
fn ask(cluster: &Cluster<'_>, life: &Life<'_>, tenant: &TenantId) -> Tally {
    let store = life.model.store(tenant);
    let end_ns = START_NS + 2 * ENTRIES * SECOND_NS;
    let mut tally = Tally::default();
    for function in ["count_over_time", "rate", "bytes_over_time", "bytes_rate"] {
        for (range_seconds, step_seconds) in [(200, 200), (ENTRIES, ENTRIES), (15, 15), (15, 7)] {
            for selector in
                [r#"{app="m"}"#, r#"{s=~"1|2|7"}"#, r#"{s="4"}"#, r#"{app="m", zone!="b"}"#]
            {
                for grouping in ["", "by (s)", "by (app)", "by (zone)", "by (zone, s)"] {
                    let range = format!("{function}({selector} [{range_seconds}s])");
                    let text = format!("sum {grouping} ({range})");
                    let step_ns = step_seconds * SECOND_NS;
                    let params = QueryParams::range(START_NS + step_ns, end_ns + step_ns, step_ns);
                    compare(cluster, tenant, &store, &Query { text, params }, &mut tally);
                }
            }
        }
    }
    assert_eq!((tally.holes, tally.empty), (0, 0));
    tally
}

/// Volumes over the range of both segments, by labels of streams, and the number of streams that
/// statistics tell.
fn measure(cluster: &Cluster<'_>, life: &Life<'_>, tenant: &TenantId) {
    let store = life.model.store(tenant);
    let end_ns = START_NS + 2 * ENTRIES * SECOND_NS;
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    // Nothing is estimated, since the store tells the bytes of metadata.
    let layout = Layout { use_summaries: false, ..Layout::default() };
    for (selector, streams) in
        [(r#"{app="m"}"#, 9), (r#"{s=~"1|2|7"}"#, 3), (r#"{app="m", zone!="b"}"#, 7)]
    {
        let Ok(Expr::Log(LogExpr { selector, .. })) = syntax::parse(selector) else { panic!() };
        for by in [
            StreamLabels::Listed(Vec::new()),
            StreamLabels::Listed(list(&["zone"])),
            StreamLabels::Listed(list(&["zone", "s"])),
            StreamLabels::All,
            StreamLabels::Names(None),
        ] {
            for (bounds_ns, step_ns) in
                [((START_NS, end_ns), None), ((START_NS, end_ns), Some(20 * SECOND_NS))]
            {
                for size in [SizeOf::Line, SizeOf::Entry] {
                    let plan = Plan::volume(&selector, by.clone(), bounds_ns, step_ns, size);
                    let plan = plan.expect("a plan");
                    let (found, stats) = ask_plan(cluster, tenant, &plan, DeletionVersion::NONE);
                    let expected = store.run(&plan, &layout).expect("a result");
                    let message = format!("{selector:?} {by:?} {step_ns:?} {size:?}");
                    assert_eq!(found.expect("a result"), expected, "{message}");
                    if step_ns.is_none() && by == StreamLabels::Listed(Vec::new()) {
                        assert_eq!(stats.streams, streams, "{message}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_block_counts_only_the_streams_that_totals_leave() {
    let simulation = Simulation::new(1);
    let mut life = Life::new(&simulation, 1);
    let tenant = TenantId::new("one").expect("a tenant id");
    life.model = model(&tenant);
    let start = |shards| {
        let policy = SealPolicy::ON_REQUEST;
        let cluster = Cluster::start_sealing(&simulation, shards, WalConfig::default(), policy);
        cluster.expect("a healthy disk")
    };
    let cluster = start(1);
    assert!(life.push_entries(&cluster, with_zones(entries(0..ENTRIES, |_| true))));
    assert!(life.flush(&cluster, true));
    // Some of the streams repeat entries, the others go on.
    let (middle, end) = (ENTRIES / 2, 2 * ENTRIES);
    assert!(
        life.push_entries(&cluster, with_zones(entries(middle..end, |stream| stream % 3 == 1)))
    );
    let others = with_zones(entries(ENTRIES..end, |stream| stream % 3 != 1));
    assert!(life.push_entries(&cluster, others));
    assert!(life.flush(&cluster, true));
    ask(&cluster, &life, &tenant);
    measure(&cluster, &life, &tenant);
    cluster.stop().expect("a healthy disk");
    // Streams that are not in memory, and segments that have streams of several shards.
    for shards in [1, 2] {
        let cluster = start(shards);
        ask(&cluster, &life, &tenant);
        measure(&cluster, &life, &tenant);
        if shards == 1 {
            // Only those that repeat entries were looked for.
            let text = r#"sum by (app) (count_over_time({app="m"} [200s]))"#.to_owned();
            let at_ns = START_NS + 150 * SECOND_NS;
            let query = Query { text, params: QueryParams::range(at_ns, at_ns, SECOND_NS) };
            let mut tally = Tally::default();
            compare(&cluster, &tenant, &life.model.store(&tenant), &query, &mut tally);
            assert_eq!(tally.stats.streams, (0..STREAMS).filter(|s| s % 3 == 1).count() as u64);
        }
        cluster.stop().expect("a healthy disk");
    }
}

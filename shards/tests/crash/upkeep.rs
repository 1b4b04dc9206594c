//! Merging segments changes no answer. Retention removes expired entries, and no others.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{
    CompiledMatcher, Direction, MergeState, Plan, QueryParams, QueryResult, QueryTime,
};
use logsvc_logql::syntax;
use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{Account, CoreId, Runtime};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{
    AppendError, AppendOutcome, AppendRequest, MaintenanceStatus, ShardReply, ShardRequest,
    StreamSelection,
};
use logsvc_shards::retention::{RetentionPolicy, STEADY_AFTER, StreamPeriod, TenantPeriods};
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::types::{Cancellation, TimeRange};
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, SEGMENTS_DIR, Upkeep, append_outcome, call, send_append, sleep};
use crate::ledger::Ledger;

const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * SECOND_NS;
/// 2026-01-01T12:00:00Z.
pub(crate) const NOON_NS: i64 = 1_767_268_800 * SECOND_NS;

/// After so long a clock that was set counts for retention, and expired entries are gone.
const SETTLED: Duration = Duration::from_secs(STEADY_AFTER.as_secs() + 200);

pub(crate) fn eager() -> CompactionPolicy {
    CompactionPolicy {
        enabled: true,
        min_inputs: 2,
        max_inputs: 16,
        min_bundled: 2,
        check_interval: Duration::from_secs(60),
        ..CompactionPolicy::OFF
    }
}

pub(crate) fn upkeep(compaction: CompactionPolicy, retention: RetentionPolicy) -> Upkeep {
    let (seal, retention) = (SealPolicy::ON_REQUEST, Arc::new(retention));
    Upkeep { compaction, retention, ..seal.into() }
}

pub(crate) type Line = (i64, String, Option<u64>);

/// Pushes lines of one stream at once.
pub(crate) fn push(cluster: &Cluster<'_>, ledger: &Ledger, stream: usize, lines: &[Line]) {
    let outcome = try_push(cluster, ledger, stream, lines);
    assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
}

/// Pushes lines that may be refused.
pub(crate) fn try_push(
    cluster: &Cluster<'_>,
    ledger: &Ledger,
    stream: usize,
    lines: &[Line],
) -> Option<Result<AppendOutcome, AppendError>> {
    let stream = &ledger.streams[stream];
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(stream.id);
    for (timestamp_ns, line, id) in lines {
        let id = id.map(|id| id.to_string());
        let pairs = id.iter().map(|id| ("id", id.as_str()));
        builder.push(*timestamp_ns, line.as_bytes(), pairs);
    }
    let request = AppendRequest {
        batch: builder.finish(),
        definitions: vec![stream.clone()],
        out_of_order_window_ns: None,
        is_replayed: false,
    };
    let reply = send_append(&cluster.caller(0), cluster.layout.core_of(stream.id), request);
    cluster.run(append_outcome(reply.expect("the lanes have room")))
}

pub(crate) fn flush(cluster: &Cluster<'_>) {
    for shard in 0..cluster.shards {
        let caller = cluster.caller(0);
        let reply =
            cluster.run(async move { call(&caller, CoreId(shard), ShardRequest::Flush).await });
        assert!(matches!(reply, Some(ShardReply::Flushed(Ok(())))), "{reply:?}");
    }
}

pub(crate) fn wait(cluster: &Cluster<'_>, duration: Duration) {
    let runtime = cluster.node.runtime(CoreId(0)).clone();
    cluster.run(async move { sleep(&runtime, duration).await });
}

/// The answer to a query, in all detail.
pub(crate) fn ask(
    cluster: &Cluster<'_>,
    tenant: &TenantId,
    query: &str,
    params: &QueryParams,
) -> String {
    let expr = syntax::parse(query).expect("a query");
    let plan = Plan::new(&expr, params).expect("it can be planned");
    let mut merge = MergeState::new(&plan);
    for leaf in plan.leaves() {
        for shard in 0..cluster.shards {
            let request = LeafRequest {
                tenants: tenant.clone().into(),
                plan: Arc::new(leaf.clone()),
                deletions: DeletionVersion::NONE,
                cancellation: Cancellation::default(),
                account: Account::alone(1 << 30),
                entries_each: None,
            };
            let caller = cluster.caller(0);
            let reply = cluster.run(async move {
                call(&caller, CoreId(shard), ShardRequest::Leaf(request)).await
            });
            let Some(ShardReply::Leaf(Ok(reply))) = reply else { panic!("{reply:?}") };
            assert_eq!(reply.stats.unreadable_parts, 0);
            merge.add(reply.result);
            let jobs = reply.rest.map(|rest| rest.divide(cluster.shards)).unwrap_or_default();
            for (helper, job) in jobs.into_iter().enumerate() {
                let (caller, job) = (cluster.caller(0), ShardRequest::Share(Box::new(job)));
                let helper = CoreId(helper as u16);
                let reply = cluster.run(async move { call(&caller, helper, job).await });
                let Some(ShardReply::Leaf(Ok(reply))) = reply else { panic!("{reply:?}") };
                assert_eq!(reply.stats.unreadable_parts, 0);
                merge.add(reply.result);
            }
        }
    }
    match merge.finish().expect("an answer") {
        QueryResult::Streams(streams) => {
            let mut text = String::new();
            for stream in streams {
                text += &format!("{:?}\n", stream.labels);
                for entry in stream.entries {
                    let line = String::from_utf8_lossy(&entry.line);
                    text += &format!("{} {line} {:?}\n", entry.timestamp_ns, entry.categories);
                }
            }
            text
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn answers(cluster: &Cluster<'_>, tenant: &TenantId) -> Vec<String> {
    let range = |start_ns, end_ns, step_ns| QueryTime::Range { start_ns, end_ns, step_ns };
    let mut answers = Vec::new();
    for direction in [Direction::Forward, Direction::Backward] {
        for limit in [1, 7, 1 << 20] {
            // Which entries of one time and of different streams a limit leaves may change.
            let streams = if limit > 100 { "" } else { r#", number="1""# };
            for filter in ["", r#" |= "line 1""#] {
                let query = format!(r#"{{app="crash"{streams}}}{filter}"#);
                for time in [range(i64::MIN, i64::MAX, 1), range(NOON_NS + 3, NOON_NS + 9, 1)] {
                    let params = QueryParams {
                        limit,
                        direction,
                        categorize_labels: true,
                        ..QueryParams::new(time)
                    };
                    answers.push(ask(cluster, tenant, &query, &params));
                }
            }
        }
    }
    for query in [
        r#"count_over_time({app="crash"}[10s])"#,
        r#"sum by (number) (bytes_over_time({app="crash"} | id!="" [1m]))"#,
        r#"topk(2, sum by (id) (count_over_time({app="crash"}[1m])))"#,
    ] {
        let time = range(NOON_NS - 10 * SECOND_NS, NOON_NS + 60 * SECOND_NS, 7 * SECOND_NS);
        answers.push(ask(cluster, tenant, query, &QueryParams::new(time)));
    }
    answers
}

pub(crate) fn check_answers(answers: &[String], before: &[String]) {
    assert_eq!(answers.len(), before.len());
    let pairs = answers.iter().zip(before).enumerate();
    let others = pairs.filter(|(_, (answer, before))| answer != before);
    let told = |(number, (answer, before)): (usize, (&String, &String))| {
        format!("answer {number} was\n{before}\nand is\n{answer}\n")
    };
    let told: Vec<String> = others.map(told).collect();
    assert!(told.is_empty(), "{}", told.join(""));
}

pub(crate) fn maintenance(cluster: &Cluster<'_>) -> MaintenanceStatus {
    let mut sum = MaintenanceStatus::default();
    for status in cluster.statuses() {
        let one = status.seal.maintenance;
        sum.merges += one.merges;
        sum.dropped_entries += one.dropped_entries;
        sum.removed_segments += one.removed_segments;
        sum.failures += one.failures;
        sum.forgotten_streams += one.forgotten_streams;
        sum.retired_segments += one.retired_segments;
    }
    sum
}

pub(crate) fn segment_count(cluster: &Cluster<'_>) -> u64 {
    cluster.statuses().iter().map(|status| status.seal.segments).sum()
}

pub(crate) fn file_count(simulation: &Simulation) -> usize {
    let files = simulation.disk().files(SEGMENTS_DIR);
    files.iter().filter(|path| path.extension().is_some_and(|end| end == "seg")).count()
}

/// Names of the streams that the index knows in a range.
pub(crate) fn indexed(cluster: &Cluster<'_>, tenant: &TenantId, range: TimeRange) -> Vec<String> {
    let selection = StreamSelection {
        tenants: tenant.clone().into(),
        matcher_groups: Arc::from(Vec::<Vec<CompiledMatcher>>::new()),
        range,
        account: Account::alone(1 << 30),
        cancellation: Cancellation::default(),
    };
    let mut names = Vec::new();
    for shard in 0..cluster.shards {
        let (caller, selection) = (cluster.caller(0), selection.clone());
        let request = ShardRequest::LabelValues(selection, "number".into());
        let reply = cluster.run(async move { call(&caller, CoreId(shard), request).await });
        let Some(ShardReply::Texts(texts, _)) = reply else { panic!("{reply:?}") };
        names.extend(texts.iter().map(|text| text.to_string()));
    }
    names.sort_unstable();
    names
}

const ALL: TimeRange = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };

#[test]
fn answers_are_the_same_before_and_after_a_merge() {
    let mut merges = 0;
    for seed in seeds(25) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let ledger = Ledger::new(&["acme"], 4);
        let tenant = ledger.streams[0].tenant.clone();
        let shards = rng.between(1, 2) as u16;
        let off = upkeep(CompactionPolicy::OFF, RetentionPolicy::default());
        let start = |upkeep: Upkeep| {
            Cluster::start_sealing(&simulation, shards, WalConfig::default(), upkeep)
                .expect("a healthy disk")
        };
        let cluster = start(off.clone());
        let mut number = 0;
        for _ in 0..rng.between(2, 6) {
            for stream in 0..4 {
                let count = rng.below(30);
                let line = |_| {
                    number += 1;
                    // Ties, late ones, and entries that are pushed again after they
                    // were sealed.
                    let timestamp_ns = NOON_NS + rng.below(20) as i64;
                    let line = format!("line {}", rng.below(12));
                    (timestamp_ns, line, rng.one_in(3).then(|| rng.below(4)))
                };
                let lines: Vec<Line> = (0..count).map(line).collect();
                if !lines.is_empty() {
                    push(&cluster, &ledger, stream, &lines);
                }
            }
            flush(&cluster);
        }
        let before = answers(&cluster, &tenant);
        assert!(before.iter().any(|answer| answer.contains("line 1")), "{before:?}");
        cluster.stop().expect("a healthy disk");
        let cluster = start(upkeep(eager(), RetentionPolicy::default()));
        wait(&cluster, Duration::from_secs(2));
        merges += maintenance(&cluster).merges;
        assert!(segment_count(&cluster) <= u64::from(shards));
        assert_eq!(file_count(&simulation) as u64, segment_count(&cluster));
        check_answers(&answers(&cluster, &tenant), &before);
        // And after a start, which looks at everything anew.
        cluster.stop().expect("a healthy disk");
        let cluster = start(off);
        check_answers(&answers(&cluster, &tenant), &before);
        cluster.stop().expect("a healthy disk");
    }
    assert!(merges > 0);
}

/// A query that runs while its segments are merged reads on in the old ones.
#[test]
fn a_scan_keeps_the_segments_that_it_began_with() {
    let simulation = Simulation::new(5);
    let ledger = Ledger::new(&["acme"], 1);
    let tenant = ledger.streams[0].tenant.clone();
    let cluster = Cluster::start_sealing(
        &simulation,
        1,
        WalConfig::default(),
        upkeep(eager(), RetentionPolicy::default()),
    )
    .expect("a healthy disk");
    let everything = r#"{app="crash"}"#;
    let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
    let params = QueryParams { limit: 1 << 20, ..QueryParams::new(time) };
    // Clients ask all the time while segments come and go.
    let expr = syntax::parse(everything).expect("a query");
    let plan = Plan::new(&expr, &params).expect("it can be planned");
    let (asked, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    for _ in 0..3 {
        let (caller, runtime) = (cluster.caller(0), cluster.node.runtime(CoreId(0)).clone());
        let (asked, stop) = (Rc::clone(&asked), Rc::clone(&stop));
        let leaf = LeafRequest {
            tenants: tenant.clone().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
            entries_each: None,
        };
        drop(runtime.clone().spawn(async move {
            while !stop.get() {
                let request = ShardRequest::Leaf(leaf.clone());
                let reply = call(&caller, CoreId(0), request).await;
                let Some(ShardReply::Leaf(Ok(reply))) = reply else { panic!("{reply:?}") };
                assert_eq!(reply.stats.unreadable_parts, 0, "a file was gone");
                asked.set(asked.get() + 1);
            }
        }));
    }
    for number in 0..60i64 {
        let line = format!("{number} {}", "text ".repeat(200));
        push(&cluster, &ledger, 0, &[(NOON_NS + number, line, None)]);
        flush(&cluster);
    }
    stop.set(true);
    wait(&cluster, Duration::from_secs(1));
    let merges = maintenance(&cluster).merges;
    assert!(asked.get() > 20 && merges > 3, "{} queries, {merges} merges", asked.get());
    assert_eq!(maintenance(&cluster).retired_segments, 0);
    assert_eq!(file_count(&simulation) as u64, segment_count(&cluster));
    let answer = ask(&cluster, &tenant, everything, &params);
    assert!((0..60).all(|number| answer.contains(&format!("{number} text"))));
    cluster.stop().expect("a healthy disk");
}

fn rule(selector: &str, priority: i64, period_ns: i64) -> StreamPeriod {
    let selector = syntax::parse_selector(selector).expect("a selector");
    let matchers = selector.matchers.iter().map(|m| CompiledMatcher::new(m).expect("valid"));
    StreamPeriod { matchers: matchers.collect(), priority, period_ns }
}

#[test]
fn what_has_expired_goes_and_the_rest_stays() {
    for shards in [1, 3] {
        let simulation = Simulation::new(7);
        simulation.set_unix_nanos(NOON_NS + HOUR_NS);
        let ledger = Ledger::new(&["acme", "other"], 4);
        let acme = ledger.streams[0].tenant.clone();
        let periods = TenantPeriods {
            period_ns: Some(72 * HOUR_NS),
            streams: vec![
                rule(r#"{number=~"0|1"}"#, 1, 24 * HOUR_NS),
                rule(r#"{number="1"}"#, 2, 48 * HOUR_NS),
            ],
        };
        let forever = TenantPeriods::default();
        let other = TenantId::new("other").expect("a tenant");
        let retention = RetentionPolicy {
            periods: Some(periods),
            tenants: [(other.clone(), forever)].into(),
            ..RetentionPolicy::default()
        };
        // Merges are not needed for it, and partly expired segments are rewritten.
        let upkeep = upkeep(CompactionPolicy::OFF, retention);
        let start = |shards| {
            Cluster::start_sealing(&simulation, shards, WalConfig::default(), upkeep.clone())
                .expect("a healthy disk")
        };
        let cluster = start(shards);
        for stream in 0..8 {
            let lines = [(NOON_NS, format!("stream {stream}"), None)];
            push(&cluster, &ledger, stream, &lines);
            if stream == 0 {
                // So much that half of its segment expires with it.
                let long = "long ".repeat(2000);
                push(&cluster, &ledger, stream, &[(NOON_NS + 1, long, None)]);
            }
        }
        flush(&cluster);
        // Files of another number of shards are removed too, by all shards together.
        let cluster = if shards == 1 {
            cluster
        } else {
            cluster.stop().expect("a healthy disk");
            start(2)
        };
        let at = |hours: i64| {
            simulation.set_unix_nanos(NOON_NS + hours * HOUR_NS + 60 * SECOND_NS);
            wait(&cluster, Duration::from_secs(7300));
            indexed(&cluster, &acme, ALL).join(" ")
        };
        assert_eq!(at(20), "0 1 2 3");
        let found = [at(24), at(48), at(72)];
        if shards == 1 {
            // The long stream took most of the segment; for another one it is not
            // rewritten, and the other tenant's streams keep it.
            assert_eq!(found, ["1 2 3", "1 2 3", "1 2 3"]);
        }
        assert_eq!(indexed(&cluster, &other, ALL), ["0", "1", "2", "3"]);
        assert_eq!(maintenance(&cluster).failures, 0);
        cluster.stop().expect("a healthy disk");
    }
}

#[test]
fn other_periods_hold_from_then_on() {
    let simulation = Simulation::new(9);
    simulation.set_unix_nanos(NOON_NS + HOUR_NS);
    let ledger = Ledger::new(&["acme", "other"], 2);
    let acme = ledger.streams[0].tenant.clone();
    let upkeep = upkeep(CompactionPolicy::OFF, RetentionPolicy::default());
    let cluster = Cluster::start_sealing(&simulation, 2, WalConfig::default(), upkeep)
        .expect("a healthy disk");
    for stream in 0..ledger.streams.len() {
        push(&cluster, &ledger, stream, &[(NOON_NS, "text".into(), None)]);
        flush(&cluster);
    }
    let retain = |hours: Option<i64>| {
        let own = TenantPeriods {
            period_ns: hours.map(|hours| hours * HOUR_NS),
            streams: vec![rule(r#"{number="1"}"#, 1, 24 * HOUR_NS)],
        };
        let policy = Arc::new(RetentionPolicy {
            periods: Some(TenantPeriods::default()),
            tenants: [(acme.clone(), own)].into(),
            ..RetentionPolicy::default()
        });
        for shard in 0..2 {
            let (caller, policy) = (cluster.caller(0), Arc::clone(&policy));
            let request = ShardRequest::Retain(policy);
            let reply = cluster.run(async move { call(&caller, CoreId(shard), request).await });
            assert!(matches!(reply, Some(ShardReply::Retained)), "{reply:?}");
        }
        wait(&cluster, SETTLED);
        indexed(&cluster, &acme, ALL).join(" ")
    };
    simulation.set_unix_nanos(NOON_NS + 45 * HOUR_NS);
    wait(&cluster, Duration::from_secs(200));
    assert_eq!(indexed(&cluster, &acme, ALL), ["0", "1"], "nothing is said of periods");
    assert_eq!(retain(None), "0");
    assert_eq!(retain(Some(48)), "0");
    assert_eq!(retain(Some(30)), "");
    let other = TenantId::new("other").expect("a tenant");
    assert_eq!(indexed(&cluster, &other, ALL), ["0", "1"]);
    cluster.stop().expect("a healthy disk");
}

#[test]
fn whole_segments_go_when_everything_in_them_has_expired() {
    for shards in [1, 2] {
        let simulation = Simulation::new(8);
        simulation.set_unix_nanos(NOON_NS + HOUR_NS);
        let ledger = Ledger::new(&["acme"], 6);
        let acme = ledger.streams[0].tenant.clone();
        let periods = TenantPeriods { period_ns: Some(48 * HOUR_NS), streams: Vec::new() };
        let retention = RetentionPolicy { periods: Some(periods), ..RetentionPolicy::default() };
        let upkeep = upkeep(eager(), retention);
        let start = |shards| {
            Cluster::start_sealing(&simulation, shards, WalConfig::default(), upkeep.clone())
                .expect("a healthy disk")
        };
        let cluster = start(2);
        for stream in 0..6 {
            push(&cluster, &ledger, stream, &[(NOON_NS, "old".into(), None)]);
        }
        flush(&cluster);
        for stream in 0..3 {
            push(&cluster, &ledger, stream, &[(NOON_NS + 26 * HOUR_NS, "new".into(), None)]);
        }
        flush(&cluster);
        let everything = r#"{app="crash"}"#;
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams { limit: 100, ..QueryParams::new(time) };
        // With another number of shards, all of them have to let go of each file.
        cluster.stop().expect("a healthy disk");
        let cluster = start(shards);
        wait(&cluster, Duration::from_secs(200));
        assert_eq!(indexed(&cluster, &acme, ALL).len(), 6);
        simulation.set_unix_nanos(NOON_NS + 49 * HOUR_NS);
        wait(&cluster, SETTLED);
        assert_eq!(indexed(&cluster, &acme, ALL), ["0", "1", "2"]);
        let answer = ask(&cluster, &acme, everything, &params);
        assert!(!answer.contains("old") && answer.matches("new").count() == 3, "{answer}");
        assert_eq!(file_count(&simulation) as u64, segment_count(&cluster));
        // A stream that was forgotten is known again by its next entry.
        push(&cluster, &ledger, 5, &[(NOON_NS + 48 * HOUR_NS, "again".into(), None)]);
        assert_eq!(indexed(&cluster, &acme, ALL), ["0", "1", "2", "5"]);
        simulation.set_unix_nanos(NOON_NS + 90 * HOUR_NS);
        wait(&cluster, SETTLED);
        assert_eq!(indexed(&cluster, &acme, ALL), ["5"], "it is still in memory");
        assert_eq!(file_count(&simulation), 0);
        let found = maintenance(&cluster);
        assert_eq!(found.failures, 0, "{found:?}");
        let statuses = cluster.statuses();
        let removed =
            statuses.iter().filter_map(|s| s.removed_streams.alone.get(&acme)).sum::<u64>();
        let created =
            statuses.iter().filter_map(|s| s.created_streams.alone.get(&acme)).sum::<u64>();
        // A start knows streams of the log only, and this one was pushed since.
        assert_eq!((created, removed), (1, 0));
        cluster.stop().expect("a healthy disk");
        let cluster = start(shards);
        assert_eq!(indexed(&cluster, &acme, ALL), ["5"]);
        cluster.stop().expect("a healthy disk");
    }
}

#[test]
fn a_backfill_of_many_days_survives_a_lost_manifest_and_expires_by_the_day() {
    for compaction in [CompactionPolicy::OFF, eager()] {
        let simulation = Simulation::new(10);
        simulation.set_unix_nanos(NOON_NS + HOUR_NS);
        let ledger = Ledger::new(&["acme"], 2);
        let acme = ledger.streams[0].tenant.clone();
        let start = |retention: RetentionPolicy| {
            let upkeep = upkeep(compaction, retention);
            Cluster::start_sealing(&simulation, 1, WalConfig::default(), upkeep)
                .expect("a healthy disk")
        };
        let cluster = start(RetentionPolicy::default());
        for stream in 0..2 {
            let line = |day: i64| (NOON_NS - day * 24 * HOUR_NS, format!("day {day} "), None);
            let lines: Vec<Line> = (0..100).map(line).collect();
            push(&cluster, &ledger, stream, &lines);
        }
        flush(&cluster);
        assert_eq!(segment_count(&cluster), 27, "84 days in groups of 8, and 16 days");
        cluster.stop().expect("a healthy disk");
        let manifest = std::path::Path::new(SEGMENTS_DIR).join("MANIFEST");
        assert!(simulation.disk().remove(manifest));
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams { limit: 1000, ..QueryParams::new(time) };
        let counts = |cluster: &Cluster<'_>| -> Vec<usize> {
            let answer = ask(cluster, &acme, r#"{app="crash"}"#, &params);
            (0..100).map(|day| answer.matches(&format!("day {day} ")).count()).collect()
        };
        let cluster = start(RetentionPolicy::default());
        assert_eq!(counts(&cluster), [2; 100], "nothing is lost with the manifest");
        cluster.stop().expect("a healthy disk");
        let periods = TenantPeriods { period_ns: Some(60 * 24 * HOUR_NS), streams: Vec::new() };
        let cluster =
            start(RetentionPolicy { periods: Some(periods), ..RetentionPolicy::default() });
        wait(&cluster, Duration::from_secs(400));
        let counts = counts(&cluster);
        assert_eq!(counts[..60], [2; 60], "what has not expired stays");
        assert_eq!(counts[64..], [0; 36], "what is more than half of its group goes");
        assert_eq!(maintenance(&cluster).failures, 0);
        cluster.stop().expect("a healthy disk");
    }
}

#[test]
fn the_oldest_day_goes_first_when_the_disk_share_is_used_up() {
    for today in [2, 3] {
        let simulation = Simulation::new(9);
        simulation.set_unix_nanos(NOON_NS + 240 * HOUR_NS);
        let ledger = Ledger::new(&["acme"], 6);
        let acme = ledger.streams[0].tenant.clone();
        let start = |shards, retention: RetentionPolicy| {
            let upkeep = upkeep(CompactionPolicy::OFF, retention);
            Cluster::start_sealing(&simulation, shards, WalConfig::default(), upkeep)
                .expect("a healthy disk")
        };
        let cluster = start(2, RetentionPolicy::default());
        for day in 0..8i64 {
            for stream in 0..6 {
                let line = format!("day {day} {}", "x".repeat(100));
                push(&cluster, &ledger, stream, &[(NOON_NS + day * 24 * HOUR_NS, line, None)]);
            }
            flush(&cluster);
        }
        let held_bytes = || -> u64 {
            let files = simulation.disk().files(SEGMENTS_DIR);
            let segments = files.iter().filter(|p| p.extension().is_some_and(|end| end == "seg"));
            segments
                .map(|path| simulation.disk().read(path).expect("it is there").len() as u64)
                .sum()
        };
        let full_bytes = held_bytes();
        cluster.stop().expect("a healthy disk");
        let max_bytes = full_bytes / 2;
        let retention =
            RetentionPolicy { disk_max_bytes: Some(max_bytes), ..RetentionPolicy::default() };
        let cluster = start(today, retention);
        wait(&cluster, Duration::from_secs(400));
        let left_bytes = held_bytes();
        assert!(left_bytes <= max_bytes, "{left_bytes} of {max_bytes}");
        assert!(left_bytes >= max_bytes - full_bytes / 8, "not more than had to be");
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams { limit: 1000, ..QueryParams::new(time) };
        let answer = ask(&cluster, &acme, r#"{app="crash"}"#, &params);
        let of_day = |day: usize| answer.matches(&format!("day {day} ")).count();
        let counts: Vec<usize> = (0..8).map(of_day).collect();
        assert!(counts.is_sorted(), "older days go first: {counts:?}");
        assert_eq!((counts[0], counts[7]), (0, 6), "{counts:?}");
        cluster.stop().expect("a healthy disk");
    }
}

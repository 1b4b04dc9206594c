//! Scans reserve the memory of their batches: they wait while there is no memory, go on with less,
//! are refused in the end, and give back everything however they end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{Plan, QueryParams, QueryTime};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{Account, CoreId, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::scan::{LeafReply, LeafRequest, ScanError};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::types::Cancellation;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{CACHE_MAX_BYTES, Cluster, Upkeep, call};
use crate::ledger::Ledger;
use crate::upkeep::{Line, NOON_NS, answers, check_answers, flush, push, wait};

const LINES: &str = r#"{app="crash"} |= "text""#;

fn start<'s>(simulation: &'s Simulation, cache_max_bytes: u64) -> Cluster<'s> {
    let upkeep = Upkeep { cache_max_bytes, ..SealPolicy::ON_REQUEST.into() };
    let started = Cluster::start_sealing(simulation, 1, WalConfig::default(), upkeep);
    started.expect("a healthy disk")
}

/// A node with sealed blocks of about ten kilobytes. The blocks of the first two streams repeat
/// entries, the third stream has one block.
fn filled<'s>(simulation: &'s Simulation, ledger: &Ledger) -> Cluster<'s> {
    let cluster = start(simulation, CACHE_MAX_BYTES);
    for segment in 0..6 {
        for stream in 0..2 {
            let line = |number: i64| {
                let text = format!("line {} {}", number % 12, "text ".repeat(200));
                // Every second segment repeats some entries of the one before.
                let timestamp_ns = NOON_NS + 10 * (segment / 2) + number;
                (timestamp_ns, text, Some(number as u64 % 3))
            };
            let lines: Vec<Line> = (0..10).map(line).collect();
            push(&cluster, ledger, stream, &lines);
        }
        if segment == 3 {
            let lines = (0..10).map(|number| (NOON_NS + number, "text".to_owned(), None));
            push(&cluster, ledger, 2, &lines.collect::<Vec<Line>>());
        }
        flush(&cluster);
    }
    cluster
}

/// Where the answer to a query comes to.
type Answer = Rc<RefCell<Option<Result<Box<LeafReply>, ScanError>>>>;

/// Asks the shard, which answers into the slot.
fn ask(cluster: &Cluster<'_>, ledger: &Ledger, query: &str) -> (Answer, Cancellation) {
    let expr = syntax::parse(query).expect("a query");
    let end_ns = NOON_NS + 1_000;
    // All lines, or one step behind them.
    let start_ns = if matches!(expr, Expr::Log(_)) { NOON_NS } else { end_ns };
    let time = QueryTime::Range { start_ns, end_ns, step_ns: 1_000 };
    let params = QueryParams { limit: 1 << 20, ..QueryParams::new(time) };
    let plan = Plan::new(&expr, &params).expect("it can be planned");
    let cancellation = Cancellation::default();
    let request = LeafRequest {
        tenants: ledger.streams[0].tenant.clone().into(),
        plan: Arc::new(plan.leaves()[0].clone()),
        deletions: DeletionVersion::NONE,
        cancellation: cancellation.clone(),
        account: Account::alone(1 << 30),
        entries_each: None,
    };
    let answer = Answer::default();
    let (caller, slot) = (cluster.caller(0), Rc::clone(&answer));
    drop(cluster.node.runtime(CoreId(0)).spawn(async move {
        let reply = call(&caller, CoreId(0), ShardRequest::Leaf(request)).await;
        let Some(ShardReply::Leaf(reply)) = reply else { panic!("{reply:?}") };
        *slot.borrow_mut() = Some(reply);
    }));
    (answer, cancellation)
}

fn until_answered(cluster: &Cluster<'_>, answer: &Answer) -> Result<Box<LeafReply>, ScanError> {
    let run = cluster.simulation.run_until(|| answer.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    answer.take().expect("it was answered")
}

#[test]
fn a_scan_waits_for_memory_and_is_refused_in_the_end() {
    let simulation = Simulation::new(1);
    let ledger = Ledger::new(&["acme"], 3);
    let cluster = filled(&simulation, &ledger);
    let queries = cluster.queries().clone();
    let all = queries.try_reserve(queries.max_bytes()).expect("nobody else holds any");

    // An answer from a directory needs no memory.
    let (answer, _) = ask(&cluster, &ledger, r#"sum(count_over_time({number="2"}[1h]))"#);
    let reply = until_answered(&cluster, &answer).expect("an answer");
    assert_eq!((reply.stats.streams, reply.stats.sealed_entries), (1, 10));
    assert_eq!(reply.stats.sealed_blocks, 0);

    let (answer, _) = ask(&cluster, &ledger, LINES);
    wait(&cluster, Duration::from_secs(9));
    assert!(answer.borrow().is_none(), "it waits");
    assert_eq!(until_answered(&cluster, &answer).err(), Some(ScanError::Busy));
    assert_eq!(queries.used_bytes(), queries.max_bytes());
    assert_eq!(queries.refused_count(), 1);

    let (answer, _) = ask(&cluster, &ledger, LINES);
    wait(&cluster, Duration::from_secs(1));
    assert!(answer.borrow().is_none(), "it waits");
    drop(all);
    assert!(until_answered(&cluster, &answer).is_ok());
    assert_eq!(queries.used_bytes(), 0);
    assert!(queries.peak_bytes() > 0);

    let all = queries.try_reserve(queries.max_bytes()).expect("it was given back");
    let (answer, cancellation) = ask(&cluster, &ledger, LINES);
    wait(&cluster, Duration::from_secs(1));
    cancellation.cancel();
    assert_eq!(until_answered(&cluster, &answer).err(), Some(ScanError::Cancelled));
    drop(all);
    cluster.stop().expect("a healthy disk");
}

/// Compares answers with little memory with answers with enough memory.
fn check_with_little(simulation: &Simulation, ledger: &Ledger, least_bytes: u64) {
    let tenant = &ledger.streams[0].tenant;
    // With decoded blocks in the cache, where they count, and without.
    for cache_max_bytes in [CACHE_MAX_BYTES, 0] {
        let cluster = start(simulation, cache_max_bytes);
        let before = answers(&cluster, tenant);
        let queries = cluster.queries().clone();
        assert_eq!((queries.used_bytes(), queries.refused_count()), (0, 0));
        // So that with less than that batches become smaller, or wait.
        assert!(queries.peak_bytes() > 2 * least_bytes, "{}", queries.peak_bytes());
        cluster.stop().expect("a healthy disk");
        for left_bytes in [least_bytes, least_bytes * 3 / 2, 2 * least_bytes] {
            let cluster = start(simulation, cache_max_bytes);
            let queries = cluster.queries().clone();
            // Scans do not touch the last eighth.
            let most_bytes = queries.max_bytes() / 8 * 7 - left_bytes;
            let most = queries.try_reserve(most_bytes).expect("all is there");
            check_answers(&answers(&cluster, tenant), &before);
            assert_eq!((queries.used_bytes(), queries.refused_count()), (most_bytes, 0));
            drop(most);
            cluster.stop().expect("a healthy disk");
        }
    }
}

#[test]
fn little_memory_changes_no_answer() {
    let simulation = Simulation::new(2);
    let ledger = Ledger::new(&["acme"], 3);
    filled(&simulation, &ledger).stop().expect("a healthy disk");
    check_with_little(&simulation, &ledger, 30_000);
}

/// Lines that are stored in parts, which are searched without putting lines together.
#[test]
fn little_memory_changes_no_answer_of_a_search_in_parts() {
    let simulation = Simulation::new(3);
    let ledger = Ledger::new(&["acme"], 3);
    let cluster = start(&simulation, CACHE_MAX_BYTES);
    for segment in 0..8 {
        for stream in 0..2 {
            let line = |number: i64| {
                let (id, took) = (number * 7919 % 1000, number * 31 % 97);
                let text = format!("line {} of request {id} took {took} ms", number % 12);
                (NOON_NS + 1_000 * segment + number, text, None)
            };
            let lines: Vec<Line> = (0..300).map(line).collect();
            push(&cluster, &ledger, stream, &lines);
        }
        flush(&cluster);
    }
    cluster.stop().expect("a healthy disk");
    check_with_little(&simulation, &ledger, 60_000);
}

#[test]
fn a_scan_that_is_cancelled_or_dies_gives_everything_back() {
    let (mut cancelled, mut died) = (0, 0);
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let ledger = Ledger::new(&["acme"], 3);
        let cluster = filled(&simulation, &ledger);
        let queries = cluster.queries().clone();
        let (answer, cancellation) = ask(&cluster, &ledger, LINES);
        // At any time while it holds something, or before.
        let steps = rng.below(40);
        let mut taken = 0;
        let run = simulation.run_until(|| {
            taken += u64::from(queries.used_bytes() > 0);
            taken > steps || answer.borrow().is_some()
        });
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        let was_held = queries.used_bytes() > 0;
        if rng.one_in(2) {
            cancellation.cancel();
            let answer = until_answered(&cluster, &answer);
            cancelled += u64::from(was_held && answer.is_err());
            assert_eq!(queries.used_bytes(), 0);
            cluster.stop().expect("a healthy disk");
        } else {
            cluster.node.crash();
            died += u64::from(was_held);
            drop(cluster);
            assert_eq!(queries.used_bytes(), 0);
        }
    }
    assert!(cancelled > 5 && died > 5, "{cancelled} {died}");
}

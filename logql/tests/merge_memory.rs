//! A merge asks for all memory that it allocates, and it ends soon after the allowance says that
//! the client is gone.

#![expect(unsafe_code, reason = "counting what is allocated needs an allocator")]

mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{
    Allowance, EvalError, LeafExecutor, LeafResult, MergeState, Plan, QueryParams, QueryResult,
    Stop,
};
use logsvc_logql::syntax;
use logsvc_proto::Labels;

/// An allowance with a ceiling that counts checks, and the most bytes that were taken.
#[derive(Clone, Debug)]
struct Watched {
    taken_bytes: Arc<AtomicU64>,
    peak_bytes: Arc<AtomicU64>,
    max_bytes: u64,
    checks: Arc<AtomicU64>,
    checks_max: u64,
}

impl Watched {
    fn new(taken_bytes: u64, max_bytes: u64, checks_max: u64) -> Watched {
        Watched {
            taken_bytes: Arc::new(AtomicU64::new(taken_bytes)),
            peak_bytes: Arc::new(AtomicU64::new(taken_bytes)),
            max_bytes,
            checks: Arc::default(),
            checks_max,
        }
    }
}

impl Allowance for Watched {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        let taken = self.taken_bytes.load(Ordering::Relaxed) + bytes;
        if taken > self.max_bytes {
            return Err(Stop::TooLarge { max_bytes: self.max_bytes });
        }
        self.taken_bytes.store(taken, Ordering::Relaxed);
        self.peak_bytes.fetch_max(taken, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&mut self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn check(&mut self) -> Result<(), Stop> {
        if self.checks.fetch_add(1, Ordering::Relaxed) < self.checks_max {
            Ok(())
        } else {
            Err(Stop::Ended)
        }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(self.clone())
    }
}

const S: i64 = 1_000_000_000;

fn planned(query: &str) -> Plan {
    let expr = syntax::parse(query).expect("a query");
    let mut params = QueryParams::range(0, 600 * S, 10 * S);
    params.limit = 1_000_000;
    params.limits.max_series = 0;
    Plan::new(&expr, &params).expect("a plan")
}

/// The results of two shards: so many streams with a few lines each.
fn parts(plan: &Plan, streams: usize) -> Vec<LeafResult> {
    let entries: Vec<TestEntry> = (0..12)
        .map(|i: i64| TestEntry {
            timestamp_ns: i * 50 * S,
            line: format!("level={} n={i} msg=\"what happened\"", ["info", "warn"][i as usize % 2])
                .into_bytes(),
            metadata: if i % 4 == 0 { vec![("trace".into(), i.to_string())] } else { Vec::new() },
        })
        .collect();
    let columns = Columns::new(&entries, true);
    let mut parts = Vec::new();
    for leaf in plan.leaves() {
        for shard in 0..2 {
            let mut executor = LeafExecutor::new(leaf).expect("compiles");
            for stream in (0..streams).filter(|stream| stream % 2 == shard) {
                let (pod, zone) = (format!("pod-{stream}"), format!("zone-{}", stream % 7));
                let pairs = [("job", "load"), ("pod", pod.as_str()), ("zone", zone.as_str())];
                let labels = Labels::from_pairs(pairs).expect("labels");
                let mut state = executor.stream(&labels);
                executor.block(&mut state, &columns.block(0));
            }
            parts.push(executor.finish());
        }
    }
    parts
}

struct Merged {
    result: Result<QueryResult, EvalError>,
    allocated_bytes: u64,
    asked_bytes: u64,
    /// The bytes of the allowance that are held behind the merge.
    kept_bytes: u64,
    checks: u64,
}

fn merged(plan: &Plan, parts: Vec<LeafResult>, max_bytes: u64, checks_max: u64) -> Merged {
    let parts_bytes: u64 = parts.iter().map(|part| part.held_bytes() as u64).sum();
    let watched = Watched::new(parts_bytes, max_bytes, checks_max);
    let mut state = MergeState::with_allowance(plan, Box::new(watched.clone()), parts_bytes);
    let (result, _, allocated) = counting::measured(|| {
        parts.into_iter().for_each(|part| state.add(part));
        state.finish()
    });
    Merged {
        result,
        allocated_bytes: parts_bytes + u64::try_from(allocated).expect("more than before"),
        asked_bytes: watched.peak_bytes.load(Ordering::Relaxed),
        kept_bytes: watched.taken_bytes.load(Ordering::Relaxed),
        checks: watched.checks.load(Ordering::Relaxed),
    }
}

fn nested(count: usize, replacement: &str, inner: &str) -> String {
    let open = "label_replace(".repeat(count);
    let close = format!(r#","pod","{replacement}","pod","(.*)")"#).repeat(count);
    format!("{open}{inner}{close}")
}

fn queries() -> Vec<String> {
    let counts = r#"count_over_time({job="load"}[1m])"#;
    let by_level = r#"sum by (pod, level) (count_over_time({job="load"} | logfmt [1m]))"#;
    let values = r#"{job="load"} | logfmt | unwrap n [2m]"#;
    // Sums of such values need words of their own.
    let far_apart = r#"{job="load"} | logfmt | label_format n="{{.n}}e{{.n}}0" | unwrap n [5m]"#;
    vec![
        counts.to_owned(),
        format!("sum({counts})"),
        format!("avg by (zone) ({counts})"),
        format!("stddev without (pod) ({counts})"),
        format!("topk(3, {counts})"),
        format!("bottomk by (zone) (500, {counts})"),
        format!("sort_desc({counts})"),
        by_level.to_owned(),
        format!("{counts} / {counts}"),
        format!("{counts} * on (zone) group_left max by (zone) ({counts})"),
        format!("{by_level} / on (pod) group_left (zone) sum by (pod, zone) ({counts})"),
        format!("{counts} > bool 1"),
        format!("{counts} and {by_level}"),
        format!("{counts} or {by_level}"),
        format!("{counts} unless on (zone) {by_level}"),
        format!("{counts} + vector(1) or vector(2)"),
        format!("quantile_over_time(0.9, {values})"),
        format!("sum by (zone) (stddev_over_time({values}))"),
        format!("max_over_time({values}) by (level)"),
        format!("avg_over_time({values})"),
        format!("avg_over_time({far_apart}) by (level)"),
        format!("sum_over_time({far_apart})"),
        format!("stddev_over_time({far_apart})"),
        format!("last_over_time({values})"),
        format!("max by (zone) (rate_counter({values}))"),
        r#"absent_over_time({job="load"} |= "nothing" [1m])"#.to_owned(),
        nested(1, "$1-and-more", counts),
        nested(4, "$1$1", counts),
        nested(1, "one", counts),
        r#"{job="load"}"#.to_owned(),
        r#"{job="load"} | logfmt"#.to_owned(),
    ]
}

#[test]
fn nothing_is_allocated_that_was_not_asked_for() {
    let mut off = Vec::new();
    for query in queries() {
        let plan = planned(&query);
        let merged = merged(&plan, parts(&plan, 1500), u64::MAX, u64::MAX);
        let result = merged.result.expect("an answer");
        let (allocated, asked) = (merged.allocated_bytes, merged.asked_bytes);
        if allocated > asked + asked / 10 + (256 << 10) {
            off.push(format!("{query:.90}: {allocated} allocated, {asked} asked for"));
        }
        // Not much more either, or queries would be refused that there is memory for.
        if asked > 5 * allocated + (1 << 20) {
            off.push(format!("{query:.90}: {asked} asked for, {allocated} allocated"));
        }
        // The allowance is gone with `finish`, and was held until then for the answer.
        assert!(merged.kept_bytes >= result.held_bytes() as u64, "{query:.90}");
    }
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn a_merge_takes_no_more_than_it_may() {
    for query in queries() {
        let plan = planned(&query);
        let parts = parts(&plan, 1500);
        let parts_bytes: u64 = parts.iter().map(|part| part.held_bytes() as u64).sum();
        if parts_bytes < 200_000 {
            continue;
        }
        let merged = merged(&plan, parts, parts_bytes + (16 << 10), u64::MAX);
        let stop = Stop::TooLarge { max_bytes: parts_bytes + (16 << 10) };
        assert_eq!(merged.result.err(), Some(EvalError::Stopped(stop)), "{query:.90}");
        assert!(merged.allocated_bytes < parts_bytes + (300 << 10), "{query:.90}");
    }
}

#[test]
fn a_merge_ends_when_nobody_waits_for_it() {
    for query in queries() {
        let plan = planned(&query);
        let parts = parts(&plan, 3000);
        let whole = merged(&plan, parts.clone(), u64::MAX, u64::MAX);
        if whole.checks < 4 {
            continue;
        }
        let ended = merged(&plan, parts, u64::MAX, 1);
        assert_eq!(ended.result.err(), Some(EvalError::Stopped(Stop::Ended)), "{query:.90}");
        // Sorting goes to its end.
        assert!(ended.checks <= 2 + whole.checks / 2, "{query:.90}: {} checks", ended.checks);
    }
}

#[test]
fn values_that_double_are_refused_before_they_are_made() {
    let counts = r#"sum by (pod) (count_over_time({job="load"}[1m]))"#;
    for (query, most_bytes) in [
        (nested(30, "$1$1", counts), 30 << 20),
        (nested(1, &"$1".repeat(5_000), &nested(1, &"$1".repeat(4_000), counts)), 30 << 20),
    ] {
        let plan = planned(&query);
        let merged = merged(&plan, parts(&plan, 2), 100 << 20, u64::MAX);
        let Err(EvalError::ValueTooLong { label, .. }) = merged.result else {
            panic!("{query:.90}: {:?}", merged.result);
        };
        assert_eq!(label, "pod");
        assert!(merged.allocated_bytes < most_bytes, "{} bytes", merged.allocated_bytes);
    }
    // Each is allowed, and all together are not.
    let query = nested(1, &"$1".repeat(20_000), counts);
    let plan = planned(&query);
    let merged = merged(&plan, parts(&plan, 2000), 50 << 20, u64::MAX);
    let stop = Stop::TooLarge { max_bytes: 50 << 20 };
    assert_eq!(merged.result.err(), Some(EvalError::Stopped(stop)));
    assert!(merged.allocated_bytes <= 51 << 20, "{} bytes", merged.allocated_bytes);
}

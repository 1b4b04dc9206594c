//! How reading and writing affect each other: pushes at half speed while heavy queries run one
//! after the other, and a cheap query that repeats while pushes run at full speed.
//!
//! All answers are checked. The pushes belong to separate jobs, so they change no answer.

use super::workloads::Workload;
use super::writes::{self, LaterPush};
use super::{CompareArgs, reads};
use crate::latency::Latencies;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// The query that costs most, by name.
const HEAVY: &str = "quantile";
/// A query for a text of which it soon finds enough lines.
const CHEAP: &str = "last-100-text";

/// The measured figures.
pub(crate) struct Isolation {
    /// Pushes beside the heavy query.
    pushes: LaterPush,
    heavy: Queries,
    /// Pushes at full speed beside the cheap query.
    full: LaterPush,
    cheap: Queries,
}

/// Queries that ran for as long as pushes.
struct Queries {
    title: &'static str,
    latencies: Latencies,
    fault: Option<String>,
}

/// Measures both.
pub(crate) fn measure(
    args: &CompareArgs,
    full_mb_per_second: f64,
    workloads: &[Workload],
) -> Result<Isolation> {
    let find = |name: &str| {
        workloads.iter().find(|workload| workload.name == name).context("an unknown workload")
    };
    let (heavy, cheap) = (find(HEAVY)?, find(CHEAP)?);
    let (heavy, pushes) = beside(args, heavy, || {
        writes::push_at(args, "beside-queries", Some(full_mb_per_second / 2.0), full_mb_per_second)
    })?;
    let (cheap, full) =
        beside(args, cheap, || writes::push_at(args, "beside-cheap", None, full_mb_per_second))?;
    Ok(Isolation { pushes, heavy, full, cheap })
}

/// Repeats a query on a connection of its own until `push` ends.
fn beside(
    args: &CompareArgs,
    workload: &Workload,
    push: impl FnOnce() -> Result<LaterPush>,
) -> Result<(Queries, LaterPush)> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let queries = scope.spawn(|| repeat(args, workload, &ended));
        let pushed = push();
        ended.store(true, Ordering::Relaxed);
        let queries = queries.join().ok().context("the thread that queries has panicked")?;
        Ok((queries, pushed?))
    })
}

fn repeat(args: &CompareArgs, workload: &Workload, ended: &AtomicBool) -> Queries {
    let request = args.target.get(&workload.path_and_query, workload.headers());
    let mut client = args.target.client();
    let mut queries = Queries { title: workload.title, latencies: Latencies::new(), fault: None };
    while !ended.load(Ordering::Relaxed) {
        let clock = Instant::now();
        let body = reads::body_of(client.send_repeatable(&request));
        queries.latencies.record(clock.elapsed());
        if let Err(fault) = body.and_then(|body| workload.expected.check(&body)) {
            queries.fault = Some(fault);
            break;
        }
    }
    queries
}

impl Isolation {
    /// The figures of the report.
    pub(crate) fn figures(&self) -> Value {
        json!({
            "heavy_query": self.heavy.title,
            "heavy_queries": self.heavy.latencies.to_json(),
            "push_mb_per_second": self.pushes.mb_per_second,
            "push_latency": self.pushes.latencies.to_json(),
            "cheap_query": self.cheap.title,
            "cheap_query_latency": self.cheap.latencies.to_json(),
            "cheap_query_push_mb_per_second": self.full.mb_per_second,
        })
    }

    /// Bodies that were not taken.
    pub(crate) fn failed_bodies(&self) -> u64 {
        self.pushes.failed_bodies + self.full.failed_bodies
    }

    /// The faults that were found.
    pub(crate) fn faults(&self) -> impl Iterator<Item = String> {
        let wrong = |queries: &Queries| {
            queries.fault.as_ref().map(|fault| format!("{} beside pushes: {fault}", queries.title))
        };
        wrong(&self.heavy).into_iter().chain(wrong(&self.cheap))
    }
}

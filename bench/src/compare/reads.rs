//! The read measurements: each workload some times in turn, then many at once.

use super::answers::Statistics;
use super::workloads::Workload;
use crate::http::Response;
use crate::schedule::backoff;
use crate::target::TargetArgs;
use crate::tree::{self, ThreadTime};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a query that is refused for now is asked, at most.
const MAX_ATTEMPTS: u32 = 20;

/// One run of a workload.
struct Run {
    seconds: f64,
    /// Of the server.
    cpu_seconds: Option<f64>,
    /// Fetched from storage by the server.
    read_bytes: Option<u64>,
}

/// The figures of all runs of a workload.
pub(crate) struct Measured {
    pub(crate) workload: Workload,
    runs: Vec<Run>,
    statistics: Statistics,
    /// The fault of the first wrong answer, or the reason why there was no answer.
    pub(crate) fault: Option<String>,
}

/// When enough is known about a workload.
pub(crate) struct Repeats {
    pub(crate) count: usize,
    /// No run begins later than this after the first one, but two there are always.
    pub(crate) limit: Duration,
}

/// Runs one workload some times.
pub(crate) fn measure(
    target: &TargetArgs,
    pid: Option<u32>,
    workload: Workload,
    repeats: &Repeats,
) -> Measured {
    let request = target.get(&workload.path_and_query, workload.headers());
    let mut client = target.client();
    let mut measured =
        Measured { workload, runs: Vec::new(), statistics: Statistics::default(), fault: None };
    let begin = Instant::now();
    for run in 0..repeats.count {
        if run >= 2 && begin.elapsed() > repeats.limit {
            break;
        }
        let before = pid.map(|pid| (ThreadTime::of_tree(pid), tree::usage(pid)));
        let clock = Instant::now();
        let answer = client.send_repeatable(&request);
        let seconds = clock.elapsed().as_secs_f64();
        let after = pid.map(|pid| (ThreadTime::of_tree(pid), tree::usage(pid)));
        let body = match body_of(answer) {
            Ok(body) => body,
            Err(fault) => {
                measured.fail(fault);
                break;
            }
        };
        measured.runs.push(Run {
            seconds,
            cpu_seconds: before.as_ref().zip(after.as_ref()).and_then(|(before, after)| {
                after.0?.seconds_since(before.0?).or(after.1.cpu_seconds_since(&before.1))
            }),
            read_bytes: before
                .zip(after)
                .and_then(|(before, after)| after.1.read_bytes_since(&before.1)),
        });
        if run == 0 {
            measured.statistics = Statistics::of(&body);
        }
        if let Err(fault) = measured.workload.expected.check(&body) {
            measured.fail(fault);
        }
    }
    measured
}

/// The body of a success; otherwise the fault.
pub(crate) fn body_of(answer: io::Result<Response>) -> Result<Vec<u8>, String> {
    match answer {
        Ok(answer) if answer.is_success() => Ok(answer.body),
        Ok(answer) => Err(format!("status {}: {}", answer.status, answer.excerpt())),
        Err(error) => Err(error.to_string()),
    }
}

impl Measured {
    fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    fn sorted<T: PartialOrd + Copy>(&self, of: impl Fn(&Run) -> Option<T>) -> Option<Vec<T>> {
        let mut values: Vec<T> = self.runs.iter().map(of).collect::<Option<_>>()?;
        values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        (!values.is_empty()).then_some(values)
    }

    /// The figures of the report; `memmem` is the machine's rate in bytes per second.
    pub(crate) fn figures(&self, memmem: f64) -> Value {
        let seconds = self.sorted(|run| Some(run.seconds));
        let cpu = self.sorted(|run| run.cpu_seconds);
        let median_seconds = seconds.as_deref().map(|runs| quantile(runs, 0.5));
        let cpu_seconds = cpu.as_deref().map(|runs| quantile(runs, 0.5));
        let rate = |seconds: Option<f64>| {
            Some(self.workload.line_bytes? as f64 / seconds.filter(|s| *s > 0.0)?)
        };
        json!({
            "name": self.workload.name,
            "title": self.workload.title,
            "query": self.workload.query,
            "expected": self.workload.expected.summary(),
            "right": self.fault.is_none(),
            "fault": self.fault,
            "runs": self.runs.len(),
            "first_seconds": self.runs.first().map(|run| run.seconds),
            "median_seconds": median_seconds,
            "p95_seconds": seconds.as_deref().map(|runs| quantile(runs, 0.95)),
            "cpu_seconds_first": self.runs.first().and_then(|run| run.cpu_seconds),
            "cpu_seconds": cpu_seconds,
            "read_bytes_first": self.runs.first().and_then(|run| run.read_bytes),
            "read_bytes": self.sorted(|run| run.read_bytes).map(|runs| quantile(&runs, 0.5)),
            "statistics_processed_bytes": self.statistics.processed_bytes,
            "statistics_compressed_bytes": self.statistics.compressed_bytes,
            "line_bytes": self.workload.line_bytes,
            "gb_per_second": rate(median_seconds).map(|rate| rate / 1e9),
            "memmem_ratio": rate(cpu_seconds).map(|rate| rate / memmem),
        })
    }
}

/// The value at a quantile of sorted values: the smallest that is not exceeded by
/// more than the rest.
fn quantile<T: Copy>(sorted: &[T], quantile: f64) -> T {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Many queries at once.
pub(crate) struct Concurrent {
    /// From the first request to the last answer.
    pub(crate) seconds: f64,
    pub(crate) queries: usize,
    pub(crate) cpu_seconds: Option<f64>,
    /// Answers of 429, after which the query was asked again.
    pub(crate) refusals: u64,
    pub(crate) faults: Vec<String>,
}

/// Runs the workloads of the mix at once, each on a connection of its own, `queries` in all. A
/// server may refuse queries that are too much for it at once; a refused query is sent again, as a
/// client would do.
pub(crate) fn concurrent(
    target: &TargetArgs,
    pid: Option<u32>,
    workloads: &[&Workload],
    queries: usize,
) -> Result<Concurrent> {
    let mix: Vec<&Workload> = workloads.iter().copied().cycle().take(queries).collect();
    let before = pid.map(tree::usage);
    let barrier = std::sync::Barrier::new(queries + 1);
    let refusals = AtomicU64::new(0);
    let ask = |workload: &Workload| -> Result<Vec<u8>, String> {
        let request = target.get(&workload.path_and_query, workload.headers());
        let mut client = target.client();
        barrier.wait();
        for attempt in 1.. {
            let answer = client.send_repeatable(&request).map_err(|error| error.to_string())?;
            if answer.is_success() {
                return Ok(answer.body);
            }
            if answer.status != 429 || attempt == MAX_ATTEMPTS {
                return Err(format!("status {}: {}", answer.status, answer.excerpt()));
            }
            refusals.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(backoff(attempt, answer.retry_after_seconds));
        }
        Err("not asked".to_owned())
    };
    let (seconds, faults) = std::thread::scope(|scope| {
        let threads: Vec<_> = mix
            .iter()
            .map(|workload| {
                let ask = &ask;
                (workload.name, scope.spawn(move || (ask(workload), Instant::now())))
            })
            .collect();
        barrier.wait();
        let begin = Instant::now();
        let (mut last, mut faults) = (Duration::ZERO, Vec::new());
        for ((name, thread), workload) in threads.into_iter().zip(&mix) {
            let (answer, end) = thread.join().map_err(|_| anyhow!("a query's thread panicked"))?;
            last = last.max(end.saturating_duration_since(begin));
            // Checked when the clock has stopped: that is work of this tool.
            if let Err(fault) = answer.and_then(|body| workload.expected.check(&body)) {
                faults.push(format!("{name}: {fault}"));
            }
        }
        anyhow::Ok((last.as_secs_f64(), faults))
    })?;
    let after = pid.map(tree::usage);
    let cpu_seconds =
        after.zip(before).and_then(|(after, before)| after.cpu_seconds_since(&before));
    let refusals = refusals.into_inner();
    Ok(Concurrent { seconds, queries, cpu_seconds, refusals, faults })
}

impl Concurrent {
    pub(crate) fn figures(&self, mix: &[&Workload]) -> Value {
        json!({
            "queries": self.queries,
            "of": mix.iter().map(|workload| workload.name).collect::<Vec<_>>(),
            "seconds_until_last_answer": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "refusals": self.refusals,
            "faults": self.faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.5), 3);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(quantile(&[1, 2, 3, 4, 5], 0.95), 5);
        assert_eq!(quantile(&[7], 0.95), 7);
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(quantile(&hundred, 0.95), 95);
    }
}

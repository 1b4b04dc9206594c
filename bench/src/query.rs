//! `bench query`: runs LogQL queries in a closed loop and reports their latency.

use crate::http::encode_query;
use crate::latency::Latencies;
use crate::procfs::Usage;
use crate::report::or_unknown;
use crate::target::TargetArgs;
use crate::units::{parse_duration_nanos, parse_instant_nanos, unix_now_nanos};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Options of `bench query`.
#[derive(Args, Debug)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// A LogQL query; repeatable
    #[arg(long = "query")]
    pub(crate) queries: Vec<String>,
    /// File with one query a line; empty lines and lines with # are left out
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
    /// Path of the range query endpoint
    #[arg(long, default_value = "/loki/api/v1/query_range")]
    pub(crate) path: String,
    /// Ask the instant query endpoint, at --end, instead
    #[arg(long)]
    pub(crate) instant: bool,
    /// Path of the instant query endpoint
    #[arg(long, default_value = "/loki/api/v1/query")]
    pub(crate) instant_path: String,
    /// Begin of the range: seconds, nanoseconds, now or now-DURATION
    #[arg(long, default_value = "now-1h", value_parser = |text: &str| parse_instant_nanos(text, unix_now_nanos()))]
    pub(crate) start: i64,
    /// End of the range
    #[arg(long, default_value = "now", value_parser = |text: &str| parse_instant_nanos(text, unix_now_nanos()))]
    pub(crate) end: i64,
    /// Resolution of metric queries, as the server reads it
    #[arg(long)]
    pub(crate) step: Option<String>,
    /// Lines at most
    #[arg(long)]
    pub(crate) limit: Option<u64>,
    /// backward or forward
    #[arg(long)]
    pub(crate) direction: Option<String>,
    /// Runs of each query
    #[arg(long, default_value_t = 10)]
    pub(crate) count: u64,
    /// Time for each query, instead of a number of runs
    #[arg(long, value_parser = parse_duration_nanos)]
    pub(crate) duration: Option<u64>,
    /// Connections that ask at the same time
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: usize,
    /// Process number of the server, to report what it used
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print the result as JSON too, one line per query
    #[arg(long)]
    pub(crate) json: bool,
}

/// The figures of all runs of one query.
pub(crate) struct QueryReport {
    pub(crate) query: String,
    /// Of successful runs.
    pub(crate) latencies: Latencies,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// Length of one successful answer.
    pub(crate) response_bytes: u64,
    pub(crate) server_cpu_seconds: Option<f64>,
}

impl QueryReport {
    fn new(query: &str) -> QueryReport {
        QueryReport {
            query: query.to_owned(),
            latencies: Latencies::new(),
            errors: 0,
            first_error: None,
            response_bytes: 0,
            server_cpu_seconds: None,
        }
    }

    fn add(&mut self, other: QueryReport) {
        self.latencies.add(&other.latencies);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.response_bytes = self.response_bytes.max(other.response_bytes);
    }

    fn count_error(&mut self, text: String) {
        self.errors += 1;
        self.first_error.get_or_insert(text);
    }

    fn runs(&self) -> u64 {
        self.latencies.count() + self.errors
    }

    fn server_cpu_ms_per_run(&self) -> Option<f64> {
        let runs = self.runs();
        (runs > 0).then_some(self.server_cpu_seconds? * 1e3 / runs as f64)
    }

    fn to_text(&self) -> String {
        let error = self.first_error.as_ref().map(|e| format!("\n    first error: {e}"));
        format!(
            "{}\n    {} runs, {} errors; min {:.2} ms, p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms; \
             {} bytes; server CPU {} a run{}",
            self.query,
            self.runs(),
            self.errors,
            self.latencies.min_ms(),
            self.latencies.quantile_ms(0.5),
            self.latencies.quantile_ms(0.95),
            self.latencies.quantile_ms(0.99),
            self.response_bytes,
            or_unknown(self.server_cpu_ms_per_run(), |ms| format!("{ms:.2} ms")),
            error.unwrap_or_default(),
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "query": self.query,
            "runs": self.runs(),
            "errors": self.errors,
            "first_error": self.first_error,
            "latency": self.latencies.to_json(),
            "response_bytes": self.response_bytes,
            "server_cpu_ms_per_run": self.server_cpu_ms_per_run(),
        })
    }
}

/// Runs the subcommand; false if any query failed.
pub(crate) fn main(args: &QueryArgs) -> Result<bool> {
    let reports = run(args)?;
    for report in &reports {
        println!("{}", report.to_text());
        if args.json {
            println!("{}", report.to_json());
        }
    }
    Ok(reports.iter().all(|report| report.errors == 0))
}

/// Runs every query in turn.
pub(crate) fn run(args: &QueryArgs) -> Result<Vec<QueryReport>> {
    let mut queries = args.queries.clone();
    if let Some(path) = &args.file {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading queries {path:?}"))?;
        let lines = text.lines().map(str::trim);
        queries.extend(lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(str::to_owned));
    }
    if queries.is_empty() {
        bail!("no queries: give --query or --file");
    }
    if args.connections == 0 {
        bail!("--connections must be more than zero");
    }
    queries.iter().map(|query| run_query(args, query)).collect()
}

fn run_query(args: &QueryArgs, query: &str) -> Result<QueryReport> {
    let request = args.target.get(&path_and_query(args, query), "");
    let before = args.pid.map(Usage::of);
    let next_run = AtomicU64::new(0);
    let end = args.duration.map(|nanos| Instant::now() + Duration::from_nanos(nanos));
    let ask = || {
        let mut client = args.target.client();
        let mut report = QueryReport::new(query);
        loop {
            let run = next_run.fetch_add(1, Ordering::Relaxed);
            let done = end.map_or(run >= args.count, |end| Instant::now() >= end);
            if done {
                return report;
            }
            let clock = Instant::now();
            match client.send_repeatable(&request) {
                Ok(response) if response.is_success() => {
                    report.latencies.record(clock.elapsed());
                    report.response_bytes = response.body.len() as u64;
                }
                Ok(response) => {
                    report.count_error(format!("{}: {}", response.status, response.excerpt()));
                }
                Err(error) => report.count_error(error.to_string()),
            }
        }
    };
    let mut total = QueryReport::new(query);
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..args.connections).map(|_| scope.spawn(ask)).collect();
        for thread in threads {
            total.add(thread.join().map_err(|_| anyhow!("a connection's thread panicked"))?);
        }
        Ok(())
    })?;
    if let (Some(pid), Some(before)) = (args.pid, before) {
        total.server_cpu_seconds = Usage::of(pid).cpu_seconds_since(&before);
    }
    Ok(total)
}

fn path_and_query(args: &QueryArgs, query: &str) -> String {
    let mut out = if args.instant {
        format!("{}?query={}&time={}", args.instant_path, encode_query(query), args.end)
    } else {
        let (start, end) = (args.start, args.end);
        format!("{}?query={}&start={start}&end={end}", args.path, encode_query(query))
    };
    let limit = args.limit.map(|limit| limit.to_string());
    for (name, value) in [("step", &args.step), ("limit", &limit), ("direction", &args.direction)] {
        if let Some(value) = value {
            out.push_str(&format!("&{name}={}", encode_query(value)));
        }
    }
    out
}

//! The write measurements: the data set at full speed, then the background work that remains,
//! then a push at half of that speed.

use super::CompareArgs;
use super::data::DataSet;
use super::known::Known;
use crate::latency::Latencies;
use crate::procfs::Usage;
use crate::push::{self, Prepared, PushArgs};
use crate::report::{Tally, per};
use crate::settle::Settled;
use crate::tree;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::Instant;

/// The figures of the load of the data set.
pub(crate) struct Load {
    pub(crate) tally: Tally,
    /// Time during which bodies were being sent.
    pub(crate) seconds: f64,
    /// This tool's own CPU time while sending.
    pub(crate) own_cpu_seconds: Option<f64>,
    before: Usage,
    /// When the last body was acknowledged.
    at_last_answer: Usage,
}

/// Some of the lines, for the machine's own figures.
pub(crate) struct Sample {
    pub(crate) lines: Vec<u8>,
    limit_bytes: usize,
}

impl Sample {
    pub(crate) fn new(limit_bytes: usize) -> Sample {
        Sample { lines: Vec::new(), limit_bytes }
    }
}

/// Pushes the whole data set and notes the expected answers.
pub(crate) fn load(
    args: &PushArgs,
    pid: Option<u32>,
    data: &mut DataSet,
    known: &mut Known,
    sample: &mut Sample,
) -> Result<Load> {
    let streams = data.streams().to_vec();
    let mut clients: Vec<_> = (0..args.connections).map(|_| args.target.client()).collect();
    let usage = || pid.map(tree::usage).unwrap_or_default();
    let mut load = Load {
        tally: Tally::new(),
        seconds: 0.0,
        own_cpu_seconds: Some(0.0),
        before: usage(),
        at_last_answer: Usage::default(),
    };
    loop {
        let (mut round, mut prepared_bytes) = (Vec::new(), 0);
        while prepared_bytes < args.prepare_bytes.max(1) {
            let Some(body) = data.next() else { break };
            known.note(&body, data);
            for entry in body.streams.iter().flat_map(|(_, entries)| entries) {
                if sample.lines.len() < sample.limit_bytes {
                    sample.lines.extend_from_slice(entry.line.as_bytes());
                }
            }
            let prepared = Prepared::new(args, body, &streams)?;
            prepared_bytes += prepared.request.len() as u64;
            round.push(prepared);
        }
        if round.is_empty() {
            break;
        }
        let own = Usage::own();
        let clock = Instant::now();
        let tally = push::push_round(args, &round, &mut clients, None)?;
        load.seconds += clock.elapsed().as_secs_f64();
        load.at_last_answer = usage();
        load.own_cpu_seconds = load
            .own_cpu_seconds
            .zip(Usage::own().cpu_seconds_since(&own))
            .map(|(sum, round)| sum + round);
        load.tally.add(&tally);
    }
    if load.tally.acked_bodies == 0 {
        let texts = load.tally.error_texts.keys().cloned().collect::<Vec<_>>().join("; ");
        bail!("the server has taken nothing: {texts}");
    }
    Ok(load)
}

impl Load {
    pub(crate) fn mb_per_second(&self) -> f64 {
        per(self.tally.acked_raw_bytes as f64 / 1e6, self.seconds)
    }
}

/// The write figures of the report; `peak` is the usage at the very end.
pub(crate) fn figures(
    load: &Load,
    settled: &Settled,
    peak: &Usage,
    half_rate: &LaterPush,
) -> Value {
    let tally = &load.tally;
    let gigabytes = tally.acked_raw_bytes as f64 / 1e9;
    let per_gb = |usage: &Usage| Some(usage.cpu_seconds_since(&load.before)? / gigabytes);
    let written_bytes = settled.usage.written_bytes_since(&load.before);
    let per_raw_byte = |bytes: u64| bytes as f64 / tally.acked_raw_bytes as f64;
    json!({
        "raw_bytes": tally.acked_raw_bytes,
        "lines": tally.acked_lines,
        "sent_bytes": tally.sent_bytes,
        "seconds": load.seconds,
        "mb_per_second": load.mb_per_second(),
        "failed_bodies": tally.failed_bodies,
        "retries": tally.retries,
        "answers": tally.outcomes,
        "error_texts": tally.error_texts,
        "latency": tally.latencies.to_json(),
        "own_cpu_seconds": load.own_cpu_seconds,
        "cpu_seconds_per_gb_until_last_answer": per_gb(&load.at_last_answer),
        "cpu_seconds_per_gb_until_settled": per_gb(&settled.usage),
        "settle_seconds": settled.seconds,
        "settled": settled.quiet,
        "flush_status": settled.flush_status,
        "peak_rss_bytes_until_last_answer": load.at_last_answer.peak_rss_bytes,
        "peak_rss_bytes_until_settled": settled.usage.peak_rss_bytes,
        "peak_rss_bytes": peak.peak_rss_bytes,
        "written_bytes": written_bytes,
        "written_bytes_per_raw_byte": written_bytes.map(per_raw_byte),
        "disk_bytes": settled.disk_bytes,
        "disk_bytes_per_raw_byte": settled.disk_bytes.map(per_raw_byte),
        "half_rate": {
            "mb_per_second": half_rate.mb_per_second,
            "failed_bodies": half_rate.failed_bodies,
            "latency": half_rate.latencies.to_json(),
        },
    })
}

/// A push of further lines.
pub(crate) struct LaterPush {
    pub(crate) mb_per_second: f64,
    pub(crate) failed_bodies: u64,
    pub(crate) latencies: Latencies,
}

/// Pushes further lines, of a job of its own, at half of `full_mb_per_second`.
pub(crate) fn half_rate(args: &CompareArgs, full_mb_per_second: f64) -> Result<LaterPush> {
    push_at(args, "half-rate", Some(full_mb_per_second / 2.0), full_mb_per_second)
}

/// Pushes further lines, of the job that ends in `job`, at a rate in MB/s or as fast as it
/// goes: as many as make `args.half_rate_time` at that rate, or at `full_mb_per_second`.
pub(crate) fn push_at(
    args: &CompareArgs,
    job: &str,
    rate: Option<f64>,
    full_mb_per_second: f64,
) -> Result<LaterPush> {
    let seconds = args.half_rate_time as f64 / 1e9;
    let expected_rate = rate.unwrap_or(full_mb_per_second);
    let mut push = args.push_args(job, (expected_rate * 1e6 * seconds) as u64);
    push.rate = rate;
    let report = push::run(&mut push).with_context(|| format!("pushing {job}"))?;
    let tally = report.tally;
    let reached = per(tally.acked_raw_bytes as f64 / 1e6, report.seconds);
    Ok(LaterPush {
        mb_per_second: rate.unwrap_or(reached),
        failed_bodies: tally.failed_bodies,
        latencies: tally.latencies,
    })
}

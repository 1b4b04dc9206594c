//! `bench get`: as many GET requests as a server answers.
//!
//! One thread serves a few connections in lock step: it writes a batch of
//! pipelined requests to each, then reads all answers of each. With one connection
//! a thread and no pipelining the latencies are exact; otherwise they hold the
//! wait for the answers in front. The loop is closed, so a slow server sees fewer
//! requests.

use crate::http::{Framing, parse_head};
use crate::latency::Latencies;
use crate::procfs::Usage;
use crate::report::{or_unknown, per};
use crate::target::TargetArgs;
use crate::units::parse_duration_nanos;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// An answer to a pipelined GET must fit into this.
const ANSWER_LIMIT_BYTES: usize = 4 << 20;

/// Options of `bench get`.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// What to ask for
    #[arg(long, default_value = "/ready")]
    pub(crate) path: String,
    /// Connections in all
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// Threads that share the connections
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Requests on the way per connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: usize,
    /// How long to run
    #[arg(long, default_value = "5s", value_parser = parse_duration_nanos)]
    pub(crate) duration: u64,
    /// Process number of the server, to report what it used
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print the result as one line of JSON too
    #[arg(long)]
    pub(crate) json: bool,
}

/// The figures of one thread, or of all threads.
pub(crate) struct GetReport {
    pub(crate) latencies: Latencies,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) seconds: f64,
}

impl GetReport {
    fn new() -> GetReport {
        GetReport { latencies: Latencies::new(), statuses: BTreeMap::new(), seconds: 0.0 }
    }
}

/// Runs the subcommand; false if any answer was not a success.
pub(crate) fn main(args: &GetArgs) -> Result<bool> {
    let before = args.pid.map(Usage::of);
    let report = run(args)?;
    let cpu_seconds =
        args.pid.zip(before).and_then(|(pid, before)| Usage::of(pid).cpu_seconds_since(&before));
    let requests = report.latencies.count();
    let cpu_micros_per_request =
        cpu_seconds.filter(|_| requests > 0).map(|seconds| seconds * 1e6 / requests as f64);
    println!(
        "got       {requests} answers in {:.2} s: {:.0} requests/s; p50 {:.3} ms, p99 {:.3} ms, \
         max {:.3} ms; statuses {:?}; server CPU {} a request",
        report.seconds,
        per(requests as f64, report.seconds),
        report.latencies.quantile_ms(0.5),
        report.latencies.quantile_ms(0.99),
        report.latencies.max_ms(),
        report.statuses,
        or_unknown(cpu_micros_per_request, |micros| format!("{micros:.2} µs")),
    );
    if args.json {
        let json = json!({
            "requests": requests,
            "seconds": report.seconds,
            "requests_per_second": per(requests as f64, report.seconds),
            "latency": report.latencies.to_json(),
            "statuses": report.statuses,
            "server_cpu_us_per_request": cpu_micros_per_request,
        });
        println!("{json}");
    }
    Ok(report.statuses.keys().all(|status| (200..300).contains(status)))
}

/// Asks until the time is over.
pub(crate) fn run(args: &GetArgs) -> Result<GetReport> {
    if args.connections == 0 || args.threads == 0 || args.pipeline == 0 {
        bail!("--connections, --threads and --pipeline must be more than zero");
    }
    let threads = args.threads.min(args.connections);
    let batch = args.target.get(&args.path, "").repeat(args.pipeline);
    let mut shares: Vec<Vec<Connection>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..args.connections {
        let timeout = Duration::from_nanos(args.target.timeout.max(1));
        let stream = args.target.url.connect(timeout).context("connecting")?;
        shares[number % threads].push(Connection::new(stream));
    }
    let clock = Instant::now();
    let end = clock + Duration::from_nanos(args.duration);
    let ask = |mut connections: Vec<Connection>| -> Result<GetReport> {
        let mut report = GetReport::new();
        // At least one batch, however short the time.
        loop {
            for connection in &mut connections {
                connection.sent_at = Instant::now();
                connection.stream.write_all(&batch).context("sending requests")?;
            }
            for connection in &mut connections {
                connection.read_answers(args.pipeline, &mut report).context("reading answers")?;
            }
            if Instant::now() >= end {
                return Ok(report);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| ask(share))).collect();
        let mut total = GetReport::new();
        for thread in threads {
            let report = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            total.latencies.add(&report.latencies);
            for (status, count) in report.statuses {
                *total.statuses.entry(status).or_default() += count;
            }
        }
        total.seconds = clock.elapsed().as_secs_f64();
        Ok(total)
    })
}

/// A connection with the answers that are still to be read.
struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    /// Bytes received; everything before `start` is used up.
    buffer: Vec<u8>,
    start: usize,
    /// The last answer. Servers send the same bytes again and again, and comparing
    /// them is much cheaper than reading the head.
    last_answer: Vec<u8>,
    last_status: u16,
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            sent_at: Instant::now(),
            buffer: Vec::with_capacity(256 * 1024),
            start: 0,
            last_answer: Vec::new(),
            last_status: 0,
        }
    }

    /// Reads `count` answers to the requests that were sent last.
    fn read_answers(&mut self, count: usize, report: &mut GetReport) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let at_once = self.take_answers(left)?;
            if at_once > 0 {
                let latency = self.sent_at.elapsed();
                (0..at_once).for_each(|_| report.latencies.record(latency));
                // Answers taken together are alike: see `take_answers`.
                *report.statuses.entry(self.last_status).or_default() += at_once as u64;
                left -= at_once;
                continue;
            }
            self.fill()?;
        }
        Ok(())
    }

    /// Takes complete answers with the same bytes, at most `limit`, off the buffer.
    fn take_answers(&mut self, limit: usize) -> io::Result<usize> {
        let mut taken = self.take_repeats(limit);
        if taken == 0 {
            let Some((status, len_bytes)) = next_answer(&self.buffer[self.start..])? else {
                return Ok(0);
            };
            self.last_status = status;
            self.last_answer.clear();
            self.last_answer.extend_from_slice(&self.buffer[self.start..self.start + len_bytes]);
            taken = self.take_repeats(limit);
        }
        Ok(taken)
    }

    fn take_repeats(&mut self, limit: usize) -> usize {
        let mut taken = 0;
        while taken < limit
            && !self.last_answer.is_empty()
            && self.buffer[self.start..].starts_with(&self.last_answer)
        {
            self.start += self.last_answer.len();
            taken += 1;
        }
        taken
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let len = self.buffer.len();
        if len >= ANSWER_LIMIT_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "answer is too long"));
        }
        self.buffer.resize(self.buffer.capacity().max(len + 64 * 1024), 0);
        let result = self.stream.read(&mut self.buffer[len..]);
        self.buffer.truncate(len + result.as_ref().copied().unwrap_or(0));
        match result? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Status and length of the answer at the start of `bytes`, once it is complete.
fn next_answer(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let Some(head_end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = parse_head(&bytes[..head_end + 4])?;
    let Framing::Length(length) = head.framing else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "pipelined answers need a Content-Length",
        ));
    };
    if length > ANSWER_LIMIT_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "answer is too long"));
    }
    let len_bytes = head_end + 4 + length;
    Ok((bytes.len() >= len_bytes).then_some((head.status, len_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_when_complete() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nreadyHTTP/1.1";
        for cut in 0..answer.len() {
            let expected = (cut >= answer.len() - 8).then_some((200, answer.len() - 8));
            assert_eq!(next_answer(&answer[..cut]).unwrap(), expected, "cut at {cut}");
        }
        assert!(next_answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
        assert!(next_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n").is_err());
    }
}

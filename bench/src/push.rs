//! `bench push`: sends the bodies of a source and measures.
//!
//! The work passes in rounds. First the bodies of a round are generated, encoded and framed, up
//! to `--prepare-bytes` of memory; then the clock starts and one thread per connection sends
//! them. So the figures hold only the cost of sending, and no timestamp is sent twice.

use crate::http::{Client, Response};
use crate::labels::Labels;
use crate::ledger::{Ack, LedgerWriter};
use crate::procfs::Usage;
use crate::report::{PushReport, Tally};
use crate::schedule::{self, Schedule, backoff};
use crate::source::{Body, Source, SourceArgs};
use crate::target::TargetArgs;
use crate::units::{parse_duration_nanos, parse_size_bytes};
use crate::wire::WireArgs;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Options of `bench push`.
#[derive(Args, Debug)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    #[command(flatten)]
    pub(crate) wire: WireArgs,
    /// Path of the push endpoint
    #[arg(long, default_value = "/loki/api/v1/push")]
    pub(crate) path: String,
    /// Connections, each with a thread of its own
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// Fixed rate in raw MB/s; latency then counts from the intended send time
    #[arg(long, value_parser = schedule::parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Memory for bodies that are prepared ahead, in encoded bytes
    #[arg(long, default_value = "1GB", value_parser = parse_size_bytes)]
    pub(crate) prepare_bytes: u64,
    /// Repeat bodies that failed with 429, 5xx or a broken connection
    #[arg(long)]
    pub(crate) retry: bool,
    /// Give a body up after retrying for this long
    #[arg(long, default_value = "60s", value_parser = parse_duration_nanos)]
    pub(crate) retry_for: u64,
    /// Append every acknowledged body to this file
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    /// Process number of the server, to report what it used
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print the result as one line of JSON too
    #[arg(long)]
    pub(crate) json: bool,
}

/// A body that is ready to be sent.
pub(crate) struct Prepared {
    pub(crate) request: Vec<u8>,
    raw_bytes: u64,
    ack: Ack,
    due: Option<Duration>,
}

impl Prepared {
    /// The request that carries `body`, whose stream numbers index `streams`.
    pub(crate) fn new(args: &PushArgs, body: Body, streams: &[Labels]) -> Result<Prepared> {
        let (ack, raw_bytes) = (Ack::of(&body), body.raw_bytes);
        let encoded = args.wire.encode(body, streams)?;
        let request = args.target.url.request(
            "POST",
            &args.path,
            args.target.tenant.as_deref(),
            args.wire.headers(),
            Some(&encoded),
        );
        Ok(Prepared { request, raw_bytes, ack, due: None })
    }
}

/// Runs the subcommand; false if any body was not acknowledged.
pub(crate) fn main(mut args: PushArgs) -> Result<bool> {
    let report = run(&mut args)?;
    print!("{}", report.to_text());
    if args.json {
        println!("{}", report.to_json());
    }
    Ok(report.tally.failed_bodies == 0)
}

/// Pushes the whole source. Fills in the options that `args.source` left open.
pub(crate) fn run(args: &mut PushArgs) -> Result<PushReport> {
    if args.connections == 0 {
        bail!("--connections must be more than zero");
    }
    let mut source = Source::open(&mut args.source)?;
    let args = &*args;
    let ledger = match &args.ledger {
        Some(path) => Some(LedgerWriter::open(path, &args.source)?),
        None => None,
    };
    let mut clients: Vec<Client> = (0..args.connections).map(|_| args.target.client()).collect();
    let mut report = PushReport::new(&args.source, args.rate);
    let prepare_start = Usage::own();
    let server_start = args.pid.map(Usage::of);
    let mut own_cpu_seconds = Some(0.0);
    loop {
        let round = prepare_round(args, &mut source)?;
        if round.is_empty() {
            break;
        }
        let own_start = Usage::own();
        let clock = Instant::now();
        let tally = push_round(args, &round, &mut clients, ledger.as_ref())?;
        report.seconds += clock.elapsed().as_secs_f64();
        own_cpu_seconds = own_cpu_seconds
            .zip(Usage::own().cpu_seconds_since(&own_start))
            .map(|(sum, round)| sum + round);
        report.tally.add(&tally);
    }
    report.own_cpu_seconds = own_cpu_seconds;
    report.prepare_cpu_seconds = Usage::own()
        .cpu_seconds_since(&prepare_start)
        .zip(own_cpu_seconds)
        .map(|(all, pushing)| all - pushing);
    if let (Some(pid), Some(start)) = (args.pid, server_start) {
        report.server = Some((start, Usage::of(pid)));
    }
    Ok(report)
}

fn prepare_round(args: &PushArgs, source: &mut Source) -> Result<Vec<Prepared>> {
    let mut schedule = Schedule::new(args.rate);
    let (mut round, mut prepared_bytes) = (Vec::new(), 0);
    while prepared_bytes < args.prepare_bytes.max(1) {
        let Some(body) = source.next() else { break };
        let mut prepared = Prepared::new(args, body, source.streams())?;
        prepared.due = schedule.next_due(prepared.raw_bytes);
        prepared_bytes += prepared.request.len() as u64;
        round.push(prepared);
    }
    Ok(round)
}

/// Sends all bodies of a round; every client takes the next one that is left.
pub(crate) fn push_round(
    args: &PushArgs,
    round: &[Prepared],
    clients: &mut [Client],
    ledger: Option<&LedgerWriter>,
) -> Result<Tally> {
    let next = AtomicUsize::new(0);
    let clock = Instant::now();
    let send_all = |client: &mut Client| -> Result<Tally> {
        let mut tally = Tally::new();
        while let Some(body) = round.get(next.fetch_add(1, Ordering::Relaxed)) {
            let intended = body.due.map_or_else(Instant::now, |due| clock + due);
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
            push_body(args, body, intended, client, ledger, &mut tally)?;
        }
        Ok(tally)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            clients.iter_mut().map(|client| scope.spawn(|| send_all(client))).collect();
        let mut total = Tally::new();
        for thread in threads {
            total.add(&thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??);
        }
        Ok(total)
    })
}

fn push_body(
    args: &PushArgs,
    body: &Prepared,
    intended: Instant,
    client: &mut Client,
    ledger: Option<&LedgerWriter>,
    tally: &mut Tally,
) -> Result<()> {
    let give_up = Instant::now() + Duration::from_nanos(args.retry_for);
    for attempt in 1.. {
        let outcome = client.send(&body.request);
        tally.sent_bytes += body.request.len() as u64;
        tally.count_outcome(&outcome);
        if outcome.as_ref().is_ok_and(Response::is_success) {
            // The server has promised to keep the lines: that is on record before
            // anything else happens.
            if let Some(ledger) = ledger {
                ledger.acknowledge(body.ack)?;
            }
            tally.latencies.record(intended.elapsed());
            tally.acked_bodies += 1;
            tally.acked_raw_bytes += body.raw_bytes;
            tally.acked_lines += body.ack.line_count;
            return Ok(());
        }
        let pause = backoff(attempt, outcome.as_ref().ok().and_then(|r| r.retry_after_seconds));
        if !args.retry || !may_succeed_later(&outcome) || Instant::now() + pause > give_up {
            break;
        }
        tally.retries += 1;
        std::thread::sleep(pause);
    }
    tally.failed_bodies += 1;
    Ok(())
}

/// Whether a push that failed like this is worth repeating.
pub(crate) fn may_succeed_later(outcome: &io::Result<Response>) -> bool {
    match outcome {
        Ok(response) => response.status == 429 || response.status >= 500,
        Err(_) => true,
    }
}

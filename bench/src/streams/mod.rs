//! `bench streams`: days with many streams that live for a short time, as pods do.
//!
//! The order: the server is started; each simulated day brings new streams; the server settles,
//! is killed and started again; then old streams are asked for, whose answers are made again from
//! the seed. The days end before today, so the server has to take old entries, and is told to.
//!
//! The run fails if a push was refused, even if it was taken later, or if an answer was wrong. A
//! push that is given up ends the pushing: the complete days before it are still asked for. The
//! page cache of the machine is left as it is, so first answers after the restart need not come
//! from the disk.

mod ask;
mod days;
mod generator;
mod load;
mod plan;
mod probes;

use crate::http::Target;
use crate::procfs::Usage;
use crate::server::{Launch, Server, free_port, shell_quoted};
use crate::settle::{Settle, Settled, settle};
use crate::target::TargetArgs;
use crate::tree;
use crate::units::{parse_duration_nanos, parse_size_bytes, unix_now_nanos};
use crate::work_folder::WorkFolder;
use anyhow::{Context, Result, bail};
use ask::Answers;
use clap::Args;
use days::{Day, cpu_ratio, megabytes, or_dash};
use generator::Generator;
use load::{Load, refused};
use plan::{DAY_NANOS, Plan};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const READY_PATH: &str = "/ready";

/// Options of `bench streams`.
#[derive(Args, Debug)]
pub(crate) struct StreamsArgs {
    /// The server's binary
    #[arg(long)]
    binary: PathBuf,
    /// A further argument of the server; repeatable
    #[arg(long = "server-arg", allow_hyphen_values = true)]
    server_args: Vec<String>,
    /// Folder for the server's data, which must be empty or missing
    #[arg(long)]
    data_dir: PathBuf,
    /// Leave the data folder
    #[arg(long)]
    keep_data: bool,
    /// Days, of which the last one is yesterday
    #[arg(long, default_value_t = 30)]
    days: u64,
    /// New streams of each day
    #[arg(long, default_value_t = 1_000_000)]
    streams_a_day: u64,
    /// Lines of each stream
    #[arg(long, default_value_t = 200)]
    lines: u64,
    /// Streams that are active at the same time, about
    #[arg(long, default_value_t = 1000)]
    active: u64,
    /// The server's memory.max_bytes
    #[arg(long, default_value = "1GB", value_parser = parse_size_bytes)]
    memory_max_bytes: u64,
    /// Old streams that are asked for
    #[arg(long, default_value_t = 20)]
    probes: usize,
    /// Seed of the streams and the questions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Connections that push
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Stop pushing when one push has been refused for so long
    #[arg(long, default_value = "60s", value_parser = parse_duration_nanos)]
    retry_for: u64,
    /// How long a start may take
    #[arg(long, default_value = "10m", value_parser = parse_duration_nanos)]
    start_limit: u64,
    /// The server has settled when it has used next to no CPU for so long
    #[arg(long, default_value = "5s", value_parser = parse_duration_nanos)]
    quiet: u64,
    /// Go on if the server has not settled after so long
    #[arg(long, default_value = "30m", value_parser = parse_duration_nanos)]
    settle_limit: u64,
    /// File for the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the subcommand; false if anything was refused or wrong.
pub(crate) fn main(args: &StreamsArgs) -> Result<bool> {
    let report = run(args)?;
    if let Some(path) = &args.json {
        std::fs::write(path, format!("{report:#}\n"))
            .with_context(|| format!("writing {path:?}"))?;
    }
    let faults = report["faults"].as_array().context("a report without faults")?;
    for fault in faults.iter().filter_map(Value::as_str) {
        println!("FAULT: {fault}");
    }
    Ok(faults.is_empty())
}

/// Where the server runs.
struct Place {
    launch: Launch,
    target: TargetArgs,
    patience: Duration,
}

impl Place {
    fn new(args: &StreamsArgs, folder: &Path) -> Result<Place> {
        let binary = std::path::absolute(&args.binary)?;
        let mut command = format!(
            "{} --data-dir={{data}} --server.http-listen-address=127.0.0.1 \
             --server.http-listen-port={{port}} --memory.max-bytes={}B \
             --limits.reject-old-samples=false",
            shell_quoted(&binary.to_string_lossy()),
            args.memory_max_bytes
        );
        for argument in &args.server_args {
            command.push(' ');
            command.push_str(&shell_quoted(argument));
        }
        let (port, data) = (free_port()?, folder.join("data"));
        std::fs::create_dir_all(&data).with_context(|| format!("creating {data:?}"))?;
        let url = Target { authority: format!("127.0.0.1:{port}") };
        Ok(Place {
            launch: Launch { command, data, port, log: folder.join("server.log") },
            target: TargetArgs { url, tenant: None, timeout: 60_000_000_000 },
            patience: Duration::from_nanos(args.start_limit),
        })
    }

    fn start(&self) -> Result<Server> {
        Server::start(&self.launch, &self.target, READY_PATH, self.patience)
    }
}

fn run(args: &StreamsArgs) -> Result<Value> {
    if args.days == 0 || args.connections == 0 || args.probes == 0 {
        bail!("--days, --connections and --probes must be more than zero");
    }
    let plan = Plan::new(args.streams_a_day, args.lines, args.active)?;
    let past_nanos = i64::try_from(args.days).ok().and_then(|days| days.checked_mul(DAY_NANOS));
    let today = unix_now_nanos() / DAY_NANOS * DAY_NANOS;
    let first_day_nanos = past_nanos.and_then(|past| today.checked_sub(past));
    let first_day_nanos = first_day_nanos.filter(|start| *start >= 0).context("too many days")?;
    let generator = Generator { plan, seed: args.seed, first_day_nanos };
    let folder = WorkFolder::create(&args.data_dir, args.keep_data)?;
    let place = Place::new(args, folder.path())?;
    let server = place.start()?;
    let days = push_days(args, &place, &generator, server.pid())?;
    let complete = days.iter().filter(|day| day.tally.failed_bodies == 0).count();
    let settling = Settle {
        target: &place.target,
        flush_path: "/flush",
        quiet: Duration::from_nanos(args.quiet),
        limit: Duration::from_nanos(args.settle_limit),
    };
    let settled = settle(&settling, Some(server.pid()), Some(&place.launch.data))?;
    let totals = totals(args, &days, &settled);
    server.kill()?;
    let clock = Instant::now();
    let server = place.start().context("starting the server again")?;
    let ready_seconds = clock.elapsed().as_secs_f64();
    let restarted = tree::usage(server.pid());
    let rss = or_dash(restarted.rss_bytes, megabytes);
    println!("restart: ready after {ready_seconds:.3} s, RSS {rss} MB\n");
    let answers = ask(args, &place.target, &generator, complete as u64);
    let end = tree::usage(server.pid());
    println!("peak RSS after the restart: {} MB", or_dash(end.peak_rss_bytes, megabytes));
    let mut faults: Vec<String> = answers.iter().filter_map(Answers::fault).collect();
    if totals["refused"] != 0 {
        faults.push(format!("the server has refused {} pushes", totals["refused"]));
    }
    if complete < args.days as usize {
        faults.push(format!("only {complete} of {} days were pushed", args.days));
    }
    Ok(json!({
        "seed": args.seed,
        "streams_a_day": args.streams_a_day,
        "lines_of_a_stream": args.lines,
        "active_streams": args.active,
        "memory_max_bytes": args.memory_max_bytes,
        "first_day": first_day_nanos.to_string(),
        "days": days.iter().map(Day::figures).collect::<Vec<_>>(),
        "total": totals,
        "restart": {
            "ready_seconds": ready_seconds,
            "rss_bytes": restarted.rss_bytes,
            "peak_rss_bytes_after_probes": end.peak_rss_bytes,
        },
        "probes": answers.iter().map(Answers::figures).collect::<Vec<_>>(),
        "faults": faults,
    }))
}

/// Pushes day after day, until one is not complete.
fn push_days(
    args: &StreamsArgs,
    place: &Place,
    generator: &Generator,
    pid: u32,
) -> Result<Vec<Day>> {
    let load = Load {
        target: &place.target,
        generator,
        connections: args.connections,
        retry_for: Duration::from_nanos(args.retry_for),
    };
    println!("{}", Day::columns());
    let mut days: Vec<Day> = Vec::new();
    let mut before: Usage = tree::usage(pid);
    for number in 0..args.days {
        let clock = Instant::now();
        let tally = load.day(number)?;
        let seconds = clock.elapsed().as_secs_f64();
        let after = tree::usage(pid);
        let day = Day { tally, seconds, before, after };
        before = after;
        println!("{}", day.row(days.len() + 1));
        let is_complete = day.tally.failed_bodies == 0;
        days.push(day);
        if !is_complete {
            break;
        }
    }
    Ok(days)
}

/// Prints and gives the figures over all days, when the server has settled.
fn totals(args: &StreamsArgs, days: &[Day], settled: &Settled) -> Value {
    let sum = |of: fn(&Day) -> u64| days.iter().map(of).sum::<u64>();
    let raw_bytes = sum(|day| day.tally.acked_raw_bytes);
    let refused = sum(|day| refused(&day.tally));
    let streams = days.len() as u64 * args.streams_a_day;
    let by = |count: u64| settled.disk_bytes.map(|bytes| bytes as f64 / count.max(1) as f64);
    let (disk_per_stream, disk_per_raw_byte) = (by(streams), by(raw_bytes));
    println!(
        "\npeak RSS {} MB; CPU per GB, last day by first {}; refused {refused}; \
         {} after {:.1} s\ndisk {} MB: {} bytes a stream, {} per raw byte",
        or_dash(settled.usage.peak_rss_bytes, megabytes),
        or_dash(cpu_ratio(days), |ratio| format!("{ratio:.2}")),
        if settled.quiet { "settled" } else { "NOT settled" },
        settled.seconds,
        or_dash(settled.disk_bytes, megabytes),
        or_dash(disk_per_stream, |bytes| format!("{bytes:.0}")),
        or_dash(disk_per_raw_byte, |bytes| format!("{bytes:.3}")),
    );
    json!({
        "pushes": sum(|day| day.tally.acked_bodies),
        "refused": refused,
        "failed": sum(|day| day.tally.failed_bodies),
        "lines": sum(|day| day.tally.acked_lines),
        "raw_bytes": raw_bytes,
        "streams": streams,
        "cpu_ratio_last_to_first_day": cpu_ratio(days),
        "peak_rss_bytes": settled.usage.peak_rss_bytes,
        "rss_bytes_settled": settled.usage.rss_bytes,
        "settled": settled.quiet,
        "settle_seconds": settled.seconds,
        "flush_status": settled.flush_status,
        "disk_bytes": settled.disk_bytes,
        "disk_bytes_per_stream": disk_per_stream,
        "disk_bytes_per_raw_byte": disk_per_raw_byte,
    })
}

/// Asks about the complete days, if there are any.
fn ask(args: &StreamsArgs, target: &TargetArgs, generator: &Generator, days: u64) -> Vec<Answers> {
    if days == 0 {
        return Vec::new();
    }
    println!("{}", Answers::columns());
    let mut all = Vec::new();
    for probe in probes::all(generator, days, args.probes) {
        let answers = Answers::to(&probe, target);
        println!("{}", answers.row());
        all.push(answers);
    }
    all
}

//! `bench compare`: measures one server in one run, and checks its answers.
//!
//! The order: the data set is generated and pushed at full speed; the server finishes its
//! background work; the read workloads run one after the other, then many at once; further
//! lines are pushed at half speed, then the same beside a heavy query, then some at full speed
//! beside a cheap query; the server is killed during a last push and started again. Lines that
//! are pushed after the data set belong to other jobs, so they change no answer.
//!
//! The run fails if an answer is wrong, a body is refused or an acknowledged line is lost: a
//! figure for wrong work is worthless.

mod answers;
mod crash;
mod data;
mod disk;
mod fields;
mod isolation;
mod known;
mod machine;
mod reads;
mod table;
mod workloads;
mod writes;

use crate::procfs::Usage;
use crate::push::PushArgs;
use crate::server::{self, Launch, Server};
use crate::settle::{Settle, settle};
use crate::source::SourceArgs;
use crate::target::TargetArgs;
use crate::tree;
use crate::units::{parse_duration_nanos, parse_size_bytes};
use crate::wire::WireArgs;
use crate::work_folder::WorkFolder;
use anyhow::{Context, Result, bail};
use clap::Args;
pub(crate) use data::{DataArgs, DataSet};
use known::Known;
pub(crate) use machine::rate as cpu_rate;
use reads::Repeats;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use workloads::Workload;
use writes::Sample;

/// Lines that the machine's own figures are measured with.
const SAMPLE_BYTES: usize = 64 << 20;
/// CPU time of each measurement of the machine, at least.
const MACHINE_CPU_SECONDS: f64 = 0.3;
/// Bytes of a body of the pushes after the data set.
const LATER_BODY_BYTES: u64 = 512_000;

/// Options of `bench compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) wire: WireArgs,
    /// Shell command that starts the server; {data} and {port} stand for a folder and a
    /// port. Without it, the server at --url is measured, and none is killed
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// What the report calls the server (default: the command or the URL)
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Port for {port} (default: a free one)
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Folder for {data}, which must be empty or missing (default: a temporary one), or
    /// the folder in which the server at --url keeps its data
    #[arg(long)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Leave the data folder of a server that was started
    #[arg(long)]
    pub(crate) keep_data: bool,
    /// Process number of the server at --url, to report what it uses
    #[arg(long, conflicts_with = "server")]
    pub(crate) pid: Option<u32>,
    /// Path that answers with success when the server is ready
    #[arg(long, default_value = "/ready")]
    pub(crate) ready_path: String,
    /// Path of the push endpoint
    #[arg(long, default_value = "/loki/api/v1/push")]
    pub(crate) push_path: String,
    /// Path in front of query_range, query, label and series
    #[arg(long, default_value = "/loki/api/v1")]
    pub(crate) api_prefix: String,
    /// Path that a POST goes to, so that the server writes what it holds in memory;
    /// empty for none
    #[arg(long, default_value = "/flush")]
    pub(crate) flush_path: String,
    /// How long a start may take
    #[arg(long, default_value = "120s", value_parser = parse_duration_nanos)]
    pub(crate) start_limit: u64,
    /// The server has settled when it has used next to no CPU for so long
    #[arg(long, default_value = "5s", value_parser = parse_duration_nanos)]
    pub(crate) quiet: u64,
    /// Go on if the server has not settled after so long
    #[arg(long, default_value = "10m", value_parser = parse_duration_nanos)]
    pub(crate) settle_limit: u64,
    /// Connections that push
    #[arg(long, default_value_t = 4)]
    pub(crate) connections: usize,
    /// Memory for bodies that are prepared ahead, in encoded bytes; while more are
    /// prepared, the server has a pause
    #[arg(long, default_value = "2GB", value_parser = parse_size_bytes)]
    pub(crate) prepare_bytes: u64,
    /// Runs of each read workload
    #[arg(long, default_value_t = 7)]
    pub(crate) repeats: usize,
    /// No further run of a workload begins after so long
    #[arg(long, default_value = "30s", value_parser = parse_duration_nanos)]
    pub(crate) repeat_limit: u64,
    /// Queries at once
    #[arg(long, default_value_t = 50)]
    pub(crate) concurrent: usize,
    /// How long to push at half speed
    #[arg(long, default_value = "20s", value_parser = parse_duration_nanos)]
    pub(crate) half_rate_time: u64,
    /// How long to write to the disk while the server has nothing to do
    #[arg(long, default_value = "10s", value_parser = parse_duration_nanos)]
    pub(crate) disk_time: u64,
    /// File for the report as JSON
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// File for the report as Markdown, which is printed too
    #[arg(long)]
    pub(crate) markdown: Option<PathBuf>,
}

impl CompareArgs {
    /// A push of generated lines of a job of its own.
    fn push_args(&self, job: &str, bytes: u64) -> PushArgs {
        PushArgs {
            target: self.target.clone(),
            source: SourceArgs {
                files: Vec::new(),
                streams_per_file: 1,
                repeat: 1,
                streams: self.data.streams,
                streams_per_body: 16,
                seed: self.data.seed,
                bytes: Some(bytes),
                body_bytes: LATER_BODY_BYTES.min(bytes / 16).max(1),
                metadata: false,
                level_label: self.data.level_label,
                job: format!("{}-{job}", self.data.job),
                labels: Vec::new(),
                start: None,
                line_interval: 1_000_000,
            },
            wire: self.wire,
            path: self.push_path.clone(),
            connections: self.connections,
            rate: None,
            prepare_bytes: self.prepare_bytes,
            retry: false,
            retry_for: 0,
            ledger: None,
            pid: None,
            json: false,
        }
    }

    /// When the server counts as settled.
    fn settle(&self) -> Settle<'_> {
        Settle {
            target: &self.target,
            flush_path: &self.flush_path,
            quiet: Duration::from_nanos(self.quiet),
            limit: Duration::from_nanos(self.settle_limit),
        }
    }

    /// The push of the data set. Bodies that are refused for the moment are sent again.
    fn load_args(&self) -> PushArgs {
        PushArgs { retry: true, retry_for: 60_000_000_000, ..self.push_args("load", 1) }
    }
}

/// Runs the subcommand; false if anything was wrong.
pub(crate) fn main(mut args: CompareArgs) -> Result<bool> {
    let report = run(&mut args)?;
    let text = table::markdown(&report);
    print!("{text}");
    let write = |path: &Option<PathBuf>, text: &str| match path {
        Some(path) => std::fs::write(path, text).with_context(|| format!("writing {path:?}")),
        None => Ok(()),
    };
    write(&args.markdown, &text)?;
    write(&args.json, &format!("{report:#}\n"))?;
    Ok(report["faults"].as_array().is_some_and(Vec::is_empty))
}

/// The server, and the facts about it.
struct Subject {
    /// Dropped, and so killed, before its folder goes.
    server: Option<Server>,
    launch: Option<Launch>,
    folder: Option<WorkFolder>,
    pid: Option<u32>,
    data_dir: Option<PathBuf>,
}

impl Subject {
    fn open(args: &mut CompareArgs) -> Result<Subject> {
        let Some(command) = args.server.clone() else {
            if !server::is_ready(&args.target, &args.ready_path) {
                bail!("the server at {} is not ready", args.target.url.authority);
            }
            let (pid, data_dir) = (args.pid, args.data_dir.clone());
            return Ok(Subject { server: None, launch: None, folder: None, pid, data_dir });
        };
        let name = format!("logsvc-compare-{}", std::process::id());
        let path = args.data_dir.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
        let folder = WorkFolder::create(&path, args.keep_data)?;
        let port = args.port.map_or_else(server::free_port, Ok)?;
        args.target.url.authority = format!("127.0.0.1:{port}");
        let data = folder.path().join("data");
        std::fs::create_dir_all(&data)?;
        let log = folder.path().join("server.log");
        let launch = Launch { command, data: data.clone(), port, log };
        let patience = Duration::from_nanos(args.start_limit);
        let server = Server::start(&launch, &args.target, &args.ready_path, patience)?;
        Ok(Subject {
            pid: Some(server.pid()),
            server: Some(server),
            launch: Some(launch),
            folder: Some(folder),
            data_dir: Some(data),
        })
    }

    fn usage(&self) -> Usage {
        self.pid.map(tree::usage).unwrap_or_default()
    }
}

/// Measures everything; the figures, with all faults under `faults`.
pub(crate) fn run(args: &mut CompareArgs) -> Result<Value> {
    if args.connections == 0 || args.repeats == 0 || args.concurrent == 0 {
        bail!("--connections, --repeats and --concurrent must be more than zero");
    }
    let mut data = DataSet::new(&args.data)?;
    let mut known = Known::new(&data);
    let mut sample = Sample::new(SAMPLE_BYTES);
    let mut subject = Subject::open(args)?;
    let args = &*args;
    say("generating and pushing the data set");
    let load = writes::load(&args.load_args(), subject.pid, &mut data, &mut known, &mut sample)?;
    say("waiting until the server has settled");
    let settled = settle(&args.settle(), subject.pid, subject.data_dir.as_deref())?;
    say("measuring the machine");
    let folder = subject.folder.as_ref().map(WorkFolder::path);
    let machine = machine::measure(&sample.lines, &data.absent_id(), folder, MACHINE_CPU_SECONDS)?;
    drop(sample);
    let disk_time = Duration::from_nanos(args.disk_time);
    let disk = folder.map(|folder| disk::measure(folder, disk_time)).transpose()?;
    let alone = subject.server.is_some();
    let workloads = workloads::all(&args.api_prefix, &args.data.job, &data, &known, alone);
    let (read, concurrent) = read(args, subject.pid, workloads.clone(), machine.memmem)?;
    say("pushing at half speed");
    let half_rate = writes::half_rate(args, load.mb_per_second())?;
    say("pushing beside queries");
    let isolation = isolation::measure(args, load.mb_per_second(), &workloads)?;
    let peak = subject.usage();
    let crash = crash(args, &mut subject, load.mb_per_second(), &workloads)?;
    let command = args.server.clone().unwrap_or_else(|| args.target.url.authority.clone());
    let mut report = json!({
        "server": args.name.clone().unwrap_or(command),
        "data": {
            "seed": args.data.seed,
            "streams": args.data.streams,
            "streams_with_lines": known.streams.len(),
            "lines": known.lines,
            "raw_bytes": known.raw_bytes,
            "line_bytes": known.line_bytes,
            "span_hours": args.data.span as f64 / 3.6e12,
            "start": data.start_nanos.to_string(),
            "end": data.end_nanos.to_string(),
            "metadata": format!("{:?}", args.data.metadata).to_lowercase(),
        },
        "write": writes::figures(&load, &settled, &peak, &half_rate),
        "isolation": isolation.figures(),
        "crash": crash.as_ref().map(crash::Crash::figures),
        "read": read,
        "concurrent": concurrent,
        "machine": machine.figures(),
        "disk": disk.as_ref().map(disk::Disk::figures),
    });
    let mut faults = read_faults(&report);
    faults.extend(isolation.faults());
    let later_failed_bodies = half_rate.failed_bodies + isolation.failed_bodies();
    if load.tally.failed_bodies + later_failed_bodies > 0 {
        faults.push("bodies were refused".to_owned());
    }
    if crash.is_some_and(|crash| !crash.is_clean()) {
        faults.push("the crash has changed what was acknowledged".to_owned());
    }
    report["faults"] = json!(faults);
    Ok(report)
}

/// The read workloads in turn and at once.
fn read(
    args: &CompareArgs,
    pid: Option<u32>,
    workloads: Vec<Workload>,
    memmem: f64,
) -> Result<(Vec<Value>, Value)> {
    let limit = Duration::from_nanos(args.repeat_limit);
    let repeats = Repeats { count: args.repeats, limit };
    let mut read = Vec::with_capacity(workloads.len());
    for workload in workloads.iter().cloned() {
        say(&format!("reading: {}", workload.title));
        read.push(reads::measure(&args.target, pid, workload, &repeats).figures(memmem));
    }
    say("reading: many at once");
    let mix: Vec<&Workload> = workloads.iter().filter(|workload| workload.in_mix).collect();
    let concurrent = reads::concurrent(&args.target, pid, &mix, args.concurrent)?;
    Ok((read, concurrent.figures(&mix)))
}

/// The crash, if the server is ours to kill.
fn crash(
    args: &CompareArgs,
    subject: &mut Subject,
    mb_per_second: f64,
    workloads: &[Workload],
) -> Result<Option<crash::Crash>> {
    let count_all = workloads.iter().find(|workload| workload.name == "count-all");
    let Some(((server, launch), count_all)) =
        subject.server.take().zip(subject.launch.as_ref()).zip(count_all)
    else {
        return Ok(None);
    };
    say("killing the server during a push, and starting it again");
    let folder = subject.folder.as_ref().map_or(Path::new("."), WorkFolder::path);
    let ledger = folder.join("ledger");
    let (crash, server) = crash::measure(args, launch, server, mb_per_second, count_all, &ledger)?;
    subject.pid = Some(server.pid());
    subject.server = Some(server);
    Ok(Some(crash))
}

fn read_faults(report: &Value) -> Vec<String> {
    let rows = report["read"].as_array().into_iter().flatten();
    let faults = rows
        .filter_map(|row| Some(format!("{}: {}", row["title"].as_str()?, row["fault"].as_str()?)));
    let concurrent = report["concurrent"]["faults"].as_array().into_iter().flatten();
    faults.chain(concurrent.filter_map(|f| Some(format!("at once: {}", f.as_str()?)))).collect()
}

/// Prints the present step to standard error; standard output is for the report.
fn say(what: &str) {
    eprintln!("bench: {what}");
}

//! Tools of the binary besides serving: it verifies a stopped store or a bucket, prints files and
//! objects, and finds texts ([`stored`]).
//!
//! `check` exits with 0 if nothing is damaged, 1 if something is, and 2 if it cannot tell: some files
//! are of another version, or the bucket does not answer or has no store. `inspect` exits with 0, with
//! 1 if the file or the object is damaged or cannot be read, and with 2 if the bucket does not answer
//! or has no store. `inspect --find` exits with 0 if no file and no object holds the text, the record
//! of delete requests apart, 1 if one does, and 2 if it cannot tell. Findings go to standard output,
//! one line each. `health` is in [`probe`].
//!
//! `backup` exits with 0 if the server has made a backup, and with 1 if not. `restore` exits like
//! `check` of the folder that it has made, or with 2 if it could not make it. `export` exits with 0,
//! or with 2 if the file is not complete; `import` with 0 if all lines are stored, 1 if the server
//! has refused some, and 2 if it could not send all.

mod stored;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use logsvc_runtime::LaunchOptions;
use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_shards::backup::restore;
use logsvc_shards::check::{CheckError, CheckReport, check_store};

use crate::cli::Tool;
use crate::{ask, probe, transfer};

/// Runs a tool.
pub(crate) fn run(tool: &Tool) -> ExitCode {
    let outcome = match tool {
        Tool::Check(options) => stored::check(options),
        Tool::Inspect(options) => stored::inspect(options),
        Tool::Backup { server, name } => back_up(server, name.as_deref()),
        Tool::Restore { from, to } => {
            let (from, to) = (from.clone(), to.clone());
            on_one_core(move |runtime| {
                let (from, to) = (from.clone(), to.clone());
                async move {
                    let restored = restore(&runtime, &from, &to).await;
                    let restored = restored.map_err(|error| error.to_string())?;
                    Ok::<_, String>((restored, check_store(&runtime, &to).await))
                }
            })
            .and_then(|outcome| {
                let (restored, checked) = outcome.map_err(io::Error::other)?;
                let (files, bytes) = (restored.files, restored.bytes);
                writeln!(io::stdout(), "restored {files} files with {bytes} bytes")?;
                report(checked)
            })
        }
        Tool::Export(options) => transfer::export(options),
        Tool::Import(options) => transfer::import(options),
        Tool::Health { address, path } => Ok(probe::run(*address, path)),
    };
    outcome.unwrap_or_else(|error| {
        // The exit code says it, too, if standard error is closed.
        let _ = writeln!(io::stderr(), "logsvc: {error}");
        ExitCode::from(2)
    })
}

/// Asks a server for a backup and tells what it answers.
fn back_up(server: &str, name: Option<&str>) -> io::Result<ExitCode> {
    let target = match name {
        Some(name) => format!("/loki/api/v1/backup?name={}", ask::escaped(name)),
        None => "/loki/api/v1/backup".to_owned(),
    };
    let code = match ask::post(server, &target) {
        Ok(answer) if answer.status == 200 => {
            writeln!(io::stdout(), "{}", answer.body.trim_end())?;
            if let Some(missing) = missing_segments(&answer.body) {
                writeln!(
                    io::stderr(),
                    "logsvc: the backup is no copy of everything: {missing} segments have no file \
                     on the server's disk. If it has a bucket, they are in that only"
                )?;
            }
            ExitCode::SUCCESS
        }
        Ok(answer) => {
            let (status, body) = (answer.status, answer.body);
            writeln!(io::stderr(), "logsvc: {server} answers {status}: {}", body.trim_end())?;
            ExitCode::FAILURE
        }
        Err(error) => {
            writeln!(io::stderr(), "logsvc: {server}: {error}")?;
            ExitCode::FAILURE
        }
    };
    Ok(code)
}

/// How many segments a backup lacks, if it lacks some.
fn missing_segments(answer: &str) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_str(answer).ok()?;
    answer["missing_segments"].as_u64().filter(|&missing| missing > 0)
}

/// Runs something on a core of its own and gives its result.
fn on_one_core<T, F, Fut>(work: F) -> io::Result<T>
where
    T: Send + Sync + 'static,
    F: Fn(MonoioRuntime) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = T> + 'static,
{
    let output = Arc::new(OnceLock::new());
    let slot = Arc::clone(&output);
    launch(&LaunchOptions::with_cores(1), MonoioDriver::Auto, move |runtime| {
        let (slot, running) = (Arc::clone(&slot), work(runtime));
        async move {
            let result = running.await;
            slot.get_or_init(|| result);
        }
    })?;
    let output = Arc::into_inner(output).and_then(OnceLock::into_inner);
    output.ok_or_else(|| io::Error::other("the core ended without a result"))
}

/// Prints the result of a check.
fn report(checked: Result<CheckReport, CheckError>) -> io::Result<ExitCode> {
    let report = checked.map_err(io::Error::other)?;
    let mut out = BufWriter::new(io::stdout());
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(
        out,
        "{} segments with {} blocks and {} entries; {} log files with {} frames and {} entries; \
         {} bytes read",
        report.segments,
        report.blocks,
        report.segment_entries,
        report.wal_files,
        report.wal_frames,
        report.wal_entries,
        report.read_bytes
    )?;
    if report.stored_segments > 0 {
        writeln!(out, "{} of the segments were checked in the bucket", report.stored_segments)?;
    }
    if report.unchecked_segments > 0 {
        writeln!(
            out,
            "{} of the segments are in the bucket only and were not checked: name it with \
             --config.file or --storage.bucket",
            report.unchecked_segments
        )?;
    }
    if report.tails > 0 {
        writeln!(out, "ends of segments on the local disk: {}", report.tails)?;
    }
    if report.bundles > 0 {
        writeln!(out, "bundles of filters: {}", report.bundles)?;
    }
    if report.left_segments > 0 {
        writeln!(
            out,
            "{} of the segments do not count for all of their streams any more: {} have left \
             them, with {} entries",
            report.left_segments, report.left_streams, report.left_entries
        )?;
    }
    if report.pending_requests + report.processed_requests > 0 {
        writeln!(
            out,
            "{} delete requests are pending, {} are processed",
            report.pending_requests, report.processed_requests
        )?;
    }
    let (damaged, unknown) = (report.damaged_places(), report.unknown_files());
    if unknown > 0 {
        writeln!(out, "files that another version of logsvc has written: {unknown}")?;
    }
    if damaged > 0 {
        writeln!(out, "damaged places: {damaged}")?;
    } else if unknown > 0 {
        writeln!(out, "nothing is damaged that this version of logsvc knows")?;
    } else {
        writeln!(out, "nothing is damaged")?;
    }
    out.flush()?;
    Ok(match (damaged, unknown) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

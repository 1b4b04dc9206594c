//! Tools of the binary besides serving: it verifies a stopped store, prints files, and finds texts.
//!
//! `check` exits with 0 if nothing is damaged, 1 if something is, and 2 if it cannot tell, be it of
//! some files that another version has written. `inspect` exits with 0 or, if the file is damaged
//! or cannot be read, 1. `inspect --find` exits with 0 if no file holds the text, the record of
//! delete requests apart, 1 if one does, and 2 if it cannot tell. Findings go to standard output,
//! one line each. `health` is in [`probe`].
//!
//! `backup` exits with 0 if the server has made a backup, and with 1 if not. `restore` exits like
//! `check` of the folder that it has made, or with 2 if it could not make it. `export` exits with 0,
//! or with 2 if the file is not complete; `import` with 0 if all lines are stored, 1 if the server
//! has refused some, and 2 if it could not send all.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use logsvc_runtime::LaunchOptions;
use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_shards::backup::restore;
use logsvc_shards::check::{
    CheckError, CheckReport, FindReport, check_store, find_text, inspect_file,
};

use crate::cli::Tool;
use crate::{ask, probe, transfer};

/// Runs a tool.
pub(crate) fn run(tool: &Tool) -> ExitCode {
    let outcome = match tool {
        Tool::Check(data_dir) => {
            let data_dir = data_dir.clone();
            on_one_core(move |runtime| {
                let data_dir = data_dir.clone();
                async move { check_store(&runtime, &data_dir).await }
            })
            .and_then(report)
        }
        Tool::Find { text, path } => {
            let (text, path) = (text.clone().into_encoded_bytes(), path.clone());
            on_one_core(move |runtime| {
                let (text, path) = (text.clone(), path.clone());
                async move { find(&runtime, &path, &text).await.map_err(|error| error.to_string()) }
            })
            .and_then(|found| match found {
                Ok(report) => tell_found(&report),
                Err(text) => Err(io::Error::other(text)),
            })
        }
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
        Tool::Inspect(path) => {
            // Its folder, and the one above, are looked for by its path.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            on_one_core(move |runtime| {
                let path = path.clone();
                async move { inspect(&runtime, &path).await.map_err(|error| error.to_string()) }
            })
            .and_then(|inspected| match inspected {
                Ok(()) => Ok(ExitCode::SUCCESS),
                Err(text) => {
                    writeln!(io::stderr(), "logsvc: {text}")?;
                    Ok(ExitCode::FAILURE)
                }
            })
        }
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

/// Standard output, for lines. A reader such as `head` that has seen enough is no failure.
struct Lines {
    out: BufWriter<io::Stdout>,
    written: io::Result<()>,
}

impl Lines {
    fn new() -> Lines {
        Lines { out: BufWriter::new(io::stdout()), written: Ok(()) }
    }

    fn print(&mut self, line: &str) {
        if self.written.is_ok() {
            self.written = writeln!(self.out, "{line}");
        }
    }

    fn finish(mut self) -> io::Result<()> {
        match self.written.and_then(|()| self.out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

async fn inspect(runtime: &MonoioRuntime, path: &Path) -> io::Result<()> {
    let mut lines = Lines::new();
    inspect_file(runtime, path, |line| lines.print(&line)).await?;
    lines.finish()
}

async fn find(runtime: &MonoioRuntime, path: &Path, text: &[u8]) -> io::Result<FindReport> {
    let mut lines = Lines::new();
    let report = find_text(runtime, path, text, |line| lines.print(&line)).await?;
    lines.finish()?;
    Ok(report)
}

fn tell_found(report: &FindReport) -> io::Result<ExitCode> {
    let mut lines = Lines::new();
    let FindReport { files, read_bytes, found, found_in_requests, unread } = report;
    lines.print(&format!("{files} files with {read_bytes} bytes searched"));
    if *found_in_requests > 0 {
        lines.print(&format!("in the record of delete requests: {found_in_requests} times"));
    }
    if *unread > 0 {
        lines.print(&format!("files that could not be searched whole: {unread}"));
    }
    lines.print(&match found {
        0 => "in no other file that was searched".to_owned(),
        _ => format!("found: {found} times"),
    });
    lines.finish()?;
    Ok(match (found, unread) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

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

//! Tools of the binary besides serving: it verifies a stopped store and prints segments.
//!
//! `check` exits with 0 if nothing is damaged, 1 if something is, and 2 if it cannot tell, be it of
//! some files that another version has written. `inspect` exits with 0 or, if the file is damaged
//! or cannot be read, 1. Findings go to standard output, one line each.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use logsvc_runtime::LaunchOptions;
use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_shards::check::{CheckError, CheckReport, check_store, inspect_segment};

use crate::cli::Tool;

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

async fn inspect(runtime: &MonoioRuntime, path: &std::path::Path) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout());
    let mut written = Ok(());
    let print = |line: String| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    };
    inspect_segment(runtime, path, print).await?;
    // A reader such as `head` that has seen enough is no failure.
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
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
    if report.left_segments > 0 {
        writeln!(
            out,
            "{} of the segments do not count for all of their streams any more: {} have left \
             them, with {} entries",
            report.left_segments, report.left_streams, report.left_entries
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

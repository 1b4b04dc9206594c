//! `check` and `inspect`: in a data folder, or in the bucket that the settings name.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use logsvc_runtime::Runtime;
use logsvc_runtime::monoio_backend::MonoioRuntime;
use logsvc_shards::check::{
    CheckError, FindReport, check_bucket, check_store_with, find_in_bucket, find_text,
    inspect_bucket, inspect_file, inspect_object,
};
use logsvc_store::Store;

use super::{on_one_core, report};
use crate::bucket;
use crate::cli::{CheckOptions, InspectOptions, StoreSettings};
use crate::config::{self, BucketConfig, Config, Machine};

/// Verifies a data folder or a bucket.
pub(super) fn check(options: &CheckOptions) -> io::Result<ExitCode> {
    let config = settings(&options.settings, options.is_of_bucket)?;
    let data_dir = options.data_dir.clone();
    let data_dir = data_dir.unwrap_or_else(|| config.data_dir.clone());
    let is_of_bucket = options.is_of_bucket;
    let checked = on_one_core(move |runtime| {
        let (config, data_dir) = (Arc::clone(&config), data_dir.clone());
        async move {
            let store = open(&runtime, &config).await?;
            Ok::<_, String>(match &store {
                Some(store) if is_of_bucket => check_bucket(&runtime, store).await,
                store => check_store_with(&runtime, &data_dir, store.as_ref()).await,
            })
        }
    })?;
    match checked.map_err(io::Error::other)? {
        Err(CheckError::InUse(folder)) => {
            let text = format!(
                "{}. --bucket checks the bucket alone, beside the server",
                CheckError::InUse(folder)
            );
            Err(io::Error::other(text))
        }
        checked => report(checked),
    }
}

/// Prints a file, a bucket or an object, or finds a text.
pub(super) fn inspect(options: &InspectOptions) -> io::Result<ExitCode> {
    let config = settings(&options.settings, options.is_of_bucket)?;
    let InspectOptions { what, text, is_of_bucket, .. } = options.clone();
    if let Some(text) = text {
        if is_of_bucket && what.is_some() {
            return Err(io::Error::other("a search in a bucket is one of all objects"));
        }
        let text = text.into_encoded_bytes();
        let found = on_one_core(move |runtime| {
            let (config, what, text) = (Arc::clone(&config), what.clone(), text.clone());
            async move { find(&runtime, &config, what, &text).await }
        })?;
        return tell_found(&found.map_err(io::Error::other)?);
    }
    let inspected = on_one_core(move |runtime| {
        let (config, what) = (Arc::clone(&config), what.clone());
        async move {
            match what {
                Some(path) if !is_of_bucket => print_file(&runtime, &path).await,
                what => print_stored(&runtime, &config, what).await,
            }
        }
    })?;
    match inspected {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Failed::Damaged(text)) => {
            writeln!(io::stderr(), "logsvc: {text}")?;
            Ok(ExitCode::FAILURE)
        }
        Err(Failed::Unknown(text)) => Err(io::Error::other(text)),
    }
}

/// The settings of the server, and that they name a bucket if one is needed.
fn settings(given: &StoreSettings, needs_bucket: bool) -> io::Result<Arc<Config>> {
    let config = if given.are_empty() {
        Config::default()
    } else {
        let (file, machine) = (given.config_file.as_deref(), Machine::detect());
        let loaded = config::load(file, given.expands_env, &given.flags(), &machine);
        loaded.map_err(io::Error::other)?.config
    };
    if needs_bucket && config.bucket.is_none() {
        let text = "no bucket is named: give --config.file or --storage.bucket";
        return Err(io::Error::other(text));
    }
    Ok(Arc::new(config))
}

/// The bucket, if there is one. A folder is not made.
async fn open<R: Runtime>(runtime: &R, config: &Config) -> Result<Option<Store<R>>, String> {
    if let Some(BucketConfig::Folder(path)) = &config.bucket {
        let listed = runtime.read_dir(path).await;
        listed.map_err(|error| format!("cannot use the bucket: {}: {error}", path.display()))?;
    }
    bucket::store(runtime, config, Arc::default()).await
}

/// Why nothing was printed, or not all.
enum Failed {
    /// The file or the object is damaged or cannot be read.
    Damaged(String),
    /// It was not looked at.
    Unknown(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Damaged(error.to_string())
    }
}

impl From<CheckError> for Failed {
    fn from(error: CheckError) -> Failed {
        let text = error.to_string();
        match error {
            CheckError::Io { .. } => Failed::Damaged(text),
            _ => Failed::Unknown(text),
        }
    }
}

async fn print_file(runtime: &MonoioRuntime, path: &Path) -> Result<(), Failed> {
    // Its folder, and the one above, are looked for by its path.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut lines = Lines::new();
    inspect_file(runtime, &path, |line| lines.print(&line)).await?;
    Ok(lines.finish()?)
}

async fn print_stored(
    runtime: &MonoioRuntime,
    config: &Config,
    name: Option<PathBuf>,
) -> Result<(), Failed> {
    let store = open(runtime, config).await.map_err(Failed::Unknown)?;
    let Some(store) = store else { return Ok(()) };
    let mut lines = Lines::new();
    match name {
        Some(name) => {
            let name = name.to_string_lossy();
            inspect_object(runtime, &store, &name, |line| lines.print(&line)).await?;
        }
        None => inspect_bucket(runtime, &store, |line| lines.print(&line)).await?,
    }
    Ok(lines.finish()?)
}

/// Searches a file, a folder, or the bucket if there is no path.
async fn find(
    runtime: &MonoioRuntime,
    config: &Config,
    path: Option<PathBuf>,
    text: &[u8],
) -> Result<FindReport, String> {
    let mut lines = Lines::new();
    let report = match (path, open(runtime, config).await?) {
        (Some(path), _) => find_text(runtime, &path, text, |line| lines.print(&line)).await,
        (None, Some(store)) => {
            find_in_bucket(runtime, &store, text, |line| lines.print(&line)).await
        }
        (None, None) => return Err("no bucket is named".to_owned()),
    };
    let report = report.map_err(|error| error.to_string())?;
    lines.finish().map_err(|error| error.to_string())?;
    Ok(report)
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

fn tell_found(report: &FindReport) -> io::Result<ExitCode> {
    let mut lines = Lines::new();
    let FindReport { files, read_bytes, found, found_in_requests, unread } = report;
    lines.print(&format!("{files} files or objects with {read_bytes} bytes searched"));
    if *found_in_requests > 0 {
        lines.print(&format!("in the record of delete requests: {found_in_requests} times"));
    }
    if *unread > 0 {
        lines.print(&format!("files or objects that could not be searched whole: {unread}"));
    }
    lines.print(&match found {
        0 => "in no other file or object that was searched".to_owned(),
        _ => format!("found: {found} times"),
    });
    lines.finish()?;
    Ok(match (found, unread) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

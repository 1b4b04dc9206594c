//! Looks at the data folder: which files are still there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_runtime::Runtime;

use super::pass::PassError;
use crate::manifest::{QUARANTINE_NAME, is_manifest_file};
use crate::wal::format::WalName;

/// The first pause between two looks; the pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After this the log says once what is waited for.
const TOLD_AFTER: Duration = Duration::from_secs(60);
/// After this the pass has failed, and other requests get their turn.
const PATIENCE: Duration = Duration::from_secs(600);

/// The folders of the node that hold entries.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    pub(super) wal_dir: PathBuf,
    pub(super) segments_dir: PathBuf,
    /// The epoch of this start.
    pub(super) epoch: u32,
}

/// The files that must go.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Segments, by folder.
    segments: BTreeMap<PathBuf, BTreeSet<String>>,
    /// Of each shard the first log file that stays.
    first_logs: Vec<Option<WalName>>,
}

impl Leaving {
    /// Adds the files that shards have left.
    pub(super) fn add(&mut self, paths: &[PathBuf], first_log: Option<WalName>) {
        for path in paths {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let names = self.segments.entry(folder.to_path_buf()).or_default();
            names.insert(name.to_string_lossy().into_owned());
        }
        self.first_logs.push(first_log);
    }

    /// Whether a log file has to go.
    fn has_log(&self, name: WalName, epoch: u32) -> bool {
        if name.epoch != epoch {
            // All shards have sealed the entries of earlier starts.
            return name.epoch < epoch && self.first_logs.iter().all(Option::is_some);
        }
        let of_writer = |first: &&WalName| first.writer() == name.writer();
        let first = self.first_logs.iter().flatten().find(of_writer);
        first.is_some_and(|first| name.index < first.index)
    }
}

impl Folders {
    /// Waits until the files are gone, and makes that durable. Returns how long it took.
    pub(super) async fn wait_until_gone<R: Runtime>(
        &self,
        runtime: &R,
        leaving: &Leaving,
    ) -> Result<Duration, PassError> {
        let begun = runtime.now();
        let (mut pause, mut is_told) = (FIRST_PAUSE, false);
        while let Some(file) = self.first_left(runtime, leaving).await? {
            let waited = runtime.now().since(begun);
            if waited >= PATIENCE {
                return Err(PassError::StillThere(file));
            }
            if waited >= TOLD_AFTER && !is_told {
                tracing::warn!(
                    file = %file.display(),
                    "a file with deleted entries is still there after a minute; a long query may \
                     be reading it"
                );
                is_told = true;
            }
            runtime.sleep_until(runtime.now().after(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let took = runtime.now().since(begun);
        self.sync(runtime).await?;
        Ok(took)
    }

    async fn first_left<R: Runtime>(
        &self,
        runtime: &R,
        leaving: &Leaving,
    ) -> Result<Option<PathBuf>, PassError> {
        for (folder, names) in &leaving.segments {
            let found = list(runtime, folder).await?;
            if let Some(name) = found.into_iter().find(|name| names.contains(name)) {
                return Ok(Some(folder.join(name)));
            }
        }
        let logs = list(runtime, &self.wal_dir).await?;
        let has_to_go =
            |name: &String| WalName::parse(name).is_some_and(|n| leaving.has_log(n, self.epoch));
        Ok(logs.into_iter().find(has_to_go).map(|name| self.wal_dir.join(name)))
    }

    /// Makes removals durable, also those of earlier passes and starts that were cut short.
    async fn sync<R: Runtime>(&self, runtime: &R) -> Result<(), PassError> {
        let listed = runtime.read_dir(&self.segments_dir).await;
        let listed = listed.map_err(|error| io_error("list", &self.segments_dir, error))?;
        let days = listed.into_iter().filter(|entry| entry.is_dir);
        let days = days.map(|entry| self.segments_dir.join(entry.name));
        for folder in days.chain([self.segments_dir.clone(), self.wal_dir.clone()]) {
            match runtime.sync_dir(&folder).await {
                // The folder of the day has gone with its last file.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error("sync", &folder, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the copies of torn tails of the log. They are bytes of pushes that a crash cut short,
    /// and may have the text of entries that were pushed again. Every crash may leave one, so
    /// requests must not wait until somebody has looked at them.
    pub(super) async fn remove_torn_copies<R: Runtime>(
        &self,
        runtime: &R,
    ) -> Result<(), PassError> {
        let folder = self.wal_dir.join(QUARANTINE_NAME);
        for name in list(runtime, &folder).await?.into_iter().filter(|name| is_torn_copy(name)) {
            let path = folder.join(name);
            match runtime.remove_file(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PassError::Io { action: "remove", folder: path, source: error });
                }
                _ => tracing::warn!(
                    file = %path.display(),
                    "removed the copy of a torn tail of the log, since it may hold deleted entries"
                ),
            }
        }
        match runtime.sync_dir(&folder).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("sync", &folder, error))
            }
            _ => Ok(()),
        }
    }

    /// The first quarantine folder with a file that may hold entries, and that nothing but the
    /// user may remove.
    pub(super) async fn quarantine<R: Runtime>(
        &self,
        runtime: &R,
    ) -> Result<Option<PathBuf>, PassError> {
        let is_harmless: [fn(&str) -> bool; 2] = [is_torn_copy, is_manifest_file];
        for (folder, is_harmless) in
            [&self.wal_dir, &self.segments_dir].into_iter().zip(is_harmless)
        {
            let folder = folder.join(QUARANTINE_NAME);
            if list(runtime, &folder).await?.iter().any(|name| !is_harmless(name)) {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }
}

/// Whether a file of the log's quarantine is the copy of a torn tail, or was to become one.
fn is_torn_copy(name: &str) -> bool {
    name.ends_with(".torn") || (name.contains(".torn.") && name.ends_with(".tmp"))
}

/// The names of the files in a folder; none if there is no folder.
async fn list<R: Runtime>(runtime: &R, folder: &Path) -> Result<Vec<String>, PassError> {
    match runtime.read_dir(folder).await {
        Ok(entries) => {
            let files = entries.into_iter().filter(|entry| !entry.is_dir);
            Ok(files.map(|entry| entry.name).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io_error("list", folder, error)),
    }
}

fn io_error(action: &'static str, folder: &Path, source: io::Error) -> PassError {
    PassError::Io { action, folder: folder.to_path_buf(), source }
}

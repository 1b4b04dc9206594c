//! Makes a data folder out of a backup.
//!
//! Guarantees: nothing is written into a folder that holds something. The file `FORMAT` comes last,
//! so a restore that was cut short leaves a folder that no process takes for a whole one. The backup
//! is not changed: segments are linked where both are on one file system, and they never change.

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::FORMAT_FILE;
use super::copy::{copy_file, link_or_copy};
use crate::node::FORMAT;

/// Why a backup could not be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The target holds something.
    #[error("{0} is not empty: name a folder that is empty or not there yet")]
    NotEmpty(PathBuf),
    /// The source is no complete backup.
    #[error("{0} is no complete backup: {1}")]
    NoBackup(PathBuf, String),
    /// The source is the data folder of a process.
    #[error("{0} is in use by a server: name a folder that a backup has made")]
    InUse(PathBuf),
    /// The target is inside the source.
    #[error("{0} is inside of the backup")]
    Inside(PathBuf),
    /// An operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_path_buf();
    move |source| RestoreError::Io { action, path, source }
}

/// What a restore has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Restores the backup in `from` to the data folder `to`.
///
/// # Errors
/// See [`RestoreError`].
pub async fn restore<R: Runtime>(
    runtime: &R,
    from: &Path,
    to: &Path,
) -> Result<Restored, RestoreError> {
    let no_backup = |text: String| RestoreError::NoBackup(from.to_owned(), text);
    match runtime.read_file(&from.join(FORMAT_FILE), 4096).await {
        Ok(found) if found == FORMAT => {}
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            return Err(no_backup(format!("its FORMAT says {:?}", found.trim_end())));
        }
        Err(error) => return Err(no_backup(format!("{FORMAT_FILE}: {error}"))),
    }
    if to.starts_with(from) {
        return Err(RestoreError::Inside(to.to_owned()));
    }
    match runtime.read_dir(to).await {
        Ok(entries) if entries.is_empty() => {}
        Ok(_) => return Err(RestoreError::NotEmpty(to.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error("list", to)(error)),
    }
    let lock = lock_if_there(runtime, from).await?;
    let mut restored = Restored::default();
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let (source, target) = (from.join(&folder), to.join(&folder));
        runtime.create_dir_all(&target).await.map_err(io_error("make", &target))?;
        let entries = runtime.read_dir(&source).await.map_err(io_error("list", &source))?;
        for entry in entries {
            let is_top = folder.as_os_str().is_empty();
            let is_left_out =
                ["LOCK", FORMAT_FILE, "PREPARE_SHUTDOWN", super::BACKUPS].contains(&&*entry.name);
            if is_top && is_left_out {
                continue;
            }
            if entry.is_dir {
                folders.push(folder.join(&entry.name));
                continue;
            }
            let (source, target) = (source.join(&entry.name), target.join(&entry.name));
            let copied = if entry.name.ends_with(".seg") {
                link_or_copy(runtime, &source, &target).await
            } else {
                copy_file(runtime, &source, &target).await.map(|_| ())
            };
            copied.map_err(io_error("copy", &source))?;
            restored.files += 1;
            restored.bytes += entry.len_bytes;
        }
    }
    for folder in folders.iter().rev() {
        let path = to.join(folder);
        runtime.sync_dir(&path).await.map_err(io_error("sync", &path))?;
    }
    let format = to.join(FORMAT_FILE);
    let written = runtime.replace_file(&format, FORMAT.to_vec()).await;
    written.map_err(io_error("write", &format))?;
    if let Some(parent) = to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        runtime.sync_dir(parent).await.map_err(io_error("sync", parent))?;
    }
    drop(lock);
    restored.files += 1;
    restored.bytes += FORMAT.len() as u64;
    Ok(restored)
}

/// Holds the lock of a data folder. A backup that no process has opened has none.
async fn lock_if_there<R: Runtime>(
    runtime: &R,
    from: &Path,
) -> Result<Option<R::File>, RestoreError> {
    let entries = runtime.read_dir(from).await.map_err(io_error("list", from))?;
    let path = from.join("LOCK");
    if !entries.iter().any(|entry| entry.name == "LOCK") {
        return Ok(None);
    }
    match runtime.lock_file(&path).await {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(RestoreError::InUse(from.to_owned()))
        }
        Err(error) => Err(io_error("lock", &path)(error)),
    }
}

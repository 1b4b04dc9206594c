//! Backups of a data folder: made beside a running node, listed, removed, and restored.
//!
//! A backup is a folder `<data>/backups/<name>` that is itself a data folder. Its segments are hard
//! links to those of the node: they take room of their own only when the node lets go of them. All
//! other files are copies. It has no write-ahead log, so the caller has memory written to segments
//! first; what was acknowledged before that is in the backup.
//!
//! Guarantees: the file `FORMAT` is written last, when all else is on stable storage, so a folder
//! with it is complete. For each shard the segments are the live set of one moment: every segment
//! that the copied manifest calls live is there and no other. The record of requests for deletion
//! is older than that moment, so no request counts as processed whose entries are still there.
//!
//! Failures: the disk is full or fails, or segments come and go faster than they can be linked. Then
//! the folder is without `FORMAT`, and [`remove_incomplete`] removes it.

mod copy;
mod restore;
mod take;

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use crate::manifest::survey_segments;
use copy::remove_tree;
pub use restore::{RestoreError, Restored, restore};
pub use take::{Backup, take};

/// The folder of the backups within the data folder.
pub const BACKUPS: &str = "backups";

/// The file that makes a folder a data folder.
const FORMAT_FILE: &str = "FORMAT";

/// Longest name of a backup.
const NAME_MAX_BYTES: usize = 64;

/// Why a backup could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A name that is no name of a folder.
    #[error(
        "the name of a backup has 1 to 64 letters, digits, \"-\", \"_\" and \".\", and begins with a \
         letter or a digit: {0:?} is none"
    )]
    BadName(String),
    /// There is one of that name.
    #[error("there is a backup named {0:?}")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no backup named {0:?}")]
    Unknown(String),
    /// Segments were merged or removed meanwhile, time and again.
    #[error("segments came and went faster than they could be linked; try again")]
    Restless,
    /// The manifest cannot be used.
    #[error("the manifest is damaged or of another version: {0}")]
    Manifest(String),
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

/// Words an error of an operation.
fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_path_buf();
    move |source| BackupError::Io { action, path, source }
}

/// A complete backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Segments in it.
    pub segments: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Checks a name.
///
/// # Errors
/// [`BackupError::BadName`].
pub fn check_name(name: &str) -> Result<(), BackupError> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_MAX_BYTES && name.bytes().all(is_part) {
        Ok(())
    } else {
        Err(BackupError::BadName(name.to_owned()))
    }
}

/// The complete backups, by name.
///
/// # Errors
/// A folder cannot be listed.
pub async fn list<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<Vec<Listed>, BackupError> {
    let mut listed = Vec::new();
    for (name, folder, is_complete) in folders(runtime, data_dir).await? {
        if !is_complete {
            continue;
        }
        let segments_dir = folder.join("segments");
        let survey = survey_segments(runtime, &segments_dir).await;
        let survey = survey.map_err(io_error("list", &segments_dir))?;
        let files = survey.segments.iter().chain(&survey.pending);
        let bytes = files.clone().map(|found| found.len_bytes).sum();
        listed.push(Listed { name, folder, segments: files.count() as u64, bytes });
    }
    Ok(listed)
}

/// Removes a backup. The entries of the node stay, and so do other backups.
///
/// # Errors
/// There is none of this name, or the disk fails; then a part of it may be gone, and it is not
/// complete any more.
pub async fn remove<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    name: &str,
) -> Result<(), BackupError> {
    check_name(name)?;
    let backups = folders(runtime, data_dir).await?;
    let found = backups.into_iter().find(|(of, ..)| of == name);
    let (_, folder, _) = found.ok_or_else(|| BackupError::Unknown(name.to_owned()))?;
    remove_tree(runtime, &folder).await.map_err(io_error("remove", &folder))
}

/// Removes what backups have left that did not come to their end. None may be under way.
///
/// # Errors
/// The disk fails.
pub async fn remove_incomplete<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
) -> Result<(), BackupError> {
    for (_, folder, is_complete) in folders(runtime, data_dir).await? {
        if !is_complete {
            remove_tree(runtime, &folder).await.map_err(io_error("remove", &folder))?;
        }
    }
    Ok(())
}

/// Name, path, and whether it is complete, of all folders of backups.
async fn folders<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
) -> Result<Vec<(String, PathBuf, bool)>, BackupError> {
    let parent = data_dir.join(BACKUPS);
    let entries = match runtime.read_dir(&parent).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(io_error("list", &parent))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        if entry.is_dir && check_name(&entry.name).is_ok() {
            let folder = parent.join(&entry.name);
            let content = runtime.read_dir(&folder).await.map_err(io_error("list", &folder))?;
            let is_complete = content.iter().any(|entry| entry.name == FORMAT_FILE);
            found.push((entry.name, folder, is_complete));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_folders() {
        for name in ["a", "20261126T120000Z", "before-upgrade_1.2", &"x".repeat(64)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".x", "-x", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}

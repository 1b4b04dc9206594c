//! The folder of a run, for the server's data and its log.
//!
//! The folder is empty at the start, so no run measures the data of another one. It is removed
//! with the value, unless it should stay. What can go wrong: a folder that cannot be removed is
//! named on standard error and stays.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// A folder of this run, which is removed with the value if that is wanted.
pub(crate) struct WorkFolder {
    path: PathBuf,
    keep: bool,
}

impl WorkFolder {
    /// Creates the folder. It must be empty or missing.
    pub(crate) fn create(path: &Path, keep: bool) -> Result<WorkFolder> {
        std::fs::create_dir_all(path).with_context(|| format!("creating {path:?}"))?;
        if std::fs::read_dir(path)?.next().is_some() {
            bail!("the folder {path:?} is not empty");
        }
        Ok(WorkFolder { path: std::path::absolute(path)?, keep })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            eprintln!("bench: {:?} could not be removed: {error}", self.path);
        }
    }
}

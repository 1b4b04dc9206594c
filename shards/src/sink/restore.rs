//! Brings the write-ahead logs that the bucket has into local log files.
//!
//! Guarantees: the logs are fenced first, so nobody acknowledges entries behind what was read. The
//! files are durable at the end. Bytes are written where they were; what lies between stays a hole,
//! and recovery checks frames. Memory is bounded by 16 objects. Files whose entries are all in
//! segments are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::{File, OpenMode, Runtime};
use logsvc_store::log::{LogError, fence_with};
use logsvc_store::{NameError, Store};

use super::log_of;
use super::pieces::{PieceError, PieceRef, pieces};
use crate::wal::covers::{Cover, FileCovers};
use crate::wal::format::WalName;

/// How long a start has patience with the bucket.
const PATIENCE: Duration = Duration::from_secs(600);
/// Files that are open at once.
const OPEN_MAX: usize = 128;

/// Why a write-ahead log of the bucket is not in the folder.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It cannot be read.
    #[error("{0}")]
    Log(#[from] LogError),
    /// An entry of it does not decode.
    #[error("the log wal/{epoch:08x}: {error}")]
    Piece {
        /// Whose log.
        epoch: u32,
        /// Its fault.
        error: PieceError,
    },
    /// It has pieces of another writer's files.
    #[error("the log wal/{epoch:08x} has a piece of the file {name}", name = .name.file_name())]
    Foreign {
        /// Whose log.
        epoch: u32,
        /// The file.
        name: WalName,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Io {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It has no name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Takes over, as `by`, the logs of these epochs, and writes their files to an empty folder. Each log
/// is read from its first needed number on.
///
/// # Errors
/// See [`RestoreError`]. The folder may have parts of files then.
pub(crate) async fn restore<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    wal_dir: &Path,
    logs: &BTreeMap<u32, u64>,
    covers: &[Cover],
    by: u32,
) -> Result<(), RestoreError> {
    let mut files = Files {
        runtime,
        wal_dir,
        covers,
        open: BTreeMap::new(),
        made: BTreeSet::new(),
        written_bytes: 0,
    };
    for (&epoch, &from) in logs {
        let until = runtime.now().after(PATIENCE);
        let visit = async |_, payload: Bytes| files.write(epoch, &payload).await;
        fence_with(runtime, store, &log_of(epoch)?, from, by, until, visit).await?;
    }
    files.close().await?;
    runtime.sync_dir(wal_dir).await.map_err(failed(wal_dir))?;
    if !files.made.is_empty() {
        let (count, len_bytes) = (files.made.len(), files.written_bytes);
        tracing::info!(files = count, len_bytes, "brought log files back from the bucket");
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RestoreError {
    let path = path.to_path_buf();
    move |source| RestoreError::Io { path, source }
}

struct Files<'a, R: Runtime> {
    runtime: &'a R,
    wal_dir: &'a Path,
    covers: &'a [Cover],
    open: BTreeMap<WalName, R::File>,
    /// Files that were begun.
    made: BTreeSet<WalName>,
    written_bytes: u64,
}

impl<R: Runtime> Files<'_, R> {
    /// Writes the pieces of an entry.
    async fn write(&mut self, epoch: u32, payload: &[u8]) -> Result<(), RestoreError> {
        for piece in pieces(payload) {
            let piece = piece.map_err(|error| RestoreError::Piece { epoch, error })?;
            if piece.name.epoch != epoch {
                return Err(RestoreError::Foreign { epoch, name: piece.name });
            }
            if !FileCovers::of(self.covers, piece.name).covers_file(piece.name) {
                self.write_piece(piece).await?;
            }
        }
        Ok(())
    }

    async fn write_piece(&mut self, piece: PieceRef<'_>) -> Result<(), RestoreError> {
        let path = self.wal_dir.join(piece.name.file_name());
        if !self.open.contains_key(&piece.name) {
            if self.open.len() >= OPEN_MAX {
                self.close().await?;
            }
            let is_new = self.made.insert(piece.name);
            let mode = if is_new { OpenMode::CreateNew } else { OpenMode::ReadWrite };
            let file = self.runtime.open(&path, mode).await.map_err(failed(&path))?;
            self.open.insert(piece.name, file);
        }
        let Some(file) = self.open.get(&piece.name) else { return Ok(()) };
        let (result, _) = file.write_all_at(piece.bytes.to_vec(), piece.offset).await;
        result.map_err(failed(&path))?;
        self.written_bytes += piece.bytes.len() as u64;
        Ok(())
    }

    /// Closes all files, durably.
    async fn close(&mut self) -> Result<(), RestoreError> {
        while let Some((name, file)) = self.open.pop_first() {
            let path = self.wal_dir.join(name.file_name());
            file.sync_data().await.map_err(failed(&path))?;
        }
        Ok(())
    }
}

//! The data folder of a node: claimed, checked and surveyed once per start,
//! before the shards begin.
//!
//! Guarantees: two processes never use one folder; a folder of another format is
//! refused; left-overs of a crash are removed; the order in which log files are to
//! be replayed is decided in one place. What can go wrong is in [`NodeError`].

use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::{OpenMode, Runtime};

use crate::wal::format::{FILE_HEADER_LEN, FileHeader, WalName};
use crate::wal::recovery::PlannedFile;

const FORMAT: &[u8] = b"logsvc 1\n";

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Another process has it.
    #[error("the data folder {0} is in use by another process")]
    InUse(PathBuf),
    /// Another version wrote it.
    #[error("the data folder {path} has the format {found:?}, this version knows \"logsvc 1\"")]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// What its FORMAT file says.
        found: String,
    },
    /// An operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NodeError {
    let path = path.to_path_buf();
    move |source| NodeError::Io { action, path, source }
}

/// What every shard has to know about the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Folder of the log files.
    pub wal_dir: PathBuf,
    /// This start's epoch.
    pub epoch: u32,
    /// Log files to replay, oldest first.
    pub files: Vec<PlannedFile>,
}

/// A claimed data folder. The claim ends when the value is dropped.
pub struct Node<R: Runtime> {
    _lock: R::File,
    /// What the shards need.
    pub plan: NodePlan,
}

impl<R: Runtime> std::fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Claims a data folder, making it if it does not exist.
///
/// # Errors
/// The folder is in use, of another format, or cannot be read or written.
pub async fn open_node<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<Node<R>, NodeError> {
    let wal_dir = data_dir.join("wal");
    let quarantine = wal_dir.join("quarantine");
    runtime.create_dir_all(&quarantine).await.map_err(io_error("make", &quarantine))?;
    sync_folders(runtime, data_dir, &wal_dir).await?;
    let lock_path = data_dir.join("LOCK");
    let lock = runtime.lock_file(&lock_path).await.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => NodeError::InUse(data_dir.to_path_buf()),
        _ => io_error("lock", &lock_path)(error),
    })?;
    check_format(runtime, data_dir).await?;
    let files = survey(runtime, &wal_dir).await?;
    let epoch = match files.all.iter().map(|name| name.epoch).max() {
        None => 0,
        Some(last) => last.checked_add(1).ok_or_else(|| {
            let error = io::Error::other("a log file has the last epoch there is");
            io_error("use", &wal_dir)(error)
        })?,
    };
    Ok(Node { _lock: lock, plan: NodePlan { wal_dir, epoch, files: files.planned } })
}

/// Makes the folders' names durable, up to the root: any of them may have been made
/// by this start or by one that was cut short.
async fn sync_folders<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    wal_dir: &Path,
) -> Result<(), NodeError> {
    let ours = [wal_dir, data_dir, data_dir.parent().unwrap_or(data_dir)];
    for folder in ours.into_iter().chain(data_dir.ancestors().skip(2)) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        match runtime.sync_dir(folder).await {
            Ok(()) => {}
            // One that may not be opened or synced was not made by us.
            Err(error) if !ours.contains(&folder) => {
                tracing::warn!(%error, folder = %folder.display(), "cannot sync a folder");
            }
            Err(error) => return Err(io_error("sync", folder)(error)),
        }
    }
    Ok(())
}

async fn check_format<R: Runtime>(runtime: &R, data_dir: &Path) -> Result<(), NodeError> {
    let path = data_dir.join("FORMAT");
    match runtime.read_file(&path, 4096).await {
        Ok(found) if found == FORMAT => Ok(()),
        Ok(found) => Err(NodeError::OtherFormat {
            path: data_dir.to_path_buf(),
            found: String::from_utf8_lossy(&found).trim_end().to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let written = runtime.replace_file(&path, FORMAT.to_vec()).await;
            written.map_err(io_error("write", &path))
        }
        Err(error) => Err(io_error("read", &path)(error)),
    }
}

struct Survey {
    /// Every log file's name, readable or not.
    all: Vec<WalName>,
    planned: Vec<PlannedFile>,
}

/// Reads the headers of all log files and links each with its successor.
async fn survey<R: Runtime>(runtime: &R, wal_dir: &Path) -> Result<Survey, NodeError> {
    let entries = runtime.read_dir(wal_dir).await.map_err(io_error("list", wal_dir))?;
    let mut headers: Vec<FileHeader> = Vec::new();
    let mut planned = Vec::new();
    let mut empty = Vec::new();
    let mut all = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir) {
        let path = wal_dir.join(&entry.name);
        let Some(name) = WalName::parse(&entry.name) else {
            if entry.name.ends_with(".tmp") {
                runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
            } else {
                tracing::warn!(file = %path.display(), "not a log file, left alone");
            }
            continue;
        };
        all.push(name);
        match read_header(runtime, &path).await.map_err(io_error("read", &path))? {
            Some(header) if header.name == name => {
                planned.push(PlannedFile { name, nonce: Some(header.nonce), counts_len: None });
                headers.push(header);
            }
            _ if entry.len_bytes <= FILE_HEADER_LEN as u64 => empty.push((name, path)),
            // Its frames may be good; recovery looks and reports.
            _ => planned.push(PlannedFile { name, nonce: None, counts_len: None }),
        }
    }
    let counts_len = |name| counts_len(&headers, name);
    for (name, path) in empty {
        if counts_len(name).is_some_and(|len| len > FILE_HEADER_LEN as u64) {
            // It has lost what it held; recovery reports it.
            planned.push(PlannedFile { name, nonce: None, counts_len: None });
            continue;
        }
        tracing::info!(file = %path.display(), "removed a log file that was never used");
        runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
    }
    planned.sort_by_key(|file| (file.name.epoch, file.name.index, file.name.shard));
    for file in &mut planned {
        file.counts_len = counts_len(file.name);
    }
    Ok(Survey { all, planned })
}

/// How many bytes of the file count, as a later file of its writer says.
fn counts_len(headers: &[FileHeader], name: WalName) -> Option<u64> {
    let says = |header: &FileHeader| {
        let previous = header.previous?;
        (WalName { index: previous.index, ..header.name } == name).then_some(previous.durable_len)
    };
    headers.iter().find_map(says)
}

async fn read_header<R: Runtime>(runtime: &R, path: &Path) -> io::Result<Option<FileHeader>> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let (result, bytes) =
        logsvc_runtime::File::read_exact_at(&file, Vec::new(), 0, FILE_HEADER_LEN).await;
    match result {
        Ok(()) => Ok(FileHeader::decode(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

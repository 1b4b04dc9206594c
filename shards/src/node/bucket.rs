//! The part of a start that concerns the bucket: who is right, the folder or the bucket?
//!
//! The folder is, if no other writer has come since its last start: it has all that the bucket has,
//! and maybe more. Otherwise the bucket is, and the folder is a cache of it. Then the folder must not
//! have entries or kept files that the bucket lacks: others may have moved or removed what they belong
//! to. Log files that are needed come from the bucket, and so do all kept files.

use std::path::Path;

use logsvc_runtime::Runtime;

use super::files::FolderFiles;
use super::{NodeBucket, NodeError, io_error};
use crate::ledger::{
    ClusterId, Ledger, LedgerError, LedgerState, Mark, PATIENCE, join_ledger, open_ledger, peek,
};
use crate::manifest::{ReadManifest, SegmentName};
use crate::sink::restore;
use crate::wal::format::WalName;

/// The folders that a start looks at.
#[derive(Clone, Copy)]
pub(super) struct Folders<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) wal_dir: &'a Path,
}

/// A bucket that the start has joined.
pub(super) struct Joined<R: Runtime> {
    pub(super) ledger: Ledger<R>,
    /// Whether the bucket has taken the place of the folder's manifest.
    pub(super) is_replaced: bool,
}

/// Joins the bucket, if there is one, and lets the manifest say what counts.
pub(super) async fn join_bucket<R: Runtime>(
    runtime: &R,
    folders: Folders<'_>,
    read: &mut ReadManifest,
    bucket: Option<NodeBucket<R>>,
    is_member: bool,
) -> Result<Option<Joined<R>>, NodeError> {
    let Folders { data_dir, wal_dir } = folders;
    let mark = Mark::read(runtime, data_dir).await.map_err(LedgerError::of_mark(data_dir))?;
    let Some((store, options)) = bucket else {
        let missing = read.missing().len();
        if mark.is_some() && missing > 0 {
            return Err(NodeError::NoBucket { path: data_dir.to_path_buf(), missing });
        }
        return Ok(None);
    };
    let logs = log_files(runtime, wal_dir).await?;
    let files = FolderFiles::read(runtime, data_dir).await?;
    let floor = read.max_epoch().max(logs.iter().map(|name| name.epoch).max());
    if is_member {
        let ledger = join_ledger(runtime, &store, options, floor).await?;
        let folder = Folder { mark, read, logs: &logs, files: &files };
        folder.is_of(ledger.cluster.id)?;
        folder.is_dispensable(&LedgerState::default(), None)?;
        empty(runtime, folders, read, &logs, &ledger).await?;
        return Ok(Some(Joined { ledger, is_replaced: true }));
    }
    // A start that will be refused must not end the one that works with the bucket.
    let until = runtime.now().after(PATIENCE);
    if let Some(peeked) = peek(&store, mark, until).await? {
        let folder = Folder { mark, read, logs: &logs, files: &files };
        folder.is_right(peeked.cluster.id, peeked.base, &peeked.state)?;
    }
    let mut ledger = open_ledger(runtime, &store, options, floor, mark).await?;
    let folder = Folder { mark, read, logs: &logs, files: &files };
    let is_right = folder.is_right(ledger.cluster.id, ledger.base, &ledger.state)?;
    ledger.is_log_whole = !is_right || mark.is_some_and(|mark| mark.is_log_stored);
    let stored = ledger.state.stored();
    if is_right {
        ledger.unsent_files = files.unsent(&ledger.state.files);
        read.note_stored(&stored);
        return Ok(Some(Joined { ledger, is_replaced: false }));
    }
    note_replaced(runtime, data_dir, &ledger).await?;
    let LedgerState { wal, covers, files: kept, .. } = &ledger.state;
    files.replace(runtime, &store, data_dir, kept).await?;
    remove_logs(runtime, wal_dir, &logs).await?;
    let restored = restore(runtime, &store, wal_dir, wal, covers, ledger.epoch).await;
    restored.map_err(LedgerError::from)?;
    read.replace(stored);
    Ok(Some(Joined { ledger, is_replaced: true }))
}

/// Marks a folder that from here on is neither what it was nor what it will be. A start that is cut
/// short leaves one that the next start replaces.
async fn note_replaced<R: Runtime>(
    runtime: &R,
    data_dir: &Path,
    ledger: &Ledger<R>,
) -> Result<(), NodeError> {
    let mark = Mark { base: None, is_sent: true, is_log_stored: false, ..ledger.mark() };
    mark.write(runtime, data_dir).await.map_err(LedgerError::of_mark(data_dir))?;
    Ok(())
}

/// Makes a folder that of a node which owns nothing.
async fn empty<R: Runtime>(
    runtime: &R,
    folders: Folders<'_>,
    read: &mut ReadManifest,
    logs: &[WalName],
    ledger: &Ledger<R>,
) -> Result<(), NodeError> {
    note_replaced(runtime, folders.data_dir, ledger).await?;
    remove_logs(runtime, folders.wal_dir, logs).await?;
    read.replace(ledger.state.stored());
    Ok(())
}

async fn remove_logs<R: Runtime>(
    runtime: &R,
    wal_dir: &Path,
    logs: &[WalName],
) -> Result<(), NodeError> {
    for name in logs {
        let path = wal_dir.join(name.file_name());
        runtime.remove_file(&path).await.map_err(io_error("remove", &path))?;
    }
    runtime.sync_dir(wal_dir).await.map_err(io_error("sync", wal_dir))
}

/// What a folder has.
struct Folder<'a> {
    mark: Option<Mark>,
    read: &'a ReadManifest,
    logs: &'a [WalName],
    files: &'a FolderFiles,
}

impl Folder<'_> {
    /// Whether the folder is right, and not the bucket, whose newest log with a sum is `base`.
    ///
    /// # Errors
    /// The folder is another bucket's, or it is not right and has more than the bucket.
    fn is_right(
        &self,
        cluster: ClusterId,
        base: Option<u32>,
        bucket: &LedgerState,
    ) -> Result<bool, LedgerError> {
        self.is_of(cluster)?;
        if self.mark.map_or(base.is_none(), |mark| mark.has_written(base)) {
            return Ok(true);
        }
        self.is_dispensable(bucket, base).map(|()| false)
    }

    /// Refuses a folder that is another bucket's.
    fn is_of(&self, cluster: ClusterId) -> Result<(), LedgerError> {
        let Some(mark) = self.mark.filter(|mark| mark.cluster != cluster) else { return Ok(()) };
        let (found, expected) = (mark.cluster.to_string(), cluster.to_string());
        Err(LedgerError::OtherBucket { found, expected })
    }

    /// Refuses a folder that may have more than the bucket, whose newest log with a sum is `base`.
    fn is_dispensable(&self, bucket: &LedgerState, base: Option<u32>) -> Result<(), LedgerError> {
        let has_sent_all = self.mark.is_some_and(|mark| mark.is_sent || mark.is_log_stored);
        match self.unsent(bucket) {
            Some(what) if !has_sent_all => {
                let log = base.map_or_else(String::new, |base| format!("{base:08x}"));
                Err(LedgerError::Unsent { log, what })
            }
            _ => Ok(()),
        }
    }

    /// What the folder may have that the bucket lacks, in words.
    fn unsent(&self, bucket: &LedgerState) -> Option<String> {
        let is_known = |name: &SegmentName| {
            bucket.live.contains_key(name) || bucket.removed.contains_key(name)
        };
        let segments = self.read.segments().filter(|name| !is_known(name)).count();
        let mut files = self.files.unknown(&bucket.files);
        if self.mark.is_some() {
            // It may have removed them.
            files += self.files.missing(&bucket.files);
        }
        match (segments, self.logs.len(), files) {
            (0, 0, 0) => None,
            (segments, logs, 0) => Some(format!("{segments} segments and {logs} log files")),
            (segments, logs, files) => Some(format!(
                "{segments} segments, {logs} log files, and {files} files of rule groups or delete \
                 requests"
            )),
        }
    }
}

/// The names of log files.
async fn log_files<R: Runtime>(runtime: &R, wal_dir: &Path) -> Result<Vec<WalName>, NodeError> {
    let entries = runtime.read_dir(wal_dir).await.map_err(io_error("list", wal_dir))?;
    Ok(entries.iter().filter_map(|entry| WalName::parse(&entry.name)).collect())
}

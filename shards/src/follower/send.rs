//! Brings a batch into the bucket: its segments first, then the edit that names them.
//!
//! Guarantees: failures that may pass are tried again, with pauses, until the bucket has the batch
//! or somebody has taken over. They are told once a minute at most.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::log::LogError;

use super::fold::{Added, Batch};
use super::logs::WalLogs;
use super::status::BucketStatus;
use super::upload::{UploadError, Uploader};
use crate::ledger::{Ledger, LedgerError, LogEntry};
use crate::manifest::SegmentName;

/// Segments that are on their way at once.
const SEGMENTS_AT_ONCE: usize = 4;
/// How long one attempt has patience with the bucket.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause after a failure; pauses double up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often failures are told.
const TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// A log with so many entries is followed by another one.
const LOG_ENTRIES_MAX: u64 = 256;

/// Sends batches. One at a time.
pub(super) struct Sender<R: Runtime> {
    pub(super) uploader: Uploader<R>,
    pub(super) ledger: Ledger<R>,
    pub(super) segments_dir: PathBuf,
    pub(super) data_dir: PathBuf,
    pub(super) status: Arc<BucketStatus>,
    pub(super) logs: WalLogs,
}

/// Why a batch is not in the bucket.
#[derive(Debug)]
pub(super) enum SendError {
    /// A segment of it has left the live set.
    Gone(SegmentName),
    /// It will never be.
    Lost(LedgerError),
}

/// How failures go on.
struct Trouble {
    pause: Duration,
    told: Option<Monotonic>,
}

impl<R: Runtime> Sender<R> {
    fn until(&self) -> Monotonic {
        self.uploader.runtime.now().after(PATIENCE)
    }

    /// Brings a batch into the bucket. An empty one finds out whether another start has taken over,
    /// and, if `is_asked`, tells which objects of the log are needed.
    pub(super) async fn send(&mut self, batch: &Batch, is_asked: bool) -> Result<(), SendError> {
        let mut trouble = Trouble { pause: PAUSE_MIN, told: None };
        let mut missing: Vec<&Added> = batch.added.values().collect();
        while !missing.is_empty() {
            let uploads = stream::iter(missing.into_iter().map(|added| self.upload(added)));
            let ended: Vec<_> = uploads.buffer_unordered(SEGMENTS_AT_ONCE).collect().await;
            missing = Vec::new();
            let mut failure = None;
            for (added, result) in ended {
                match result {
                    Ok(()) => {}
                    Err(UploadError::Gone) => return Err(SendError::Gone(added.live.name)),
                    Err(error) => {
                        missing.push(added);
                        failure = Some(format!("{}: {error}", added.live.name.file_name()));
                    }
                }
            }
            if let Some(failure) = failure {
                self.wait(&mut trouble, &failure).await;
            }
        }
        let mut has_looked = !batch.is_empty();
        let mut is_appended = batch.is_empty() && !is_asked;
        loop {
            let until = self.until();
            let result = if self.ledger.written() == 0 {
                let wal = self.logs.at_begin(&self.ledger.state);
                let sum = LogEntry { wal, ..self.ledger.state.sum() };
                self.ledger.append(sum, until).await
            } else if !is_appended {
                let wal = self.logs.after(&self.ledger.state, batch);
                if batch.is_empty() && wal == self.ledger.state.wal {
                    is_appended = true;
                    continue;
                }
                let entry = LogEntry { is_sum: false, wal, edit: batch.edit() };
                self.ledger.append(entry, until).await.map(|()| is_appended = true)
            } else if !has_looked {
                self.ledger.look(until).await.map(|()| has_looked = true)
            } else if self.ledger.written() >= LOG_ENTRIES_MAX {
                self.ledger.begin_anew(&self.data_dir, until).await
            } else {
                return Ok(());
            };
            match result {
                Ok(()) => self.logs.note_appended(&self.ledger.state),
                Err(error) if is_for_ever(&error) => return Err(SendError::Lost(error)),
                Err(error) => self.wait(&mut trouble, &error.to_string()).await,
            }
        }
    }

    async fn upload<'a>(&self, added: &'a Added) -> (&'a Added, Result<(), UploadError>) {
        let live = &added.live;
        let path = live.name.path(&self.segments_dir, live.day);
        let name = live.name.object_name(live.day);
        let result = self.uploader.upload(&path, &name, live).await;
        if result.is_ok() {
            self.status.note_upload(live.file_len);
        }
        (added, result)
    }

    async fn wait(&self, trouble: &mut Trouble, failure: &str) {
        let now = self.uploader.runtime.now();
        self.status.note_failure(now);
        if trouble.told.is_none_or(|told| now >= told.after(TOLD_INTERVAL)) {
            trouble.told = Some(now);
            tracing::error!(
                "the bucket does not take what is to be stored in it; it stays on the disk of this \
                 node, and this is tried again: {failure}"
            );
        }
        self.uploader.runtime.sleep_until(now.after(trouble.pause)).await;
        trouble.pause = (trouble.pause * 2).min(PAUSE_MAX);
    }
}

/// Whether another attempt is of no use.
fn is_for_ever(error: &LedgerError) -> bool {
    match error {
        LedgerError::Log(error) => !matches!(error, LogError::Store(_)),
        LedgerError::TooLarge | LedgerError::Entry { .. } => true,
        _ => false,
    }
}

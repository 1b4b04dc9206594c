//! Brings a batch into the bucket: its segments first, then the edit that names them. Kept files
//! ([`super::files`]) go meanwhile.
//!
//! Guarantees: failures that may pass are tried again, with pauses, until the bucket has the batch
//! or somebody has taken over. They are told once a minute at most.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::log::LogError;

use super::files::Recorder;
use super::fold::{Added, Batch};
use super::logs::WalLogs;
use super::status::BucketStatus;
use super::upload::{UploadError, Uploader};
use crate::ledger::{Ledger, LedgerError, LogEntry};
use crate::manifest::SegmentName;

/// Segments that are on their way at once.
const SEGMENTS_AT_ONCE: usize = 4;
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
    pub(super) segments_dir: PathBuf,
    pub(super) recorder: Recorder<R>,
}

/// Why a batch is not in the bucket.
#[derive(Debug)]
pub(super) enum SendError {
    /// A segment of it has left the live set.
    Gone(SegmentName),
    /// It will never be.
    Lost(LedgerError),
}

impl From<LedgerError> for SendError {
    fn from(error: LedgerError) -> SendError {
        SendError::Lost(error)
    }
}

/// How failures go on.
pub(super) struct Trouble {
    pause: Duration,
    told: Option<Monotonic>,
}

impl Default for Trouble {
    fn default() -> Trouble {
        Trouble { pause: PAUSE_MIN, told: None }
    }
}

impl Trouble {
    /// Tells of a failure, and waits before the next attempt.
    pub(super) async fn pause<R: Runtime>(
        &mut self,
        runtime: &R,
        status: &BucketStatus,
        failure: &str,
    ) {
        let now = runtime.now();
        status.note_failure(now);
        if self.told.is_none_or(|told| now >= told.after(TOLD_INTERVAL)) {
            self.told = Some(now);
            tracing::error!(
                "the bucket does not take what is to be stored in it; it stays on the disk of this \
                 node, and this is tried again: {failure}"
            );
        }
        runtime.sleep_until(now.after(self.pause)).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

impl<R: Runtime> Sender<R> {
    /// Brings a batch into the bucket, and all kept files that have changed. An empty one finds out
    /// whether another start has taken over, and, if `is_asked`, tells which objects of the log are
    /// needed.
    pub(super) async fn send(&mut self, batch: &Batch, is_asked: bool) -> Result<(), SendError> {
        let Sender { uploader, segments_dir, recorder } = self;
        let (runtime, status) = (recorder.runtime.clone(), Arc::clone(&recorder.status));
        let mut trouble = Trouble::default();
        let mut missing: Vec<&Added> = batch.added.values().collect();
        while !missing.is_empty() {
            let upload = |added| upload(uploader, segments_dir, &status, added);
            let uploads = stream::iter(missing.into_iter().map(upload));
            let ended = uploads.buffer_unordered(SEGMENTS_AT_ONCE).collect();
            let ended: Vec<_> = recorder.meanwhile(ended).await?;
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
                recorder.meanwhile(trouble.pause(&runtime, &status, &failure)).await?;
            }
        }
        let mut has_looked = !batch.is_empty();
        let mut is_appended = batch.is_empty() && !is_asked;
        let mut adopted = batch.adopted.iter().peekable();
        loop {
            let until = recorder.until();
            let result = if recorder.ledger.is_beginning_anew() {
                recorder.begin_anew(until).await
            } else if !is_appended {
                let wal = recorder.logs.after(&recorder.ledger.state, batch);
                if batch.is_empty() && wal == recorder.ledger.state.wal {
                    is_appended = true;
                    continue;
                }
                let entry = |ledger: &Ledger<R>, logs: &WalLogs| LogEntry {
                    wal: logs.after(&ledger.state, batch),
                    edit: batch.edit(),
                    ..LogEntry::default()
                };
                recorder.append(entry).await.map(|()| is_appended = true)
            } else if let Some(next) = adopted.peek() {
                let entry = |ledger: &Ledger<R>, _: &WalLogs| LogEntry {
                    wal: ledger.state.wal.clone(),
                    ..(*next).clone()
                };
                let appended = recorder.append(entry).await;
                appended.inspect(|()| {
                    adopted.next();
                })
            } else if recorder.ledger.written() == 0 {
                recorder.begin().await
            } else if recorder.kept.has_changed() {
                recorder.send_files().await
            } else if !has_looked {
                recorder.ledger.look(until).await.map(|()| has_looked = true)
            } else if recorder.ledger.written() >= LOG_ENTRIES_MAX && !recorder.ledger.is_member {
                recorder.begin_anew(until).await
            } else {
                if !is_asked {
                    recorder.trim().await;
                }
                return Ok(recorder.send_files().await?);
            };
            match result {
                Ok(()) => {}
                Err(error) if is_for_ever(&error) => return Err(SendError::Lost(error)),
                Err(error) => {
                    let failure = error.to_string();
                    let pause = trouble.pause(&runtime, &status, &failure);
                    if recorder.ledger.is_beginning_anew() {
                        pause.await;
                    } else {
                        recorder.meanwhile(pause).await?;
                    }
                }
            }
        }
    }
}

async fn upload<'a, R: Runtime>(
    uploader: &Uploader<R>,
    segments_dir: &Path,
    status: &BucketStatus,
    added: &'a Added,
) -> (&'a Added, Result<(), UploadError>) {
    let live = &added.live;
    let path = live.name.path(segments_dir, live.day);
    let name = live.name.object_name(live.day);
    let result = uploader.upload(&path, &name, live).await;
    if result.is_ok() {
        status.note_upload(live.file_len);
    }
    (added, result)
}

/// Whether another attempt is of no use.
pub(super) fn is_for_ever(error: &LedgerError) -> bool {
    match error {
        LedgerError::Log(error) => !matches!(error, LogError::Store(_) | LogError::Torn { .. }),
        LedgerError::TooLarge | LedgerError::Entry { .. } | LedgerError::Name(_) => true,
        _ => false,
    }
}

//! Brings kept files into the bucket, and appends to the node's log: [`Recorder`].
//!
//! A file that has changed is read, becomes an object, and is named by an entry. Then the object that
//! it had before goes: the text of a request for deletion may be the very datum that is to go.
//!
//! Guarantees: an entry names only objects that are whole. Files do not wait for segments that are on
//! their way. Failures that may pass are tried again, with pauses. An object that cannot be removed
//! holds up nothing, and is tried again with a later batch, or by a later start: the log tells it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use logsvc_runtime::{Budget, Monotonic, Reservation, Runtime};
use logsvc_store::object::{HEADER_LEN, Header, Nonce, PROOF};
use logsvc_store::{Created, NameError, Store, StoreError};

use super::logs::WalLogs;
use super::send::{Trouble, is_for_ever};
use super::status::BucketStatus;
use super::upload::MEMORY_PAUSE;
use crate::kept::{Content, FileObject, KeptFile, KeptFiles, KeptPath, Taken};
use crate::ledger::{FileRecord, KIND_FILE, Ledger, LedgerError, LogEntry};

/// How long one attempt has patience with the bucket.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for the removal of an object, which others wait behind.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(10);
/// Files that are on their way at once.
const FILES_AT_ONCE: usize = 8;
/// Shorter files do not wait for memory: parts of segments would always be there first. All of them
/// together take 1 MiB with their objects.
const SHORT_BYTES: u64 = 64 << 10;
/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 16;
/// Entries of the log that are removed one after another before something else is done.
const ENTRIES_AT_ONCE: u64 = 8;

/// Appends to the node's log in the bucket. See the module.
pub(super) struct Recorder<R: Runtime> {
    pub(super) runtime: R,
    pub(super) store: Store<R>,
    pub(super) ledger: Ledger<R>,
    pub(super) logs: WalLogs,
    pub(super) kept: KeptFiles,
    pub(super) data_dir: PathBuf,
    pub(super) status: Arc<BucketStatus>,
    /// Memory for files on their way.
    pub(super) memory: Budget,
    /// The epoch of this start, which the names of its objects have.
    pub(super) epoch: u32,
    /// The number of the next object.
    pub(super) next_number: Cell<u32>,
}

/// Why a file is not in the bucket.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("cannot read {path}: {error}")]
    Io { path: KeptPath, error: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("another object has the name {0}")]
    Taken(String),
}

/// Waits until files have changed that somebody waits for, or until the bucket is wanted.
pub(super) async fn asked(status: Arc<BucketStatus>, kept: KeptFiles) {
    select(pin!(status.asked()), pin!(kept.asked())).await;
}

impl<R: Runtime> Recorder<R> {
    /// The deadline of an attempt that begins now.
    pub(super) fn until(&self) -> Monotonic {
        self.runtime.now().after(PATIENCE)
    }

    /// Appends an entry, behind the sum of all earlier logs.
    ///
    /// # Errors
    /// As for [`Ledger::append`].
    pub(super) async fn append(
        &mut self,
        entry: impl FnOnce(&Ledger<R>, &WalLogs) -> LogEntry,
    ) -> Result<(), LedgerError> {
        self.begin().await?;
        let (entry, until) = (entry(&self.ledger, &self.logs), self.until());
        self.ledger.append(entry, until).await?;
        self.logs.note_appended(&self.ledger.state);
        Ok(())
    }

    /// Begins the log with the sum of all earlier logs.
    ///
    /// # Errors
    /// As for [`Ledger::append`].
    pub(super) async fn begin(&mut self) -> Result<(), LedgerError> {
        if self.ledger.written() > 0 {
            return Ok(());
        }
        let wal = self.logs.at_begin(&self.ledger.state);
        let sum = LogEntry { wal, ..self.ledger.state.sum() };
        let until = self.until();
        self.ledger.append(sum, until).await?;
        self.logs.note_appended(&self.ledger.state);
        Ok(())
    }

    /// Removes some of what a sum of the node's own log has made needless. A failure holds up nothing:
    /// it is tried again behind another batch.
    pub(super) async fn trim(&mut self) {
        let until = self.runtime.now().after(REMOVAL_PATIENCE);
        if let Err(error) = self.ledger.trim(ENTRIES_AT_ONCE, until).await {
            self.status.note_failure(self.runtime.now());
            tracing::warn!("cannot remove an entry of the log, which is tried again: {error}");
        }
    }

    /// Goes on in another log.
    ///
    /// # Errors
    /// As for [`Ledger::begin_anew`].
    pub(super) async fn begin_anew(&mut self, until: Monotonic) -> Result<(), LedgerError> {
        self.ledger.begin_anew(&self.data_dir, until).await?;
        self.logs.note_appended(&self.ledger.state);
        Ok(())
    }

    /// Does some work, and brings the files that change meanwhile into the bucket.
    ///
    /// # Errors
    /// Another start has taken over.
    pub(super) async fn meanwhile<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, LedgerError> {
        let (mut work, kept) = (pin!(work), self.kept.clone());
        loop {
            if let Either::Left((output, _)) = select(work.as_mut(), pin!(kept.changed())).await {
                return Ok(output);
            }
            let mut sending = pin!(self.send_files());
            // An append is never dropped half-way.
            match select(work.as_mut(), sending.as_mut()).await {
                Either::Left((output, _)) => return sending.await.map(|()| output),
                Either::Right((sent, _)) => sent?,
            }
        }
    }

    /// Brings all files that have changed into the bucket, and removes objects that no file has any
    /// more.
    ///
    /// # Errors
    /// Another start has taken over.
    pub(super) async fn send_files(&mut self) -> Result<(), LedgerError> {
        let (mut trouble, mut removes) = (Trouble::default(), true);
        loop {
            if let Some(taken) = self.kept.take() {
                self.send_taken(&mut trouble, taken).await?;
            } else if self.has_gone() && removes {
                removes = self.remove_gone().await;
            } else {
                return Ok(());
            }
        }
    }

    async fn send_taken(&mut self, trouble: &mut Trouble, taken: Taken) -> Result<(), LedgerError> {
        let uploads = stream::iter(&taken.paths).map(|path| self.upload(path));
        let records: Vec<Option<FileRecord>> =
            uploads.buffered(FILES_AT_ONCE).try_collect().await?;
        let files: Vec<FileRecord> = records.into_iter().flatten().collect();
        while !files.is_empty() {
            let appended = self.append(|ledger, _| LogEntry {
                wal: ledger.state.wal.clone(),
                files: files.clone(),
                ..LogEntry::default()
            });
            match appended.await {
                Ok(()) => break,
                Err(error) if is_for_ever(&error) => return Err(error),
                Err(error) => {
                    trouble.pause(&self.runtime, &self.status, &error.to_string()).await;
                }
            }
        }
        self.status.note_sent();
        self.kept.end(taken);
        Ok(())
    }

    /// Makes the object of a file; `None` if the bucket has the file as it is.
    async fn upload(&self, path: &KeptPath) -> Result<Option<FileRecord>, LedgerError> {
        let mut trouble = Trouble::default();
        loop {
            match self.try_upload(path, &mut trouble).await {
                Ok(record) => return Ok(record),
                Err(FileError::Name(error)) => return Err(LedgerError::Name(error)),
                Err(error) => trouble.pause(&self.runtime, &self.status, &error.to_string()).await,
            }
        }
    }

    async fn try_upload(
        &self,
        path: &KeptPath,
        trouble: &mut Trouble,
    ) -> Result<Option<FileRecord>, FileError> {
        let known = self.ledger.state.files.get(path);
        let read = self.read(path).await;
        let Some((_memory, bytes)) =
            read.map_err(|error| FileError::Io { path: path.clone(), error })?
        else {
            return Ok(known.map(|_| FileRecord::Removed(path.clone())));
        };
        let content = Content::of(&bytes);
        if known.is_some_and(|known| known.content == content) {
            return Ok(None);
        }
        let object = FileObject { epoch: self.epoch, number: self.next_number.get() };
        self.next_number.set(object.number + 1);
        let name = object.name()?;
        let nonce = Nonce::random(&self.runtime);
        let body = Header { kind: KIND_FILE, nonce, previous: Nonce::NONE }.encode(&bytes);
        drop(bytes);
        // The same bytes again and again: an attempt that has failed may have made the object.
        loop {
            match self.store.create(&name, body.clone(), PROOF, self.until()).await {
                Ok(Created::New | Created::Retried) => break,
                // Nobody else ever creates the name.
                Ok(Created::Torn) => {
                    self.store.remove(&name, self.until()).await?;
                    let failure = format!("{name}: the connection broke while it was sent");
                    trouble.pause(&self.runtime, &self.status, &failure).await;
                }
                Ok(Created::Existing(_)) => return Err(FileError::Taken(name.to_string())),
                Err(error) => trouble.pause(&self.runtime, &self.status, &error.to_string()).await,
            }
        }
        Ok(Some(FileRecord::Kept(path.clone(), KeptFile { object, content })))
    }

    /// The content of a file, with the memory for it and its object; `None` if there is no such file.
    async fn read(&self, path: &KeptPath) -> io::Result<Option<(Option<Reservation>, Vec<u8>)>> {
        let file = path.in_folder(&self.data_dir);
        let len_bytes = match self.runtime.entry(&file).await {
            Ok(entry) => entry.len_bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let memory = self.reserve(len_bytes).await;
        match self.runtime.read_file(&file, path.max_bytes()).await {
            Ok(bytes) => Ok(Some((memory, bytes))),
            Err(error) if is_missing(&error) => Ok(None),
            // None of this program has written it.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn reserve(&self, len_bytes: u64) -> Option<Reservation> {
        if len_bytes <= SHORT_BYTES {
            return None;
        }
        // A long file gets all the memory that there is for such things.
        let wanted_bytes = (2 * len_bytes + HEADER_LEN as u64).min(self.memory.max_bytes());
        loop {
            if let Some(memory) = self.memory.try_reserve(wanted_bytes) {
                return Some(memory);
            }
            self.runtime.sleep_until(self.runtime.now().after(MEMORY_PAUSE)).await;
        }
    }

    /// Whether the bucket may have objects that no file has any more.
    pub(super) fn has_gone(&self) -> bool {
        !self.ledger.state.gone_files.is_empty()
    }

    /// Removes some objects that no file has any more; tells whether that has succeeded.
    async fn remove_gone(&mut self) -> bool {
        if self.ledger.written() == 0 {
            return false;
        }
        let gone = &self.ledger.state.gone_files;
        let gone: BTreeSet<FileObject> = gone.iter().take(REMOVALS_AT_ONCE).copied().collect();
        let until = self.runtime.now().after(REMOVAL_PATIENCE);
        let store = &self.store;
        let removals = gone.into_iter().map(|object| async move {
            let removed: Result<(), FileError> = async {
                let name = object.name()?;
                Ok(store.remove(&name, until).await?)
            }
            .await;
            (object, removed)
        });
        let ended: Vec<_> =
            stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE).collect().await;
        let mut failure = None;
        for (object, removed) in ended {
            match removed {
                Ok(()) => drop(self.ledger.state.gone_files.remove(&object)),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = &failure {
            self.status.note_failure(self.runtime.now());
            tracing::warn!("cannot remove an object of a file, which is tried again: {error}");
        }
        failure.is_none()
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

//! A start joins the writers of a bucket.
//!
//! It takes an epoch. Then it fences the logs of earlier writers, the newest first, until it finds
//! one that has a sum: whoever wrote that sum had fenced all logs before. What this log says is the
//! state of the bucket, and nobody but this start can change it any more.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::epoch::{Taken, given_epochs, take_epoch};
use logsvc_store::log::{Entry, LogContent, LogError, LogName, LogWriter, fence, read_log};
use logsvc_store::object::ObjectError;
use logsvc_store::{NameError, ObjectName, Store, StoreError};

use super::cluster::{self, Cluster, join};
use super::entry::{EntryError, LogEntry};
use super::mark::{self, Mark};
use super::names::MAPS;
use super::numbered::first_name;
use super::state::LedgerState;
use super::sums::{Sums, SumsConfig, start};
use crate::kept::KeptPath;
use crate::sink::RestoreError;

/// How long a start has patience with the bucket.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How a start uses its bucket.
#[derive(Clone, Debug)]
pub struct LedgerOptions {
    /// Who starts, for people: the object of its epoch says so.
    pub who: String,
    /// The number of partitions, if the bucket is new. Otherwise that of the bucket counts.
    pub partitions: u16,
    /// Whether the bucket gets the write-ahead log, too.
    pub is_log_stored: bool,
    /// When a writer of many sums up its log.
    pub sums: SumsConfig,
}

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store does not answer as it should.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A log in the bucket cannot be read or written.
    #[error("{0}")]
    Log(#[from] LogError),
    /// An entry of a log is none of this program.
    #[error("the log {log}: entry {number}: {error}")]
    Entry {
        /// The log.
        log: String,
        /// Its number.
        number: usize,
        /// Its fault.
        error: EntryError,
    },
    /// Creates that ought to exclude each other do not.
    #[error(
        "the store lets several creates of one object succeed ({winners} of 9): it is not safe to \
         keep logs in it"
    )]
    Lies {
        /// How many.
        winners: usize,
    },
    /// The object `cluster` is none of this program.
    #[error("the object cluster: {0}")]
    Cluster(ObjectError),
    /// The folder belongs to another bucket.
    #[error(
        "the data folder was used with another bucket or prefix ({found}, and this one is \
         {expected}): give the folder its own bucket, or start with an empty folder"
    )]
    OtherBucket {
        /// The folder's.
        found: String,
        /// The bucket's.
        expected: String,
    },
    /// Another writer came after this folder, and the folder has entries that the bucket lacks.
    #[error(
        "another process has used this bucket since this data folder did (its log {log}), and \
         the folder has entries that are not in the bucket ({what}). To go on with what is in the \
         bucket, start with an empty data folder. The entries stay in this one: `logsvc export` \
         reads them once it is started without a bucket"
    )]
    Unsent {
        /// The newest log in the bucket.
        log: String,
        /// The entries, in words.
        what: String,
    },
    /// Many nodes share the bucket, and this start is that of a single one.
    #[error(
        "many nodes share this bucket, and a node that knows no others would see only a part of it: \
         start this one with the same memberlist settings, or give it a bucket or a prefix of its own"
    )]
    Shared,
    /// A single node has written the bucket, and this start is that of one of many.
    #[error(
        "a node without others has written this bucket (its log {log}), and nodes of a cluster would \
         not see what it has: give the cluster a bucket or a prefix of its own, and bring the entries \
         there with `logsvc export` and `logsvc import`"
    )]
    Alone {
        /// The log of the single node.
        log: String,
    },
    /// The write-ahead logs in the bucket cannot be brought back.
    #[error("cannot bring back the write-ahead log: {0}")]
    Restore(#[from] RestoreError),
    /// A kept file of the bucket cannot be brought back.
    #[error(
        "the object {object} of the bucket is to be the file {path} of the data folder, and {what}. \
         Entries that requests for deletion hide would show again, or rule groups would be missing, \
         so the server does not start without it: put back a copy of the object, or start with the \
         data folder that was used with the bucket last"
    )]
    KeptFile {
        /// The object.
        object: String,
        /// The file.
        path: KeptPath,
        /// The fault, in words.
        what: String,
    },
    /// A kept file of the folder cannot be replaced.
    #[error("cannot {action} {path}: {source}")]
    Folder {
        /// The operation that failed.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A log has entries, and neither a first one nor a sum.
    #[error("the log {log} has no sum that it can be read from")]
    Unstarted {
        /// The log.
        log: String,
    },
    /// The live set is too large for an object.
    #[error("there are too many segments or files for one object of the bucket")]
    TooLarge,
    /// A text is no name of an object.
    #[error(transparent)]
    Name(NameError),
    /// The file `BUCKET` cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Mark {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl LedgerError {
    /// An error about the mark of a folder.
    pub(crate) fn of_mark(data_dir: &Path) -> impl FnOnce(io::Error) -> LedgerError {
        let path = mark::path(data_dir);
        move |source| LedgerError::Mark { path, source }
    }
}

/// A bucket that this start writes.
pub(crate) struct Ledger<R: Runtime> {
    runtime: R,
    store: Store<R>,
    /// How the start uses it.
    pub(crate) options: LedgerOptions,
    /// What is fixed for all writers.
    pub(crate) cluster: Cluster,
    /// The epoch of the log that is written.
    pub(crate) epoch: u32,
    /// The log whose entries the state is, if there is one.
    pub(crate) base: Option<u32>,
    /// What the bucket holds; of a node among others, what its log says.
    pub(crate) state: LedgerState,
    /// Whether the writer is one of many that go on at the same time. Its epoch tells who it is, so it
    /// writes one log.
    pub(crate) is_member: bool,
    writer: LogWriter<R>,
    /// An entry of which it is not known whether it is in the log.
    unfinished: Option<(Entry, LogEntry)>,
    /// The epoch of the next log, while it is being begun.
    anew: Option<Taken>,
    /// Entries of the log.
    written: u64,
    /// The sums of a log of many.
    sums: Sums,
    /// Whether the bucket has every entry that the folder has acknowledged and not sealed, and every
    /// change of kept files.
    pub(crate) is_log_whole: bool,
    /// Files of the folder that the bucket does not have as they are.
    pub(crate) unsent_files: BTreeSet<KeptPath>,
}

impl<R: Runtime> std::fmt::Debug for Ledger<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// The name of a writer's log.
pub(super) fn log_of(epoch: u32) -> Result<LogName, LedgerError> {
    LogName::new(&format!("log/{epoch:08x}")).map_err(LedgerError::Name)
}

/// What a bucket says to somebody who does not join its writers.
pub(crate) struct Peeked {
    /// What is fixed for all writers.
    pub(crate) cluster: Cluster,
    /// The newest log with a sum, if there is one.
    pub(crate) base: Option<u32>,
    /// What it says at this moment.
    pub(crate) state: LedgerState,
}

/// Reads a bucket until a deadline, and changes nothing in it; `None` if nobody has ever joined. `mark`
/// is as for [`open_ledger`].
///
/// # Errors
/// See [`LedgerError`].
pub(crate) async fn peek<R: Runtime>(
    store: &Store<R>,
    mark: Option<Mark>,
    until: Monotonic,
) -> Result<Option<Peeked>, LedgerError> {
    let Some(cluster) = cluster::read(store, until).await? else { return Ok(None) };
    let given = given_epochs(store, until).await?;
    let writers: BTreeSet<u32> = given.into_iter().chain(own_writers(mark, &cluster)).collect();
    for writer in writers.into_iter().rev() {
        let log = log_of(writer)?;
        // Another entry is its first one if it is a writer of many.
        let from = match start(store, &log, writer, until).await {
            Ok(start) => start.number,
            // A later one contains it, and only its fence is left.
            Err(LedgerError::Unstarted { .. }) => continue,
            Err(error) => return Err(error),
        };
        let content = read_log(store, &log, from, until).await?;
        if !content.entries.is_empty() {
            let state = sum_of(writer, &content)?;
            return Ok(Some(Peeked { cluster, base: Some(writer), state }));
        }
    }
    Ok(Some(Peeked { cluster, base: None, state: LedgerState::default() }))
}

/// The writers that a folder's mark names, if it is of this bucket.
fn own_writers(mark: Option<Mark>, cluster: &Cluster) -> impl Iterator<Item = u32> {
    let own = mark.filter(|mark| mark.cluster == cluster.id);
    own.into_iter().flat_map(|mark| [mark.base, Some(mark.epoch)]).flatten()
}

/// What the entries of a writer's log say.
fn sum_of(writer: u32, content: &LogContent) -> Result<LedgerState, LedgerError> {
    let mut state = LedgerState::default();
    for (number, payload) in content.entries.iter().enumerate() {
        let log = || format!("log/{writer:08x}");
        let entry = LogEntry::decode(payload);
        let entry = entry.map_err(|error| LedgerError::Entry { log: log(), number, error })?;
        state.apply(entry);
    }
    Ok(state)
}

/// Joins the writers of a bucket with an epoch above `floor`. `mark` is the folder's own, of this
/// bucket: a listing that is behind may lack the writers that it names.
///
/// # Errors
/// See [`LedgerError`].
pub(crate) async fn open_ledger<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    options: LedgerOptions,
    floor: Option<u32>,
    mark: Option<Mark>,
) -> Result<Ledger<R>, LedgerError> {
    let until = runtime.now().after(PATIENCE);
    let cluster = join(runtime, store, options.partitions, until).await?;
    let taken = take_epoch(runtime, store, floor, &options.who, until).await?;
    let own = own_writers(mark, &cluster);
    let earlier: BTreeSet<u32> = taken.earlier.iter().copied().chain(own).collect();
    let earlier: Vec<u32> = earlier.into_iter().filter(|&one| one < taken.epoch).collect();
    let (base, state) = take_over(runtime, store, taken.epoch, &earlier, until).await?;
    let ledger = Ledger::new(runtime, store, options, cluster, taken.epoch)?;
    Ok(Ledger { base, state, ..ledger })
}

/// Joins the writers of a bucket as one of many: takes an epoch above `floor`, and leaves the logs of
/// the others as they are. The log that is begun says what this writer adds and removes, and nothing
/// of what others have.
///
/// # Errors
/// See [`LedgerError`].
pub(crate) async fn join_ledger<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    options: LedgerOptions,
    floor: Option<u32>,
) -> Result<Ledger<R>, LedgerError> {
    let until = runtime.now().after(PATIENCE);
    let cluster = join(runtime, store, options.partitions, until).await?;
    let taken = take_epoch(runtime, store, floor, &options.who, until).await?;
    check_not_alone(store, &taken.earlier, until).await?;
    let ledger = Ledger::new(runtime, store, options, cluster, taken.epoch)?;
    Ok(Ledger { is_member: true, ..ledger })
}

/// Whether nodes have ever shared the bucket: names of maps are never freed.
async fn is_shared<R: Runtime>(store: &Store<R>, until: Monotonic) -> Result<bool, LedgerError> {
    let first = ObjectName::new(&first_name(MAPS, 1)).map_err(LedgerError::Name)?;
    match store.info(&first, until).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a bucket that many nodes share: one by itself would see a part of it alone, and would take
/// the rest for objects that nobody needs. To be asked before a single node starts with a bucket.
///
/// # Errors
/// [`LedgerError::Shared`]; or it is not known.
pub async fn check_unshared<R: Runtime>(runtime: &R, store: &Store<R>) -> Result<(), LedgerError> {
    let until = runtime.now().after(PATIENCE);
    if is_shared(store, until).await? { Err(LedgerError::Shared) } else { Ok(()) }
}

/// Refuses a bucket that a single node has written: no map knows of its log.
async fn check_not_alone<R: Runtime>(
    store: &Store<R>,
    earlier: &[u32],
    until: Monotonic,
) -> Result<(), LedgerError> {
    if is_shared(store, until).await? {
        return Ok(());
    }
    for &writer in earlier {
        let content = read_log(store, &log_of(writer)?, 0, until).await?;
        if !content.entries.is_empty() && !is_shared(store, until).await? {
            return Err(LedgerError::Alone { log: format!("log/{writer:08x}") });
        }
    }
    Ok(())
}

/// Takes the log of edits of a writer over as `by`, if nobody has before. Gives where it ends, and the
/// first number of the writer's own write-ahead log that it calls needed.
///
/// # Errors
/// See [`LedgerError`]. To be made again.
pub(crate) async fn fence_log<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    writer: u32,
    by: u32,
    until: Monotonic,
) -> Result<(u64, Option<u64>), LedgerError> {
    let log = log_of(writer)?;
    loop {
        let from = start(store, &log, writer, until).await?;
        let content = fence(runtime, store, &log, from.number, by, until).await?;
        let is_proven = match from.anchor {
            Some(anchor) => anchor.is_there(store, &log, until).await?,
            None => content.entries.is_empty(),
        };
        // Otherwise the fence may stand at a number that was freed, and ends nothing.
        if is_proven {
            let state = sum_of(writer, &content)?;
            return Ok((content.next, state.wal.get(&writer).copied()));
        }
    }
}

/// Fences the logs of earlier writers, and gives the newest one that has a sum, and what it says.
async fn take_over<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    epoch: u32,
    earlier: &[u32],
    until: Monotonic,
) -> Result<(Option<u32>, LedgerState), LedgerError> {
    for &writer in earlier.iter().rev() {
        let log = log_of(writer)?;
        let content = fence(runtime, store, &log, 0, epoch, until).await?;
        if content.entries.is_empty() {
            continue;
        }
        return Ok((Some(writer), sum_of(writer, &content)?));
    }
    Ok((None, LedgerState::default()))
}

impl<R: Runtime> Ledger<R> {
    /// A log without an entry, in a bucket that holds nothing.
    fn new(
        runtime: &R,
        store: &Store<R>,
        options: LedgerOptions,
        cluster: Cluster,
        epoch: u32,
    ) -> Result<Ledger<R>, LedgerError> {
        Ok(Ledger {
            writer: LogWriter::new(runtime.clone(), store.clone(), log_of(epoch)?),
            sums: Sums::new(options.sums),
            runtime: runtime.clone(),
            store: store.clone(),
            options,
            cluster,
            epoch,
            base: None,
            state: LedgerState::default(),
            is_member: false,
            unfinished: None,
            anew: None,
            written: 0,
            is_log_whole: false,
            unsent_files: BTreeSet::new(),
        })
    }

    /// The mark of a folder that is of this bucket, and in which everything is that the bucket
    /// has.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            cluster: self.cluster.id,
            base: self.base,
            epoch: self.epoch,
            is_sent: false,
            is_log_stored: self.options.is_log_stored && self.is_log_whole,
        }
    }

    /// How many entries the log has.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// The number that follows the last entry, void ones counted.
    pub(crate) fn position(&self) -> u64 {
        self.writer.next()
    }

    /// Appends an entry, the first of which has to be a sum. After an error the same call has to be
    /// made again, with whatever entry: one that may be in the log is finished first.
    ///
    /// # Errors
    /// See [`LedgerError`]. [`LogError::Fenced`] and [`LogError::Forked`] are for ever.
    pub(crate) async fn append(
        &mut self,
        entry: LogEntry,
        until: Monotonic,
    ) -> Result<(), LedgerError> {
        self.finish(until).await?;
        let payload = entry.encode().ok_or(LedgerError::TooLarge)?;
        if self.is_member && self.sums.is_due(self.writer.next()) {
            let sum = self.state.sum();
            // One that has no room is no loss: the log stays as long as it is.
            if let Some(payload) = sum.encode() {
                self.unfinished = Some((self.writer.begin(&payload), sum));
                self.finish(until).await?;
            }
        }
        let begun = self.writer.begin(&payload);
        self.unfinished = Some((begun, entry));
        self.finish(until).await
    }

    /// Removes some entries that a sum has made needless, the oldest first, at most so many.
    ///
    /// # Errors
    /// The store refuses, or the deadline has passed. To be made again.
    pub(crate) async fn trim(&mut self, at_most: u64, until: Monotonic) -> Result<(), LedgerError> {
        let needless = self.sums.needless(self.runtime.now());
        if needless.is_empty() {
            return Ok(());
        }
        let log = log_of(self.epoch)?;
        for number in needless.take(usize::try_from(at_most).unwrap_or(usize::MAX)) {
            // One after another: while an entry is there, those behind it are.
            self.store.remove(&log.entry(number)?, until).await?;
            self.sums.note_removed(number);
        }
        Ok(())
    }

    /// Finds out whether another start has taken over.
    ///
    /// # Errors
    /// See [`LedgerError`].
    pub(crate) async fn look(&mut self, until: Monotonic) -> Result<(), LedgerError> {
        self.finish(until).await?;
        Ok(self.writer.look(until).await?)
    }

    /// Brings an entry into the log that may be there, or may not.
    async fn finish(&mut self, until: Monotonic) -> Result<(), LedgerError> {
        let Some((mut begun, entry)) = self.unfinished.take() else { return Ok(()) };
        if let Err(error) = self.writer.write(&begun, until).await {
            if matches!(error, LogError::Torn { .. }) {
                self.writer.resume(slice::from_mut(&mut begun));
            }
            self.unfinished = Some((begun, entry));
            return Err(error.into());
        }
        if self.is_member {
            if entry.is_sum {
                self.sums.note(begun.number, self.runtime.now());
            }
            self.state.apply_one_of_many(entry);
        } else {
            self.state.apply(entry);
        }
        self.written += 1;
        Ok(())
    }

    /// Whether another log is being begun, so that this one must have no further entry.
    pub(crate) fn is_beginning_anew(&self) -> bool {
        self.anew.is_some()
    }

    /// Begins another log with the sum of this one, so that starts have few entries to read.
    ///
    /// # Errors
    /// See [`LedgerError`]. To be made again after an error.
    pub(crate) async fn begin_anew(
        &mut self,
        data_dir: &Path,
        until: Monotonic,
    ) -> Result<(), LedgerError> {
        self.finish(until).await?;
        let taken = match self.anew.clone() {
            // An attempt before may have fenced the log already.
            Some(taken) => taken,
            None => {
                let (who, floor) = (&self.options.who, Some(self.epoch));
                take_epoch(&self.runtime, &self.store, floor, who, until).await?
            }
        };
        self.anew = Some(taken.clone());
        // Another start may have come between, and must not believe that it has taken over.
        for &other in taken.earlier.iter().filter(|&&other| other > self.epoch) {
            let between = log_of(other)?;
            let content =
                fence(&self.runtime, &self.store, &between, 0, taken.epoch, until).await?;
            if !content.entries.is_empty() {
                let (log, number) = (format!("log/{:08x}", self.epoch), self.written);
                return Err(LogError::Fenced { log, number, by: other }.into());
            }
        }
        let content =
            fence(&self.runtime, &self.store, &log_of(self.epoch)?, 0, taken.epoch, until).await?;
        if let Some(by) = content.fenced_by.filter(|&by| by != taken.epoch) {
            let (log, number) = (format!("log/{:08x}", self.epoch), content.next);
            return Err(LogError::Fenced { log, number, by }.into());
        }
        let mark = Mark { base: Some(self.epoch), epoch: taken.epoch, ..self.mark() };
        mark.write(&self.runtime, data_dir).await.map_err(LedgerError::of_mark(data_dir))?;
        (self.base, self.epoch) = (Some(self.epoch), taken.epoch);
        self.writer =
            LogWriter::new(self.runtime.clone(), self.store.clone(), log_of(taken.epoch)?);
        (self.written, self.anew) = (0, None);
        let sum = self.state.sum();
        self.append(sum, until).await
    }
}

//! What the logs of all writers of a bucket say together.
//!
//! If many nodes share a bucket, each is a writer with a log of edits of its own. The live segments are
//! what all logs add, less what any of them removes, less segments of which all streams have left, by
//! the records of all logs together. So it does not matter which log was read first, nor which log
//! says what: a log may remove what another one has added.
//!
//! Guarantees:
//! - [`Logs::read_on`] has read each log at least as far as it was told when it says `Ok`, and has
//!   forgotten the logs that it was not told of.
//! - After an error, or if the future was dropped, all that was known before is still known, and perhaps
//!   more. The same call goes on where it was.
//! - The entries behind a fence never count.
//! - A log is begun with its newest sum ([`super::sums`]). What its writer removes while it is read, or
//!   while the node stands still, is noticed, and the log is begun anew.
//!
//! Memory: what the logs say; while they are read 16 entries of each of [`LOGS_AT_ONCE`] logs.
//!
//! Failures: see [`LogsError`]. Nobody may answer by these logs then: something may be missing.

mod adopt;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::Store;
use logsvc_store::log::{LogEnd, LogError, LogName, read_on};

use super::entry::{EntryError, LogEntry};
use super::open::{LedgerError, log_of};
use super::state::LedgerState;
use super::sums::{Anchor, start};

pub use view::{SegmentOf, Union};

/// How many logs are read side by side.
const LOGS_AT_ONCE: usize = 8;
/// So often a log is begun anew in one call.
const ATTEMPTS: u32 = 3;

/// Why the logs of all writers are not known as far as they have to be.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An entry is none of this program, or a log has no name.
    #[error(transparent)]
    Ledger(Box<LedgerError>),
    /// A log ends before it should: it is damaged, or the store shows an earlier state.
    #[error("the log {log} ends at {found}, and has to have all entries before {expected}")]
    Short {
        /// The log.
        log: String,
        /// The number of the first entry that is missing, or that is a fence.
        found: u64,
        /// The number that has to be reached.
        expected: u64,
    },
}

impl From<LedgerError> for LogsError {
    fn from(error: LedgerError) -> LogsError {
        LogsError::Ledger(Box::new(error))
    }
}

/// The logs of all writers, as far as they were read. See the module.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    logs: BTreeMap<u32, OneLog>,
}

/// The log of one writer.
#[derive(Clone, Debug, Default)]
struct OneLog {
    /// What is known.
    known: Reading,
    /// What is being read from a sum on, since what followed the known has gone.
    anew: Option<Reading>,
}

/// What was read of a log, from its beginning or a sum on.
#[derive(Clone, Debug)]
struct Reading {
    /// What the entries say that were read.
    state: LedgerState,
    /// How far that is.
    end: LogEnd,
    /// An entry that was there once everything before it, or the sum that it is, was read; `None` if
    /// there was nothing.
    anchor: Option<Anchor>,
    /// Whether it is known where to read on.
    is_begun: bool,
    /// Whether all is read, up to the fence.
    is_ended: bool,
}

impl Default for Reading {
    fn default() -> Reading {
        let (state, end) = (LedgerState::default(), LogEnd::before(0));
        Reading { state, end, anchor: None, is_begun: false, is_ended: false }
    }
}

impl Logs {
    /// Reads on in the logs of these writers, in each to its end, and forgets all others. The position
    /// of a log is the number that follows the last entry that has to be known, void numbers counted.
    /// Tells whether anything has changed.
    ///
    /// # Errors
    /// See [`LogsError`] and the module. To be made again.
    pub async fn read_on<R: Runtime>(
        &mut self,
        store: &Store<R>,
        positions: &BTreeMap<u32, u64>,
        until: Monotonic,
    ) -> Result<bool, LogsError> {
        for &epoch in positions.keys() {
            self.logs.entry(epoch).or_default();
        }
        let told = self.logs.iter_mut().filter_map(|(&epoch, log)| {
            let position = *positions.get(&epoch)?;
            Some(async move { (epoch, log.read_on(store, epoch, position, until).await) })
        });
        // All of them, whatever becomes of one: so each goes as far as it can.
        let mut ended: Vec<_> = iter(told).buffer_unordered(LOGS_AT_ONCE).collect().await;
        ended.sort_unstable_by_key(|(epoch, _)| *epoch);
        let mut has_changed = false;
        for (_, read) in ended {
            has_changed |= read?;
        }
        // Not before: somebody else's log says now what these have said.
        let before = self.logs.len();
        self.logs.retain(|epoch, _| positions.contains_key(epoch));
        Ok(has_changed || self.logs.len() < before)
    }

    /// How far the log of a writer was read: the number behind the last entry.
    pub fn position(&self, epoch: u32) -> Option<u64> {
        self.logs.get(&epoch).map(|log| log.known.end.next)
    }

    /// What all of them say together.
    pub fn union(&self) -> Union {
        Union::of(&self.logs)
    }
}

impl OneLog {
    async fn read_on<R: Runtime>(
        &mut self,
        store: &Store<R>,
        epoch: u32,
        position: u64,
        until: Monotonic,
    ) -> Result<bool, LogsError> {
        let (before, was_ended) = (self.known.end.next, self.known.is_ended);
        let log = Log { store, name: log_of(epoch)?, epoch, until };
        if !self.known.is_begun && self.anew.is_none() {
            self.anew = Some(Reading::begin(&log).await?);
        }
        let mut attempts = 0;
        loop {
            let reading = self.anew.as_mut().unwrap_or(&mut self.known);
            if reading.read_on(&log).await? {
                self.known = self.anew.take().unwrap_or_else(|| std::mem::take(&mut self.known));
                break;
            }
            attempts += 1;
            if attempts > ATTEMPTS {
                let log = log.text();
                return Err(LogsError::Ledger(Box::new(LedgerError::Unstarted { log })));
            }
            self.anew = Some(Reading::begin(&log).await?);
        }
        let found = self.known.end.next;
        if found < position {
            return Err(LogsError::Short { log: log.text(), found, expected: position });
        }
        Ok(found > before || self.known.is_ended != was_ended)
    }
}

/// A log that is being read.
struct Log<'a, R: Runtime> {
    store: &'a Store<R>,
    name: LogName,
    epoch: u32,
    until: Monotonic,
}

impl<R: Runtime> Log<'_, R> {
    /// Its name, for people.
    fn text(&self) -> String {
        format!("log/{:08x}", self.epoch)
    }
}

impl Reading {
    /// Begins with the newest sum.
    async fn begin<R: Runtime>(log: &Log<'_, R>) -> Result<Reading, LogsError> {
        let start = start(log.store, &log.name, log.epoch, log.until).await?;
        let (end, anchor) = (start.end(), start.anchor);
        let mut state = LedgerState::default();
        if let Some((_, entry)) = start.sum {
            state.apply_one_of_many(entry);
        }
        Ok(Reading { state, end, anchor, is_begun: true, is_ended: false })
    }

    /// Reads on to the end. False if entries have gone meanwhile that should have been read: then
    /// nothing that was read by this call may be believed.
    async fn read_on<R: Runtime>(&mut self, log: &Log<'_, R>) -> Result<bool, LogsError> {
        if self.is_ended {
            return Ok(true);
        }
        let state = &mut self.state;
        // Nothing waits between an entry and its place in `end`.
        let visit = async |number: u64, payload: Bytes| {
            let entry = LogEntry::decode(&payload)
                .map_err(|error| unreadable(log.text(), number, error))?;
            state.apply_one_of_many(entry);
            Ok::<(), LogsError>(())
        };
        read_on(log.store, &log.name, &mut self.end, log.until, visit).await?;
        let is_proven = match self.anchor {
            Some(anchor) => anchor.is_there(log.store, &log.name, log.until).await?,
            // There was nothing, so nothing has gone.
            None => self.end.last_entry().is_none(),
        };
        if is_proven {
            if let Some((number, nonce)) = self.end.last_entry() {
                self.anchor = Some(Anchor::Entry(number, nonce));
            }
            self.is_ended = self.end.fenced_by.is_some();
        }
        Ok(is_proven)
    }
}

fn unreadable(log: String, number: u64, error: EntryError) -> LogsError {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    LogsError::Ledger(Box::new(LedgerError::Entry { log, number, error }))
}

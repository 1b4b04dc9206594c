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
use logsvc_store::log::{LogEnd, LogError, read_on};

use super::entry::{EntryError, LogEntry};
use super::open::{LedgerError, log_of};
use super::state::LedgerState;

pub use view::{SegmentOf, Union};

/// How many logs are read side by side.
const LOGS_AT_ONCE: usize = 8;

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

/// The logs of all writers, as far as they were read. See the module.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    logs: BTreeMap<u32, OneLog>,
}

/// The log of one writer.
#[derive(Clone, Debug)]
struct OneLog {
    /// What the entries say that were read.
    state: LedgerState,
    /// How far that is.
    end: LogEnd,
}

impl Default for OneLog {
    fn default() -> OneLog {
        OneLog { state: LedgerState::default(), end: LogEnd::before(0) }
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
        self.logs.get(&epoch).map(|log| log.end.next)
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
        let OneLog { state, end } = self;
        let (before, was_fenced) = (end.next, end.fenced_by.is_some());
        let name = log_of(epoch).map_err(|error| LogsError::Ledger(Box::new(error)))?;
        let log = || format!("log/{epoch:08x}");
        // Nothing waits between an entry and its place in `end`.
        let visit = async |number: u64, payload: Bytes| {
            let entry =
                LogEntry::decode(&payload).map_err(|error| unreadable(log(), number, error))?;
            state.apply_one_of_many(entry);
            Ok::<(), LogsError>(())
        };
        read_on(store, &name, end, until, visit).await?;
        if end.next < position {
            return Err(LogsError::Short { log: log(), found: end.next, expected: position });
        }
        Ok(end.next > before || end.fenced_by.is_some() != was_fenced)
    }
}

fn unreadable(log: String, number: u64, error: EntryError) -> LogsError {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    LogsError::Ledger(Box::new(LedgerError::Entry { log, number, error }))
}

//! A log of numbered objects: whoever creates the next number owns it.
//!
//! Each log has one writer. Whoever takes over from it *fences* the log: it creates the first missing
//! number with an entry that says so. From then on the writer's next create finds the name taken,
//! and it knows that it has lost. No clock, no lease and no lock is needed, and a writer that was
//! stopped for a day does no harm.
//!
//! Guarantees:
//! - An entry counts if all numbers before it exist and none of them is a fence. Entries that
//!   count never change and never go, except with all before them.
//! - [`LogWriter::write`] says `Ok` only if the entry counts, provided that it said so of all
//!   entries before. Several may be on their way; whoever acknowledges them does it in order.
//! - Once [`fence`] has given the entries, no other ever counts.
//! - Each entry names the one before it by its random number. Two writers that both believe to own
//!   a log, because the store has ignored a condition, are noticed by the next reader.
//!
//! Some stores keep the beginning of an object when a connection breaks within a request. Such a
//! *torn* object takes its number, and the name is not freed, since somebody may have relied on it.
//! It has no entry, and makes its number and the following ones void, [`IN_FLIGHT_MAX`] in all: so
//! many entries may have been begun, and none of them was acknowledged. The log goes on behind them,
//! with an entry that says so ([`LogWriter::resume`]), or with a fence. Another entry there tells that
//! the object was whole once.
//!
//! Failures: after [`StoreError::Unknown`] the same entry has to be written again until it is known
//! what became of it. An entry that is damaged, or does not follow the one before it, ends the log
//! with an error: nothing behind it may be believed.

mod object;
mod reader;
mod writer;

use crate::bucket::BucketError;
use crate::name::{NameError, ObjectName};
use crate::object::ObjectError;
use crate::store::StoreError;

pub use object::{AtNumber, at_number, fenced_by, is_torn, may_be_fence, may_exclude};
pub use reader::{LogContent, LogEnd, fence, fence_with, read_log, read_log_with, read_on};
pub use writer::{Entry, LogWriter};

/// The most entries that may be begun and not known to count.
pub const IN_FLIGHT_MAX: u64 = 8;

/// Why a log cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Somebody has taken over.
    #[error("another process, {by:08x}, has taken over the log {log} at {number}")]
    Fenced {
        /// The log.
        log: String,
        /// The number of the fence.
        number: u64,
        /// Who.
        by: u32,
    },
    /// Another writer has this number, although nobody has taken over.
    #[error(
        "the log {log} has an entry {number} of another writer: two processes write it, or the \
             store does not keep creates apart"
    )]
    Forked {
        /// The log.
        log: String,
        /// The number.
        number: u64,
    },
    /// The number has the beginning of an object. See [`LogWriter::resume`].
    #[error(
        "the log {log}: the connection broke while entry {number} was sent, and the store has kept \
             its beginning"
    )]
    Torn {
        /// The log.
        log: String,
        /// The number.
        number: u64,
    },
    /// An entry is damaged.
    #[error("the log {log}: entry {number}: {error}")]
    Damaged {
        /// The log.
        log: String,
        /// The number.
        number: u64,
        /// Its fault.
        error: ObjectError,
    },
    /// The store did not answer as it should.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The name of a log: a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogName(String);

impl LogName {
    /// The log in a folder.
    ///
    /// # Errors
    /// The text is no name.
    pub fn new(folder: &str) -> Result<LogName, NameError> {
        ObjectName::new(&format!("{folder}/{:016x}", 0)).map(|_| LogName(folder.to_owned()))
    }

    /// The name of an entry.
    ///
    /// # Errors
    /// Only if the name of the log is so long that no name of an entry is.
    pub fn entry(&self, number: u64) -> Result<ObjectName, StoreError> {
        let text = format!("{}/{number:016x}", self.0);
        ObjectName::new(&text).map_err(|error| StoreError::Failed {
            bucket: String::new(),
            name: text,
            error: BucketError::failed(error),
        })
    }
}

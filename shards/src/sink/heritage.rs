//! Reads what a writer that has ended has left behind in its write-ahead log.
//!
//! The heir of some partitions appends these entries to its own heads. They are a set: one that a live
//! segment has already may come again, and covers leave most of these out.
//!
//! Guarantees:
//! - When [`read`] says `Ok`, every entry of the wanted partitions that counts in the log from the given
//!   number up to the fence, and that no cover holds, was given. Entries of a stream come in the order
//!   in which they were acknowledged.
//! - A frame that the fence has cut short was never acknowledged, and is left out.
//! - Nothing is written, to the bucket or to the local disk.
//!
//! Memory: 16 objects, one frame, one batch, and the definitions of the streams of the wanted partitions
//! that have entries in the log.
//!
//! Failures: see [`HeritageError`]. Some entries may have been given then. Who reads looks at the newest
//! map first: perhaps another heir was faster, and the objects are gone. The same call may be
//! repeated.

mod frames;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;
use logsvc_store::log::{LogEnd, LogError, read_on};
use logsvc_store::{NameError, Store};

use self::frames::Reader;
use super::log_of;
use crate::types::{StreamDefinition, StreamPartitions};
use crate::wal::covers::Cover;

/// How long the bucket may take for what is read next.
const PATIENCE: Duration = Duration::from_secs(120);
/// After so much of it the reader asks anew: the time of who takes the batches is not the bucket's.
const RENEWED_AFTER: Duration = Duration::from_secs(30);

/// Sections in a batch, but for one that is larger alone.
const BATCH_BYTES: usize = 1 << 20;

/// What to read of the write-ahead log of a writer that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heritage {
    /// Whose log.
    pub epoch: u32,
    /// The first needed number, as the log of edits of this writer says. Covers that are not weaker
    /// than those of that log have to be given with it.
    pub from: u64,
    /// The number of the fence.
    pub end: u64,
}

/// Entries that a writer has left behind.
#[derive(Clone, Debug, Default)]
pub struct HeritageBatch {
    /// The entries, see [`logsvc_segment::batch`]. Sections of a writer's log, as they are there.
    pub batch: Vec<u8>,
    /// All streams of the batch.
    pub definitions: Vec<StreamDefinition>,
    /// How many entries there are.
    pub entries: u64,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeritageTotals {
    /// Objects of the log.
    pub objects: u64,
    /// Frames that were decoded.
    pub frames: u64,
    /// Entries that were given.
    pub entries: u64,
    /// Entries that were left out because covers hold them; not those in frames that were passed over
    /// for the same reason.
    pub covered_entries: u64,
}

/// Why not all was given that a writer has left behind.
#[derive(Debug, thiserror::Error)]
pub enum HeritageError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An object is missing.
    #[error("the log {log}: entry {number} is missing, and the log ends at {end}")]
    Missing {
        /// The log.
        log: String,
        /// The number of the object.
        number: u64,
        /// The number of the fence.
        end: u64,
    },
    /// The log ends elsewhere.
    #[error("the log {log} has to end at {end}, and that is not so at {number}")]
    End {
        /// The log.
        log: String,
        /// Where it ends, or goes on.
        number: u64,
        /// Where it should end.
        end: u64,
    },
    /// The bytes of an object are not those of a log.
    #[error("the log {log}: entry {number}: {what}")]
    Damaged {
        /// The log.
        log: String,
        /// The number of the object.
        number: u64,
        /// The fault.
        what: String,
    },
    /// A stream has entries, and nothing says which stream it is.
    #[error("the log {log}: entry {number}: the stream {stream} is not defined")]
    Undefined {
        /// The log.
        log: String,
        /// The number of the object.
        number: u64,
        /// The stream.
        stream: StreamId,
    },
    /// The log has no name.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Why reading stops.
enum Stop<E> {
    Failed(E),
    /// To go on with new patience.
    Pause,
}

impl<E: From<HeritageError>> From<LogError> for Stop<E> {
    fn from(error: LogError) -> Stop<E> {
        Stop::Failed(HeritageError::from(error).into())
    }
}

/// Gives `take` what a writer has left behind of the wanted partitions, less what `covers` hold.
///
/// # Errors
/// See [`HeritageError`] and the module, and those of `take`.
pub async fn read<R: Runtime, E: From<HeritageError>>(
    runtime: &R,
    store: &Store<R>,
    heritage: Heritage,
    covers: &[Cover],
    wanted: &StreamPartitions,
    mut take: impl AsyncFnMut(HeritageBatch) -> Result<(), E>,
) -> Result<HeritageTotals, E> {
    let Heritage { epoch, from, end } = heritage;
    let name = log_of(epoch).map_err(HeritageError::from)?;
    let log = || format!("{}/{epoch:08x}", super::FOLDER);
    let ends_at = |number| HeritageError::End { log: log(), number, end };
    if from > end {
        return Err(ends_at(from).into());
    }
    let mut reader = Reader::new(log(), epoch, covers, wanted);
    let mut read = LogEnd::before(from);
    loop {
        let begun = runtime.now();
        let visited = Cell::new(false);
        let visit = async |number: u64, payload: Bytes| {
            if visited.replace(true) && runtime.now() >= begun.after(RENEWED_AFTER) {
                return Err(Stop::Pause);
            }
            if number >= end {
                return Err(Stop::Failed(ends_at(number).into()));
            }
            reader.read_object(number, &payload, &mut take).await.map_err(Stop::Failed)?;
            // The frames of an object are much work; other tasks of the core go on meanwhile.
            runtime.yield_now().await;
            Ok(())
        };
        match read_on(store, &name, &mut read, begun.after(PATIENCE), visit).await {
            Ok(()) => break,
            Err(Stop::Pause) => {}
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
    match read.fenced_by {
        None => {
            let number = read.next;
            return Err(HeritageError::Missing { log: log(), number, end }.into());
        }
        Some(_) if read.next != end => return Err(ends_at(read.next).into()),
        Some(_) => {}
    }
    reader.finish(&mut take).await
}

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
//! Failures: after [`StoreError::Unknown`] the same entry has to be written again until it is known
//! what became of it. An entry that is damaged, or does not follow the one before it, ends the log
//! with an error: nothing behind it may be believed.

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::{BucketError, Span};
use crate::name::{NameError, ObjectName};
use crate::object::{HEADER_LEN, Header, Nonce, ObjectError, PAYLOAD_MAX_BYTES, PROOF};
use crate::store::{Created, Store, StoreError};

/// The payload is the writer's.
const KIND_ENTRY: u32 = 1;
/// The payload is the number of who took over, in 4 bytes.
const KIND_FENCE: u32 = 2;

/// Entries that are read at once.
const READS_AT_ONCE: u64 = 16;

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

/// An entry that was given its number.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    object: Bytes,
}

impl Entry {
    /// The memory of an entry that is written, without content; `None` if a request still has it.
    pub fn into_memory(self) -> Option<Vec<u8>> {
        let mut object = self.object.try_into_mut().ok()?;
        object.clear();
        Some(object.into())
    }
}

/// Writes a log.
pub struct LogWriter<R> {
    store: Store<R>,
    runtime: R,
    log: LogName,
    next: u64,
    last: Nonce,
}

impl<R: Runtime> LogWriter<R> {
    /// The only writer of a new log.
    pub fn new(runtime: R, store: Store<R>, log: LogName) -> LogWriter<R> {
        LogWriter { store, runtime, log, next: 0, last: Nonce::NONE }
    }

    /// Gives an entry its number. It has to be written, or the log ends here.
    pub fn begin(&mut self, payload: &[u8]) -> Entry {
        self.begin_with(|header| header.encode(payload))
    }

    /// The same for a payload that stands behind [`HEADER_LEN`] bytes, which become the header.
    ///
    /// # Panics
    /// The bytes have no room for a header.
    pub fn begin_in_place(&mut self, object: Vec<u8>) -> Entry {
        self.begin_with(|header| header.encode_in_place(object))
    }

    fn begin_with(&mut self, encode: impl FnOnce(Header) -> Bytes) -> Entry {
        let nonce = Nonce::random(&self.runtime);
        let header = Header { kind: KIND_ENTRY, nonce, previous: self.last };
        let entry = Entry { number: self.next, object: encode(header) };
        self.next += 1;
        self.last = nonce;
        entry
    }

    /// Finds out whether somebody has taken over, when there is nothing to write. All entries that
    /// were begun have to be written.
    ///
    /// # Errors
    /// See [`LogError`].
    pub async fn look(&self, until: Monotonic) -> Result<(), LogError> {
        let (log, number) = (self.log.0.clone(), self.next);
        match read_entry(&self.store, &self.log, number, until).await? {
            None => Ok(()),
            Some(Read { fenced_by: Some(by), .. }) => Err(LogError::Fenced { log, number, by }),
            Some(_) => Err(LogError::Forked { log, number }),
        }
    }

    /// Writes an entry. May be repeated.
    ///
    /// # Errors
    /// See [`LogError`].
    pub async fn write(&self, entry: &Entry, until: Monotonic) -> Result<(), LogError> {
        let name = self.log.entry(entry.number)?;
        match self.store.create(&name, entry.object.clone(), PROOF, until).await? {
            Created::New => Ok(()),
            Created::Existing(_) => {
                match read_entry(&self.store, &self.log, entry.number, until).await? {
                    Some(Read { fenced_by: Some(by), .. }) => {
                        Err(LogError::Fenced { log: self.log.0.clone(), number: entry.number, by })
                    }
                    _ => Err(LogError::Forked { log: self.log.0.clone(), number: entry.number }),
                }
            }
        }
    }
}

/// The entries of a log from some number on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContent {
    /// Payloads, the first of number `from`.
    pub entries: Vec<Bytes>,
    /// The next number.
    pub next: u64,
    /// Who has taken over at `next`, if somebody has.
    pub fenced_by: Option<u32>,
}

struct Read {
    header: Header,
    payload: Bytes,
    fenced_by: Option<u32>,
}

async fn read_entry<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    number: u64,
    until: Monotonic,
) -> Result<Option<Read>, LogError> {
    let span = Span::Whole { max_bytes: HEADER_LEN as u64 + PAYLOAD_MAX_BYTES };
    let object = match store.read(&log.entry(number)?, span, until).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let damaged = |error| LogError::Damaged { log: log.0.clone(), number, error };
    let (header, payload) = Header::decode(&object).map_err(damaged)?;
    let fenced_by = match header.kind {
        KIND_ENTRY => None,
        KIND_FENCE => {
            let by = payload.as_ref().try_into();
            let by = by.map_err(|_| damaged(ObjectError::Damaged("a fence of nobody")))?;
            Some(u32::from_le_bytes(by))
        }
        _ => return Err(damaged(ObjectError::Version)),
    };
    Ok(Some(Read { header, payload, fenced_by }))
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The next number.
    pub next: u64,
    /// Who has taken over at `next`, if somebody has.
    pub fenced_by: Option<u32>,
    /// The random number of the entry before `next`, if that is known.
    last: Option<Nonce>,
}

impl LogEnd {
    fn before(from: u64) -> LogEnd {
        let last = if from == 0 { Some(Nonce::NONE) } else { None };
        LogEnd { next: from, fenced_by: None, last }
    }
}

/// Reads a log from `from` on, 0 or a number whose predecessors all count, up to the first number
/// that is missing, or to the fence. It asks for numbers and not for a listing, which may be behind.
///
/// # Errors
/// See [`LogError`].
pub async fn read_log<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    from: u64,
    until: Monotonic,
) -> Result<LogContent, LogError> {
    let mut entries = Vec::new();
    let mut visit = async |payload| {
        entries.push(payload);
        Ok::<(), LogError>(())
    };
    let end = go_on(store, log, LogEnd::before(from), &mut visit, until).await?;
    Ok(LogContent { entries, next: end.next, fenced_by: end.fenced_by })
}

/// The same for a log that may be long: `visit` gets the payload of each entry once, in order. At most
/// 16 entries are in memory. It may have got entries when this ends with an error.
///
/// # Errors
/// See [`LogError`], and those of `visit`.
pub async fn read_log_with<R: Runtime, E: From<LogError>>(
    store: &Store<R>,
    log: &LogName,
    from: u64,
    until: Monotonic,
    mut visit: impl AsyncFnMut(Bytes) -> Result<(), E>,
) -> Result<LogEnd, E> {
    go_on(store, log, LogEnd::before(from), &mut visit, until).await
}

/// Reads what stands behind what was read, some entries at a time.
async fn go_on<R: Runtime, E: From<LogError>>(
    store: &Store<R>,
    log: &LogName,
    mut end: LogEnd,
    visit: &mut impl AsyncFnMut(Bytes) -> Result<(), E>,
    until: Monotonic,
) -> Result<LogEnd, E> {
    // The end is not known, so the first look is a narrow one.
    let mut at_once = 1;
    loop {
        let numbers = end.next..end.next + at_once;
        let reads = join_all(numbers.map(|number| read_entry(store, log, number, until))).await;
        for read in reads {
            let Some(read) = read? else { return Ok(end) };
            if end.last.is_some_and(|last| last != read.header.previous) {
                return Err(LogError::Forked { log: log.0.clone(), number: end.next }.into());
            }
            if read.fenced_by.is_some() {
                let last = Some(read.header.previous);
                return Ok(LogEnd { fenced_by: read.fenced_by, last, ..end });
            }
            visit(read.payload).await?;
            end = LogEnd { next: end.next + 1, last: Some(read.header.nonce), ..end };
        }
        at_once = (at_once * 2).min(READS_AT_ONCE);
    }
}

/// Takes a log over as `by`, which is no other's number, and gives all its entries from `from` on.
/// If somebody has taken it over before, says who ([`LogContent::fenced_by`]).
///
/// # Errors
/// See [`LogError`]. After [`StoreError::Unknown`] it has to be tried again: the fence may stand.
pub async fn fence<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    log: &LogName,
    from: u64,
    by: u32,
    until: Monotonic,
) -> Result<LogContent, LogError> {
    let mut entries = Vec::new();
    let visit = async |payload| {
        entries.push(payload);
        Ok::<(), LogError>(())
    };
    let end = fence_with(runtime, store, log, from, by, until, visit).await?;
    Ok(LogContent { entries, next: end.next, fenced_by: end.fenced_by })
}

/// The same for a log that may be long: `visit` gets each entry once, in order. At most
/// 16 entries are in memory. It may have got entries when this ends with an error.
///
/// # Errors
/// See [`fence`], and those of `visit`.
pub async fn fence_with<R: Runtime, E: From<LogError>>(
    runtime: &R,
    store: &Store<R>,
    log: &LogName,
    from: u64,
    by: u32,
    until: Monotonic,
    mut visit: impl AsyncFnMut(Bytes) -> Result<(), E>,
) -> Result<LogEnd, E> {
    let mut end = go_on(store, log, LogEnd::before(from), &mut visit, until).await?;
    loop {
        if end.fenced_by.is_some() {
            return Ok(end);
        }
        let previous = end.last.unwrap_or(Nonce::NONE);
        let header = Header { kind: KIND_FENCE, nonce: Nonce::random(runtime), previous };
        let object = header.encode(&by.to_le_bytes());
        let name = log.entry(end.next).map_err(LogError::from)?;
        match store.create(&name, object, PROOF, until).await.map_err(LogError::from)? {
            Created::New => return Ok(LogEnd { fenced_by: Some(by), ..end }),
            // Another entry, or another's fence, was faster.
            Created::Existing(_) => end = go_on(store, log, end, &mut visit, until).await?,
        }
    }
}

/// Who has taken a log over, if the object with this header and payload is a fence.
pub fn fenced_by(header: &Header, payload: &[u8]) -> Option<u32> {
    let by: [u8; 4] = payload.try_into().ok()?;
    (header.kind == KIND_FENCE).then(|| u32::from_le_bytes(by))
}

/// Whether an object of a log may be a fence, by its length. An entry with a payload of
/// as many bytes may be taken for one.
pub fn may_be_fence(len_bytes: u64) -> bool {
    len_bytes == HEADER_LEN as u64 + 4
}

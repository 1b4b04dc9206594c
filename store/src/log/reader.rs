//! Reads a log, and takes it over.

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::{Monotonic, Runtime};

use super::object::{KIND_ENTRY, KIND_FENCE, KIND_RESUMED, Read, read_entry};
use super::{IN_FLIGHT_MAX, LogError, LogName};
use crate::object::{Header, Nonce, ObjectError, PROOF};
use crate::store::{Created, Store};

/// Fences that may be torn before whoever takes over gives up.
const TORN_FENCES_MAX: u32 = 8;

/// Entries that are read at once.
const READS_AT_ONCE: u64 = 16;

/// The entries of a log from some number on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContent {
    /// Payloads in the order of their numbers.
    pub entries: Vec<Bytes>,
    /// The next number.
    pub next: u64,
    /// Who has taken over at `next`, if somebody has.
    pub fenced_by: Option<u32>,
}

/// How far a log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The next number.
    pub next: u64,
    /// Who has taken over at `next`, if somebody has.
    pub fenced_by: Option<u32>,
    /// Torn objects that were passed over.
    pub torn: u64,
    /// The random number of the last entry, if that is known.
    last: Option<Nonce>,
    /// The number of the last entry, if one was read.
    last_number: Option<u64>,
    /// The fault of the torn object whose void numbers end at `next`.
    behind: Option<ObjectError>,
}

impl LogEnd {
    /// Of a log that is to be read from `from` on, as by [`read_log`].
    pub fn before(from: u64) -> LogEnd {
        let last = if from == 0 { Some(Nonce::NONE) } else { None };
        LogEnd { next: from, fenced_by: None, torn: 0, last, last_number: None, behind: None }
    }

    /// Of a log that is to be read from behind an entry on, which counts and has this number and random
    /// number.
    pub fn behind(number: u64, nonce: Nonce) -> LogEnd {
        let next = number.saturating_add(1);
        let (last, last_number) = (Some(nonce), Some(number));
        LogEnd { next, fenced_by: None, torn: 0, last, last_number, behind: None }
    }

    /// The last entry that was read: its number and its random number.
    pub fn last_entry(&self) -> Option<(u64, Nonce)> {
        self.last_number.zip(self.last)
    }
}

/// Reads a log from `from` on, 0 or a number that is not void and whose predecessors all count or are
/// void, up to the first number that is missing, or to the fence. It asks for numbers and not for a listing, which may be behind.
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
    let mut visit = async |_, payload| {
        entries.push(payload);
        Ok::<(), LogError>(())
    };
    let mut end = LogEnd::before(from);
    go_on(store, log, &mut end, &mut visit, until).await?;
    Ok(LogContent { entries, next: end.next, fenced_by: end.fenced_by })
}

/// The same for a log that may be long: `visit` gets number and payload of each entry once, in order.
/// At most 16 entries are in memory. It may have got entries when this ends with an error.
///
/// # Errors
/// See [`LogError`], and those of `visit`.
pub async fn read_log_with<R: Runtime, E: From<LogError>>(
    store: &Store<R>,
    log: &LogName,
    from: u64,
    until: Monotonic,
    mut visit: impl AsyncFnMut(u64, Bytes) -> Result<(), E>,
) -> Result<LogEnd, E> {
    let mut end = LogEnd::before(from);
    go_on(store, log, &mut end, &mut visit, until).await?;
    Ok(end)
}

/// The same for a log of which something was read already. `end` says how far, also when this ends
/// with an error: behind the last entry that `visit` has taken. The same call then goes on there.
///
/// # Errors
/// See [`LogError`], and those of `visit`.
pub async fn read_on<R: Runtime, E: From<LogError>>(
    store: &Store<R>,
    log: &LogName,
    end: &mut LogEnd,
    until: Monotonic,
    mut visit: impl AsyncFnMut(u64, Bytes) -> Result<(), E>,
) -> Result<(), E> {
    match end.fenced_by {
        Some(_) => Ok(()),
        None => go_on(store, log, end, &mut visit, until).await,
    }
}

/// Reads what stands behind what was read, some entries at a time.
async fn go_on<R: Runtime, E: From<LogError>>(
    store: &Store<R>,
    log: &LogName,
    end: &mut LogEnd,
    visit: &mut impl AsyncFnMut(u64, Bytes) -> Result<(), E>,
    until: Monotonic,
) -> Result<(), E> {
    // The end is not known, so the first look is a narrow one.
    let mut at_once = 1;
    loop {
        let numbers = end.next..end.next + at_once;
        let reads = join_all(numbers.map(|number| read_entry(store, log, number, until))).await;
        at_once = (at_once * 2).min(READS_AT_ONCE);
        for read in reads {
            let number = end.next;
            let forked = || LogError::Forked { log: log.0.clone(), number };
            let follows = |previous| end.last.is_none_or(|last| last == previous);
            match read? {
                Read::Nothing => return Ok(()),
                Read::Torn(error) => {
                    (end.next, end.behind) = (number + IN_FLIGHT_MAX, Some(error));
                    end.torn += 1;
                    at_once = 1;
                    break;
                }
                Read::Fence { previous, by } => {
                    if !follows(previous) {
                        return Err(forked().into());
                    }
                    (end.fenced_by, end.last) = (Some(by), Some(previous));
                    return Ok(());
                }
                Read::Entry { header, payload } => {
                    if let (KIND_ENTRY, Some(error)) = (header.kind, end.behind) {
                        let number = number - IN_FLIGHT_MAX;
                        return Err(LogError::Damaged { log: log.0.clone(), number, error }.into());
                    }
                    let may_resume = end.behind.is_some() || end.last.is_none();
                    if !follows(header.previous) || (header.kind == KIND_RESUMED && !may_resume) {
                        return Err(forked().into());
                    }
                    visit(number, payload).await?;
                    (end.next, end.behind) = (number + 1, None);
                    (end.last, end.last_number) = (Some(header.nonce), Some(number));
                }
            }
        }
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
    let visit = async |_, payload| {
        entries.push(payload);
        Ok::<(), LogError>(())
    };
    let end = fence_with(runtime, store, log, from, by, until, visit).await?;
    Ok(LogContent { entries, next: end.next, fenced_by: end.fenced_by })
}

/// The same for a log that may be long: `visit` gets number and payload of each entry once, in order.
/// At most 16 entries are in memory. It may have got entries when this ends with an error.
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
    mut visit: impl AsyncFnMut(u64, Bytes) -> Result<(), E>,
) -> Result<LogEnd, E> {
    let mut end = LogEnd::before(from);
    go_on(store, log, &mut end, &mut visit, until).await?;
    let mut torn = 0;
    loop {
        if end.fenced_by.is_some() {
            warn_of_torn(log, &end);
            return Ok(end);
        }
        let previous = end.last.unwrap_or(Nonce::NONE);
        let header = Header { kind: KIND_FENCE, nonce: Nonce::random(runtime), previous };
        let object = header.encode(&by.to_le_bytes());
        let name = log.entry(end.next).map_err(LogError::from)?;
        match store.create(&name, object, PROOF, until).await.map_err(LogError::from)? {
            Created::New | Created::Retried => end.fenced_by = Some(by),
            Created::Torn if torn == TORN_FENCES_MAX => {
                return Err(LogError::Torn { log: log.0.clone(), number: end.next }.into());
            }
            // Another entry, or another's fence, was faster; or the number is void.
            created => {
                torn += u32::from(created == Created::Torn);
                go_on(store, log, &mut end, &mut visit, until).await?;
            }
        }
    }
}

fn warn_of_torn(log: &LogName, end: &LogEnd) {
    if end.torn > 0 {
        tracing::warn!(
            "{} objects of the log {} are torn: a connection broke when they were sent. Nothing in them \
             was acknowledged, unless the store has lost their ends since",
            end.torn,
            log.0
        );
    }
}

//! Writes a log.

use std::cell::Cell;

use bytes::Bytes;
use futures_util::future::try_join_all;
use logsvc_runtime::{Monotonic, Runtime};

use super::object::{KIND_ENTRY, KIND_RESUMED, Read, read_entry};
use super::{IN_FLIGHT_MAX, LogError, LogName};
use crate::object::{HEADER_LEN, Header, Nonce, PROOF};
use crate::store::{Created, Store};

/// An entry that was given its number.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// The random number of the entry before it.
    previous: Nonce,
    object: Bytes,
    /// Whether an attempt may have taken effect whose answer is not known.
    is_in_doubt: Cell<bool>,
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

    /// The number of the next entry.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Gives an entry its number. It has to be written, or the log ends here.
    pub fn begin(&mut self, payload: &[u8]) -> Entry {
        self.begin_as(KIND_ENTRY, |header| header.encode(payload))
    }

    /// The same for a payload that stands behind [`HEADER_LEN`] bytes, which become the header.
    ///
    /// # Panics
    /// The bytes have no room for a header.
    pub fn begin_in_place(&mut self, object: Vec<u8>) -> Entry {
        self.begin_as(KIND_ENTRY, |header| header.encode_in_place(object))
    }

    fn begin_as(&mut self, kind: u32, encode: impl FnOnce(Header) -> Bytes) -> Entry {
        let (number, nonce, previous) = (self.next, Nonce::random(&self.runtime), self.last);
        let object = encode(Header { kind, nonce, previous });
        self.next += 1;
        self.last = nonce;
        Entry { number, previous, object, is_in_doubt: Cell::new(false) }
    }

    /// Gives other numbers to entries after [`LogError::Torn`]: to all that were begun from the torn
    /// one on, in order. Their writes have to be ended or dropped before. They follow each other from
    /// [`IN_FLIGHT_MAX`] behind the torn one on.
    pub fn resume(&mut self, entries: &mut [Entry]) {
        let Some(torn) = entries.first() else { return };
        (self.next, self.last) = (torn.number + IN_FLIGHT_MAX, torn.previous);
        let mut kind = KIND_RESUMED;
        for entry in entries {
            *entry = self.begin_as(kind, |header| header.encode(&entry.object[HEADER_LEN..]));
            kind = KIND_ENTRY;
        }
    }

    /// Finds out whether somebody has taken over, when there is nothing to write. All entries that
    /// were begun have to be written.
    ///
    /// # Errors
    /// See [`LogError`].
    pub async fn look(&self, until: Monotonic) -> Result<(), LogError> {
        self.look_from(self.next, until).await
    }

    /// Fails if somebody has taken over at a number, or behind torn ones from there on, or if the last
    /// of these is an entry.
    async fn look_from(&self, mut number: u64, until: Monotonic) -> Result<(), LogError> {
        while self.is_torn(number, until).await? {
            // Somebody who takes over was torn, and goes on behind it.
            number += IN_FLIGHT_MAX;
        }
        Ok(())
    }

    /// Whether a number is torn. Fails if it has anything else.
    async fn is_torn(&self, number: u64, until: Monotonic) -> Result<bool, LogError> {
        let log = || self.log.0.clone();
        match read_entry(&self.store, &self.log, number, until).await? {
            Read::Nothing => Ok(false),
            Read::Torn(_) => Ok(true),
            Read::Fence { by, .. } => Err(LogError::Fenced { log: log(), number, by }),
            Read::Entry { .. } => Err(LogError::Forked { log: log(), number }),
        }
    }

    /// Writes an entry. May be repeated.
    ///
    /// # Errors
    /// See [`LogError`]. After [`LogError::Torn`] the entry needs another number
    /// ([`LogWriter::resume`]).
    pub async fn write(&self, entry: &Entry, until: Monotonic) -> Result<(), LogError> {
        let number = entry.number;
        let is_first = !entry.is_in_doubt.replace(true);
        let name = self.log.entry(number)?;
        match self.store.create(&name, entry.object.clone(), PROOF, until).await? {
            Created::New if is_first => Ok(()),
            // An attempt before may have been torn. Whoever took over behind it may have freed the
            // name since, but not before its fence stood.
            Created::New | Created::Retried => self.look_from(number + IN_FLIGHT_MAX, until).await,
            Created::Torn => Err(self.torn(number, until).await),
            // Somebody who takes over may have been torn, too.
            Created::Existing(_) if self.is_torn(number, until).await? => {
                Err(self.torn(number, until).await)
            }
            // A fence does not go.
            Created::Existing(_) => Err(LogError::Forked { log: self.log.0.clone(), number }),
        }
    }

    /// What it means that a number is torn. It may have been whole before: then somebody has taken
    /// over behind it, and freed the name.
    async fn torn(&self, number: u64, until: Monotonic) -> LogError {
        let behind = number + 1..=number + IN_FLIGHT_MAX;
        let looks = behind.map(|first| async move {
            match self.look_from(first, until).await {
                // One's own, which is on its way, too.
                Err(LogError::Forked { .. }) => Ok(()),
                other => other,
            }
        });
        match try_join_all(looks).await {
            Ok(_) => LogError::Torn { log: self.log.0.clone(), number },
            Err(error) => error,
        }
    }
}

//! The log of maps as objects of the bucket.
//!
//! Guarantees: a map is read or created as [`logsvc_cluster::member`] needs it, and those of
//! [`Numbered`].

use logsvc_cluster::map::codec::{ENTRY_MAX_BYTES, Entry};
use logsvc_cluster::member::{CreateOutcome, ReadOutcome};
use logsvc_runtime::Runtime;
use logsvc_store::Store;
use logsvc_store::object::{Header, Nonce};

use crate::ledger::{Found, MAPS, Numbered, Outcome};

const KIND_MAP: u32 = 7;
const LOG: Numbered = Numbered { folder: MAPS, kind: KIND_MAP, max_bytes: ENTRY_MAX_BYTES };

/// Reads the map of a number.
pub(super) async fn read<R: Runtime>(runtime: &R, store: &Store<R>, number: u64) -> ReadOutcome {
    match LOG.read(runtime, store, number).await {
        Found::Absent => ReadOutcome::Absent,
        // The decoder of maps checks the rest.
        Found::Entry(_, payload) => ReadOutcome::Entry(payload.to_vec()),
        Found::Foreign(bytes) => ReadOutcome::Entry(bytes.to_vec()),
        Found::Failed => ReadOutcome::Failed,
    }
}

/// Whether there is no map behind the one of this number; `None` if the bucket does not say.
pub(crate) async fn newest_is<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    number: u64,
) -> Option<bool> {
    match LOG.read(runtime, store, number + 1).await {
        Found::Absent => Some(true),
        Found::Entry(..) | Found::Foreign(_) => Some(false),
        Found::Failed => None,
    }
}

/// Creates the map of a number.
pub(super) async fn create<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    number: u64,
    bytes: &[u8],
) -> CreateOutcome {
    let Ok(entry) = Entry::decode(bytes) else { return CreateOutcome::Unknown };
    let (nonce, previous) = (Nonce(entry.nonce.0), Nonce(entry.previous.0));
    let object = Header { kind: KIND_MAP, nonce, previous }.encode(bytes);
    match LOG.create(runtime, store, number, object).await {
        Outcome::Created => CreateOutcome::Created,
        Outcome::Taken => CreateOutcome::Taken,
        Outcome::Unknown => CreateOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests;

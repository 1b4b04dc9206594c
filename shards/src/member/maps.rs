//! The log of maps as objects of the bucket.
//!
//! Guarantees: a map is read or created as [`logsvc_cluster::member`] needs it. An object of which the
//! store has kept only the beginning is none: the name with `.1` behind it takes its place, and so on.
//! A name that somebody may have seen is not freed, so everybody passes over the same ones: who reads and
//! who creates judge by the same bytes, whoever has sent them.

use std::time::Duration;

use bytes::Bytes;
use logsvc_cluster::map::codec::{ENTRY_MAX_BYTES, Entry};
use logsvc_cluster::member::{CreateOutcome, ReadOutcome};
use logsvc_runtime::Runtime;
use logsvc_store::bucket::Span;
use logsvc_store::object::{HEADER_LEN, Header, Nonce, ObjectError, PROOF};
use logsvc_store::{Created, ObjectName, Store};

use crate::ledger::map_name;

const KIND_MAP: u32 = 7;
/// The names that a map may have.
const NAMES_MAX: u32 = 8;
/// How long a request has patience. Members ask again.
const PATIENCE: Duration = Duration::from_secs(10);

fn name_of(number: u64, attempt: u32) -> Option<ObjectName> {
    let name = match attempt {
        0 => map_name(number),
        _ => format!("{}.{attempt}", map_name(number)),
    };
    ObjectName::new(&name).ok()
}

/// What stands at a name.
enum Found {
    Nothing,
    Torn,
    Entry(Bytes),
    Unknown,
}

async fn look<R: Runtime>(runtime: &R, store: &Store<R>, name: &ObjectName) -> Found {
    let span = Span::Whole { max_bytes: (HEADER_LEN + ENTRY_MAX_BYTES) as u64 };
    match store.read(name, span, runtime.now().after(PATIENCE)).await {
        Ok(object) => match Header::decode(&object) {
            // The decoder of maps checks the rest.
            Ok((header, payload)) if header.kind == KIND_MAP => Found::Entry(payload),
            Ok(_) => Found::Entry(Bytes::new()),
            Err(ObjectError::Torn { .. }) => Found::Torn,
            Err(_) => Found::Entry(object),
        },
        Err(error) if error.is_not_found() => Found::Nothing,
        Err(error) => {
            tracing::debug!(%error, "a map cannot be read; this is tried again");
            Found::Unknown
        }
    }
}

/// Reads the map of a number.
pub(super) async fn read<R: Runtime>(runtime: &R, store: &Store<R>, number: u64) -> ReadOutcome {
    for attempt in 0..NAMES_MAX {
        let Some(name) = name_of(number, attempt) else { break };
        match look(runtime, store, &name).await {
            Found::Nothing => return ReadOutcome::Absent,
            Found::Torn => {}
            Found::Entry(bytes) => return ReadOutcome::Entry(bytes.to_vec()),
            Found::Unknown => return ReadOutcome::Failed,
        }
    }
    ReadOutcome::Failed
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
    for attempt in 0..NAMES_MAX {
        let Some(name) = name_of(number, attempt) else { break };
        let until = runtime.now().after(PATIENCE);
        match store.create(&name, object.clone(), PROOF, until).await {
            Ok(Created::New) => return CreateOutcome::Created,
            Ok(Created::Retried) => return CreateOutcome::Taken,
            Ok(Created::Torn) => {}
            // Its first bytes are another's. Whether it has an end, they do not tell: its writer may
            // have died while it was sent.
            Ok(Created::Existing(_)) => match look(runtime, store, &name).await {
                Found::Torn => {}
                Found::Entry(_) => return CreateOutcome::Taken,
                Found::Nothing | Found::Unknown => return CreateOutcome::Unknown,
            },
            Err(error) => {
                tracing::debug!(%error, "a map cannot be created; this is tried again");
                return CreateOutcome::Unknown;
            }
        }
    }
    CreateOutcome::Unknown
}

#[cfg(test)]
mod tests;

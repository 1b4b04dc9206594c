//! Logs of objects with numbers that several nodes append to: who creates the next number has decided.
//!
//! Guarantees: an object of which the store has kept only the beginning is none: the name with `.1`
//! behind it takes its place, and so on. A name that somebody may have seen is not freed, so everybody
//! passes over the same ones: who reads and who creates judge by the same bytes, whoever has sent them.

use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::Runtime;
use logsvc_store::bucket::Span;
use logsvc_store::object::{HEADER_LEN, Header, ObjectError, PROOF};
use logsvc_store::{Created, ObjectName, Store};

/// The names that a number may have.
const NAMES_MAX: u32 = 8;
/// How long a request has patience. Who asks does so again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where such a log is, and what it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    /// The folder of its objects.
    pub(crate) folder: &'static str,
    /// The kind in their headers.
    pub(crate) kind: u32,
    /// Their longest payload in bytes.
    pub(crate) max_bytes: usize,
}

/// What stands at a number.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Absent,
    /// An object of the log, whole: its header and its payload.
    Entry(Header, Bytes),
    /// Something that no node of this program has written.
    Foreign(Bytes),
    /// Nobody knows for now.
    Failed,
}

/// What became of a create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The object is the caller's.
    Created,
    /// The number has an object, maybe the caller's of an earlier attempt.
    Taken,
    /// It may be there now, or later, or never.
    Unknown,
}

/// The first name of a number of the log in a folder.
pub(super) fn first_name(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}")
}

impl Numbered {
    /// A name of a number, the first one or one behind torn objects.
    pub(crate) fn name_of(&self, number: u64, attempt: u32) -> Option<ObjectName> {
        let text = first_name(self.folder, number);
        let text = if attempt == 0 { text } else { format!("{text}.{attempt}") };
        ObjectName::new(&text).ok()
    }

    /// What stands at a name; `None` if only the beginning of an object does.
    async fn look<R: Runtime>(
        &self,
        runtime: &R,
        store: &Store<R>,
        name: &ObjectName,
    ) -> Option<Found> {
        let span = Span::Whole { max_bytes: (HEADER_LEN + self.max_bytes) as u64 };
        Some(match store.read(name, span, runtime.now().after(PATIENCE)).await {
            Ok(object) => match Header::decode(&object) {
                Ok((header, payload)) if header.kind == self.kind => Found::Entry(header, payload),
                Err(ObjectError::Torn { .. }) => return None,
                Ok(_) | Err(_) => Found::Foreign(object),
            },
            Err(error) if error.is_not_found() => Found::Absent,
            Err(error) => {
                tracing::debug!(%error, "{name} cannot be read; this is tried again");
                Found::Failed
            }
        })
    }

    /// Reads what stands at a number.
    pub(crate) async fn read<R: Runtime>(
        &self,
        runtime: &R,
        store: &Store<R>,
        number: u64,
    ) -> Found {
        for attempt in 0..NAMES_MAX {
            let Some(name) = self.name_of(number, attempt) else { break };
            if let Some(found) = self.look(runtime, store, &name).await {
                return found;
            }
        }
        Found::Failed
    }

    /// Creates the object of a number. Its header is the caller's own, and of this log's kind.
    pub(crate) async fn create<R: Runtime>(
        &self,
        runtime: &R,
        store: &Store<R>,
        number: u64,
        object: Bytes,
    ) -> Outcome {
        for attempt in 0..NAMES_MAX {
            let Some(name) = self.name_of(number, attempt) else { break };
            let until = runtime.now().after(PATIENCE);
            match store.create(&name, object.clone(), PROOF, until).await {
                Ok(Created::New) => return Outcome::Created,
                Ok(Created::Retried) => return Outcome::Taken,
                Ok(Created::Torn) => {}
                // Its first bytes are another's. Whether it has an end, they do not tell: its writer
                // may have died while it was sent.
                Ok(Created::Existing(_)) => match self.look(runtime, store, &name).await {
                    None => {}
                    Some(Found::Entry(..) | Found::Foreign(_)) => return Outcome::Taken,
                    Some(Found::Absent | Found::Failed) => return Outcome::Unknown,
                },
                Err(error) => {
                    tracing::debug!(%error, "{name} cannot be created; this is tried again");
                    return Outcome::Unknown;
                }
            }
        }
        Outcome::Unknown
    }
}

//! What is fixed for all writers of a bucket: the object `cluster`.
//!
//! Guarantees: it is created once, by the first writer, after the store has been tested. Everybody
//! reads what that one has written. If the store has kept only its beginning, `cluster.1` takes its
//! place, and so on: a name that somebody may have seen is not freed.

use std::fmt;

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_segment::batch::u32_at;
use logsvc_store::bucket::Span;
use logsvc_store::epoch::given_epochs;
use logsvc_store::object::{HEADER_LEN, Header, Nonce, ObjectError, PROOF};
use logsvc_store::self_test::{Honesty, self_test};
use logsvc_store::{ObjectName, Store};

use super::open::LedgerError;

const KIND_CLUSTER: u32 = 5;
const FORMAT: u32 = 1;
const PAYLOAD_LEN: usize = 8;
/// The names that it may have.
const NAMES_MAX: u32 = 8;
/// A longer object is none of ours.
const OBJECT_MAX_BYTES: u64 = HEADER_LEN as u64 + 4096;

/// Tells one bucket, or one prefix of a bucket, from all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClusterId(pub(crate) [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is fixed for all writers of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cluster {
    /// Which bucket.
    pub(crate) id: ClusterId,
    /// The number of partitions.
    pub(crate) partitions: u16,
}

/// Whether an object may be what is fixed, by its name.
pub(crate) fn is_cluster(name: &str) -> bool {
    (0..NAMES_MAX).any(|number| name == text_of(number))
}

fn text_of(number: u32) -> String {
    if number == 0 { "cluster".to_owned() } else { format!("cluster.{number}") }
}

/// What a bucket has at the names of what is fixed.
enum Found {
    Cluster(Cluster),
    /// Nothing; the object may be made with this name. Those before are torn.
    Free(ObjectName, Option<ObjectError>),
}

async fn find<R: Runtime>(store: &Store<R>, until: Monotonic) -> Result<Found, LedgerError> {
    let mut torn = None;
    for number in 0..NAMES_MAX {
        let name = ObjectName::new(&text_of(number)).map_err(LedgerError::Name)?;
        match store.read(&name, Span::Whole { max_bytes: OBJECT_MAX_BYTES }, until).await {
            Ok(object) => match decode(&object) {
                Err(LedgerError::Cluster(error @ ObjectError::Torn { .. })) => torn = Some(error),
                decoded => return decoded.map(Found::Cluster),
            },
            Err(error) if error.is_not_found() => return Ok(Found::Free(name, torn)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(LedgerError::Cluster(torn.unwrap_or(ObjectError::Foreign)))
}

/// Fails if what is fixed was whole once: a torn object is passed over only if nobody has joined.
async fn insist_on_new<R: Runtime>(
    store: &Store<R>,
    torn: Option<ObjectError>,
    until: Monotonic,
) -> Result<(), LedgerError> {
    match torn {
        Some(error) if !given_epochs(store, until).await?.is_empty() => {
            Err(LedgerError::Cluster(error))
        }
        _ => Ok(()),
    }
}

/// Reads what is fixed; `None` if nothing is.
pub(super) async fn read<R: Runtime>(
    store: &Store<R>,
    until: Monotonic,
) -> Result<Option<Cluster>, LedgerError> {
    match find(store, until).await? {
        Found::Cluster(cluster) => Ok(Some(cluster)),
        Found::Free(_, torn) => insist_on_new(store, torn, until).await.map(|()| None),
    }
}

/// Reads what is fixed, or fixes it for ever.
pub(super) async fn join<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    partitions: u16,
    until: Monotonic,
) -> Result<Cluster, LedgerError> {
    if let Some(cluster) = read(store, until).await? {
        return Ok(cluster);
    }
    match self_test(runtime, store, until).await? {
        Honesty::Honest => {}
        Honesty::Lies { winners } => return Err(LedgerError::Lies { winners }),
    }
    let mut payload = Vec::with_capacity(PAYLOAD_LEN);
    payload.extend(FORMAT.to_le_bytes());
    payload.extend(u32::from(partitions).to_le_bytes());
    loop {
        let (name, torn) = match find(store, until).await? {
            Found::Cluster(cluster) => return Ok(cluster),
            Found::Free(name, torn) => (name, torn),
        };
        insist_on_new(store, torn, until).await?;
        let nonce = Nonce::random(runtime);
        let header = Header { kind: KIND_CLUSTER, nonce, previous: Nonce::NONE };
        if store.create(&name, header.encode(&payload), PROOF, until).await?.is_own() {
            return Ok(Cluster { id: ClusterId(nonce.0), partitions });
        }
    }
}

fn decode(object: &Bytes) -> Result<Cluster, LedgerError> {
    let (header, payload) = Header::decode(object).map_err(LedgerError::Cluster)?;
    let is_known = header.kind == KIND_CLUSTER
        && payload.len() == PAYLOAD_LEN
        && u32_at(&payload, 0) == FORMAT;
    let partitions = if is_known { u16::try_from(u32_at(&payload, 4)).ok() } else { None };
    match partitions {
        Some(partitions) if partitions > 0 => {
            Ok(Cluster { id: ClusterId(header.nonce.0), partitions })
        }
        _ => Err(LedgerError::Cluster(ObjectError::Version)),
    }
}

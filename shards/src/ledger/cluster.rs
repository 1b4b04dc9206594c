//! What is fixed for all writers of a bucket: the object `cluster`.
//!
//! Guarantees: it is created once, by the first writer, after the store has been tested. Everybody
//! reads what that one has written.

use std::fmt;

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_segment::batch::u32_at;
use logsvc_store::bucket::Span;
use logsvc_store::object::{HEADER_LEN, Header, Nonce, PROOF};
use logsvc_store::self_test::{Honesty, self_test};
use logsvc_store::{Created, ObjectName, Store};

use super::open::LedgerError;

const KIND_CLUSTER: u32 = 5;
const FORMAT: u32 = 1;
const PAYLOAD_LEN: usize = 8;
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

/// Reads what is fixed; `None` if nothing is.
pub(super) async fn read<R: Runtime>(
    store: &Store<R>,
    until: Monotonic,
) -> Result<Option<Cluster>, LedgerError> {
    let name = ObjectName::new("cluster").map_err(LedgerError::Name)?;
    match store.read(&name, Span::Whole { max_bytes: OBJECT_MAX_BYTES }, until).await {
        Ok(object) => decode(&object).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads what is fixed, or fixes it for ever.
pub(super) async fn join<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    partitions: u16,
    until: Monotonic,
) -> Result<Cluster, LedgerError> {
    let name = ObjectName::new("cluster").map_err(LedgerError::Name)?;
    if let Some(cluster) = read(store, until).await? {
        return Ok(cluster);
    }
    match self_test(runtime, store, until).await? {
        Honesty::Honest => {}
        Honesty::Lies { winners } => return Err(LedgerError::Lies { winners }),
    }
    let nonce = Nonce::random(runtime);
    let mut payload = Vec::with_capacity(PAYLOAD_LEN);
    payload.extend(FORMAT.to_le_bytes());
    payload.extend(u32::from(partitions).to_le_bytes());
    let header = Header { kind: KIND_CLUSTER, nonce, previous: Nonce::NONE };
    match store.create(&name, header.encode(&payload), PROOF, until).await? {
        Created::New => Ok(Cluster { id: ClusterId(nonce.0), partitions }),
        Created::Existing(_) => {
            let span = Span::Whole { max_bytes: OBJECT_MAX_BYTES };
            decode(&store.read(&name, span, until).await?)
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
        _ => Err(LedgerError::Cluster(logsvc_store::object::ObjectError::Version)),
    }
}

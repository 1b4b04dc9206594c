//! What the objects of a log are: entries, fences, or torn.

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};

use super::{LogError, LogName};
use crate::bucket::Span;
use crate::object::{HEADER_LEN, Header, Nonce, ObjectError, PAYLOAD_MAX_BYTES};
use crate::store::Store;

/// The payload is the writer's.
pub(super) const KIND_ENTRY: u32 = 1;
/// The payload is the number of who took over, in 4 bytes.
pub(super) const KIND_FENCE: u32 = 2;
/// An entry behind numbers that are void.
pub(super) const KIND_RESUMED: u32 = 8;

/// The length of a fence.
const FENCE_LEN_BYTES: u64 = HEADER_LEN as u64 + 4;

/// What a number has.
pub(super) enum Read {
    Nothing,
    Torn(ObjectError),
    Entry { header: Header, payload: Bytes },
    Fence { previous: Nonce, by: u32 },
}

pub(super) async fn read_entry<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    number: u64,
    until: Monotonic,
) -> Result<Read, LogError> {
    let span = Span::Whole { max_bytes: HEADER_LEN as u64 + PAYLOAD_MAX_BYTES };
    let object = match store.read(&log.entry(number)?, span, until).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(Read::Nothing),
        Err(error) => return Err(error.into()),
    };
    let damaged = |error| LogError::Damaged { log: log.0.clone(), number, error };
    let (header, payload) = match Header::decode(&object) {
        Ok(decoded) => decoded,
        Err(torn @ ObjectError::Torn { .. }) => return Ok(Read::Torn(torn)),
        Err(error) => return Err(damaged(error)),
    };
    match header.kind {
        KIND_ENTRY | KIND_RESUMED => Ok(Read::Entry { header, payload }),
        KIND_FENCE => {
            let by = payload.as_ref().try_into();
            let by = by.map_err(|_| damaged(ObjectError::Damaged("a fence of nobody")))?;
            Ok(Read::Fence { previous: header.previous, by: u32::from_le_bytes(by) })
        }
        _ => Err(damaged(ObjectError::Version)),
    }
}

/// What stands at a number of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtNumber {
    /// Nothing.
    Nothing,
    /// The beginning of an object.
    Torn,
    /// A fence.
    Fence,
    /// An entry: its random number and its payload. Whether it counts is not known.
    Entry(Nonce, Bytes),
}

/// What stands at a number of a log.
///
/// # Errors
/// See [`LogError`].
pub async fn at_number<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    number: u64,
    until: Monotonic,
) -> Result<AtNumber, LogError> {
    Ok(match read_entry(store, log, number, until).await? {
        Read::Nothing => AtNumber::Nothing,
        Read::Torn(_) => AtNumber::Torn,
        Read::Fence { .. } => AtNumber::Fence,
        Read::Entry { header, payload } => AtNumber::Entry(header.nonce, payload),
    })
}

/// Whether a number of a log is torn.
///
/// # Errors
/// See [`LogError`].
pub async fn is_torn<R: Runtime>(
    store: &Store<R>,
    log: &LogName,
    number: u64,
    until: Monotonic,
) -> Result<bool, LogError> {
    Ok(matches!(read_entry(store, log, number, until).await?, Read::Torn(_)))
}

/// Who has taken a log over, if the object with this header and payload is a fence.
pub fn fenced_by(header: &Header, payload: &[u8]) -> Option<u32> {
    let by: [u8; 4] = payload.try_into().ok()?;
    (header.kind == KIND_FENCE).then(|| u32::from_le_bytes(by))
}

/// Whether an object of a log may be a fence, by its length. An entry with a payload of
/// as many bytes may be taken for one.
pub fn may_be_fence(len_bytes: u64) -> bool {
    len_bytes == FENCE_LEN_BYTES
}

/// Whether an object of a log that was taken over has to stay, by its length: it may be a fence, or
/// the beginning of one, whose number a writer must never get. Longer beginnings are those of a
/// writer's own entry, and [`LogWriter::write`] looks behind it.
pub fn may_exclude(len_bytes: u64) -> bool {
    len_bytes <= FENCE_LEN_BYTES
}

//! The bytes of the record of requests, as `docs/format.md` describes them.
//!
//! Guarantees: what [`decode`] returns, [`encode`] turns into a file that decodes to the same.
//! [`decode`] reads arbitrary bytes without panic, and reserves no memory by a number in them.

use logsvc_proto::TenantId;
use logsvc_segment::batch::{u32_at, u64_at};
use logsvc_segment::version::{UnknownPart, checked_version};

use super::{DeleteId, DeleteRequest, DeleteState};

/// The longest file in bytes.
pub const FILE_MAX_BYTES: usize = 16 << 20;

pub(super) const HEADER_LEN: usize = 64;
/// Length of a record without its texts.
const RECORD_LEN: usize = 80;

/// The first bytes of the file.
pub(crate) const MAGIC: &[u8; 8] = b"LSVC-DEL";
const VERSION: u32 = 1;

const PENDING: u8 = 0;
const PROCESSED: u8 = 1;

/// Why a record of requests cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Another version of the program has written it.
    #[error("{0}")]
    UnknownVersion(UnknownPart),
    /// The bytes are not those that were written.
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// Where in the file.
        offset: usize,
        /// The fault, in words.
        what: &'static str,
    },
}

fn damaged(offset: usize, what: &'static str) -> FormatError {
    FormatError::Damaged { offset, what }
}

/// The bytes that a request takes in the file.
pub fn record_len(tenant: &TenantId, query: &str) -> usize {
    RECORD_LEN + tenant.as_str().len() + query.len()
}

/// The file of these requests. `None` if it would be longer than [`FILE_MAX_BYTES`].
pub fn encode<'r>(requests: impl Iterator<Item = &'r DeleteRequest>) -> Option<Vec<u8>> {
    let mut out = vec![0; HEADER_LEN];
    let mut count = 0_u32;
    for request in requests {
        if out.len() + record_len(&request.tenant, &request.query) > FILE_MAX_BYTES {
            return None;
        }
        push_record(&mut out, request);
        count += 1;
    }
    out[0..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let len_bytes = out.len() as u64;
    out[16..24].copy_from_slice(&len_bytes.to_le_bytes());
    out[24..28].copy_from_slice(&count.to_le_bytes());
    let crc = crc32c::crc32c(&out[HEADER_LEN..]);
    out[28..32].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&out[..HEADER_LEN]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

fn push_record(out: &mut Vec<u8>, request: &DeleteRequest) {
    let (tenant, query) = (request.tenant.as_str(), &request.query);
    let (parts_done, state, processed_ms) = match request.state {
        DeleteState::Pending { parts_done } => (parts_done, PENDING, 0),
        DeleteState::Processed { at_ms } => (request.parts(), PROCESSED, at_ms),
    };
    out.extend_from_slice(&(record_len(&request.tenant, query) as u32).to_le_bytes());
    out.extend_from_slice(&request.id.0.to_le_bytes());
    let part_ns = request.part_ns.unwrap_or(0);
    for number in [request.start_ns, request.end_ns, request.created_ms, part_ns] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&parts_done.to_le_bytes());
    out.extend_from_slice(&[state, 0, 0, 0]);
    out.extend_from_slice(&processed_ms.to_le_bytes());
    out.extend_from_slice(&request.removed_entries.to_le_bytes());
    out.extend_from_slice(&request.removed_line_bytes.to_le_bytes());
    out.extend_from_slice(&(tenant.len() as u32).to_le_bytes());
    out.extend_from_slice(&(query.len() as u32).to_le_bytes());
    out.extend_from_slice(tenant.as_bytes());
    out.extend_from_slice(query.as_bytes());
}

/// The requests in a file, oldest first.
///
/// # Errors
/// The bytes are damaged, or of another version.
pub fn decode(bytes: &[u8]) -> Result<Vec<DeleteRequest>, FormatError> {
    let Some(header) = bytes.get(..HEADER_LEN) else {
        return Err(damaged(0, "the file is shorter than its header"));
    };
    match checked_version(header, MAGIC) {
        Some(VERSION) => {}
        Some(found) => {
            return Err(FormatError::UnknownVersion(UnknownPart::Format { found, known: VERSION }));
        }
        None => return Err(damaged(0, "the header does not check")),
    }
    if u64_at(header, 16) != bytes.len() as u64 {
        return Err(damaged(16, "the file has another length than its header says"));
    }
    if u32_at(header, 28) != crc32c::crc32c(&bytes[HEADER_LEN..]) {
        return Err(damaged(HEADER_LEN, "the records do not check"));
    }
    let mut requests: Vec<DeleteRequest> = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    let mut offset = HEADER_LEN;
    while offset < bytes.len() {
        let (request, len) = read_record(&bytes[offset..]).map_err(|what| damaged(offset, what))?;
        if !ids.insert(request.id) {
            return Err(damaged(offset, "two records have the same id"));
        }
        requests.push(request);
        offset += len;
    }
    if u32_at(header, 24) as usize != requests.len() {
        return Err(damaged(24, "the file has another number of records than its header says"));
    }
    Ok(requests)
}

/// The first record of the bytes, and its length.
fn read_record(bytes: &[u8]) -> Result<(DeleteRequest, usize), &'static str> {
    let Some(fixed) = bytes.get(..RECORD_LEN) else { return Err("a record is cut short") };
    let len = u32_at(fixed, 0) as usize;
    let tenant_len = u32_at(fixed, 72) as usize;
    let query_len = u32_at(fixed, 76) as usize;
    let sum = RECORD_LEN.checked_add(tenant_len).and_then(|sum| sum.checked_add(query_len));
    if sum != Some(len) {
        return Err("the lengths of a record differ");
    }
    let Some(texts) = bytes.get(RECORD_LEN..len) else { return Err("a record is cut short") };
    let texts = std::str::from_utf8(texts).map_err(|_| "a text is not UTF-8")?;
    let Some((tenant, query)) = texts.split_at_checked(tenant_len) else {
        return Err("a text is not UTF-8");
    };
    let tenant = TenantId::new(tenant).map_err(|_| "a tenant's name is not valid")?;
    let i64_at = |at| u64_at(fixed, at) as i64;
    let part_ns = i64_at(32);
    if part_ns < 0 {
        return Err("the length of the parts is negative");
    }
    let (parts_done, processed_ms) = (u32_at(fixed, 40), i64_at(48));
    let state = match fixed[44] {
        PENDING => DeleteState::Pending { parts_done },
        PROCESSED => DeleteState::Processed { at_ms: processed_ms },
        _ => return Err("a request has an unknown state"),
    };
    let request = DeleteRequest {
        id: DeleteId(u32_at(fixed, 4)),
        tenant,
        query: query.to_owned(),
        start_ns: i64_at(8),
        end_ns: i64_at(16),
        created_ms: i64_at(24),
        part_ns: (part_ns > 0).then_some(part_ns),
        state,
        removed_entries: u64_at(fixed, 56),
        removed_line_bytes: u64_at(fixed, 64),
    };
    if request.start_ns > request.end_ns {
        return Err("a range ends before it begins");
    }
    if request.is_pending() && parts_done >= request.parts() {
        return Err("a pending request has all of its parts done");
    }
    Ok((request, len))
}

/// The body of a fuzz target.
///
/// # Panics
/// If requests change on the way.
pub(crate) fn check(data: &[u8]) {
    // Most bytes fail a checksum, so the same bytes are read with right checksums, too.
    let mut repaired = data.to_vec();
    if repaired.len() >= HEADER_LEN {
        let len_bytes = repaired.len() as u64;
        repaired[0..8].copy_from_slice(MAGIC);
        repaired[16..24].copy_from_slice(&len_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&repaired[HEADER_LEN..]);
        repaired[28..32].copy_from_slice(&crc.to_le_bytes());
        repaired[12..16].fill(0);
        let crc = crc32c::crc32c(&repaired[..HEADER_LEN]);
        repaired[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    for bytes in [data, &repaired] {
        let Ok(requests) = decode(bytes) else { continue };
        for request in &requests {
            let last = request.parts() - 1;
            assert_eq!(request.part_bounds_ns(0).0, request.start_ns);
            assert_eq!(request.part_bounds_ns(last).1, request.end_ns);
        }
        let encoded = encode(requests.iter()).expect("it was not too long");
        assert_eq!(decode(&encoded).as_ref(), Ok(&requests), "requests change");
    }
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;

    pub(crate) fn random_request(rng: &mut Rng, id: u32) -> DeleteRequest {
        let start_ns = rng.next_u64() as i64 >> rng.below(40);
        let tenant = *rng.pick(&["t", "tenant-1", "tenant-12"]);
        let part_ns = if rng.one_in(2) { None } else { Some(1 + rng.below(1 << 50) as i64) };
        let mut request = DeleteRequest {
            id: DeleteId(id),
            tenant: TenantId::new(tenant).expect("valid"),
            query: format!("{{app=\"ä{}\"}} |= \"x\"", rng.below(1000)),
            start_ns,
            end_ns: start_ns.saturating_add(rng.below(1 << 50) as i64),
            created_ms: rng.below(1 << 42) as i64,
            part_ns,
            state: DeleteState::Processed { at_ms: rng.below(1 << 42) as i64 },
            removed_entries: rng.next_u64(),
            removed_line_bytes: rng.next_u64(),
        };
        if rng.one_in(2) {
            let parts_done = rng.below(u64::from(request.parts())) as u32;
            request.state = DeleteState::Pending { parts_done };
        }
        request
    }

    #[test]
    fn requests_read_back_and_every_damaged_byte_is_told() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let count = rng.below(5) as u32;
            let requests: Vec<_> = (0..count).map(|id| random_request(&mut rng, id)).collect();
            let mut bytes = encode(requests.iter()).expect("short");
            assert_eq!(decode(&bytes), Ok(requests));
            check(&bytes);
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            assert!(matches!(decode(&bytes), Err(FormatError::Damaged { .. })), "byte {at}");
            check(&bytes);
            bytes.truncate(at);
            assert!(matches!(decode(&bytes), Err(FormatError::Damaged { .. })), "cut at {at}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let request = DeleteRequest {
            id: DeleteId(0x0102_0304),
            tenant: TenantId::new("t").expect("valid"),
            query: "{a=\"b\"}".to_owned(),
            start_ns: 1,
            end_ns: 2,
            created_ms: 3,
            part_ns: None,
            state: DeleteState::Pending { parts_done: 0 },
            removed_entries: 5,
            removed_line_bytes: 6,
        };
        let bytes = encode([&request].into_iter()).expect("short");
        assert_eq!(&bytes[..12], b"LSVC-DEL\x01\0\0\0");
        assert_eq!((u64_at(&bytes, 16), u32_at(&bytes, 24)), (64 + 88, 1));
        let record = &bytes[64..];
        assert_eq!((u32_at(record, 0), u32_at(record, 4)), (88, 0x0102_0304));
        let numbers = [8, 16, 24, 32, 40, 48, 56, 64].map(|at| u64_at(record, at));
        assert_eq!(numbers, [1, 2, 3, 0, 0, 0, 5, 6]);
        assert_eq!((u32_at(record, 72), u32_at(record, 76)), (1, 7));
        assert_eq!(&record[80..], b"t{a=\"b\"}");
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let mut bytes = encode(std::iter::empty()).expect("short");
        bytes[8] = 2;
        bytes[12..16].fill(0);
        let crc = crc32c::crc32c(&bytes[..HEADER_LEN]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let unknown = UnknownPart::Format { found: 2, known: 1 };
        assert_eq!(decode(&bytes), Err(FormatError::UnknownVersion(unknown)));
    }

    #[test]
    fn two_records_with_one_id_are_damage() {
        let mut rng = Rng::new(5);
        let requests = [7, 7].map(|id| random_request(&mut rng, id));
        let bytes = encode(requests.iter()).expect("short");
        assert!(matches!(decode(&bytes), Err(FormatError::Damaged { .. })));
    }
}

//! The bytes of write-ahead-log files, as `docs/format.md` describes them: names, file headers,
//! frames and records.
//!
//! Guarantees: all functions are pure, over byte slices. Decoders check everything that they
//! return, and meet arbitrary bytes without panic. Bytes that do not check give `None` or a
//! [`RecordError`], and recovery decides about the consequences.

mod header;

use logsvc_proto::{Labels, StreamId, TenantId};

use logsvc_segment::batch::{u32_at, u64_at};

pub use self::header::{
    FILE_HEADER_LEN, FileHeader, HEADERS_LEN, Previous, SECOND_HEADER_AT, WalName,
};

/// Length of a frame header in bytes.
pub const FRAME_HEADER_LEN: usize = 40;
/// Largest payload of a frame in bytes.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 256 << 20;

/// In a [`Layout::Padded`] file the header and every frame begin at multiples of this many
/// bytes.
pub const BLOCK_LEN: u64 = 4096;

const _: () = assert!(BLOCK_LEN == logsvc_runtime::DIRECT_BLOCK_BYTES as u64);

/// The bytes that every frame begins with, for the search after damage.
pub(crate) const FRAME_MAGIC_START: &[u8; 3] = b"WFR";

/// How the frames of a file lie in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// One behind the other. Used when syncs come later.
    #[default]
    Packed,
    /// Each in whole blocks of [`BLOCK_LEN`] bytes, filled up with zeros, so that frames can be
    /// written around the page cache. Used when each commit is synced.
    Padded,
}

impl Layout {
    const ALL: [Layout; 2] = [Layout::Packed, Layout::Padded];

    fn version(self) -> u32 {
        match self {
            Layout::Packed => 1,
            Layout::Padded => 2,
        }
    }

    fn frame_magic(self) -> &'static [u8; 4] {
        match self {
            Layout::Packed => b"WFRM",
            Layout::Padded => b"WFRP",
        }
    }

    /// Where a frame goes that follows a header or a frame which ends at `end`.
    pub fn position_behind(self, end: u64) -> u64 {
        match self {
            Layout::Packed => end,
            Layout::Padded => end.saturating_add(BLOCK_LEN - 1) / BLOCK_LEN * BLOCK_LEN,
        }
    }

    /// Where a file's first frame goes.
    pub fn first_frame(self) -> u64 {
        self.position_behind(FILE_HEADER_LEN as u64)
    }
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// The file's nonce.
    pub nonce: u64,
    /// Number of the frame within its file.
    pub number: u64,
    /// Prefix of the file that was durable when the frame was made, in bytes.
    pub durable_len: u64,
    /// Length of the payload in bytes.
    pub payload_len: u32,
    /// CRC-32C of the payload.
    pub payload_crc: u32,
    /// How the file's frames lie in it.
    pub layout: Layout,
}

impl FrameHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; FRAME_HEADER_LEN] {
        let mut out = [0; FRAME_HEADER_LEN];
        out[0..4].copy_from_slice(self.layout.frame_magic());
        out[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.durable_len.to_le_bytes());
        out[32..36].copy_from_slice(&self.payload_len.to_le_bytes());
        out[36..40].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header of the file with this nonce; `None` if it does not check.
    pub fn decode(bytes: &[u8], nonce: u64) -> Option<FrameHeader> {
        let is_ours = bytes.get(8..16).is_some_and(|raw| u64_at(raw, 0) == nonce);
        if is_ours { FrameHeader::decode_any(bytes) } else { None }
    }

    /// Reads a header of any file; `None` if it does not check. For files whose
    /// own header, and with it their nonce, is damaged.
    pub fn decode_any(bytes: &[u8]) -> Option<FrameHeader> {
        let bytes = bytes.get(..FRAME_HEADER_LEN)?;
        let layout = Layout::ALL.into_iter().find(|one| bytes[..4] == *one.frame_magic())?;
        if !header_crc_matches(bytes, 4) {
            return None;
        }
        let header = FrameHeader {
            nonce: u64_at(bytes, 8),
            number: u64_at(bytes, 16),
            durable_len: u64_at(bytes, 24),
            payload_len: u32_at(bytes, 32),
            payload_crc: u32_at(bytes, 36),
            layout,
        };
        (header.payload_len as usize <= PAYLOAD_MAX_BYTES).then_some(header)
    }
}

/// Whether the four bytes at `at` are the CRC of `bytes` with them as zero.
fn header_crc_matches(bytes: &[u8], at: usize) -> bool {
    let crc = crc32c::crc32c(&bytes[..at]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &bytes[at + 4..]);
    crc == u32_at(bytes, at)
}

const KIND_DEFINITION: u8 = 1;
const KIND_BATCH: u8 = 2;
const RECORD_HEADER_LEN: usize = 5;

/// Bytes that a batch record adds to a payload besides the batch.
pub(crate) const BATCH_RECORD_OVERHEAD: usize = RECORD_HEADER_LEN;

/// Appends a stream definition to a payload.
pub fn write_definition(out: &mut Vec<u8>, id: StreamId, tenant: &TenantId, labels: &Labels) {
    let start = out.len();
    out.extend_from_slice(&[KIND_DEFINITION, 0, 0, 0, 0]);
    out.extend_from_slice(&id.to_bytes());
    let tenant = tenant.as_str().as_bytes();
    // A tenant id has at most 150 bytes, which its constructor guarantees.
    out.extend_from_slice(&(tenant.len() as u16).to_le_bytes());
    out.extend_from_slice(tenant);
    out.extend_from_slice(labels.as_bytes());
    let body_len = (out.len() - start - RECORD_HEADER_LEN) as u32;
    out[start + 1..start + 5].copy_from_slice(&body_len.to_le_bytes());
}

/// Appends a batch to a payload.
pub fn write_batch(out: &mut Vec<u8>, batch: &[u8]) {
    out.extend_from_slice(&batch_record_header(batch.len()));
    out.extend_from_slice(batch);
}

/// The header of a batch in a payload.
pub(crate) fn batch_record_header(batch_len: usize) -> [u8; BATCH_RECORD_OVERHEAD] {
    let [a, b, c, d] = (batch_len as u32).to_le_bytes();
    [KIND_BATCH, a, b, c, d]
}

/// One record of a payload.
#[derive(Debug)]
pub enum Record<'a> {
    /// The definition of a stream.
    Definition {
        /// The stream's id.
        id: StreamId,
        /// The tenant that owns the stream.
        tenant: TenantId,
        /// Its labels.
        labels: Labels,
    },
    /// A batch, not yet checked.
    Batch(&'a [u8]),
}

/// The payload's records do not decode although its checksum holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed record at byte {offset} of the payload: {what}")]
pub struct RecordError {
    /// The condition that did not hold.
    pub what: String,
    /// Where the record begins.
    pub offset: usize,
}

/// Iterates over the records of a payload; ends after the first error.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<Record<'_>, RecordError>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        if offset >= payload.len() {
            return None;
        }
        let at = offset;
        let result = read_record(payload, &mut offset);
        if result.is_err() {
            offset = payload.len();
        }
        Some(result.map_err(|what| RecordError { what, offset: at }))
    })
}

fn read_record<'a>(payload: &'a [u8], offset: &mut usize) -> Result<Record<'a>, String> {
    let rest = &payload[*offset..];
    let header = rest.get(..RECORD_HEADER_LEN).ok_or("its header is cut short")?;
    let body_len = u32_at(header, 1) as usize;
    let body = rest[RECORD_HEADER_LEN..].get(..body_len).ok_or("its body is cut short")?;
    *offset += RECORD_HEADER_LEN + body_len;
    match header[0] {
        KIND_BATCH => Ok(Record::Batch(body)),
        KIND_DEFINITION => {
            let head = body.get(..18).ok_or("a definition is cut short")?;
            let mut id = [0; 16];
            id.copy_from_slice(&head[..16]);
            let tenant_len = usize::from(u16::from_le_bytes([head[16], head[17]]));
            let tenant = body.get(18..18 + tenant_len).ok_or("a tenant is cut short")?;
            let tenant = std::str::from_utf8(tenant).map_err(|error| error.to_string())?;
            let tenant = TenantId::new(tenant).map_err(|error| error.to_string())?;
            let labels =
                Labels::from_bytes(&body[18 + tenant_len..]).map_err(|error| error.to_string())?;
            Ok(Record::Definition { id: StreamId::from_bytes(id), tenant, labels })
        }
        kind => Err(format!("unknown kind {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_frames_begin_at_blocks() {
        assert_eq!(Layout::Packed.first_frame(), FILE_HEADER_LEN as u64);
        assert_eq!(Layout::Padded.first_frame(), 4096);
        for (end, position) in [(4096, 4096), (4097, 8192), (u64::MAX, u64::MAX - 4095)] {
            assert_eq!(Layout::Packed.position_behind(end), end);
            assert_eq!(Layout::Padded.position_behind(end), position);
        }
    }

    #[test]
    fn any_flipped_bit_of_a_frame_header_is_noticed() {
        let layout = Layout::Padded;
        let frame = FrameHeader {
            nonce: 99,
            number: 4,
            durable_len: 64,
            payload_len: 10,
            payload_crc: 0xdead_beef,
            layout,
        };
        let frame_bytes = frame.encode();
        assert_eq!(FrameHeader::decode(&frame_bytes, 99), Some(frame));
        assert_eq!(FrameHeader::decode(&frame_bytes, 98), None, "another file's frame");
        let packed = FrameHeader { layout: Layout::Packed, ..frame };
        assert_eq!(FrameHeader::decode_any(&packed.encode()), Some(packed));
        for bit in 0..FRAME_HEADER_LEN * 8 {
            let mut bad = frame_bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FrameHeader::decode(&bad, 99), None, "bit {bit}");
        }
    }

    #[test]
    fn records_read_back_and_cuts_are_errors() {
        let tenant = TenantId::new("acme").unwrap();
        let labels = Labels::from_pairs([("app", "x"), ("env", "prod")]).unwrap();
        let mut payload = Vec::new();
        write_definition(&mut payload, StreamId(42), &tenant, &labels);
        let definition_len = payload.len();
        write_batch(&mut payload, b"not checked here");
        let read: Vec<_> = records(&payload).collect::<Result<_, _>>().unwrap();
        assert!(matches!(&read[0], Record::Definition { id: StreamId(42), tenant: t, labels: l }
            if *t == tenant && *l == labels));
        assert!(matches!(read[1], Record::Batch(b"not checked here")));
        for len in 1..payload.len() {
            let last = records(&payload[..len]).last();
            assert_eq!(last.is_some_and(|r| r.is_err()), len != definition_len, "cut at {len}");
        }
        payload[0] = 9;
        assert!(records(&payload).next().unwrap().is_err(), "an unknown kind");
    }
}

//! Header, footer and limits of a segment, as `docs/format.md` describes them.
//!
//! Pure functions over byte slices. Decoders check everything that they return, and read
//! arbitrary bytes without panic.

mod footer;

pub use footer::{Footer, LabelIndexPlace, MergedPlace, Totals};

use crate::batch::{u32_at, u64_at};
use crate::error::{Part, SegmentError};
use crate::version::UnknownPart;

/// Length of the header in bytes; the first column follows it.
pub const HEADER_LEN: usize = 64;
/// Length of the footer in bytes.
pub const FOOTER_LEN: usize = 160;

/// Most entries of a block.
pub const BLOCK_MAX_ENTRIES: usize = 64 << 10;
/// Most line bytes of a block, and therefore of a line.
pub const BLOCK_MAX_LINE_BYTES: usize = 64 << 20;
/// Most bytes of metadata of a block in the encoding of a batch, and therefore of an entry.
pub const BLOCK_MAX_METADATA_BYTES: usize = 64 << 20;
/// Most bytes of a metadata column before compression.
pub(crate) const METADATA_COLUMN_MAX_BYTES: usize = 128 << 20;
/// Most bytes of a chunk of the stream table before compression.
pub(crate) const LABEL_CHUNK_MAX_BYTES: usize = 64 << 20;
/// Most streams of a segment.
pub(crate) const MAX_STREAMS: usize = 1 << 24;
/// Most runs of a segment.
pub(crate) const MAX_RUNS: usize = 1 << 24;
/// Most blocks of a segment.
pub(crate) const MAX_BLOCKS: usize = 1 << 22;
/// Largest directory in bytes.
pub(crate) const DIRECTORY_MAX_BYTES: u64 = 1 << 30;
/// Largest root of a label index in bytes.
pub(crate) const LABEL_ROOT_MAX_BYTES: usize = 64 << 20;
/// Most bytes of a page of the label index before compression.
pub(crate) const LABEL_PAGE_MAX_BYTES: usize = 64 << 20;
/// Most bytes of all keys of a page of the label index that has several.
pub(crate) const LABEL_PAGE_KEYS_MAX_BYTES: usize = 256 << 10;

const HEADER_MAGIC: &[u8; 8] = b"LSVC-SEG";
/// The version of the format that is written.
const VERSION: u32 = 4;
/// The oldest version that is read. It has no label index.
const OLDEST_VERSION: u32 = 2;
/// The first version whose directory has the bytes of metadata of each run.
const RUN_METADATA_VERSION: u32 = 4;

/// Identifies a segment; in its header and in its footer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct SegmentIdentity {
    /// Number of the start of the server, counted per data folder.
    pub epoch: u32,
    /// Number of shards of that start.
    pub shards: u32,
    /// The shard that wrote the file.
    pub shard: u32,
    /// Number of the segment, counted per shard and start.
    pub seq: u32,
    /// Time of creation in nanoseconds since the Unix epoch.
    pub created_ns: i64,
}

impl SegmentIdentity {
    fn write(&self, out: &mut [u8]) {
        for (place, number) in
            out.chunks_exact_mut(4).zip([self.epoch, self.shards, self.shard, self.seq])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out[16..24].copy_from_slice(&self.created_ns.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> SegmentIdentity {
        SegmentIdentity {
            epoch: u32_at(bytes, 0),
            shards: u32_at(bytes, 4),
            shard: u32_at(bytes, 8),
            seq: u32_at(bytes, 12),
            created_ns: u64_at(bytes, 16) as i64,
        }
    }

    /// The header of the segment.
    pub fn encode_header(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(HEADER_MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        self.write(&mut out[16..40]);
        seal(&mut out);
        out
    }

    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// If it is damaged or of another version.
    pub fn decode_header(bytes: &[u8]) -> Result<SegmentIdentity, SegmentError> {
        let bytes = bytes
            .get(..HEADER_LEN)
            .ok_or(SegmentError::new(Part::Header, "the file is too short"))?;
        check_seal(bytes, HEADER_MAGIC, Part::Header)?;
        Ok(SegmentIdentity::read(&bytes[16..40]))
    }

    /// The bytes of a header of an older version.
    #[cfg(test)]
    pub(crate) fn encode_header_of(&self, version: u32) -> [u8; HEADER_LEN] {
        let mut out = self.encode_header();
        out[8..12].copy_from_slice(&version.to_le_bytes());
        out[CRC_AT..CRC_AT + 4].fill(0);
        seal(&mut out);
        out
    }
}

/// Offset of the CRC of a header or footer.
const CRC_AT: usize = 12;

fn seal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Checks magic, checksum and version; returns the version.
fn check_seal(bytes: &[u8], magic: &[u8; 8], part: Part) -> Result<u32, SegmentError> {
    if &bytes[..8] != magic {
        return Err(SegmentError::new(part, "it does not begin with its magic bytes"));
    }
    let crc = crc32c::crc32c_append(
        crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC_AT]), &[0; 4]),
        &bytes[CRC_AT + 4..],
    );
    if crc != u32_at(bytes, CRC_AT) {
        return Err(SegmentError::new(part, "the checksum does not match"));
    }
    let found = u32_at(bytes, 8);
    if !(OLDEST_VERSION..=VERSION).contains(&found) {
        let version = UnknownPart::Format { found, known: VERSION };
        return Err(SegmentError::other_version(part, version));
    }
    Ok(found)
}

//! Header, footer and limits of a segment, as `docs/format.md` describes them.
//!
//! Pure functions over byte slices. Decoders check everything that they return, and read
//! arbitrary bytes without panic.

use std::ops::Range;

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

const HEADER_MAGIC: &[u8; 8] = b"LSVC-SEG";
const FOOTER_MAGIC: &[u8; 8] = b"LSVC-SGF";
/// The version of the format.
const VERSION: u32 = 2;
/// The bit of the footer's flags that marks a draft.
const FLAG_DRAFT: u32 = 1;

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
}

/// Figures of a segment's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Streams; each has at least one entry.
    pub streams: u32,
    /// Runs: the entries of one stream in one block.
    pub runs: u32,
    /// Blocks.
    pub blocks: u32,
    /// Entries.
    pub entries: u64,
    /// Bytes of all lines.
    pub line_bytes: u64,
    /// Smallest timestamp in nanoseconds.
    pub min_ns: i64,
    /// Largest timestamp in nanoseconds.
    pub max_ns: i64,
}

/// The last bytes of a segment: the places of its parts, and figures of its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer {
    /// The segment's identity.
    pub identity: SegmentIdentity,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Where the filters begin.
    pub filters_offset: u64,
    /// Where the stream table begins.
    pub stream_table_offset: u64,
    /// Where the directory begins.
    pub directory_offset: u64,
    /// CRC of the filters.
    pub filters_crc: u32,
    /// CRC of the directory.
    pub directory_crc: u32,
    /// Figures of its content.
    pub totals: Totals,
    /// Whether it is a draft: some of its blocks, or all, are not compressed and have no filters.
    pub is_draft: bool,
    /// The place of a merged segment in the live set; `None` for a segment that a shard has sealed,
    /// and for files of older programs, which do not note it.
    pub merged: Option<MergedPlace>,
}

/// The place of a merged segment in the live set. Manifest and file both have it, so that the
/// live set can be restored without the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergedPlace {
    /// How often its entries were merged; not 0.
    pub level: u32,
    /// Its place in arrival order.
    pub order: u64,
}

impl Footer {
    /// Length of the directory.
    pub fn directory_len_bytes(&self) -> u64 {
        let range = self.directory_range();
        range.end - range.start
    }

    /// The footer's bytes.
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = [0; FOOTER_LEN];
        out[..8].copy_from_slice(FOOTER_MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        self.identity.write(&mut out[16..40]);
        let totals = &self.totals;
        let offsets =
            [self.file_len, self.filters_offset, self.stream_table_offset, self.directory_offset];
        for (place, number) in out[40..72].chunks_exact_mut(8).zip(offsets) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let flags = if self.is_draft { FLAG_DRAFT } else { 0 };
        let crcs = [self.filters_crc, self.directory_crc];
        let small = [crcs[0], crcs[1], totals.streams, totals.runs, totals.blocks, flags];
        for (place, number) in out[72..96].chunks_exact_mut(4).zip(small) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let large = [totals.entries, totals.line_bytes, totals.min_ns as u64, totals.max_ns as u64];
        for (place, number) in out[96..128].chunks_exact_mut(8).zip(large) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        if let Some(place) = self.merged {
            out[128..136].copy_from_slice(&place.order.to_le_bytes());
            out[136..140].copy_from_slice(&place.level.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Reads the footer at the end of `tail`, which is the end of a file of
    /// `file_len` bytes.
    ///
    /// # Errors
    /// If it is damaged, of another version, or contradicts the length of the file.
    pub fn parse(tail: &[u8], file_len: u64) -> Result<Footer, SegmentError> {
        let fail = |what| SegmentError::new(Part::Footer, what);
        let start = tail.len().checked_sub(FOOTER_LEN).ok_or(fail("the file is too short"))?;
        let bytes = &tail[start..];
        check_seal(bytes, FOOTER_MAGIC, Part::Footer)?;
        let footer = Footer {
            identity: SegmentIdentity::read(&bytes[16..40]),
            file_len: u64_at(bytes, 40),
            filters_offset: u64_at(bytes, 48),
            stream_table_offset: u64_at(bytes, 56),
            directory_offset: u64_at(bytes, 64),
            filters_crc: u32_at(bytes, 72),
            directory_crc: u32_at(bytes, 76),
            totals: Totals {
                streams: u32_at(bytes, 80),
                runs: u32_at(bytes, 84),
                blocks: u32_at(bytes, 88),
                entries: u64_at(bytes, 96),
                line_bytes: u64_at(bytes, 104),
                min_ns: u64_at(bytes, 112) as i64,
                max_ns: u64_at(bytes, 120) as i64,
            },
            is_draft: u32_at(bytes, 92) & FLAG_DRAFT != 0,
            merged: match u32_at(bytes, 136) {
                0 => None,
                level => Some(MergedPlace { level, order: u64_at(bytes, 128) }),
            },
        };
        if footer.file_len != file_len {
            return Err(fail("the file has another length"));
        }
        let places = [
            HEADER_LEN as u64,
            footer.filters_offset,
            footer.stream_table_offset,
            footer.directory_offset,
            file_len.checked_sub(FOOTER_LEN as u64).ok_or(fail("the file is too short"))?,
        ];
        if !places.is_sorted() {
            return Err(fail("the parts of the file overlap"));
        }
        let directory = footer.directory_range();
        if directory.end - directory.start > DIRECTORY_MAX_BYTES {
            return Err(fail("the directory is too large"));
        }
        let totals = &footer.totals;
        if totals.entries == 0 || totals.min_ns > totals.max_ns {
            return Err(fail("the segment is empty"));
        }
        Ok(footer)
    }

    /// The range of the columns of all blocks.
    pub fn columns_range(&self) -> Range<u64> {
        HEADER_LEN as u64..self.filters_offset
    }

    /// The range of the filters.
    pub fn filters_range(&self) -> Range<u64> {
        self.filters_offset..self.stream_table_offset
    }

    /// The range of the stream table.
    pub fn stream_table_range(&self) -> Range<u64> {
        self.stream_table_offset..self.directory_offset
    }

    /// The range of the directory.
    pub fn directory_range(&self) -> Range<u64> {
        self.directory_offset..self.file_len - FOOTER_LEN as u64
    }

    /// Checks the bytes of the filters by their CRC.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn check_filters(&self, bytes: &[u8]) -> Result<(), SegmentError> {
        let range = self.filters_range();
        if bytes.len() as u64 != range.end - range.start
            || crc32c::crc32c(bytes) != self.filters_crc
        {
            return Err(SegmentError::new(Part::Filters, "the checksum does not match"));
        }
        Ok(())
    }
}

/// Offset of the CRC of a header or footer.
const CRC_AT: usize = 12;

fn seal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

fn check_seal(bytes: &[u8], magic: &[u8; 8], part: Part) -> Result<(), SegmentError> {
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
    if u32_at(bytes, 8) != VERSION {
        let version = UnknownPart::Format { found: u32_at(bytes, 8), known: VERSION };
        return Err(SegmentError::other_version(part, version));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Footer {
        Footer {
            identity: SegmentIdentity { epoch: 1, shards: 2, shard: 1, seq: 9, created_ns: -4 },
            file_len: 1000,
            filters_offset: 100,
            stream_table_offset: 100,
            directory_offset: 300,
            filters_crc: 5,
            directory_crc: 6,
            totals: Totals {
                streams: 1,
                runs: 2,
                blocks: 2,
                entries: 3,
                line_bytes: 4,
                min_ns: i64::MIN,
                max_ns: i64::MAX,
            },
            is_draft: false,
            merged: None,
        }
    }

    #[test]
    fn headers_and_footers_read_back_and_every_changed_byte_is_found() {
        let footer = sample();
        let header = footer.identity.encode_header();
        assert_eq!(SegmentIdentity::decode_header(&header), Ok(footer.identity));
        let draft = Footer { is_draft: true, ..footer };
        assert_eq!(Footer::parse(&draft.encode(), 1000), Ok(draft));
        let merged = Some(MergedPlace { level: 3, order: 1 << 40 });
        let merged = Footer { merged, ..footer };
        assert_eq!(Footer::parse(&merged.encode(), 1000), Ok(merged));
        let bytes = footer.encode();
        assert_eq!(Footer::parse(&bytes, 1000), Ok(footer));
        let longer = [b"before".as_slice(), &bytes].concat();
        assert_eq!(Footer::parse(&longer, 1000), Ok(footer));
        for at in 0..bytes.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bad = bytes;
                bad[at] ^= mask;
                assert!(Footer::parse(&bad, 1000).is_err(), "byte {at}");
                if at < HEADER_LEN {
                    let mut bad = header;
                    bad[at] ^= mask;
                    assert!(SegmentIdentity::decode_header(&bad).is_err(), "byte {at}");
                }
            }
        }
        assert!(Footer::parse(&bytes, 999).is_err());
        assert!(Footer::parse(&bytes[1..], 1000).is_err());
    }

    #[test]
    fn a_footer_that_contradicts_itself_is_refused() {
        let cases: [fn(&mut Footer); 6] = [
            |f| f.filters_offset = 63,
            |f| f.stream_table_offset = 99,
            |f| f.directory_offset = u64::MAX,
            |f| f.directory_offset = 900,
            |f| f.totals.entries = 0,
            |f| (f.totals.min_ns, f.totals.max_ns) = (1, 0),
        ];
        for (index, change) in cases.iter().enumerate() {
            let mut footer = sample();
            change(&mut footer);
            assert!(Footer::parse(&footer.encode(), 1000).is_err(), "case {index}");
        }
    }
}

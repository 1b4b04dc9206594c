//! The footer of a segment: places of its parts, and figures of its content.
//!
//! Guarantees: parts of a footer that was read follow each other within the file, and none is
//! larger than the format allows. Arbitrary bytes give an error or such a footer.

use std::ops::Range;

use super::{
    DIRECTORY_MAX_BYTES, FOOTER_LEN, HEADER_LEN, LABEL_ROOT_MAX_BYTES, SegmentIdentity, VERSION,
    check_seal, seal,
};
use crate::batch::{u32_at, u64_at};
use crate::error::{Part, SegmentError};

const FOOTER_MAGIC: &[u8; 8] = b"LSVC-SGF";
/// The bit of the flags that marks a draft.
const FLAG_DRAFT: u32 = 1;

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
    /// The version of the format.
    pub version: u32,
    /// The segment's identity.
    pub identity: SegmentIdentity,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Where the filters begin.
    pub filters_offset: u64,
    /// Where the stream table begins.
    pub stream_table_offset: u64,
    /// The label index between stream table and directory, if the segment has one.
    pub label_index: Option<LabelIndexPlace>,
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

/// The place of the label index: pages, and a root behind them that ends where the directory
/// begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LabelIndexPlace {
    /// Where it begins; not 0.
    pub offset: u64,
    /// Length of its root.
    pub root_len: u32,
    /// CRC of its root.
    pub root_crc: u32,
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
    /// Whether the directory has the bytes of the metadata of each run.
    pub(crate) fn has_run_metadata(&self) -> bool {
        self.version >= super::RUN_METADATA_VERSION
    }

    /// The version of what is written.
    pub(crate) const VERSION: u32 = VERSION;

    /// Length of the directory.
    pub fn directory_len_bytes(&self) -> u64 {
        let range = self.directory_range();
        range.end - range.start
    }

    /// The footer's bytes.
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = [0; FOOTER_LEN];
        out[..8].copy_from_slice(FOOTER_MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
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
        if let Some(place) = self.label_index {
            out[140..148].copy_from_slice(&place.offset.to_le_bytes());
            out[148..152].copy_from_slice(&place.root_len.to_le_bytes());
            out[152..156].copy_from_slice(&place.root_crc.to_le_bytes());
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
        let version = check_seal(bytes, FOOTER_MAGIC, Part::Footer)?;
        let label_index = LabelIndexPlace {
            offset: u64_at(bytes, 140),
            root_len: u32_at(bytes, 148),
            root_crc: u32_at(bytes, 152),
        };
        let footer = Footer {
            version,
            label_index: Some(label_index).filter(|place| version >= 3 && place.offset != 0),
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
            footer.stream_table_range().end,
            footer.label_index_root_range().map_or(footer.directory_offset, |root| root.start),
            footer.directory_offset,
            file_len.checked_sub(FOOTER_LEN as u64).ok_or(fail("the file is too short"))?,
        ];
        if !places.is_sorted() {
            return Err(fail("the parts of the file overlap"));
        }
        if let Some(place) = footer.label_index
            && place.root_len as usize > LABEL_ROOT_MAX_BYTES
        {
            return Err(fail("the root of the label index is too large"));
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
        let end = self.label_index.map_or(self.directory_offset, |place| place.offset);
        self.stream_table_offset..end
    }

    /// The range of the label index, with its root.
    pub fn label_index_range(&self) -> Option<Range<u64>> {
        self.label_index.map(|place| place.offset..self.directory_offset)
    }

    /// The range of the root of the label index, for [`LabelIndex::open`].
    ///
    /// [`LabelIndex::open`]: crate::LabelIndex::open
    pub fn label_index_root_range(&self) -> Option<Range<u64>> {
        let len = u64::from(self.label_index?.root_len);
        // `parse` refuses a root that begins before the file.
        Some(self.directory_offset.saturating_sub(len)..self.directory_offset)
    }

    /// Reads the header at the beginning of `bytes`, which must be that of the same file.
    ///
    /// # Errors
    /// If it is damaged or of another version, or has another identity or version than the footer.
    pub fn check_header(&self, bytes: &[u8]) -> Result<(), SegmentError> {
        let fail = |what| SegmentError::new(Part::Header, what);
        let identity = SegmentIdentity::decode_header(bytes)?;
        if identity != self.identity {
            return Err(fail("it is that of another segment"));
        }
        if u32_at(bytes, 8) != self.version {
            return Err(fail("it has another version than the footer"));
        }
        Ok(())
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

#[cfg(test)]
mod tests;

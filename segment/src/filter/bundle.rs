//! The head of a bundle: which segments it has, and the index of their joined filters.
//!
//! A bundle is a file with the filters of many segments, joined slice by slice by a
//! [`super::RegionJoiner`]. So one unit tells for one key what all blocks of all these segments
//! have to say. `docs/format.md` has the bytes.
//!
//! Guarantees: arbitrary bytes give an error or a head. Every byte of a head was checked.

use std::ops::Range;

use super::error::FilterError;
use super::index::FilterIndex;

const VERSION: u32 = 1;
const SEGMENT_LEN: usize = 24;

/// Most segments of a bundle.
const MAX_SEGMENTS: usize = 1 << 16;

/// A segment of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BundledSegment {
    /// The four numbers of its name: epoch, shards, shard and number.
    pub name: [u32; 4],
    /// Its blocks.
    pub blocks: u32,
    /// The CRC of its filters, as its footer has it: a name alone may come again after old files
    /// were put back.
    pub filters_crc: u32,
}

/// The head of a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleHead {
    segments: Vec<BundledSegment>,
    index: FilterIndex,
}

impl BundleHead {
    /// The first bytes of a bundle.
    pub const MAGIC: [u8; 8] = *b"LSVC-BUN";

    /// Length of the header in bytes, which tells the length of the head.
    pub const HEADER_LEN: usize = 32;

    /// The head of a bundle of these segments, with the index of their joined region.
    ///
    /// # Errors
    /// If the index has other blocks, or the segments are too many.
    pub fn new(
        segments: Vec<BundledSegment>,
        index: FilterIndex,
    ) -> Result<BundleHead, FilterError> {
        let blocks: u64 = segments.iter().map(|segment| u64::from(segment.blocks)).sum();
        if segments.len() > MAX_SEGMENTS || blocks != index.block_count() as u64 {
            return Err(FilterError::Index("its blocks are not those of its segments"));
        }
        Ok(BundleHead { segments, index })
    }

    /// The bytes before the region.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let index = self.index.encode();
        let mut out = Vec::with_capacity(Self::HEADER_LEN + SEGMENT_LEN * self.segments.len());
        out.extend(Self::MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend((self.segments.len() as u32).to_le_bytes());
        out.extend((index.len() as u32).to_le_bytes());
        out.extend([0; 8]);
        for segment in &self.segments {
            segment.name.iter().for_each(|number| out.extend(number.to_le_bytes()));
            out.extend(segment.blocks.to_le_bytes());
            out.extend(segment.filters_crc.to_le_bytes());
        }
        out.extend(index);
        // The checksum of the header covers that of the rest.
        let rest = crc32c::crc32c(&out[Self::HEADER_LEN..]);
        out[24..28].copy_from_slice(&rest.to_le_bytes());
        let header = crc32c::crc32c(&out[..Self::HEADER_LEN]);
        out[12..16].copy_from_slice(&header.to_le_bytes());
        out
    }

    /// The length of the whole head, by its header.
    ///
    /// # Errors
    /// If it is not the header of a bundle, or of another version.
    pub fn len_by_header(header: &[u8; Self::HEADER_LEN]) -> Result<usize, FilterError> {
        if header[..8] != Self::MAGIC {
            return Err(FilterError::Index("it is no bundle"));
        }
        if number_at(header, 8) != VERSION {
            return Err(FilterError::Version);
        }
        let mut unchecked = *header;
        unchecked[12..16].fill(0);
        if crc32c::crc32c(&unchecked) != number_at(header, 12) {
            return Err(FilterError::Checksum { offset: 0 });
        }
        let (segments, index_len) = (number_at(header, 16), number_at(header, 20));
        if segments as usize > MAX_SEGMENTS {
            return Err(FilterError::Index("it has too many segments"));
        }
        if index_len as usize > FilterIndex::ENCODED_MAX_LEN {
            return Err(FilterError::Index("it has too many blocks"));
        }
        Ok(Self::HEADER_LEN + segments as usize * SEGMENT_LEN + index_len as usize)
    }

    /// Reads a whole head, and nothing behind it.
    ///
    /// # Errors
    /// If [`BundleHead::encode`] cannot have written the bytes.
    pub fn decode(bytes: &[u8]) -> Result<BundleHead, FilterError> {
        let (header, rest) =
            bytes.split_first_chunk().ok_or(FilterError::Index("it is too short"))?;
        if Self::len_by_header(header)? != bytes.len() {
            return Err(FilterError::Length { offset: 0 });
        }
        if crc32c::crc32c(rest) != number_at(header, 24) {
            return Err(FilterError::Checksum { offset: Self::HEADER_LEN as u64 });
        }
        let (segments, index) = rest.split_at(SEGMENT_LEN * number_at(header, 16) as usize);
        let segments = segments.chunks_exact(SEGMENT_LEN).map(|bytes| BundledSegment {
            name: [0, 4, 8, 12].map(|at| number_at(bytes, at)),
            blocks: number_at(bytes, 16),
            filters_crc: number_at(bytes, 20),
        });
        BundleHead::new(segments.collect(), FilterIndex::decode(index)?)
    }

    /// The segments, in the order of their blocks.
    #[must_use]
    pub fn segments(&self) -> &[BundledSegment] {
        &self.segments
    }

    /// The index of the filters of all blocks of all segments.
    #[must_use]
    pub fn index(&self) -> &FilterIndex {
        &self.index
    }

    /// Bytes of memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let segments = size_of::<BundledSegment>() * self.segments.capacity();
        size_of::<Self>() + segments + FilterIndex::encoded_len(self.index.block_count())
    }

    /// The range of the region in the file.
    #[must_use]
    pub fn region(&self) -> Range<u64> {
        let index_len = FilterIndex::encoded_len(self.index.block_count());
        let start = (Self::HEADER_LEN + SEGMENT_LEN * self.segments.len() + index_len) as u64;
        start..start + self.index.region_len()
    }
}

/// A number of four bytes. `bytes` has them.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
}

//! The filter index: the part of a segment's directory that describes the region of filters.

use super::bitmap::Descriptor;
use super::block_set::BlockSet;
use super::error::FilterError;
use super::layout::{Layout, checked_payload};
use super::load::RegionLoader;
use super::needle::Needle;
use super::probe::Probe;

const VERSION: u8 = 1;
const HEADER_LEN: usize = 8;

/// Most blocks of a segment, so that no sum of their bits overflows.
const MAX_BLOCKS: usize = 1 << 24;

/// The kind of keys of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    /// Grams of lines.
    Text,
    /// Names and pairs of structured metadata.
    Metadata,
}

/// The places of the filters of a segment's blocks in the region; two bytes per block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterIndex {
    text: Box<[Descriptor]>,
    metadata: Box<[Descriptor]>,
    text_layout: Layout,
    metadata_layout: Layout,
}

impl FilterIndex {
    pub(super) fn new(text: Box<[Descriptor]>, metadata: Box<[Descriptor]>) -> FilterIndex {
        let slice_bits =
            |part: &[Descriptor]| part.iter().map(|descriptor| descriptor.bits() as u64).sum();
        let text_layout = Layout::new(0, 0, slice_bits(&text));
        let metadata_layout =
            Layout::new(text_layout.end(), text_layout.next_unit(), slice_bits(&metadata));
        FilterIndex { text, metadata, text_layout, metadata_layout }
    }

    /// The index of a region with the blocks of several regions in turn.
    ///
    /// # Errors
    /// If they are too many.
    pub(super) fn joined(inputs: &[FilterIndex]) -> Result<FilterIndex, FilterError> {
        if inputs.iter().map(FilterIndex::block_count).sum::<usize>() > MAX_BLOCKS {
            return Err(FilterError::Index("it has too many blocks"));
        }
        let all = |part: Part| inputs.iter().flat_map(|i| i.descriptors(part)).copied().collect();
        Ok(FilterIndex::new(all(Part::Text), all(Part::Metadata)))
    }

    /// The longest [`FilterIndex::encode`], in bytes.
    pub(super) const ENCODED_MAX_LEN: usize = HEADER_LEN + 2 * MAX_BLOCKS;

    /// The length of [`FilterIndex::encode`] for so many blocks, in bytes.
    pub(super) fn encoded_len(blocks: usize) -> usize {
        HEADER_LEN + 2 * blocks
    }

    /// The bytes for the directory.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::encoded_len(self.block_count()));
        out.extend([VERSION, 0, 0, 0]);
        out.extend((self.block_count() as u32).to_le_bytes());
        out.extend(self.text.iter().chain(&self.metadata).map(|descriptor| descriptor.encode()));
        out
    }

    /// Reads the bytes of [`FilterIndex::encode`]. They have no checksum of their own: that of the
    /// directory covers them.
    ///
    /// # Errors
    /// If [`FilterIndex::encode`] cannot have written the bytes.
    pub fn decode(bytes: &[u8]) -> Result<FilterIndex, FilterError> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(FilterError::Index("it is too short"))?;
        let [version, _, _, _, count @ ..] = *header;
        if version != VERSION {
            return Err(FilterError::Version);
        }
        let count = u32::from_le_bytes(count) as usize;
        if count > MAX_BLOCKS {
            return Err(FilterError::Index("it has too many blocks"));
        }
        if rest.len() != 2 * count {
            return Err(FilterError::Index("its length does not match its number of blocks"));
        }
        let descriptors = |bytes: &[u8]| {
            bytes
                .iter()
                .map(|&byte| Descriptor::decode(byte))
                .collect::<Option<Box<[Descriptor]>>>()
                .ok_or(FilterError::Index("a block's descriptor is not known"))
        };
        let (text, metadata) = rest.split_at(count);
        Ok(FilterIndex::new(descriptors(text)?, descriptors(metadata)?))
    }

    /// Number of blocks of the segment.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.text.len()
    }

    /// Length of the region in bytes.
    #[must_use]
    pub fn region_len(&self) -> u64 {
        self.metadata_layout.end()
    }

    /// Begins a search for the blocks among `candidates` in which **all** conditions may hold. A
    /// condition is a list of alternatives, at least one of which must be in the block. A condition
    /// without alternatives holds in no block.
    ///
    /// The alternatives of a condition may be texts and metadata: "this text, or any metadata of
    /// that name".
    ///
    /// # Panics
    /// If `candidates` is a set of another number of blocks.
    #[must_use]
    pub fn probe(&self, conditions: Vec<Vec<Needle>>, candidates: BlockSet) -> Probe<'_> {
        Probe::new(self, conditions, candidates)
    }

    /// Checks every checksum of a whole region.
    ///
    /// # Errors
    /// If the length or a checksum does not match.
    pub fn check(&self, region: &[u8]) -> Result<(), FilterError> {
        if region.len() as u64 != self.region_len() {
            return Err(FilterError::Length { offset: 0 });
        }
        for part in [Part::Text, Part::Metadata] {
            let layout = self.layout(part);
            for unit in layout.next_unit() - layout.unit_count()..layout.next_unit() {
                let range = layout.unit_range(unit);
                // In bounds: the last unit ends at the end of the region.
                let bytes = &region[range.start as usize..range.end as usize];
                checked_payload(bytes, unit)
                    .ok_or(FilterError::Checksum { offset: range.start })?;
            }
        }
        Ok(())
    }

    /// Begins to read the filters of all blocks from a whole region.
    ///
    /// # Errors
    /// If the region has another length.
    pub fn load(&self, region: Vec<u8>) -> Result<RegionLoader<'_>, FilterError> {
        RegionLoader::new(self, region)
    }

    pub(super) fn layout(&self, part: Part) -> &Layout {
        match part {
            Part::Text => &self.text_layout,
            Part::Metadata => &self.metadata_layout,
        }
    }

    pub(super) fn descriptors(&self, part: Part) -> &[Descriptor] {
        match part {
            Part::Text => &self.text,
            Part::Metadata => &self.metadata,
        }
    }
}

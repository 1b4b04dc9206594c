//! Reads the filters of single blocks from a region, to copy them into another region.
//!
//! Guarantees: [`RegionFilters::get`] gives the filter that [`super::RegionWriter`] was given;
//! every byte was checked. A step reads one unit, at about a microsecond per 4000 bits. Until
//! the last step the loader holds twice the memory of the region.

use super::bits::BitReader;
use super::build::BlockFilter;
use super::error::FilterError;
use super::index::{FilterIndex, Part};
use super::layout::checked_payload;
use super::slices::Slices;

/// Reads a region, unit by unit.
#[derive(Debug)]
pub struct RegionLoader<'a> {
    index: &'a FilterIndex,
    region: Vec<u8>,
    /// The part of the next unit, and the number of that unit.
    part: Part,
    unit: u32,
    text: Slices,
    metadata: Slices,
}

/// The filters of all blocks of a region.
#[derive(Debug, Default)]
pub struct RegionFilters {
    text: Slices,
    metadata: Slices,
}

impl RegionFilters {
    /// The filter of a block; `None` if the region has no such block.
    #[must_use]
    pub fn get(&self, block: usize) -> Option<BlockFilter> {
        let (text, metadata) = (self.text.get(block)?, self.metadata.get(block)?);
        Some(BlockFilter { text, metadata })
    }
}

impl<'a> RegionLoader<'a> {
    pub(super) fn new(
        index: &'a FilterIndex,
        region: Vec<u8>,
    ) -> Result<RegionLoader<'a>, FilterError> {
        if region.len() as u64 != index.region_len() {
            return Err(FilterError::Length { offset: 0 });
        }
        let [text, metadata] =
            [Part::Text, Part::Metadata].map(|part| Slices::of(index.descriptors(part)));
        Ok(RegionLoader { index, region, part: Part::Text, unit: 0, text, metadata })
    }

    /// Reads one unit; false if there are no more.
    ///
    /// # Errors
    /// Its checksum does not match.
    pub fn advance(&mut self) -> Result<bool, FilterError> {
        if self.unit == self.index.layout(self.part).next_unit() {
            if self.part == Part::Metadata {
                return Ok(false);
            }
            self.part = Part::Metadata;
            return Ok(true);
        }
        let layout = self.index.layout(self.part);
        let range = layout.unit_range(self.unit);
        // In bounds: the last unit ends at the end of the region.
        let bytes = &self.region[range.start as usize..range.end as usize];
        let payload = checked_payload(bytes, self.unit)
            .ok_or(FilterError::Checksum { offset: range.start })?;
        let slices = match self.part {
            Part::Text => &mut self.text,
            Part::Metadata => &mut self.metadata,
        };
        let mut bits = BitReader::new(payload, 0);
        let first_unit = layout.next_unit() - layout.unit_count();
        let first_slice = (self.unit - first_unit) as usize * layout.unit_slices();
        for slice in first_slice..first_slice + layout.unit_slices() {
            slices.words_mut(slice).for_each(|(word, len)| *word = bits.read(len));
        }
        self.unit += 1;
        Ok(true)
    }

    /// The filters of all blocks. Must be called only after [`Self::advance`] has returned false.
    #[must_use]
    pub fn finish(self) -> RegionFilters {
        RegionFilters { text: self.text, metadata: self.metadata }
    }
}

//! Writes the region of a segment: the filters of all blocks, slice by slice.

use super::bits::BitWriter;
use super::build::BlockFilter;
use super::index::{FilterIndex, Part};
use super::layout::{Layout, unit_crc};
use super::slices::Slices;

/// Gathers the filters of a segment's blocks. Until the end it holds all of them, about 3 % of
/// the raw bytes.
#[derive(Debug, Default)]
pub struct RegionWriter {
    text: Slices,
    metadata: Slices,
}

impl RegionWriter {
    /// A region without blocks.
    #[must_use]
    pub fn new() -> RegionWriter {
        RegionWriter::default()
    }

    /// Adds the filter of the next block.
    pub fn push(&mut self, filter: BlockFilter) {
        self.text.push(filter.text);
        self.metadata.push(filter.metadata);
    }

    /// Ends the list of blocks, so that the region can be written.
    #[must_use]
    pub fn end(self) -> RegionEnd {
        let index = FilterIndex::new(self.text.descriptors(), self.metadata.descriptors());
        RegionEnd { filters: self, index, next_unit: 0, crc: 0 }
    }

    /// The bytes of the region, and its index for the directory.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, FilterIndex) {
        let mut end = self.end();
        let mut out = Vec::with_capacity(end.index.region_len() as usize);
        while end.write_unit(&mut out) {}
        debug_assert_eq!(out.len() as u64, end.index.region_len());
        (out, end.index)
    }
}

/// Writes a region unit by unit, so that memory need not have the region beside its filters.
#[derive(Debug)]
pub struct RegionEnd {
    filters: RegionWriter,
    index: FilterIndex,
    /// Number of the next unit in the region.
    next_unit: u32,
    crc: u32,
}

impl RegionEnd {
    /// Appends the next bytes of the region. Returns whether there were any.
    pub fn write_unit(&mut self, out: &mut Vec<u8>) -> bool {
        let parts = [(Part::Text, &self.filters.text), (Part::Metadata, &self.filters.metadata)];
        for (part, slices) in parts {
            let layout = self.index.layout(part);
            if self.next_unit < layout.next_unit() {
                let start = out.len();
                write_unit(out, slices, layout, self.next_unit);
                self.crc = crc32c::crc32c_append(self.crc, &out[start..]);
                self.next_unit += 1;
                return true;
            }
        }
        false
    }

    /// The index of the region for the directory, and the CRC-32C of all its bytes.
    #[must_use]
    pub fn finish(self) -> (FilterIndex, u32) {
        (self.index, self.crc)
    }
}

fn write_unit(out: &mut Vec<u8>, slices: &Slices, layout: &Layout, unit: u32) {
    let start = out.len();
    let mut bits = BitWriter::new(out);
    let first_unit = layout.next_unit() - layout.unit_count();
    let first_slice = (unit - first_unit) as usize * layout.unit_slices();
    for slice in first_slice..first_slice + layout.unit_slices() {
        slices.words(slice).for_each(|(word, len)| bits.push(word, len));
    }
    bits.finish();
    let crc = unit_crc(&out[start..], unit);
    out.extend(crc.to_le_bytes());
}

//! Writes the region of a segment: the filters of all blocks, slice by slice.

use super::build::BlockFilter;
use super::index::{FilterIndex, Part};
use super::layout::{Layout, unit_crc};
use super::slices::Slices;

/// Gathers the filters of a segment's blocks. It holds them until the end, about 3 % of
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

    /// The bytes of the region, and what the directory must hold of it.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, FilterIndex) {
        let index = FilterIndex::new(self.text.descriptors(), self.metadata.descriptors());
        let mut out = Vec::with_capacity(index.region_len() as usize);
        write_part(&mut out, &self.text, index.layout(Part::Text));
        write_part(&mut out, &self.metadata, index.layout(Part::Metadata));
        debug_assert_eq!(out.len() as u64, index.region_len());
        (out, index)
    }
}

fn write_part(out: &mut Vec<u8>, slices: &Slices, layout: &Layout) {
    let first_unit = layout.next_unit() - layout.unit_count();
    for unit in 0..layout.unit_count() {
        let start = out.len();
        let mut bits = BitWriter { out, pending: 0, pending_bits: 0 };
        let first_slice = unit as usize * layout.unit_slices();
        for slice in first_slice..first_slice + layout.unit_slices() {
            slices.words(slice).for_each(|(word, len)| bits.push(word, len));
        }
        bits.finish();
        let crc = unit_crc(&out[start..], first_unit + unit);
        out.extend(crc.to_le_bytes());
    }
}

/// Writes bits, least significant first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    /// Below 64.
    pending_bits: usize,
}

impl BitWriter<'_> {
    /// Writes the low `bits` bits, at most 64, of a number that has no others.
    fn push(&mut self, value: u64, bits: usize) {
        self.pending |= value << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= 64 {
            self.out.extend(self.pending.to_le_bytes());
            self.pending_bits -= 64;
            self.pending =
                if self.pending_bits == 0 { 0 } else { value >> (bits - self.pending_bits) };
        }
    }

    /// Fills the last byte with zeros.
    fn finish(self) {
        self.out.extend(&self.pending.to_le_bytes()[..self.pending_bits.div_ceil(8)]);
    }
}

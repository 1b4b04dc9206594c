//! Takes the filters of blocks out of a region, so that another region can have them.
//!
//! Guarantees: what [`RegionLoader::finish`] gives is what a [`super::RegionWriter`] was
//! given; every byte was checked. Each step is the work of one unit, about a microsecond
//! per 300 blocks.

use super::bitmap::{Descriptor, Folded};
use super::build::BlockFilter;
use super::error::FilterError;
use super::index::{FilterIndex, Part};
use super::layout::checked_payload;

/// See the module.
#[derive(Debug)]
pub struct RegionLoader<'a> {
    index: &'a FilterIndex,
    region: Vec<u8>,
    /// The part that is being read; the next unit, counted through the region.
    part: Part,
    unit: u32,
    text: Vec<Growing>,
    metadata: Vec<Growing>,
}

/// A filter of which some slices are known.
#[derive(Debug)]
struct Growing {
    descriptor: Descriptor,
    words: Vec<u64>,
    pending: u64,
    /// Below 64.
    pending_bits: usize,
}

impl<'a> RegionLoader<'a> {
    pub(super) fn new(
        index: &'a FilterIndex,
        region: Vec<u8>,
    ) -> Result<RegionLoader<'a>, FilterError> {
        if region.len() as u64 != index.region_len() {
            return Err(FilterError::Length { offset: 0 });
        }
        let growing = |part: Part| {
            let of_block = |&descriptor: &Descriptor| Growing::new(descriptor);
            index.descriptors(part).iter().map(of_block).collect()
        };
        let (text, metadata) = (growing(Part::Text), growing(Part::Metadata));
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
        // In bounds: the last unit ends where the region does.
        let bytes = &self.region[range.start as usize..range.end as usize];
        let payload = checked_payload(bytes, self.unit)
            .ok_or(FilterError::Checksum { offset: range.start })?;
        let blocks = match self.part {
            Part::Text => &mut self.text,
            Part::Metadata => &mut self.metadata,
        };
        let mut bits = BitReader { bytes: payload, at: 0 };
        for _ in 0..layout.unit_slices() {
            for block in &mut *blocks {
                let count = block.descriptor.bits();
                block.push(bits.read(count), count);
            }
        }
        self.unit += 1;
        Ok(true)
    }

    /// The filters of all blocks, in order. To be called when [`Self::advance`] has said
    /// that there are no more units.
    pub fn finish(self) -> Vec<BlockFilter> {
        let pairs = self.text.into_iter().zip(self.metadata);
        let filter = |(text, metadata): (Growing, Growing)| BlockFilter {
            text: text.finish(),
            metadata: metadata.finish(),
        };
        pairs.map(filter).collect()
    }
}

impl Growing {
    fn new(descriptor: Descriptor) -> Growing {
        let words = Vec::with_capacity(Folded::word_count(descriptor));
        Growing { descriptor, words, pending: 0, pending_bits: 0 }
    }

    fn push(&mut self, value: u64, bits: usize) {
        self.pending |= value << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= 64 {
            self.words.push(self.pending);
            self.pending_bits -= 64;
            self.pending =
                if self.pending_bits == 0 { 0 } else { value >> (bits - self.pending_bits) };
        }
    }

    fn finish(self) -> Folded {
        Folded::from_words(self.descriptor, self.words)
    }
}

/// Reads bits, least significant first; behind the end there are zeros.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl BitReader<'_> {
    /// The next `count` bits, at most 64.
    fn read(&mut self, count: usize) -> u64 {
        let (byte, shift) = (self.at / 8, self.at % 8);
        self.at += count;
        let mut value = match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(&eight) => u64::from_le_bytes(eight),
            None => self.last_bytes(byte),
        } >> shift;
        if shift + count > 64 {
            let next = self.bytes.get(byte + 8).copied().unwrap_or(0);
            value |= u64::from(next) << (64 - shift);
        }
        if count == 64 { value } else { value & ((1 << count) - 1) }
    }

    fn last_bytes(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        rest.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

//! Where the bits of a part (text or metadata) stand in the region.
//!
//! A part is the slices in order, each the bits of all blocks in order, without gaps.
//! 2^*n* successive slices make a unit, which ends at a full byte and is followed by
//! its checksum; *n* is the smallest number with which a unit has at least
//! [`MIN_UNIT_BITS`], but at most 12, which makes one unit of all slices.

use super::keys::SLICES;
use std::ops::Range;

/// A checksum of 4 bytes per 128 bytes costs 3 %, and less for larger segments.
const MIN_UNIT_BITS: u64 = 128 * 8;

/// Bytes of a checksum.
const CRC_LEN: u64 = 4;

/// The layout of one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Where the part begins in the region.
    offset: u64,
    /// The number of its first unit, counted through the region.
    first_unit: u32,
    /// Bits of all blocks in one slice.
    slice_bits: u64,
    /// Slices of a unit, as a power of two.
    unit_shift: u32,
}

impl Layout {
    /// The layout of a part whose blocks have so many bits in each slice.
    pub(super) fn new(offset: u64, first_unit: u32, slice_bits: u64) -> Layout {
        let mut unit_shift = 0;
        while slice_bits << unit_shift < MIN_UNIT_BITS && unit_shift < SLICES.ilog2() {
            unit_shift += 1;
        }
        Layout { offset, first_unit, slice_bits, unit_shift }
    }

    /// How many units the part has; none if it has no bits.
    pub(super) fn unit_count(&self) -> u32 {
        if self.slice_bits == 0 { 0 } else { SLICES as u32 >> self.unit_shift }
    }

    /// Slices of a unit.
    pub(super) fn unit_slices(&self) -> usize {
        1 << self.unit_shift
    }

    fn unit_len(&self) -> u64 {
        (self.slice_bits << self.unit_shift).div_ceil(8) + CRC_LEN
    }

    /// Where the part ends in the region.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.unit_count()) * self.unit_len()
    }

    /// The number of the first unit of the next part.
    pub(super) fn next_unit(&self) -> u32 {
        self.first_unit + self.unit_count()
    }

    /// The unit of a slice, counted through the region, and the place of the slice's
    /// first bit in it.
    pub(super) fn locate(&self, slice: usize) -> (u32, u64) {
        let unit = (slice >> self.unit_shift) as u32;
        let slice_in_unit = slice as u64 & (self.unit_slices() as u64 - 1);
        (self.first_unit + unit, slice_in_unit * self.slice_bits)
    }

    /// Where a unit of this part stands, checksum included.
    pub(super) fn unit_range(&self, unit: u32) -> Range<u64> {
        let start = self.offset + u64::from(unit - self.first_unit) * self.unit_len();
        start..start + self.unit_len()
    }
}

/// The checksum of a unit: of its bytes and its number, so that a unit does not pass
/// for another one.
pub(super) fn unit_crc(payload: &[u8], unit: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(payload), &unit.to_le_bytes())
}

/// Splits a unit into its payload and checksum, and compares them.
pub(super) fn checked_payload(bytes: &[u8], unit: u32) -> Option<&[u8]> {
    let (payload, crc) = bytes.split_last_chunk::<{ CRC_LEN as usize }>()?;
    (unit_crc(payload, unit) == u32::from_le_bytes(*crc)).then_some(payload)
}

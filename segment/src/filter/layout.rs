//! The layout of a part (text or metadata) of the region.
//!
//! A part has all slices in order. A slice has the bits of all blocks in order, without gaps.
//! 2^*n* successive slices are a unit. A unit is padded to a full byte, and its checksum
//! follows. *n* is the smallest number with which a unit has at least [`MIN_UNIT_BITS`], but at
//! most 12, with which all slices are one unit.

use super::keys::SLICES;
use std::ops::Range;

/// A checksum of 4 bytes per 128 bytes costs 3 %, and less for larger segments.
const MIN_UNIT_BITS: u64 = 128 * 8;

/// Bytes of a checksum.
const CRC_LEN: u64 = 4;

/// The layout of one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Offset of the part in the region.
    offset: u64,
    /// Number of its first unit. Units are numbered through the region.
    first_unit: u32,
    /// Bits of all blocks in one slice.
    slice_bits: u64,
    /// Binary logarithm of the slices of a unit.
    unit_shift: u32,
}

impl Layout {
    /// The layout of a part with so many bits of all blocks per slice.
    pub(super) fn new(offset: u64, first_unit: u32, slice_bits: u64) -> Layout {
        let mut unit_shift = 0;
        while slice_bits << unit_shift < MIN_UNIT_BITS && unit_shift < SLICES.ilog2() {
            unit_shift += 1;
        }
        Layout { offset, first_unit, slice_bits, unit_shift }
    }

    /// Number of units; 0 if the part has no bits.
    pub(super) fn unit_count(&self) -> u32 {
        if self.slice_bits == 0 { 0 } else { SLICES as u32 >> self.unit_shift }
    }

    /// Slices of a unit.
    pub(super) fn unit_slices(&self) -> usize {
        1 << self.unit_shift
    }

    /// Number of the first unit.
    pub(super) fn first_unit(&self) -> u32 {
        self.first_unit
    }

    /// Bits of all blocks in one slice.
    pub(super) fn slice_bits(&self) -> u64 {
        self.slice_bits
    }

    /// Length of a unit with its checksum, in bytes.
    pub(super) fn unit_len(&self) -> u64 {
        (self.slice_bits << self.unit_shift).div_ceil(8) + CRC_LEN
    }

    /// End of the part in the region.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.unit_count()) * self.unit_len()
    }

    /// The number of the first unit of the next part.
    pub(super) fn next_unit(&self) -> u32 {
        self.first_unit + self.unit_count()
    }

    /// The number of the unit of a slice, and the position of the slice's first bit in the unit.
    pub(super) fn locate(&self, slice: usize) -> (u32, u64) {
        let unit = (slice >> self.unit_shift) as u32;
        let slice_in_unit = slice as u64 & (self.unit_slices() as u64 - 1);
        (self.first_unit + unit, slice_in_unit * self.slice_bits)
    }

    /// The range of a unit of this part, with its checksum.
    pub(super) fn unit_range(&self, unit: u32) -> Range<u64> {
        let start = self.offset + u64::from(unit - self.first_unit) * self.unit_len();
        start..start + self.unit_len()
    }
}

/// The checksum of a unit. It covers bytes and number, so that a unit at the place of another
/// one is found.
pub(super) fn unit_crc(payload: &[u8], unit: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(payload), &unit.to_le_bytes())
}

/// Splits a unit into its payload and checksum, and compares them.
pub(super) fn checked_payload(bytes: &[u8], unit: u32) -> Option<&[u8]> {
    let (payload, crc) = bytes.split_last_chunk::<{ CRC_LEN as usize }>()?;
    (unit_crc(payload, unit) == u32::from_le_bytes(*crc)).then_some(payload)
}

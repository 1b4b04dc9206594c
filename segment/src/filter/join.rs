//! Joins the regions of several segments into one, slice by slice.
//!
//! Guarantees: the joined region is the one that [`super::RegionWriter`] writes of all blocks in
//! turn. Every byte that gets into it was checked. Memory is that of the pieces of a step.

use std::ops::Range;

use super::bits::{BitReader, BitWriter};
use super::error::FilterError;
use super::index::{FilterIndex, Part};
use super::layout::{Layout, checked_payload, unit_crc};

/// Joins regions, some units at a time: read the ranges of [`RegionJoiner::next_reads`], and pass
/// their bytes to [`RegionJoiner::supply`], until there are no more.
#[derive(Debug)]
pub struct RegionJoiner {
    inputs: Vec<FilterIndex>,
    index: FilterIndex,
    /// The next unit of the joined region.
    next_unit: u32,
    /// The step that was asked for.
    step: Option<Step>,
    crc: u32,
}

/// The region of an input is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedInput {
    /// Which of the inputs.
    pub input: usize,
    /// Its fault.
    pub error: FilterError,
}

#[derive(Debug)]
struct Step {
    part: Part,
    /// Units of the joined region.
    units: Range<u32>,
    /// By input: its units.
    reads: Vec<Range<u32>>,
}

impl RegionJoiner {
    /// A joiner of regions with these indexes.
    ///
    /// # Errors
    /// If they have too many blocks together.
    pub fn new(inputs: Vec<FilterIndex>) -> Result<RegionJoiner, FilterError> {
        let index = FilterIndex::joined(&inputs)?;
        Ok(RegionJoiner { inputs, index, next_unit: 0, step: None, crc: 0 })
    }

    /// The index of the joined region.
    #[must_use]
    pub fn index(&self) -> &FilterIndex {
        &self.index
    }

    /// The next ranges to read, one of each input in turn; some are empty. Together they have about
    /// `step_bytes`, or more where less makes no unit. `None` at the end.
    pub fn next_reads(&mut self, step_bytes: u64) -> Option<Vec<Range<u64>>> {
        let parts = [Part::Text, Part::Metadata];
        let part =
            parts.into_iter().find(|part| self.next_unit < self.index.layout(*part).next_unit())?;
        let layout = *self.index.layout(part);
        let most = u32::try_from(step_bytes / layout.unit_len()).unwrap_or(u32::MAX).max(1);
        let end = self.next_unit.saturating_add(most).min(layout.next_unit());
        let units = self.next_unit..end;
        let slices = slices_of(&layout, &units);
        let reads: Vec<Range<u32>> =
            self.inputs.iter().map(|input| units_of(input.layout(part), &slices)).collect();
        let ranges = self.inputs.iter().zip(&reads).map(|(input, units)| {
            if units.is_empty() {
                return 0..0;
            }
            let layout = input.layout(part);
            layout.unit_range(units.start).start..layout.unit_range(units.end - 1).end
        });
        let ranges = ranges.collect();
        self.step = Some(Step { part, units, reads });
        Some(ranges)
    }

    /// Takes the bytes of the ranges of the last [`RegionJoiner::next_reads`], in their order, and
    /// appends the next bytes of the joined region.
    ///
    /// # Errors
    /// If the bytes are damaged or of another length. The region cannot be joined then.
    pub fn supply<B: AsRef<[u8]>>(
        &mut self,
        pieces: &[B],
        out: &mut Vec<u8>,
    ) -> Result<(), DamagedInput> {
        let Some(Step { part, units, reads }) = self.step.take() else { return Ok(()) };
        let mut payloads = Vec::with_capacity(reads.len());
        for (number, (input, read)) in self.inputs.iter().zip(&reads).enumerate() {
            let bytes = pieces.get(number).map_or(&[][..], |piece| piece.as_ref());
            let checked = checked(input.layout(part), read, bytes);
            payloads.push(checked.map_err(|error| DamagedInput { input: number, error })?);
        }
        let layout = *self.index.layout(part);
        for unit in units.clone() {
            let start = out.len();
            let mut bits = BitWriter::new(out);
            for slice in slices_of(&layout, &(unit..unit + 1)) {
                for ((input, read), payloads) in self.inputs.iter().zip(&reads).zip(&payloads) {
                    let of_input = input.layout(part);
                    if of_input.slice_bits() == 0 {
                        continue;
                    }
                    let (unit, at) = of_input.locate(slice);
                    let payload = payloads[(unit - read.start) as usize];
                    let mut reader = BitReader::new(payload, at as usize);
                    let mut left = of_input.slice_bits() as usize;
                    while left > 0 {
                        let count = left.min(64);
                        bits.push(reader.read(count), count);
                        left -= count;
                    }
                }
            }
            bits.finish();
            let crc = unit_crc(&out[start..], unit);
            out.extend(crc.to_le_bytes());
            self.crc = crc32c::crc32c_append(self.crc, &out[start..]);
        }
        self.next_unit = units.end;
        Ok(())
    }

    /// The index of the joined region, and the CRC-32C of all its bytes.
    #[must_use]
    pub fn finish(self) -> (FilterIndex, u32) {
        (self.index, self.crc)
    }
}

/// The slices of some units.
fn slices_of(layout: &Layout, units: &Range<u32>) -> Range<usize> {
    let first = |unit: u32| (unit - layout.first_unit()) as usize * layout.unit_slices();
    first(units.start)..first(units.end)
}

/// The units with some slices, of which there is one at least.
fn units_of(layout: &Layout, slices: &Range<usize>) -> Range<u32> {
    if layout.unit_count() == 0 {
        return 0..0;
    }
    layout.locate(slices.start).0..layout.locate(slices.end - 1).0 + 1
}

/// The payloads of some units.
fn checked<'a>(
    layout: &Layout,
    units: &Range<u32>,
    bytes: &'a [u8],
) -> Result<Vec<&'a [u8]>, FilterError> {
    let offset = if units.is_empty() { 0 } else { layout.unit_range(units.start).start };
    let unit_len = layout.unit_len() as usize;
    if bytes.len() != units.len() * unit_len {
        return Err(FilterError::Length { offset });
    }
    let payloads = units.clone().zip(bytes.chunks_exact(unit_len)).map(|(unit, bytes)| {
        let damage = FilterError::Checksum { offset: layout.unit_range(unit).start };
        checked_payload(bytes, unit).ok_or(damage)
    });
    payloads.collect()
}

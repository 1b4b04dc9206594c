//! Sets a bit for each gram of lines: what building filters costs.
//!
//! Two ways that set the same bits: [`portable`], and [`avx512`] where the CPU can.
//! Both leave out grams that a line shares with one before it at the same place, whose
//! bits are set already.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(test)]
mod tests;

use super::keys::SLICES;

/// A bitmap for grams of word bytes alone, then one for the mixed ones.
pub(super) type Bits = [u64; 2 * SLICES];

/// The number of the first bit of the mixed ones.
const MIXED_BIT: u64 = (SLICES * 64) as u64;

/// The bits of the lines since they were cleared.
#[derive(Debug)]
pub(super) struct GramBits {
    pub(super) bits: Box<Bits>,
    portable: portable::Buffers,
    #[cfg(target_arch = "x86_64")]
    vectors: Option<avx512::Vectors>,
}

impl GramBits {
    pub(super) fn new() -> GramBits {
        GramBits {
            bits: Box::new([0; 2 * SLICES]),
            portable: portable::Buffers::new(),
            #[cfg(target_arch = "x86_64")]
            vectors: avx512::Vectors::new(),
        }
    }

    /// Adds lines that stand one after another, the first at 0.
    ///
    /// # Panics
    /// If `line_ends` decrease or lie outside of `lines`.
    pub(super) fn add_lines(&mut self, lines: &[u8], line_ends: &[u32]) {
        let is_ordered = line_ends.is_sorted();
        let is_inside = line_ends.last().is_none_or(|&end| end as usize <= lines.len());
        assert!(is_ordered && is_inside, "line ends are in order and in bounds");
        #[cfg(target_arch = "x86_64")]
        if let Some(vectors) = &mut self.vectors {
            vectors.add_lines(&mut self.bits, lines, line_ends);
            return;
        }
        self.portable.add_lines(&mut self.bits, lines, line_ends);
    }
}

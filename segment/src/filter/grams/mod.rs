//! Sets a bit for each gram of lines, which is most of the work of building filters.
//!
//! Two implementations set the same bits: [`portable`], and [`avx512`] for CPUs with AVX-512.
//! Both skip grams that an earlier line has at the same position, because their bits are set.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(test)]
mod tests;

use super::keys::SLICES;

/// The bitmap of unmixed grams, then the bitmap of mixed grams.
pub(super) type Bits = [u64; 2 * SLICES];

/// The number of the first bit of the bitmap of mixed grams.
const MIXED_BIT: u64 = (SLICES * 64) as u64;

/// The bits of all lines since the last clear.
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

    /// Adds adjacent lines; the first begins at 0.
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

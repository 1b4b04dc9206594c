//! The filters of many blocks, transposed: each slice has the bits of all blocks in order,
//! without gaps, as in a region.
//!
//! The bits are in words of 64 bits: the first words of all slices, then the second words of all
//! slices, and so on. Adding or reading a block shifts whole columns of words, for which the
//! compiler uses vectors. Writing a region copies words. The memory is that of the region and up
//! to 32 KiB.

use super::bitmap::{Descriptor, Folded, mask_of};
use super::keys::SLICES;

/// The filters of the blocks of one part.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// The descriptor of each block, and the bits of all preceding blocks in a slice.
    blocks: Vec<(Descriptor, usize)>,
    /// Bits of all blocks in a slice.
    bits: usize,
    /// Column *n* has bits 64 *n* to 64 *n* + 63 of each slice; bits after the last block are zero.
    columns: Vec<Box<[u64]>>,
}

impl Slices {
    /// Blocks with these descriptors, with all bits zero.
    pub(super) fn of(descriptors: &[Descriptor]) -> Slices {
        let mut all = Slices::default();
        descriptors.iter().for_each(|&descriptor| all.push_descriptor(descriptor));
        let column = || vec![0; SLICES].into_boxed_slice();
        all.columns = (0..all.bits.div_ceil(64)).map(|_| column()).collect();
        all
    }

    /// The descriptors of all blocks.
    pub(super) fn descriptors(&self) -> Box<[Descriptor]> {
        self.blocks.iter().map(|&(descriptor, _)| descriptor).collect()
    }

    fn push_descriptor(&mut self, descriptor: Descriptor) {
        self.blocks.push((descriptor, self.bits));
        self.bits += descriptor.bits();
    }

    /// Adds the filter of the next block.
    pub(super) fn push(&mut self, filter: Folded) {
        let (bits, shift) = (filter.descriptor.bits(), self.bits % 64);
        self.push_descriptor(filter.descriptor);
        let mut slices = filter.slices;
        if bits == 0 {
            return;
        }
        if let Some(last) = self.columns.last_mut()
            && shift > 0
        {
            last.iter_mut().zip(&slices).for_each(|(word, slice)| *word |= slice << shift);
            if shift + bits <= 64 {
                return;
            }
            slices.iter_mut().for_each(|slice| *slice >>= 64 - shift);
        }
        self.columns.push(slices);
    }

    /// The filter of a block; `None` if there is no such block.
    pub(super) fn get(&self, block: usize) -> Option<Folded> {
        let &(descriptor, before) = self.blocks.get(block)?;
        let bits = descriptor.bits();
        let mut slices: Box<[u64]> = Box::default();
        if bits > 0 {
            let (column, shift, mask) = (before / 64, before % 64, mask_of(bits));
            let low = &self.columns[column];
            slices = if shift + bits <= 64 {
                low.iter().map(|word| word >> shift & mask).collect()
            } else {
                let pairs = low.iter().zip(&self.columns[column + 1]);
                pairs.map(|(low, high)| (low >> shift | high << (64 - shift)) & mask).collect()
            };
        }
        Some(Folded { descriptor, slices })
    }

    /// The words of a slice, each with its number of bits: 64 except for the last word.
    pub(super) fn words(&self, slice: usize) -> impl Iterator<Item = (u64, usize)> {
        let lens = (0..self.bits).step_by(64).map(|start| (self.bits - start).min(64));
        self.columns.iter().map(move |column| column[slice]).zip(lens)
    }

    /// Like [`Self::words`], for writing.
    pub(super) fn words_mut(&mut self, slice: usize) -> impl Iterator<Item = (&mut u64, usize)> {
        let bits = self.bits;
        let lens = (0..bits).step_by(64).map(move |start| (bits - start).min(64));
        self.columns.iter_mut().map(move |column| &mut column[slice]).zip(lens)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bitmap::insert;
    use super::super::keys::Key;
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn what_was_put_in_comes_out_in_any_order_and_width() {
        for seed in seeds(60) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let filter = |rng: &mut Rng| {
                let mut bitmap = [0; SLICES];
                (0..3000).for_each(|_| insert(&mut bitmap, Key(rng.next_u64())));
                match rng.below(8) {
                    0 => Folded::empty(),
                    1 => Folded::unknown(),
                    2 => Folded::new(&bitmap, 64, true),
                    _ => Folded::new(&bitmap, rng.between(1, 64) as usize, rng.one_in(2)),
                }
            };
            let filters: Vec<Folded> = (0..rng.below(20)).map(|_| filter(&mut rng)).collect();
            let mut all = Slices::default();
            filters.iter().for_each(|filter| all.push(filter.clone()));
            let mut copy = Slices::of(&all.descriptors());
            for slice in 0..SLICES {
                let words: Vec<u64> = all.words(slice).map(|(word, _)| word).collect();
                let lens: usize = all.words(slice).map(|(_, len)| len).sum();
                assert_eq!(
                    lens,
                    filters.iter().map(|filter| filter.descriptor.bits()).sum::<usize>()
                );
                copy.words_mut(slice).zip(words).for_each(|((to, _), word)| *to = word);
            }
            for (block, filter) in filters.iter().enumerate().rev() {
                assert_eq!(all.get(block).as_ref(), Some(filter));
                assert_eq!(copy.get(block).as_ref(), Some(filter));
            }
            assert_eq!(all.get(filters.len()), None);
        }
    }
}

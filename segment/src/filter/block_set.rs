//! Sets of block numbers.

/// A set of blocks of one segment, one bit each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockSet {
    words: Vec<u64>,
    len: usize,
}

impl BlockSet {
    /// None of `len` blocks.
    #[must_use]
    pub fn empty(len: usize) -> BlockSet {
        BlockSet { words: vec![0; len.div_ceil(64)], len }
    }

    /// All of `len` blocks.
    #[must_use]
    pub fn full(len: usize) -> BlockSet {
        let mut set = BlockSet { words: vec![u64::MAX; len.div_ceil(64)], len };
        if !len.is_multiple_of(64)
            && let Some(last) = set.words.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        set
    }

    /// Number of blocks of the segment.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.len
    }

    /// Adds a block to the set.
    ///
    /// # Panics
    /// If the segment has no such block.
    #[inline]
    pub fn insert(&mut self, block: usize) {
        assert!(block < self.len, "block {block} of {}", self.len);
        self.words[block / 64] |= 1 << (block % 64);
    }

    /// Whether a block is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, block: usize) -> bool {
        self.words.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 != 0)
    }

    /// The blocks that are in both of two sets of the same segment.
    #[must_use]
    pub fn intersection(&self, other: &BlockSet) -> BlockSet {
        let words = self.words.iter().zip(&other.words).map(|(own, other)| own & other).collect();
        BlockSet { words, len: self.len }
    }

    /// Number of blocks in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no block is in the set.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The blocks of the set in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(number, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (bit < 64).then_some(number * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        for len in [0, 1, 63, 64, 65, 128, 200] {
            let full = BlockSet::full(len);
            assert_eq!(full.count(), len);
            assert_eq!(full.iter().collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
            let mut odd = BlockSet::empty(len);
            assert!(odd.is_empty());
            (1..len).step_by(2).for_each(|block| odd.insert(block));
            assert_eq!(odd.iter().collect::<Vec<_>>(), (1..len).step_by(2).collect::<Vec<_>>());
            assert!(
                (0..len + 70).all(|block| odd.contains(block) == (block < len && block % 2 == 1))
            );
        }
    }
}

//! The simulation's only source of chance.
//!
//! Each part of the world (schedule, disk, network, application) draws from a
//! generator of its own, derived from the one seed, so that one more draw in a
//! part does not reshuffle the others.

use std::ops::RangeInclusive;

use crate::entropy::Entropy;

pub(super) struct Random {
    entropy: Entropy,
}

impl Random {
    /// The generator of the part called `part`.
    pub(super) fn derive(seed: u64, part: u64) -> Random {
        let mixed = Entropy::from_seed(seed).next() ^ Entropy::from_seed(!part).next();
        Random { entropy: Entropy::from_seed(mixed) }
    }

    pub(super) fn next_u64(&self) -> u64 {
        self.entropy.next()
    }

    /// Below `bound`, which is not zero. The bias of at most `bound / 2^64` does
    /// not matter here.
    pub(super) fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into something of `len` elements, at least one.
    pub(super) fn index(&self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(super) fn within(&self, range: &RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start());
        range.start() + self.below(width.saturating_add(1))
    }

    /// True once in `count` times; never for zero.
    pub(super) fn one_in(&self, count: u64) -> bool {
        count != 0 && self.below(count) == 0
    }

    /// True `per_million` times in a million.
    pub(super) fn per_million(&self, per_million: u32) -> bool {
        // No draw without a rate, so that faults which are off cost nothing.
        per_million != 0 && self.below(1_000_000) < u64::from(per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_seeds_differ_and_repeat() {
        let first = |seed, part| Random::derive(seed, part).next_u64();
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }

    #[test]
    fn draws_keep_their_bounds_and_reach_them() {
        let random = Random::derive(7, 7);
        let mut seen = [false; 3];
        for _ in 0..200 {
            let drawn = random.within(&(5..=7));
            seen[(drawn - 5) as usize] = true;
            assert_eq!(random.below(1), 0);
            assert!(random.one_in(1) && !random.one_in(0) && !random.per_million(0));
            assert!(random.per_million(1_000_000));
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(random.within(&(9..=9)), 9);
        random.within(&(0..=u64::MAX));
    }
}

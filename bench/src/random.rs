//! A small seeded generator, so that a seed names the data: the same source
//! options always give the same lines, and `verify` can make them again.

/// SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finish(self.0)
    }

    /// A number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        debug_assert!(bound > 0);
        // Multiply-shift: the bias is below 2^-32 for the small bounds used here.
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// One of `items`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A number that depends on all bits of both arguments.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    finish(a.wrapping_add(finish(b.wrapping_add(0x9e37_79b9_7f4a_7c15))))
}

fn finish(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_outputs_are_those_of_the_published_algorithm() {
        // Reference values of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut random = Random::new(7);
        let mut seen = [0usize; 5];
        for _ in 0..1000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}

//! Random numbers from a seed.

/// A generator of random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014). Not for secrets.
///
/// The sequence of a seed never changes: `bench verify` generates the lines again that
/// `bench push` has sent, and figures of benchmarks are comparable only over the same data.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finish(self.0)
    }

    /// A number below `bound`, which is not zero. The bias is at most `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into a slice of `len` elements, which is not zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number from `min` to `max`, both included.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of `choices`, of which there is at least one.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Cuts, inserts or changes up to three bytes, sometimes none.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.index(bytes.len());
            match self.below(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next_u64() as u8),
                2 => bytes[at] = *self.pick(&[0, 1, 0x7f, 0x80, 0xff]),
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next_u64() as u8).collect()
    }
}

/// A number that depends on all bits of both arguments: a seed for a part of the data of
/// another seed.
pub fn mix(a: u64, b: u64) -> u64 {
    finish(a.wrapping_add(finish(b.wrapping_add(STEP))))
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

fn finish(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_outputs_are_those_of_the_published_algorithm() {
        // Reference values of SplitMix64 for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut rng = Rng::new(7);
        let mut seen = [0usize; 5];
        for _ in 0..1000 {
            seen[rng.index(5)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}

//! Random choices that a seed repeats (SplitMix64).

/// A seeded sequence of numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `of` times.
    pub(crate) fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// The seed of this run, printed so that it can be repeated.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("LOGSVC_SEED") {
        Ok(text) => text.parse().expect("LOGSVC_SEED is a number"),
        Err(_) => super::now_ns().unsigned_abs(),
    };
    eprintln!("LOGSVC_SEED={seed}");
    seed
}

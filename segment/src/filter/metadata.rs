//! Gathers the keys of a block's metadata for its filter.
//!
//! Few keys are held in a list, many in a bitmap; the filter is the same. Most blocks have no
//! metadata but the levels of their entries, and counting, folding and clearing a bitmap takes
//! as long with one key as with many.

use super::bitmap::{Bitmap, Folded, estimated_keys, insert};
use super::build::{bits_per_slice, ones};
use super::keys::{Key, SLICES};

/// Bits per key of metadata, for a load of one half.
const BITS_PER_METADATA_KEY: f64 = 1.44;

/// Most keys in the list.
const FEW: usize = 128;

// With this many keys the filter has one bit per slice.
const _: () = assert!(FEW * 2 < SLICES);

/// The keys of a block's metadata.
#[derive(Debug)]
pub(super) struct MetadataKeys {
    /// Up to [`FEW`] keys, with repetitions.
    few: Vec<Key>,
    /// All keys, if they are more.
    many: Box<Bitmap>,
    are_many: bool,
}

impl MetadataKeys {
    pub(super) fn new() -> MetadataKeys {
        MetadataKeys { few: Vec::with_capacity(FEW), many: Box::new([0; SLICES]), are_many: false }
    }

    pub(super) fn add(&mut self, key: Key) {
        if self.are_many {
            insert(&mut self.many, key);
        } else if self.few.len() < FEW {
            self.few.push(key);
        } else {
            self.are_many = true;
            self.few.drain(..).chain([key]).for_each(|key| insert(&mut self.many, key));
        }
    }

    /// The filter of the keys since the last call.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Folded {
        if std::mem::take(&mut self.are_many) {
            let keys = estimated_keys(ones(self.many.iter().copied()));
            let bits = bits_per_slice((keys * BITS_PER_METADATA_KEY).max(1.0));
            let folded = Folded::new(&self.many, bits, false);
            self.many.fill(0);
            return folded;
        }
        if self.few.is_empty() {
            return Folded::empty();
        }
        let folded = Folded::of_few(&self.few);
        self.few.clear();
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn few_and_many_keys_give_the_same_filters() {
        for seed in seeds(50) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut gathered = MetadataKeys::new();
            for _ in 0..6 {
                let count = [1, 60, FEW, FEW + 1, 3 * FEW, 20_000][rng.below(6) as usize];
                let mut bitmap = [0; SLICES];
                for number in 0..count {
                    let key = Key(rng.next_u64());
                    insert(&mut bitmap, key);
                    gathered.add(key);
                    if number % 5 == 0 && count < FEW / 2 {
                        gathered.add(key);
                    }
                }
                let keys = estimated_keys(ones(bitmap.iter().copied()));
                let bits = bits_per_slice((keys * BITS_PER_METADATA_KEY).max(1.0));
                assert_eq!(gathered.finish(), Folded::new(&bitmap, bits, false), "{count} keys");
                assert_eq!(gathered.finish(), Folded::empty(), "it is empty again");
            }
        }
    }
}

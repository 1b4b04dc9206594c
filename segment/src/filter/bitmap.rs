//! Bitmaps of keys, and folding them to their stored size.

use super::keys::{Key, SLICE_BITS, SLICES};

/// The stored descriptor of a block's filter in the index. Bits 0 to 6 are the number of bits
/// per slice (0 to 64), or 127 for a filter that proves nothing. Bit 7 is set if the filter has
/// only a quarter of the mixed grams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Descriptor(u8);

const BITS_MASK: u8 = 0x7f;
const PROVES_NOTHING: u8 = 0x7f;
const QUARTER: u8 = 0x80;

impl Descriptor {
    /// No key is in the block.
    pub(super) const EMPTY: Descriptor = Descriptor(0);
    /// Nothing is known of the block's keys.
    pub(super) const UNKNOWN: Descriptor = Descriptor(PROVES_NOTHING);

    fn new(bits: usize, quarter_of_mixed: bool) -> Descriptor {
        debug_assert!((1..=SLICE_BITS).contains(&bits));
        Descriptor(bits as u8 | if quarter_of_mixed { QUARTER } else { 0 })
    }

    pub(super) fn encode(self) -> u8 {
        self.0
    }

    pub(super) fn decode(byte: u8) -> Option<Descriptor> {
        let bits = byte & BITS_MASK;
        let valid =
            byte == PROVES_NOTHING || usize::from(bits) <= SLICE_BITS && (bits != 0 || byte == 0);
        valid.then_some(Descriptor(byte))
    }

    /// Bits of the filter per slice.
    pub(super) fn bits(self) -> usize {
        match self.0 & BITS_MASK {
            PROVES_NOTHING => 0,
            bits => usize::from(bits),
        }
    }

    pub(super) fn is_unknown(self) -> bool {
        self.0 == PROVES_NOTHING
    }

    /// Whether the filter has only those mixed grams for which [`Key::is_kept_when_mixed`] holds.
    pub(super) fn has_quarter_of_mixed(self) -> bool {
        self.0 & QUARTER != 0
    }
}

/// One word per slice.
pub(super) type Bitmap = [u64; SLICES];

/// Sets the bit of a key.
pub(super) fn insert(bitmap: &mut Bitmap, key: Key) {
    bitmap[key.slice()] |= 1 << key.bit();
}

/// The estimated number of distinct keys in a bitmap with so many bits set.
pub(super) fn estimated_keys(bits_set: u64) -> f64 {
    let size = (SLICES * SLICE_BITS) as f64;
    // A full bitmap would give infinity.
    let free = (size - bits_set as f64).max(1.0) / size;
    -size * free.ln()
}

/// A bitmap after folding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Folded {
    pub(super) descriptor: Descriptor,
    /// One word per slice, of which only the low `descriptor.bits()` bits may be set; none
    /// if there are no bits.
    pub(super) slices: Box<[u64]>,
}

/// Slices that are folded together, so that they stay in registers or in the cache.
const FOLDED_TOGETHER: usize = 64;

impl Folded {
    pub(super) fn empty() -> Folded {
        Folded { descriptor: Descriptor::EMPTY, slices: Box::default() }
    }

    pub(super) fn unknown() -> Folded {
        Folded { descriptor: Descriptor::UNKNOWN, slices: Box::default() }
    }

    /// Folds a bitmap: bit *i* of a slice becomes bit *i* modulo `bits`.
    #[inline(always)]
    pub(super) fn new(bitmap: &Bitmap, bits: usize, quarter_of_mixed: bool) -> Folded {
        let mut slices: Box<[u64]> = bitmap[..].into();
        let mask = mask_of(bits);
        for some in slices.chunks_exact_mut(FOLDED_TOGETHER) {
            // Each step doubles the number of pieces of `bits` bits that are folded into one.
            let mut shift = bits;
            while shift < 64 {
                some.iter_mut().for_each(|slice| *slice |= *slice >> shift);
                shift *= 2;
            }
            some.iter_mut().for_each(|slice| *slice &= mask);
        }
        Folded { descriptor: Descriptor::new(bits, quarter_of_mixed), slices }
    }

    /// The result of [`Self::new`] for these keys with one bit per slice.
    pub(super) fn of_few(keys: &[Key]) -> Folded {
        let mut slices = vec![0; SLICES].into_boxed_slice();
        keys.iter().for_each(|key| slices[key.slice()] = 1);
        Folded { descriptor: Descriptor::new(1, false), slices }
    }

    /// The share of bits that are set; the chance that an absent key seems present.
    #[inline(always)]
    pub(super) fn load(&self) -> f64 {
        let set: u64 = self.slices.iter().map(|slice| u64::from(slice.count_ones())).sum();
        set as f64 / (self.slices.len() * self.descriptor.bits()).max(1) as f64
    }
}

/// The low `bits` bits, 1 to 64.
pub(super) fn mask_of(bits: usize) -> u64 {
    u64::MAX >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::Rng;

    #[test]
    fn folding_keeps_every_key() {
        let mut rng = Rng::new(1);
        let keys: Vec<Key> = (0..3000).map(|_| Key(rng.next_u64())).collect();
        let mut bitmap = [0; SLICES];
        keys.iter().for_each(|&key| insert(&mut bitmap, key));
        for bits in 1..=SLICE_BITS {
            let folded = Folded::new(&bitmap, bits, false);
            assert_eq!(folded.descriptor.bits(), bits);
            for key in &keys {
                let slice = folded.slices[key.slice()];
                assert!(slice >> (key.bit() as usize % bits) & 1 != 0);
                assert!(bits == 64 || slice >> bits == 0);
            }
            let set: u32 = folded.slices.iter().map(|slice| slice.count_ones()).sum();
            assert!(set as usize <= keys.len());
            let load = f64::from(set) / (SLICES * bits) as f64;
            assert!((folded.load() - load).abs() < 1e-9);
        }
    }

    #[test]
    fn keys_are_counted_by_the_bits_they_set() {
        let mut rng = Rng::new(2);
        for count in [10, 1000, 100_000, 300_000] {
            let mut bitmap = [0; SLICES];
            (0..count).for_each(|_| insert(&mut bitmap, Key(rng.next_u64())));
            let set = bitmap.iter().map(|word| u64::from(word.count_ones())).sum();
            let estimate = estimated_keys(set) / f64::from(count);
            assert!((0.97..1.03).contains(&estimate), "{count} keys: {estimate}");
        }
        assert!(estimated_keys((SLICES * SLICE_BITS) as u64).is_finite());
    }

    #[test]
    fn descriptors_survive_and_others_are_refused() {
        let known: Vec<u8> = (0..=64).chain([127]).chain(129..=192).collect();
        for byte in 0..=255 {
            let descriptor = Descriptor::decode(byte);
            assert_eq!(descriptor.is_some(), known.contains(&byte), "{byte}");
            assert!(descriptor.is_none_or(|descriptor| descriptor.encode() == byte));
        }
    }
}

//! Bitmaps of keys, and how they are folded to the size that is stored.

use super::keys::{Key, SLICE_BITS, SLICES};

/// What the index says of one block's filter, as it is stored: bits 0 to 6 are the bits
/// of a slice (0 to 64), or 127 for a filter that proves nothing; bit 7 is set if only a
/// quarter of the mixed grams is in it.
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

    /// How many bits the filter has in each slice.
    pub(super) fn bits(self) -> usize {
        match self.0 & BITS_MASK {
            PROVES_NOTHING => 0,
            bits => usize::from(bits),
        }
    }

    pub(super) fn is_unknown(self) -> bool {
        self.0 == PROVES_NOTHING
    }

    /// Whether of the mixed grams only those with [`Key::is_kept_when_mixed`] count.
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

/// About how many different keys were put into a bitmap with that many bits set.
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
    /// The slices one after another, `descriptor.bits()` bits each, least significant
    /// bit first.
    words: Box<[u64]>,
}

impl Folded {
    pub(super) fn empty() -> Folded {
        Folded { descriptor: Descriptor::EMPTY, words: Box::default() }
    }

    pub(super) fn unknown() -> Folded {
        Folded { descriptor: Descriptor::UNKNOWN, words: Box::default() }
    }

    /// Folds a bitmap: bit *i* of a slice becomes bit *i* modulo `bits`.
    pub(super) fn new(bitmap: &[u64], bits: usize, quarter_of_mixed: bool) -> Folded {
        let mut words = Vec::with_capacity(SLICES * bits / 64);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let (mut pending, mut pending_bits) = (0u64, 0usize);
        for &word in bitmap {
            // Each step doubles how many pieces of `bits` bits are in the lowest one.
            let mut slice = word;
            let mut shift = bits;
            while shift < 64 {
                slice |= slice >> shift;
                shift *= 2;
            }
            slice &= mask;
            pending |= slice << pending_bits;
            pending_bits += bits;
            if pending_bits >= 64 {
                words.push(pending);
                pending_bits -= 64;
                // What did not fit; nothing is left of a slice that ended with the word.
                pending = if pending_bits == 0 { 0 } else { slice >> (bits - pending_bits) };
            }
        }
        debug_assert_eq!(words.len(), SLICES * bits / 64);
        let descriptor = Descriptor::new(bits, quarter_of_mixed);
        Folded { descriptor, words: words.into_boxed_slice() }
    }

    /// How many words a filter with this descriptor has.
    pub(super) fn word_count(descriptor: Descriptor) -> usize {
        SLICES * descriptor.bits() / 64
    }

    /// A filter that was folded before; `words` are all of it.
    pub(super) fn from_words(descriptor: Descriptor, words: Vec<u64>) -> Folded {
        debug_assert_eq!(words.len(), Folded::word_count(descriptor));
        Folded { descriptor, words: words.into_boxed_slice() }
    }

    /// The bits of a slice. Others of the number are zero.
    pub(super) fn slice(&self, slice: usize) -> u64 {
        let bits = self.descriptor.bits();
        if bits == 0 {
            return 0;
        }
        let (word, shift) = (slice * bits / 64, slice * bits % 64);
        let mut value = self.words[word] >> shift;
        if shift + bits > 64 {
            value |= self.words[word + 1] << (64 - shift);
        }
        if bits == 64 { value } else { value & ((1 << bits) - 1) }
    }

    /// The share of bits that are set; the chance that an absent key seems present.
    pub(super) fn load(&self) -> f64 {
        let set: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        set as f64 / (self.words.len().max(1) * 64) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

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
                let slice = folded.slice(key.slice());
                assert!(slice >> (key.bit() as usize % bits) & 1 != 0);
                assert!(bits == 64 || slice >> bits == 0);
            }
            let set: u32 = (0..SLICES).map(|slice| folded.slice(slice).count_ones()).sum();
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

//! Keys and their hashes.
//!
//! The hash functions are part of the format: a change makes all stored filters wrong.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a gram. A filter proves nothing about a shorter text.
pub const GRAM_LEN: usize = 5;

/// Slices of a bitmap.
pub const SLICES: usize = 4096;

/// Bits of a slice before folding.
pub(super) const SLICE_BITS: usize = 64;

/// Keys of a name or pair of metadata. At a load of one half, one block in 2^6 passes by
/// chance.
pub(super) const METADATA_KEYS: usize = 6;

/// The second prime of XXH64. On logs it spreads grams like a random function, which not every
/// multiplier does.
pub(super) const GRAM_MULTIPLIER: u64 = 0xC2B2_AE3D_27D4_EB4F;

/// The step of SplitMix64.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of a key: bits 52..64 are the slice, bits 46..52 the bit in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key(pub(super) u64);

impl Key {
    /// The key of the gram in the first five of eight bytes, letters in lower case.
    pub(super) fn of_gram(bytes: [u8; 8]) -> Key {
        // The upper 40 bits of the product depend on these five bytes alone.
        Key((u64::from_le_bytes(bytes) << 24).wrapping_mul(GRAM_MULTIPLIER))
    }

    pub(super) fn slice(self) -> usize {
        (self.0 >> 52) as usize
    }

    pub(super) fn bit(self) -> u32 {
        (self.0 >> 46) as u32 % SLICE_BITS as u32
    }

    /// Whether the key, if its gram is mixed, is in filters that keep a quarter of the mixed grams.
    pub(super) fn is_kept_when_mixed(self) -> bool {
        kept_quarter(self.slice()) >> self.bit() & 1 != 0
    }
}

/// The bits of a slice for mixed grams that are always kept: in each of four successive slices
/// another 16 of the 64 bits.
pub(super) fn kept_quarter(slice: usize) -> u64 {
    0xffff << (slice % 4 * 16)
}

/// 1 for a byte of unmixed grams, otherwise 0. Unmixed grams have only letters, digits, `-`, `_`
/// and bytes outside of ASCII.
pub(super) fn word_flag(byte: u8) -> u8 {
    u8::from(byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte >= 0x80)
}

/// The hash of a name of structured metadata.
pub(super) fn hash_of_name(name: &[u8]) -> u64 {
    xxh3_64(name)
}

/// The hash of a pair whose name has the given hash.
pub(super) fn hash_of_pair(name_hash: u64, value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, name_hash)
}

/// The keys of a name or pair with the given hash.
pub(super) fn metadata_keys(hash: u64) -> impl Iterator<Item = Key> {
    (1..=METADATA_KEYS as u64).map(move |number| {
        // The finishing steps of SplitMix64: a key does not use all bits of the hash.
        let mixed = hash.wrapping_add(number.wrapping_mul(STEP));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Key(mixed ^ (mixed >> 31))
    })
}

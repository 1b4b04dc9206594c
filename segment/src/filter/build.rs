//! Builds the filter of one block from its lines and metadata.

use super::bitmap::{Folded, estimated_keys};
use super::grams::GramBits;
use super::keys::{SLICE_BITS, SLICES, hash_of_name, hash_of_pair, kept_quarter, metadata_keys};
use super::metadata::MetadataKeys;

/// Bits per gram: a load of 0.55, so that the eight grams of twelve bytes pass by chance
/// with a probability below one in a hundred.
const BITS_PER_GRAM: f64 = 1.25;

/// Up to so many bits of a filter per bit of line bytes, all mixed grams are kept.
const WHOLE_SHARE: f64 = 0.030;

/// Most bits of a filter per bit of line bytes. With more grams the load rises.
const MAX_SHARE: f64 = 0.036;

/// A filter with a higher load is not stored.
const MAX_LOAD: f64 = 0.97;

/// The filter of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFilter {
    pub(super) text: Folded,
    pub(super) metadata: Folded,
}

impl BlockFilter {
    /// A filter that proves nothing: its block is always a candidate.
    #[must_use]
    pub fn unknown() -> BlockFilter {
        BlockFilter { text: Folded::unknown(), metadata: Folded::unknown() }
    }
}

/// Builds filters, block after block. A builder holds about 120 KiB and allocates only in
/// [`BlockFilterBuilder::finish`].
#[derive(Debug)]
pub struct BlockFilterBuilder {
    grams: GramBits,
    metadata: MetadataKeys,
    /// The last added name of this block and its hash; empty if none was added.
    name: Vec<u8>,
    name_hash: u64,
    line_bytes: u64,
}

impl Default for BlockFilterBuilder {
    fn default() -> BlockFilterBuilder {
        BlockFilterBuilder::new()
    }
}

impl BlockFilterBuilder {
    /// A builder without keys.
    #[must_use]
    pub fn new() -> BlockFilterBuilder {
        BlockFilterBuilder {
            grams: GramBits::new(),
            metadata: MetadataKeys::new(),
            name: Vec::new(),
            name_hash: 0,
            line_bytes: 0,
        }
    }

    /// Adds adjacent lines: the first begins at 0, and line *i* begins where line *i* - 1 ends.
    ///
    /// # Panics
    /// If `line_ends` decrease or lie outside of `lines`.
    pub fn add_lines(&mut self, lines: &[u8], line_ends: &[u32]) {
        self.grams.add_lines(lines, line_ends);
        self.line_bytes += u64::from(line_ends.last().copied().unwrap_or(0));
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If it has more than 4 GiB.
    pub fn add_line(&mut self, line: &[u8]) {
        self.add_lines(line, &[u32::try_from(line.len()).expect("a line of less than 4 GiB")]);
    }

    /// Adds a pair of structured metadata of an entry. Adding a pair again changes nothing, so
    /// it is enough to add every distinct pair. Adding all pairs of one name in a row is fastest.
    pub fn add_metadata(&mut self, name: &[u8], value: &[u8]) {
        if self.name.is_empty() || self.name != name {
            self.name.clear();
            self.name.extend_from_slice(name);
            self.name_hash = hash_of_name(name);
            metadata_keys(self.name_hash).for_each(|key| self.metadata.add(key));
        }
        let pair_hash = hash_of_pair(self.name_hash, value);
        metadata_keys(pair_hash).for_each(|key| self.metadata.add(key));
    }

    /// The filter of all lines and pairs since the last call. Empties the builder.
    pub fn finish(&mut self) -> BlockFilter {
        self.name.clear();
        #[cfg(target_arch = "x86_64")]
        {
            /// [`Self::finish`], compiled for AVX2 and POPCNT.
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
            fn finish_wide(builder: &mut BlockFilterBuilder) -> BlockFilter {
                builder.finish_inline()
            }
            let has_all = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt");
            if has_all {
                // SAFETY: the condition above has found that the CPU has the features.
                return unsafe { finish_wide(self) };
            }
        }
        self.finish_inline()
    }

    /// Inlined into its callers, as all functions that it calls, so that it is compiled for the CPU
    /// features of each. A closure in between would be compiled without them.
    #[inline(always)]
    fn finish_inline(&mut self) -> BlockFilter {
        BlockFilter { text: self.finish_text(), metadata: self.finish_metadata() }
    }

    #[inline(always)]
    fn finish_text(&mut self) -> Folded {
        let (words, mixed) =
            self.grams.bits.split_first_chunk_mut::<SLICES>().expect("two bitmaps");
        let all_bits = ones(words.iter().zip(mixed.iter()).map(|(&word, &mixed)| word | mixed));
        let line_bits = std::mem::take(&mut self.line_bytes) as f64 * 8.0;
        if all_bits == 0 {
            return Folded::empty();
        }
        let whole_bits = estimated_keys(all_bits) * BITS_PER_GRAM;
        let whole = whole_bits <= line_bits * WHOLE_SHARE;
        for (slice, (word, mixed)) in words.iter_mut().zip(mixed.iter_mut()).enumerate() {
            *word |= if whole { *mixed } else { *mixed & kept_quarter(slice) };
            *mixed = 0;
        }
        let bits = if whole {
            whole_bits
        } else {
            let kept_bits = estimated_keys(ones(words.iter().copied())) * BITS_PER_GRAM;
            kept_bits.min(line_bits * MAX_SHARE)
        };
        let folded = Folded::new(words, bits_per_slice(bits), !whole);
        words.fill(0);
        if folded.load() > MAX_LOAD { Folded::unknown() } else { folded }
    }

    #[inline(always)]
    fn finish_metadata(&mut self) -> Folded {
        let folded = self.metadata.finish();
        if folded.load() > MAX_LOAD { Folded::unknown() } else { folded }
    }
}

#[inline(always)]
pub(super) fn ones(words: impl Iterator<Item = u64>) -> u64 {
    words.map(|word| u64::from(word.count_ones())).sum()
}

/// Bits per slice for a bitmap of about so many bits.
#[inline]
pub(super) fn bits_per_slice(bits: f64) -> usize {
    ((bits / SLICES as f64).round() as usize).clamp(1, SLICE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_metadata_depends_on_no_order_and_no_block_before() {
        let pairs: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"", b"1")];
        let mut builder = BlockFilterBuilder::new();
        let mut filter = |order: &[usize]| {
            order.iter().for_each(|&at| builder.add_metadata(pairs[at].0, pairs[at].1));
            builder.finish()
        };
        let first = filter(&[0, 1, 2, 3]);
        for order in [[3, 2, 1, 0].as_slice(), &[0, 2, 1, 3], &[1, 3, 0, 2, 2, 0]] {
            assert_eq!(filter(order), first, "{order:?}");
        }
        let of_one = filter(&[0]);
        assert_ne!(of_one, first);
        assert_eq!(filter(&[0]), of_one, "the name's keys come again with each block");
    }
}

//! The filter of one block, made from its lines and metadata.

use super::bitmap::{Bitmap, Folded, estimated_keys, insert};
use super::keys::{
    GRAM_LEN, Key, SLICE_BITS, SLICES, hash_of_name, hash_of_pair, kept_quarter, metadata_keys,
    word_flag,
};
use std::ops::Range;

/// Bits per gram: a load of 0.55, so that the eight grams of twelve bytes pass by chance
/// with a probability below one in a hundred.
const BITS_PER_GRAM: f64 = 1.25;

/// Bits of a filter per bit of line bytes up to which all mixed grams are kept.
const WHOLE_SHARE: f64 = 0.030;

/// The most bits of a filter per bit of line bytes. With more grams the load rises.
const MAX_SHARE: f64 = 0.036;

/// Bits per key of metadata: a load of one half.
const BITS_PER_METADATA_KEY: f64 = 1.44;

/// A filter that is fuller than this is not worth its bytes.
const MAX_LOAD: f64 = 0.97;

/// How many bytes of a line are looked at together.
const CHUNK: usize = 4096;

/// The filter of one block, before it goes into the region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFilter {
    pub(super) text: Folded,
    pub(super) metadata: Folded,
}

impl BlockFilter {
    /// The filter of a block of which nothing is known: it is always a candidate.
    #[must_use]
    pub fn unknown() -> BlockFilter {
        BlockFilter { text: Folded::unknown(), metadata: Folded::unknown() }
    }
}

/// Makes filters, block after block. It holds about 110 KiB and allocates in
/// [`BlockFilterBuilder::finish`] only.
#[derive(Debug)]
pub struct BlockFilterBuilder {
    /// A bitmap for grams of word bytes alone, then one for the mixed ones.
    grams: Box<[u64; 2 * SLICES]>,
    metadata: Box<Bitmap>,
    has_metadata: bool,
    line_bytes: u64,
    /// Part of a line in lower case.
    lower: Box<[u8; CHUNK + PADDING]>,
    /// For each byte of it 1 if it is a word's.
    words: Box<[u8; CHUNK + PADDING]>,
    /// For each gram of it 1 if it is mixed.
    mixed: Box<[u8; CHUNK + PADDING]>,
}

/// Lets loops run over whole vectors and read beyond the last gram.
const PADDING: usize = 64;

impl Default for BlockFilterBuilder {
    fn default() -> BlockFilterBuilder {
        BlockFilterBuilder::new()
    }
}

impl BlockFilterBuilder {
    /// A builder that has seen nothing.
    #[must_use]
    pub fn new() -> BlockFilterBuilder {
        BlockFilterBuilder {
            grams: Box::new([0; 2 * SLICES]),
            metadata: Box::new([0; SLICES]),
            has_metadata: false,
            line_bytes: 0,
            lower: Box::new([0; CHUNK + PADDING]),
            words: Box::new([0; CHUNK + PADDING]),
            mixed: Box::new([0; CHUNK + PADDING]),
        }
    }

    /// Adds lines that stand one after another: line *i* begins where line *i* - 1
    /// ends, the first at 0.
    ///
    /// # Panics
    /// If `line_ends` decrease or lie outside of `lines`.
    pub fn add_lines(&mut self, lines: &[u8], line_ends: &[u32]) {
        // The piece of `lines` that is prepared. It may hold many lines or part of one.
        let mut chunk = 0..0;
        let mut start = 0;
        for &end in line_ends {
            let end = end as usize;
            assert!(start <= end && end <= lines.len(), "line ends are in order and in bounds");
            self.line_bytes += (end - start) as u64;
            while end - start >= GRAM_LEN {
                if start + GRAM_LEN > chunk.end {
                    chunk = start..lines.len().min(start + CHUNK);
                    self.prepare(&lines[chunk.clone()]);
                }
                let grams_end = end.min(chunk.end) - (GRAM_LEN - 1);
                self.insert_grams(start - chunk.start..grams_end - chunk.start);
                start = grams_end;
            }
            start = end;
        }
    }

    /// Adds a line.
    pub fn add_line(&mut self, line: &[u8]) {
        self.line_bytes += line.len() as u64;
        let mut rest = line;
        while rest.len() >= GRAM_LEN {
            let chunk = &rest[..rest.len().min(CHUNK)];
            let grams = chunk.len() - (GRAM_LEN - 1);
            self.prepare(chunk);
            self.insert_grams(0..grams);
            rest = &rest[grams..];
        }
    }

    /// Puts at most [`CHUNK`] bytes into the buffers.
    fn prepare(&mut self, chunk: &[u8]) {
        // What lies behind the chunk in the buffers is left over and not used.
        let padded = chunk.len().next_multiple_of(32);
        self.lower[..chunk.len()].copy_from_slice(chunk);
        let lower = &mut self.lower[..padded];
        lower.make_ascii_lowercase();
        for (word, &byte) in self.words[..padded].iter_mut().zip(lower.iter()) {
            *word = word_flag(byte);
        }
        let words = &self.words[..padded + GRAM_LEN - 1];
        for (at, mixed) in self.mixed[..padded].iter_mut().enumerate() {
            let all = words[at] & words[at + 1] & words[at + 2] & words[at + 3] & words[at + 4];
            *mixed = all ^ 1;
        }
    }

    /// Adds the grams that begin at these places of the chunk.
    fn insert_grams(&mut self, places: Range<usize>) {
        // Four at a time, as the loop itself costs a quarter of one; up to three of the
        // last grams come twice then.
        let fours = if places.len() < 4 { 0..0 } else { places.clone() };
        let mixed = self.mixed[fours.clone()].chunks_exact(4);
        let windows = self.lower[fours.start..fours.end + 7].windows(11).step_by(4);
        for (window, mixed) in windows.zip(mixed) {
            for at in 0..4 {
                insert_gram(&mut self.grams, &window[at..at + 8], mixed[at]);
            }
        }
        for place in places.end.saturating_sub(3).max(places.start)..places.end {
            insert_gram(&mut self.grams, &self.lower[place..place + 8], self.mixed[place]);
        }
    }

    /// Adds a pair of structured metadata that an entry of the block has. Adding a pair
    /// again changes nothing, so it is enough to add every distinct one.
    pub fn add_metadata(&mut self, name: &[u8], value: &[u8]) {
        self.has_metadata = true;
        let name_hash = hash_of_name(name);
        let pair_hash = hash_of_pair(name_hash, value);
        for key in metadata_keys(name_hash).chain(metadata_keys(pair_hash)) {
            insert(&mut self.metadata, key);
        }
    }

    /// The filter of what was added since the last call. The builder is empty again.
    pub fn finish(&mut self) -> BlockFilter {
        let text = self.finish_text();
        let metadata = self.finish_metadata();
        BlockFilter { text, metadata }
    }

    fn finish_text(&mut self) -> Folded {
        let (words, mixed) = self.grams.split_at_mut(SLICES);
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

    fn finish_metadata(&mut self) -> Folded {
        if !std::mem::take(&mut self.has_metadata) {
            return Folded::empty();
        }
        let keys = estimated_keys(ones(self.metadata.iter().copied()));
        let bits = bits_per_slice((keys * BITS_PER_METADATA_KEY).max(1.0));
        let folded = Folded::new(&self.metadata[..], bits, false);
        self.metadata.fill(0);
        if folded.load() > MAX_LOAD { Folded::unknown() } else { folded }
    }
}

/// Adds the gram at the start of eight bytes; `mixed` is 0 or 1.
fn insert_gram(grams: &mut [u64; 2 * SLICES], bytes: &[u8], mixed: u8) {
    let key = Key::of_gram(bytes.try_into().expect("eight bytes"));
    // Without a branch, which nobody could predict, and without a bounds check.
    let hash = key.0 >> 1 | u64::from(mixed) << 63;
    grams[(hash >> 51) as usize] |= 1 << (hash >> 45 & 63);
}

fn ones(words: impl Iterator<Item = u64>) -> u64 {
    words.map(|word| u64::from(word.count_ones())).sum()
}

/// How many bits each slice gets when the bitmap shall have about so many.
fn bits_per_slice(bits: f64) -> usize {
    ((bits / SLICES as f64).round() as usize).clamp(1, SLICE_BITS)
}

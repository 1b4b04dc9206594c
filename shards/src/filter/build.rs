//! The filter of one block, made from its lines and metadata.

use super::bitmap::{Bitmap, Folded, estimated_keys, insert};
use super::keys::{
    GRAM_LEN, Key, SLICE_BITS, SLICES, hash_of_name, hash_of_pair, metadata_keys, word_flag,
};

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
    /// All grams but those in `rest`.
    kept: Box<Bitmap>,
    /// The mixed grams that are left out of large filters.
    rest: Box<Bitmap>,
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
            kept: Box::new([0; SLICES]),
            rest: Box::new([0; SLICES]),
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
        let mut start = 0;
        for &end in line_ends {
            self.add_line(&lines[start..end as usize]);
            start = end as usize;
        }
    }

    /// Adds a line.
    pub fn add_line(&mut self, line: &[u8]) {
        self.line_bytes += line.len() as u64;
        let mut rest = line;
        while rest.len() >= GRAM_LEN {
            let chunk = &rest[..rest.len().min(CHUNK)];
            self.add_chunk(chunk);
            // The next chunk repeats what the grams across the cut begin with.
            rest = &rest[chunk.len() - (GRAM_LEN - 1)..];
        }
    }

    /// Adds the grams of at most [`CHUNK`] bytes.
    fn add_chunk(&mut self, chunk: &[u8]) {
        let grams = chunk.len() - (GRAM_LEN - 1);
        // What lies behind the chunk in the buffers is left over and not used.
        let padded = chunk.len().next_multiple_of(32);
        self.lower[..chunk.len()].copy_from_slice(chunk);
        let lower = &mut self.lower[..padded];
        lower.make_ascii_lowercase();
        let words = &mut self.words[..padded];
        for (word, &byte) in words.iter_mut().zip(lower.iter()) {
            *word = word_flag(byte);
        }
        let words = &self.words[..padded + GRAM_LEN - 1];
        for (at, mixed) in self.mixed[..padded].iter_mut().enumerate() {
            let all = words[at] & words[at + 1] & words[at + 2] & words[at + 3] & words[at + 4];
            *mixed = all ^ 1;
        }
        let windows = self.lower[..grams + 7].windows(8);
        for (window, &mixed) in windows.zip(&self.mixed[..grams]) {
            let key = Key::of_gram(window.try_into().expect("windows of eight bytes"));
            let bitmap = if mixed != 0 && !key.is_kept_when_mixed() {
                &mut self.rest
            } else {
                &mut self.kept
            };
            insert(bitmap, key);
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
        let kept_keys = estimated_keys(ones(self.kept.iter().copied()));
        let union = self.kept.iter().zip(self.rest.iter()).map(|(&kept, &rest)| kept | rest);
        let all_bits = ones(union);
        let line_bits = std::mem::take(&mut self.line_bytes) as f64 * 8.0;
        if all_bits == 0 {
            return Folded::empty();
        }
        let whole_bits = estimated_keys(all_bits) * BITS_PER_GRAM;
        let folded = if whole_bits <= line_bits * WHOLE_SHARE {
            self.kept.iter_mut().zip(self.rest.iter()).for_each(|(kept, rest)| *kept |= rest);
            Folded::new(&self.kept, bits_per_slice(whole_bits), false)
        } else {
            let bits = (kept_keys * BITS_PER_GRAM).min(line_bits * MAX_SHARE);
            Folded::new(&self.kept, bits_per_slice(bits), true)
        };
        self.kept.fill(0);
        self.rest.fill(0);
        if folded.load() > MAX_LOAD { Folded::unknown() } else { folded }
    }

    fn finish_metadata(&mut self) -> Folded {
        if !std::mem::take(&mut self.has_metadata) {
            return Folded::empty();
        }
        let keys = estimated_keys(ones(self.metadata.iter().copied()));
        let bits = bits_per_slice((keys * BITS_PER_METADATA_KEY).max(1.0));
        let folded = Folded::new(&self.metadata, bits, false);
        self.metadata.fill(0);
        if folded.load() > MAX_LOAD { Folded::unknown() } else { folded }
    }
}

fn ones(words: impl Iterator<Item = u64>) -> u64 {
    words.map(|word| u64::from(word.count_ones())).sum()
}

/// How many bits each slice gets when the bitmap shall have about so many.
fn bits_per_slice(bits: f64) -> usize {
    ((bits / SLICES as f64).round() as usize).clamp(1, SLICE_BITS)
}

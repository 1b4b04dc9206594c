//! Grams one by one, for any CPU.

use std::ops::Range;

use super::super::keys::{GRAM_LEN, Key, word_flag};
use super::Bits;

/// Bytes that are compared at once.
const CHUNK: usize = 4096;

/// Bytes after the last gram that loops over whole vectors may read.
const PADDING: usize = 64;

/// Bytes that are prepared for the loop that sets bits.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Part of the lines in lower case.
    lower: Box<[u8; CHUNK + PADDING]>,
    /// For each byte 1 if it is a byte of unmixed grams.
    words: Box<[u8; CHUNK + PADDING]>,
    /// For each gram 1 if it is mixed.
    mixed: Box<[u8; CHUNK + PADDING]>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers {
            lower: Box::new([0; CHUNK + PADDING]),
            words: Box::new([0; CHUNK + PADDING]),
            mixed: Box::new([0; CHUNK + PADDING]),
        }
    }

    /// Sets the bits of the grams of all lines. The ends must be checked.
    pub(super) fn add_lines(&mut self, bits: &mut Bits, lines: &[u8], line_ends: &[u32]) {
        // The prepared piece of `lines`. It may have many lines or a part of one.
        let mut chunk = 0..0;
        let mut before: &[u8] = &[];
        let mut line_start = 0;
        for &line_end in line_ends {
            let line_end = line_end as usize;
            let line = &lines[line_start..line_end];
            let fresh = fresh_bytes(line, before);
            let (mut start, end) = (line_start + fresh.start, line_start + fresh.end);
            while start + GRAM_LEN <= end {
                if start + GRAM_LEN > chunk.end {
                    chunk = start..lines.len().min(start + CHUNK);
                    self.prepare(&lines[chunk.clone()]);
                }
                let grams_end = end.min(chunk.end) - (GRAM_LEN - 1);
                self.insert_grams(bits, start - chunk.start..grams_end - chunk.start);
                start = grams_end;
            }
            (before, line_start) = (line, line_end);
        }
    }

    /// Puts at most [`CHUNK`] bytes into the buffers.
    fn prepare(&mut self, chunk: &[u8]) {
        // Bytes after the chunk are from the last piece, and unused.
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

    /// Adds the grams that begin in this range of the chunk.
    fn insert_grams(&mut self, bits: &mut Bits, places: Range<usize>) {
        // Four at a time, because an iteration costs a quarter of a gram. Up to three of the last
        // grams are added twice.
        let fours = if places.len() < 4 { 0..0 } else { places.clone() };
        let mixed = self.mixed[fours.clone()].chunks_exact(4);
        let windows = self.lower[fours.start..fours.end + 7].windows(11).step_by(4);
        for (window, mixed) in windows.zip(mixed) {
            for at in 0..4 {
                insert_gram(bits, &window[at..at + 8], mixed[at]);
            }
        }
        for place in places.end.saturating_sub(3).max(places.start)..places.end {
            insert_gram(bits, &self.lower[place..place + 8], self.mixed[place]);
        }
    }
}

/// The bytes of a line without its common prefix and suffix with the last line, but with as many
/// of their bytes as grams of the rest have.
fn fresh_bytes(line: &[u8], before: &[u8]) -> Range<usize> {
    let same_start = common_len(line.chunks_exact(8), before.chunks_exact(8));
    let rest = &line[same_start.min(line.len())..];
    let same_end = common_len(rest.rchunks_exact(8), before.rchunks_exact(8));
    let (beyond, end) = (GRAM_LEN - 1, line.len() - same_end);
    same_start.saturating_sub(beyond)..line.len().min(end + beyond)
}

/// Bytes of the equal chunks at the beginning or end of two lines.
fn common_len<'a>(a: impl Iterator<Item = &'a [u8]>, b: impl Iterator<Item = &'a [u8]>) -> usize {
    let number = |chunk: &[u8]| chunk.first_chunk::<8>().map(|&eight| u64::from_le_bytes(eight));
    8 * a.zip(b).take_while(|(a, b)| number(a) == number(b)).count()
}

/// Adds the gram at the start of eight bytes; `mixed` is 0 or 1.
fn insert_gram(bits: &mut Bits, bytes: &[u8], mixed: u8) {
    let key = Key::of_gram(bytes.try_into().expect("eight bytes"));
    // Without a branch, which would be unpredictable, and without a bounds check.
    let hash = key.0 >> 1 | u64::from(mixed) << 63;
    bits[(hash >> 51) as usize] |= 1 << (hash >> 45 & 63);
}

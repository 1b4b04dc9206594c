//! What the bytes of a block are, one bit each, 64 bytes to a number.

/// The bytes of one class, and of others that follow from them.
#[derive(Debug, Default)]
pub(super) struct Classes {
    chunks: Vec<Chunk>,
}

/// 64 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    digits: u64,
    /// Where runs of hexadecimal digits begin that are the beginning of a word.
    starts: u64,
    /// Behind runs of hexadecimal digits that are a word, and of digits at the beginning
    /// of a word that goes on with a letter which is no hexadecimal digit, such as a unit.
    word_ends: u64,
    /// Behind quotes that open a text, and where a letter stands behind a mark and a space.
    cuts: u64,
}

/// Classes of 64 bytes, the first one in the lowest bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    /// Letters, digits, underscores and all bytes from 0x80 on.
    words: u64,
    /// Digits and the letters from `a` to `f`.
    hex: u64,
    digits: u64,
    quotes: u64,
    /// What stands before a quote that opens a text.
    openers: u64,
    spaces: u64,
    /// What stands before a space behind which another part of a message begins.
    marks: u64,
}

impl Classes {
    /// Looks at a text.
    pub(super) fn fill(&mut self, text: &[u8]) {
        self.chunks.clear();
        let (chunks, rest) = text.as_chunks::<64>();
        let mut last = [0; 64];
        last[..rest.len()].copy_from_slice(rest);
        // The last bits of the chunk before, and what adding has carried out of it.
        let mut before = Bytes::default();
        let (mut hex_carry, mut digit_carry) = (false, false);
        // One more than there are, so that two successive ones can always be read.
        for chunk in chunks.iter().chain([&last, &[0; 64]]) {
            let bytes = classify(chunk);
            let shifted = |bits: u64, before: u64| bits << 1 | before >> 63;
            let starts = bytes.hex & !shifted(bytes.words, before.words);
            let hex_ends = run_ends(bytes.hex, starts, &mut hex_carry);
            let digit_ends = run_ends(bytes.digits, starts & bytes.digits, &mut digit_carry);
            let openings = bytes.quotes & shifted(bytes.openers, before.openers);
            let spaces = bytes.spaces & shifted(bytes.marks, before.marks);
            let letters = bytes.words & !bytes.digits;
            self.chunks.push(Chunk {
                digits: bytes.digits,
                starts,
                word_ends: hex_ends & !bytes.words | digit_ends & bytes.words & !bytes.hex,
                cuts: shifted(openings, before.quotes) | shifted(spaces, before.spaces) & letters,
            });
            // Of these only those count that make a cut.
            before = Bytes { quotes: openings, spaces, ..bytes };
        }
    }

    /// Number of chunks of 64 bytes.
    pub(super) fn len(&self) -> usize {
        self.chunks.len().saturating_sub(1)
    }

    /// In a chunk, places behind words of hexadecimal digits, and where texts begin.
    pub(super) fn events(&self, chunk: usize) -> u64 {
        self.chunks[chunk].word_ends | self.chunks[chunk].cuts
    }

    /// Whether a text begins there that is quoted or a part of a message.
    pub(super) fn is_cut(&self, at: usize) -> bool {
        self.chunks[at / 64].cuts >> (at % 64) & 1 == 1
    }

    /// Where the hexadecimal digits begin that end there; `None` if none do that count, or
    /// if there are more than 64.
    pub(super) fn word_before(&self, end: usize) -> Option<usize> {
        let (chunk, shift) = (end / 64, end % 64);
        if self.chunks[chunk].word_ends >> shift & 1 == 0 {
            return None;
        }
        let starts = self.chunks[chunk].starts & !(u64::MAX << shift);
        if starts != 0 {
            return Some(chunk * 64 + 63 - starts.leading_zeros() as usize);
        }
        let starts = self.chunks[chunk.checked_sub(1)?].starts & (u64::MAX << shift);
        (starts != 0).then(|| chunk * 64 - 1 - starts.leading_zeros() as usize)
    }

    /// How many of the `len` bytes, 1 to 64, from `start` on are digits.
    pub(super) fn digits(&self, start: usize, len: usize) -> usize {
        let (chunk, shift) = (start / 64, start % 64);
        let high = self.chunks[chunk + 1].digits.checked_shl(64 - shift as u32).unwrap_or(0);
        let digits = self.chunks[chunk].digits >> shift | high;
        (digits & u64::MAX >> (64 - len)).count_ones() as usize
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// Places behind those runs of `members` that begin at `starts`; `carry` tells whether one
/// comes from the chunk before, and then whether one goes on in the next.
fn run_ends(members: u64, starts: u64, carry: &mut bool) -> u64 {
    // A one that is added to the first of a row of ones ends up behind it.
    let (sum, one) = members.overflowing_add(starts);
    let (sum, two) = sum.overflowing_add(u64::from(*carry));
    *carry = one | two;
    sum & !members
}

#[cfg(target_arch = "x86_64")]
fn classify(bytes: &[u8; 64]) -> Bytes {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_sub_epi8,
    };
    let mut found = Bytes::default();
    for (part, bytes) in bytes.as_chunks::<16>().0.iter().enumerate() {
        // SAFETY: the pointer is to 16 readable bytes, the load has no alignment, and
        // SSE2, which all of these belong to, is part of x86-64.
        let masks = unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>());
            // Whether a byte is one of the `count` that begin with `first`.
            let within = |bytes, first: u8, count: u8| {
                let distance = _mm_sub_epi8(bytes, _mm_set1_epi8(first as i8));
                _mm_cmpeq_epi8(_mm_min_epu8(distance, _mm_set1_epi8(count as i8 - 1)), distance)
            };
            let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            let digit = within(bytes, b'0', 10);
            let hex = _mm_or_si128(digit, within(bytes, b'a', 6));
            let letter = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', 26);
            // The upper bit of each byte counts: it is set from 0x80 on.
            let word = _mm_or_si128(_mm_or_si128(digit, letter), _mm_or_si128(is(b'_'), bytes));
            let (space, colon) = (is(b' '), is(b':'));
            let opener = _mm_or_si128(_mm_or_si128(space, colon), is(b'='));
            let mark = _mm_or_si128(colon, is(b'-'));
            [word, hex, digit, is(b'"'), opener, space, mark].map(|mask| _mm_movemask_epi8(mask))
        };
        let [words, hex, digits, quotes, openers, spaces, marks] =
            masks.map(|mask| u64::from(mask as u16) << (16 * part));
        found.words |= words;
        found.hex |= hex;
        found.digits |= digits;
        found.quotes |= quotes;
        found.openers |= openers;
        found.spaces |= spaces;
        found.marks |= marks;
    }
    found
}

#[cfg(not(target_arch = "x86_64"))]
use classify_each as classify;

#[cfg(any(test, not(target_arch = "x86_64")))]
fn classify_each(bytes: &[u8; 64]) -> Bytes {
    let mask = |is_member: fn(u8) -> bool| {
        bytes.iter().rev().fold(0, |mask, &byte| mask << 1 | u64::from(is_member(byte)))
    };
    Bytes {
        words: mask(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80),
        hex: mask(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        digits: mask(|byte| byte.is_ascii_digit()),
        quotes: mask(|byte| byte == b'"'),
        openers: mask(|byte| matches!(byte, b' ' | b':' | b'=')),
        spaces: mask(|byte| byte == b' '),
        marks: mask(|byte| matches!(byte, b':' | b'-')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rng, SeedGuard, seeds};

    #[test]
    fn all_bytes_are_classified_like_one_by_one() {
        for first in (0..=255).step_by(64) {
            let bytes: [u8; 64] = std::array::from_fn(|at| first as u8 + at as u8);
            assert_eq!(classify(&bytes), classify_each(&bytes));
        }
        for seed in seeds(100) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let bytes = std::array::from_fn(|_| rng.next_u64() as u8);
            assert_eq!(classify(&bytes), classify_each(&bytes));
        }
    }

    /// Words of hexadecimal digits, and cuts, found byte by byte.
    fn expected(text: &[u8]) -> (Vec<(usize, usize)>, Vec<usize>) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let (mut words, mut cuts) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < text.len() {
            let len = text[at..].iter().take_while(|&&byte| is_word(byte)).count();
            if (1..=64).contains(&len) && text[at..at + len].iter().all(is_hex) {
                words.push((at, at + len));
            }
            let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let unit = text.get(at + digits).filter(|byte| is_word(**byte) && !is_hex(byte));
            if (1..=64).contains(&digits) && unit.is_some() {
                words.push((at, at + digits));
            }
            at += len.max(1);
        }
        for at in 1..text.len() {
            let is_letter = |byte: u8| is_word(byte) && !byte.is_ascii_digit();
            let after_quote = text[at] == b'"' && b" :=".contains(&text[at - 1]);
            let after_mark = text[at] == b' ' && b":-".contains(&text[at - 1]);
            if after_quote || after_mark && text.get(at + 1).is_some_and(|&byte| is_letter(byte)) {
                cuts.push(at + 1);
            }
        }
        (words, cuts)
    }

    #[test]
    fn words_and_cuts_are_found_across_chunks() {
        for seed in seeds(500) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let letters = *rng.pick(&[
                &b"0000000 "[..],
                b"0123456789abcdefg ",
                b"a1-",
                b"7",
                b" :=\"x0",
                b" :-y1",
                b"12s ",
            ]);
            let len = rng.below(400);
            let text: Vec<u8> = (0..len).map(|_| *rng.pick(letters)).chain([0]).collect();
            let mut classes = Classes::default();
            classes.fill(&text);
            let (mut words, mut cuts) = (Vec::new(), Vec::new());
            for chunk in 0..classes.len() {
                for at in (0..64).filter(|bit| classes.events(chunk) >> bit & 1 == 1) {
                    let at = chunk * 64 + at;
                    if classes.is_cut(at) {
                        cuts.push(at);
                    }
                    // Words of more than 64 bytes may be found or not.
                    let word = classes.word_before(at).map(|start| (start, at));
                    words.extend(word.filter(|(start, end)| end - start <= 64));
                }
            }
            assert_eq!((&words, &cuts), (&expected(&text).0, &expected(&text).1));
            for (start, end) in words {
                let digits = text[start..end].iter().filter(|byte| byte.is_ascii_digit());
                assert_eq!(classes.digits(start, end - start), digits.count());
            }
        }
    }
}

//! Classes of the bytes of a block, such as digits: bit masks of 64 bytes each.

/// The bit masks of a text.
#[derive(Debug, Default)]
pub(super) struct Classes {
    chunks: Vec<Chunk>,
}

/// How many bytes of a range are digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digits {
    None,
    Some,
    All,
}

/// The masks of 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chunk {
    digits: u64,
    /// First bytes of sequences of hexadecimal digits at the beginning of a word.
    starts: u64,
    /// Bytes after a word of hexadecimal digits, and after digits at the beginning of a word that
    /// continues with another letter, such as a unit.
    word_ends: u64,
    /// Bytes after a quote that opens a text, and letters after a punctuation mark and a space.
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
    /// Bytes before a quote that opens a text.
    openers: u64,
    spaces: u64,
    /// Bytes before a space after which another part of a message begins.
    marks: u64,
}

impl Classes {
    /// Computes the masks of a text.
    pub(super) fn fill(&mut self, text: &[u8]) {
        self.chunks.clear();
        // One chunk more than the text has, so that two successive chunks can always be read.
        self.chunks.reserve(text.len() / 64 + 2);
        #[cfg(target_arch = "x86_64")]
        if avx512::is_there() {
            // SAFETY: the CPU has the features.
            unsafe { avx512::fill(&mut self.chunks, text) };
            return;
        }
        fill_by(&mut self.chunks, text, classify);
    }

    /// In a chunk, the bytes after words of hexadecimal digits, and the first bytes of texts.
    #[inline]
    pub(super) fn events(&self, chunk: usize) -> u64 {
        self.chunks[chunk].word_ends | self.chunks[chunk].cuts
    }

    /// Whether a quoted text or a part of a message begins at this byte.
    #[inline]
    pub(super) fn is_cut(&self, at: usize) -> bool {
        self.chunks[at / 64].cuts >> (at % 64) & 1 == 1
    }

    /// The start of the sequence of hexadecimal digits that ends there; `None` if there is no such
    /// sequence at the beginning of a word, or if it is longer than 64 digits.
    #[inline]
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

    /// Whether the `len` bytes, 1 to 64, from `start` on are digits.
    #[inline]
    pub(super) fn digits(&self, start: usize, len: usize) -> Digits {
        let (chunk, shift) = (start / 64, start % 64);
        // In two steps, since a shift by 64 would overflow.
        let high = self.chunks[chunk + 1].digits << (63 - shift) << 1;
        let all = u64::MAX >> (64 - len);
        match (self.chunks[chunk].digits >> shift | high) & all {
            0 => Digits::None,
            digits if digits == all => Digits::All,
            _ => Digits::Some,
        }
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// Appends the chunks of a text and an empty chunk. `classify` computes the classes of 64
/// bytes.
#[inline(always)]
fn fill_by(chunks: &mut Vec<Chunk>, text: &[u8], classify: impl Fn(&[u8; 64]) -> Bytes) {
    let (whole, rest) = text.as_chunks::<64>();
    let mut carried = Carried::default();
    for bytes in whole {
        chunks.push(carried.next(classify(bytes)));
    }
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    chunks.push(carried.next(classify(&last)));
    chunks.push(carried.next(Bytes::default()));
}

/// State from one chunk to the next.
#[derive(Default)]
struct Carried {
    /// Quotes and spaces that make a cut.
    before: Bytes,
    /// Whether the last addition has carried.
    hex: bool,
    digits: bool,
}

impl Carried {
    #[inline(always)]
    fn next(&mut self, bytes: Bytes) -> Chunk {
        let before = self.before;
        let shifted = |bits: u64, before: u64| bits << 1 | before >> 63;
        let starts = bytes.hex & !shifted(bytes.words, before.words);
        let hex_ends = run_ends(bytes.hex, starts, &mut self.hex);
        let digit_ends = run_ends(bytes.digits, starts & bytes.digits, &mut self.digits);
        let openings = bytes.quotes & shifted(bytes.openers, before.openers);
        let spaces = bytes.spaces & shifted(bytes.marks, before.marks);
        let letters = bytes.words & !bytes.digits;
        let chunk = Chunk {
            digits: bytes.digits,
            starts,
            word_ends: hex_ends & !bytes.words | digit_ends & bytes.words & !bytes.hex,
            cuts: shifted(openings, before.quotes) | shifted(spaces, before.spaces) & letters,
        };
        self.before = Bytes { quotes: openings, spaces, ..bytes };
        chunk
    }
}

/// The bytes after those sequences of `members` that begin at `starts`. `carry` says whether a
/// sequence comes from the last chunk, and is set if one continues in the next chunk.
#[inline(always)]
fn run_ends(members: u64, starts: u64, carry: &mut bool) -> u64 {
    // Adding a one to the first of a sequence of ones moves it behind the sequence.
    let (sum, one) = members.overflowing_add(starts);
    let (sum, two) = sum.overflowing_add(u64::from(*carry));
    *carry = one | two;
    sum & !members
}

/// For CPUs that compare 64 bytes at once.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_cmpeq_epi8_mask, _mm512_cmplt_epu8_mask, _mm512_loadu_epi8,
        _mm512_movepi8_mask, _mm512_or_si512, _mm512_set1_epi8, _mm512_sub_epi8,
    };

    use super::{Bytes, Chunk, fill_by};

    pub(super) fn is_there() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
    }

    /// See [`fill_by`].
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn fill(chunks: &mut Vec<Chunk>, text: &[u8]) {
        fill_by(chunks, text, |bytes| classify(bytes));
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn classify(bytes: &[u8; 64]) -> Bytes {
        // SAFETY: the pointer is to 64 readable bytes, and the load has no alignment.
        let bytes = unsafe { _mm512_loadu_epi8(bytes.as_ptr().cast()) };
        let digits = within(bytes, b'0', 10);
        let hex = digits | within(bytes, b'a', 6);
        let letters = within(_mm512_or_si512(bytes, _mm512_set1_epi8(0x20)), b'a', 26);
        let (spaces, colons) = (are(bytes, b' '), are(bytes, b':'));
        Bytes {
            words: digits | letters | are(bytes, b'_') | _mm512_movepi8_mask(bytes),
            hex,
            digits,
            quotes: are(bytes, b'"'),
            openers: spaces | colons | are(bytes, b'='),
            spaces,
            marks: colons | are(bytes, b'-'),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn are(bytes: __m512i, byte: u8) -> u64 {
        _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte as i8))
    }

    /// The bytes from `first` to `first + count - 1`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn within(bytes: __m512i, first: u8, count: i8) -> u64 {
        let distances = _mm512_sub_epi8(bytes, _mm512_set1_epi8(first as i8));
        _mm512_cmplt_epu8_mask(distances, _mm512_set1_epi8(count))
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
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
            // The bytes from `first` to `first + count - 1`.
            let within = |bytes, first: u8, count: u8| {
                let distance = _mm_sub_epi8(bytes, _mm_set1_epi8(first as i8));
                _mm_cmpeq_epi8(_mm_min_epu8(distance, _mm_set1_epi8(count as i8 - 1)), distance)
            };
            let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            let mask = |members| u64::from(_mm_movemask_epi8(members) as u16);
            let digit = within(bytes, b'0', 10);
            let hex = _mm_or_si128(digit, within(bytes, b'a', 6));
            let letter = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', 26);
            // The mask is of the upper bits, which bytes from 0x80 on have.
            let word = _mm_or_si128(_mm_or_si128(digit, letter), _mm_or_si128(is(b'_'), bytes));
            let (space, colon) = (is(b' '), is(b':'));
            Bytes {
                words: mask(word),
                hex: mask(hex),
                digits: mask(digit),
                quotes: mask(is(b'"')),
                openers: mask(_mm_or_si128(_mm_or_si128(space, colon), is(b'='))),
                spaces: mask(space),
                marks: mask(_mm_or_si128(colon, is(b'-'))),
            }
        };
        let shift = 16 * part;
        found.words |= masks.words << shift;
        found.hex |= masks.hex << shift;
        found.digits |= masks.digits << shift;
        found.quotes |= masks.quotes << shift;
        found.openers |= masks.openers << shift;
        found.spaces |= masks.spaces << shift;
        found.marks |= masks.marks << shift;
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
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn all_bytes_are_classified_like_one_by_one() {
        for first in (0..=255).step_by(64) {
            let bytes: [u8; 64] = std::array::from_fn(|at| first as u8 + at as u8);
            check(&bytes);
        }
        for seed in seeds(100) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            check(&std::array::from_fn(|_| rng.next_u64() as u8));
        }
    }

    fn check(bytes: &[u8; 64]) {
        let expected = classify_each(bytes);
        assert_eq!(classify(bytes), expected);
        #[cfg(target_arch = "x86_64")]
        if avx512::is_there() {
            // SAFETY: the CPU has the features.
            assert_eq!(unsafe { avx512::classify(bytes) }, expected);
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
            let mut others = Vec::new();
            fill_by(&mut others, &text, classify_each);
            assert_eq!(classes.chunks, others);
            let (mut words, mut cuts) = (Vec::new(), Vec::new());
            for chunk in 0..classes.chunks.len() - 1 {
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
                let digits = text[start..end].iter().filter(|byte| byte.is_ascii_digit()).count();
                let expected = match end - start - digits {
                    0 => Digits::All,
                    others if others == end - start => Digits::None,
                    _ => Digits::Some,
                };
                assert_eq!(classes.digits(start, end - start), expected);
            }
        }
    }
}

//! Looking for the ends of short texts eight bytes at a time: fields of log lines, strings of
//! JSON pushes.
//!
//! Keys and values of log lines are mostly so short that the start of a vectorised
//! search costs more than the search. A word of eight bytes is tested with a few additions: in
//! `word - low_bits & !word` the high bit of the lowest byte that is less than the
//! bound is set, and below it no other bit is (H. Warren, Hacker's Delight, 6-1;
//! bytes above the lowest hit may be wrong, so only that one is used).

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Words that are tested before a vectorised search takes over.
const SHORT_WORDS: usize = 4;

/// The high bits of the bytes that equal `byte`, right for the lowest one.
fn equal(word: u64, byte: u8) -> u64 {
    let distance = word ^ (LOW * u64::from(byte));
    distance.wrapping_sub(LOW) & !distance & HIGH
}

/// The high bits of the bytes less than `bound`, at most 128, right for the lowest
/// one.
fn less(word: u64, bound: u8) -> u64 {
    word.wrapping_sub(LOW * u64::from(bound)) & !word & HIGH
}

#[inline]
fn word_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn lowest(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 8
}

/// How many bytes of `word`, whose first byte is its lowest, come before a backslash: 8 if it
/// has none.
#[inline(always)]
pub fn bytes_before_backslash(word: u64) -> usize {
    // There are 64 zeros below no bit.
    lowest(equal(word, b'\\'))
}

/// The position of the first quote or backslash at or behind `from`.
#[inline(always)]
pub fn quote_or_backslash(data: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    for _ in 0..SHORT_WORDS {
        let Some(word) = word_at(data, at) else {
            let rest = data.get(at..)?;
            return rest.iter().position(|b| matches!(b, b'"' | b'\\')).map(|len| at + len);
        };
        let hits = equal(word, b'"') | equal(word, b'\\');
        if hits != 0 {
            return Some(at + lowest(hits));
        }
        at += 8;
    }
    memchr::memchr2(b'"', b'\\', &data[at..]).map(|len| at + len)
}

/// The position of the first byte at or behind `from` that ends a bare word of
/// logfmt: a space, a control character, `=` or a quote. The length when there is
/// none.
#[inline(always)]
pub fn bare_word_end(data: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(word) = word_at(data, at) {
        let hits = less(word, b' ' + 1) | equal(word, b'=') | equal(word, b'"');
        if hits != 0 {
            return at + lowest(hits);
        }
        at += 8;
    }
    let is_end = |b: &u8| *b <= b' ' || *b == b'=' || *b == b'"';
    data[at..].iter().position(is_end).map_or(data.len(), |len| at + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Letters, other bytes, and the bytes that are searched for and their like.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        let marks = b"\"\\= \n\x00\x1f!\x7f\x80\x81\xa2\xdc\xff#]<>";
        let mark = prop::sample::select(&marks[..]);
        prop::collection::vec(
            prop_oneof![12 => b'a'..=b'z', 12 => 0x80..=0xff_u8, 1 => mark],
            0..60,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn words_find_what_bytes_find(bytes in texts()) {
            for from in 0..=bytes.len() {
                let rest = &bytes[from..];
                let quote = rest.iter().position(|b| matches!(b, b'"' | b'\\'));
                prop_assert_eq!(quote_or_backslash(&bytes, from), quote.map(|at| from + at));
                let end = rest.iter().position(|b| *b <= b' ' || matches!(b, b'=' | b'"'));
                prop_assert_eq!(bare_word_end(&bytes, from), end.map_or(bytes.len(), |at| from + at));
                if let Some(word) = word_at(&bytes, from) {
                    let before = rest[..8].iter().position(|b| *b == b'\\');
                    prop_assert_eq!(bytes_before_backslash(word), before.unwrap_or(8));
                }
            }
        }
    }

    #[test]
    fn nothing_is_behind_the_end() {
        assert_eq!(quote_or_backslash(b"ab", 3), None);
    }
}

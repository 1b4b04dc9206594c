//! Finds the tokens of lines: numbers, times, and positions at which another text begins. The key
//! of a token is equal for tokens at similar places of lines.

use std::ops::Range;

use super::classes::{Classes, Digits};
use super::text::{Text, upper};
use super::times::{self, Layout, Seen as SeenTime};
use super::{MAX_DECIMAL_DIGITS, MAX_HEX_DIGITS};

/// Shorter sequences of hexadecimal digits with letters stay text: they may be words.
const MIN_HEX_RUN: usize = 4;
/// Bytes before a number that are in its key: enough for `":` and the end of a name, and few
/// enough that numbers after `/api/orders/` and `/api/users/` mostly share a column.
const CONTEXT_BYTES: usize = 4;
/// Bytes before a time that are in its key. Few lines have several times.
const TIME_CONTEXT_BYTES: usize = 2;

/// A number in a line, or the empty text at the beginning of a quoted one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) key: u64,
    /// Its start in the text.
    pub(super) start: u32,
    pub(super) len: u8,
    /// Whether some of its digits are letters.
    pub(super) letters: bool,
    /// Its value as a time.
    pub(super) time: Option<SeenTime>,
}

/// Calls `visit` with the numbers and cuts of a line after `from` until it returns true. `from`
/// is the beginning of the line, or the end of a number or a cut with the key `key`.
#[inline]
pub(super) fn walk(
    classes: &Classes,
    text: &Text,
    line: Range<usize>,
    mut from: usize,
    mut key: u64,
    mut visit: impl FnMut(&Token) -> bool,
) {
    let bytes = text.bytes();
    let mut piece = from;
    // Events at `from` itself belong to the token that ends there.
    let mut mask = (u64::MAX << (from % 64)) << 1;
    for chunk in from / 64..=line.end / 64 {
        let mut events = classes.events(chunk) & mask;
        mask = u64::MAX;
        while events != 0 {
            let at = chunk * 64 + events.trailing_zeros() as usize;
            events &= events - 1;
            if at > line.end {
                return;
            }
            if at < from {
                // Within a time.
                continue;
            }
            let Some(start) = classes.word_before(at) else {
                if classes.is_cut(at) {
                    let before = upper(bytes, at, (at - line.start).min(8), 0);
                    key = mix(!before);
                    piece = at;
                    let start = at as u32;
                    if visit(&Token { key, start, len: 0, letters: false, time: None }) {
                        return;
                    }
                }
                continue;
            };
            // A long number may be divided there.
            let mut start = start.max(from);
            let len = at - start;
            if len == 0 {
                continue;
            }
            let digits = classes.digits(start, len);
            if digits == Digits::All
                && let Some(time) = times::recognize(bytes, start, len, &text.dates)
            {
                key = time_key(bytes, line.start, start, time.layout);
                let (start, len) = (start as u32, time.layout.len() as u8);
                if visit(&Token { key, start, len, letters: false, time: Some(time) }) {
                    return;
                }
                from = start as usize + usize::from(len);
                piece = from;
                continue;
            }
            let longest = match digits {
                Digits::All if len <= usize::from(MAX_DECIMAL_DIGITS) => MAX_DECIMAL_DIGITS,
                Digits::Some if len >= MIN_HEX_RUN => MAX_HEX_DIGITS,
                _ => continue,
            };
            let letters = digits == Digits::Some;
            while start < at {
                let end = at.min(start + usize::from(longest));
                key = place_key(key, bytes, piece, start);
                let len = (end - start) as u8;
                if visit(&Token { key, start: start as u32, len, letters, time: None }) {
                    return;
                }
                (start, piece) = (end, end);
            }
        }
    }
}

/// The key of a number at `at`. The last number of the line ends at `piece` and has the key
/// `before`; without one, `piece` is the beginning of the line.
fn place_key(before: u64, text: &[u8], piece: usize, at: usize) -> u64 {
    let len = (at - piece).min(CONTEXT_BYTES);
    let near = upper(text, at, len, 0);
    let before = if len < CONTEXT_BYTES { before.rotate_left(23) ^ len as u64 } else { 0 };
    mix(before ^ near)
}

/// The key of a time at `at` in a line. It depends on few bytes: the fragments after a time
/// depend little on the text before it, and would be stored once for each key.
fn time_key(text: &[u8], line_start: usize, at: usize, layout: Layout) -> u64 {
    let near = &text[line_start.max(at - TIME_CONTEXT_BYTES)..at];
    // The last digit of a number before the time is arbitrary.
    let kind = |byte: &u8| if byte.is_ascii_digit() { b'0' } else { *byte };
    let near = near.iter().fold(0, |near, byte| near << 8 | u64::from(kind(byte)));
    mix(near << 8 | u64::from(layout.to_byte()) | 1 << 63)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

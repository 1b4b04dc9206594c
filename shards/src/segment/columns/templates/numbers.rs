//! Finds the numbers of a block's lines, and other places where lines are cut, and
//! decides which of them get columns.

use super::classes::Classes;
use super::{Form, MAX_COLUMNS, MAX_DECIMAL_DIGITS, MAX_HEX_DIGITS};

/// A place gets a column from this many numbers on.
const COLUMN_FROM_COUNT: u32 = 24;
/// A place gets a column if its numbers have at least this many of 64 hashes: the few
/// values of a status or an hour are better off in segments.
const COLUMN_FROM_SPREAD: u32 = 20;
/// Lines are cut at the beginning of a quoted text if that begins in different ways.
const CUT_FROM_SPREAD: u32 = 2;
/// Shorter runs of hexadecimal digits with letters stay text: they may be words.
const MIN_HEX_RUN: usize = 4;
/// Slots of the table of places, a power of two.
const TABLE_LEN: usize = 8192;
/// Places beyond these stay text.
const MAX_PLACES: usize = TABLE_LEN / 2;

const VACANT: u16 = u16::MAX;

/// Bytes before the first line, so that the eight before any place can be read.
pub(super) const PADDING: usize = 16;

/// A number in the lines, or the empty text at the beginning of a quoted one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// Where it begins in [`Numbers::text`].
    pub(super) start: u32,
    pub(super) len: u8,
    /// Whether some of its digits are letters.
    letters: bool,
    place: u16,
    /// As a hexadecimal number if it has letters, as a decimal one if not.
    value: u64,
}

/// Where in their lines some numbers stand, and what they have in common.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    count: u32,
    min_len: u8,
    max_len: u8,
    letters: bool,
    /// One bit per hash of a number.
    spread: u64,
    column: Option<(u8, Form)>,
}

impl Place {
    fn form(&self) -> Option<Form> {
        let fixed = self.min_len == self.max_len;
        match (self.letters, fixed) {
            (false, true) if self.max_len == 0 => Some(Form::Nothing),
            (true, true) => Some(Form::FixedHex(self.max_len)),
            (true, false) => None,
            (false, true) => Some(Form::FixedDecimal(self.max_len)),
            (false, false) => Some(Form::Decimal),
        }
    }

    fn deserves_column(&self) -> bool {
        let from = if self.max_len == 0 { CUT_FROM_SPREAD } else { COLUMN_FROM_SPREAD };
        self.count >= COLUMN_FROM_COUNT && self.spread.count_ones() >= from && self.form().is_some()
    }
}

/// The numbers of one block after another, with the same buffers.
#[derive(Debug)]
pub(super) struct Numbers {
    classes: Classes,
    /// [`PADDING`] zeros, and then the lines, each followed by a zero byte, which is no
    /// part of a word.
    pub(super) text: Vec<u8>,
    pub(super) tokens: Vec<Token>,
    places: Vec<Place>,
    /// Open addressing: numbers of places by their keys.
    table: Box<[u16; TABLE_LEN]>,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers {
            classes: Classes::default(),
            text: Vec::new(),
            tokens: Vec::new(),
            places: Vec::new(),
            table: Box::new([VACANT; TABLE_LEN]),
        }
    }

    /// Finds the numbers of lines that end at `ends`, and returns the forms of the
    /// columns.
    pub(super) fn find(&mut self, lines: &[u8], ends: &[u32]) -> Vec<Form> {
        self.text.clear();
        self.text.resize(PADDING, 0);
        let mut start = 0;
        for &end in ends {
            self.text.extend_from_slice(&lines[start..end as usize]);
            self.text.push(0);
            start = end as usize;
        }
        self.classes.fill(&self.text);
        self.tokens.clear();
        self.places.clear();
        self.table.fill(VACANT);
        self.find_tokens(ends);
        self.assign_columns()
    }

    /// The column of a number, and its value there; `None` if it stays text.
    pub(super) fn column(&self, token: &Token) -> Option<(u8, u64)> {
        let (column, form) = self.places[usize::from(token.place)].column?;
        match form {
            Form::Decimal if self.text[token.start as usize] == b'0' && token.len > 1 => None,
            Form::FixedHex(_) if !token.letters => {
                let end = token.start as usize + usize::from(token.len);
                Some((column, hex_value(&self.text, end, token.len.into())))
            }
            _ => Some((column, token.value)),
        }
    }

    fn find_tokens(&mut self, ends: &[u32]) {
        let mut line_ends = ends.iter().zip(1..).map(|(&end, line)| end as usize + PADDING + line);
        let mut line_end = line_ends.next().unwrap_or(0);
        let (mut key, mut piece, mut line_start) = (0, PADDING, PADDING);
        for chunk in 0..self.classes.len() {
            let mut events = self.classes.events(chunk);
            while events != 0 {
                let at = chunk * 64 + events.trailing_zeros() as usize;
                events &= events - 1;
                // A line ends behind its zero byte, at which a number at its end is found.
                while at >= line_end {
                    line_start = line_end;
                    piece = line_start;
                    key = 0;
                    line_end = line_ends.next().unwrap_or(usize::MAX);
                }
                let Some(start) = self.classes.word_before(at) else {
                    if self.classes.is_cut(at) {
                        self.add_cut(at, line_start);
                    }
                    continue;
                };
                let len = at - start;
                let digits = self.classes.digits(start, len);
                let longest = if digits == len && len <= usize::from(MAX_DECIMAL_DIGITS) {
                    usize::from(MAX_DECIMAL_DIGITS)
                } else if digits == 0 || digits == len || len < MIN_HEX_RUN {
                    continue;
                } else {
                    usize::from(MAX_HEX_DIGITS)
                };
                let mut start = start;
                while start < at {
                    let end = at.min(start + longest);
                    key = place_key(key, &self.text, piece, start);
                    self.add(key, start, end, digits < len);
                    (start, piece) = (end, end);
                }
            }
        }
    }

    fn add(&mut self, key: u64, start: usize, end: usize, letters: bool) {
        let len = end - start;
        let value = if letters {
            hex_value(&self.text, end, len)
        } else {
            decimal_value(&self.text, end, len)
        };
        self.push(key, Token { start: start as u32, len: len as u8, letters, place: 0, value });
    }

    fn add_cut(&mut self, at: usize, line_start: usize) {
        let before = upper(&self.text, at, (at - line_start).min(8), 0);
        let Some(&next) = self.text[at..].first_chunk::<4>() else { return };
        let value = mix(u64::from(u32::from_le_bytes(next)));
        self.push(
            mix(!before),
            Token { start: at as u32, len: 0, letters: false, place: 0, value },
        );
    }

    fn push(&mut self, key: u64, token: Token) {
        let Some(number) = self.place(key) else { return };
        let place = &mut self.places[usize::from(number)];
        place.count += 1;
        place.min_len = place.min_len.min(token.len);
        place.max_len = place.max_len.max(token.len);
        place.letters |= token.letters;
        place.spread |= 1 << (token.value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
        self.tokens.push(Token { place: number, ..token });
    }

    /// The number of the place with this key; `None` if there are too many.
    fn place(&mut self, key: u64) -> Option<u16> {
        let mut slot = key as usize % TABLE_LEN;
        loop {
            match self.table[slot] {
                VACANT if self.places.len() < MAX_PLACES => {
                    let number = self.places.len() as u16;
                    self.table[slot] = number;
                    self.places.push(Place {
                        key,
                        count: 0,
                        min_len: u8::MAX,
                        max_len: 0,
                        letters: false,
                        spread: 0,
                        column: None,
                    });
                    return Some(number);
                }
                VACANT => return None,
                number if self.places[usize::from(number)].key == key => return Some(number),
                _ => slot = (slot + 1) % TABLE_LEN,
            }
        }
    }

    /// Gives the places that deserve one a column, and returns their forms.
    fn assign_columns(&mut self) -> Vec<Form> {
        let mut deserving: Vec<usize> =
            (0..self.places.len()).filter(|&place| self.places[place].deserves_column()).collect();
        deserving.sort_by_key(|&place| std::cmp::Reverse(self.places[place].count));
        deserving.truncate(MAX_COLUMNS);
        let mut forms = Vec::with_capacity(deserving.len());
        for place in deserving {
            let place = &mut self.places[place];
            if let Some(form) = place.form() {
                place.column = Some((forms.len() as u8, form));
                forms.push(form);
            }
        }
        forms
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.tokens.capacity() * size_of::<Token>()
            + self.text.capacity()
            + self.places.capacity() * size_of::<Place>()
            + size_of_val(&*self.table)
            + self.classes.held_bytes()
    }
}

/// The eight bytes before `at`, the first one in the lowest byte.
fn last_eight(text: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(text[at - 8..at].try_into().expect("eight bytes"))
}

/// The last `len` bytes, at most eight, before `end` in the upper bytes, and `filler` in
/// the others.
fn upper(text: &[u8], end: usize, len: usize, filler: u64) -> u64 {
    let kept = u64::MAX.checked_shl(8 * (8 - len as u32)).unwrap_or(0);
    last_eight(text, end) & kept | filler & !kept
}

/// The number in the `len` decimal digits before `end`, at most 18.
fn decimal_value(text: &[u8], end: usize, len: usize) -> u64 {
    let eight = |end, len| {
        let digits = upper(text, end, len, u64::from_le_bytes([b'0'; 8])) & (0x0f * ONES);
        let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
        (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
    };
    if len <= 8 {
        return eight(end, len);
    }
    let above = if len <= 16 {
        eight(end - 8, len - 8)
    } else {
        eight(end - 16, len - 16) * 100_000_000 + eight(end - 8, 8)
    };
    above * 100_000_000 + eight(end, 8)
}

/// The number in the `len` hexadecimal digits before `end`, at most 16.
fn hex_value(text: &[u8], end: usize, len: usize) -> u64 {
    let eight = |end, len| {
        let digits = upper(text, end, len, u64::from_le_bytes([b'0'; 8]));
        let nibbles = (digits & (0x0f * ONES)) + 9 * (digits >> 6 & ONES);
        let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
        (fours << 16 | fours >> 32) & 0xffff_ffff
    };
    if len <= 8 { eight(end, len) } else { eight(end - 8, len - 8) << 32 | eight(end, 8) }
}

/// A one in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The key of a number that stands at `at`, behind a number that ends at `piece` and has
/// the key `before`, or a line that begins there.
fn place_key(before: u64, text: &[u8], piece: usize, at: usize) -> u64 {
    let len = (at - piece).min(8);
    let near = upper(text, at, len, 0);
    let before = if len < 8 { before.rotate_left(23) ^ len as u64 } else { 0 };
    mix(before ^ near)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rng, SeedGuard, seeds};

    #[test]
    fn digits_are_read_eight_at_a_time() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let value = rng.next_u64() >> rng.below(64);
            let mut text = vec![b'9'; PADDING];
            text.extend_from_slice(format!("{value:016x}").as_bytes());
            let shown = format!("{value:x}").len();
            for len in shown..=16 {
                assert_eq!(hex_value(&text, text.len(), len), value);
            }
            let value = value % 1_000_000_000_000_000_000;
            text.truncate(PADDING);
            text.extend_from_slice(format!("{value:018}").as_bytes());
            let shown = value.to_string().len();
            for len in shown..=18 {
                assert_eq!(decimal_value(&text, text.len(), len), value);
            }
        }
    }
}

//! Finds the numbers of lines, and other places where lines are cut, and decides from a
//! sample of a block's lines which of them get columns.
//!
//! Neighbouring blocks are alike, so what the blocks before had counts as well, half as much
//! with each block, and few lines have to be looked at unless they have much that is new.

use std::ops::Range;

use super::classes::{Classes, Digits};
use super::text::{Text, decimal_value, hex_value, upper};
use super::{Form, MAX_COLUMNS, MAX_DECIMAL_DIGITS, MAX_HEX_DIGITS};

/// A place gets a column from this many numbers of a block on.
const COLUMN_FROM_COUNT: u32 = 24;
/// The same for numbers of the lines that were looked at.
const COLUMN_FROM_SAMPLED: u32 = 6;
/// A place gets a column if its numbers have at least this many of 64 hashes: the few
/// values of a status or an hour are better off in segments.
const COLUMN_FROM_SPREAD: u32 = 20;
/// From so many numbers on, those of equal length without leading zeros are taken for
/// numbers that are not padded.
const UNPADDED_FROM_COUNT: u32 = 64;
/// Lines are cut at the beginning of a quoted text if that begins in different ways.
const CUT_FROM_SPREAD: u32 = 2;
/// Shorter runs of hexadecimal digits with letters stay text: they may be words.
const MIN_HEX_RUN: usize = 4;
/// Slots of the table of places, a power of two.
const TABLE_LEN: usize = 8192;
/// A place goes by so many bytes before its numbers: enough for `":` and the end of a name,
/// few enough for the names of `/api/orders/7` and `/api/users/7` to matter little.
const CONTEXT_BYTES: usize = 4;
/// Places beyond these stay text.
const MAX_PLACES: usize = TABLE_LEN / 2;

/// Of blocks with more lines not all are looked at to find the columns.
const SAMPLED_LINES: usize = 256;
/// The same where the places of nearly all numbers are known from blocks before.
const KNOWN_SAMPLED_LINES: usize = 64;
/// Nearly all are known if of so many numbers fewer than one has a place that is not.
const FRESH_SHARE: usize = 4;
/// One line in so many at least is looked at.
const MAX_STRIDE: usize = 8;

const VACANT: u16 = u16::MAX;

/// A number in a line, or the empty text at the beginning of a quoted one.
#[derive(Clone, Copy, Debug)]
struct Token {
    key: u64,
    /// Where it begins in the text.
    start: u32,
    len: u8,
    /// Whether some of its digits are letters.
    letters: bool,
}

/// A number that goes into a column, or a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// Where it begins in the text.
    pub(super) start: u32,
    pub(super) len: u8,
    pub(super) column: u8,
    pub(super) value: u64,
}

/// Where in their lines some numbers stand, and what they have in common.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    /// Numbers of this block, and of those before.
    count: u32,
    min_len: u8,
    max_len: u8,
    letters: bool,
    /// Whether some number begins with a zero that it does not need.
    padded: bool,
    /// One bit per hash of a number.
    spread: u64,
    column: Option<(u8, Form)>,
    /// Whether no block before had it.
    is_fresh: bool,
}

/// What some lines had.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Numbers and cuts.
    tokens: usize,
    /// Those of places that no block before had.
    fresh: usize,
}

impl Place {
    fn form(&self) -> Option<Form> {
        let fixed = self.min_len == self.max_len;
        match (self.letters, fixed) {
            (false, true) if self.max_len == 0 => Some(Form::Nothing),
            (true, true) => Some(Form::FixedHex(self.max_len)),
            (true, false) => None,
            (false, true) if self.padded || self.count < UNPADDED_FROM_COUNT => {
                Some(Form::FixedDecimal(self.max_len))
            }
            (false, _) => Some(Form::Decimal),
        }
    }

    /// Whether the place gets a column, if one in `stride` lines was looked at.
    fn deserves_column(&self, stride: u32) -> bool {
        let from = if self.max_len == 0 {
            CUT_FROM_SPREAD
        } else {
            // Of few random numbers nearly all have hashes of their own.
            COLUMN_FROM_SPREAD.min((self.count * 5).div_ceil(6))
        };
        self.count >= COLUMN_FROM_SAMPLED
            && self.count * stride >= COLUMN_FROM_COUNT
            && self.spread.count_ones() >= from
            && self.form().is_some()
    }
}

/// The places of one block after another, with the same buffers.
#[derive(Debug)]
pub(super) struct Numbers {
    classes: Classes,
    places: Vec<Place>,
    /// Keys of the columns' places.
    column_keys: Vec<u64>,
    /// Open addressing: numbers of places by their keys.
    table: Box<[u16; TABLE_LEN]>,
}

impl Numbers {
    pub(super) fn new() -> Numbers {
        Numbers {
            classes: Classes::default(),
            places: Vec::new(),
            column_keys: Vec::new(),
            table: Box::new([VACANT; TABLE_LEN]),
        }
    }

    /// Looks at some lines of a block, and returns the forms of its columns.
    pub(super) fn learn(&mut self, text: &Text) -> Vec<Form> {
        self.classes.fill(text.bytes());
        self.age();
        let stride = |lines: usize| (text.lines() / lines).clamp(1, MAX_STRIDE).next_power_of_two();
        let (far, near) = (stride(KNOWN_SAMPLED_LINES), stride(SAMPLED_LINES));
        let seen = self.look(text, far, None);
        if seen.fresh * FRESH_SHARE <= seen.tokens || near == far {
            return self.assign_columns(far as u32);
        }
        self.look(text, near, Some(far));
        self.assign_columns(near as u32)
    }

    /// Counts the numbers of one line in `stride`, without those that were looked at when
    /// that was `before`.
    fn look(&mut self, text: &Text, stride: usize, before: Option<usize>) -> Seen {
        let Numbers { classes, places, table, .. } = self;
        let mut seen = Seen::default();
        for line in 0..text.lines() {
            // Neither the first of each few lines nor every so-manyth: lines may come in
            // turns.
            let hash = ((line as u32).wrapping_mul(0x9E37_79B1) >> 16) as usize;
            if hash & (stride - 1) != 0 || before.is_some_and(|before| hash & (before - 1) == 0) {
                continue;
            }
            let (start, end) = text.line(line);
            walk(classes, text.bytes(), start..end, start, 0, |token| {
                seen.tokens += 1;
                seen.fresh += usize::from(count(places, table, text, token));
                false
            });
        }
        seen
    }

    /// Begins with another block: what is known of the ones before counts half as much.
    fn age(&mut self) {
        self.places.retain_mut(|place| {
            place.count /= 2;
            place.column = None;
            place.is_fresh = false;
            place.count > 0
        });
        self.table.fill(VACANT);
        for (place, number) in self.places.iter().zip(0..) {
            let mut slot = place.key as usize % TABLE_LEN;
            while self.table[slot] != VACANT {
                slot = (slot + 1) % TABLE_LEN;
            }
            self.table[slot] = number;
        }
    }

    /// Begins with blocks that have nothing to do with those before.
    pub(super) fn forget(&mut self) {
        self.places.clear();
    }

    /// The first number from `at` on that goes into a column, in a line of the text that
    /// [`Self::learn`] was given last. At `at` the line begins, or something of a column
    /// ends.
    pub(super) fn first_behind(
        &self,
        text: &Text,
        line: Range<usize>,
        at: usize,
        column: Option<u8>,
    ) -> Option<Number> {
        let key = column.map_or(0, |column| self.column_keys[usize::from(column)]);
        let mut found = None;
        walk(&self.classes, text.bytes(), line, at, key, |token| {
            found = self.number(text, token);
            found.is_some()
        });
        found
    }

    /// What a token is in its column; `None` if it stays text.
    fn number(&self, text: &Text, token: &Token) -> Option<Number> {
        let (column, form) = self.find(token.key)?.column?;
        let (start, len) = (token.start as usize, usize::from(token.len));
        let bytes = text.bytes();
        let value = match form {
            Form::Nothing if len == 0 => 0,
            Form::Decimal if !token.letters && (len == 1 || bytes[start] != b'0') => {
                decimal_value(bytes, start + len, len)
            }
            Form::FixedDecimal(digits) if !token.letters && token.len == digits => {
                decimal_value(bytes, start + len, len)
            }
            Form::FixedHex(digits) if token.len == digits => hex_value(bytes, start + len, len),
            _ => return None,
        };
        Some(Number { start: token.start, len: token.len, column, value })
    }

    /// The place with this key; `None` if no line that was looked at has it.
    fn find(&self, key: u64) -> Option<&Place> {
        let mut slot = key as usize % TABLE_LEN;
        loop {
            let place = self.places.get(usize::from(self.table[slot]))?;
            if place.key == key {
                return Some(place);
            }
            slot = (slot + 1) % TABLE_LEN;
        }
    }

    /// Gives the places that deserve one a column, and returns their forms.
    fn assign_columns(&mut self, stride: u32) -> Vec<Form> {
        let deserves = |&place: &usize| self.places[place].deserves_column(stride);
        let mut deserving: Vec<usize> = (0..self.places.len()).filter(deserves).collect();
        deserving.sort_by_key(|&place| std::cmp::Reverse(self.places[place].count));
        deserving.truncate(MAX_COLUMNS);
        let mut forms = Vec::with_capacity(deserving.len());
        self.column_keys.clear();
        for place in deserving {
            let place = &mut self.places[place];
            if let Some(form) = place.form() {
                place.column = Some((forms.len() as u8, form));
                self.column_keys.push(place.key);
                forms.push(form);
            }
        }
        forms
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.column_keys.capacity() * 8
            + self.places.capacity() * size_of::<Place>()
            + size_of_val(&*self.table)
            + self.classes.held_bytes()
    }
}

/// Shows `visit` the numbers and cuts of a line behind `from` until it returns true; `from`
/// is the line's beginning, or behind a number or at a cut with this key.
#[inline]
fn walk(
    classes: &Classes,
    bytes: &[u8],
    line: Range<usize>,
    from: usize,
    mut key: u64,
    mut visit: impl FnMut(&Token) -> bool,
) {
    let mut piece = from;
    // The place itself is no event: what ends or is cut there is done with.
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
            let Some(start) = classes.word_before(at) else {
                if classes.is_cut(at) {
                    let before = upper(bytes, at, (at - line.start).min(8), 0);
                    key = mix(!before);
                    piece = at;
                    if visit(&Token { key, start: at as u32, len: 0, letters: false }) {
                        return;
                    }
                }
                continue;
            };
            // A long one may have been divided there.
            let mut start = start.max(from);
            let len = at - start;
            let digits = classes.digits(start, len);
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
                if visit(&Token { key, start: start as u32, len, letters }) {
                    return;
                }
                (start, piece) = (end, end);
            }
        }
    }
}

/// Counts a number among those of its place; tells whether no block before had that.
fn count(
    places: &mut Vec<Place>,
    table: &mut [u16; TABLE_LEN],
    text: &Text,
    token: &Token,
) -> bool {
    let bytes = text.bytes();
    let (start, len) = (token.start as usize, usize::from(token.len));
    // Its last eight digits, or where a text is cut what that begins with.
    let value = match len {
        0 => mix(u64::from(text.word(start) as u32)),
        _ => upper(bytes, start + len, len.min(8), 0),
    };
    let Some(number) = place_of(places, table, token.key) else { return true };
    let place = &mut places[usize::from(number)];
    place.count += 1;
    place.min_len = place.min_len.min(token.len);
    place.max_len = place.max_len.max(token.len);
    place.letters |= token.letters;
    place.padded |= bytes[start] == b'0' && token.len > 1;
    place.spread |= 1 << ((value ^ value >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
    place.is_fresh
}

/// The number of the place with this key; `None` if there are too many.
fn place_of(places: &mut Vec<Place>, table: &mut [u16; TABLE_LEN], key: u64) -> Option<u16> {
    let mut slot = key as usize % TABLE_LEN;
    loop {
        match table[slot] {
            VACANT if places.len() < MAX_PLACES => {
                let number = places.len() as u16;
                table[slot] = number;
                places.push(Place {
                    key,
                    count: 0,
                    min_len: u8::MAX,
                    max_len: 0,
                    letters: false,
                    padded: false,
                    spread: 0,
                    column: None,
                    is_fresh: true,
                });
                return Some(number);
            }
            VACANT => return None,
            number if places[usize::from(number)].key == key => return Some(number),
            _ => slot = (slot + 1) % TABLE_LEN,
        }
    }
}

/// The key of a number that stands at `at`, behind a number that ends at `piece` and has
/// the key `before`, or a line that begins there.
fn place_key(before: u64, text: &[u8], piece: usize, at: usize) -> u64 {
    let len = (at - piece).min(CONTEXT_BYTES);
    let near = upper(text, at, len, 0);
    let before = if len < CONTEXT_BYTES { before.rotate_left(23) ^ len as u64 } else { 0 };
    mix(before ^ near)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

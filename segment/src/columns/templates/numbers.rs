//! Chooses the columns of a block from a sample of its lines, and finds their numbers and cuts in
//! all lines.
//!
//! Successive blocks have similar lines. So statistics of past blocks count too, by half for each
//! block, and the sample is small unless many of its numbers are at new places.

use std::ops::Range;

use super::classes::Classes;
use super::text::{Text, decimal_value, hex_value, upper};
use super::times::{Basis, Layout};
use super::tokens::{Token, mix, walk};
use super::{Form, MAX_COLUMNS};

/// A place gets a column from this many numbers of a block on.
const COLUMN_FROM_COUNT: u32 = 24;
/// A place gets a column from this many numbers of the sample on.
const COLUMN_FROM_SAMPLED: u32 = 6;
/// A place gets a column if its numbers have at least this many of 64 hashes. The few values of
/// a status or an hour take fewer bytes in fragments.
const COLUMN_FROM_SPREAD: u32 = 20;
/// From so many numbers of equal length on, numbers without leading zeros count as not padded.
const UNPADDED_FROM_COUNT: u32 = 64;
/// Lines are cut at the beginning of a quoted text if the texts have at least so many beginnings.
const CUT_FROM_SPREAD: u32 = 2;
/// Slots of the table of places, a power of two.
const TABLE_LEN: usize = 8192;
/// Numbers at further places stay text.
const MAX_PLACES: usize = TABLE_LEN / 2;

/// The sample of a larger block has not all lines.
const SAMPLED_LINES: usize = 256;
/// Size of the sample if past blocks have the places of nearly all numbers.
const KNOWN_SAMPLED_LINES: usize = 64;
/// Nearly all places are known if less than one in so many numbers has a new place.
const FRESH_SHARE: usize = 4;
/// The sample has at least one in so many lines.
const MAX_STRIDE: usize = 8;

const VACANT: u16 = u16::MAX;

/// A number of a column, or a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    /// Its start in the text.
    pub(super) start: u32,
    pub(super) len: u8,
    pub(super) column: u8,
    pub(super) value: u64,
}

/// A place in lines, and statistics of the numbers there.
#[derive(Clone, Copy, Debug)]
struct LinesOf {
    key: u64,
    /// Numbers of this block and of past blocks.
    count: u32,
    min_len: u8,
    max_len: u8,
    letters: bool,
    /// The layout of times.
    time: Option<Layout>,
    /// Whether a number has a leading zero.
    padded: bool,
    /// One bit per hash of the numbers.
    spread: u64,
    column: Option<(u8, Form)>,
    /// Whether no past block has it.
    is_fresh: bool,
}

/// Counts of some lines.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Numbers and cuts.
    tokens: usize,
    /// Numbers and cuts at new places.
    fresh: usize,
}

impl LinesOf {
    fn form(&self) -> Option<Form> {
        if let Some(layout) = self.time {
            return Some(Form::Time(layout, Basis::Entry));
        }
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

    /// Whether the place gets a column, if the sample has one in `stride` lines.
    fn deserves_column(&self, stride: u32) -> bool {
        let from = if self.max_len == 0 {
            CUT_FROM_SPREAD
        } else {
            // A few random numbers have nearly all distinct hashes.
            COLUMN_FROM_SPREAD.min((self.count * 5).div_ceil(6))
        };
        self.count >= COLUMN_FROM_SAMPLED
            && self.count * stride >= COLUMN_FROM_COUNT
            && self.spread.count_ones() >= from
            && self.form().is_some()
    }
}

/// The places of successive blocks.
#[derive(Debug)]
pub(super) struct Numbers {
    classes: Classes,
    places: Vec<LinesOf>,
    /// Keys of the places with columns.
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

    /// Reads a sample of a block, and returns the forms of its columns.
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

    /// Counts the numbers of one in `stride` lines, without the lines of the sample with stride
    /// `before`.
    fn look(&mut self, text: &Text, stride: usize, before: Option<usize>) -> Seen {
        let Numbers { classes, places, table, .. } = self;
        let mut seen = Seen::default();
        for line in 0..text.lines() {
            // At irregular distances: lines may repeat periodically.
            let hash = ((line as u32).wrapping_mul(0x9E37_79B1) >> 16) as usize;
            if hash & (stride - 1) != 0 || before.is_some_and(|before| hash & (before - 1) == 0) {
                continue;
            }
            let (start, end) = text.line(line);
            walk(classes, text, start..end, start, 0, |token| {
                seen.tokens += 1;
                seen.fresh += usize::from(count(places, table, text, token));
                false
            });
        }
        seen
    }

    /// Begins another block: halves the counts of past blocks.
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

    /// Forgets all places, before blocks of another segment.
    pub(super) fn forget(&mut self) {
        self.places.clear();
    }

    /// The first number or cut of a column from `at` on, in a line of the last text of
    /// [`Self::learn`]. `at` is the beginning of the line, or the end of a number or cut.
    pub(super) fn first_behind(
        &self,
        text: &Text,
        line: Range<usize>,
        at: usize,
        column: Option<u8>,
    ) -> Option<Number> {
        let key = column.map_or(0, |column| self.column_keys[usize::from(column)]);
        let mut found = None;
        walk(&self.classes, text, line, at, key, |token| {
            found = self.number(text, token);
            found.is_some()
        });
        found
    }

    /// The token as a number or cut of a column; `None` if it stays text.
    fn number(&self, text: &Text, token: &Token) -> Option<Number> {
        let (column, form) = self.find(token.key)?.column?;
        let (start, len) = (token.start as usize, usize::from(token.len));
        let bytes = text.bytes();
        let value = match form {
            Form::Time(layout, _) => token.time.filter(|time| time.layout == layout)?.units as u64,
            _ if token.time.is_some() => return None,
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

    /// The place with this key; `None` if no line of a sample has it.
    fn find(&self, key: u64) -> Option<&LinesOf> {
        let mut slot = key as usize % TABLE_LEN;
        loop {
            let place = self.places.get(usize::from(self.table[slot]))?;
            if place.key == key {
                return Some(place);
            }
            slot = (slot + 1) % TABLE_LEN;
        }
    }

    /// Assigns columns to places, and returns the forms of the columns.
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
            + self.places.capacity() * size_of::<LinesOf>()
            + size_of_val(&*self.table)
            + self.classes.held_bytes()
    }
}

/// Counts a number at its place; returns whether the place is new.
fn count(
    places: &mut Vec<LinesOf>,
    table: &mut [u16; TABLE_LEN],
    text: &Text,
    token: &Token,
) -> bool {
    let bytes = text.bytes();
    let (start, len) = (token.start as usize, usize::from(token.len));
    // The last eight digits of a number, or the first bytes after a cut.
    let value = match len {
        0 => mix(u64::from(text.word(start) as u32)),
        _ => upper(bytes, start + len, len.min(8), 0),
    };
    let Some(number) = place_of(places, table, token) else { return true };
    let place = &mut places[usize::from(number)];
    place.count += 1;
    place.min_len = place.min_len.min(token.len);
    place.max_len = place.max_len.max(token.len);
    place.letters |= token.letters;
    place.padded |= bytes[start] == b'0' && token.len > 1;
    place.spread |= 1 << ((value ^ value >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58);
    place.is_fresh
}

/// The number of a token's place; `None` if there are too many places.
fn place_of(places: &mut Vec<LinesOf>, table: &mut [u16; TABLE_LEN], token: &Token) -> Option<u16> {
    let key = token.key;
    let mut slot = key as usize % TABLE_LEN;
    loop {
        match table[slot] {
            VACANT if places.len() < MAX_PLACES => {
                let number = places.len() as u16;
                table[slot] = number;
                places.push(LinesOf {
                    key,
                    count: 0,
                    min_len: u8::MAX,
                    max_len: 0,
                    letters: false,
                    time: token.time.map(|time| time.layout),
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

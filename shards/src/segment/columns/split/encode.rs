//! Finds the numbers of a block's lines and takes them out, see the parent module.

use std::ops::Range;

use logsvc_proto::varint;

use super::super::packed;
use super::{Form, LITERAL, MARK, MAX_COLUMNS, MAX_DECIMAL_DIGITS, MAX_HEX_DIGITS};

/// A place gets a column from this many numbers on.
const COLUMN_FROM_COUNT: u32 = 24;
/// A place gets a column if its numbers have at least this many of 64 hashes: the
/// compressor is better at the few values of a status or an hour.
const COLUMN_FROM_SPREAD: u32 = 20;
/// Longer runs of hexadecimal digits stay text.
const MAX_HEX_RUN: usize = 64;
/// Shorter runs of hexadecimal digits with letters stay text: they may be words.
const MIN_HEX_RUN: usize = 4;
/// Slots of the table of places, a power of two.
const TABLE_LEN: usize = 8192;
/// Places beyond these stay text.
const MAX_PLACES: usize = TABLE_LEN / 2;

const DIGIT: u8 = 1;
const HEX_LETTER: u8 = 2;
const OTHER_WORD: u8 = 4;

/// What a byte means for the search; 0 ends a word.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'f' => HEX_LETTER,
            b'g'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => OTHER_WORD,
            _ => 0,
        };
        byte += 1;
    }
    classes
}

/// A number in the lines.
#[derive(Clone, Copy, Debug)]
struct Token {
    start: u32,
    len: u8,
    place: u16,
}

/// Where in their lines some numbers stand, and what they have in common.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    count: u32,
    min_len: u8,
    max_len: u8,
    letters: bool,
    /// One bit per hash of a number's digits.
    spread: u64,
    column: Option<u8>,
}

impl Place {
    fn form(&self) -> Option<Form> {
        let fixed = self.min_len == self.max_len;
        match (self.letters, fixed) {
            (true, true) => Some(Form::FixedHex(self.max_len)),
            (true, false) => None,
            (false, true) => Some(Form::FixedDecimal(self.max_len)),
            (false, false) => Some(Form::Decimal),
        }
    }

    fn deserves_column(&self) -> bool {
        self.count >= COLUMN_FROM_COUNT
            && self.spread.count_ones() >= COLUMN_FROM_SPREAD
            && self.form().is_some()
    }
}

/// Splits blocks, one after another, with the same buffers.
#[derive(Debug)]
pub(crate) struct Splitter {
    tokens: Vec<Token>,
    places: Vec<Place>,
    /// Open addressing: numbers of places by their keys.
    table: Box<[u16; TABLE_LEN]>,
    values: Vec<Vec<u64>>,
    /// The text of the last block that was split.
    text: Vec<u8>,
}

const VACANT: u16 = u16::MAX;

impl Splitter {
    pub(crate) fn new() -> Splitter {
        Splitter {
            tokens: Vec::new(),
            places: Vec::new(),
            table: Box::new([VACANT; TABLE_LEN]),
            values: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Writes the length of the text and the columns to `out`, and returns the text,
    /// whose compressed form must follow. `None` if no number is worth a column.
    pub(crate) fn split(&mut self, lines: &[u8], ends: &[u32], out: &mut Vec<u8>) -> Option<&[u8]> {
        self.tokens.clear();
        self.places.clear();
        self.table.fill(VACANT);
        let mut start = 0;
        for &end in ends {
            let end = end as usize;
            self.find_tokens(lines, start..end);
            start = end;
        }
        let forms = self.assign_columns();
        if forms.is_empty() {
            return None;
        }
        self.write_text(lines, &forms);
        varint::write(out, self.text.len() as u64);
        out.push(forms.len() as u8);
        let mut section = Vec::new();
        for (form, values) in forms.iter().zip(&self.values) {
            out.extend_from_slice(&form.to_bytes());
            varint::write(out, values.len() as u64);
            section.clear();
            packed::encode(values, &mut section);
            varint::write(out, section.len() as u64);
            out.extend_from_slice(&section);
        }
        Some(&self.text)
    }

    /// Finds the numbers of a line: runs of digits, or of hexadecimal digits of both
    /// kinds, that are words of their own.
    fn find_tokens(&mut self, lines: &[u8], line: Range<usize>) {
        let mut key = 0;
        let mut piece = line.start;
        let mut at = line.start;
        while at < line.end {
            if CLASSES[usize::from(lines[at])] == 0 {
                at += 1;
                continue;
            }
            let mut kinds = 0;
            let word = at;
            while at < line.end && CLASSES[usize::from(lines[at])] != 0 {
                kinds |= CLASSES[usize::from(lines[at])];
                at += 1;
            }
            let longest = match kinds {
                DIGIT if (2..=usize::from(MAX_DECIMAL_DIGITS)).contains(&(at - word)) => {
                    MAX_DECIMAL_DIGITS
                }
                HEX if (MIN_HEX_RUN..=MAX_HEX_RUN).contains(&(at - word)) => MAX_HEX_DIGITS,
                _ => continue,
            };
            let mut start = word;
            while start < at {
                let end = at.min(start + usize::from(longest));
                key = place_key(key, &lines[piece..start]);
                self.add_token(key, lines, start..end, kinds == HEX);
                (start, piece) = (end, end);
            }
        }
    }

    fn add_token(&mut self, key: u64, lines: &[u8], token: Range<usize>, letters: bool) {
        let Some(number) = self.place(key) else { return };
        let digits = &lines[token.clone()];
        let hash = digits
            .iter()
            .fold(0u64, |hash, &byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let place = &mut self.places[usize::from(number)];
        let len = digits.len() as u8;
        place.count += 1;
        place.min_len = place.min_len.min(len);
        place.max_len = place.max_len.max(len);
        place.letters |= letters;
        place.spread |= 1 << (mix(hash) >> 58);
        self.tokens.push(Token { start: token.start as u32, len, place: number });
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
                place.column = Some(forms.len() as u8);
                forms.push(form);
            }
        }
        forms
    }

    /// Writes the text with marks, and the values of the columns.
    fn write_text(&mut self, lines: &[u8], forms: &[Form]) {
        self.text.clear();
        self.values.iter_mut().for_each(Vec::clear);
        self.values.resize(self.values.len().max(forms.len()), Vec::new());
        let mut written = 0;
        for token in &self.tokens {
            let Some(column) = self.places[usize::from(token.place)].column else { continue };
            let start = token.start as usize;
            let digits = &lines[start..start + usize::from(token.len)];
            let form = forms[usize::from(column)];
            if form == Form::Decimal && digits[0] == b'0' {
                continue;
            }
            let value = match form {
                Form::FixedHex(_) => digits.iter().fold(0, |value, &digit| {
                    let digit = if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
                    value << 4 | u64::from(digit)
                }),
                _ => digits.iter().fold(0, |value, &digit| value * 10 + u64::from(digit - b'0')),
            };
            self.values[usize::from(column)].push(value);
            push_text(&mut self.text, &lines[written..start]);
            self.text.extend_from_slice(&[MARK, column]);
            written = start + digits.len();
        }
        push_text(&mut self.text, &lines[written..]);
    }
}

/// Both kinds of hexadecimal digits.
const HEX: u8 = DIGIT | HEX_LETTER;

/// The key of a number that stands behind `piece`, which begins at the end of the
/// number before it, whose key is `before`, or of the line.
fn place_key(before: u64, piece: &[u8]) -> u64 {
    let near = &piece[piece.len().saturating_sub(8)..];
    let text = near.iter().fold(0, |text, &byte| text << 8 | u64::from(byte));
    let before = if near.len() < 8 { before.rotate_left(23) } else { 0 };
    mix(before ^ text ^ (near.len() as u64) << 60)
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

fn push_text(text: &mut Vec<u8>, mut piece: &[u8]) {
    while let Some(at) = memchr::memchr(MARK, piece) {
        text.extend_from_slice(&piece[..=at]);
        text.push(LITERAL);
        piece = &piece[at + 1..];
    }
    text.extend_from_slice(piece);
}

//! Lines as templates: the distinct texts between the numbers of lines, and the numbers.
//!
//! Ids, durations, counts and milliseconds make log lines compress badly: a general compressor
//! spends a byte or more on two digits of an id, and the number cuts the match around it in two.
//! Here the numbers at the same place of their lines are a *column*, packed to the bits that
//! they need. The text after a number, up to the next number with a column or to the end of the
//! line, is a *fragment*. The fragments that follow the numbers of one column are a *slot*; slot
//! 0 has the fragments at the beginning of lines. A slot has each distinct fragment once,
//! together with the column of the number that follows. So a line is a sequence of fragment
//! numbers. They have few bits if the slot has few fragments, and none if all its fragments are
//! new. A general compressor compresses the texts of the fragments.
//!
//! A date with a time of day is one number ([`times`]), relative to the timestamp of the line's
//! entry or to the last time of the column.
//!
//! The encoder is free to choose the column of a number ([`numbers`]): the stored form says
//! which fragments and columns follow each other, so that decoding copies fragments and numbers
//! in turn. The encoder chooses by the eight bytes before a number. If the last number of the
//! line is closer, it chooses by the bytes in between and by that number's choice.

mod abridged;
mod classes;
mod decode;
mod encode;
mod fragments;
mod head;
mod numbers;
mod parts;
mod search;
mod slot_lines;
#[cfg(test)]
mod tests;
mod text;
#[cfg(test)]
mod timed_tests;
mod times;
mod tokens;
mod traces;

pub use abridged::AbridgedLines;
pub(crate) use decode::{Scratch, Timestamps, decode};
pub(crate) use encode::{Encoded, Encoder};
pub use parts::LineParts;
pub use search::{LineOutcomes, LineSearch};
pub use slot_lines::SlotLines;
use slot_lines::SlotSet;

/// Most bytes of lines of a block. The numbers of a damaged block, of eight bytes each, take at
/// most sixteen times this.
pub(crate) const MAX_RAW_BYTES: usize = 1 << 20;

/// Most lines of a block.
const MAX_LINES: usize = 1 << 16;

/// Most columns of a block.
const MAX_COLUMNS: usize = 254;

/// The column after the last fragment of a line.
const END: u8 = 0xff;

use times::{Basis, Layout};

/// How a column's numbers are written in lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Decimal without leading zeros.
    Decimal,
    /// This number of decimal digits, at most [`MAX_DECIMAL_DIGITS`].
    FixedDecimal(u8),
    /// This number of lower-case hexadecimal digits, at most [`MAX_HEX_DIGITS`].
    FixedHex(u8),
    /// Not at all: the column has no numbers, and only cuts lines.
    Nothing,
    /// Dates with times of day.
    Time(Layout, Basis),
}

const MAX_DECIMAL_DIGITS: u8 = 18;
const MAX_HEX_DIGITS: u8 = 16;

impl Form {
    fn to_bytes(self) -> [u8; 2] {
        match self {
            Form::Decimal => [0, 0],
            Form::FixedDecimal(digits) => [1, digits],
            Form::FixedHex(digits) => [2, digits],
            Form::Nothing => [3, 0],
            Form::Time(layout, Basis::Entry) => [4, layout.to_byte()],
            Form::Time(layout, Basis::Row) => [5, layout.to_byte()],
        }
    }

    fn from_bytes(bytes: [u8; 2]) -> Option<Form> {
        match bytes {
            [0, 0] => Some(Form::Decimal),
            [1, digits @ 1..=MAX_DECIMAL_DIGITS] => Some(Form::FixedDecimal(digits)),
            [2, digits @ 1..=MAX_HEX_DIGITS] => Some(Form::FixedHex(digits)),
            [3, 0] => Some(Form::Nothing),
            [4, layout] => Some(Form::Time(Layout::from_byte(layout)?, Basis::Entry)),
            [5, layout] => Some(Form::Time(Layout::from_byte(layout)?, Basis::Row)),
            _ => None,
        }
    }

    /// The largest number of a column of this form.
    fn largest(self) -> u64 {
        match self {
            Form::Decimal | Form::FixedHex(MAX_HEX_DIGITS) | Form::Time(..) => u64::MAX,
            Form::FixedDecimal(digits) => 10u64.pow(u32::from(digits)) - 1,
            Form::FixedHex(digits) => (1 << (4 * digits)) - 1,
            Form::Nothing => 0,
        }
    }
}

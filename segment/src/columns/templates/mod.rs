//! Lines as templates: the texts between their numbers, each distinct one once, and
//! the numbers.
//!
//! Ids, durations, counts and the milliseconds of times are what makes log lines
//! compress badly: a general compressor spends a byte or more on two digits of an id,
//! and the match around each is cut in two. Here the numbers that stand in the same
//! place of their lines are a *column*, packed to the bits that they need. The text that
//! follows a number, up to the next number that has a column or the end of the line, is
//! a *fragment*. All that may follow the numbers of one column is a *slot*, and slot 0 has
//! the beginnings of lines. A slot knows each distinct fragment once, together with what
//! comes behind it, so a line is a number for each of its fragments, of few bits where a
//! slot has few of them, and of none where it has only new ones. The texts of the
//! fragments are left to a general compressor.
//!
//! A date with a time of day is one number ([`times`]), which is counted from the timestamp
//! of the line's entry or from the time before.
//!
//! What stands in which column is the encoder's free choice ([`numbers`]): the stored
//! form says what follows what, so that decoding is a copy of fragments and numbers in
//! turn. The encoder goes by the eight bytes before a number, or by what the number
//! before it went by where they are closer together.

mod classes;
mod decode;
mod encode;
mod fragments;
mod numbers;
mod parts;
mod search;
#[cfg(test)]
mod tests;
mod text;
#[cfg(test)]
mod timed_tests;
mod times;
mod tokens;
mod traces;

pub(crate) use decode::{Timestamps, decode};
pub(crate) use encode::{Encoded, Encoder};
pub use parts::LineParts;
pub use search::{LineSearch, Verdicts};

/// Larger blocks are not stored so: the values of a damaged block, eight bytes each,
/// need no more than sixteen times this.
pub(crate) const MAX_RAW_BYTES: usize = 1 << 20;

/// Most lines of a block.
const MAX_LINES: usize = 1 << 16;

/// Most columns of a block.
const MAX_COLUMNS: usize = 254;

/// What stands behind the last fragment of a line in place of a column.
const END: u8 = 0xff;

use times::{Basis, Layout};

/// How a column's numbers are written in lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Decimal without leading zeros.
    Decimal,
    /// So many decimal digits, at most [`MAX_DECIMAL_DIGITS`].
    FixedDecimal(u8),
    /// So many lower-case hexadecimal digits, at most [`MAX_HEX_DIGITS`].
    FixedHex(u8),
    /// Not at all: there are no numbers, lines are just cut there.
    Nothing,
    /// As dates with times of day.
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

    /// The largest number that may be stored of a column.
    fn largest(self) -> u64 {
        match self {
            Form::Decimal | Form::FixedHex(MAX_HEX_DIGITS) | Form::Time(..) => u64::MAX,
            Form::FixedDecimal(digits) => 10u64.pow(u32::from(digits)) - 1,
            Form::FixedHex(digits) => (1 << (4 * digits)) - 1,
            Form::Nothing => 0,
        }
    }
}

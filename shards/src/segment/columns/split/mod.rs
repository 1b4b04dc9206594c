//! Lines whose numbers and ids are stored apart from their text, as segments of version 1
//! have them. Blocks are stored as [`super::templates`] now; what was written is still
//! read, and tests write it.
//!
//! A number that varies leaves a two-byte mark in the text, and its value goes into a
//! column of numbers that stood in the same place of their lines, packed to the bits
//! that they need. The stored form names the column in each mark, so that decoding is a
//! copy of the text with numbers filled in.

mod decode;
#[cfg(test)]
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::decode;
#[cfg(test)]
use encode::Splitter;

/// The byte in the text that the number of a column follows.
const MARK: u8 = 0x01;
/// After a mark: the text has the byte of a mark itself here.
const LITERAL: u8 = 0xff;
/// Most columns of a block.
const MAX_COLUMNS: usize = 254;

/// How a column's numbers are written in lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Decimal without leading zeros.
    Decimal,
    /// So many decimal digits, at most [`MAX_DECIMAL_DIGITS`].
    FixedDecimal(u8),
    /// So many lower-case hexadecimal digits, at most [`MAX_HEX_DIGITS`].
    FixedHex(u8),
}

const MAX_DECIMAL_DIGITS: u8 = 18;
const MAX_HEX_DIGITS: u8 = 16;

impl Form {
    #[cfg(test)]
    fn to_bytes(self) -> [u8; 2] {
        match self {
            Form::Decimal => [0, 0],
            Form::FixedDecimal(digits) => [1, digits],
            Form::FixedHex(digits) => [2, digits],
        }
    }

    fn from_bytes(bytes: [u8; 2]) -> Option<Form> {
        match bytes {
            [0, 0] => Some(Form::Decimal),
            [1, digits @ 1..=MAX_DECIMAL_DIGITS] => Some(Form::FixedDecimal(digits)),
            [2, digits @ 1..=MAX_HEX_DIGITS] => Some(Form::FixedHex(digits)),
            _ => None,
        }
    }

    /// One more than the largest number that can be written so; 0 if all can.
    fn bound(self) -> u64 {
        match self {
            Form::Decimal | Form::FixedHex(MAX_HEX_DIGITS) => 0,
            Form::FixedDecimal(digits) => 10u64.pow(u32::from(digits)),
            Form::FixedHex(digits) => 1 << (4 * digits),
        }
    }
}

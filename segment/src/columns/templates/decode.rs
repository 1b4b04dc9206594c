//! Decodes the lines of a block, see the parent module.
//!
//! Guarantees: arbitrary bytes give an error or lines of the expected length. Memory is
//! proportional to that length, which the directory bounds.

use super::super::hex;
use super::super::packed::Malformed;
use super::head::{Head, Reader, fragment_of, next_of};
use super::times::{ColumnClock, MOST_BYTES, Origin};
use super::{END, Form, MAX_COLUMNS};

/// The timestamps for the times of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timestamps<'a> {
    /// The codec of the block has no times.
    None,
    /// The timestamps of the entries in nanoseconds, one for each line.
    Of(&'a [i64]),
}

/// Buffers that are used again for the next block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) head: Head,
    /// The numbers of all columns, one after another.
    values: Vec<u64>,
    text: Vec<u8>,
}

/// Decodes a block whose lines have `raw_len` bytes. `decompress` gets the compressed text and
/// the length of the text, which it appends to a buffer.
pub(crate) fn decode<E>(
    stored: &[u8],
    raw_len: usize,
    timestamps: Timestamps<'_>,
    scratch: &mut Scratch,
    decompress: impl FnOnce(&[u8], usize, &mut Vec<u8>) -> Result<(), E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Vec<u8>, E> {
    let mut reader = Reader { bytes: stored, at: 0 };
    let has_times = matches!(timestamps, Timestamps::Of(_));
    let Scratch { head, values, text } = scratch;
    head.read(&mut reader, raw_len, has_times).map_err(&malformed)?;
    if matches!(timestamps, Timestamps::Of(times) if times.len() != head.lines) {
        return Err(malformed(Malformed));
    }
    values.clear();
    for column in &head.columns {
        column.append_numbers(&stored[head.numbers.clone()], values).map_err(&malformed)?;
    }
    text.clear();
    decompress(&stored[reader.at..], head.text_len, text)?;
    if text.len() != head.text_len {
        return Err(malformed(Malformed));
    }
    // Fragments are copied in pieces that reach past their ends.
    text.resize(head.text_len + PIECE, 0);
    fill(head, values, text, timestamps, raw_len).map_err(malformed)
}

/// Bytes of a fragment that are copied at once.
const PIECE: usize = 32;
/// Room for the digits of the largest number, or for the longest time.
pub(super) const NUMBER_ROOM: usize = MOST_BYTES;

/// Puts the lines together. `text` ends with [`PIECE`] further bytes.
fn fill(
    head: &Head,
    values: &[u64],
    text: &[u8],
    timestamps: Timestamps<'_>,
    raw_len: usize,
) -> Result<Vec<u8>, Malformed> {
    // The next use of each slot. The numbers of the column before a slot stand like its uses, but
    // there are none before slot 0, which lines use.
    let mut places = [0u32; MAX_COLUMNS + 2];
    places[1..=head.use_ends.len()].copy_from_slice(&head.use_ends);
    let mut forms = [Form::Nothing; MAX_COLUMNS + 2];
    let mut clocks: Vec<Option<ColumnClock>> = Vec::with_capacity(head.columns.len());
    for (form, column) in forms.iter_mut().zip(&head.columns) {
        *form = column.form;
        clocks.push(column.origin.map(Origin::clock));
    }
    // Room for bytes that are written past the end before that is noticed.
    let mut out = vec![0; raw_len + PIECE + NUMBER_ROOM];
    let mut at = 0;
    for line in 0..head.lines {
        let mut slot = 0u8;
        loop {
            let place = &mut places[usize::from(slot)];
            let used = *head.uses.get(*place as usize).ok_or(Malformed)?;
            *place += 1;
            let fragment = fragment_of(used);
            let start = head.fragment_bounds[fragment] as usize;
            let end = head.fragment_bounds[fragment + 1] as usize;
            let len = end - start;
            if len <= PIECE {
                out[at..at + PIECE].copy_from_slice(&text[start..start + PIECE]);
            } else {
                let room = out.get_mut(at..at + len).ok_or(Malformed)?;
                room.copy_from_slice(&text[start..end]);
            }
            at += len;
            if at > raw_len {
                return Err(Malformed);
            }
            let next = next_of(used);
            if next == END {
                break;
            }
            slot = next + 1;
            let index = places[usize::from(slot)] as usize - head.lines;
            let value = *values.get(index).ok_or(Malformed)?;
            let room = &mut out[at..at + NUMBER_ROOM];
            at += match forms[usize::from(next)] {
                Form::Time(..) => {
                    let Timestamps::Of(times) = timestamps else { return Err(Malformed) };
                    let clock = clocks[usize::from(next)].as_mut().ok_or(Malformed)?;
                    clock.write(room, value, times[line]).ok_or(Malformed)?
                }
                form => write_number(room, value, form),
            };
            if at > raw_len {
                return Err(Malformed);
            }
        }
    }
    // No slot has used those of the next one, and none is left.
    let all_used = places.iter().zip(&head.use_ends).all(|(place, end)| place == end);
    out.truncate(raw_len);
    if all_used && at == raw_len { Ok(out) } else { Err(Malformed) }
}

/// Writes a number that is no time to the start of `out`, which has room for [`NUMBER_ROOM`]
/// bytes. Returns the number of digits; bytes of `out` after them change too.
#[inline]
pub(super) fn write_number(out: &mut [u8], value: u64, form: Form) -> usize {
    match form {
        Form::Decimal => {
            let len = value.checked_ilog10().unwrap_or(0) as usize + 1;
            write_decimal(out, value, len);
            len
        }
        // Times are written by a clock.
        Form::Nothing | Form::Time(..) => 0,
        Form::FixedDecimal(len) => {
            let len = usize::from(len);
            write_decimal(out, value, len);
            len
        }
        Form::FixedHex(len) => {
            let len = usize::from(len);
            // The first digit is in the lowest byte: only zeros are shifted out.
            let value = value << (64 - 4 * len);
            out[..8].copy_from_slice(&hex::digits_of((value >> 32) as u32));
            if len > 8 {
                out[8..16].copy_from_slice(&hex::digits_of(value as u32));
            }
            len
        }
    }
}

/// Writes the last `len` digits of a number to the start of `out`.
#[inline]
pub(super) fn write_decimal(out: &mut [u8], mut value: u64, len: usize) {
    if len <= 8 && value < 100_000_000 {
        let digits = decimal_digits(value) >> (64 - 8 * len);
        out[..8].copy_from_slice(&digits.to_le_bytes());
        return;
    }
    for digit in out[..len].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The eight decimal digits of a number, the first one in the lowest byte. Divides halves, then
/// pairs, then digits, side by side, with a multiplication for each division.
#[inline]
pub(super) fn decimal_digits(value: u64) -> u64 {
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((halves - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | ((pairs - 10 * tens) << 8)) + 0x3030_3030_3030_3030
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn digits_are_written_eight_at_a_time() {
        for seed in seeds(3000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let value = rng.next_u64() >> rng.below(64);
            let mut out = [b'?'; NUMBER_ROOM];
            let written = |out: &[u8], len: usize| String::from_utf8_lossy(&out[..len]).to_string();
            let len = write_number(&mut out, value, Form::Decimal);
            assert_eq!(written(&out, len), value.to_string());
            for digits in 1..=18 {
                let value = value % 10u64.pow(digits.into());
                let len = write_number(&mut out, value, Form::FixedDecimal(digits));
                assert_eq!(written(&out, len), format!("{value:00$}", usize::from(digits)));
            }
            for digits in 1..=16 {
                let value = value & (u64::MAX >> (64 - 4 * digits));
                let len = write_number(&mut out, value, Form::FixedHex(digits));
                assert_eq!(written(&out, len), format!("{value:00$x}", usize::from(digits)));
            }
        }
        let last_of_eight = [0, 9, 10, 99_999_999, 100_000_000, 12_345_678, 90_000_009];
        for value in last_of_eight {
            let mut out = [b'?'; NUMBER_ROOM];
            let len = write_number(&mut out, value, Form::Decimal);
            assert_eq!(&out[..len], value.to_string().as_bytes());
        }
    }
}

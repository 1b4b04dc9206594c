//! Decodes the lines of a block, see the parent module.
//!
//! Guarantees: arbitrary bytes give an error or lines of the expected length. Memory is
//! proportional to that length, which the directory bounds.

use logsvc_proto::varint;

use super::super::hex;
use super::super::packed::{self, Malformed};
use super::times::{Basis, ColumnClock, MOST_BYTES, Origin};
use super::{END, Form, MAX_COLUMNS, MAX_LINES};

struct Column {
    form: Form,
    values: std::vec::IntoIter<u64>,
    clock: Option<ColumnClock>,
}

/// The timestamps for the times of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timestamps<'a> {
    /// The codec of the block has no times.
    None,
    /// The timestamps of the entries in nanoseconds, one for each line.
    Of(&'a [i64]),
}

#[derive(Clone, Copy)]
struct Fragment {
    start: u32,
    len: u32,
    next: u8,
}

struct Slot {
    ids: std::vec::IntoIter<u64>,
    fragments: Vec<Fragment>,
    /// Number of fragments that were used.
    used: usize,
}

pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// Decodes a block whose lines have `raw_len` bytes. `decompress` gets the compressed text and
/// the length of the text.
pub(crate) fn decode<E>(
    stored: &[u8],
    raw_len: usize,
    timestamps: Timestamps<'_>,
    decompress: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Vec<u8>, E> {
    let mut reader = Reader { bytes: stored, at: 0 };
    let (text_len, lines, mut columns, mut slots) =
        read_head(&mut reader, raw_len, timestamps).map_err(&malformed)?;
    let text = decompress(&stored[reader.at..], text_len)?;
    if text.len() != text_len {
        return Err(malformed(Malformed));
    }
    let mut parts = Parts { text: &text, columns: &mut columns, slots: &mut slots };
    fill(&mut parts, lines, timestamps, raw_len).map_err(malformed)
}

type Head = (usize, usize, Vec<Column>, Vec<Slot>);

fn read_head(
    reader: &mut Reader<'_>,
    raw_len: usize,
    timestamps: Timestamps<'_>,
) -> Result<Head, Malformed> {
    // Every byte of the text is in a line.
    let text_len = reader.count(raw_len)?;
    let lines = reader.count(MAX_LINES)?;
    if let Timestamps::Of(timestamps_ns) = timestamps
        && timestamps_ns.len() != lines
    {
        return Err(Malformed);
    }
    let count = usize::from(*reader.bytes.get(reader.at).ok_or(Malformed)?);
    reader.at += 1;
    if count > MAX_COLUMNS {
        return Err(Malformed);
    }
    let mut columns = Vec::with_capacity(count);
    // Every number has at least one byte in a line, and there is at most one cut per byte.
    let mut room = raw_len;
    for _ in 0..count {
        let ColumnHead { form, count: len, origin } =
            reader.column_head(room, matches!(timestamps, Timestamps::Of(_)))?;
        room -= len;
        let mut values = match form {
            Form::Nothing => vec![0; len],
            _ => reader.numbers(len, form.largest())?,
        };
        if let Some(origin) = origin {
            origin.resolve(&mut values);
        }
        let clock = origin.map(Origin::clock);
        columns.push(Column { form, values: values.into_iter(), clock });
    }
    let mut slots = Vec::with_capacity(count + 1);
    let mut text_at = 0;
    let uses = std::iter::once(lines).chain(columns.iter().map(|column| column.values.len()));
    for uses in uses {
        let ids = reader.numbers(uses, uses as u64)?;
        let new = ids.iter().filter(|&&id| id == 0).count();
        let lens = reader.numbers(new, raw_len as u64)?;
        let nexts = reader.numbers(new, u64::from(END))?;
        let mut fragments = Vec::with_capacity(new);
        for (len, next) in lens.into_iter().zip(nexts) {
            let next = next as u8;
            if next != END && usize::from(next) >= count {
                return Err(Malformed);
            }
            fragments.push(Fragment { start: text_at as u32, len: len as u32, next });
            text_at += len as usize;
            if text_at > text_len {
                return Err(Malformed);
            }
        }
        slots.push(Slot { ids: ids.into_iter(), fragments, used: 0 });
    }
    if text_at == text_len { Ok((text_len, lines, columns, slots)) } else { Err(Malformed) }
}

/// The head of a column.
pub(super) struct ColumnHead {
    pub(super) form: Form,
    pub(super) count: usize,
    /// The origin of a column of times.
    pub(super) origin: Option<Origin>,
}

impl<'a> Reader<'a> {
    /// Reads the head of a column of at most `most` numbers.
    pub(super) fn column_head(
        &mut self,
        most: usize,
        may_have_times: bool,
    ) -> Result<ColumnHead, Malformed> {
        let form = self.bytes.get(self.at..self.at + 2).ok_or(Malformed)?;
        let form = Form::from_bytes([form[0], form[1]]).ok_or(Malformed)?;
        self.at += 2;
        let count = self.count(most)?;
        let origin = match form {
            Form::Time(..) if !may_have_times => return Err(Malformed),
            Form::Time(layout, basis) => {
                let least = self.signed()?;
                let first = if basis == Basis::Row { self.signed()? } else { 0 };
                Some(Origin { layout, basis, least, first })
            }
            _ => None,
        };
        Ok(ColumnHead { form, count, origin })
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = varint::read(self.bytes, &mut self.at).map_err(|_| Malformed)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        let value = varint::read(self.bytes, &mut self.at).map_err(|_| Malformed)?;
        usize::try_from(value).ok().filter(|&value| value <= most).ok_or(Malformed)
    }

    /// Reads a section of `count` numbers up to `last`.
    pub(super) fn numbers(&mut self, count: usize, last: u64) -> Result<Vec<u64>, Malformed> {
        let mut values = Vec::with_capacity(count);
        self.append_numbers(count, last, &mut values)?;
        Ok(values)
    }

    /// Reads the bytes of a section.
    pub(super) fn section(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(self.bytes.len())?;
        let section = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        self.at += len;
        section.ok_or(Malformed)
    }

    /// Like [`Self::numbers`]; appends the numbers to `values`.
    pub(super) fn append_numbers(
        &mut self,
        count: usize,
        last: u64,
        values: &mut Vec<u64>,
    ) -> Result<(), Malformed> {
        let mut largest = 0;
        packed::decode(self.section()?, count, |numbers| {
            largest = numbers.iter().fold(largest, |largest, &number| number.max(largest));
            values.extend_from_slice(numbers);
        })?;
        if largest <= last { Ok(()) } else { Err(Malformed) }
    }
}

/// Bytes of a fragment that are copied at once.
const PIECE: usize = 32;
/// Room for the digits of the largest number, or for the longest time.
pub(super) const NUMBER_ROOM: usize = MOST_BYTES;

/// The fragments and numbers of a block.
struct Parts<'a> {
    text: &'a [u8],
    columns: &'a mut [Column],
    slots: &'a mut [Slot],
}

fn fill(
    parts: &mut Parts<'_>,
    lines: usize,
    timestamps: Timestamps<'_>,
    raw_len: usize,
) -> Result<Vec<u8>, Malformed> {
    let Parts { text, columns, slots } = parts;
    // Room for bytes that are written past the end before that is noticed.
    let mut out = vec![0; raw_len + PIECE + NUMBER_ROOM];
    let mut at = 0;
    for line in 0..lines {
        let timestamp_ns = match timestamps {
            Timestamps::Of(timestamps_ns) => timestamps_ns[line],
            Timestamps::None => 0,
        };
        let mut slot = 0;
        loop {
            let of_slot = &mut slots[slot];
            let known = match of_slot.ids.next().ok_or(Malformed)? {
                0 => {
                    of_slot.used += 1;
                    of_slot.used - 1
                }
                id => (id - 1) as usize,
            };
            // Only a fragment that was used can be used again.
            let fragment = *of_slot.fragments[..of_slot.used].get(known).ok_or(Malformed)?;
            let (start, len) = (fragment.start as usize, fragment.len as usize);
            match text.get(start..start + PIECE) {
                Some(piece) if len <= PIECE => out[at..at + PIECE].copy_from_slice(piece),
                _ => {
                    let room = out.get_mut(at..at + len).ok_or(Malformed)?;
                    room.copy_from_slice(&text[start..start + len]);
                }
            }
            at += len;
            if at > raw_len {
                return Err(Malformed);
            }
            if fragment.next == END {
                break;
            }
            slot = usize::from(fragment.next) + 1;
            let column = &mut columns[slot - 1];
            let value = column.values.next().ok_or(Malformed)?;
            let room = &mut out[at..at + NUMBER_ROOM];
            at += match &mut column.clock {
                None => write_number(room, value, column.form),
                Some(clock) => clock.write(room, value, timestamp_ns).ok_or(Malformed)?,
            };
            if at > raw_len {
                return Err(Malformed);
            }
        }
    }
    let used = slots.iter().all(|slot| slot.ids.len() == 0)
        && columns.iter().all(|column| column.values.len() == 0);
    out.truncate(raw_len);
    if used && at == raw_len { Ok(out) } else { Err(Malformed) }
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

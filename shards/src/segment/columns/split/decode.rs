//! Fills numbers into the text of a block, see the parent module.

use logsvc_proto::varint;

use super::super::packed::{self, Malformed};
use super::{Form, LITERAL, MARK, MAX_COLUMNS};

struct Column {
    form: Form,
    values: std::vec::IntoIter<u64>,
}

/// Decodes a block whose lines have `raw_len` bytes. `decompress` gets the compressed
/// text and its length.
pub(crate) fn decode<E>(
    stored: &[u8],
    raw_len: usize,
    decompress: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, E>,
    malformed: impl Fn(Malformed) -> E,
) -> Result<Vec<u8>, E> {
    let mut position = 0;
    let (text_len, columns) = read_columns(stored, raw_len, &mut position).map_err(&malformed)?;
    let text = decompress(&stored[position..], text_len)?;
    if text.len() != text_len {
        return Err(malformed(Malformed));
    }
    fill(&text, raw_len, columns).map_err(malformed)
}

fn read_columns(
    stored: &[u8],
    raw_len: usize,
    position: &mut usize,
) -> Result<(usize, Vec<Column>), Malformed> {
    // Every byte of a line takes at most two of the text.
    let text_len = read_count(stored, position, raw_len.saturating_mul(2))?;
    let count = usize::from(*stored.get(*position).ok_or(Malformed)?);
    *position += 1;
    if count > MAX_COLUMNS {
        return Err(Malformed);
    }
    let mut columns = Vec::with_capacity(count);
    // Every value makes at least one byte of a line.
    let mut room = raw_len;
    for _ in 0..count {
        let form = stored.get(*position..*position + 2).ok_or(Malformed)?;
        let form = Form::from_bytes([form[0], form[1]]).ok_or(Malformed)?;
        *position += 2;
        let len = read_count(stored, position, room)?;
        room -= len;
        let section = read_count(stored, position, stored.len())?;
        let section = stored.get(*position..).and_then(|rest| rest.get(..section));
        let section = section.ok_or(Malformed)?;
        *position += section.len();
        let last = form.bound().wrapping_sub(1);
        let mut values = Vec::with_capacity(len);
        let mut fits = true;
        packed::decode(section, len, |numbers| {
            fits &= numbers.iter().all(|&number| number <= last);
            values.extend_from_slice(numbers);
        })?;
        if !fits {
            return Err(Malformed);
        }
        columns.push(Column { form, values: values.into_iter() });
    }
    Ok((text_len, columns))
}

fn read_count(bytes: &[u8], position: &mut usize, most: usize) -> Result<usize, Malformed> {
    let value = varint::read(bytes, position).map_err(|_| Malformed)?;
    usize::try_from(value).ok().filter(|&value| value <= most).ok_or(Malformed)
}

fn fill(text: &[u8], raw_len: usize, mut columns: Vec<Column>) -> Result<Vec<u8>, Malformed> {
    // What one number may write beyond the end before it is found out.
    let mut out = Vec::with_capacity(raw_len + MOST_DIGITS);
    let mut rest = text;
    while let Some(at) = memchr::memchr(MARK, rest) {
        out.extend_from_slice(&rest[..at]);
        let column = *rest.get(at + 1).ok_or(Malformed)?;
        rest = &rest[at + 2..];
        if column == LITERAL {
            out.push(MARK);
        } else {
            let column = columns.get_mut(usize::from(column)).ok_or(Malformed)?;
            let value = column.values.next().ok_or(Malformed)?;
            write_number(&mut out, value, column.form);
        }
        if out.len() > raw_len {
            return Err(Malformed);
        }
    }
    out.extend_from_slice(rest);
    let used = columns.iter().all(|column| column.values.len() == 0);
    if used && out.len() == raw_len { Ok(out) } else { Err(Malformed) }
}

/// Digits of the largest number.
const MOST_DIGITS: usize = 20;

fn write_number(out: &mut Vec<u8>, mut value: u64, form: Form) {
    let mut digits = [b'0'; MOST_DIGITS];
    let mut at = MOST_DIGITS;
    let (radix_bits, len) = match form {
        Form::Decimal => (0, 1),
        Form::FixedDecimal(len) => (0, usize::from(len)),
        Form::FixedHex(len) => (4, usize::from(len)),
    };
    if radix_bits > 0 {
        while value > 0 {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(value & 15) as usize];
            value >>= radix_bits;
        }
    } else {
        while value > 0 {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    out.extend_from_slice(&digits[at.min(MOST_DIGITS - len)..]);
}

//! Encodes the metadata column, see the parent module.

use std::collections::BTreeMap;

use ahash::RandomState;
use logsvc_proto::bytes::equal;
use logsvc_proto::varint;

use super::super::{hex, packed};
use super::{CODE_NEXT, CODE_NONE, CODE_SEEN, FORM_HEX, FORM_TEXT};
use crate::batch::MetadataPairs;

/// Numbers distinct texts in the order of their first use.
struct Numbering<'a> {
    state: RandomState,
    /// Open addressing: numbers by the hashes of their texts. Its length is a power of two.
    table: Vec<u32>,
    hashes: Vec<u64>,
    keys: Vec<&'a [u8]>,
}

const VACANT: u32 = u32::MAX;
const TABLE_START_LEN: usize = 64;

impl<'a> Numbering<'a> {
    fn new() -> Numbering<'a> {
        // Fixed seeds: the bytes of a segment depend on its entries alone.
        let state = RandomState::with_seeds(0x6d65_7461, 0x6461_7461, 0x636f_6c75, 0x6d6e_7321);
        let table = vec![VACANT; TABLE_START_LEN];
        Numbering { state, table, hashes: Vec::new(), keys: Vec::new() }
    }

    /// The text's number, and whether it is new.
    fn number(&mut self, key: &'a [u8]) -> (u32, bool) {
        let hash = self.state.hash_one(key);
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        // A vacant slot has a number that no text has.
        while let Some(&known) = self.hashes.get(self.table[place] as usize) {
            let number = self.table[place];
            if known == hash && self.keys[number as usize] == key {
                return (number, false);
            }
            place = (place + 1) & mask;
        }
        let number = self.keys.len() as u32;
        self.table[place] = number;
        self.hashes.push(hash);
        self.keys.push(key);
        if self.keys.len() * 2 > self.table.len() {
            self.grow();
        }
        (number, true)
    }

    fn grow(&mut self) {
        let len = self.table.len() * 4;
        self.table.clear();
        self.table.resize(len, VACANT);
        for (hash, number) in self.hashes.iter().zip(0..) {
            let mut place = *hash as usize & (len - 1);
            while self.table[place] != VACANT {
                place = (place + 1) & (len - 1);
            }
            self.table[place] = number;
        }
    }
}

/// The values of one name.
struct Column<'a> {
    values: Numbering<'a>,
    /// For each set that has the name, the number of its value.
    which: Vec<u64>,
}

/// The metadata of a block's entries: sets, and the set of each entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntrySets<'a> {
    /// The pairs of all sets, as in a batch but without counts.
    pub(crate) texts: &'a [u8],
    /// Exclusive ends of the sets within `texts`. No set is empty; some may be equal.
    pub(crate) set_ends: &'a [u32],
    /// For each entry 0, or one more than the index of its set. Sets are in the order of their
    /// first use, and each set is used.
    pub(crate) entry_sets: &'a [u32],
}

/// Encodes the metadata of a block, of which at least one entry has pairs. Calls `each` once
/// with every distinct pair.
pub(crate) fn encode(
    entries: &EntrySets<'_>,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&[u8], &[u8]),
) {
    let (sets, codes) = distinct_sets(entries);
    let mut names = Numbering::new();
    let mut columns: Vec<Column<'_>> = Vec::new();
    // The names of all sets, one set after another.
    let mut name_numbers: Vec<u32> = Vec::new();
    let mut name_ends = Vec::with_capacity(sets.len());
    let mut before = 0;
    for set in &sets {
        let start = name_numbers.len();
        for (name, value) in MetadataPairs::from_checked(set, &[]).texts() {
            // Most sets have the names of the preceding set.
            let at = before + name_numbers.len() - start;
            let guess = name_numbers.get(at).filter(|_| at < start);
            let number = match guess {
                Some(&guess) if equal(names.keys[guess as usize], name) => guess,
                _ => names.number(name).0,
            };
            if number as usize == columns.len() {
                columns.push(Column { values: Numbering::new(), which: Vec::new() });
            }
            name_numbers.push(number);
            let column = &mut columns[number as usize];
            let (value, _) = column.values.number(value);
            column.which.push(u64::from(value));
        }
        before = start;
        name_ends.push(name_numbers.len());
    }

    let mut order: Vec<u32> = (0..columns.len() as u32).collect();
    order.sort_unstable_by_key(|&number| names.keys[number as usize]);
    let mut ranks = vec![0; order.len()];
    varint::write(out, order.len() as u64);
    for (rank, &number) in order.iter().enumerate() {
        ranks[number as usize] = rank as u32;
        write_text(names.keys[number as usize], out);
    }
    for number in &mut name_numbers {
        *number = ranks[*number as usize];
    }
    write_shapes(&name_numbers, &name_ends, &codes, out);
    for number in order {
        let (name, column) = (names.keys[number as usize], &columns[number as usize]);
        column.values.keys.iter().for_each(|value| each(name, value));
        write_column(column, out);
    }
}

/// The distinct sets in the order of their first use, and the code of each entry.
fn distinct_sets<'a>(entries: &EntrySets<'a>) -> (Vec<&'a [u8]>, Vec<u64>) {
    let mut sets = Numbering::new();
    let mut start = 0;
    let number_of = |&end: &u32| {
        let set = &entries.texts[start..end as usize];
        start = end as usize;
        sets.number(set).0
    };
    let numbers: Vec<u32> = entries.set_ends.iter().map(number_of).collect();
    let mut next = 0;
    let code_of = |&set: &u32| match set.checked_sub(1) {
        None => CODE_NONE,
        Some(place) => {
            let number = numbers[place as usize];
            if number == next {
                next += 1;
                CODE_NEXT
            } else {
                CODE_SEEN + u64::from(number)
            }
        }
    };
    let codes = entries.entry_sets.iter().map(code_of).collect();
    (sets.keys, codes)
}

fn write_shapes(name_numbers: &[u32], name_ends: &[usize], codes: &[u64], out: &mut Vec<u8>) {
    let mut shapes: Vec<&[u32]> = Vec::new();
    let mut numbers: BTreeMap<&[u32], usize> = BTreeMap::new();
    let mut shape_of_set = Vec::with_capacity(name_ends.len());
    let (mut start, mut last) = (0, 0);
    for &end in name_ends {
        let shape = &name_numbers[start..end];
        if shapes.get(last) != Some(&shape) {
            last = *numbers.entry(shape).or_insert(shapes.len());
            if last == shapes.len() {
                shapes.push(shape);
            }
        }
        shape_of_set.push(last as u64);
        start = end;
    }
    varint::write(out, shapes.len() as u64);
    for shape in &shapes {
        varint::write(out, shape.len() as u64);
        for &name in *shape {
            varint::write(out, u64::from(name));
        }
    }
    varint::write(out, name_ends.len() as u64);
    write_section(codes, out);
    write_section(&shape_of_set, out);
}

fn write_column(column: &Column<'_>, out: &mut Vec<u8>) {
    let values = &column.values.keys;
    varint::write(out, values.len() as u64);
    let hex = values.iter().all(|value| is_hex(value));
    out.push(if hex { FORM_HEX } else { FORM_TEXT });
    let lengths: Vec<u64> = values.iter().map(|value| value.len() as u64).collect();
    write_section(&lengths, out);
    for value in values {
        if hex {
            write_hex(value, out);
        } else {
            out.extend_from_slice(value);
        }
    }
    // As many values as uses: each value is used once, in order.
    let which = if values.len() == column.which.len() { &[] } else { &column.which[..] };
    write_section(which, out);
}

/// Whether a text is stored as two digits per byte. Compares sixteen bytes at a time without a
/// branch per byte, since most metadata are trace ids.
fn is_hex(text: &[u8]) -> bool {
    fn all_digits(bytes: &[u8]) -> bool {
        let is_digit = |byte: u8| (byte.wrapping_sub(b'0') < 10) | (byte.wrapping_sub(b'a') < 6);
        bytes.iter().fold(true, |all, &byte| all & is_digit(byte))
    }
    let (chunks, rest) = text.as_chunks::<16>();
    text.len().is_multiple_of(2) && chunks.iter().all(|chunk| all_digits(chunk)) && all_digits(rest)
}

/// Appends the bytes of a text of hexadecimal digits, see [`FORM_HEX`].
fn write_hex(text: &[u8], out: &mut Vec<u8>) {
    let bytes_of = |digits: [u8; 8]| hex::value_of(u64::from_le_bytes(digits)).to_be_bytes();
    let (eights, rest) = text.as_chunks::<8>();
    for digits in eights {
        out.extend_from_slice(&bytes_of(*digits));
    }
    let mut last = [b'0'; 8];
    last[..rest.len()].copy_from_slice(rest);
    out.extend_from_slice(&bytes_of(last)[..rest.len() / 2]);
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    varint::write(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn write_section(numbers: &[u64], out: &mut Vec<u8>) {
    let mut section = Vec::new();
    packed::encode(numbers, &mut section);
    varint::write(out, section.len() as u64);
    out.extend_from_slice(&section);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_told_from_all_other_bytes_wherever_they_stand() {
        for byte in 0..=u8::MAX {
            let value = char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
            for (len, at) in [(2, 1), (16, 0), (16, 15), (32, 17), (34, 33)] {
                let mut text = vec![b'7'; len];
                text[at] = byte;
                assert_eq!(is_hex(&text), value.is_some(), "{byte} at {at} of {len}");
                if let Some(value) = value {
                    let mut bytes = Vec::new();
                    write_hex(&text, &mut bytes);
                    let mut expected = vec![0x77; len / 2];
                    let kept = if at % 2 == 0 { 0x07 } else { 0x70 };
                    expected[at / 2] = kept | (value as u8) << (4 * (1 - at % 2));
                    assert_eq!(bytes, expected, "{byte} at {at} of {len}");
                }
            }
        }
        assert!(is_hex(b"") && !is_hex(b"123"));
    }
}

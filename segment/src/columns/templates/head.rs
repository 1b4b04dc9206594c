//! The head of a stored block, which is all that stands before the text: columns, fragments, and
//! the fragments that lines use.
//!
//! Guarantees: arbitrary bytes give an error or a head. Every use of a slot is a fragment of the
//! slot that was used before, or its next one. A fragment leads to a column that exists, or ends
//! the line. Memory is proportional to the length of the lines, which the directory bounds.
//! Whether lines use as many fragments of each slot as there are is for the reader to find out.

use std::ops::Range;

use logsvc_proto::varint;

use super::super::packed::{self, Malformed};
use super::times::{Basis, Origin};
use super::{END, Form, MAX_COLUMNS, MAX_LINES};

/// A column of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) form: Form,
    /// How many numbers it has.
    pub(super) count: usize,
    /// The origin of a column of times.
    pub(super) origin: Option<Origin>,
    /// Start of its section in the bytes of all columns.
    start: usize,
}

/// The head of a block. Its buffers are used again for the next one.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) lines: usize,
    pub(super) text_len: usize,
    pub(super) columns: Vec<Column>,
    /// Where the columns stand in the stored bytes.
    pub(super) numbers: Range<usize>,
    /// The bounds of the fragments of all slots in the text: fragment *f* is from bound *f* to
    /// bound *f* + 1.
    pub(super) fragment_bounds: Vec<u32>,
    /// The column after each fragment, or [`END`].
    pub(super) nexts: Vec<u8>,
    /// The first fragment of each slot.
    pub(super) slot_starts: Vec<u32>,
    /// The uses of all slots, slot by slot, see [`fragment_of`] and [`next_of`].
    pub(super) uses: Vec<u32>,
    /// The exclusive end of each slot in the uses.
    pub(super) use_ends: Vec<u32>,
}

/// Bits of a fragment's number in a use. There are fewer fragments: lines of at most a megabyte
/// have at most as many numbers.
const FRAGMENT_BITS: u32 = 24;

/// The fragment of a use.
#[inline(always)]
pub(super) fn fragment_of(used: u32) -> usize {
    (used & ((1 << FRAGMENT_BITS) - 1)) as usize
}

/// The column after the fragment of a use, or [`END`].
#[inline(always)]
pub(super) fn next_of(used: u32) -> u8 {
    (used >> FRAGMENT_BITS) as u8
}

impl Head {
    /// Reads a head of lines of `raw_len` bytes in all. `has_times` is given by the codec.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        raw_len: usize,
        has_times: bool,
    ) -> Result<(), Malformed> {
        // Every byte of the text is in a line.
        self.text_len = reader.count(raw_len)?;
        self.lines = reader.count(MAX_LINES)?;
        let columns = usize::from(*reader.bytes.get(reader.at).ok_or(Malformed)?);
        reader.at += 1;
        if columns > MAX_COLUMNS {
            return Err(Malformed);
        }
        self.read_columns(reader, columns, raw_len, has_times)?;
        self.nexts.clear();
        self.fragment_bounds.clear();
        self.fragment_bounds.push(0);
        self.slot_starts.clear();
        self.uses.clear();
        self.use_ends.clear();
        for slot in 0..=columns {
            let uses = slot.checked_sub(1).map_or(self.lines, |column| self.columns[column].count);
            self.read_slot(reader, uses)?;
        }
        let text_end = self.fragment_bounds.last().copied().unwrap_or(0);
        if text_end as usize == self.text_len { Ok(()) } else { Err(Malformed) }
    }

    fn read_columns(
        &mut self,
        reader: &mut Reader<'_>,
        columns: usize,
        raw_len: usize,
        has_times: bool,
    ) -> Result<(), Malformed> {
        self.columns.clear();
        let start = reader.at;
        // Every number has at least one byte in a line, and there is at most one cut per byte.
        let mut room = raw_len;
        for _ in 0..columns {
            let mut column = reader.column(room, has_times)?;
            room -= column.count;
            column.start = reader.at - start;
            if column.form != Form::Nothing {
                reader.section()?;
            }
            self.columns.push(column);
        }
        self.numbers = start..reader.at;
        Ok(())
    }

    fn read_slot(&mut self, reader: &mut Reader<'_>, uses: usize) -> Result<(), Malformed> {
        let (first, first_use) = (self.nexts.len(), self.uses.len());
        reader.append_small(uses, &mut self.uses)?;
        let ids = &mut self.uses[first_use..];
        let new = ids.iter().filter(|&&id| id == 0).count();
        if first + new > 1 << FRAGMENT_BITS {
            return Err(Malformed);
        }
        self.slot_starts.push(first as u32);
        let bounds = self.fragment_bounds.len();
        reader.append_small(new, &mut self.fragment_bounds)?;
        let mut end = u64::from(self.fragment_bounds[bounds - 1]);
        for bound in &mut self.fragment_bounds[bounds..] {
            end += u64::from(*bound);
            *bound = end as u32;
        }
        if end > self.text_len as u64 {
            return Err(Malformed);
        }
        let columns = self.columns.len() as u64;
        let mut is_wrong = false;
        packed::decode(reader.section()?, new, |nexts| {
            is_wrong |= nexts.iter().any(|&next| next >= columns && next != u64::from(END));
            self.nexts.extend(nexts.iter().map(|&next| next as u8));
        })?;
        if is_wrong {
            return Err(Malformed);
        }
        resolve(ids, first, &self.nexts[first..])?;
        self.use_ends.push(self.uses.len() as u32);
        Ok(())
    }
}

/// Replaces the stored uses of a slot, whose first fragment is `first`: 0 stands for the first
/// fragment that was not used yet, and 1 + *k* for the fragment *k* of the slot.
fn resolve(uses: &mut [u32], first: usize, nexts: &[u8]) -> Result<(), Malformed> {
    let mut used = 0;
    for id in uses {
        let is_new = *id == 0;
        used += u32::from(is_new);
        let known = if is_new { used } else { *id };
        if known > used {
            return Err(Malformed);
        }
        let fragment = known as usize - 1;
        let next = *nexts.get(fragment).ok_or(Malformed)?;
        *id = (first + fragment) as u32 | u32::from(next) << FRAGMENT_BITS;
    }
    Ok(())
}

/// Reads stored bytes from the front.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the head of a column of at most `most` numbers.
    pub(super) fn column(
        &mut self,
        most: usize,
        may_have_times: bool,
    ) -> Result<Column, Malformed> {
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
        Ok(Column { form, count, origin, start: 0 })
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = varint::read(self.bytes, &mut self.at).map_err(|_| Malformed)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn count(&mut self, most: usize) -> Result<usize, Malformed> {
        let value = varint::read(self.bytes, &mut self.at).map_err(|_| Malformed)?;
        usize::try_from(value).ok().filter(|&value| value <= most).ok_or(Malformed)
    }

    /// Reads the bytes of a section.
    fn section(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count(self.bytes.len())?;
        let section = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        self.at += len;
        section.ok_or(Malformed)
    }

    /// Reads a section of `count` numbers of 32 bits, and appends them to `out`.
    fn append_small(&mut self, count: usize, out: &mut Vec<u32>) -> Result<(), Malformed> {
        let mut all = 0;
        out.reserve(count);
        packed::decode(self.section()?, count, |numbers| {
            all = numbers.iter().fold(all, |all, number| all | number);
            out.extend(numbers.iter().map(|&number| number as u32));
        })?;
        if all <= u64::from(u32::MAX) { Ok(()) } else { Err(Malformed) }
    }
}

impl Column {
    /// The section of its numbers, in the bytes of all columns.
    pub(super) fn section<'a>(&self, columns: &'a [u8]) -> Result<&'a [u8], Malformed> {
        Reader { bytes: columns, at: self.start }.section()
    }

    /// Appends its numbers to `out`: those that are written, and for times what
    /// [`Origin::resolve`] gives.
    pub(super) fn append_numbers(
        &self,
        columns: &[u8],
        out: &mut Vec<u64>,
    ) -> Result<(), Malformed> {
        let first = out.len();
        if self.form == Form::Nothing {
            out.resize(first + self.count, 0);
            return Ok(());
        }
        let (mut all, largest) = (0, self.form.largest());
        out.reserve(self.count);
        packed::decode(self.section(columns)?, self.count, |numbers| {
            all = numbers.iter().fold(all, |all, number| all | number);
            out.extend_from_slice(numbers);
        })?;
        // Comparing each number costs more than reading it.
        if all > largest && out[first..].iter().any(|&number| number > largest) {
            return Err(Malformed);
        }
        if let Some(origin) = self.origin {
            origin.resolve(&mut out[first..]);
        }
        Ok(())
    }
}

//! The lines of a block in parts: the distinct fragments, the fragments that lines use, and the
//! stored numbers.
//!
//! Parts take half of the memory of the lines, and making them is a fraction of the work of
//! decoding the lines. [`super::LineSearch`] filters lines in this form, and [`LineParts::join`]
//! makes the text of single lines. Both work out which lines use a slot ([`SlotLines`]), of the
//! slots that they need.
//!
//! Guarantees: arbitrary stored bytes give an error or parts. The work of each operation is
//! bounded by the block's length. If [`super::decode`] gives lines, [`LineParts::join`] gives the
//! same lines.

use std::ops::Range;
use std::sync::OnceLock;

use super::super::packed::{Cursor, Malformed};
use super::decode::{NUMBER_ROOM, Scratch, write_number};
use super::head::{Column, Reader, fragment_of};
use super::slot_lines::{LinesOf, SlotLines, SlotSet, UseCursor};
use super::times::ColumnClock;
use super::{END, Form, MAX_COLUMNS};

/// The lines of a block in parts.
#[derive(Debug)]
pub struct LineParts {
    /// The texts of all fragments, slot by slot.
    pub(super) text: Vec<u8>,
    /// The exclusive end of each fragment in the text.
    pub(super) fragment_ends: Vec<u32>,
    /// The column after each fragment, or [`END`].
    pub(super) nexts: Vec<u8>,
    /// The first fragment of each slot.
    slot_starts: Vec<u32>,
    /// The fragments that lines use, slot by slot, and in each slot line by line.
    pub(super) uses: Vec<u16>,
    /// The exclusive end of each slot in the uses.
    use_ends: Vec<u32>,
    /// The lines that use each slot, as far as somebody has asked.
    lines_of: Vec<OnceLock<LinesOf>>,
    columns: Vec<Column>,
    /// The stored bytes of the columns.
    numbers: Vec<u8>,
    lines: usize,
    raw_len: usize,
    /// Whether lines may have times, so that joining them needs timestamps.
    has_times: bool,
}

/// The memory of a shared list beside its items.
const ARC_BYTES: usize = 2 * size_of::<usize>();

/// The numbers of a column, which are read in their order.
pub(super) struct Numbers<'a> {
    form: Form,
    values: Values<'a>,
}

enum Values<'a> {
    /// Numbers that are read one by one.
    Numbers(Box<Cursor<'a>>),
    /// All numbers, since a time may be relative to the last one.
    Times(Vec<u64>, ColumnClock),
}

impl LineParts {
    /// Makes the parts of a stored block whose lines have `raw_len` bytes. `has_times` is given by
    /// its codec. `decompress` gets the compressed text and the length of the text, which it
    /// appends to a buffer. `None` if the block has too many fragments.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub(crate) fn new<E>(
        stored: &[u8],
        raw_len: usize,
        has_times: bool,
        scratch: &mut Scratch,
        decompress: impl FnOnce(&[u8], usize, &mut Vec<u8>) -> Result<(), E>,
        malformed: impl Fn(Malformed) -> E,
    ) -> Result<Option<LineParts>, E> {
        let mut reader = Reader { bytes: stored, at: 0 };
        let head = &mut scratch.head;
        head.read(&mut reader, raw_len, has_times).map_err(&malformed)?;
        if head.nexts.len() > usize::from(u16::MAX) + 1 {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(head.text_len);
        decompress(&stored[reader.at..], head.text_len, &mut text)?;
        if text.len() != head.text_len {
            return Err(malformed(Malformed));
        }
        let mut lines_of = Vec::new();
        lines_of.resize_with(head.slot_starts.len(), OnceLock::new);
        // Each line begins with a fragment of the first slot.
        let _ = lines_of[0].set(LinesOf::Each);
        Ok(Some(LineParts {
            text,
            fragment_ends: head.fragment_bounds[1..].to_vec(),
            nexts: head.nexts.clone(),
            slot_starts: head.slot_starts.clone(),
            uses: head.uses.iter().map(|&used| fragment_of(used) as u16).collect(),
            use_ends: head.use_ends.clone(),
            lines_of,
            columns: head.columns.clone(),
            numbers: stored[head.numbers.clone()].to_vec(),
            lines: head.lines,
            raw_len,
            has_times,
        }))
    }

    /// Whether [`Self::join`] needs the timestamps of the block.
    #[inline]
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Number of lines.
    #[inline]
    pub fn line_count(&self) -> usize {
        self.lines
    }

    /// The lines that use a slot, if they are known.
    pub(super) fn known_lines(&self, slot: usize) -> Option<&LinesOf> {
        self.lines_of[slot].get()
    }

    /// Keeps the lines that use a slot.
    pub(super) fn keep_lines(&self, slot: usize, lines: LinesOf) {
        // Another thread may have kept the same.
        let _ = self.lines_of[slot].set(lines);
    }

    /// The length of all lines in bytes.
    pub(super) fn raw_len(&self) -> usize {
        self.raw_len
    }

    /// Number of slots; there is one at least.
    pub(super) fn slot_count(&self) -> usize {
        self.slot_starts.len()
    }

    /// The fragments of a slot.
    pub(super) fn fragments_of(&self, slot: usize) -> Range<usize> {
        let end = self.slot_starts.get(slot + 1).map_or(self.nexts.len(), |&next| next as usize);
        self.slot_starts[slot] as usize..end
    }

    /// By slot: the slots whose fragments lead to it.
    pub(super) fn slots_before(&self) -> Vec<SlotSet> {
        let mut before = vec![SlotSet::default(); self.slot_count()];
        for slot in 0..self.slot_count() {
            for &next in &self.nexts[self.fragments_of(slot)] {
                if let Some(before) = before.get_mut(usize::from(next) + 1) {
                    before.add(slot);
                }
            }
        }
        before
    }

    /// The fragments with which lines use a slot, line by line.
    pub(super) fn uses_of(&self, slot: usize) -> &[u16] {
        &self.uses[self.first_use(slot)..self.use_ends[slot] as usize]
    }

    /// Where the uses of a slot start among the uses of all slots.
    pub(super) fn first_use(&self, slot: usize) -> usize {
        slot.checked_sub(1).map_or(0, |before| self.use_ends[before] as usize)
    }

    /// The form of the numbers of a column.
    pub(super) fn form(&self, column: u8) -> Option<Form> {
        self.columns.get(usize::from(column)).map(|column| column.form)
    }

    /// The columns' forms.
    pub(super) fn forms(&self) -> impl Iterator<Item = Form> {
        self.columns.iter().map(|column| column.form)
    }

    /// Heap memory in bytes.
    pub fn held_bytes(&self) -> usize {
        self.text.capacity()
            + 4 * (self.fragment_ends.capacity()
                + self.slot_starts.capacity()
                + self.use_ends.capacity())
            + self.nexts.capacity()
            + 2 * self.uses.capacity()
            // The line of each use, which may be kept later.
            + size_of::<OnceLock<LinesOf>>() * self.lines_of.capacity()
            + ARC_BYTES * self.slot_count()
            + 2 * self.uses.len()
            + size_of::<Column>() * self.columns.capacity()
            + self.numbers.capacity()
    }

    /// The text of a fragment.
    pub(super) fn fragment(&self, fragment: usize) -> &[u8] {
        let start = fragment.checked_sub(1).map_or(0, |before| self.fragment_ends[before] as usize);
        &self.text[start..self.fragment_ends[fragment] as usize]
    }

    /// The line of each use.
    ///
    /// # Errors
    /// If the lines use another number of fragments of a slot than it has uses.
    pub(super) fn walk(&self) -> Result<Vec<u16>, Malformed> {
        let mut found = vec![0; self.uses.len()];
        // The next use of each slot.
        let mut places = [0u32; MAX_COLUMNS + 2];
        places[1..=self.use_ends.len()].copy_from_slice(&self.use_ends);
        for line in 0..self.lines {
            let mut slot = 0u8;
            loop {
                let next = &places[usize::from(slot)];
                let (place, next) = (*next as usize, *next + 1);
                let fragment = *self.uses.get(place).ok_or(Malformed)?;
                places[usize::from(slot)] = next;
                found[place] = line as u16;
                match self.nexts[usize::from(fragment)] {
                    END => break,
                    next => slot = next + 1,
                }
            }
        }
        // No slot has used those of the next one, and none is left.
        let all_used = places.iter().zip(&self.use_ends).all(|(place, end)| place == end);
        if all_used { Ok(found) } else { Err(Malformed) }
    }

    /// Calls `each` with number and text of those `lines` for which `wants` is true.
    /// `timestamps_ns` has the timestamps of all lines of the block, if [`Self::has_times`].
    /// `slot_lines` are those of these parts.
    ///
    /// # Errors
    /// If the timestamps or the lines do not fit the block, or its uses or numbers are malformed.
    pub fn join(
        &self,
        slot_lines: &mut SlotLines,
        timestamps_ns: &[i64],
        lines: Range<usize>,
        wants: impl Fn(usize) -> bool,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), Malformed> {
        let has_timestamps = !self.has_times || timestamps_ns.len() == self.lines;
        if !has_timestamps || lines.end > self.lines {
            return Err(Malformed);
        }
        let mut slots: Vec<Option<JoinedSlot<'_>>> = Vec::new();
        slots.resize_with(self.slot_count(), || None);
        let mut text = Vec::new();
        let mut left = self.raw_len;
        for line in lines.filter(|&line| wants(line)) {
            text.clear();
            let mut slot = 0;
            loop {
                let joined = match &mut slots[slot] {
                    Some(joined) => joined,
                    none => none.insert(self.joined_slot(slot_lines, slot)?),
                };
                let place = joined.cursor.next_of(line)?;
                let mut digits = [0; NUMBER_ROOM];
                let timestamp_ns = timestamps_ns.get(line);
                let number = match &mut joined.numbers {
                    Some(numbers) => numbers.number(place, timestamp_ns, &mut digits)?,
                    None => &[],
                };
                let used = usize::from(*joined.uses.get(place).ok_or(Malformed)?);
                let fragment = self.fragment(used);
                left = left.checked_sub(number.len() + fragment.len()).ok_or(Malformed)?;
                text.extend_from_slice(number);
                text.extend_from_slice(fragment);
                match self.nexts[used] {
                    END => break,
                    next => slot = usize::from(next) + 1,
                }
            }
            each(line, &text);
        }
        Ok(())
    }

    fn joined_slot(
        &self,
        slot_lines: &mut SlotLines,
        slot: usize,
    ) -> Result<JoinedSlot<'_>, Malformed> {
        let column = slot.checked_sub(1);
        let column = column.filter(|&column| self.columns[column].form != Form::Nothing);
        let numbers = match column {
            Some(column) => Some(self.numbers_of(column)?),
            None => None,
        };
        let cursor = UseCursor::new(slot_lines.of(self, slot)?);
        Ok(JoinedSlot { cursor, uses: self.uses_of(slot), numbers })
    }

    /// The numbers of a column.
    pub(super) fn numbers_of(&self, column: usize) -> Result<Numbers<'_>, Malformed> {
        let column = &self.columns[column];
        let Some(origin) = column.origin else {
            let cursor = Cursor::new(column.section(&self.numbers)?, column.count);
            return Ok(Numbers { form: column.form, values: Values::Numbers(Box::new(cursor)) });
        };
        let mut times = Vec::new();
        column.append_numbers(&self.numbers, &mut times)?;
        Ok(Numbers { form: column.form, values: Values::Times(times, origin.clock()) })
    }
}

/// A slot, and the numbers before its fragments, while lines are joined.
struct JoinedSlot<'a> {
    cursor: UseCursor<'a>,
    uses: &'a [u16],
    numbers: Option<Numbers<'a>>,
}

impl Numbers<'_> {
    /// The text of a number in a line with this timestamp.
    #[inline]
    pub(super) fn number<'a>(
        &mut self,
        place: usize,
        timestamp_ns: Option<&i64>,
        digits: &'a mut [u8; NUMBER_ROOM],
    ) -> Result<&'a [u8], Malformed> {
        let len = match &mut self.values {
            Values::Numbers(numbers) => {
                let value = numbers.get(place)?;
                if value > self.form.largest() {
                    return Err(Malformed);
                }
                write_number(digits, value, self.form)
            }
            Values::Times(times, clock) => {
                let value = *times.get(place).ok_or(Malformed)?;
                clock.write(digits, value, *timestamp_ns.ok_or(Malformed)?).ok_or(Malformed)?
            }
        };
        Ok(&digits[..len])
    }
}

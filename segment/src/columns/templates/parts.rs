//! The lines of a block in parts: the distinct fragments, the fragments of each line, and the
//! stored numbers.
//!
//! Parts take a third of the memory of the lines, and making them is a fraction of the work of
//! decoding the lines. [`super::LineSearch`] filters lines in this form, and [`LineParts::join`]
//! makes the text of single lines.
//!
//! Guarantees: arbitrary stored bytes give an error or parts. The work of each operation is
//! bounded by the block's length. If [`super::decode`] gives lines, [`LineParts::join`] gives the
//! same lines.

use std::ops::Range;

use super::super::packed::{Cursor, Malformed};
use super::decode::{ColumnHead, NUMBER_ROOM, Reader, write_number};
use super::times::{ColumnClock, Origin};
use super::{END, Form, MAX_COLUMNS, MAX_LINES};

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
    pub(super) slot_starts: Vec<u32>,
    /// The fragments of all lines, line by line.
    pub(super) steps: Vec<u16>,
    /// The exclusive end of each line in the steps.
    pub(super) line_steps: Vec<u32>,
    columns: Vec<Column>,
    /// The stored bytes of the columns.
    numbers: Vec<u8>,
    raw_len: usize,
    /// Whether lines may have times, so that joining them needs timestamps.
    has_times: bool,
}

#[derive(Debug)]
struct Column {
    form: Form,
    values: usize,
    origin: Option<Origin>,
    /// Start of its section in the stored bytes of the columns.
    start: usize,
}

/// The numbers of a column.
enum Values<'a> {
    /// Numbers that are read one by one.
    Numbers(Box<Cursor<'a>>),
    /// All numbers, since a time may be relative to the last one.
    Times(Vec<u64>, ColumnClock),
}

/// The uses of all slots.
struct Uses {
    /// Slot by slot, the number of a fragment in 16 bits, and above them the column after it.
    fragments: Vec<u64>,
    /// The exclusive end of each slot.
    ends: Vec<usize>,
}

/// Bits of a fragment's number.
const FRAGMENT_BITS: u32 = 16;

impl LineParts {
    /// Makes the parts of a stored block whose lines have `raw_len` bytes. `has_times` is given by
    /// its codec. `decompress` gets the compressed text and the length of the text. `None` if the
    /// block has too many fragments.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub(crate) fn new<E>(
        stored: &[u8],
        raw_len: usize,
        has_times: bool,
        decompress: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, E>,
        malformed: impl Fn(Malformed) -> E,
    ) -> Result<Option<LineParts>, E> {
        let mut reader = Reader { bytes: stored, at: 0 };
        let Some((mut parts, uses, text_len, lines)) =
            read_head(&mut reader, raw_len, has_times).map_err(&malformed)?
        else {
            return Ok(None);
        };
        parts.text = decompress(&stored[reader.at..], text_len)?;
        if parts.text.len() != text_len {
            return Err(malformed(Malformed));
        }
        parts.walk(lines, &uses).map_err(malformed)?;
        Ok(Some(parts))
    }

    /// Whether [`Self::join`] needs the timestamps of the block.
    #[inline]
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Number of lines.
    #[inline]
    pub fn line_count(&self) -> usize {
        self.line_steps.len()
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
            + 4 * (self.fragment_ends.capacity() + self.slot_starts.capacity())
            + self.nexts.capacity()
            + 2 * self.steps.capacity()
            + 4 * self.line_steps.capacity()
            + size_of::<Column>() * self.columns.capacity()
            + self.numbers.capacity()
    }

    /// Fills in the steps.
    fn walk(&mut self, lines: usize, uses: &Uses) -> Result<(), Malformed> {
        self.line_steps.reserve_exact(lines);
        self.steps.reserve_exact(uses.fragments.len());
        let starts = std::iter::once(0).chain(uses.ends.iter().copied());
        let slots = starts.zip(&uses.ends).map(|(start, &end)| uses.fragments[start..end].iter());
        let mut slots: Vec<_> = slots.collect();
        for _ in 0..lines {
            let mut slot = 0;
            loop {
                let word = *slots[slot].next().ok_or(Malformed)?;
                self.steps.push(word as u16);
                match (word >> FRAGMENT_BITS) as u8 {
                    END => break,
                    next => slot = usize::from(next) + 1,
                }
            }
            self.line_steps.push(self.steps.len() as u32);
        }
        if slots.iter().all(|slot| slot.len() == 0) { Ok(()) } else { Err(Malformed) }
    }

    /// The text of a fragment.
    pub(super) fn fragment(&self, fragment: usize) -> &[u8] {
        let start = fragment.checked_sub(1).map_or(0, |before| self.fragment_ends[before] as usize);
        &self.text[start..self.fragment_ends[fragment] as usize]
    }

    /// Calls `each` with number and text of those `lines` for which `wants` is true.
    /// `timestamps_ns` has the timestamps of all lines of the block, if [`Self::has_times`].
    ///
    /// # Errors
    /// If the timestamps or the lines do not fit the block, or its numbers are malformed.
    pub fn join(
        &self,
        timestamps_ns: &[i64],
        lines: Range<usize>,
        wants: impl Fn(usize) -> bool,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), Malformed> {
        let has_timestamps = !self.has_times || timestamps_ns.len() == self.line_steps.len();
        if !has_timestamps || lines.end > self.line_steps.len() {
            return Err(Malformed);
        }
        // The numbers of each column from the first use on, and the count of used ones.
        let used = self.used_before(lines.start);
        let mut columns: Vec<(Option<Values<'_>>, usize)> =
            used.into_iter().map(|used| (None, used)).collect();
        let mut line = Vec::new();
        let mut left = self.raw_len;
        for number in lines {
            let steps = &self.steps[self.steps_of(number)];
            if !wants(number) {
                count_uses(steps, &self.nexts, &mut columns);
                continue;
            }
            line.clear();
            for &fragment in steps {
                let fragment = usize::from(fragment);
                let text = self.fragment(fragment);
                left = left.checked_sub(text.len()).ok_or(Malformed)?;
                line.extend_from_slice(text);
                let next = usize::from(self.nexts[fragment]);
                let Some((values, used)) = columns.get_mut(next) else { continue };
                let column = &self.columns[next];
                if column.form != Form::Nothing {
                    let values = match values {
                        Some(values) => values,
                        None => values.insert(self.values(column)?),
                    };
                    let mut digits = [0; NUMBER_ROOM];
                    let len = match values {
                        Values::Numbers(numbers) => {
                            let value = numbers.get(*used)?;
                            if value > column.form.largest() {
                                return Err(Malformed);
                            }
                            write_number(&mut digits, value, column.form)
                        }
                        Values::Times(times, clock) => {
                            let value = *times.get(*used).ok_or(Malformed)?;
                            let timestamp_ns = timestamps_ns[number];
                            clock.write(&mut digits, value, timestamp_ns).ok_or(Malformed)?
                        }
                    };
                    left = left.checked_sub(len).ok_or(Malformed)?;
                    line.extend_from_slice(&digits[..len]);
                }
                *used += 1;
            }
            each(number, &line);
        }
        Ok(())
    }

    /// The range of a line's fragments in the steps.
    fn steps_of(&self, line: usize) -> Range<usize> {
        let start = line.checked_sub(1).map_or(0, |before| self.line_steps[before] as usize);
        start..self.line_steps[line] as usize
    }

    /// For each column how many numbers the lines before `line` have. Counts from the nearer end:
    /// all lines together use each number once.
    fn used_before(&self, line: usize) -> Vec<usize> {
        let line_count = self.line_steps.len();
        let is_near_the_end = line > line_count / 2;
        let lines = if is_near_the_end { line..line_count } else { 0..line };
        let mut used: Vec<usize> = if is_near_the_end {
            self.columns.iter().map(|column| column.values).collect()
        } else {
            vec![0; self.columns.len()]
        };
        if lines.is_empty() {
            return used;
        }
        let steps = self.steps_of(lines.start).start..self.steps_of(lines.end - 1).end;
        for &fragment in &self.steps[steps] {
            let next = usize::from(self.nexts[usize::from(fragment)]);
            match used.get_mut(next) {
                Some(used) if is_near_the_end => *used -= 1,
                Some(used) => *used += 1,
                None => {}
            }
        }
        used
    }

    /// The numbers of a column.
    fn values(&self, column: &Column) -> Result<Values<'_>, Malformed> {
        let mut reader = Reader { bytes: &self.numbers, at: column.start };
        let Some(origin) = &column.origin else {
            let cursor = Cursor::new(reader.section()?, column.values);
            return Ok(Values::Numbers(Box::new(cursor)));
        };
        let mut times = reader.numbers(column.values, column.form.largest())?;
        origin.resolve(&mut times);
        Ok(Values::Times(times, origin.clock()))
    }
}

/// Passes over the numbers of a line that is not wanted. Not inlined: within a caller that is large
/// the compiler keeps the slices on the stack, and this loop takes a fifth of a search for a rare
/// text.
#[inline(never)]
fn count_uses(steps: &[u16], nexts: &[u8], columns: &mut [(Option<Values<'_>>, usize)]) {
    for &fragment in steps {
        let next = usize::from(nexts[usize::from(fragment)]);
        if let Some((_, used)) = columns.get_mut(next) {
            *used += 1;
        }
    }
}

type Head = (LineParts, Uses, usize, usize);

/// Reads all stored bytes before the text, with the checks of [`super::decode`]; `None` if there
/// are too many fragments.
fn read_head(
    reader: &mut Reader<'_>,
    raw_len: usize,
    has_times: bool,
) -> Result<Option<Head>, Malformed> {
    let text_len = reader.count(raw_len)?;
    let lines = reader.count(MAX_LINES)?;
    let count = usize::from(*reader.bytes.get(reader.at).ok_or(Malformed)?);
    reader.at += 1;
    if count > MAX_COLUMNS {
        return Err(Malformed);
    }
    let columns_start = reader.at;
    let mut columns = Vec::with_capacity(count);
    let mut room = raw_len;
    for _ in 0..count {
        let ColumnHead { form, count: values, origin } = reader.column_head(room, has_times)?;
        room -= values;
        let start = reader.at - columns_start;
        if form != Form::Nothing {
            // Read when a line is joined.
            let len = reader.count(reader.bytes.len())?;
            reader.at += len;
            if reader.at > reader.bytes.len() {
                return Err(Malformed);
            }
        }
        columns.push(Column { form, values, origin, start });
    }
    let mut parts = LineParts {
        text: Vec::new(),
        fragment_ends: Vec::new(),
        nexts: Vec::new(),
        slot_starts: Vec::with_capacity(count + 1),
        steps: Vec::new(),
        line_steps: Vec::new(),
        numbers: reader.bytes[columns_start..reader.at].to_vec(),
        columns,
        raw_len,
        has_times,
    };
    let all_uses = lines + parts.columns.iter().map(|column| column.values).sum::<usize>();
    let mut uses_of =
        Uses { fragments: Vec::with_capacity(all_uses), ends: Vec::with_capacity(count + 1) };
    // Of one slot: its uses, and the lengths of its fragments and the columns after them.
    let (mut fragments, mut lens, mut nexts) = (Vec::new(), Vec::new(), Vec::new());
    let mut text_at = 0;
    for slot in 0..=count {
        let uses = slot.checked_sub(1).map_or(lines, |column| parts.columns[column].values);
        let start = uses_of.fragments.len();
        reader.append_numbers(uses, uses as u64, &mut uses_of.fragments)?;
        let ids = &mut uses_of.fragments[start..];
        let new = ids.iter().filter(|&&id| id == 0).count();
        lens.clear();
        reader.append_numbers(new, raw_len as u64, &mut lens)?;
        nexts.clear();
        reader.append_numbers(new, u64::from(END), &mut nexts)?;
        parts.slot_starts.push(parts.nexts.len() as u32);
        fragments.clear();
        for (&len, &next) in lens.iter().zip(&nexts) {
            let next = next as u8;
            if next != END && usize::from(next) >= count {
                return Err(Malformed);
            }
            text_at += len as usize;
            if text_at > text_len {
                return Err(Malformed);
            }
            // A number above 16 bits ends in `None` below.
            let number = u64::from(parts.nexts.len() as u16);
            fragments.push(number | u64::from(next) << FRAGMENT_BITS);
            parts.fragment_ends.push(text_at as u32);
            parts.nexts.push(next);
        }
        resolve(ids, &fragments)?;
        uses_of.ends.push(uses_of.fragments.len());
    }
    if text_at != text_len {
        return Err(Malformed);
    }
    let fits = parts.nexts.len() <= usize::from(u16::MAX) + 1;
    Ok(fits.then_some((parts, uses_of, text_len, lines)))
}

/// Replaces the uses of a slot by its `fragments`: 0 stands for the first fragment that was not
/// used yet, and 1 + *k* for the fragment *k*.
fn resolve(ids: &mut [u64], fragments: &[u64]) -> Result<(), Malformed> {
    let mut used = 0;
    for id in ids {
        used += u64::from(*id == 0);
        let known = if *id == 0 { used } else { *id };
        if known > used {
            return Err(Malformed);
        }
        *id = *fragments.get(known as usize - 1).ok_or(Malformed)?;
    }
    Ok(())
}

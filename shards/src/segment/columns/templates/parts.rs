//! A block's lines left in their parts: the distinct segments once, which of them each
//! line has, and the numbers as they are stored.
//!
//! Takes a third of the memory of the lines and a fraction of the work of joining them.
//! [`super::LineSearch`] filters lines in this form, and [`LineParts::join`] puts those
//! together that are asked for.
//!
//! Guarantees: arbitrary stored bytes give an error or parts of which each operation is
//! bounded by the block's length; [`LineParts::join`] gives the lines that
//! [`super::decode`] gives, if that gives any.

use super::super::packed::Malformed;
use super::decode::{MOST_DIGITS, Reader, write_number};
use super::{END, Form, MAX_COLUMNS, MAX_LINES};

/// See the module.
#[derive(Debug)]
pub(crate) struct LineParts {
    /// The segments one after the other, those of slot 0 first.
    pub(super) text: Vec<u8>,
    /// Where each segment ends in the text.
    pub(super) segment_ends: Vec<u32>,
    /// The column behind each segment, or [`END`].
    pub(super) nexts: Vec<u8>,
    /// The first segment of each slot.
    pub(super) slot_starts: Vec<u32>,
    /// The segments of all lines, line by line.
    pub(super) steps: Vec<u16>,
    /// Where each line ends in the steps.
    pub(super) line_steps: Vec<u32>,
    columns: Vec<Column>,
    /// The stored bytes of the columns.
    numbers: Vec<u8>,
    raw_len: usize,
}

#[derive(Debug)]
struct Column {
    form: Form,
    values: usize,
    /// Where its section begins in the stored bytes of the columns.
    start: usize,
}

/// A slot while lines are walked.
struct Slot {
    ids: std::vec::IntoIter<u64>,
    /// Its first segment, and the one behind its last.
    first: usize,
    end: usize,
    /// How many of its segments have been used.
    used: usize,
}

impl LineParts {
    /// Takes a stored block apart whose lines have `raw_len` bytes. `decompress` gets the
    /// compressed text and its length. `None` if it has too many segments for this form.
    pub(crate) fn new<E>(
        stored: &[u8],
        raw_len: usize,
        decompress: impl FnOnce(&[u8], usize) -> Result<Vec<u8>, E>,
        malformed: impl Fn(Malformed) -> E,
    ) -> Result<Option<LineParts>, E> {
        let mut reader = Reader { bytes: stored, at: 0 };
        let Some((mut parts, mut slots, text_len, lines)) =
            read_head(&mut reader, raw_len).map_err(&malformed)?
        else {
            return Ok(None);
        };
        parts.text = decompress(&stored[reader.at..], text_len)?;
        if parts.text.len() != text_len {
            return Err(malformed(Malformed));
        }
        parts.walk(lines, &mut slots).map_err(malformed)?;
        Ok(Some(parts))
    }

    /// Number of lines.
    pub(crate) fn line_count(&self) -> usize {
        self.line_steps.len()
    }

    /// The form of the numbers of a column.
    pub(super) fn form(&self, column: u8) -> Option<Form> {
        self.columns.get(usize::from(column)).map(|column| column.form)
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.text.capacity()
            + 4 * (self.segment_ends.capacity() + self.slot_starts.capacity())
            + self.nexts.capacity()
            + 2 * self.steps.capacity()
            + 4 * self.line_steps.capacity()
            + size_of::<Column>() * self.columns.capacity()
            + self.numbers.capacity()
    }

    /// Fills in the steps.
    fn walk(&mut self, lines: usize, slots: &mut [Slot]) -> Result<(), Malformed> {
        self.line_steps.reserve_exact(lines);
        self.steps.reserve_exact(slots.iter().map(|slot| slot.ids.len()).sum());
        for _ in 0..lines {
            let mut slot = 0;
            loop {
                let of_slot = &mut slots[slot];
                // Only what was new before can be used again.
                let segment = match of_slot.ids.next().ok_or(Malformed)? {
                    0 => {
                        of_slot.used += 1;
                        of_slot.first + of_slot.used - 1
                    }
                    id if id as usize <= of_slot.used => of_slot.first + id as usize - 1,
                    _ => return Err(Malformed),
                };
                debug_assert!(segment < of_slot.end, "there is one for each new one");
                self.steps.push(segment as u16);
                match self.nexts[segment] {
                    END => break,
                    next => slot = usize::from(next) + 1,
                }
            }
            self.line_steps.push(self.steps.len() as u32);
        }
        if slots.iter().all(|slot| slot.ids.len() == 0) { Ok(()) } else { Err(Malformed) }
    }

    /// The text of a segment.
    pub(super) fn segment(&self, segment: usize) -> &[u8] {
        let start = segment.checked_sub(1).map_or(0, |before| self.segment_ends[before] as usize);
        &self.text[start..self.segment_ends[segment] as usize]
    }

    /// Puts together the lines that `wants` names, of those before `end`, and gives each
    /// with its number.
    pub(crate) fn join(
        &self,
        end: usize,
        wants: impl Fn(usize) -> bool,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), Malformed> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let values = match column.form {
                Form::Nothing => vec![0; column.values],
                form => {
                    let mut reader = Reader { bytes: &self.numbers, at: column.start };
                    reader.numbers(column.values, form.bound().wrapping_sub(1))?
                }
            };
            columns.push((column.form, values, 0));
        }
        let mut line = Vec::new();
        let mut left = self.raw_len;
        let mut step = 0;
        for (number, &line_end) in self.line_steps.iter().enumerate().take(end) {
            let wanted = wants(number);
            line.clear();
            for &segment in &self.steps[step..line_end as usize] {
                let segment = usize::from(segment);
                let next = self.nexts[segment];
                let value = match columns.get_mut(usize::from(next)) {
                    Some((form, values, used)) => {
                        let value = *values.get(*used).ok_or(Malformed)?;
                        *used += 1;
                        Some((*form, value))
                    }
                    None => None,
                };
                if !wanted {
                    continue;
                }
                let text = self.segment(segment);
                left = left.checked_sub(text.len()).ok_or(Malformed)?;
                line.extend_from_slice(text);
                if let Some((form, value)) = value {
                    let mut digits = [0; MOST_DIGITS];
                    let len = write_number(&mut digits, value, form);
                    left = left.checked_sub(len).ok_or(Malformed)?;
                    line.extend_from_slice(&digits[..len]);
                }
            }
            step = line_end as usize;
            if wanted {
                each(number, &line);
            }
        }
        Ok(())
    }
}

type Head = (LineParts, Vec<Slot>, usize, usize);

/// Reads what comes before the text, with the checks of [`super::decode`]; `None` if
/// there are too many segments.
fn read_head(reader: &mut Reader<'_>, raw_len: usize) -> Result<Option<Head>, Malformed> {
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
        let form = reader.bytes.get(reader.at..reader.at + 2).ok_or(Malformed)?;
        let form = Form::from_bytes([form[0], form[1]]).ok_or(Malformed)?;
        reader.at += 2;
        let values = reader.count(room)?;
        room -= values;
        let start = reader.at - columns_start;
        if form != Form::Nothing {
            // Looked at when a line is put together.
            let len = reader.count(reader.bytes.len())?;
            reader.at += len;
            if reader.at > reader.bytes.len() {
                return Err(Malformed);
            }
        }
        columns.push(Column { form, values, start });
    }
    let mut parts = LineParts {
        text: Vec::new(),
        segment_ends: Vec::new(),
        nexts: Vec::new(),
        slot_starts: Vec::with_capacity(count + 1),
        steps: Vec::new(),
        line_steps: Vec::new(),
        numbers: reader.bytes[columns_start..reader.at].to_vec(),
        columns,
        raw_len,
    };
    let mut slots = Vec::with_capacity(count + 1);
    let mut text_at = 0;
    for slot in 0..=count {
        let uses = slot.checked_sub(1).map_or(lines, |column| parts.columns[column].values);
        let ids = reader.numbers(uses, uses as u64)?;
        let new = ids.iter().filter(|&&id| id == 0).count();
        let lens = reader.numbers(new, raw_len as u64)?;
        let nexts = reader.numbers(new, u64::from(END))?;
        let first = parts.nexts.len();
        parts.slot_starts.push(first as u32);
        for (len, next) in lens.into_iter().zip(nexts) {
            let next = next as u8;
            if next != END && usize::from(next) >= count {
                return Err(Malformed);
            }
            text_at += len as usize;
            if text_at > text_len {
                return Err(Malformed);
            }
            parts.segment_ends.push(text_at as u32);
            parts.nexts.push(next);
        }
        slots.push(Slot { ids: ids.into_iter(), first, end: parts.nexts.len(), used: 0 });
    }
    if text_at != text_len {
        return Err(Malformed);
    }
    let fits = parts.nexts.len() <= usize::from(u16::MAX) + 1;
    Ok(fits.then_some((parts, slots, text_len, lines)))
}

//! Takes a block's lines apart, see the parent module.

use logsvc_proto::varint;

use super::super::packed;
use super::numbers::{Numbers, PADDING};
use super::{END, Form, MAX_LINES};

/// A distinct segment of a slot.
#[derive(Clone, Copy, Debug)]
struct Segment {
    hash: u64,
    start: u32,
    len: u32,
    /// Its number in its slot.
    number: u32,
    slot: u8,
    next: u8,
}

/// What follows the numbers of one column.
#[derive(Debug, Default)]
struct Slot {
    /// For each number: 0 for a segment that is new, or one more than its number.
    ids: Vec<u64>,
    /// Its segments, as they stand in the list of all.
    segments: Vec<u32>,
}

/// Encodes blocks, one after another, with the same buffers.
#[derive(Debug)]
pub(crate) struct Encoder {
    numbers: Numbers,
    values: Vec<Vec<u64>>,
    slots: Vec<Slot>,
    segments: Vec<Segment>,
    /// Open addressing: segments by their hashes. Its length is a power of two.
    table: Vec<u32>,
    /// The text of the segments of the last block.
    text: Vec<u8>,
    scratch: Vec<u64>,
    section: Vec<u8>,
}

const VACANT: u32 = u32::MAX;
const TABLE_START_LEN: usize = 4096;

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder {
            numbers: Numbers::new(),
            values: Vec::new(),
            slots: Vec::new(),
            segments: Vec::new(),
            table: Vec::new(),
            text: Vec::new(),
            scratch: Vec::new(),
            section: Vec::new(),
        }
    }

    /// Writes everything but the text of the segments to `out`, and returns that text,
    /// whose compressed form must follow. `None` if there are too many lines.
    pub(crate) fn encode(
        &mut self,
        lines: &[u8],
        ends: &[u32],
        out: &mut Vec<u8>,
    ) -> Option<&[u8]> {
        if ends.len() > MAX_LINES {
            return None;
        }
        let forms = self.numbers.find(lines, ends);
        self.divide(ends, forms.len());
        self.gather_text(forms.len());
        varint::write(out, self.text.len() as u64);
        varint::write(out, ends.len() as u64);
        out.push(forms.len() as u8);
        for (form, values) in forms.iter().zip(&self.values) {
            self.write_column(*form, values, out);
        }
        let Encoder { slots, segments, scratch, section, .. } = self;
        for slot in &slots[..=forms.len()] {
            write_section(&slot.ids, section, out);
            scratch.clear();
            scratch.extend(slot.segments.iter().map(|&s| u64::from(segments[s as usize].len)));
            write_section(scratch, section, out);
            scratch.clear();
            scratch.extend(slot.segments.iter().map(|&s| u64::from(segments[s as usize].next)));
            write_section(scratch, section, out);
        }
        Some(&self.text)
    }

    /// Divides the lines into segments and the values of `columns` columns.
    fn divide(&mut self, ends: &[u32], columns: usize) {
        self.segments.clear();
        self.table.clear();
        self.table.resize(TABLE_START_LEN, VACANT);
        self.values.iter_mut().for_each(Vec::clear);
        self.values.resize_with(self.values.len().max(columns), Vec::new);
        self.slots.resize_with(self.slots.len().max(columns + 1), Slot::default);
        for slot in &mut self.slots {
            slot.ids.clear();
            slot.segments.clear();
        }
        let (mut token, mut at) = (0, PADDING);
        for (&end, line) in ends.iter().zip(0..) {
            let end = end as usize + PADDING + line;
            let mut slot = 0;
            while let Some(&number) = self.numbers.tokens.get(token)
                && number.start as usize <= end
            {
                token += 1;
                let Some((column, value)) = self.numbers.column(&number) else { continue };
                self.segment(at, number.start as usize, slot, column);
                self.values[usize::from(column)].push(value);
                at = number.start as usize + usize::from(number.len);
                slot = column + 1;
            }
            self.segment(at, end, slot, END);
            at = end + 1;
        }
    }

    /// Adds a segment to a slot, which is 0 or one more than a column.
    fn segment(&mut self, start: usize, end: usize, slot: u8, next: u8) {
        let text = &self.numbers.text[start..end];
        let hash = hash(text, slot, next);
        let mut place = hash as usize & (self.table.len() - 1);
        // What is vacant is the number of no segment.
        while let Some(known) = self.segments.get(self.table[place] as usize) {
            let is_same = known.hash == hash
                && (known.slot, known.next) == (slot, next)
                && &self.numbers.text[known.start as usize..][..known.len as usize] == text;
            if is_same {
                self.slots[usize::from(slot)].ids.push(u64::from(known.number) + 1);
                return;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
        self.table[place] = self.segments.len() as u32;
        let of_slot = &mut self.slots[usize::from(slot)];
        of_slot.ids.push(0);
        self.segments.push(Segment {
            hash,
            start: start as u32,
            len: text.len() as u32,
            number: of_slot.segments.len() as u32,
            slot,
            next,
        });
        of_slot.segments.push(self.segments.len() as u32 - 1);
        if self.segments.len() * 2 > self.table.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let len = self.table.len() * 2;
        self.table.clear();
        self.table.resize(len, VACANT);
        for (segment, number) in self.segments.iter().zip(0..) {
            let mut place = segment.hash as usize & (len - 1);
            while self.table[place] != VACANT {
                place = (place + 1) & (len - 1);
            }
            self.table[place] = number;
        }
    }

    fn gather_text(&mut self, columns: usize) {
        self.text.clear();
        for &segment in self.slots[..=columns].iter().flat_map(|slot| &slot.segments) {
            let Segment { start, len, .. } = self.segments[segment as usize];
            self.text.extend_from_slice(&self.numbers.text[start as usize..][..len as usize]);
        }
    }

    /// Bytes that the buffers occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.capacity() * 8).sum();
        let slot = |slot: &Slot| slot.ids.capacity() * 8 + slot.segments.capacity() * 4;
        self.numbers.held_bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.table.capacity() * 4
            + self.text.capacity()
            + self.slots.iter().map(slot).sum::<usize>()
            + values
    }
}

impl Encoder {
    fn write_column(&self, form: Form, values: &[u64], out: &mut Vec<u8>) {
        out.extend_from_slice(&form.to_bytes());
        varint::write(out, values.len() as u64);
        if form == Form::Nothing {
            return;
        }
        let mut section = Vec::with_capacity(values.len() * 8 + values.len() / 32 + 16);
        packed::encode(values, &mut section);
        varint::write(out, section.len() as u64);
        out.extend_from_slice(&section);
    }
}

fn write_section(numbers: &[u64], section: &mut Vec<u8>, out: &mut Vec<u8>) {
    section.clear();
    packed::encode(numbers, section);
    varint::write(out, section.len() as u64);
    out.extend_from_slice(section);
}

/// Tells segments apart; those with one hash are compared.
fn hash(text: &[u8], slot: u8, next: u8) -> u64 {
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * 0x9E37_79B9_7F4A_7C15;
        product as u64 ^ (product >> 64) as u64
    };
    let seed = (text.len() as u64) << 16 | u64::from(slot) << 8 | u64::from(next);
    let mut state = fold(0x243F_6A88_85A3_08D3, seed);
    let (words, rest) = text.as_chunks::<8>();
    for &word in words {
        state = fold(state, u64::from_le_bytes(word));
    }
    if let Some(&last) = text.last_chunk::<8>() {
        return if rest.is_empty() { state } else { fold(state, u64::from_le_bytes(last)) };
    }
    fold(state, rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

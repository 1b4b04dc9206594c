//! Takes a block's lines apart, see the parent module.
//!
//! Lines of a block are alike, so most of them are made of segments and numbers that are
//! known by then: [`Segments::at`] compares a line with what came before in the same slot,
//! and only where nothing fits are the numbers of the line looked for. What is found either
//! way stands in the line, so the choice decides about bytes, not about what is read.

use logsvc_proto::varint;

use super::super::packed;
use super::numbers::{Number, Numbers};
use super::segments::Segments;
use super::text::Text;
use super::{END, Form, MAX_LINES};

/// Encodes blocks, one after another, with the same buffers.
#[derive(Debug)]
pub(crate) struct Encoder {
    lines: Text,
    numbers: Numbers,
    values: Vec<Vec<u64>>,
    segments: Segments,
    /// The text of the segments of the last block.
    text: Vec<u8>,
    scratch: Vec<u64>,
    section: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder {
            lines: Text::default(),
            numbers: Numbers::new(),
            values: Vec::new(),
            segments: Segments::default(),
            text: Vec::new(),
            scratch: Vec::new(),
            section: Vec::new(),
        }
    }

    /// Begins with another segment.
    pub(crate) fn forget(&mut self) {
        self.numbers.forget();
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
        self.lines.fill(lines, ends);
        let forms = self.numbers.learn(&self.lines);
        self.divide(&forms);
        self.gather_text(forms.len());
        varint::write(out, self.text.len() as u64);
        varint::write(out, ends.len() as u64);
        out.push(forms.len() as u8);
        let Encoder { values, segments, scratch, section, .. } = self;
        for (form, values) in forms.iter().zip(values) {
            out.extend_from_slice(&form.to_bytes());
            varint::write(out, values.len() as u64);
            if *form != Form::Nothing {
                write_section(values, section, out);
            }
        }
        for slot in &segments.slots[..=forms.len()] {
            write_section(&slot.ids, section, out);
            let of_slot = || slot.segments.iter().map(|&segment| segments.get(segment));
            scratch.clear();
            scratch.extend(of_slot().map(|segment| u64::from(segment.len)));
            write_section(scratch, section, out);
            scratch.clear();
            scratch.extend(of_slot().map(|segment| u64::from(segment.next)));
            write_section(scratch, section, out);
        }
        Some(&self.text)
    }

    /// Divides the lines into segments and the values of columns of these forms.
    fn divide(&mut self, forms: &[Form]) {
        self.segments.clear(forms.len());
        self.values.iter_mut().for_each(Vec::clear);
        self.values.resize_with(self.values.len().max(forms.len()), Vec::new);
        let Encoder { lines, numbers, values, segments, .. } = self;
        for line in 0..lines.lines() {
            let (mut at, end) = lines.line(line);
            let mut slot = 0;
            let start = at;
            loop {
                if let Some(found) = segments.at(slot, lines, at, end, forms) {
                    segments.slots[usize::from(slot)].ids.push(found.id);
                    if found.next == END {
                        break;
                    }
                    values[usize::from(found.next)].push(found.value);
                    at = found.number_at + found.digits;
                    slot = found.next + 1;
                    continue;
                }
                let column = slot.checked_sub(1);
                let Some(number) = numbers.first_behind(lines, start..end, at, column) else {
                    segments.add(lines, at, end, slot, END);
                    break;
                };
                let Number { start: number_at, len, column, value } = number;
                segments.add(lines, at, number_at as usize, slot, column);
                values[usize::from(column)].push(value);
                at = number_at as usize + usize::from(len);
                slot = column + 1;
            }
        }
    }

    fn gather_text(&mut self, columns: usize) {
        self.text.clear();
        let slots = &self.segments.slots[..=columns];
        for &segment in slots.iter().flat_map(|slot| &slot.segments) {
            let segment = self.segments.get(segment);
            let bytes = &self.lines.bytes()[segment.start as usize..][..segment.len as usize];
            self.text.extend_from_slice(bytes);
        }
    }

    /// Bytes that the buffers occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.capacity() * 8).sum();
        self.lines.held_bytes()
            + self.numbers.held_bytes()
            + self.segments.held_bytes()
            + self.text.capacity()
            + values
    }
}

fn write_section(numbers: &[u64], section: &mut Vec<u8>, out: &mut Vec<u8>) {
    section.clear();
    packed::encode(numbers, section);
    varint::write(out, section.len() as u64);
    out.extend_from_slice(section);
}

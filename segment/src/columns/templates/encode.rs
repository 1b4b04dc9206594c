//! Encodes the lines of a block, see the parent module.
//!
//! Most lines of a block consist of fragments that earlier lines have. [`Fragments::at`] compares
//! a line with the fragments of the slot; only if none matches, the encoder searches the line for
//! numbers. Either way the fragment is a part of the line, so the choice affects the size, but
//! not the decoded lines.

use logsvc_proto::varint;

use super::super::packed;
use super::fragments::Fragments;
use super::numbers::{Number, Numbers};
use super::text::Text;
use super::times::{Basis, LEAST_BYTES, Layout};
use super::{END, Form, MAX_DECIMAL_DIGITS, MAX_HEX_DIGITS, MAX_LINES};

/// A time is longer than all other numbers, so that the length tells them apart.
const _: () =
    assert!(LEAST_BYTES > MAX_DECIMAL_DIGITS as usize && LEAST_BYTES > MAX_HEX_DIGITS as usize);

/// Encodes blocks, and keeps its buffers between them.
#[derive(Debug)]
pub(crate) struct Encoder {
    lines: Text,
    numbers: Numbers,
    values: Vec<Vec<u64>>,
    /// For columns of times the line of each number.
    value_lines: Vec<Vec<u32>>,
    fragments: Fragments,
    /// The text of the fragments of the last block.
    text: Vec<u8>,
    scratch: Vec<u64>,
    section: Vec<u8>,
    other_section: Vec<u8>,
}

/// An encoded block, besides the head that the encoder has written.
#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    /// The text of the fragments, whose compressed form must follow the head.
    pub(crate) text: &'a [u8],
    /// Whether a column has times, so that decoding needs the timestamps.
    pub(crate) has_times: bool,
}

impl Encoder {
    pub(crate) fn new() -> Encoder {
        Encoder {
            lines: Text::default(),
            numbers: Numbers::new(),
            values: Vec::new(),
            value_lines: Vec::new(),
            fragments: Fragments::default(),
            text: Vec::new(),
            scratch: Vec::new(),
            section: Vec::new(),
            other_section: Vec::new(),
        }
    }

    /// Forgets the statistics of past blocks, before the first block of another segment.
    pub(crate) fn forget(&mut self) {
        self.numbers.forget();
    }

    /// Writes everything but the text of the fragments to `out`. `timestamps_ns` has one timestamp
    /// per line. `None` if there are too many lines.
    pub(crate) fn encode(
        &mut self,
        lines: &[u8],
        ends: &[u32],
        timestamps_ns: &[i64],
        out: &mut Vec<u8>,
    ) -> Option<Encoded<'_>> {
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
        let mut has_times = false;
        for (column, form) in forms.iter().enumerate() {
            if let Form::Time(layout, _) = *form {
                has_times = true;
                self.write_times(column, layout, timestamps_ns, out);
                continue;
            }
            let values = &self.values[column];
            out.extend_from_slice(&form.to_bytes());
            varint::write(out, values.len() as u64);
            if *form != Form::Nothing {
                write_section(values, &mut self.section, out);
            }
        }
        let Encoder { fragments, scratch, section, .. } = self;
        for slot in &fragments.slots[..=forms.len()] {
            write_section(&slot.ids, section, out);
            let of_slot = || slot.fragments.iter().map(|&fragment| fragments.get(fragment));
            scratch.clear();
            scratch.extend(of_slot().map(|fragment| u64::from(fragment.len)));
            write_section(scratch, section, out);
            scratch.clear();
            scratch.extend(of_slot().map(|fragment| u64::from(fragment.next)));
            write_section(scratch, section, out);
        }
        Some(Encoded { text: &self.text, has_times })
    }

    /// Writes a column of times, relative to the basis that takes fewer bytes.
    fn write_times(
        &mut self,
        column: usize,
        layout: Layout,
        timestamps_ns: &[i64],
        out: &mut Vec<u8>,
    ) {
        let Encoder { values, value_lines, scratch, section, other_section, .. } = self;
        let (times, lines) = (&values[column], &value_lines[column]);
        let from_entries = times.iter().zip(lines).map(|(&units, &line)| {
            let entry = layout.units_of(timestamps_ns[line as usize]);
            (units as i64).wrapping_sub(entry)
        });
        let by_entry = pack_times(from_entries, scratch, section);
        let mut chosen = (Basis::Entry, by_entry, &*section);
        let first = times.first().map_or(0, |&units| units as i64);
        // No bits per number: another basis cannot take fewer.
        if section.len() > times.len() / 8 {
            let befores = std::iter::once(first).chain(times.iter().map(|&units| units as i64));
            let from_rows = times.iter().zip(befores).map(|(&units, before)| units as i64 - before);
            let by_row = pack_times(from_rows, scratch, other_section);
            if other_section.len() < section.len() {
                chosen = (Basis::Row, by_row, &*other_section);
            }
        }
        let (basis, least, section) = chosen;
        out.extend_from_slice(&Form::Time(layout, basis).to_bytes());
        varint::write(out, times.len() as u64);
        varint::write(out, zigzag(least));
        if basis == Basis::Row {
            varint::write(out, zigzag(first));
        }
        varint::write(out, section.len() as u64);
        out.extend_from_slice(section);
    }

    /// Divides the lines into fragments and numbers of columns of these forms.
    fn divide(&mut self, forms: &[Form]) {
        self.fragments.clear(forms.len());
        self.values.iter_mut().for_each(Vec::clear);
        self.values.resize_with(self.values.len().max(forms.len()), Vec::new);
        self.value_lines.iter_mut().for_each(Vec::clear);
        self.value_lines.resize_with(self.values.len(), Vec::new);
        let Encoder { lines, numbers, values, value_lines, fragments, .. } = self;
        let mut push = |column: u8, value: u64, len: usize, line: usize| {
            values[usize::from(column)].push(value);
            if len >= LEAST_BYTES {
                value_lines[usize::from(column)].push(line as u32);
            }
        };
        for line in 0..lines.lines() {
            let (mut at, end) = lines.line(line);
            let mut slot = 0;
            let start = at;
            loop {
                if let Some(found) = fragments.at(slot, lines, at, end, forms) {
                    fragments.slots[usize::from(slot)].ids.push(found.id);
                    if found.next == END {
                        break;
                    }
                    push(found.next, found.value, found.digits, line);
                    at = found.number_at + found.digits;
                    slot = found.next + 1;
                    continue;
                }
                let column = slot.checked_sub(1);
                let Some(number) = numbers.first_behind(lines, start..end, at, column) else {
                    fragments.add(lines, at, end, slot, END);
                    break;
                };
                let Number { start: number_at, len, column, value } = number;
                fragments.add(lines, at, number_at as usize, slot, column);
                push(column, value, len.into(), line);
                at = number_at as usize + usize::from(len);
                slot = column + 1;
            }
        }
    }

    fn gather_text(&mut self, columns: usize) {
        self.text.clear();
        let slots = &self.fragments.slots[..=columns];
        for &fragment in slots.iter().flat_map(|slot| &slot.fragments) {
            let fragment = self.fragments.get(fragment);
            let bytes = &self.lines.bytes()[fragment.start as usize..][..fragment.len as usize];
            self.text.extend_from_slice(bytes);
        }
    }

    /// Bytes that the buffers occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.capacity() * 8).sum();
        let lines: usize = self.value_lines.iter().map(|lines| lines.capacity() * 4).sum();
        self.lines.held_bytes()
            + self.numbers.held_bytes()
            + self.fragments.held_bytes()
            + self.text.capacity()
            + values
            + lines
    }
}

/// Packs differences into a section, after subtracting the least one, which is returned.
fn pack_times(
    differences: impl Iterator<Item = i64>,
    scratch: &mut Vec<u64>,
    section: &mut Vec<u8>,
) -> i64 {
    scratch.clear();
    let mut least = i64::MAX;
    scratch.extend(differences.map(|difference| {
        least = least.min(difference);
        difference as u64
    }));
    if scratch.is_empty() {
        least = 0;
    }
    for difference in scratch.iter_mut() {
        *difference = difference.wrapping_sub(least as u64);
    }
    section.clear();
    packed::encode(scratch, section);
    least
}

/// Zigzag encoding: an unsigned number that is small if the signed one is near zero.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn write_section(numbers: &[u64], section: &mut Vec<u8>, out: &mut Vec<u8>) {
    section.clear();
    packed::encode(numbers, section);
    varint::write(out, section.len() as u64);
    out.extend_from_slice(section);
}

//! The labels of one tenant's rows, by name and by value.
//!
//! Rows come in the order of their labels, so most pairs of a row are those of the row before. Such a
//! pair costs a comparison: its run of rows goes on. Only a pair that differs is looked up.

use logsvc_proto::bytes::equal;
use logsvc_proto::{Labels, varint};

use super::sort::sort_texts;
use super::texts::Texts;
use crate::columns::compress::Compressor;
use crate::error::WriteError;
use crate::label_index::key::{KIND_NAME, KIND_VALUE, VALUE_FOLLOWS};
use crate::label_index::page::PageWriter;
use crate::label_index::stored_rows;

#[derive(Debug)]
pub(super) struct TenantLabels {
    texts: Texts,
    first_row: u32,
    next_row: u32,
    /// The pairs of the last row.
    open: Vec<OpenPair>,
    /// The labels of the last row, encoded.
    last: Vec<u8>,
    /// Memory for pairs of the row before.
    before: Vec<OpenPair>,
    /// Runs that have ended, in the order of their ends.
    runs: Vec<Run>,
}

/// A pair whose runs go on: numbers of texts, and first rows.
#[derive(Clone, Copy, Debug)]
struct OpenPair {
    name: u32,
    value: u32,
    name_since: u32,
    value_since: u32,
    /// Where the pair stands in the labels of the last row.
    start: usize,
    len: usize,
}

/// Successive rows with a name or with a value.
#[derive(Clone, Copy, Debug)]
struct Run {
    text: u32,
    start: u32,
    end: u32,
}

impl TenantLabels {
    pub(super) fn new() -> TenantLabels {
        TenantLabels {
            texts: Texts::new(),
            first_row: 0,
            next_row: 0,
            open: Vec::new(),
            last: Vec::new(),
            before: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// How many rows the tenant has.
    pub(super) fn rows(&self) -> u32 {
        self.next_row - self.first_row
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, labels: &Labels) {
        let row = self.next_row;
        self.next_row += 1;
        let bytes = labels.as_bytes();
        let mut rest = Pairs::of(bytes);
        let mut same = 0;
        for open in &mut self.open {
            let start = rest.position;
            let before = &self.last[open.start..open.start + open.len];
            if bytes.get(start..start + open.len).is_some_and(|pair| equal(pair, before)) {
                rest.position += open.len;
            } else {
                let mut ahead = rest;
                let Some((name, value)) = ahead.next() else { break };
                if !equal(self.texts.get(open.name), name) {
                    break;
                }
                rest = ahead;
                self.runs.push(Run { text: open.value, start: open.value_since, end: row });
                open.value = self.texts.value(open.name, value);
                open.value_since = row;
                open.len = rest.position - start;
            }
            open.start = start;
            same += 1;
        }
        if same < self.open.len() || rest.position < bytes.len() {
            self.merge(same, rest);
        }
        self.last.clear();
        self.last.extend_from_slice(bytes);
    }

    /// Replaces the open pairs from `from` on by others.
    fn merge(&mut self, from: usize, mut pairs: Pairs<'_>) {
        let row = self.next_row - 1;
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        before.extend_from_slice(&self.open[from..]);
        self.open.truncate(from);
        let mut old = before.iter().copied().peekable();
        loop {
            let start = pairs.position;
            let Some((name, value)) = pairs.next() else { break };
            let len = pairs.position - start;
            while let Some(gone) = old.next_if(|pair| self.texts.get(pair.name) < name) {
                self.close(gone, row);
            }
            let pair = match old.next_if(|pair| equal(self.texts.get(pair.name), name)) {
                Some(mut pair) => {
                    if !equal(self.texts.get(pair.value), value) {
                        let start = pair.value_since;
                        self.runs.push(Run { text: pair.value, start, end: row });
                        pair.value = self.texts.value(pair.name, value);
                        pair.value_since = row;
                    }
                    OpenPair { start, len, ..pair }
                }
                None => {
                    let name = self.texts.name(name);
                    let value = self.texts.value(name, value);
                    OpenPair { start, len, name, value, name_since: row, value_since: row }
                }
            };
            self.open.push(pair);
        }
        old.for_each(|gone| self.close(gone, row));
        self.before = before;
    }

    fn close(&mut self, pair: OpenPair, end: u32) {
        self.runs.push(Run { text: pair.value, start: pair.value_since, end });
        self.runs.push(Run { text: pair.name, start: pair.name_since, end });
    }

    /// Writes the entries of the tenant, which has this number, and begins the next tenant.
    pub(super) fn write(
        &mut self,
        tenant: u32,
        pages: &mut PageWriter,
        compressor: &mut Compressor,
    ) -> Result<(), WriteError> {
        let open = std::mem::take(&mut self.open);
        for &pair in &open {
            self.close(pair, self.next_row);
        }
        let (ends, runs) = self.runs_by_text();
        let sorted = self.sorted();
        let mut key = tenant.to_be_bytes().to_vec();
        let kind_at = key.len();
        let (mut rows, mut scratch) = (Vec::new(), Vec::new());
        for text in sorted {
            key.truncate(kind_at);
            match self.texts.name_of(text) {
                None => key.push(KIND_NAME),
                Some(name) => {
                    key.push(KIND_VALUE);
                    key.extend_from_slice(self.texts.get(name));
                    key.push(VALUE_FOLLOWS);
                }
            }
            key.extend_from_slice(self.texts.get(text));
            let start = if text == 0 { 0 } else { ends[text as usize - 1] };
            let of_text = runs[start..ends[text as usize]].iter().map(|&(start, end)| start..end);
            rows.clear();
            stored_rows::write(of_text, self.first_row, &mut scratch, &mut rows);
            pages.push(&key, &rows, compressor)?;
        }
        self.open = open;
        self.open.clear();
        self.first_row = self.next_row;
        // A small tenant does not keep the memory of a large one.
        let kept = self.runs.len() * 4;
        self.runs.clear();
        self.runs.shrink_to(kept);
        self.texts.clear();
        Ok(())
    }

    /// All runs by the numbers of their texts, and the exclusive end of each text's.
    fn runs_by_text(&self) -> (Vec<usize>, Vec<(u32, u32)>) {
        let mut ends = vec![0usize; self.texts.count() as usize];
        for run in &self.runs {
            ends[run.text as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // At first the end of what has its place.
            sum += std::mem::replace(end, sum);
        }
        let mut runs = vec![(0, 0); self.runs.len()];
        for run in &self.runs {
            let place = &mut ends[run.text as usize];
            runs[*place] = (run.start, run.end);
            *place += 1;
        }
        (ends, runs)
    }

    /// Names, then the values of each name, in the order of their keys.
    fn sorted(&self) -> Vec<u32> {
        let count = self.texts.count();
        let text = |number| self.texts.get(number);
        let is_name = |number: &u32| self.texts.name_of(*number).is_none();
        let mut sorted: Vec<u32> = (0..count).filter(is_name).collect();
        sort_texts(&mut sorted, text);
        // The place of each name's next value, by the name's number: at first, how many it has.
        let mut places = vec![0usize; count as usize];
        (0..count).filter_map(|number| self.texts.name_of(number)).for_each(|name| {
            places[name as usize] += 1;
        });
        let names = sorted.clone();
        let mut next = names.len();
        for &name in &names {
            let place = &mut places[name as usize];
            next += std::mem::replace(place, next);
        }
        sorted.resize(count as usize, 0);
        for number in 0..count {
            if let Some(name) = self.texts.name_of(number) {
                sorted[places[name as usize]] = number;
                places[name as usize] += 1;
            }
        }
        let mut start = names.len();
        for &name in &names {
            let end = places[name as usize];
            sort_texts(&mut sorted[start..end], text);
            start = end;
        }
        sorted
    }

    /// Bytes that all of it occupies.
    pub(super) fn held_bytes(&self) -> usize {
        self.texts.held_bytes() + self.runs.capacity() * size_of::<Run>()
    }
}

/// The pairs of a label set in its encoded form, see `logsvc_proto::labels::encoding`.
#[derive(Clone, Copy)]
struct Pairs<'l> {
    bytes: &'l [u8],
    position: usize,
}

impl<'l> Pairs<'l> {
    fn of(bytes: &'l [u8]) -> Pairs<'l> {
        let mut pairs = Pairs { bytes, position: 0 };
        let count = varint::read(bytes, &mut pairs.position);
        debug_assert!(count.is_ok(), "a label set is well-formed");
        pairs
    }

    fn text(&mut self) -> Option<&'l [u8]> {
        let len = varint::read(self.bytes, &mut self.position).ok()? as usize;
        let text = self.bytes.get(self.position..self.position + len)?;
        self.position += len;
        Some(text)
    }

    fn next(&mut self) -> Option<(&'l [u8], &'l [u8])> {
        Some((self.text()?, self.text()?))
    }
}

//! The labels of one tenant's rows, by name and by value.
//!
//! Rows come in the order of their labels, so most pairs of a row are those of the row before. Such a
//! pair costs a comparison: its run of rows goes on. Only a pair that differs is looked up.

use logsvc_proto::Labels;
use logsvc_proto::bytes::equal;

use super::texts::Texts;
use crate::columns::compress::Compressor;
use crate::error::WriteError;
use crate::label_index::key::{KIND_NAME, KIND_VALUE, VALUE_FOLLOWS, common_len};
use crate::label_index::page::PageWriter;
use crate::label_index::stored_rows;

#[derive(Debug)]
pub(super) struct TenantLabels {
    texts: Texts,
    first_row: u32,
    next_row: u32,
    /// The pairs of the last row.
    open: Vec<OpenPair>,
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
        let (open, before, runs) = (Vec::new(), Vec::new(), Vec::new());
        TenantLabels { texts: Texts::new(), first_row: 0, next_row: 0, open, before, runs }
    }

    /// How many rows the tenant has.
    pub(super) fn rows(&self) -> u32 {
        self.next_row - self.first_row
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, labels: &Labels) {
        let row = self.next_row;
        self.next_row += 1;
        let mut pairs = labels.iter();
        let mut same = 0;
        for open in &mut self.open {
            let mut ahead = pairs.clone();
            let Some((name, value)) = ahead.next() else { break };
            if !equal(self.texts.get(open.name), name.as_bytes()) {
                break;
            }
            pairs = ahead;
            same += 1;
            if !equal(self.texts.get(open.value), value.as_bytes()) {
                self.runs.push(Run { text: open.value, start: open.value_since, end: row });
                open.value = self.texts.value(open.name, value.as_bytes());
                open.value_since = row;
            }
        }
        if same < self.open.len() || pairs.len() > 0 {
            self.merge(same, pairs);
        }
    }

    /// Replaces the open pairs from `from` on by others.
    fn merge<'l>(&mut self, from: usize, pairs: impl Iterator<Item = (&'l str, &'l str)>) {
        let row = self.next_row - 1;
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        before.extend_from_slice(&self.open[from..]);
        self.open.truncate(from);
        let mut old = before.iter().copied().peekable();
        for (name, value) in pairs {
            let (name, value) = (name.as_bytes(), value.as_bytes());
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
                    pair
                }
                None => {
                    let name = self.texts.name(name);
                    let value = self.texts.value(name, value);
                    OpenPair { name, value, name_since: row, value_since: row }
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
        let names = self.sorted_names();
        let values = self.sorted_values(&names);
        let mut key = tenant.to_be_bytes().to_vec();
        let kind_at = key.len();
        let (mut rows, mut scratch) = (Vec::new(), Vec::new());
        let names = names.iter().map(|&name| (None, name));
        let values = values.iter().map(|value| (self.texts.name_of(value.text), value.text));
        for (name, text) in names.chain(values) {
            key.truncate(kind_at);
            match name {
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

    fn sorted_names(&self) -> Vec<u32> {
        let mut names: Vec<u32> =
            (0..self.texts.count()).filter(|&text| self.texts.name_of(text).is_none()).collect();
        names.sort_unstable_by_key(|&name| self.texts.get(name));
        names
    }

    /// All values in the order of their keys. Most comparisons decide by some bytes behind what all
    /// values of a name have in common.
    fn sorted_values(&self, names: &[u32]) -> Vec<SortedValue> {
        let count = self.texts.count();
        let mut ranks = vec![0; count as usize];
        names.iter().zip(0..).for_each(|(&name, rank)| ranks[name as usize] = rank);
        // For each name by rank its first value, and what others have in common with it.
        let mut common: Vec<Option<(u32, usize)>> = vec![None; names.len()];
        let values = || (0..count).filter_map(|text| Some((text, self.texts.name_of(text)?)));
        for (text, name) in values() {
            match &mut common[ranks[name as usize] as usize] {
                Some((first, len)) => {
                    let first = &self.texts.get(*first)[..*len];
                    *len = common_len(first, self.texts.get(text));
                }
                first => *first = Some((text, self.texts.get(text).len())),
            }
        }
        let mut sorted: Vec<SortedValue> = Vec::with_capacity(count as usize - names.len());
        for (text, name) in values() {
            let rank = ranks[name as usize];
            let len = common[rank as usize].map_or(0, |(_, len)| len);
            let rest = &self.texts.get(text)[len..];
            let mut bytes = [0; 8];
            let some = rest.len().min(bytes.len());
            bytes[..some].copy_from_slice(&rest[..some]);
            sorted.push(SortedValue { rank, bytes: u64::from_be_bytes(bytes), text });
        }
        sorted.sort_unstable_by(|a, b| {
            let by_bytes = (a.rank, a.bytes).cmp(&(b.rank, b.bytes));
            by_bytes.then_with(|| self.texts.get(a.text).cmp(self.texts.get(b.text)))
        });
        sorted
    }

    /// Bytes that all of it occupies.
    pub(super) fn held_bytes(&self) -> usize {
        self.texts.held_bytes() + self.runs.capacity() * size_of::<Run>()
    }
}

/// A value in the order of keys.
struct SortedValue {
    /// The place of its name among all names.
    rank: u32,
    bytes: u64,
    text: u32,
}

//! States of cells: one row per series and cell, one column per part of a state.
//!
//! A row takes the bytes of the columns that are wanted: 8 for the smallest value, the largest and
//! the count, 32 for the sum, the first sample and the last. Columns lie in chunks that are never
//! moved once they hold 512 rows, so at most that many rows are unused.

use super::super::exact_sum::ExactSum;
use super::super::meter::Meter;
use super::super::range::StateParts;
use super::super::range::folds::{greatest, least};
use super::samples::Sample;

/// Rows of a chunk.
const CHUNK_ROWS: usize = 512;

/// One part of all states.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Column<T> {
    fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// Makes room for a row. False if there is no memory.
    fn make_room(&mut self, meter: &Meter) -> bool {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_ROWS => return meter.make_room(last, 1),
            Some(_) if !meter.admit(CHUNK_ROWS * size_of::<T>()) => return false,
            _ => {}
        }
        let capacity = if self.chunks.is_empty() { 0 } else { CHUNK_ROWS };
        meter.push(&mut self.chunks, Vec::with_capacity(capacity))
            && (capacity > 0 || self.make_room(meter))
    }

    /// Adds a row, for which there is room.
    fn push(&mut self, item: T) {
        self.chunks.last_mut().expect("there is room").push(item);
    }

    /// Adds a row in the place that [`Column::make_room`] would give it.
    fn append(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_ROWS => last.push(item),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK_ROWS);
                chunk.push(item);
                self.chunks.push(chunk);
            }
            None => self.chunks.push(vec![item]),
        }
    }

    fn row_mut(&mut self, row: u32) -> &mut T {
        &mut self.chunks[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    fn row(&self, row: u32) -> &T {
        &self.chunks[row as usize / CHUNK_ROWS][row as usize % CHUNK_ROWS]
    }

    fn held_bytes(&self) -> usize {
        let rows: usize = self.chunks.iter().map(Vec::capacity).sum();
        rows * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

/// One row. Parts that are not wanted are ignored.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct StateRow {
    pub(crate) count: u64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    pub(crate) first: Option<Sample>,
    pub(crate) last: Option<Sample>,
    pub(crate) sum: ExactSum,
}

/// The states of a leaf. Columns of parts that are not wanted are empty.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StateTable {
    parts: StateParts,
    rows: u32,
    counts: Column<u64>,
    least: Column<f64>,
    greatest: Column<f64>,
    firsts: Column<Sample>,
    lasts: Column<Sample>,
    sums: Column<ExactSum>,
    /// Heap memory of sums.
    sums_bytes: usize,
}

impl StateTable {
    pub(crate) fn new(parts: StateParts) -> Self {
        Self {
            parts,
            rows: 0,
            counts: Column::new(),
            least: Column::new(),
            greatest: Column::new(),
            firsts: Column::new(),
            lasts: Column::new(),
            sums: Column::new(),
            sums_bytes: 0,
        }
    }

    /// The columns that there are.
    pub(crate) fn parts(&self) -> StateParts {
        self.parts
    }

    /// Adds a row that has the parts that are wanted.
    pub(crate) fn append(&mut self, row: StateRow) {
        let StateRow { count, least, greatest, first, last, sum } = row;
        if self.parts.has(StateParts::COUNT) {
            self.counts.append(count);
        }
        if self.parts.has(StateParts::LEAST) {
            self.least.append(least);
        }
        if self.parts.has(StateParts::GREATEST) {
            self.greatest.append(greatest);
        }
        if let Some(first) = first.filter(|_| self.parts.has(StateParts::FIRST)) {
            self.firsts.append(first);
        }
        if let Some(last) = last.filter(|_| self.parts.has(StateParts::LAST)) {
            self.lasts.append(last);
        }
        if self.parts.has(StateParts::SUM) {
            self.sums_bytes += sum.heap_bytes();
            self.sums.append(sum);
        }
        self.rows += 1;
    }

    /// Whether samples are told apart by their places in the order of all.
    pub(crate) fn has_order(&self) -> bool {
        self.parts.has(StateParts::FIRST) || self.parts.has(StateParts::LAST)
    }

    /// A new row of one sample; `None` if there is no memory.
    pub(super) fn push(&mut self, sample: &Sample, meter: &Meter) -> Option<u32> {
        let Self { parts, counts, least, greatest, firsts, lasts, sums, .. } = self;
        let has = |part| parts.has(part);
        // All columns have the same rows, also where memory ends.
        let has_room = (!has(StateParts::COUNT) || counts.make_room(meter))
            && (!has(StateParts::LEAST) || least.make_room(meter))
            && (!has(StateParts::GREATEST) || greatest.make_room(meter))
            && (!has(StateParts::FIRST) || firsts.make_room(meter))
            && (!has(StateParts::LAST) || lasts.make_room(meter))
            && (!has(StateParts::SUM) || sums.make_room(meter));
        if !has_room {
            return None;
        }
        if has(StateParts::COUNT) {
            counts.push(1);
        }
        if has(StateParts::LEAST) {
            least.push(sample.value);
        }
        if has(StateParts::GREATEST) {
            greatest.push(sample.value);
        }
        if has(StateParts::FIRST) {
            firsts.push(*sample);
        }
        if has(StateParts::LAST) {
            lasts.push(*sample);
        }
        if has(StateParts::SUM) {
            sums.push(ExactSum::of(sample.value));
        }
        self.rows += 1;
        Some(self.rows - 1)
    }

    /// Adds a sample to a row; a part of it if there is no memory. `precedes` says whether the
    /// first sample comes before the second.
    #[inline]
    pub(super) fn add(
        &mut self,
        row: u32,
        sample: &Sample,
        precedes: impl Fn(&Sample, &Sample) -> bool,
        meter: &Meter,
    ) {
        let parts = self.parts;
        if parts.has(StateParts::COUNT) {
            *self.counts.row_mut(row) += 1;
        }
        if parts.has(StateParts::LEAST) {
            let kept = self.least.row_mut(row);
            *kept = least(*kept, sample.value);
        }
        if parts.has(StateParts::GREATEST) {
            let kept = self.greatest.row_mut(row);
            *kept = greatest(*kept, sample.value);
        }
        if parts.has(StateParts::FIRST) {
            let kept = self.firsts.row_mut(row);
            if precedes(sample, kept) {
                *kept = *sample;
            }
        }
        if parts.has(StateParts::LAST) {
            let kept = self.lasts.row_mut(row);
            if precedes(kept, sample) {
                *kept = *sample;
            }
        }
        if parts.has(StateParts::SUM) {
            let sum = self.sums.row_mut(row);
            if !sum.add_narrow(sample.value) && meter.admit(ExactSum::WIDE_BYTES) {
                sum.add(sample.value);
                self.sums_bytes += ExactSum::WIDE_BYTES;
            }
        }
    }

    /// How many values a row has.
    pub(crate) fn count(&self, row: u32) -> u64 {
        if self.parts.has(StateParts::COUNT) { *self.counts.row(row) } else { 0 }
    }

    /// The smallest value of a row.
    pub(crate) fn least(&self, row: u32) -> f64 {
        *self.least.row(row)
    }

    /// The largest value of a row.
    pub(crate) fn greatest(&self, row: u32) -> f64 {
        *self.greatest.row(row)
    }

    /// The first sample of a row.
    pub(crate) fn first(&self, row: u32) -> &Sample {
        self.firsts.row(row)
    }

    /// The last sample of a row.
    pub(crate) fn last(&self, row: u32) -> &Sample {
        self.lasts.row(row)
    }

    /// The sum of the values of a row.
    pub(crate) fn sum(&self, row: u32) -> &ExactSum {
        self.sums.row(row)
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows as usize
    }

    /// Gives streams other numbers: the ones at their old numbers.
    pub(crate) fn renumber(&mut self, numbers: &[u32]) {
        let samples = self.firsts.chunks.iter_mut().chain(&mut self.lasts.chunks).flatten();
        for sample in samples {
            // Some number is missing only where the leaf is stopped.
            sample.stream = numbers.get(sample.stream as usize).copied().unwrap_or(0);
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.counts.held_bytes()
            + self.least.held_bytes()
            + self.greatest.held_bytes()
            + self.firsts.held_bytes()
            + self.lasts.held_bytes()
            + self.sums.held_bytes()
            + self.sums_bytes
    }
}

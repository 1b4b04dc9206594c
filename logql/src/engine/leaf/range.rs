//! The leaf of an additive range aggregation: counts and byte sums per series and
//! step. `sum` directly over such a function is evaluated here as well, by taking
//! the labels of the `sum` for the series.

use super::super::block::{EntryBlock, count_until};
use super::super::meter::Meter;
use super::super::params::{Cell, Windows};
use super::super::plan::EntryValue;
use super::cells::CellCursor;
use super::runs::{Runs, SumPoint};
use logsvc_proto::Labels;

/// The work of adding to a series, see [`crate::engine::meter`].
const CELL_WORK: usize = 32;

/// Collects the samples of a range aggregation.
#[derive(Debug)]
pub(crate) struct RangeCollector {
    cells: CellCursor,
    value: EntryValue,
    /// By label set id.
    series: Vec<Runs>,
    /// Ids of series that got their first entry, until the caller takes them.
    pub(super) fresh: Vec<u32>,
    run_bytes: usize,
}

impl RangeCollector {
    pub(crate) fn new(windows: Windows, value: EntryValue) -> Self {
        Self {
            cells: CellCursor::new(windows),
            value,
            series: Vec::new(),
            fresh: Vec::new(),
            run_bytes: 0,
        }
    }

    pub(crate) fn value(&self) -> EntryValue {
        self.value
    }

    /// The steps that see an entry.
    pub(crate) fn cell(&mut self, timestamp_ns: i64) -> Cell {
        self.cells.cell(timestamp_ns)
    }

    /// Whether any window sees an entry of this time.
    pub(crate) fn sees(&mut self, timestamp_ns: i64) -> bool {
        self.cells.sees(timestamp_ns)
    }

    /// Whether an entry within these times could be seen by a window.
    pub(crate) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        self.cells.wants(min_timestamp_ns, max_timestamp_ns)
    }

    /// Adds entries of one series that fall into one cell, and `bytes`, the sum of the values of
    /// kind [`RangeCollector::value`]. Nothing is added if there is no memory.
    pub(crate) fn add(&mut self, series: u32, cell: &Cell, count: u64, bytes: u64, meter: &Meter) {
        if cell.is_gap() {
            return;
        }
        let sum = match self.value {
            EntryValue::One => count,
            EntryValue::LineLength | EntryValue::StoredSize => bytes,
        };
        let index = series as usize;
        if self.series.len() <= index {
            let missing = index + 1 - self.series.len();
            if !meter.make_room(&mut self.series, missing) {
                return;
            }
            self.series.resize_with(index + 1, Runs::default);
        }
        let runs = &mut self.series[index];
        if runs.is_empty() && !meter.push(&mut self.fresh, series) {
            return;
        }
        self.run_bytes += runs.add(cell, count, sum, meter);
    }

    /// Adds the entries `first..end` of a sorted block, all of one series: one
    /// search for each change of the steps that see them. `metadata_bytes` returns the
    /// bytes of metadata of a range of entries, and is called only if they count.
    pub(crate) fn add_sorted(
        &mut self,
        series: u32,
        block: &EntryBlock<'_>,
        first: usize,
        end: usize,
        meter: &Meter,
        mut metadata_bytes: impl FnMut(usize, usize) -> u64,
    ) {
        let times = block.timestamps_ns;
        let lines = block.line_view();
        let mut i = first;
        while i < end {
            let cell = self.cell(times[i]);
            let next = i + count_until(&times[i..end], cell.max_ns);
            if !meter.work((next - i) * size_of::<i64>() + CELL_WORK) {
                return;
            }
            let line_bytes = || (lines.end(next - 1) - lines.start(i)) as u64;
            let bytes = match self.value {
                EntryValue::One => 0,
                EntryValue::LineLength => line_bytes(),
                EntryValue::StoredSize => line_bytes() + metadata_bytes(i, next),
            };
            self.add(series, &cell, (next - i) as u64, bytes, meter);
            i = next;
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.run_bytes
            + self.series.capacity() * size_of::<Runs>()
            + self.fresh.capacity() * size_of::<u32>()
    }

    /// The series that have points; `labels` gives the labels of a series. The result is
    /// incomplete if the leaf is stopped here.
    pub(crate) fn finish(self, labels: impl Fn(u32) -> Labels, meter: &Meter) -> Vec<SumSeries> {
        let mut series = Vec::new();
        for (id, runs) in (0u32..).zip(self.series) {
            let points = runs.points(meter);
            if points.is_empty() {
                continue;
            }
            let labels = labels(id);
            if !meter.push(&mut series, SumSeries { labels, points }) {
                break;
            }
        }
        series
    }
}

/// One series of integer points, steps ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SumSeries {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<SumPoint>,
}

impl SumSeries {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + self.labels.as_bytes().len()
            + self.points.capacity() * size_of::<SumPoint>()
    }
}

//! The leaf of a quantile over unwrapped values: the values by series and cell.
//!
//! A quantile does not depend on the order of values, so a value is kept as its key of 8 bytes
//! (see [`key_of`]), beside others that the same steps see. Values lie in the order of arrival in
//! chunks that are never moved once they hold 64, so at most an eighth of the memory is unused,
//! and at most 64 KiB of a series. A *run* of 16 bytes tells the steps of values in a row.
//!
//! What can go wrong: entries that alternate between cells have a run each, and take no less than
//! whole samples would.

use logsvc_proto::Labels;

use super::super::labels::EntryLabels;
use super::super::labels::sets::LabelSets;
use super::super::meter::Meter;
use super::super::params::{Cell, Windows};
use super::super::range::quantile::key_of;
use super::cells::CellCursor;

/// The work of a series when the leaf ends, see [`crate::engine::meter`].
const SERIES_WORK: usize = 128;

/// Values of a chunk that grows by moving, and of the largest chunk.
const SMALL_VALUES: usize = 64;
const MAX_VALUES: usize = 8192;

/// Values in a row of one chunk, which the steps `first_step..end_step` see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first_step: u32,
    end_step: u32,
    chunk: u32,
    len: u32,
}

/// Where values of a series are that the steps `first_step..end_step` see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span {
    pub(crate) first_step: u32,
    pub(crate) end_step: u32,
    /// The number of the part of the series; the caller's.
    pub(crate) part: u32,
    chunk: u32,
    start: u32,
    pub(crate) len: u32,
}

/// Values in a row that the steps `first_step..end_step` see, wherever they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ValueRun {
    pub(crate) first_step: u32,
    pub(crate) end_step: u32,
    pub(crate) len: u32,
}

/// The values of one series.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct CellValues {
    chunks: Vec<Vec<u64>>,
    runs: Vec<Run>,
}

impl CellValues {
    /// The values of chunks, which lie in these runs one behind the other. `None` if a run or a
    /// chunk is empty, if a run goes on in the next chunk, or if there are more of either.
    pub(crate) fn of_chunks(chunks: Vec<Vec<u64>>, runs: &[ValueRun]) -> Option<CellValues> {
        let mut placed = Vec::with_capacity(runs.len());
        let mut left = runs.iter();
        for (number, keys) in (0u32..).zip(&chunks) {
            let mut keys_left = u32::try_from(keys.len()).ok().filter(|len| *len > 0)?;
            while keys_left > 0 {
                let ValueRun { first_step, end_step, len } = *left.next()?;
                keys_left = keys_left.checked_sub(len).filter(|_| len > 0)?;
                placed.push(Run { first_step, end_step, chunk: number, len });
            }
        }
        left.next().is_none().then_some(CellValues { chunks, runs: placed })
    }

    /// The keys of all values, in the chunks in which they lie.
    pub(crate) fn chunks(&self) -> &[Vec<u64>] {
        &self.chunks
    }

    /// Adds a value; nothing if there is no memory. Returns the growth of memory in bytes.
    fn add(&mut self, cell: &Cell, value: f64, meter: &Meter) -> usize {
        let before_bytes = self.lists_bytes();
        let Some(grown_bytes) = self.make_room(meter) else { return 0 };
        let chunk = self.chunks.len() - 1;
        let number = u32::try_from(chunk).expect("the memory budget bounds the chunks");
        let joins = |run: &&mut Run| {
            (run.first_step, run.end_step, run.chunk) == (cell.first_step, cell.end_step, number)
        };
        match self.runs.last_mut().filter(joins) {
            Some(run) => run.len += 1,
            None => {
                let (first_step, end_step) = (cell.first_step, cell.end_step);
                let run = Run { first_step, end_step, chunk: number, len: 1 };
                if !meter.push(&mut self.runs, run) {
                    return grown_bytes + self.lists_bytes() - before_bytes;
                }
            }
        }
        self.chunks[chunk].push(key_of(value));
        grown_bytes + self.lists_bytes() - before_bytes
    }

    /// Makes room for a value at the end of the last chunk. Returns the growth of chunks in bytes;
    /// `None` if there is no memory.
    fn make_room(&mut self, meter: &Meter) -> Option<usize> {
        if let Some(last) = self.chunks.last_mut() {
            let capacity = last.capacity();
            if last.len() < capacity {
                return Some(0);
            }
            if capacity < SMALL_VALUES {
                let has_room = meter.make_room(last, 1);
                return has_room.then(|| (last.capacity() - capacity) * size_of::<u64>());
            }
        }
        let held: usize = match self.chunks.as_slice() {
            [] => 0,
            chunks if chunks.len() < MAX_VALUES / SMALL_VALUES => {
                chunks.iter().map(Vec::capacity).sum()
            }
            _ => usize::MAX,
        };
        let capacity = (held / 8).clamp(SMALL_VALUES, MAX_VALUES);
        let capacity = if held == 0 { 4 } else { capacity };
        let bytes = capacity * size_of::<u64>();
        if !meter.make_room(&mut self.chunks, 1) || !meter.admit(bytes) {
            return None;
        }
        self.chunks.push(Vec::with_capacity(capacity));
        Some(bytes)
    }

    fn lists_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<u64>>() + self.runs.capacity() * size_of::<Run>()
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(Vec::capacity).sum();
        self.lists_bytes() + chunks * size_of::<u64>()
    }

    /// How many spans there are.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The places of all values, as the ones of a part.
    pub(crate) fn spans(&self, part: u32) -> impl Iterator<Item = Span> {
        let mut end = (0, 0);
        self.runs.iter().map(move |&Run { first_step, end_step, chunk, len }| {
            let start = if end.0 == chunk { end.1 } else { 0 };
            end = (chunk, start + len);
            Span { first_step, end_step, part, chunk, start, len }
        })
    }

    /// The keys of the values of a span.
    pub(crate) fn keys(&self, span: &Span) -> &[u64] {
        let start = span.start as usize;
        &self.chunks[span.chunk as usize][start..start + span.len as usize]
    }
}

/// Collects the values of an unwrapped range aggregation.
#[derive(Debug)]
pub(crate) struct ValueCollector {
    cells: CellCursor,
    /// By label set id.
    series: Vec<CellValues>,
    /// Ids of series that got their first value, until the caller takes them.
    pub(super) fresh: Vec<u32>,
    value_bytes: usize,
}

impl ValueCollector {
    pub(crate) fn new(windows: Windows) -> Self {
        let cells = CellCursor::new(windows);
        Self { cells, series: Vec::new(), fresh: Vec::new(), value_bytes: 0 }
    }

    /// Whether any window sees an entry of this time.
    pub(crate) fn sees(&mut self, timestamp_ns: i64) -> bool {
        self.cells.sees(timestamp_ns)
    }

    /// Whether an entry within these times could be seen by a window.
    pub(crate) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        self.cells.wants(min_timestamp_ns, max_timestamp_ns)
    }

    /// Adds a value; nothing if there is no memory.
    pub(crate) fn add(&mut self, series: u32, timestamp_ns: i64, value: f64, meter: &Meter) {
        let cell = self.cells.cell(timestamp_ns);
        if cell.is_gap() {
            return;
        }
        let index = series as usize;
        if self.series.len() <= index {
            let missing = index + 1 - self.series.len();
            if !meter.make_room(&mut self.series, missing) {
                return;
            }
            self.series.resize_with(index + 1, CellValues::default);
        }
        let values = &mut self.series[index];
        if values.runs.is_empty() && !meter.push(&mut self.fresh, series) {
            return;
        }
        self.value_bytes += values.add(&cell, value, meter);
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.value_bytes
            + self.series.capacity() * size_of::<CellValues>()
            + self.fresh.capacity() * size_of::<u32>()
    }

    /// The values by series. They are incomplete if the leaf is stopped here.
    pub(crate) fn finish(self, sets: &LabelSets, names: &EntryLabels) -> Vec<ValueSeries> {
        let meter = names.meter();
        let mut found = Vec::new();
        for (id, values) in (0u32..).zip(self.series) {
            if values.runs.is_empty() {
                continue;
            }
            if !meter.work(SERIES_WORK) {
                break;
            }
            let one = ValueSeries { labels: sets.labels(id, names), values };
            if !meter.push(&mut found, one) {
                break;
            }
        }
        found
    }
}

/// The values of one series.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ValueSeries {
    pub(crate) labels: Labels,
    pub(crate) values: CellValues,
}

impl ValueSeries {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.labels.as_bytes().len() + self.values.held_bytes()
    }
}

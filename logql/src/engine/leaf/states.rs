//! The leaf of functions over unwrapped values that follow from a state of constant size.
//!
//! A leaf keeps one state per series and cell (see [`Keep`](super::super::range::Keep)), however
//! many samples there are. Of samples of equal time the first and the last one are decided by the
//! order of [`Sample::order`], so the answer is the one over whole samples.
//!
//! What can go wrong: a series whose samples lie in a cell each takes no less than whole samples
//! would: 12 bytes for the cell besides the columns. Samples that come against the order of time
//! move the cells behind theirs, which counts as work.

use logsvc_proto::Labels;

use super::super::labels::EntryLabels;
use super::super::labels::sets::LabelSets;
use super::super::meter::Meter;
use super::super::params::{Cell, Windows};
use super::super::range::StateParts;
use super::cells::CellCursor;
use super::log::StreamKey;
use super::samples::Sample;
use super::state_table::StateTable;
use super::stream_numbers::{SourceStreams, StreamNumbers};

/// The work of a series when the leaf ends, see [`crate::engine::meter`].
const SERIES_WORK: usize = 128;

/// The work of a row when its samples get the numbers of the result.
const ROW_WORK: usize = 64;

/// The row of the samples that the steps `first_step..end_step` see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CellRow {
    pub(crate) first_step: u32,
    pub(crate) end_step: u32,
    pub(crate) row: u32,
}

impl CellRow {
    /// The order of cells: both ends ascend with time.
    pub(crate) fn steps(&self) -> (u32, u32) {
        (self.first_step, self.end_step)
    }
}

/// The cells of one series, in order.
#[derive(Clone, Debug, Default)]
struct CellRows {
    cells: Vec<CellRow>,
    /// The cell of the sample before: the next one falls into the same or the one behind it.
    last: usize,
}

impl CellRows {
    /// The place of a cell, or the place where it would be.
    fn place_of(&self, cell: &Cell) -> Result<usize, usize> {
        let steps = (cell.first_step, cell.end_step);
        let is_at = |place: usize| self.cells.get(place).is_some_and(|one| one.steps() == steps);
        if is_at(self.last) {
            return Ok(self.last);
        }
        if is_at(self.last + 1) {
            return Ok(self.last + 1);
        }
        self.cells.binary_search_by_key(&steps, CellRow::steps)
    }
}

/// Collects the states of an unwrapped range aggregation.
#[derive(Debug)]
pub(crate) struct StateCollector {
    cells: CellCursor,
    streams: StreamNumbers,
    table: StateTable,
    /// By label set id.
    series: Vec<CellRows>,
    /// Ids of series that got their first sample, until the caller takes them.
    pub(super) fresh: Vec<u32>,
    cells_bytes: usize,
}

impl StateCollector {
    pub(crate) fn new(windows: Windows, parts: StateParts) -> Self {
        Self {
            cells: CellCursor::new(windows),
            streams: StreamNumbers::default(),
            table: StateTable::new(parts),
            series: Vec::new(),
            fresh: Vec::new(),
            cells_bytes: 0,
        }
    }

    /// The number of a stream, for [`Sample::stream`]; any number if there is no memory for it, or
    /// if it makes no difference.
    pub(crate) fn stream(&mut self, labels: &Labels, meter: &Meter) -> u32 {
        if self.table.has_order() {
            self.streams.add(StreamKey::new(labels, meter), meter)
        } else {
            0
        }
    }

    /// Whether any window sees an entry of this time.
    pub(crate) fn sees(&mut self, timestamp_ns: i64) -> bool {
        self.cells.sees(timestamp_ns)
    }

    /// Whether an entry within these times could be seen by a window.
    pub(crate) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        self.cells.wants(min_timestamp_ns, max_timestamp_ns)
    }

    /// Adds a sample; nothing if there is no memory.
    pub(crate) fn add(&mut self, series: u32, sample: &Sample, meter: &Meter) {
        let cell = self.cells.cell(sample.timestamp_ns);
        if cell.is_gap() {
            return;
        }
        let index = series as usize;
        if self.series.len() <= index {
            let missing = index + 1 - self.series.len();
            if !meter.make_room(&mut self.series, missing) {
                return;
            }
            self.series.resize_with(index + 1, CellRows::default);
        }
        let rows = &mut self.series[index];
        match rows.place_of(&cell) {
            Ok(place) => {
                rows.last = place;
                let streams = &self.streams;
                let precedes = |a: &Sample, b: &Sample| {
                    let place = |one: &Sample| (one.arrival, one.index);
                    let by_time = a.timestamp_ns.cmp(&b.timestamp_ns);
                    let by_stream = || match a.stream == b.stream {
                        true => std::cmp::Ordering::Equal,
                        false => streams.key(a.stream).cmp(&streams.key(b.stream)),
                    };
                    by_time.then_with(by_stream).then_with(|| place(a).cmp(&place(b))).is_lt()
                };
                self.table.add(rows.cells[place].row, sample, precedes, meter);
            }
            Err(place) => {
                let capacity = rows.cells.capacity();
                let has_room = meter.make_room(&mut rows.cells, 1)
                    && (!rows.cells.is_empty() || meter.push(&mut self.fresh, series));
                self.cells_bytes += (rows.cells.capacity() - capacity) * size_of::<CellRow>();
                meter.work((rows.cells.len() - place) * size_of::<CellRow>());
                if has_room && let Some(row) = self.table.push(sample, meter) {
                    let (first_step, end_step) = (cell.first_step, cell.end_step);
                    rows.cells.insert(place, CellRow { first_step, end_step, row });
                    rows.last = place;
                }
            }
        }
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.cells_bytes
            + self.table.held_bytes()
            + self.streams.held_bytes()
            + self.series.capacity() * size_of::<CellRows>()
            + self.fresh.capacity() * size_of::<u32>()
    }

    /// The states by series. They are incomplete if the leaf is stopped here.
    pub(crate) fn finish(mut self, sets: &LabelSets, names: &EntryLabels) -> StatePartial {
        let meter = names.meter();
        let mut partial = StatePartial {
            streams: SourceStreams::new(),
            table: StateTable::new(StateParts::NONE),
            series: Vec::new(),
        };
        if self.table.has_order() {
            meter.work(self.table.rows() * ROW_WORK);
            let Some((streams, ranks)) = self.streams.ranked(meter) else { return partial };
            self.table.renumber(&ranks);
            partial.streams = streams;
        }
        partial.table = self.table;
        for (id, CellRows { cells, .. }) in (0u32..).zip(self.series) {
            if cells.is_empty() {
                continue;
            }
            if !meter.work(SERIES_WORK) {
                break;
            }
            let one = StateSeries { labels: sets.labels(id, names), cells };
            if !meter.push(&mut partial.series, one) {
                break;
            }
        }
        partial
    }
}

/// The states that a shard found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StatePartial {
    /// Empty unless samples are told apart by their order.
    pub(crate) streams: SourceStreams,
    pub(crate) table: StateTable,
    pub(crate) series: Vec<StateSeries>,
}

/// The cells of one series, in order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StateSeries {
    pub(crate) labels: Labels,
    pub(crate) cells: Vec<CellRow>,
}

impl StatePartial {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let series: usize = self
            .series
            .iter()
            .map(|one| one.labels.as_bytes().len() + one.cells.capacity() * size_of::<CellRow>())
            .sum();
        series
            + self.series.capacity() * size_of::<StateSeries>()
            + self.table.held_bytes()
            + self.streams.capacity() * size_of::<(u64, Box<str>)>()
            + self.streams.iter().map(|(_, text)| text.len()).sum::<usize>()
    }
}

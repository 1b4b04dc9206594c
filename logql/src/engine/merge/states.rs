//! The states that leaves keep by series and cell, see [`super::super::leaf::states`].

use std::collections::BTreeMap;

use super::super::leaf::state_table::StateTable;
use super::super::leaf::states::{CellRow, StatePartial, StateSeries};
use super::super::leaf::stream_numbers::{SourceStreams, aligned};
use super::super::meter::Meter;
use super::super::range::folds::{First, Fold, Greatest, Last, Least, Total};
use super::folded::CellFolds;
use super::samples::STREAM_BYTES;
use super::series::SERIES_WORK;
use super::{MAP_ENTRY_BYTES, PairOrder};

/// The work of sorting a cell, see [`crate::engine::meter`].
const CELL_WORK: usize = 96;

/// The place of a sample in the order of all: time, stream, arrival, index.
type Order = (i64, u32, u64, u32);

/// A fold that states have.
pub(super) trait StateFold: Fold {
    /// The fold of a row. The table has the parts that it needs.
    fn of_row(table: &StateTable, row: u32) -> Self;

    /// Where the samples of the row lie among those of other rows of the cell, if that counts.
    fn order(_table: &StateTable, _row: u32) -> Order {
        Order::default()
    }
}

impl StateFold for Least {
    fn of_row(table: &StateTable, row: u32) -> Self {
        Self(table.least(row))
    }
}

impl StateFold for Greatest {
    fn of_row(table: &StateTable, row: u32) -> Self {
        Self(table.greatest(row))
    }
}

impl StateFold for First {
    fn of_row(table: &StateTable, row: u32) -> Self {
        Self(table.first(row).value)
    }

    fn order(table: &StateTable, row: u32) -> Order {
        table.first(row).order()
    }
}

impl StateFold for Last {
    fn of_row(table: &StateTable, row: u32) -> Self {
        Self(table.last(row).value)
    }

    fn order(table: &StateTable, row: u32) -> Order {
        table.last(row).order()
    }
}

impl StateFold for Total {
    fn of_row(table: &StateTable, row: u32) -> Self {
        Self { count: table.count(row), sum: table.sum(row).clone() }
    }
}

/// A cell of one part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PlacedRow {
    steps: (u32, u32),
    order: Order,
    part: u32,
    row: u32,
}

/// The states of a leaf, of all shards together.
#[derive(Debug, Default)]
pub(super) struct MergedStates {
    streams: Vec<SourceStreams>,
    tables: Vec<StateTable>,
    /// The cells of each series, with the numbers of their parts.
    series: BTreeMap<PairOrder, Vec<(u32, Vec<CellRow>)>>,
}

impl MergedStates {
    /// Adds a part. A meter that is stopped ends it early.
    pub(super) fn add(&mut self, meter: &Meter, part: StatePartial) {
        let number = u32::try_from(self.tables.len()).expect("no more parts than cores");
        self.tables.push(part.table);
        self.streams.push(part.streams);
        let list_bytes = part.series.capacity() * size_of::<StateSeries>();
        for StateSeries { labels, cells } in part.series {
            if !meter.work(SERIES_WORK + labels.as_bytes().len()) || !meter.admit(MAP_ENTRY_BYTES) {
                return;
            }
            let parts = self.series.entry(PairOrder(labels)).or_default();
            if !meter.push(parts, (number, cells)) {
                return;
            }
        }
        meter.release(list_bytes);
    }

    /// Gives the streams of all parts numbers in one order. A meter that is stopped ends it early.
    pub(super) fn finish(mut self, meter: &Meter) -> Self {
        let streams = self.streams.iter().flatten();
        let streams_bytes = streams.map(|(_, text)| text.len() + STREAM_BYTES).sum();
        if streams_bytes == 0 {
            return self;
        }
        let before_bytes = meter.used_bytes();
        if !meter.work(streams_bytes) || !meter.admit(streams_bytes) {
            return Self::default();
        }
        for (table, numbers) in self.tables.iter_mut().zip(aligned(self.streams.iter())) {
            meter.work(table.rows() * CELL_WORK);
            table.renumber(&numbers);
        }
        meter.release_to(before_bytes);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// How many series there are.
    pub(super) fn len(&self) -> usize {
        self.series.len()
    }

    /// All series in order, with the cells of their parts.
    pub(super) fn series(&self) -> impl Iterator<Item = (&PairOrder, &[(u32, Vec<CellRow>)])> {
        self.series.iter().map(|(labels, parts)| (labels, parts.as_slice()))
    }

    /// The folds of one series. A meter that is stopped ends it early.
    pub(super) fn cells<F: StateFold>(
        &self,
        meter: &Meter,
        parts: &[(u32, Vec<CellRow>)],
    ) -> CellFolds<F> {
        let mut cells = CellFolds::default();
        let count: usize = parts.iter().map(|(_, rows)| rows.len()).sum();
        let Some(_memory) = meter.hold(count * size_of::<PlacedRow>()) else { return cells };
        meter.work(count * CELL_WORK);
        let mut placed = Vec::with_capacity(count);
        for (part, rows) in parts {
            let table = &self.tables[*part as usize];
            placed.extend(rows.iter().map(|&CellRow { first_step, end_step, row }| PlacedRow {
                steps: (first_step, end_step),
                order: F::order(table, row),
                part: *part,
                row,
            }));
        }
        placed.sort_unstable();
        for PlacedRow { steps, part, row, .. } in placed {
            if !cells.join(meter, steps, F::of_row(&self.tables[part as usize], row)) {
                break;
            }
        }
        cells
    }
}

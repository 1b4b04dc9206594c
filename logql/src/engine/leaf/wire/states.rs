//! States by series and cell.

use super::super::state_table::{StateRow, StateTable};
use super::super::states::{CellRow, StatePartial, StateSeries};
use super::samples::{put_sample, read_sample};
use super::streams;
use crate::engine::exact_sum::{ExactSum, RawSum, SUM_WORDS};
use crate::engine::params::Windows;
use crate::engine::range::StateParts;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_count, put_labels};

/// The fewest bytes of a cell: the steps, and the number of its row.
const CELL_MIN_BYTES: usize = 4 + 4 + 1;

/// The fewest bytes of a series: no labels, and a cell.
const SERIES_MIN_BYTES: usize = 2 + CELL_MIN_BYTES;

/// The bit of a sum's first byte that says that all of its words follow. The bits below it are the
/// marks for numbers that are not finite.
const WIDE: u8 = 8;

/// Appends the states of all series.
pub(super) fn put(out: &mut Vec<u8>, partial: &StatePartial) {
    let StatePartial { streams, table, series } = partial;
    streams::put(out, streams);
    put_count(out, series.len());
    for StateSeries { labels, cells } in series {
        put_labels(out, labels);
        put_count(out, cells.len());
        for CellRow { first_step, end_step, row } in cells {
            out.extend(first_step.to_le_bytes());
            out.extend(end_step.to_le_bytes());
            put_count(out, *row as usize);
        }
    }
    out.push(table.parts().bits());
    (0u32..).take(table.rows()).for_each(|row| put_row(out, table, row));
}

fn put_row(out: &mut Vec<u8>, table: &StateTable, row: u32) {
    let has = |part| table.parts().has(part);
    if has(StateParts::COUNT) {
        out.extend(table.count(row).to_le_bytes());
    }
    if has(StateParts::LEAST) {
        out.extend(table.least(row).to_le_bytes());
    }
    if has(StateParts::GREATEST) {
        out.extend(table.greatest(row).to_le_bytes());
    }
    if has(StateParts::FIRST) {
        put_sample(out, table.first(row));
    }
    if has(StateParts::LAST) {
        put_sample(out, table.last(row));
    }
    if has(StateParts::SUM) {
        put_sum(out, table.sum(row));
    }
}

fn put_sum(out: &mut Vec<u8>, sum: &ExactSum) {
    match sum.raw() {
        RawSum::Narrow { marks, units, place } => {
            out.push(marks);
            out.extend(units.to_le_bytes());
            out.extend(place.to_le_bytes());
        }
        RawSum::Wide { marks, words } => {
            out.push(marks | WIDE);
            for word in &*words {
                out.extend(word.to_le_bytes());
            }
        }
    }
}

/// Reads the states of all series, which have the parts that the plan asks for. The cells of a
/// series are cells of the windows, in their order, and each row of the table is that of one cell.
pub(super) fn read(
    input: &mut Input<'_>,
    windows: &Windows,
    parts: StateParts,
) -> Result<StatePartial, WireError> {
    let streams = streams::read_sorted(input)?;
    let mut rows = 0;
    let series = input.list(SERIES_MIN_BYTES, |input| {
        let labels = input.labels()?;
        let cells = input.list(CELL_MIN_BYTES, |input| read_cell(input, windows))?;
        if cells.is_empty() || !cells.is_sorted_by(|a, b| a.steps() < b.steps()) {
            return Err(WireError::Order);
        }
        rows += cells.len();
        Ok(StateSeries { labels, cells })
    })?;
    let mut is_used = vec![false; rows];
    for cell in series.iter().flat_map(|one| &one.cells) {
        match is_used.get_mut(cell.row as usize) {
            Some(is_used) if !*is_used => *is_used = true,
            _ => return Err(WireError::Reference),
        }
    }
    if input.u8()? != parts.bits() {
        return Err(WireError::OtherLeaf);
    }
    let mut table = StateTable::new(parts);
    if !streams.is_empty() && !table.has_order() {
        return Err(WireError::Reference);
    }
    for _ in 0..rows {
        table.append(read_row(input, parts, streams.len())?);
    }
    Ok(StatePartial { streams, table, series })
}

fn read_cell(input: &mut Input<'_>, windows: &Windows) -> Result<CellRow, WireError> {
    let (first_step, end_step) = (input.u32()?, input.u32()?);
    let row = input.reference(u32::MAX as usize)?;
    if !windows.have_cell(first_step, end_step) {
        return Err(WireError::Steps);
    }
    Ok(CellRow { first_step, end_step, row })
}

fn read_row(
    input: &mut Input<'_>,
    parts: StateParts,
    streams: usize,
) -> Result<StateRow, WireError> {
    let mut row = StateRow::default();
    if parts.has(StateParts::COUNT) {
        row.count = input.u64()?;
    }
    if parts.has(StateParts::LEAST) {
        row.least = input.f64()?;
    }
    if parts.has(StateParts::GREATEST) {
        row.greatest = input.f64()?;
    }
    if parts.has(StateParts::FIRST) {
        row.first = Some(read_sample(input, streams)?);
    }
    if parts.has(StateParts::LAST) {
        row.last = Some(read_sample(input, streams)?);
    }
    if parts.has(StateParts::SUM) {
        row.sum = read_sum(input)?;
    }
    Ok(row)
}

fn read_sum(input: &mut Input<'_>) -> Result<ExactSum, WireError> {
    let form = input.u8()?;
    let marks = form & !WIDE;
    let raw = if form & WIDE == 0 {
        let units = i128::from_le_bytes(input.array()?);
        RawSum::Narrow { marks, units, place: input.u16()? }
    } else {
        let mut words = Box::new([0; SUM_WORDS]);
        for word in &mut *words {
            *word = input.u64()?;
        }
        RawSum::Wide { marks, words }
    };
    ExactSum::of_raw(raw).ok_or(WireError::Number)
}

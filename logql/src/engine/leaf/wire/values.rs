//! Values by series and cell.

use super::super::values::{CellValues, Span, ValueRun, ValueSeries};
use crate::engine::params::Windows;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_count, put_labels};

/// Bytes of a key, and the fewest of a chunk of them.
const KEY_BYTES: usize = 8;
const CHUNK_MIN_BYTES: usize = 1 + KEY_BYTES;

/// The fewest bytes of a run: the steps, and how many values it has.
const RUN_MIN_BYTES: usize = 4 + 4 + 1;

/// The fewest bytes of a series: no labels, a run and a chunk.
const SERIES_MIN_BYTES: usize = 3 + RUN_MIN_BYTES + CHUNK_MIN_BYTES;

/// Appends the values of all series.
pub(super) fn put(out: &mut Vec<u8>, series: &[ValueSeries]) {
    put_count(out, series.len());
    for ValueSeries { labels, values } in series {
        put_labels(out, labels);
        put_count(out, values.chunks().len());
        for chunk in values.chunks() {
            put_count(out, chunk.len());
            for key in chunk {
                out.extend(key.to_le_bytes());
            }
        }
        put_count(out, values.runs());
        for Span { first_step, end_step, len, .. } in values.spans(0) {
            out.extend(first_step.to_le_bytes());
            out.extend(end_step.to_le_bytes());
            put_count(out, len as usize);
        }
    }
}

/// Reads the values of all series. Each has a value, every value is in one run, and every run has
/// the steps of a cell of the windows.
pub(super) fn read(
    input: &mut Input<'_>,
    windows: &Windows,
) -> Result<Vec<ValueSeries>, WireError> {
    input.list(SERIES_MIN_BYTES, |input| {
        let labels = input.labels()?;
        let chunks = input.list(CHUNK_MIN_BYTES, |input| input.list(KEY_BYTES, Input::u64))?;
        let runs = input.list(RUN_MIN_BYTES, |input| {
            let (first_step, end_step) = (input.u32()?, input.u32()?);
            let len = input.reference(u32::MAX as usize)?;
            if !windows.have_cell(first_step, end_step) {
                return Err(WireError::Steps);
            }
            Ok(ValueRun { first_step, end_step, len })
        })?;
        if runs.is_empty() {
            return Err(WireError::Reference);
        }
        let values = CellValues::of_chunks(chunks, &runs).ok_or(WireError::Reference)?;
        Ok(ValueSeries { labels, values })
    })
}

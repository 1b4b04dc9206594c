//! Integer sums by series and step.

use super::super::range::SumSeries;
use super::super::runs::SumPoint;
use crate::engine::params::Windows;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_count, put_labels};

/// Bytes of a point.
const POINT_BYTES: usize = 12;

/// The fewest bytes of a series: no labels, and a point.
const SERIES_MIN_BYTES: usize = 2 + POINT_BYTES;

/// Appends the series.
pub(super) fn put(out: &mut Vec<u8>, series: &[SumSeries]) {
    put_count(out, series.len());
    for SumSeries { labels, points } in series {
        put_labels(out, labels);
        put_count(out, points.len());
        for SumPoint { step, sum } in points {
            out.extend(step.to_le_bytes());
            out.extend(sum.to_le_bytes());
        }
    }
}

/// Reads the series. Each has a point, and the steps of its points ascend and are those of the
/// windows.
pub(super) fn read(input: &mut Input<'_>, windows: &Windows) -> Result<Vec<SumSeries>, WireError> {
    input.list(SERIES_MIN_BYTES, |input| {
        let labels = input.labels()?;
        let points = input
            .list(POINT_BYTES, |input| Ok(SumPoint { step: input.u32()?, sum: input.u64()? }))?;
        if !points.is_sorted_by(|a, b| a.step < b.step) {
            return Err(WireError::Order);
        }
        match points.last() {
            Some(last) if last.step < windows.grid.steps => Ok(SumSeries { labels, points }),
            _ => Err(WireError::Steps),
        }
    })
}

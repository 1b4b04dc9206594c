//! Functions over the values that leaves keep by series and cell.
//!
//! Values stay where the leaves have put them, 8 bytes each. A window reads the spans of its
//! cells, and selects with a bounded buffer ([`Selector`]).

use std::collections::BTreeMap;

use super::super::error::EvalError;
use super::super::leaf::values::{CellValues, Span, ValueSeries};
use super::super::meter::Meter;
use super::super::params::Windows;
use super::super::range::Selector;
use super::super::range::folds::Fold;
use super::super::range::quantile::{Rank, interpolated, value_of};
use super::folded::CellFolds;
use super::samples::MAX_READS;
use super::series::{Point, SERIES_WORK, Series};
use super::{MAP_ENTRY_BYTES, PairOrder};

/// The values of a leaf by series, from all parts.
pub(crate) type MergedValues = BTreeMap<PairOrder, Vec<CellValues>>;

/// Adds the values of a part. A meter that is stopped ends it early.
pub(crate) fn add(meter: &Meter, merged: &mut MergedValues, part: Vec<ValueSeries>) {
    let list_bytes = part.capacity() * size_of::<ValueSeries>();
    for ValueSeries { labels, values } in part {
        if !meter.work(SERIES_WORK + labels.as_bytes().len()) || !meter.admit(MAP_ENTRY_BYTES) {
            return;
        }
        let parts = merged.entry(PairOrder(labels)).or_default();
        if !meter.push(parts, values) {
            return;
        }
    }
    meter.release(list_bytes);
}

/// The work of sorting a span.
const SPAN_WORK: usize = 64;

/// The `q`-quantile of all windows of all series. A meter that is stopped ends it early.
///
/// # Errors
/// When windows would read too many values again and again.
pub(crate) fn quantiles(
    meter: &Meter,
    q: f64,
    windows: &Windows,
    merged: &MergedValues,
) -> Result<Vec<Series>, EvalError> {
    if !meter.admit(merged.len() * size_of::<Series>()) {
        return Ok(Vec::new());
    }
    let mut out = Vec::with_capacity(merged.len());
    let mut selector = Selector::default();
    let mut reads_in_all = 0usize;
    for (labels, parts) in merged {
        let labels_bytes = labels.0.as_bytes().len();
        let count: usize = parts.iter().map(CellValues::runs).sum();
        let Some(_spans_memory) = meter.hold(count * size_of::<Span>()) else { break };
        if !meter.work(SERIES_WORK + labels_bytes + count * SPAN_WORK) || !meter.admit(labels_bytes)
        {
            break;
        }
        let spans = spans(parts, count);
        let read = |span: &Span| span.len as usize * (span.end_step - span.first_step) as usize;
        reads_in_all = spans.iter().map(read).fold(reads_in_all, usize::saturating_add);
        if reads_in_all > MAX_READS {
            return Err(EvalError::TooManyReads { max_reads: MAX_READS });
        }
        let points = points(meter, q, windows, parts, &spans, &mut selector);
        if !points.is_empty() {
            out.push(Series { labels: labels.0.clone(), points });
        }
    }
    Ok(out)
}

/// The spans of one series, `count` of them, in order.
fn spans(parts: &[CellValues], count: usize) -> Vec<Span> {
    let mut spans = Vec::with_capacity(count);
    for (number, part) in (0u32..).zip(parts) {
        spans.extend(part.spans(number));
    }
    spans.sort_unstable();
    spans
}

/// The folds of the values of one series. A meter that is stopped ends it early.
pub(super) fn cells<F: Fold>(meter: &Meter, parts: &[CellValues]) -> CellFolds<F> {
    let mut cells = CellFolds::default();
    let count: usize = parts.iter().map(CellValues::runs).sum();
    let Some(_spans_memory) = meter.hold(count * size_of::<Span>()) else { return cells };
    meter.work(count * SPAN_WORK);
    for span in spans(parts, count) {
        let keys = parts[span.part as usize].keys(&span);
        let steps = (span.first_step, span.end_step);
        let fits = meter.work(size_of_val(keys))
            && keys.iter().all(|key| cells.add(meter, steps, value_of(*key)));
        if !fits {
            break;
        }
    }
    cells
}

/// The quantiles of one series, whose spans are sorted: both their first and their last steps
/// ascend, since both ascend with time.
fn points(
    meter: &Meter,
    q: f64,
    windows: &Windows,
    parts: &[CellValues],
    spans: &[Span],
    selector: &mut Selector,
) -> Vec<Point> {
    let mut points = Vec::new();
    let (mut first, mut end, mut count, mut step) = (0, 0, 0usize, 0);
    while step < windows.grid.steps {
        while first < end && spans[first].end_step <= step {
            count -= spans[first].len as usize;
            first += 1;
        }
        if first == end {
            let Some(next) = spans.get(end) else { break };
            step = step.max(next.first_step);
        }
        while end < spans.len() && spans[end].first_step <= step {
            count += spans[end].len as usize;
            end += 1;
        }
        let value = match Rank::of(q, count) {
            Rank::Known(value) => value,
            Rank::At { index, weight } => {
                let slices =
                    spans[first..end].iter().map(|span| parts[span.part as usize].keys(span));
                let found = selector.neighbours(meter, slices, count, index);
                let Some((lower, upper)) = found else { break };
                interpolated(lower, upper, weight)
            }
        };
        if !meter.work(size_of::<Point>()) || !meter.push(&mut points, Point { step, value }) {
            break;
        }
        step += 1;
    }
    points
}

//! The samples of unwrapped range aggregations in their one order, and functions that need them.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use super::super::error::EvalError;
use super::super::leaf::samples::{Sample, SamplePartial};
use super::super::leaf::stream_numbers::aligned;
use super::super::meter::Meter;
use super::super::params::Windows;
use super::super::range::{SlidingWindow, Summary, WholeFunction, WindowSample};
use super::series::{Point, SERIES_WORK, Series};
use super::{MAP_ENTRY_BYTES, PairOrder};

/// The samples of a leaf, merged.
#[derive(Debug, Default)]
pub(crate) struct MergedSamples {
    partials: Vec<SamplePartial>,
}

impl MergedSamples {
    pub(crate) fn add(&mut self, partial: SamplePartial) {
        self.partials.push(partial);
    }

    /// The samples of each series in their one order. A meter that is stopped ends it early.
    pub(crate) fn finish(mut self, meter: &Meter) -> BTreeMap<PairOrder, Vec<WindowSample>> {
        let streams = self.partials.iter().flat_map(|partial| &partial.streams);
        let streams_bytes = streams.map(|(_, text)| text.len() + STREAM_BYTES).sum();
        let before_bytes = meter.used_bytes();
        if !meter.work(streams_bytes) || !meter.admit(streams_bytes) {
            return BTreeMap::new();
        }
        let numbers = aligned(self.partials.iter().map(|partial| &partial.streams));
        for (partial, numbers) in self.partials.iter_mut().zip(numbers) {
            for sample in partial.series.iter_mut().flat_map(|one| &mut one.samples) {
                sample.stream = numbers[sample.stream as usize];
            }
        }
        meter.release_to(before_bytes);
        let mut merged: BTreeMap<PairOrder, Vec<Vec<Sample>>> = BTreeMap::new();
        for one in self.partials.into_iter().flat_map(|partial| partial.series) {
            // Once here, and once with their samples in order.
            let work = one.labels.as_bytes().len() + one.samples.len() * size_of::<Sample>();
            if !meter.work(SERIES_WORK + work) || !meter.admit(2 * MAP_ENTRY_BYTES) {
                return BTreeMap::new();
            }
            merged.entry(PairOrder(one.labels)).or_default().push(one.samples);
        }
        let mut ordered = BTreeMap::new();
        for (labels, parts) in merged {
            let count: usize = parts.iter().map(Vec::len).sum();
            if !meter.work(count * 2 * size_of::<Sample>())
                || !meter.admit(count * size_of::<WindowSample>())
            {
                break;
            }
            ordered.insert(labels, in_order(&parts));
            let held: usize = parts.iter().map(Vec::capacity).sum();
            drop(parts);
            meter.release(held * size_of::<Sample>());
        }
        ordered
    }
}

/// Bytes of a stream while streams are renumbered, besides its text.
pub(super) const STREAM_BYTES: usize = 3 * size_of::<((u64, Box<str>), u32)>();

/// The samples of parts, each of which is in order, in their one order.
fn in_order(parts: &[Vec<Sample>]) -> Vec<WindowSample> {
    let value = |s: &Sample| WindowSample { timestamp_ns: s.timestamp_ns, value: s.value };
    if let [only] = parts {
        return only.iter().map(value).collect();
    }
    let mut merged = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    // Parts that have samples left, with the part whose next sample comes first on top: the order
    // of the next sample, the number of the part, and the number of samples taken from it.
    let head = |(part, samples): (usize, &Vec<Sample>)| {
        samples.first().map(|first| Reverse((first.order(), part, 0)))
    };
    let mut heads: BinaryHeap<_> = parts.iter().enumerate().filter_map(head).collect();
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((order, part, taken)) = &mut *head;
        let samples = &parts[*part];
        merged.push(value(&samples[*taken]));
        *taken += 1;
        match samples.get(*taken) {
            Some(next) => *order = next.order(),
            None => {
                PeekMut::pop(head);
            }
        }
    }
    merged
}

/// Windows whose samples, counted per window, are more than this many times the
/// samples there are, are folded while they slide.
const MAX_OVERLAP: usize = 16;

/// Most samples, counted per window, that functions may read which cannot slide.
/// That many take about a second.
pub(super) const MAX_READS: usize = 300_000_000;

/// The windows of one series that hold samples: step and range of samples.
type Spans = Vec<(u32, usize, usize)>;

fn spans(windows: &Windows, samples: &[WindowSample]) -> Spans {
    let mut spans = Vec::new();
    let (mut first, mut end) = (0, 0);
    let reached = |i: usize, bound: i128| i128::from(samples[i].timestamp_ns) <= bound;
    for step in 0..windows.grid.steps {
        let window = windows.window(step);
        while end < samples.len() && reached(end, window.end_ns) {
            end += 1;
        }
        while first < end && reached(first, window.start_ns) {
            first += 1;
        }
        if first < end {
            spans.push((step, first, end));
        } else if end == samples.len() {
            // Windows only move forward: no later window sees a sample.
            break;
        }
    }
    spans
}

/// Bytes of a window of a series while it is evaluated: in a list that doubles, and aggregated.
const SPAN_BYTES: usize = 3 * size_of::<(u32, usize, usize)>();

/// Bytes of a sample that a function sorts or aggregates.
const READ_BYTES: usize = 3 * size_of::<Summary>();

/// Evaluates a function over all windows of all series. A meter that is stopped ends it early.
///
/// # Errors
/// When the function would read too many samples again and again.
pub(crate) fn evaluate(
    meter: &Meter,
    function: WholeFunction,
    windows: &Windows,
    merged: &BTreeMap<PairOrder, Vec<WindowSample>>,
) -> Result<Vec<Series>, EvalError> {
    let most = merged.values().map(Vec::len).max().unwrap_or(0);
    let scratch_bytes = windows.grid.steps as usize * SPAN_BYTES + most * READ_BYTES;
    if !meter.admit(scratch_bytes + merged.len() * size_of::<Series>()) {
        return Ok(Vec::new());
    }
    let mut out = Vec::with_capacity(merged.len());
    let mut reads_in_all = 0usize;
    for (labels, samples) in merged {
        let spans = spans(windows, samples);
        let labels_bytes = labels.0.as_bytes().len();
        let work = samples.len() * size_of::<WindowSample>() + spans.len() * SPAN_BYTES;
        if !meter.work(SERIES_WORK + labels_bytes + work)
            || !meter.admit(labels_bytes + spans.len() * size_of::<Point>())
        {
            break;
        }
        let reads: usize = spans.iter().map(|(_, first, end)| end - first).sum();
        let overlaps = reads > MAX_OVERLAP.saturating_mul(samples.len());
        let points: Vec<Point> = if overlaps && function == WholeFunction::RateCounter {
            slide(meter, windows, samples, &spans)
        } else {
            reads_in_all = reads_in_all.saturating_add(reads);
            if reads_in_all > MAX_READS {
                return Err(EvalError::TooManyReads { max_reads: MAX_READS });
            }
            let value = |step, first: usize, end: usize| {
                if !meter.work((end - first) * size_of::<WindowSample>()) {
                    return f64::NAN;
                }
                function.evaluate(&windows.window(step), &samples[first..end])
            };
            let point = |&(step, first, end)| Point { step, value: value(step, first, end) };
            spans.iter().map(point).collect()
        };
        if !points.is_empty() {
            out.push(Series { labels: labels.0.clone(), points });
        }
    }
    Ok(out)
}

fn slide(meter: &Meter, windows: &Windows, samples: &[WindowSample], spans: &Spans) -> Vec<Point> {
    let mut sliding = SlidingWindow::new();
    let mut points = Vec::with_capacity(spans.len());
    for &(step, first, end) in spans {
        if !meter.work(SPAN_BYTES) {
            break;
        }
        let summary = sliding.fold(first, end, |i| Summary::of(&samples[i]));
        points.push(Point { step, value: summary.rate(&windows.window(step)) });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::params::Grid;

    /// Sliding and plain evaluation of the same windows.
    #[test]
    fn sliding_agrees_with_reading_every_window_again() {
        let mut seed = 3u32;
        let mut random = |bound: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % bound
        };
        let mut time = 0;
        let samples: Vec<WindowSample> = (0..400)
            .map(|_| {
                time += i64::from(random(9));
                WindowSample { timestamp_ns: time, value: f64::from(random(1000)) / 7.0 }
            })
            .collect();
        let grid = Grid { start_ns: 0, step_ns: 7, steps: 300 };
        for range_ns in [3, 40, 900] {
            let windows = Windows { grid, range_ns, offset_ns: 2 };
            let spans = spans(&windows, &samples);
            for point in slide(&Meter::default(), &windows, &samples, &spans) {
                let (_, first, end) = spans[spans
                    .binary_search_by_key(&point.step, |(step, ..)| *step)
                    .expect("a point of a window")];
                let window = windows.window(point.step);
                let plain = WholeFunction::RateCounter.evaluate(&window, &samples[first..end]);
                let distance = (plain - point.value).abs();
                let near = distance <= 1e-9 * plain.abs().max(1.0)
                    || plain.to_bits() == point.value.to_bits()
                    || (plain.is_nan() && point.value.is_nan());
                assert!(near, "{range_ns}: {plain} {}", point.value);
            }
        }
    }
}

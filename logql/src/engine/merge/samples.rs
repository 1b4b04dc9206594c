//! Evaluating windows over the samples of unwrapped range aggregations.

use std::collections::BTreeMap;

use super::super::leaf::samples::{Sample, SamplePartial};
use super::super::params::Windows;
use super::super::range::{SampleFunction, WindowSample};
use super::PairOrder;
use super::series::{Point, Series};

/// The samples of a leaf, merged.
#[derive(Debug, Default)]
pub(crate) struct MergedSamples {
    partials: Vec<SamplePartial>,
}

impl MergedSamples {
    pub(crate) fn add(&mut self, partial: SamplePartial) {
        self.partials.push(partial);
    }

    /// The samples of each series in their one order.
    pub(crate) fn finish(mut self) -> BTreeMap<PairOrder, Vec<WindowSample>> {
        SamplePartial::align(&mut self.partials);
        let mut merged: BTreeMap<PairOrder, Vec<Sample>> = BTreeMap::new();
        for one in self.partials.into_iter().flat_map(|partial| partial.series) {
            merged.entry(PairOrder(one.labels)).or_default().extend(one.samples);
        }
        merged
            .into_iter()
            .map(|(labels, mut samples)| {
                samples.sort_unstable_by_key(Sample::order);
                let samples = samples
                    .iter()
                    .map(|s| WindowSample { timestamp_ns: s.timestamp_ns, value: s.value })
                    .collect();
                (labels, samples)
            })
            .collect()
    }
}

/// Evaluates a function over all windows of all series.
pub(crate) fn evaluate(
    function: &SampleFunction,
    windows: &Windows,
    merged: &BTreeMap<PairOrder, Vec<WindowSample>>,
) -> Vec<Series> {
    let mut out = Vec::with_capacity(merged.len());
    for (labels, samples) in merged {
        let mut points = Vec::new();
        let (mut first, mut end) = (0, 0);
        for step in 0..windows.grid.steps {
            let window = windows.window(step);
            let reached =
                |sample: &WindowSample, bound: i128| i128::from(sample.timestamp_ns) <= bound;
            while end < samples.len() && reached(&samples[end], window.end_ns) {
                end += 1;
            }
            while first < end && reached(&samples[first], window.start_ns) {
                first += 1;
            }
            if first < end {
                let value = function.evaluate(&window, &samples[first..end]);
                points.push(Point { step, value });
            } else if end == samples.len() {
                // Windows only move on: no later one sees anything.
                break;
            }
        }
        if !points.is_empty() {
            out.push(Series { labels: labels.0.clone(), points });
        }
    }
    out
}

/// For each step of the grid whether its window holds a sample.
pub(crate) fn steps_with_samples(
    windows: &Windows,
    merged: &BTreeMap<PairOrder, Vec<WindowSample>>,
) -> Vec<bool> {
    let mut present = vec![false; windows.grid.steps as usize];
    let mut cell = windows.cell(0);
    let mut is_marked = false;
    for sample in merged.values().flatten() {
        if !cell.holds(sample.timestamp_ns) {
            cell = windows.cell(sample.timestamp_ns);
            is_marked = false;
        }
        if !is_marked && !cell.is_gap() {
            present[cell.first_step as usize..cell.end_step as usize].fill(true);
        }
        is_marked = true;
    }
    present
}

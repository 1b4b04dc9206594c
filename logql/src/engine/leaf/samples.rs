//! The leaf of a range aggregation over unwrapped values that needs all samples in their order.
//!
//! So that the answer does not depend on how entries are spread, the samples themselves are
//! the partial result, and the windows are evaluated after the merge. A sample takes 32 bytes,
//! which count against the memory budget of the query. Each core sorts its samples, so the merge,
//! which one thread does for all, reads each list once.

use logsvc_proto::Labels;

use super::super::labels::EntryLabels;
use super::super::labels::sets::LabelSets;
use super::super::meter::Meter;
use super::super::params::Windows;
use super::cells::CellCursor;
use super::log::StreamKey;
use super::stream_numbers::{SourceStreams, StreamNumbers};

/// The work of inserting a sample, see [`crate::engine::meter`].
const SAMPLE_WORK: usize = 128;

/// A sample with its place among the entries of equal time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    pub(crate) timestamp_ns: i64,
    pub(crate) value: f64,
    /// Index into the streams of the collector or partial.
    pub(crate) stream: u32,
    /// Index in the block.
    pub(crate) index: u32,
    pub(crate) arrival: u64,
}

impl Sample {
    /// The sort key of samples within a stream.
    pub(crate) fn order(&self) -> (i64, u32, u64, u32) {
        (self.timestamp_ns, self.stream, self.arrival, self.index)
    }
}

/// Collects the samples of an unwrapped range aggregation.
#[derive(Debug)]
pub(crate) struct SampleCollector {
    cells: CellCursor,
    streams: StreamNumbers,
    /// By label set id.
    series: Vec<Vec<Sample>>,
    /// Ids of series that got their first sample, until the caller takes them.
    pub(super) fresh: Vec<u32>,
    sample_bytes: usize,
}

impl SampleCollector {
    pub(crate) fn new(windows: Windows) -> Self {
        Self {
            cells: CellCursor::new(windows),
            streams: StreamNumbers::default(),
            series: Vec::new(),
            fresh: Vec::new(),
            sample_bytes: 0,
        }
    }

    /// The number of a stream, for [`Sample::stream`]; any number if there is no memory for it.
    pub(crate) fn stream(&mut self, key: StreamKey, meter: &Meter) -> u32 {
        self.streams.add(key, meter)
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
    pub(crate) fn add(&mut self, series: u32, sample: Sample, meter: &Meter) {
        let index = series as usize;
        if self.series.len() <= index {
            let missing = index + 1 - self.series.len();
            if !meter.make_room(&mut self.series, missing) {
                return;
            }
            self.series.resize_with(index + 1, Vec::new);
        }
        let samples = &mut self.series[index];
        let capacity = samples.capacity();
        let has_room = meter.make_room(samples, 1)
            && (!samples.is_empty() || meter.push(&mut self.fresh, series));
        if has_room {
            samples.push(sample);
        }
        self.sample_bytes += (samples.capacity() - capacity) * size_of::<Sample>();
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.sample_bytes
            + self.streams.held_bytes()
            + self.series.capacity() * size_of::<Vec<Sample>>()
            + self.fresh.capacity() * size_of::<u32>()
    }

    /// The samples in their order. They are incomplete if the leaf is stopped here.
    pub(crate) fn finish(self, sets: &LabelSets, names: &EntryLabels) -> SamplePartial {
        let meter = names.meter();
        let mut partial = SamplePartial { streams: Vec::new(), series: Vec::new() };
        let Some((streams, ranks)) = self.streams.ranked(meter) else { return partial };
        let sorted = |mut samples: Vec<Sample>| {
            samples.iter_mut().for_each(|sample| sample.stream = ranks[sample.stream as usize]);
            samples.sort_unstable_by_key(Sample::order);
            samples
        };
        for (id, samples) in (0u32..).zip(self.series) {
            if samples.is_empty() {
                continue;
            }
            if !meter.work(samples.len() * SAMPLE_WORK) {
                break;
            }
            let one = SampleSeries { labels: sets.labels(id, names), samples: sorted(samples) };
            if !meter.push(&mut partial.series, one) {
                break;
            }
        }
        partial.streams = streams;
        partial
    }
}

/// The samples a shard found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SamplePartial {
    pub(crate) streams: SourceStreams,
    pub(crate) series: Vec<SampleSeries>,
}

/// The samples of one series, in the order of [`Sample::order`].
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SampleSeries {
    pub(crate) labels: Labels,
    pub(crate) samples: Vec<Sample>,
}

impl SamplePartial {
    /// Memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let series: usize = self
            .series
            .iter()
            .map(|one| {
                size_of::<SampleSeries>()
                    + one.labels.as_bytes().len()
                    + one.samples.capacity() * size_of::<Sample>()
            })
            .sum();
        series
            + self.streams.capacity() * size_of::<(u64, Box<str>)>()
            + self.streams.iter().map(|(_, text)| text.len()).sum::<usize>()
    }
}

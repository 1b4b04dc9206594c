//! The collector of a range aggregation over unwrapped values: whole samples, values
//! alone, or states.

use super::super::labels::EntryLabels;
use super::super::labels::sets::LabelSets;
use super::super::meter::Meter;
use super::super::params::Windows;
use super::super::range::Keep;
use super::LeafData;
use super::log::StreamKey;
use super::samples::{Sample, SampleCollector};
use super::states::StateCollector;
use super::values::ValueCollector;
use logsvc_proto::Labels;

/// Collects what a function over unwrapped values needs.
#[derive(Debug)]
pub(super) enum UnwrappedCollector {
    Samples(SampleCollector),
    Values(ValueCollector),
    States(StateCollector),
}

impl UnwrappedCollector {
    pub(super) fn new(windows: Windows, keep: Keep) -> Self {
        match keep {
            Keep::All => Self::Samples(SampleCollector::new(windows)),
            Keep::Values => Self::Values(ValueCollector::new(windows)),
            Keep::State(parts) => Self::States(StateCollector::new(windows, parts)),
        }
    }

    /// The number of a stream, for [`Sample::stream`]; any number if there is no memory for it.
    pub(super) fn stream(&mut self, labels: &Labels, meter: &Meter) -> u32 {
        match self {
            Self::Samples(samples) => samples.stream(StreamKey::new(labels, meter), meter),
            Self::Values(_) => 0,
            Self::States(states) => states.stream(labels, meter),
        }
    }

    /// Whether any window sees an entry of this time.
    pub(super) fn sees(&mut self, timestamp_ns: i64) -> bool {
        match self {
            Self::Samples(samples) => samples.sees(timestamp_ns),
            Self::Values(values) => values.sees(timestamp_ns),
            Self::States(states) => states.sees(timestamp_ns),
        }
    }

    /// Whether an entry within these times could be seen by a window.
    pub(super) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        match self {
            Self::Samples(samples) => samples.wants(min_timestamp_ns, max_timestamp_ns),
            Self::Values(values) => values.wants(min_timestamp_ns, max_timestamp_ns),
            Self::States(states) => states.wants(min_timestamp_ns, max_timestamp_ns),
        }
    }

    /// Adds a sample; nothing if there is no memory.
    pub(super) fn add(&mut self, series: u32, sample: Sample, meter: &Meter) {
        match self {
            Self::Samples(samples) => samples.add(series, sample, meter),
            Self::Values(values) => values.add(series, sample.timestamp_ns, sample.value, meter),
            Self::States(states) => states.add(series, &sample, meter),
        }
    }

    /// Ids of series that got their first sample, until the caller takes them.
    pub(super) fn fresh(&mut self) -> &mut Vec<u32> {
        match self {
            Self::Samples(samples) => &mut samples.fresh,
            Self::Values(values) => &mut values.fresh,
            Self::States(states) => &mut states.fresh,
        }
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Samples(samples) => samples.held_bytes(),
            Self::Values(values) => values.held_bytes(),
            Self::States(states) => states.held_bytes(),
        }
    }

    /// The partial result, incomplete if the leaf is stopped here.
    pub(super) fn finish(self, sets: &LabelSets, names: &EntryLabels) -> LeafData {
        match self {
            Self::Samples(samples) => LeafData::Samples(samples.finish(sets, names)),
            Self::Values(values) => LeafData::Values(values.finish(sets, names)),
            Self::States(states) => LeafData::States(states.finish(sets, names)),
        }
    }
}

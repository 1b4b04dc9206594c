//! Samples with their places in the order of all.

use super::super::samples::{Sample, SamplePartial, SampleSeries};
use super::streams;
use crate::engine::wire::WireError;
use crate::engine::wire::bytes::{Input, put_count, put_labels};

/// The fewest bytes of a sample.
const SAMPLE_MIN_BYTES: usize = 8 + 8 + 1 + 4 + 8;

/// The fewest bytes of a series: no labels, and a sample.
const SERIES_MIN_BYTES: usize = 2 + SAMPLE_MIN_BYTES;

/// Appends the samples of all series.
pub(super) fn put(out: &mut Vec<u8>, partial: &SamplePartial) {
    streams::put(out, &partial.streams);
    put_count(out, partial.series.len());
    for SampleSeries { labels, samples } in &partial.series {
        put_labels(out, labels);
        put_count(out, samples.len());
        samples.iter().for_each(|sample| put_sample(out, sample));
    }
}

/// Reads the samples of all series. Those of a series are in their order, and there are some.
pub(super) fn read(input: &mut Input<'_>) -> Result<SamplePartial, WireError> {
    let streams = streams::read_sorted(input)?;
    let series = input.list(SERIES_MIN_BYTES, |input| {
        let labels = input.labels()?;
        let samples = input.list(SAMPLE_MIN_BYTES, |input| read_sample(input, streams.len()))?;
        if samples.is_empty() || !samples.is_sorted_by_key(Sample::order) {
            return Err(WireError::Order);
        }
        Ok(SampleSeries { labels, samples })
    })?;
    Ok(SamplePartial { streams, series })
}

/// Appends a sample.
pub(super) fn put_sample(out: &mut Vec<u8>, sample: &Sample) {
    let Sample { timestamp_ns, value, stream, index, arrival } = sample;
    out.extend(timestamp_ns.to_le_bytes());
    out.extend(value.to_le_bytes());
    put_count(out, *stream as usize);
    out.extend(index.to_le_bytes());
    out.extend(arrival.to_le_bytes());
}

/// Reads a sample of one of so many streams.
pub(super) fn read_sample(input: &mut Input<'_>, streams: usize) -> Result<Sample, WireError> {
    Ok(Sample {
        timestamp_ns: input.i64()?,
        value: input.f64()?,
        stream: input.reference(streams)?,
        index: input.u32()?,
        arrival: input.u64()?,
    })
}

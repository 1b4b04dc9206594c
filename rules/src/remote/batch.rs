//! Makes the body of a request out of the bytes of a segment. Runs on a side thread.
//!
//! Guarantees: a batch ends at the segment's end at the latest. With the end given, the same bytes
//! give the same samples. A series is in a request once, with its samples in the order of the log.
//! Samples that cannot be read are passed over and counted. What can go wrong: rules of relabelling
//! that make one series of two; the request then has that series twice.

use std::sync::Arc;

use ahash::{AHashMap, RandomState};
use logsvc_proto::Labels;

use super::segment::{Segment, decode_labels};
use super::wire::{Sample, Series, Version, encode};
use crate::relabel::Relabeller;

/// Labels and samples of a request take at most so many bytes in memory, but for one sample.
pub(super) const BATCH_MAX_BYTES: usize = 512 << 10;
/// Estimate of a sample's share.
const SAMPLE_BYTES: usize = 24;

/// What a batch is made of.
#[derive(Debug)]
pub(super) struct BatchInput {
    /// The segment up to its end.
    pub(super) bytes: Vec<u8>,
    /// Offset of the first frame, and the number of the sample within it.
    pub(super) from: (u32, u32),
    /// Where the batch has to end; `None`: where it is full.
    pub(super) until: Option<(u32, u32)>,
    pub(super) max_samples: usize,
    pub(super) version: Version,
    pub(super) relabeller: Arc<Relabeller>,
}

/// A batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    /// Its end.
    pub(super) end: (u32, u32),
    /// Whether no frame follows.
    pub(super) is_segment_end: bool,
    /// Samples between its ends, by the headers of frames.
    pub(super) passed: u64,
    /// Those of them in the body.
    pub(super) samples: u64,
    /// Those that relabelling drops.
    pub(super) relabelled: u64,
    /// Those that cannot be read.
    pub(super) damaged: u64,
    /// The newest timestamp in the body.
    pub(super) newest_ms: Option<i64>,
    /// The body, compressed.
    pub(super) body: Vec<u8>,
}

/// Makes a batch.
pub(super) fn build(input: BatchInput) -> Batch {
    let BatchInput { bytes, from, until, max_samples, version, relabeller } = input;
    let segment = Segment::read(&bytes);
    let mut taken = Taken::new(&bytes, &segment, &relabeller);
    let mut end = (segment.end.max(from.0), 0);
    let mut is_segment_end = true;
    let mut passed = 0;
    'frames: for frame in &segment.frames {
        if frame.offset < from.0 {
            continue;
        }
        let first = if frame.offset == from.0 { from.1 } else { 0 };
        let mut samples = segment.samples(&bytes, frame).skip(first as usize);
        for index in first..frame.samples {
            let is_full =
                taken.samples >= max_samples.max(1) as u64 || taken.size_bytes >= BATCH_MAX_BYTES;
            if until.map_or(is_full, |until| (frame.offset, index) >= until) {
                (end, is_segment_end) = ((frame.offset, index), false);
                break 'frames;
            }
            passed += 1;
            match samples.next().filter(|_| frame.is_whole()) {
                Some(sample) => taken.take(sample),
                // No further sample of the frame can be read.
                None => {
                    taken.damaged += 1;
                    let rest = u64::from(frame.samples - index - 1);
                    // The end of a batch may lie in a frame that was whole when it was made.
                    if until.is_none_or(|until| (frame.offset, frame.samples) < until) {
                        (passed, taken.damaged) = (passed + rest, taken.damaged + rest);
                        break;
                    }
                }
            }
        }
    }
    let series: Vec<Series<'_>> = taken.series.iter().map(OwnedSeries::borrowed).collect();
    let body = if series.is_empty() {
        Vec::new()
    } else {
        let plain = encode(version, &series);
        snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_else(|error| {
            unreachable!("a body has {} bytes, far below 4 GiB: {error}", plain.len())
        })
    };
    Batch {
        end,
        is_segment_end,
        passed,
        samples: taken.samples,
        relabelled: taken.relabelled,
        damaged: taken.damaged,
        newest_ms: taken.newest_ms,
        body,
    }
}

/// A series on its way into a request; its texts may have been made by relabelling.
struct OwnedSeries {
    labels: Labels,
    samples: Vec<Sample>,
}

impl OwnedSeries {
    fn borrowed(&self) -> Series<'_> {
        Series { labels: self.labels.iter().collect(), samples: self.samples.clone() }
    }
}

/// What becomes of the samples of a label set.
#[derive(Clone, Copy)]
enum Fate {
    Series(usize),
    Relabelled,
    Damaged,
}

struct Taken<'a> {
    bytes: &'a [u8],
    segment: &'a Segment,
    relabeller: &'a Relabeller,
    fates: AHashMap<u32, Fate>,
    series: Vec<OwnedSeries>,
    samples: u64,
    relabelled: u64,
    damaged: u64,
    size_bytes: usize,
    newest_ms: Option<i64>,
}

impl<'a> Taken<'a> {
    fn new(bytes: &'a [u8], segment: &'a Segment, relabeller: &'a Relabeller) -> Taken<'a> {
        Taken {
            bytes,
            segment,
            relabeller,
            fates: AHashMap::with_hasher(RandomState::with_seeds(5, 6, 7, 8)),
            series: Vec::new(),
            samples: 0,
            relabelled: 0,
            damaged: 0,
            size_bytes: 0,
            newest_ms: None,
        }
    }

    fn take(&mut self, stored: super::segment::StoredSample) {
        let fate = match self.fates.get(&stored.set) {
            Some(fate) => *fate,
            None => {
                let fate = self.fate(stored.set);
                self.fates.insert(stored.set, fate);
                fate
            }
        };
        match fate {
            Fate::Relabelled => self.relabelled += 1,
            Fate::Damaged => self.damaged += 1,
            Fate::Series(index) => {
                let sample = Sample { timestamp_ms: stored.timestamp_ms, value: stored.value };
                self.series[index].samples.push(sample);
                self.samples += 1;
                self.size_bytes += SAMPLE_BYTES;
                self.newest_ms = self.newest_ms.max(Some(stored.timestamp_ms));
            }
        }
    }

    fn fate(&mut self, set: u32) -> Fate {
        let pairs = self.segment.set(self.bytes, set).and_then(decode_labels);
        let labels = pairs.and_then(|pairs| Labels::from_result_pairs(pairs).ok());
        let Some(labels) = labels else { return Fate::Damaged };
        let labels = if self.relabeller.is_empty() {
            labels
        } else {
            match self.relabeller.apply(&labels) {
                Some(labels) if !labels.is_empty() => labels,
                _ => return Fate::Relabelled,
            }
        };
        self.size_bytes += labels.text_len_bytes();
        self.series.push(OwnedSeries { labels, samples: Vec::new() });
        Fate::Series(self.series.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RelabelAction, RelabelConfig};
    use crate::remote::segment::{FrameWriter, HEADER_BYTES, StoredSample, encode_labels, header};

    /// Two series of two samples each, in two frames.
    fn segment() -> Vec<u8> {
        let mut bytes = header(1).to_vec();
        for round in 0..2 {
            let mut frame = FrameWriter::default();
            for set in 0..2 {
                if round == 0 {
                    let name = format!("m{set}");
                    let labels = Labels::from_result_pairs([("__name__", &name)]).unwrap();
                    let mut encoded = Vec::new();
                    encode_labels(&labels, &mut encoded);
                    frame.add_set(&encoded);
                }
                let value = f64::from(set);
                frame.add(StoredSample { set, timestamp_ms: 10 + i64::from(round), value });
            }
            frame.finish(2 * round, 0, &mut bytes);
        }
        bytes
    }

    fn input(bytes: &[u8]) -> BatchInput {
        BatchInput {
            bytes: bytes.to_vec(),
            from: (HEADER_BYTES as u32, 0),
            until: None,
            max_samples: 100,
            version: Version::V1,
            relabeller: Arc::default(),
        }
    }

    fn plain(batch: &Batch) -> Vec<u8> {
        snap::raw::Decoder::new().decompress_vec(&batch.body).unwrap()
    }

    #[test]
    fn a_batch_has_each_series_once() {
        let bytes = segment();
        let batch = build(input(&bytes));
        let sample = |timestamp_ms, value| Sample { timestamp_ms, value };
        let wanted = [
            Series {
                labels: vec![("__name__", "m0")],
                samples: vec![sample(10, 0.0), sample(11, 0.0)],
            },
            Series {
                labels: vec![("__name__", "m1")],
                samples: vec![sample(10, 1.0), sample(11, 1.0)],
            },
        ];
        assert_eq!(plain(&batch), encode(Version::V1, &wanted));
        assert_eq!((batch.passed, batch.samples, batch.newest_ms), (4, 4, Some(11)));
        assert_eq!((batch.end, batch.is_segment_end), ((bytes.len() as u32, 0), true));
    }

    #[test]
    fn batches_end_within_frames_and_can_be_made_again() {
        let bytes = segment();
        let first = build(BatchInput { max_samples: 3, ..input(&bytes) });
        assert_eq!((first.passed, first.is_segment_end), (3, false));
        assert_eq!(first.end.1, 1);
        let again = build(BatchInput { until: Some(first.end), ..input(&bytes) });
        assert_eq!(again, first);
        let rest = build(BatchInput { from: first.end, ..input(&bytes) });
        assert_eq!((rest.passed, rest.is_segment_end), (1, true));
        let nothing = build(BatchInput { from: rest.end, ..input(&bytes) });
        assert_eq!((nothing.passed, nothing.end, nothing.body.len()), (0, rest.end, 0));
    }

    #[test]
    fn relabelling_changes_and_drops_series() {
        let drop = RelabelConfig {
            source_labels: vec!["__name__".to_owned()],
            regex: "m0".to_owned(),
            action: RelabelAction::Drop,
            ..RelabelConfig::default()
        };
        let add = RelabelConfig {
            target_label: "x".to_owned(),
            replacement: "y".to_owned(),
            ..RelabelConfig::default()
        };
        let relabeller = Arc::new(Relabeller::new(&[drop, add]).unwrap());
        let bytes = segment();
        let batch = build(BatchInput { relabeller, ..input(&bytes) });
        assert_eq!((batch.passed, batch.samples, batch.relabelled), (4, 2, 2));
        let text = String::from_utf8_lossy(&plain(&batch)).into_owned();
        assert!(text.contains("m1") && !text.contains("m0") && text.contains('y'), "{text}");
    }

    #[test]
    fn damage_is_passed_over() {
        let mut bytes = segment();
        bytes[HEADER_BYTES + 40] ^= 1;
        let batch = build(input(&bytes));
        // The label sets of the other frame were in the damaged one.
        assert_eq!((batch.passed, batch.samples, batch.damaged), (4, 0, 4));
        assert_eq!((batch.body.len(), batch.is_segment_end), (0, true));
    }
}

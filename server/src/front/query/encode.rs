//! The JSON text of answers.
//!
//! Guarantees: memory is reserved before it is allocated, for the longest text that an entry, its
//! labels or a number may become, so answers never take more than the memory for queries. Failure:
//! there is no memory; then the query is refused.

use logsvc_logql::engine::{EntryPlace, QueryResult, StreamResult};
use logsvc_proto::Labels;
use logsvc_proto::encode::{
    LegacyStreamsWriter, MatrixWriter, QueryStats, StreamsWriter, VectorWriter, write_scalar,
};
use logsvc_proto::error::ApiError;

use super::answer::{AnswerBody, AnswerMemory};

/// The most bytes of an entry in an answer, without its texts.
const ENTRY_BYTES: usize = 96;
/// The most bytes of the place of an entry.
const PLACE_BYTES: usize = 64;
/// The most bytes of a number: doubles are written without an exponent.
const SAMPLE_BYTES: usize = 384;
/// So many samples are written before there is made room again.
const SAMPLES_AT_ONCE: usize = 64;
/// The most bytes of a label or a pair of metadata, without its texts.
pub(crate) const PAIR_BYTES: usize = 16;

/// The most bytes of the statistics and the end of an answer.
const END_BYTES: usize = 16 << 10;

/// The most bytes of the end of an answer.
fn end_bytes(warnings: &[&str]) -> usize {
    let texts = warnings.iter().map(|text| escaped_bytes(text.len()) + PAIR_BYTES);
    END_BYTES + texts.sum::<usize>()
}

/// The most bytes of a text in JSON, if each byte is escaped.
pub(crate) fn escaped_bytes(len: usize) -> usize {
    6 * len
}

/// The most bytes of labels as JSON, or as a selector in JSON.
pub(crate) fn labels_bytes(labels: &Labels) -> usize {
    let pairs = labels.iter().count();
    2 * escaped_bytes(labels.as_bytes().len()) + PAIR_BYTES * (pairs + 4)
}

/// The JSON text of an answer, as of `/loki/api/v1`.
///
/// # Errors
/// There is no memory for it.
pub(super) fn encode(
    result: &QueryResult,
    flags: &[&str],
    stats: &QueryStats,
    warnings: &[&str],
    room: AnswerMemory,
) -> Result<AnswerBody, ApiError> {
    let (mut room, mut out) = (room, Vec::with_capacity(4096));
    match result {
        QueryResult::Streams(streams) => {
            encode_streams(streams, flags, stats, warnings, &mut room, &mut out)?;
        }
        QueryResult::Matrix(series) => {
            let mut writer = MatrixWriter::new();
            writer.begin(&mut out);
            for series in series {
                room.reserve_for(&mut out, labels_bytes(&series.labels))?;
                writer.series(series.labels.iter(), &mut out);
                for points in series.points.chunks(SAMPLES_AT_ONCE) {
                    room.reserve_for(&mut out, points.len() * SAMPLE_BYTES)?;
                    for point in points {
                        writer.sample(point.timestamp_ms, point.value, &mut out);
                    }
                }
            }
            room.reserve_for(&mut out, end_bytes(warnings))?;
            writer.end(stats, warnings, &mut out);
        }
        QueryResult::Vector(samples) => {
            let mut writer = VectorWriter::new();
            writer.begin(&mut out);
            for sample in samples {
                room.reserve_for(&mut out, labels_bytes(&sample.labels) + SAMPLE_BYTES)?;
                let point = &sample.point;
                writer.sample(sample.labels.iter(), point.timestamp_ms, point.value, &mut out);
            }
            room.reserve_for(&mut out, end_bytes(warnings))?;
            writer.end(stats, warnings, &mut out);
        }
        QueryResult::Scalar { timestamp_ms, value } => {
            write_scalar(*timestamp_ms, *value, stats, &mut out);
        }
    }
    room.finish(out)
}

fn encode_streams(
    streams: &[StreamResult],
    flags: &[&str],
    stats: &QueryStats,
    warnings: &[&str],
    room: &mut AnswerMemory,
    out: &mut Vec<u8>,
) -> Result<(), ApiError> {
    let mut writer = StreamsWriter::new();
    writer.begin(flags, out);
    for stream in streams {
        room.reserve_for(out, labels_bytes(&stream.labels))?;
        writer.streams().stream(stream.labels.iter(), out);
        for (at, entry) in stream.entries.iter().enumerate() {
            let categories_bytes = entry.categories.as_ref().map_or(0, |categories| {
                labels_bytes(&categories.structured_metadata) + labels_bytes(&categories.parsed)
            });
            room.reserve_for(
                out,
                ENTRY_BYTES + PLACE_BYTES + escaped_bytes(entry.line.len()) + categories_bytes,
            )?;
            let place = stream.places.get(at).map(EntryPlace::to_string);
            match (&entry.categories, &place) {
                (Some(categories), Some(place)) => writer.streams().placed_entry(
                    (entry.timestamp_ns, &entry.line, place),
                    categories.structured_metadata.iter(),
                    categories.parsed.iter(),
                    out,
                ),
                (Some(categories), None) => writer.streams().categorized_entry(
                    entry.timestamp_ns,
                    &entry.line,
                    categories.structured_metadata.iter(),
                    categories.parsed.iter(),
                    out,
                ),
                (None, _) => writer.streams().entry(entry.timestamp_ns, &entry.line, out),
            }
        }
    }
    room.reserve_for(out, end_bytes(warnings))?;
    writer.end(stats, warnings, out);
    Ok(())
}

/// The answer of `/api/prom/query`.
///
/// # Errors
/// There is no memory for it.
pub(super) fn encode_legacy(
    result: &QueryResult,
    stats: &QueryStats,
    room: AnswerMemory,
) -> Result<AnswerBody, ApiError> {
    let QueryResult::Streams(streams) = result else {
        return Err(ApiError::internal("a log query has no streams"));
    };
    let (mut room, mut out) = (room, Vec::with_capacity(4096));
    let mut writer = LegacyStreamsWriter::new();
    writer.begin(&mut out);
    for stream in streams {
        room.reserve_for(&mut out, labels_bytes(&stream.labels))?;
        writer.stream(&stream.labels.canonical(), &mut out);
        for entry in &stream.entries {
            room.reserve_for(&mut out, ENTRY_BYTES + escaped_bytes(entry.line.len()))?;
            writer.entry(entry.timestamp_ns, &entry.line, &mut out);
        }
    }
    room.reserve_for(&mut out, end_bytes(&[]))?;
    writer.end_query(stats, &mut out);
    room.finish(out)
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::Budget;

    use super::*;

    /// The number of bytes that `write` appends.
    fn added(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let before = out.len();
        write(out);
        out.len() - before
    }

    #[test]
    fn nothing_is_longer_than_the_room_that_is_made_for_it() {
        let out = &mut Vec::new();
        let worst: Vec<u8> = (0..=255).chain([0x7f; 40]).chain([1; 500]).collect();
        let texts = [worst.as_slice(), &[0xff; 300], &[b'"'; 300], &[0; 300], b"", b"x"];
        let bad = "\u{1}\"\\\u{7f}\u{2028}\u{feff}";
        for labels in [
            Labels::empty(),
            Labels::from_pairs([("a", "b"), ("c", bad), ("d", bad)]).expect("valid labels"),
            Labels::from_pairs([("a", bad.repeat(100).as_str())]).expect("valid labels"),
        ] {
            let room = labels_bytes(&labels);
            let (mut v1, mut legacy) = (StreamsWriter::new(), LegacyStreamsWriter::new());
            for _ in 0..2 {
                assert!(added(out, |out| v1.streams().stream(labels.iter(), out)) <= room);
                assert!(added(out, |out| legacy.stream(&labels.canonical(), out)) <= room);
                for text in texts {
                    let entry = ENTRY_BYTES + escaped_bytes(text.len());
                    assert!(added(out, |out| v1.streams().entry(i64::MIN, text, out)) <= entry);
                    assert!(added(out, |out| legacy.entry(i64::MIN, text, out)) <= entry);
                    let (first, second) = (labels.iter(), labels.iter());
                    let write = |out: &mut Vec<u8>| {
                        v1.streams().categorized_entry(i64::MIN, text, first, second, out);
                    };
                    assert!(added(out, write) <= entry + 2 * room);
                    let place = EntryPlace { stream_hash: u64::MAX, entry_hash: 0 }.to_string();
                    let (first, second) = (labels.iter(), labels.iter());
                    let write = |out: &mut Vec<u8>| {
                        let head = (i64::MIN, text, place.as_str());
                        v1.streams().placed_entry(head, first, second, out);
                    };
                    assert!(added(out, write) <= entry + PLACE_BYTES + 2 * room);
                }
            }
            let (mut matrix, mut vector) = (MatrixWriter::new(), VectorWriter::new());
            for value in [0.1, f64::MIN, -5e-324, -f64::MIN_POSITIVE, f64::NEG_INFINITY, f64::NAN] {
                assert!(added(out, |out| matrix.series(labels.iter(), out)) <= room);
                for _ in 0..2 {
                    assert!(added(out, |out| matrix.sample(i64::MIN, value, out)) <= SAMPLE_BYTES);
                    let write = |out: &mut Vec<u8>| {
                        vector.sample(labels.iter(), i64::MIN, value, out);
                    };
                    assert!(added(out, write) <= room + SAMPLE_BYTES);
                }
            }
        }
        let (stats, warnings) = (QueryStats::default(), [bad; 3]);
        let end = |out: &mut Vec<u8>| MatrixWriter::new().end(&stats, &warnings, out);
        // Its numbers may have twenty digits instead of one.
        assert!(added(out, end) * 3 <= end_bytes(&warnings));
    }

    #[test]
    fn an_answer_that_has_no_room_is_refused() {
        let entry = |line: &[u8]| logsvc_logql::engine::ResultEntry {
            timestamp_ns: 1,
            line: line.into(),
            categories: None,
        };
        let labels = Labels::from_pairs([("a", "b")]).expect("valid labels");
        let stream = StreamResult::new(labels, (0..2000).map(|_| entry(&[1; 100])).collect());
        let result = QueryResult::Streams(vec![stream]);
        let stats = QueryStats::default();
        let text_len = 2000 * 600;
        for (max_bytes, fits) in [(4 * text_len, true), (text_len, false)] {
            let budget = Budget::new("queries", max_bytes);
            assert_eq!(
                encode(&result, &[], &stats, &[], AnswerMemory::new(&budget, 0)).is_ok(),
                fits
            );
            assert_eq!(encode_legacy(&result, &stats, AnswerMemory::new(&budget, 0)).is_ok(), fits);
            assert!(budget.peak_bytes() > text_len / 4);
            assert_eq!(budget.used_bytes(), 0);
        }
    }
}

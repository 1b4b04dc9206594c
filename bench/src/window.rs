//! Expected lines of a stretch of time, and their comparison with the lines that a server returned
//! for it. Pure: no clock, no network.
//!
//! Timestamps of a source are unique, so a line is found by stream and timestamp.

use crate::labels::Labels;
use crate::source::{Body, Entry, Source};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Differences that are kept as text for the report.
const EXAMPLES: usize = 10;

/// A line that a server should have.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) stream: usize,
    pub(crate) entry: Entry,
    /// Whether the line was acknowledged; others may be there or not.
    pub(crate) required: bool,
}

/// Expected lines with `start_nanos <= timestamp < end_nanos`, by timestamp.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) start_nanos: i64,
    pub(crate) end_nanos: i64,
    pub(crate) lines: Vec<Expected>,
}

/// Cuts a source into windows of a given number of lines, without gaps between them, so that lines
/// that were never pushed are noticed, too.
pub(crate) struct Windows {
    source: Source,
    /// Acknowledged bodies; every body counts if there is no ledger.
    acked: Option<BTreeSet<u64>>,
    lines_per_window: usize,
    pending: VecDeque<Expected>,
}

impl Windows {
    pub(crate) fn new(
        source: Source,
        acked: Option<BTreeSet<u64>>,
        lines_per_window: usize,
    ) -> Windows {
        Windows {
            source,
            acked,
            lines_per_window: lines_per_window.max(1),
            pending: VecDeque::new(),
        }
    }

    fn take_in(&mut self, body: Body) {
        let required = self.acked.as_ref().is_none_or(|acked| acked.contains(&body.number));
        let mut lines: Vec<Expected> = Vec::with_capacity(body.line_count as usize);
        for (stream, entries) in body.streams {
            lines.extend(entries.into_iter().map(|entry| Expected { stream, entry, required }));
        }
        lines.sort_by_key(|line| line.entry.unix_nanos);
        self.pending.extend(lines);
    }
}

impl Iterator for Windows {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        // One line more than the window holds tells where the next one begins.
        while self.pending.len() <= self.lines_per_window {
            let Some(body) = self.source.next() else { break };
            self.take_in(body);
        }
        let count = self.pending.len().min(self.lines_per_window);
        let lines: Vec<Expected> = self.pending.drain(..count).collect();
        let (first, last) = (lines.first()?, lines.last()?);
        let start_nanos = first.entry.unix_nanos;
        let end_nanos =
            self.pending.front().map_or(last.entry.unix_nanos + 1, |next| next.entry.unix_nanos);
        Some(Window { start_nanos, end_nanos, lines })
    }
}

/// Finds a source's stream by the labels of an answer, which may hold further
/// labels that the server has added.
pub(crate) struct StreamIndex {
    names: Vec<String>,
    by_values: BTreeMap<Vec<String>, usize>,
}

impl StreamIndex {
    /// An index over `streams`, which all have the same label names.
    pub(crate) fn new(streams: &[Labels]) -> StreamIndex {
        let names = streams.first().map(|labels| labels.keys().cloned().collect());
        let by_values = streams
            .iter()
            .enumerate()
            .map(|(number, labels)| (labels.values().cloned().collect(), number))
            .collect();
        StreamIndex { names: names.unwrap_or_default(), by_values }
    }

    fn find(&self, labels: &Value) -> Option<usize> {
        let values: Option<Vec<String>> =
            self.names.iter().map(|name| labels.get(name)?.as_str().map(str::to_owned)).collect();
        self.by_values.get(&values?).copied()
    }
}

/// A line of an answer.
#[derive(Debug)]
pub(crate) struct Received {
    unix_nanos: i64,
    line: String,
    metadata: Value,
}

/// One stream of an answer: its number, if it is one of ours, and its lines in the
/// order in which they came.
#[derive(Debug)]
pub(crate) struct ReceivedStream {
    stream: Option<usize>,
    lines: Vec<Received>,
}

/// Reads the streams of a `query_range` answer, and how many lines they hold.
pub(crate) fn parse_answer(
    body: &[u8],
    index: &StreamIndex,
) -> Result<(Vec<ReceivedStream>, usize)> {
    let mut answer: Value = serde_json::from_slice(body).context("answer is not JSON")?;
    let mut data = take(&mut answer, "data");
    if data["resultType"] != "streams" {
        bail!("answer holds {} instead of streams", data["resultType"]);
    }
    let Value::Array(result) = take(&mut data, "result") else { bail!("answer has no result") };
    let mut count = 0;
    let mut streams = Vec::with_capacity(result.len());
    for mut stream in result {
        let Value::Array(values) = take(&mut stream, "values") else {
            bail!("stream has no values")
        };
        let lines: Vec<Received> =
            values.into_iter().map(parse_line).collect::<Result<_>>().context("in a stream")?;
        count += lines.len();
        streams.push(ReceivedStream { stream: index.find(&stream["stream"]), lines });
    }
    Ok((streams, count))
}

/// A field of an object, moved out; null if there is none.
fn take(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map_or(Value::Null, Value::take)
}

fn parse_line(value: Value) -> Result<Received> {
    let Value::Array(parts) = value else { bail!("an entry is not an array") };
    let mut parts = parts.into_iter();
    let (Some(Value::String(time)), Some(Value::String(line))) = (parts.next(), parts.next())
    else {
        bail!("an entry does not begin with two strings");
    };
    let metadata =
        parts.next().map_or(Value::Null, |mut extra| take(&mut extra, "structuredMetadata"));
    Ok(Received { unix_nanos: time.parse().context("timestamp")?, line, metadata })
}

/// The result of a comparison.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Differences {
    /// Lines that were expected, acknowledged or not.
    pub(crate) expected: u64,
    /// Expected lines that came back, each counted once.
    pub(crate) found: u64,
    /// Acknowledged lines that did not come back.
    pub(crate) missing: u64,
    /// Lines that were never acknowledged and did not come back; no fault.
    pub(crate) absent_unacknowledged: u64,
    /// Lines that came back more than once.
    pub(crate) duplicates: u64,
    /// Lines that came back behind a later one of their stream.
    pub(crate) out_of_order: u64,
    /// Lines that came back with another text or metadata.
    pub(crate) changed: u64,
    /// Lines that were never pushed.
    pub(crate) unexpected: u64,
    /// Some of the differences.
    pub(crate) examples: Vec<String>,
}

impl Differences {
    /// Faults of every kind together.
    pub(crate) fn faults(&self) -> u64 {
        self.missing + self.duplicates + self.out_of_order + self.changed + self.unexpected
    }

    pub(crate) fn add(&mut self, other: Differences) {
        self.expected += other.expected;
        self.found += other.found;
        self.missing += other.missing;
        self.absent_unacknowledged += other.absent_unacknowledged;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.changed += other.changed;
        self.unexpected += other.unexpected;
        for example in other.examples {
            self.example(|| example);
        }
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(text());
        }
    }
}

/// Compares the received lines with the expected lines of `window`.
pub(crate) fn compare(window: &Window, received: &[ReceivedStream]) -> Differences {
    let mut differences =
        Differences { expected: window.lines.len() as u64, ..Differences::default() };
    let by_time: BTreeMap<i64, usize> =
        window.lines.iter().enumerate().map(|(at, line)| (line.entry.unix_nanos, at)).collect();
    let mut seen = vec![false; window.lines.len()];
    for stream in received {
        let mut newest_nanos = i64::MIN;
        for line in &stream.lines {
            let time = line.unix_nanos;
            if time < newest_nanos {
                differences.out_of_order += 1;
                differences.example(|| format!("out of order: {time} behind {newest_nanos}"));
            }
            newest_nanos = newest_nanos.max(time);
            let at = by_time
                .get(&time)
                .copied()
                .filter(|&at| Some(window.lines[at].stream) == stream.stream);
            let Some(at) = at else {
                differences.unexpected += 1;
                differences.example(|| format!("unexpected: {time} {:?}", line.line));
                continue;
            };
            let entry = &window.lines[at].entry;
            if std::mem::replace(&mut seen[at], true) {
                differences.duplicates += 1;
                differences.example(|| format!("duplicate: {time} {:?}", line.line));
            } else if !same(entry, line) {
                differences.changed += 1;
                differences.example(|| format!("changed: {entry:?} came back as {line:?}"));
            } else {
                differences.found += 1;
            }
        }
    }
    for (line, seen) in window.lines.iter().zip(seen) {
        match (seen, line.required) {
            (true, _) => {}
            (false, false) => differences.absent_unacknowledged += 1,
            (false, true) => {
                differences.missing += 1;
                let Entry { unix_nanos, line: text, .. } = &line.entry;
                differences.example(|| format!("missing: {unix_nanos} {text:?}"));
            }
        }
    }
    differences
}

/// Whether text and metadata came back; the server may have added metadata.
fn same(entry: &Entry, line: &Received) -> bool {
    entry.line == line.line
        && entry
            .metadata
            .iter()
            .all(|(name, value)| line.metadata.get(name).and_then(Value::as_str) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::source_args;
    use serde_json::json;

    fn window() -> (Window, StreamIndex) {
        let mut args = source_args(&["--bytes", "3KB", "--metadata", "--start", "1700000000"]);
        let source = Source::open(&mut args).unwrap();
        let index = StreamIndex::new(source.streams());
        let mut windows = Windows::new(source, None, 1000);
        let window = windows.next().unwrap();
        assert!(windows.next().is_none());
        assert!(window.lines.len() > 10);
        (window, index)
    }

    fn answer(window: &Window, edit: impl FnOnce(&mut Vec<(usize, Value)>)) -> Vec<u8> {
        let mut args = source_args(&["--bytes", "3KB", "--metadata", "--start", "1700000000"]);
        let source = Source::open(&mut args).unwrap();
        let mut lines: Vec<(usize, Value)> = window
            .lines
            .iter()
            .map(|line| {
                let mut metadata: BTreeMap<_, _> = line.entry.metadata.iter().cloned().collect();
                metadata.insert("detected_level", "info".to_owned());
                let time = line.entry.unix_nanos.to_string();
                (line.stream, json!([time, line.entry.line, {"structuredMetadata": metadata}]))
            })
            .collect();
        edit(&mut lines);
        let result: Vec<Value> = source
            .streams()
            .iter()
            .enumerate()
            .map(|(number, labels)| {
                let mut stream = json!(labels);
                stream["service_name"] = json!("added by the server");
                let values: Vec<&Value> =
                    lines.iter().filter(|(s, _)| *s == number).map(|(_, value)| value).collect();
                json!({"stream": stream, "values": values})
            })
            .collect();
        json!({"data": {"resultType": "streams", "result": result}}).to_string().into_bytes()
    }

    fn differences(edit: impl FnOnce(&mut Vec<(usize, Value)>)) -> Differences {
        let (window, index) = window();
        let (received, _) = parse_answer(&answer(&window, edit), &index).unwrap();
        compare(&window, &received)
    }

    #[test]
    fn nothing_differs_when_everything_came_back() {
        let result = differences(|_| {});
        assert_eq!((result.faults(), result.found), (0, result.expected), "{result:?}");
    }

    #[test]
    fn every_kind_of_fault_is_told_apart() {
        let only = |result: Differences, kind: &str| {
            assert_eq!(result.faults(), 1, "{result:?}");
            assert!(result.examples[0].starts_with(kind), "{result:?}");
        };
        only(differences(|lines| _ = lines.remove(3)), "missing");
        only(differences(|lines| lines.insert(4, lines[3].clone())), "duplicate");
        only(differences(|lines| lines[2].1[1] = json!("other text")), "changed");
        only(
            differences(|lines| lines[2].1[2]["structuredMetadata"]["trace_id"] = json!("0")),
            "changed",
        );
        only(
            differences(|lines| lines.push((0, json!(["9000000000000000000", "x"])))),
            "unexpected",
        );
        only(
            differences(|lines| {
                let stream = lines[0].0;
                let mut of_stream: Vec<usize> =
                    (0..lines.len()).filter(|&at| lines[at].0 == stream).collect();
                let last = of_stream.pop().expect("the stream has lines");
                let before = of_stream.pop().expect("the stream has two lines");
                lines.swap(before, last);
            }),
            "out of order",
        );
        // In another stream a line is both missing and unexpected.
        let moved = differences(|lines| lines[0].0 = (lines[0].0 + 1) % 16);
        assert_eq!((moved.missing, moved.unexpected), (1, 1), "{moved:?}");
    }

    #[test]
    fn unacknowledged_lines_may_be_absent_or_present() {
        let (mut window, index) = window();
        window.lines[0].required = false;
        window.lines[1].required = false;
        let body = answer(&window, |lines| _ = lines.remove(0));
        let result = compare(&window, &parse_answer(&body, &index).unwrap().0);
        assert_eq!((result.faults(), result.absent_unacknowledged), (0, 1), "{result:?}");
    }

    #[test]
    fn windows_tile_the_whole_range() {
        let args = &["--bytes", "100KB", "--body-bytes", "10KB", "--start", "1700000000"];
        let total: u64 =
            Source::open(&mut source_args(args)).unwrap().map(|body| body.line_count).sum();
        let source = Source::open(&mut source_args(args)).unwrap();
        let windows: Vec<Window> = Windows::new(source, Some(BTreeSet::from([1])), 37).collect();
        assert!(windows.windows(2).all(|pair| pair[0].end_nanos == pair[1].start_nanos));
        assert_eq!(windows.iter().map(|w| w.lines.len() as u64).sum::<u64>(), total);
        let required = windows.iter().flat_map(|w| &w.lines).filter(|line| line.required).count();
        assert!(required > 30 && (required as u64) < total / 5, "{required} of {total}");
    }

    #[test]
    fn answers_of_another_form_are_refused() {
        let index = StreamIndex::new(&[]);
        for text in [
            "",
            "[]",
            "{}",
            r#"{"data":{"resultType":"matrix","result":[]}}"#,
            r#"{"data":{"resultType":"streams"}}"#,
            r#"{"data":{"resultType":"streams","result":[{}]}}"#,
            r#"{"data":{"resultType":"streams","result":[{"values":[[1,"x"]]}]}}"#,
            r#"{"data":{"resultType":"streams","result":[{"values":[["x","x"]]}]}}"#,
        ] {
            assert!(parse_answer(text.as_bytes(), &index).is_err(), "{text}");
        }
    }
}

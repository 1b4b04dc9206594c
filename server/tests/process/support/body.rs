//! Bodies to push, in every form that the server takes.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use logsvc_proto::messages::{
    EntryAdapter, LabelPairAdapter, PushRequest, StreamAdapter, Timestamp,
};
use prost::Message;
use serde_json::{Map, Value, json};

/// A stream to push.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) entries: Vec<Entry>,
}

/// An entry to push.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) timestamp_ns: i64,
    pub(crate) line: String,
    pub(crate) metadata: Vec<(String, String)>,
}

pub(crate) fn stream(labels: &[(&str, &str)], entries: Vec<Entry>) -> Stream {
    Stream { labels: owned(labels), entries }
}

pub(crate) fn entry(timestamp_ns: i64, line: impl Into<String>) -> Entry {
    Entry { timestamp_ns, line: line.into(), metadata: Vec::new() }
}

impl Entry {
    pub(crate) fn with_metadata(mut self, metadata: &[(&str, &str)]) -> Entry {
        self.metadata = owned(metadata);
        self
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn object(pairs: &[(String, String)]) -> Value {
    let pairs = pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// `{name="value", ...}`, for values that need no escapes.
pub(crate) fn label_text(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// The form of `/loki/api/v1/push`.
pub(crate) fn json(streams: &[Stream]) -> String {
    let stream_json = |stream: &Stream| {
        let values = stream.entries.iter().map(|entry| {
            let time = entry.timestamp_ns.to_string();
            match entry.metadata.as_slice() {
                [] => json!([time, entry.line]),
                metadata => json!([time, entry.line, object(metadata)]),
            }
        });
        json!({"stream": object(&stream.labels), "values": values.collect::<Vec<_>>()})
    };
    json!({"streams": streams.iter().map(stream_json).collect::<Vec<_>>()}).to_string()
}

/// The form of `/api/prom/push`; `time_text` prints its times.
pub(crate) fn legacy_json(streams: &[Stream], time_text: impl Fn(i64) -> String) -> String {
    let stream_json = |stream: &Stream| {
        let entries = stream.entries.iter().map(|entry| {
            let mut fields = json!({"ts": time_text(entry.timestamp_ns), "line": entry.line});
            if !entry.metadata.is_empty() {
                fields["structuredMetadata"] = object(&entry.metadata);
            }
            fields
        });
        json!({"labels": label_text(&stream.labels), "entries": entries.collect::<Vec<_>>()})
    };
    json!({"streams": streams.iter().map(stream_json).collect::<Vec<_>>()}).to_string()
}

/// The protobuf message, not compressed.
pub(crate) fn message(streams: &[Stream]) -> Vec<u8> {
    let entry_message = |entry: &Entry| EntryAdapter {
        timestamp: Some(Timestamp::from_unix_ns(entry.timestamp_ns)),
        line: entry.line.clone().into_bytes(),
        structured_metadata: entry
            .metadata
            .iter()
            .map(|(name, value)| LabelPairAdapter {
                name: name.clone().into_bytes(),
                value: value.clone().into_bytes(),
            })
            .collect(),
        parsed: Vec::new(),
    };
    let stream_message = |stream: &Stream| StreamAdapter {
        labels: label_text(&stream.labels),
        entries: stream.entries.iter().map(entry_message).collect(),
        hash: 0,
    };
    let streams = streams.iter().map(stream_message).collect();
    PushRequest { streams, format: String::new() }.encode_to_vec()
}

/// The usual form: protobuf in a snappy block.
pub(crate) fn protobuf(streams: &[Stream]) -> Vec<u8> {
    snappy(&message(streams))
}

pub(crate) fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("snappy takes anything below 4 GiB")
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

/// One zstd frame.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).expect("a Vec takes all")
}

/// One LZ4 frame.
pub(crate) fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

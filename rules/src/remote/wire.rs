//! The bodies of remote write: protobuf, compressed as a snappy block.
//!
//! Version 1.0 repeats the labels of a series. Version 2.0 has each text once, in a table of
//! symbols whose first one is empty. Both have a series at most once in a request, with its samples
//! in the order in which they came. The functions cannot fail; bodies are as large as the caller's
//! bound of a batch allows.

use ahash::{AHashMap, RandomState};
use logsvc_proto::varint;

/// The version of the protocol of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// `prometheus.WriteRequest`.
    V1,
    /// `io.prometheus.write.v2.Request`.
    V2,
}

impl Version {
    /// The header `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Version::V1 => "application/x-protobuf",
            Version::V2 => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
        }
    }

    /// The header `X-Prometheus-Remote-Write-Version`.
    pub(super) fn number(self) -> &'static str {
        match self {
            Version::V1 => "0.1.0",
            Version::V2 => "2.0.0",
        }
    }
}

/// A sample of a series.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// In ms since the Unix epoch.
    pub(super) timestamp_ms: i64,
    pub(super) value: f64,
}

/// A series of a request: labels sorted by name, and samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Series<'a> {
    pub(super) labels: Vec<(&'a str, &'a str)>,
    pub(super) samples: Vec<Sample>,
}

/// The body of a request, not compressed.
pub(super) fn encode(version: Version, series: &[Series<'_>]) -> Vec<u8> {
    match version {
        Version::V1 => encode_v1(series),
        Version::V2 => encode_v2(series),
    }
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;

fn tag(out: &mut Vec<u8>, field: u64, kind: u64) {
    varint::write(out, field << 3 | kind);
}

fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    tag(out, field, BYTES);
    varint::write(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn encode_v1(series: &[Series<'_>]) -> Vec<u8> {
    let (mut out, mut one, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for series in series {
        one.clear();
        for (name, value) in &series.labels {
            part.clear();
            bytes(&mut part, 1, name.as_bytes());
            bytes(&mut part, 2, value.as_bytes());
            bytes(&mut one, 1, &part);
        }
        samples(&mut one, &mut part, &series.samples);
        bytes(&mut out, 1, &one);
    }
    out
}

fn encode_v2(series: &[Series<'_>]) -> Vec<u8> {
    let mut symbols = Symbols::new();
    let (mut body, mut one, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for series in series {
        one.clear();
        part.clear();
        for (name, value) in &series.labels {
            varint::write(&mut part, symbols.index(name));
            varint::write(&mut part, symbols.index(value));
        }
        bytes(&mut one, 1, &part);
        samples(&mut one, &mut part, &series.samples);
        // Recorded values may go up and down.
        bytes(&mut one, 5, &[1 << 3, METRIC_TYPE_GAUGE]);
        bytes(&mut body, 5, &one);
    }
    let mut out = Vec::with_capacity(body.len() + symbols.len_bytes());
    for symbol in &symbols.texts {
        bytes(&mut out, 4, symbol.as_bytes());
    }
    out.extend_from_slice(&body);
    out
}

const METRIC_TYPE_GAUGE: u8 = 2;

/// Field 2 of a series in both versions.
fn samples(out: &mut Vec<u8>, part: &mut Vec<u8>, samples: &[Sample]) {
    for sample in samples {
        part.clear();
        // Zero is left out, as in all of protobuf; the bits decide, since -0 is not 0.
        if sample.value.to_bits() != 0 {
            tag(part, 1, FIXED_64);
            part.extend_from_slice(&sample.value.to_le_bytes());
        }
        if sample.timestamp_ms != 0 {
            tag(part, 2, VARINT);
            varint::write(part, sample.timestamp_ms as u64);
        }
        bytes(out, 2, part);
    }
}

/// The table of symbols of a request.
struct Symbols<'a> {
    texts: Vec<&'a str>,
    indexes: AHashMap<&'a str, u64>,
}

impl<'a> Symbols<'a> {
    fn new() -> Symbols<'a> {
        let mut symbols = Symbols {
            texts: Vec::new(),
            indexes: AHashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)),
        };
        symbols.index("");
        symbols
    }

    fn index(&mut self, text: &'a str) -> u64 {
        let next = self.texts.len() as u64;
        *self.indexes.entry(text).or_insert_with(|| {
            self.texts.push(text);
            next
        })
    }

    fn len_bytes(&self) -> usize {
        self.texts.iter().map(|text| text.len() + 4).sum()
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::sink::STALE;

    fn two_series() -> Vec<Series<'static>> {
        let sample = |timestamp_ms, value| Sample { timestamp_ms, value };
        vec![
            Series {
                labels: vec![("__name__", "m"), ("a", "b")],
                samples: vec![sample(1, 1.0), sample(2, STALE)],
            },
            Series { labels: vec![("__name__", "m")], samples: vec![sample(-1, 0.0)] },
        ]
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_version_1() {
        let golden = concat!(
            "0a31", // timeseries
            "0a0d",
            "0a085f5f6e616d655f5f",
            "12016d", // label __name__="m"
            "0a06",
            "0a0161",
            "120162", // label a="b"
            "120b",
            "09000000000000f03f",
            "1001", // 1 at 1
            "120b",
            "09020000000000f07f",
            "1002", // stale at 2
            "0a1c",
            "0a0d",
            "0a085f5f6e616d655f5f",
            "12016d",
            "120b",
            "10ffffffffffffffffff01", // 0 at -1
        );
        assert_eq!(hex(&encode(Version::V1, &two_series())), golden);
        assert_eq!(encode(Version::V1, &[]), b"");
    }

    #[test]
    fn the_bytes_of_version_2() {
        let golden = concat!(
            "2200",
            "22085f5f6e616d655f5f",
            "22016d",
            "220161",
            "220162", // symbols
            "2a24",
            "0a0401020304",
            "120b",
            "09000000000000f03f",
            "1001",
            "120b",
            "09020000000000f07f",
            "1002",
            "2a020802",
            "2a15",
            "0a020102",
            "120b",
            "10ffffffffffffffffff01",
            "2a020802",
        );
        assert_eq!(hex(&encode(Version::V2, &two_series())), golden);
    }

    /// The messages as receivers declare them.
    #[derive(Clone, PartialEq, Message)]
    struct Request2 {
        #[prost(string, repeated, tag = "4")]
        symbols: Vec<String>,
        #[prost(message, repeated, tag = "5")]
        timeseries: Vec<Series2>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Series2 {
        #[prost(uint32, repeated, tag = "1")]
        labels_refs: Vec<u32>,
        #[prost(message, repeated, tag = "2")]
        samples: Vec<Sample2>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Sample2 {
        #[prost(double, tag = "1")]
        value: f64,
        #[prost(int64, tag = "2")]
        timestamp: i64,
    }

    #[test]
    fn another_decoder_reads_version_2() {
        let request = Request2::decode(&*encode(Version::V2, &two_series())).unwrap();
        let series = &request.timeseries[0];
        let text = |index: usize| request.symbols[series.labels_refs[index] as usize].as_str();
        assert_eq!((text(0), text(1), text(2), text(3)), ("__name__", "m", "a", "b"));
        assert_eq!(series.samples[1].value.to_bits(), STALE.to_bits());
        assert_eq!(request.timeseries[1].samples[0].timestamp, -1);
    }
}

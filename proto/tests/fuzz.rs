//! The fuzz bodies over seeds, mutated seeds and random bytes.

use logsvc_fuzz_bodies::proto as fuzz;
use logsvc_proto::messages::{
    EntryAdapter, LabelPairAdapter, PushRequest, StreamAdapter, Timestamp,
};
use logsvc_testkit::Rng;
use prost::Message;

/// Up to `max_len` random bytes.
fn random_bytes(rng: &mut Rng, max_len: usize) -> Vec<u8> {
    let len = rng.index(max_len + 1);
    rng.bytes(len)
}

/// Flips, inserts, removes, repeats or replaces a few bytes.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=rng.below(4) {
        let at = rng.index(bytes.len() + 1);
        let end = (at + rng.index(8)).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => bytes.truncate(at),
            _ => {
                let from = rng.index(other.len().max(1));
                let piece = &other[from..(from + rng.index(16)).min(other.len())];
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
}

/// Calls `body` over everything; a panic names the seed that replays it.
fn exercise(name: &str, body: fn(&[u8]), seeds: &[Vec<u8>]) {
    seeds.iter().for_each(|seed| body(seed));
    for seed in 0..100_000u64 {
        let mut rng = Rng::new(seed);
        let mut bytes = match seeds.get(rng.index(seeds.len() + 1)) {
            Some(seed) => seed.clone(),
            None => random_bytes(&mut rng, 200),
        };
        let other = &seeds[rng.index(seeds.len())];
        mutate(&mut rng, &mut bytes, other);
        let outcome = std::panic::catch_unwind(|| body(&bytes));
        assert!(
            outcome.is_ok(),
            "{name}: seed {seed} fails with {:?}",
            bytes.escape_ascii().to_string()
        );
    }
}

fn golden_inputs(text: &str) -> Vec<Vec<u8>> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .filter_map(|line| line.split_once(" => "))
        .map(|(input, _)| input.trim_start_matches("@legacy ").as_bytes().to_vec())
        .collect()
}

fn message() -> Vec<u8> {
    let pair =
        |name: &[u8], value: &[u8]| LabelPairAdapter { name: name.into(), value: value.into() };
    let entry = |unix_ns, line: &[u8]| EntryAdapter {
        timestamp: Some(Timestamp::from_unix_ns(unix_ns)),
        line: line.to_vec(),
        structured_metadata: vec![pair(b"trace.id", b"1"), pair(b"a", b"\xff")],
        parsed: vec![pair(b"p", b"q")],
    };
    let stream = |labels: &str| StreamAdapter {
        labels: labels.to_owned(),
        entries: vec![entry(1_773_900_000_000_000_000, b"level=info"), entry(-1, b"")],
        hash: 7,
    };
    PushRequest {
        streams: vec![stream("{app=\"web\", env='x'}"), stream("{}")],
        format: "f".to_owned(),
    }
    .encode_to_vec()
}

#[test]
fn push_protobuf() {
    exercise("push_protobuf", fuzz::push_protobuf, &[message(), Vec::new()]);
}

#[test]
fn push_json() {
    exercise("push_json", fuzz::push_json, &golden_inputs(include_str!("golden/push_json.txt")));
}

#[test]
fn otlp() {
    let json = br#"{"resourceLogs":[{"resource":{"attributes":[
        {"key":"service.name","value":{"stringValue":"s"}},{"key":"m","value":{"kvlistValue":
        {"values":[{"key":"k","value":{"intValue":"5"}}]}}}]},"scopeLogs":[{"scope":{"name":"n",
        "attributes":[{"key":"a","value":{"bytesValue":"AQI="}}]},"logRecords":[{"timeUnixNano":"5",
        "severityNumber":9,"severityText":"I","body":{"arrayValue":{"values":[{"doubleValue":1.5},
        {"boolValue":true}]}},"attributes":[{"key":"b","value":{"stringValue":"\u00e9"}}],
        "traceId":"0af7651916cd43dd8448eb211c80319c","flags":1,"droppedAttributesCount":2}]}]}]}"#;
    let mut message = Vec::new();
    logsvc_proto::otlp::transcode_json(json, &mut message).expect("the seed is valid");
    exercise("otlp", fuzz::otlp, &[json.to_vec(), message]);
}

/// Lines, objects and bulk requests.
#[test]
fn fields() {
    let lines =
        br#"{"message":"a","@timestamp":"2026-11-25 03:00:00","a":{"b":[1,{"c":null}]},"x1":1.5e3}
{"message":"b","@timestamp":1700000000123}{"message":"c"}
oops
{"a.b":"\u00e9","n":-0.10}"#;
    let bulk = br#"{"create":{"_index":"i","_id":"7"}}
{"@timestamp":"2026-11-25T03:00:00Z","message":"one"}
{"index":{}}
[1]
{"delete":{"_id":"1"}}
{"update":{}}
{"doc":{}}
"#;
    exercise(
        "fields",
        fuzz::fields,
        &[lines.to_vec(), bulk.to_vec(), b"items.*.status,-**.a".to_vec()],
    );
}

/// Entries on their way between servers, with the byte for their compression before them.
#[test]
fn transfer() {
    use std::io::Write;
    let lines =
        br#"{"timestamp":"7","labels":{"a":"b","c__d":"\u00e9\n"},"metadata":{"m":"1"},"line":"x"}

{"labels":{},"parsed":{"p":[null,{"q":1}]},"timestamp":-12,"line":"\ud800","line_base64":"/wA="}
oops
{"cursor":"1-00"}
{"warning":"w"}
{"error":"e"}
{"end":true,"entries":2}"#;
    let mut gzip = flate2::write::GzEncoder::new(vec![1], flate2::Compression::fast());
    gzip.write_all(lines).expect("a Vec takes all");
    let zipped = zstd::stream::encode_all(&lines[..], 1).expect("a Vec takes all");
    exercise(
        "transfer",
        fuzz::transfer,
        &[
            [&[0], &lines[..]].concat(),
            gzip.finish().expect("a Vec takes all"),
            [&[2], &zipped[..]].concat(),
        ],
    );
}

/// Bodies with the byte for their headers before them.
#[test]
fn push_body() {
    use std::io::Write;
    let message = message();
    let json = &golden_inputs(include_str!("golden/push_json.txt"))[0];
    let snappy = snap::raw::Encoder::new().compress_vec(&message).expect("small");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json).expect("a Vec takes all");
    let gzip = gzip.finish().expect("a Vec takes all");
    let with = |headers: u8, body: &[u8]| [&[headers], body].concat();
    let seeds = [with(0, json), with(1, &snappy), with(8, &gzip), with(2, json), with(1, &message)];
    exercise("push_body", fuzz::push_body, &seeds);
}

#[test]
fn headers() {
    let seeds: [&[u8]; 4] = [
        b"application/json; charset=\"utf-8\"; a=b\ngzip\ntenant-1",
        b"application/x-protobuf\nzstd\na|b|c",
        b"text/*\n\n(a)!_.*'",
        b"one|two",
    ];
    exercise("headers", fuzz::headers, &seeds.map(<[u8]>::to_vec));
}

#[test]
fn level() {
    let seeds = [
        "level=info msg=\"an \\\" error\" severity=\"warn\"",
        "{\"a\":{\"level\":\"x\",\"b\":[1,{\"c\":\"}\"}]},\"lvl\":\"wrn\"}",
        "2026-03-10 [ERROR] something went wrong: critical",
    ];
    exercise("level", fuzz::level, &seeds.map(|seed| seed.as_bytes().to_vec()));
}

#[test]
fn labels() {
    let mut seeds = golden_inputs(include_str!("golden/labels.txt"));
    seeds.push(b"\x02\x03app\x03web\x03env\x04prod".to_vec());
    exercise("labels", fuzz::labels, &seeds);
}

#[test]
fn decompress() {
    use std::io::Write;
    let text = message().repeat(20);
    let level = flate2::Compression::fast();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(&text).expect("a Vec takes all");
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), level);
    deflate.write_all(&text).expect("a Vec takes all");
    let mut snappy = snap::raw::Encoder::new();
    let seeds = [
        gzip.finish().expect("a Vec takes all"),
        deflate.finish().expect("a Vec takes all"),
        snappy.compress_vec(&text).expect("small"),
        snappy.compress_vec(&vec![0; 1 << 17]).expect("small"),
    ];
    exercise("decompress", fuzz::decompress, &seeds);
}

#[test]
fn params() {
    let seeds: Vec<_> = [
        "1795222080.5",
        "1773104400",
        "2026-03-10T02:00:00.5+01:00",
        "1y2w3d4h5m6s7ms",
        "1.5h30m0.25s",
        "-10µs",
        "256KB",
        "4 MiB",
        "1e99",
        "4294967295",
        "-9223372036854775808",
        "0.000000001s",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    exercise("params", fuzz::params, &seeds);
}

#[test]
fn journals_are_read_the_same_however_they_are_cut() {
    let text = b"\x07__CURSOR=s\n__REALTIME_TIMESTAMP=1700000000000000\n_HOSTNAME=h\nPRIORITY=3\n\
        _SYSTEMD_UNIT=session-1.scope\nMESSAGE=one\n\n__REALTIME_TIMESTAMP=2\n";
    let mut binary = b"\x03__REALTIME_TIMESTAMP=1\nMESSAGE\n".to_vec();
    binary.extend(9u64.to_le_bytes());
    binary.extend(b"two\nlines\nA=b\n_PID=1\nPID=2\n\n\nMESSAGE\n");
    binary.extend(u64::MAX.to_le_bytes());
    binary.extend(b"lost\n\nA=x\n\n");
    exercise("journal", fuzz::journal, &[text.to_vec(), binary]);
}

//! The protobuf walker against golden bytes and against prost.

use logsvc_proto::messages::{
    EntryAdapter, LabelPairAdapter, PushRequest, StreamAdapter, Timestamp,
};
use logsvc_proto::push::{Push, Totals};
use proptest::prelude::*;
use prost::Message;

mod common;
use common::{Entry, Stream, dump};

/// Bytes written as text: hexadecimal pairs, and texts in quotes.
fn bytes_of(notation: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for word in notation.split(' ').filter(|word| !word.is_empty()) {
        match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => out.push(u8::from_str_radix(word, 16).expect("a hexadecimal byte")),
        }
    }
    out
}

#[test]
fn golden_messages() {
    let mut cases = 0;
    for line in include_str!("golden/push_protobuf.txt").lines() {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let (notation, expected) = line.split_once(" => ").expect("a case is `bytes => outcome`");
        let outcome = match Push::protobuf(&bytes_of(notation)) {
            Ok(push) => {
                let streams: Vec<_> = dump(&push).iter().map(Stream::to_string).collect();
                format!("{} {}", push.totals().streams, streams.join(" ")).trim_end().to_owned()
            }
            Err(error) => format!("! {error}"),
        };
        assert_eq!(outcome, expected, "{notation}");
        cases += 1;
    }
    assert!(cases > 30, "the golden file lost its cases");
}

fn pair() -> impl Strategy<Value = LabelPairAdapter> {
    let text = || prop::collection::vec(any::<u8>(), 0..6);
    (text(), text()).prop_map(|(name, value)| LabelPairAdapter { name, value })
}

fn entry() -> impl Strategy<Value = EntryAdapter> {
    let line = prop::collection::vec(any::<u8>(), 0..200);
    let pairs = || prop::collection::vec(pair(), 0..4);
    (prop::option::of(any::<i64>()), line, pairs(), pairs()).prop_map(
        |(unix_ns, line, structured_metadata, parsed)| EntryAdapter {
            timestamp: unix_ns.map(Timestamp::from_unix_ns),
            line,
            structured_metadata,
            parsed,
        },
    )
}

fn request() -> impl Strategy<Value = PushRequest> {
    let stream = (any::<String>(), prop::collection::vec(entry(), 0..5), any::<u64>())
        .prop_map(|(labels, entries, hash)| StreamAdapter { labels, entries, hash });
    (prop::collection::vec(stream, 0..4), any::<String>())
        .prop_map(|(streams, format)| PushRequest { streams, format })
}

fn expected(request: &PushRequest) -> (Vec<Stream>, Totals) {
    let mut totals = Totals { streams: request.streams.len() as u64, ..Totals::default() };
    let streams = request.streams.iter().map(|stream| {
        let entries = stream.entries.iter().map(|entry| {
            let metadata: Vec<_> = entry
                .structured_metadata
                .iter()
                .map(|pair| (pair.name.clone(), pair.value.clone()))
                .collect();
            totals.entries += 1;
            totals.line_bytes += entry.line.len() as u64;
            totals.metadata_pairs += metadata.len() as u64;
            totals.metadata_bytes +=
                metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() as u64;
            let timestamp_ns =
                entry.timestamp.map(|t| t.seconds as i128 * 1_000_000_000 + i128::from(t.nanos));
            Entry {
                timestamp_ns: timestamp_ns.map(|ns| ns as i64),
                line: entry.line.clone(),
                metadata,
            }
        });
        Stream { labels: stream.labels.clone().into_bytes(), entries: entries.collect() }
    });
    (streams.collect(), totals)
}

/// An entry with little metadata lists it once, one with much is walked each time.
#[test]
fn any_number_of_pairs_is_seen() {
    let mut request = PushRequest::default();
    for count in [0, 1, 127, 128, 129, 400, 2] {
        let pair = |number: usize| LabelPairAdapter {
            name: format!("name_{number}").into_bytes(),
            value: vec![b'v'; number % 150],
        };
        let entry = EntryAdapter {
            timestamp: Some(Timestamp::from_unix_ns(7)),
            line: b"line".to_vec(),
            structured_metadata: (0..count).map(pair).collect(),
            parsed: Vec::new(),
        };
        let stream = StreamAdapter { labels: "{}".into(), entries: vec![entry; 2], hash: 0 };
        request.streams.push(stream);
    }
    let body = request.encode_to_vec();
    let push = Push::protobuf(&body).expect("well-formed");
    let (streams, totals) = expected(&request);
    assert_eq!(dump(&push), streams);
    assert_eq!(push.totals(), totals);
    for stream in push.streams() {
        let mut entries = stream.entries();
        while let Some(entry) = entries.next() {
            let pairs = entry.metadata.iter();
            assert_eq!(entry.metadata.count(), pairs.clone().count());
            assert_eq!(entry.metadata.is_empty(), entry.metadata.count() == 0);
            let len_bytes: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
            assert_eq!(entry.metadata.len_bytes(), len_bytes);
        }
    }
}

proptest! {
    #[test]
    fn the_walker_sees_what_prost_encodes(request in request()) {
        let body = request.encode_to_vec();
        let push = Push::protobuf(&body).expect("prost encodes well-formed messages");
        let (streams, totals) = expected(&request);
        prop_assert_eq!(dump(&push), streams);
        prop_assert_eq!(push.totals(), totals);
    }

    /// Both decoders must read every message alike that both accept. (Prost also accepts groups
    /// and any timestamp, and checks texts for UTF-8.)
    #[test]
    fn mutated_messages_are_walked_as_prost_decodes_them(
        request in request(),
        position in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut body = request.encode_to_vec();
        prop_assume!(!body.is_empty());
        let index = position.index(body.len());
        body[index] = byte;
        if let (Ok(push), Ok(decoded)) = (Push::protobuf(&body), PushRequest::decode(&body[..])) {
            prop_assert_eq!(push.totals().streams, decoded.streams.len() as u64);
            prop_assert_eq!(push.totals().entries, expected(&decoded).1.entries);
            prop_assert_eq!(push.totals().line_bytes, expected(&decoded).1.line_bytes);
        }
    }

    #[test]
    fn truncated_messages_never_panic(request in request(), position in any::<prop::sample::Index>()) {
        let body = request.encode_to_vec();
        let cut = position.index(body.len() + 1);
        if let Ok(push) = Push::protobuf(&body[..cut]) {
            prop_assert_eq!(dump(&push).len() as u64, push.totals().streams);
        }
    }
}

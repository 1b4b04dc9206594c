//! Bodies of pushes that contradict their headers or their format.

use super::Victim;
use crate::support::random::seed;
use crate::support::{body, entry, now_ns, stream};
use logsvc_testkit::Rng;

/// A good push of two streams, as a protobuf message.
fn message() -> Vec<u8> {
    let now_ns = now_ns();
    let entries = |app| (0..3).map(|n| entry(now_ns + n, format!("{app} {n}"))).collect();
    let one = stream(&[("app", "one"), ("env", "x")], entries("one"));
    body::message(&[one, stream(&[("app", "two")], entries("two"))])
}

#[test]
fn cut_off_bodies_store_nothing() {
    let victim = Victim::new(&["--cores", "2"]);
    let mut client = victim.server.client();
    let whole = body::snappy(&message());
    for cut in 0..whole.len() {
        let answer = client.push_protobuf(&whole[..cut]).expect(400);
        assert_eq!(answer, "snappy: corrupt input\n", "cut at {cut}");
    }
    let json = body::json(&[stream(&[("app", "cut")], vec![entry(now_ns(), "line")])]);
    for cut in 0..json.len() {
        client.push_json(&json.as_bytes()[..cut]).expect(400);
    }
    let gzipped = body::gzip(json.as_bytes());
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    for cut in 0..gzipped.len() {
        let cut = &gzipped[..cut];
        client.request("POST", "/loki/api/v1/push", &headers, Some(cut)).expect(400);
    }
    assert_eq!(victim.stored(), 0.0);
    victim.survives();
}

#[test]
fn damaged_messages_are_answered() {
    let victim = Victim::new(&["--cores", "1"]);
    let mut client = victim.server.client();
    let message = message();
    for cut in 1..message.len() {
        // At some of these places a shorter message ends, so it may be good.
        let reply = client.push_protobuf(&body::snappy(&message[..cut]));
        assert!([204, 400, 422].contains(&reply.status), "cut at {cut}: {}", reply.text());
    }
    // Lengths, tags and texts, each made too large in turn.
    for place in 0..message.len() {
        let mut damaged = message.clone();
        damaged[place] = 0xff;
        let reply = client.push_protobuf(&body::snappy(&damaged));
        assert!([204, 400, 422].contains(&reply.status), "byte {place}: {}", reply.text());
    }
    // A stream that claims more bytes than there are, up to the largest number.
    for length in [&[0x7f][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0xff; 20]] {
        let mut claim = vec![0x0a];
        claim.extend_from_slice(length);
        claim.push(0x01);
        client.push_protobuf(&body::snappy(&claim)).expect(400);
    }
    victim.survives();
}

#[test]
fn json_of_the_wrong_shape_is_refused() {
    let victim = Victim::new(&["--cores", "2"]);
    let mut client = victim.server.client();
    let now = now_ns().to_string();
    let with_value =
        |value: String| format!(r#"{{"streams":[{{"stream":{{"a":"b"}},"values":[{value}]}}]}}"#);
    for text in [
        with_value(format!(r#"[{now},"numeric time"]"#)),
        with_value(r#"["1.5","fraction"]"#.to_owned()),
        with_value(r#"["2026-11-21T00:00:00Z","no number"]"#.to_owned()),
        with_value(r#"["99999999999999999999","too large"]"#.to_owned()),
        with_value(format!(r#"["{now}",5]"#)),
        with_value(format!(r#"["{now}","x","no object"]"#)),
        with_value(format!(r#"["{now}","x",{{"k":5}}]"#)),
        with_value(format!(r#"["{now}","x"],{{}}"#)),
        with_value(format!("{{\"{now}\":\"x\"}}")),
        "[]".to_owned(),
        "hello".to_owned(),
        "\u{0}".to_owned(),
        String::new(),
        "[".repeat(100_000),
        r#"{"streams":"#.repeat(50_000),
        r#"{"streams":[{"stream":"no object","values":[]}]}"#.to_owned(),
        r#"{"streams":{"stream":{}}}"#.to_owned(),
    ] {
        let reply = client.push_json(text.as_bytes());
        assert_eq!(reply.status, 400, "{:.200}: {}", text, reply.text());
        assert!(reply.text().ends_with('\n') && reply.body.len() < 1000, "{}", reply.text());
    }
    for text in ["{}", r#"{"streams":null}"#, r#"{"streams":[]}"#, r#"{"other":[[[]]]}"#] {
        let answer = client.push_json(text.as_bytes()).expect(422);
        assert_eq!(answer, "error at least one valid stream is required for ingestion\n", "{text}");
    }
    assert_eq!(victim.stored(), 0.0);
    victim.survives();
}

#[test]
fn labels_that_do_not_parse_refuse_the_whole_push() {
    let victim = Victim::new(&["--cores", "2"]);
    let mut client = victim.server.client();
    let now_ns = now_ns();
    for (labels, text) in [
        (r#"{app="x""#, "1:9: parse error: unexpected end of input inside braces"),
        (r#"app="x""#, "1:4: parse error: unexpected \"=\""),
        ("{app=x}", "1:6: parse error: unexpected identifier \"x\" in label set, expected string"),
        (r#"{a.b="x"}"#, "1:3: parse error: unexpected character inside braces: '.'"),
        (r#"{app=~"x"}"#, "1:5: parse error: unexpected <op:=~> in label set, expected \"=\""),
    ] {
        let mut push = body_with_labels(labels, now_ns);
        let good = stream(&[("app", "good")], vec![entry(now_ns, "not stored either")]);
        push.extend_from_slice(&body::message(&[good]));
        let answer = client.push_protobuf(&body::snappy(&push)).expect(400);
        assert_eq!(answer, format!("couldn't parse labels: {text}\n"), "{labels}");
    }
    let duplicate = body_with_labels(r#"{app="x", app="y"}"#, now_ns);
    let answer = client.push_protobuf(&body::snappy(&duplicate)).expect(400);
    assert!(answer.contains("has duplicate label name: 'app'"), "{answer}");
    assert_eq!(victim.stored(), 0.0);
    victim.survives();
}

/// A message with one stream whose label text is given.
fn body_with_labels(labels: &str, now_ns: i64) -> Vec<u8> {
    use logsvc_proto::messages::{EntryAdapter, PushRequest, StreamAdapter, Timestamp};
    use prost::Message;
    let entry = EntryAdapter {
        timestamp: Some(Timestamp::from_unix_ns(now_ns)),
        line: b"line".to_vec(),
        ..EntryAdapter::default()
    };
    let stream = StreamAdapter { labels: labels.to_owned(), entries: vec![entry], hash: 0 };
    PushRequest { streams: vec![stream], format: String::new() }.encode_to_vec()
}

#[test]
fn compressed_bombs_do_not_go_off() {
    let victim = Victim::new(&["--cores", "2"]);
    let mut client = victim.server.client();
    // Snappy begins with the length that it claims: 4 GiB - 1, and then nothing.
    let mut claim = vec![0xff, 0xff, 0xff, 0xff, 0x0f];
    claim.extend_from_slice(&[0; 64]);
    let answer = client.push_protobuf(&claim).expect(400);
    assert_eq!(answer, "snappy: corrupt input\n", "so few bytes cannot become so many");
    // More than 32 bits is no snappy at all.
    let answer = client.push_protobuf(&[0xff; 64]).expect(400);
    assert_eq!(answer, "snappy: corrupt input\n");
    // Half a gigabyte of blanks: valid JSON so far.
    let blanks = vec![b' '; 512 << 20];
    let bombs = [
        (body::gzip(&blanks), "gzip"),
        (body::deflate(&blanks), "deflate"),
        (body::zstd(&blanks), "zstd"),
        (body::lz4(&blanks), "lz4"),
    ];
    drop(blanks);
    for (bomb, encoding) in &bombs {
        let headers = [("Content-Type", "application/json"), ("Content-Encoding", encoding)];
        let reply = client.request("POST", "/loki/api/v1/push", &headers, Some(bomb));
        let answer = reply.expect(413);
        assert!(answer.starts_with("request body too large: packed and unpacked"), "{answer}");
        let headers = [("Content-Type", "application/x-protobuf"), ("Content-Encoding", encoding)];
        client.request("POST", "/loki/api/v1/push", &headers, Some(bomb)).expect(413);
    }
    victim.survives();
}

#[test]
fn encodings_that_are_not_known_are_named() {
    let victim = Victim::new(&["--cores", "1"]);
    let mut client = victim.server.client();
    let push = body::json(&[stream(&[("app", "x")], vec![entry(now_ns(), "x")])]);
    let mut refused = |headers: &[(&str, &str)]| {
        client.request("POST", "/loki/api/v1/push", headers, Some(push.as_bytes())).expect(400)
    };
    let json = ("Content-Type", "application/json");
    for encoding in ["identity", "br", "GZIP", "zstd, gzip"] {
        let answer = refused(&[json, ("Content-Encoding", encoding)]);
        assert_eq!(answer, format!("Content-Encoding \"{encoding}\" not supported\n"));
    }
    assert_eq!(refused(&[json, ("Content-Encoding", "gzip")]), "gzip: invalid header\n");
    assert_eq!(refused(&[json, ("Content-Encoding", "zstd")]), "zstd: corrupt input\n");
    assert_eq!(refused(&[json, ("Content-Encoding", "lz4")]), "lz4: corrupt input\n");
    let hint = "the body looks like JSON, which needs the header Content-Type: application/json\n";
    assert_eq!(refused(&[]), format!("mime: no media type: {hint}"));
    assert_eq!(refused(&[("Content-Type", ";;")]), format!("mime: no media type: {hint}"));
    let plain = refused(&[("Content-Type", "text/plain")]);
    assert_eq!(plain, format!("snappy: corrupt input: {hint}"));
    victim.survives();
}

#[test]
fn random_bytes_are_refused() {
    let victim = Victim::new(&["--cores", "2"]);
    let mut client = victim.server.client();
    let mut random = Rng::new(seed());
    for _ in 0..400 {
        let len = random.below(300) as usize;
        let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        let bytes = if random.one_in(2) { body::snappy(&bytes) } else { bytes };
        let media_type = *random.pick(&["application/json", "application/x-protobuf"]);
        let path = *random.pick(&["/loki/api/v1/push", "/api/prom/push"]);
        let reply = client.request("POST", path, &[("Content-Type", media_type)], Some(&bytes));
        assert!([400, 422].contains(&reply.status), "{media_type} {bytes:?}: {}", reply.status);
    }
    victim.survives();
}

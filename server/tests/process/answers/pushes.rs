//! Every form of a push stores the same entries.

use crate::support::{
    Client, DataDir, Entry, SECOND_NS, Server, Stream, body, entry, now_ns, query, stream,
};

fn example(form: &str, now_ns: i64) -> Vec<Stream> {
    let labels = [("form", form), ("service_name", "shop")];
    let entries = vec![
        entry(now_ns - 3 * SECOND_NS, "first \"quoted\" \\ line"),
        entry(now_ns - 2 * SECOND_NS, "zweite Zeile: äöü \u{1f980}\ttab"),
        entry(now_ns - SECOND_NS, "").with_metadata(&[("trace_id", "abc"), ("user", "u 1")]),
    ];
    vec![stream(&labels, entries)]
}

/// The name of a form, its path, its headers and its body.
type Form = (&'static str, &'static str, Vec<(&'static str, &'static str)>, Vec<u8>);

fn forms(now_ns: i64) -> Vec<Form> {
    const V1: &str = "/loki/api/v1/push";
    const NEUTRAL: &str = "/logsvc/api/v1/push";
    const LEGACY: &str = "/api/prom/push";
    let json_type = ("Content-Type", "application/json");
    let protobuf_type = ("Content-Type", "application/x-protobuf");
    let (gzipped, deflated) = (("Content-Encoding", "gzip"), ("Content-Encoding", "deflate"));
    let (zstd, lz4) = (("Content-Encoding", "zstd"), ("Content-Encoding", "lz4"));
    let message = |form| body::message(&example(form, now_ns));
    let json = |form| body::json(&example(form, now_ns)).into_bytes();
    let protobuf = |form| body::protobuf(&example(form, now_ns));
    let legacy = body::legacy_json(&example("legacy-json", now_ns), rfc3339);
    let charset = ("Content-Type", "application/JSON; charset=utf-8");
    vec![
        ("json", V1, vec![charset], json("json")),
        ("json-neutral", NEUTRAL, vec![json_type], json("json-neutral")),
        ("json-gzip", V1, vec![json_type, gzipped], body::gzip(&json("json-gzip"))),
        ("json-deflate", V1, vec![json_type, deflated], body::deflate(&json("json-deflate"))),
        ("protobuf", V1, vec![protobuf_type], protobuf("protobuf")),
        ("protobuf-neutral", NEUTRAL, vec![protobuf_type], protobuf("protobuf-neutral")),
        ("protobuf-gzip", V1, vec![protobuf_type, gzipped], body::gzip(&protobuf("protobuf-gzip"))),
        ("json-zstd", V1, vec![json_type, zstd], body::zstd(&json("json-zstd"))),
        ("json-lz4", V1, vec![json_type, lz4], body::lz4(&json("json-lz4"))),
        ("message-zstd", V1, vec![protobuf_type, zstd], body::zstd(&message("message-zstd"))),
        ("message-lz4", V1, vec![protobuf_type, lz4], body::lz4(&message("message-lz4"))),
        ("snappy-zstd", V1, vec![protobuf_type, zstd], body::zstd(&protobuf("snappy-zstd"))),
        ("snappy-lz4", V1, vec![protobuf_type, lz4], body::lz4(&protobuf("snappy-lz4"))),
        ("legacy-json", LEGACY, vec![json_type], legacy.into_bytes()),
        ("legacy-protobuf", LEGACY, vec![protobuf_type], protobuf("legacy-protobuf")),
    ]
}

/// RFC 3339 with nine digits, from the days since 1970 (civil calendar of
/// Howard Hinnant's `days_from_civil`, the other way round).
fn rfc3339(unix_ns: i64) -> String {
    let (seconds, nanos) = (unix_ns.div_euclid(SECOND_NS), unix_ns.rem_euclid(SECOND_NS));
    let (days, of_day) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

fn check(client: &mut Client, form: &str, now_ns: i64) {
    let selector = format!("{{form=\"{form}\"}}");
    let stored = query::all_lines(client, &selector, now_ns - 60 * SECOND_NS, now_ns);
    let expected: Vec<(i64, String)> = example(form, now_ns)
        .remove(0)
        .entries
        .into_iter()
        .map(|Entry { timestamp_ns, line, .. }| (timestamp_ns, line))
        .collect();
    assert_eq!(stored, expected, "{form}");
    let data = query::range(client, &selector, &[("end", &now_ns.to_string())]);
    let metadata = &data["result"][0]["values"][0][2]["structuredMetadata"];
    assert_eq!(metadata["trace_id"], "abc", "{form}: {data}");
    assert_eq!(metadata["user"], "u 1", "{form}: {data}");
}

#[test]
fn every_form_of_a_push_stores_the_same() {
    assert_eq!(rfc3339(1_795_224_948_000_000_005), "2026-11-21T01:35:48.000000005Z");
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let now_ns = now_ns();
    for (form, path, headers, body) in forms(now_ns) {
        let reply = client.request("POST", path, &headers, Some(&body));
        assert_eq!(reply.expect(204), "", "{form}");
        assert_eq!(reply.header("content-type"), None, "{form}");
        check(&mut client, form, now_ns);
    }
    // Entries that are sent twice are stored once.
    for (_, path, headers, body) in forms(now_ns) {
        client.request("POST", path, &headers, Some(&body)).expect(204);
    }
    for (form, ..) in forms(now_ns) {
        check(&mut client, form, now_ns);
    }
    server.stop();
    let server = Server::start(folder.path(), &["--cores", "3"]);
    let mut client = server.client();
    for (form, ..) in forms(now_ns) {
        check(&mut client, form, now_ns);
    }
}

#[test]
fn a_push_of_no_stream_that_has_anything_is_answered_like_others() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let nothing = client.push_json(br#"{"streams":[]}"#);
    nothing.expect(422);
    // The first two have no labels where this form has them, the others no entries.
    for streams in [
        r#"{"labels":"{app=\"x\"}","entries":[{"ts":"2026-03-19T06:00:00Z","line":"x"}]}"#,
        "{}",
        r#"{"stream":{"app":"x"}}"#,
        r#"{"stream":{"app":"x"},"values":[]}"#,
    ] {
        let reply = client.push_json(format!(r#"{{"streams":[{streams}]}}"#).as_bytes());
        assert_eq!(reply.expect(204), "", "{streams}");
    }
    client.push_protobuf(&body::protobuf(&[stream(&[("app", "x")], vec![])])).expect(204);
    client.request("GET", "/ready", &[], None).expect(200);
}

/// A push whose body comes in chunks, byte by byte at their borders.
#[test]
fn pushes_may_come_in_chunks_and_in_pipelines() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    let now_ns = now_ns();
    let push = body::json(&[stream(&[("app", "chunks")], vec![entry(now_ns, "in chunks")])]);
    let mut request = String::from(
        "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    let (start, rest) = push.split_at(1);
    let (middle, end) = rest.split_at(rest.len() - 7);
    for chunk in [start, middle, end, ""] {
        request += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
    }
    assert_eq!(client.try_exchange(request.as_bytes(), false).expect("an answer").status, 204);
    let found =
        query::range(&mut client, r#"{app="chunks"}"#, &[("end", &(now_ns + 1).to_string())]);
    assert_eq!(query::texts(&found), ["in chunks"]);

    // Three requests at once are answered in order.
    let pipeline = "GET /ready HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n\
                    GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
    let replies = [pipeline, "", ""]
        .map(|text| client.try_exchange(text.as_bytes(), false).expect("an answer").status);
    assert_eq!(replies, [200, 404, 200]);
}

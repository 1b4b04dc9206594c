//! Pushes that the limits refuse, wholly or in part: status, text, and the entries that are stored
//! all the same.

use crate::support::{
    Client, DataDir, SECOND_NS, Server, Stream, body, entry, now_ns, query, stream,
};

/// Starts a node with two cores, without discovery, so that texts and sizes follow from the pushed
/// bytes alone.
fn start(folder: &DataDir, flags: &[&str]) -> Server {
    let plain =
        ["--cores=2", "--limits.discover-service-name=[]", "--limits.discover-log-levels=false"];
    Server::start(folder.path(), &[&plain, flags].concat())
}

fn push(client: &mut Client, streams: &[Stream]) -> (u16, String) {
    let reply = client.push_json(body::json(streams).as_bytes());
    (reply.status, reply.text())
}

fn one(labels: &[(&str, &str)], line: &str) -> Vec<Stream> {
    vec![stream(labels, vec![entry(now_ns(), line)])]
}

/// Lines of the last hour.
fn stored(client: &mut Client, selector: &str) -> Vec<String> {
    let data = query::range(client, selector, &[("direction", "forward")]);
    query::texts(&data)
}

/// A row: flags of the server, the pushed streams, status and text.
type Row = (&'static [&'static str], Vec<Stream>, u16, &'static str);

fn rows() -> Vec<Row> {
    let now = now_ns();
    let two = |first, second| {
        vec![stream(&[("a", "v")], vec![entry(now, first), entry(now + 1, second)])]
    };
    let with_metadata = |pairs: &[(&str, &str)]| {
        vec![stream(&[("a", "v")], vec![entry(now, "x").with_metadata(pairs)])]
    };
    vec![
        (&[], vec![], 422, "error at least one valid stream is required for ingestion\n"),
        (&[], one(&[], "x"), 400, "error at least one label pair is required per stream\n"),
        (
            &["--limits.max-label-names-per-series=1"],
            one(&[("a", "1"), ("b", "2"), ("service_name", "s")], "x"),
            400,
            "entry for stream '{a=\"1\", b=\"2\", service_name=\"s\"}' has 2 label names; limit 1\n",
        ),
        (
            &["--limits.max-label-name-length=3"],
            one(&[("abcd", "1")], "x"),
            400,
            "stream '{abcd=\"1\"}' has label name too long: 'abcd'\n",
        ),
        (
            &["--limits.max-label-value-length=3"],
            one(&[("a", "vvvv")], "x"),
            400,
            "stream '{a=\"vvvv\"}' has label value too long: 'vvvv'\n",
        ),
        (
            &["--limits.enforced-labels=env,a,team"],
            one(&[("a", "v")], "x"),
            400,
            "missing required labels 'env,team' for user 'fake' for stream '{a=\"v\"}' (policy: '')\n",
        ),
        (
            &["--limits.max-line-size=20"],
            one(&[("a", "v")], "123456789012345678901"),
            400,
            "max entry size '20' bytes exceeded for stream '{a=\"v\"}' while adding an entry with \
             length '21' bytes\n",
        ),
        (
            &["--limits.max-line-size=2"],
            two("abc", "def"),
            400,
            "2 errors like: max entry size '2' bytes exceeded for stream '{a=\"v\"}' while adding \
             an entry with length '3' bytes\n",
        ),
        (
            &["--limits.max-line-size=2"],
            two("abc", "abcd"),
            400,
            "1 errors like: max entry size '2' bytes exceeded for stream '{a=\"v\"}' while adding \
             an entry with length '3' bytes; 1 errors like: max entry size '2' bytes exceeded for \
             stream '{a=\"v\"}' while adding an entry with length '4' bytes\n",
        ),
        (
            &["--limits.allow-structured-metadata=false"],
            with_metadata(&[("m", "1")]),
            400,
            "stream '{a=\"v\"}' includes structured metadata, but this feature is disallowed. Please \
             see `limits_config.allow_structured_metadata` or contact your administrator to enable \
             it\n",
        ),
        (
            &["--limits.max-structured-metadata-size=3"],
            with_metadata(&[("m", "123")]),
            400,
            "stream '{a=\"v\"}' has structured metadata too large: '4' bytes, limit: '3' bytes. Please \
             see `limits_config.max_structured_metadata_size` or contact your administrator to \
             increase it\n",
        ),
        (
            &["--limits.max-structured-metadata-entries-count=1"],
            with_metadata(&[("m", "1"), ("n", "2")]),
            400,
            "stream '{a=\"v\"}' has too many structured metadata labels: '2', limit: '1'. Please see \
             `limits_config.max_structured_metadata_entries_count` or contact your administrator to \
             increase it\n",
        ),
        (
            &["--limits.ingestion-rate-mb=0.001", "--limits.ingestion-burst-size-mb=0.001"],
            one(&[("a", "v")], &"x".repeat(2000)),
            429,
            "ingestion rate limit exceeded for user fake (limit: 1048 bytes/sec) while attempting to \
             ingest '1' lines totaling '2000' bytes, reduce log volume or contact your administrator \
             to see if the limit can be increased\n",
        ),
        (
            &["--limits.block-ingestion-until=2099-01-01T00:00:00Z"],
            one(&[("a", "v")], "x"),
            260,
            "ingestion blocked for user 'fake' until '2099-01-01T00:00:00Z' with status code '260'\n",
        ),
        (
            &[
                "--limits.block-ingestion-until=2099-01-01T00:00:00Z",
                "--limits.block-ingestion-status-code=456",
            ],
            one(&[("a", "v")], "x"),
            456,
            "ingestion blocked for user 'fake' until '2099-01-01T00:00:00Z' with status code '456'\n",
        ),
        (
            &[
                "--limits.block-ingestion-until=2099-01-01T00:00:00Z",
                "--limits.block-ingestion-status-code=200",
            ],
            one(&[("a", "v")], "x"),
            204,
            "",
        ),
        (
            &[
                "--limits.block-ingestion-until=2099-01-01T00:00:00Z",
                "--limits.max-label-name-length=3",
            ],
            [one(&[("a", "v")], "x"), one(&[("abcd", "1")], "x")].concat(),
            400,
            "stream '{abcd=\"1\"}' has label name too long: 'abcd'\n",
        ),
        (
            &["--limits.block-ingestion-until=2001-01-01T00:00:00Z"],
            one(&[("a", "v")], "x"),
            204,
            "",
        ),
    ]
}

#[test]
fn every_refusal_has_its_status_and_text() {
    for (flags, streams, status, text) in rows() {
        let folder = DataDir::new();
        let server = start(&folder, flags);
        let mut client = server.client();
        assert_eq!(push(&mut client, &streams), (status, text.to_owned()), "{flags:?}");
        let lines = stored(&mut client, "{a=\"v\"}");
        let is_stored = status == 204 && !flags.iter().any(|flag| flag.contains("2099"));
        assert_eq!(lines.is_empty(), !is_stored, "{flags:?}: {lines:?}");
    }
}

#[test]
fn discovered_labels_show_in_refusals_and_do_not_count() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--limits.max-label-names-per-series=1"]);
    let mut client = server.client();
    assert_eq!(push(&mut client, &one(&[("app", "x")], "level=warn")), (204, String::new()));
    assert_eq!(push(&mut client, &one(&[], "no labels")), (204, String::new()));
    let too_many = "entry for stream '{app=\"x\", b=\"2\", service_name=\"x\"}' has 2 label names; \
                    limit 1\n";
    let refused = push(&mut client, &one(&[("app", "x"), ("b", "2")], "x"));
    assert_eq!(refused, (400, too_many.to_owned()));
    let twice = [StreamText { labels: "{app=\"x\",app=\"y\"}" }];
    let reply = client.push_protobuf(&StreamText::body(&twice));
    let text =
        "stream '{app=\"x\", app=\"y\", service_name=\"x\"}' has duplicate label name: 'app'\n";
    assert_eq!((reply.status, reply.text()), (400, text.to_owned()));
    let data = query::range(&mut client, "{service_name=~\".+\"}", &[]);
    let streams: Vec<String> = data["result"]
        .as_array()
        .expect("streams")
        .iter()
        .map(|s| format!("{} {}", s["stream"], s["values"][0][2]["structuredMetadata"]))
        .collect();
    assert!(
        streams.contains(&r#"{"app":"x","service_name":"x"} {"detected_level":"warn"}"#.to_owned()),
        "{streams:?}"
    );
    assert!(
        streams.contains(
            &r#"{"service_name":"unknown_service"} {"detected_level":"unknown"}"#.to_owned()
        ),
        "{streams:?}"
    );
}

/// A stream whose label string is sent as it is.
struct StreamText {
    labels: &'static str,
}

impl StreamText {
    fn body(streams: &[StreamText]) -> Vec<u8> {
        use logsvc_proto::messages::{EntryAdapter, PushRequest, StreamAdapter, Timestamp};
        use prost::Message;
        let entry = EntryAdapter {
            timestamp: Some(Timestamp::from_unix_ns(now_ns())),
            line: b"x".to_vec(),
            ..EntryAdapter::default()
        };
        let stream = |text: &StreamText| StreamAdapter {
            labels: text.labels.to_owned(),
            entries: vec![entry.clone()],
            hash: 0,
        };
        let streams = streams.iter().map(stream).collect();
        body::snappy(&PushRequest { streams, format: String::new() }.encode_to_vec())
    }
}

#[test]
fn the_good_part_is_stored_and_the_worst_result_reported() {
    let folder = DataDir::new();
    let server = start(
        &folder,
        &[
            "--limits.max-line-size=800",
            "--limits.per-stream-rate-limit=1KB",
            "--limits.per-stream-rate-limit-burst=1KB",
        ],
    );
    let mut client = server.client();
    let now = now_ns();
    let long = "x".repeat(900);
    let six_hundred = "y".repeat(600);
    // 400 for a line, and nothing worse.
    let mixed = [stream(&[("a", "v")], vec![entry(now, "good 1"), entry(now, long.as_str())])];
    assert_eq!(push(&mut client, &mixed).0, 400);
    // Too far behind is worse than a line, and a rate limit is worse than that: it asks
    // for another attempt.
    let streams = [
        stream(&[("a", "v")], vec![entry(now, "good 2"), entry(now, long.as_str())]),
        stream(&[("a", "v")], vec![entry(now - 7200 * SECOND_NS, "late")]),
    ];
    let (status, text) = push(&mut client, &streams);
    assert_eq!(status, 400);
    assert!(text.starts_with("entry with timestamp ") && text.contains("entry too far behind"));
    assert!(
        text.ends_with("user 'fake', total ignored: 1 out of 2 for stream: {a=\"v\"}\n"),
        "{text}"
    );
    let streams = [
        stream(
            &[("hot", "1")],
            vec![entry(now, six_hundred.as_str()), entry(now + 1, six_hundred.as_str())],
        ),
        stream(&[("a", "v")], vec![entry(now, "good 3"), entry(now, long.as_str())]),
        stream(&[("a", "v")], vec![entry(now - 7200 * SECOND_NS, "late")]),
    ];
    let (status, text) = push(&mut client, &streams);
    assert_eq!(status, 429, "{text}");
    let reason = "reason: 'Per stream rate limit exceeded (limit: 1KB/sec) while attempting to \
                  ingest for stream '{hot=\"1\"}' totaling 600B, consider splitting a stream via \
                  additional labels or contact your administrator to see if the limit can be \
                  increased',\n";
    assert_eq!(text.matches(reason).count(), 2, "{text}");
    let tail = "user 'fake', total ignored: 2 out of 2 for stream: {hot=\"1\"}\n";
    assert!(text.ends_with(tail), "{text}");
    assert_eq!(stored(&mut client, "{a=\"v\"}"), ["good 1", "good 2", "good 3"]);
    assert!(stored(&mut client, "{hot=\"1\"}").is_empty());
}

/// Connections land on any core; all of them must draw on one bucket.
#[test]
fn rates_and_stream_counts_hold_over_all_cores() {
    let folder = DataDir::new();
    let flags = [
        "--limits.ingestion-rate-mb=0.000001",
        "--limits.ingestion-burst-size-mb=0.01",
        "--limits.max-global-streams-per-user=3",
        "--limits.max-streams-per-user=100",
    ];
    let server = start(&folder, &flags);
    let mut statuses = Vec::new();
    for index in 0..40 {
        // A connection of its own.
        let mut client = server.client();
        let streams = one(&[("a", "v")], &format!("{index:0>1000}"));
        let reply = client.push_json(body::json(&streams).as_bytes());
        if reply.status == 429 {
            let wait = reply.header("retry-after").and_then(|text| text.parse::<u32>().ok());
            assert!(wait.is_some_and(|wait| (1..=60).contains(&wait)), "{wait:?}");
        }
        statuses.push(reply.status);
    }
    // 0.01 MB are 10485 bytes, and the rate is one byte a second.
    let stored_count = statuses.iter().filter(|&&status| status == 204).count();
    assert_eq!(stored_count, 10, "{statuses:?}");
    drop(server);

    let folder = DataDir::new();
    let server = start(&folder, &flags[2..]);
    for round in 0..2 {
        for index in 0..6 {
            let mut client = server.client();
            let value = index.to_string();
            let (status, text) = push(&mut client, &one(&[("s", &value)], &format!("{round}")));
            assert_eq!(status, if index < 3 { 204 } else { 429 }, "{round} {index}: {text}");
            if index >= 3 {
                let expected = format!(
                    "maximum active stream limit exceeded when trying to create stream \
                     {{s=\"{index}\"}}, reduce the number of active streams (reduce labels or reduce \
                     label values), or contact your administrator to see if the limit can be \
                     increased, user: 'fake'\n"
                );
                assert_eq!(text, expected);
            }
        }
    }
}

#[test]
fn lines_are_cut_and_equal_times_move_apart_if_configured() {
    let folder = DataDir::new();
    let server = start(
        &folder,
        &[
            "--limits.max-line-size=10",
            "--limits.max-line-size-truncate=true",
            "--limits.max-line-size-truncate-identifier=[...]",
            "--limits.increment-duplicate-timestamp=true",
        ],
    );
    let mut client = server.client();
    let now = now_ns() - SECOND_NS;
    let lines = ["A", "A", "B", "C"].map(|line| entry(now, line));
    let streams = [
        stream(&[("t", "1")], [lines.to_vec(), vec![entry(now + 1, "D")]].concat()),
        stream(&[("t", "2")], vec![entry(now, "0123456789"), entry(now + 1, "0123456789a")]),
    ];
    assert_eq!(push(&mut client, &streams), (204, String::new()));
    let forward = [("direction", "forward")];
    let moved = query::lines(&query::range(&mut client, "{t=\"1\"}", &forward));
    let moved: Vec<_> = moved.iter().map(|(time, line)| (time - now, line.as_str())).collect();
    assert_eq!(moved, [(0, "A"), (1, "B"), (1, "D"), (2, "C")]);
    assert_eq!(stored(&mut client, "{t=\"2\"}"), ["0123456789", "01234[...]"]);
}

#[test]
fn a_backfill_may_be_old_and_is_kept_apart() {
    let folder = DataDir::new();
    let server = start(&folder, &[]);
    let mut client = server.client();
    let old_ns = now_ns() - 30 * 86_400 * SECOND_NS;
    let streams = [stream(&[("a", "v")], vec![entry(old_ns, "old")])];
    let text = push(&mut client, &streams);
    assert!(text.0 == 400 && text.1.contains("has timestamp too old"), "{text:?}");
    let long = "x".repeat(129);
    for (shard, status) in [(long.as_str(), 400), ("part-1", 204)] {
        let headers = [("Content-Type", "application/json"), ("X-Loki-Backfill-Shard", shard)];
        let body = body::json(&streams);
        let reply = client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()));
        assert_eq!(reply.status, status, "{}", reply.text());
    }
    let start = (old_ns - SECOND_NS).to_string();
    let data = query::range(&mut client, "{a=\"v\"}", &[("start", &start)]);
    let labels =
        serde_json::json!({"a": "v", "__backfill__": "true", "__backfill_shard__": "part-1"});
    assert_eq!(data["result"][0]["stream"], labels);
    let reserved = [stream(&[("__backfill__", "true")], vec![entry(now_ns(), "x")])];
    let text = push(&mut client, &[one(&[("a", "v")], "x"), reserved.to_vec()].concat());
    let expected =
        "streams must not contain the reserved labels __backfill__ and __backfill_shard__\n";
    assert_eq!(text, (400, expected.to_owned()));
    assert!(stored(&mut client, "{a=\"v\"}").is_empty());
}

//! The edges of pushes: times, lines, names of metadata, sizes.

use crate::support::{Client, DataDir, Server, body, entry, now_ns, query, stream};

#[test]
fn every_time_that_is_taken_can_be_read_back() {
    let folder = DataDir::new();
    let flags = [
        "--cores=2",
        "--limits.reject-old-samples=false",
        "--limits.creation-grace-period=0s",
        "--limits.max-query-length=0s",
    ];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let push = |client: &mut Client, time_ns: i64| {
        let time = time_ns.to_string();
        let json = body::json(&[stream(&[("time", &*time)], vec![entry(time_ns, "x")])]);
        client.push_json(json.as_bytes())
    };
    let last = push(&mut client, i64::MAX);
    assert_eq!(last.status, 400);
    assert!(last.text().contains("timestamp too new"), "{}", last.text());
    let times = [i64::MAX - 1, i64::MAX - 2, i64::MIN, i64::MIN + 1, 0, -1, 1, -3_600_000_000_000];
    for time_ns in times {
        assert_eq!(push(&mut client, time_ns).status, 204, "{time_ns}");
    }
    for is_flushed in [false, true] {
        if is_flushed {
            assert_eq!(client.request("POST", "/flush", &[], None).status, 204);
        }
        for time_ns in times {
            let selector = format!("{{time=\"{time_ns}\"}}");
            // Integers of up to ten characters are seconds.
            let (start, end) = (format!("{time_ns:020}"), format!("{:020}", time_ns + 1));
            for direction in ["forward", "backward"] {
                let params = [("start", &*start), ("end", &*end), ("direction", direction)];
                let data = query::range(&mut client, &selector, &params);
                assert_eq!(query::lines(&data), [(time_ns, "x".to_owned())], "{is_flushed}");
            }
            // The end is not in the range.
            if let Some(before) = time_ns.checked_sub(10) {
                let (start, end) = (format!("{before:020}"), format!("{time_ns:020}"));
                let params = [("start", &*start), ("end", &*end)];
                assert!(query::lines(&query::range(&mut client, &selector, &params)).is_empty());
            }
        }
    }
}

#[test]
fn lines_are_as_long_as_memory_permits() {
    let folder = DataDir::new();
    let flags = ["--cores=1", "--limits.max-line-size=0", "--memory.max-bytes=512MB"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let now = now_ns();
    let long = "x".repeat(20 << 20);
    let json = body::json(&[stream(&[("a", "b")], vec![entry(now, &long), entry(now + 1, "s")])]);
    assert_eq!(client.push_json(json.as_bytes()).status, 204);
    assert_eq!(client.request("POST", "/flush", &[], None).status, 204);
    let query = "sum_over_time({a=\"b\"} | label_format n=\"{{ len __line__ }}\" | unwrap n [1h])";
    let target = query::target("/loki/api/v1/query", &[("query", &format!("sum({query})"))]);
    assert!(client.get(&target).expect(200).contains("\"20971521\""));
    // Half of the memory for recent entries: more would never find room.
    let longer = "x".repeat(60 << 20);
    let json = body::json(&[stream(&[("a", "b")], vec![entry(now, &longer)])]);
    let reply = client.push_json(json.as_bytes());
    assert_eq!(reply.status, 400);
    assert!(reply.text().starts_with("max entry size '"), "{}", reply.text());
}

#[test]
fn metadata_has_the_names_of_the_reference_and_what_is_lost_is_counted() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--limits.discover-log-levels=false"]);
    let mut client = server.client();
    let now = now_ns();
    let pairs = [("x__y", "1"), ("___z", "2"), ("a_b", "kept not"), ("a.b", "kept")];
    let labels = [("app", "names")];
    let with_pairs = |time_ns| stream(&labels, vec![entry(time_ns, "x").with_metadata(&pairs)]);
    client.push(&[with_pairs(now)]);
    let reply = client.push_protobuf(&body::protobuf(&[with_pairs(now + 1)]));
    assert_eq!(reply.status, 204);
    let data = query::range(&mut client, "{app=\"names\"}", &[]);
    let stored: Vec<_> = data["result"]
        .as_array()
        .expect("streams")
        .iter()
        .flat_map(|stream| stream["values"].as_array().expect("values"))
        .map(|entry| entry[2]["structuredMetadata"].to_string())
        .collect();
    assert_eq!(stored, vec![r#"{"_z":"2","a_b":"kept","x_y":"1"}"#; 2]);
    let metrics = client.get("/metrics").text();
    for (name, value) in [("samples", 2), ("bytes", 2 * "a_bkept not".len())] {
        let sample = format!(
            "loki_mutated_{name}_total{{reason=\"structured_metadata_names_merged\",tenant=\"fake\"}} \
             {value}"
        );
        assert!(metrics.lines().any(|line| line == sample), "{sample}");
    }
}

/// Entries of a kilobyte, as JSON.
fn kilobytes(app: &str, count: i64) -> String {
    let (now, line) = (now_ns(), "x".repeat(1000));
    let entries = (0..count).map(|n| entry(now + n, format!("{n} {line}"))).collect();
    body::json(&[stream(&[("app", app)], entries)])
}

fn push_gzip(client: &mut Client, json: &str) -> (u16, String) {
    let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
    let body = body::gzip(json.as_bytes());
    let reply = client.request("POST", "/loki/api/v1/push", &headers, Some(&body));
    (reply.status, reply.text())
}

#[test]
fn a_push_is_stored_or_refused_for_good_when_nothing_else_is_there() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores=2", "--memory.max-bytes=64MB"]);
    let mut client = server.client();
    // 16 MiB are there for bodies: the largest that fit are stored, and more never is.
    for (kilobytes_unpacked, status) in [(3_000, 204), (9_000, 204), (15_000, 204), (17_000, 413)] {
        let app = kilobytes_unpacked.to_string();
        let json = kilobytes(&app, kilobytes_unpacked);
        for _ in 0..2 {
            let (found, text) = push_gzip(&mut client, &json);
            assert_eq!(found, status, "{kilobytes_unpacked} KB: {text}");
        }
        let expected = if status == 204 { kilobytes_unpacked } else { 0 };
        let query = format!("sum(count_over_time({{app=\"{app}\"}}[1h]))");
        let answer = client.get(&query::target("/loki/api/v1/query", &[("query", &query)]));
        let answer = answer.expect(200);
        assert!(expected == 0 || answer.contains(&format!("\"{expected}\"")), "{answer}");
    }
    // As it is sent: the announced length is enough.
    let head = "POST /loki/api/v1/push HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                Content-Length: 17000000\r\n\r\n";
    let reply = server.client().try_exchange(head.as_bytes(), false).expect("an answer");
    let text = "message size too large than max (17000000 vs 16777216)\n";
    assert_eq!((reply.status, reply.text()), (413, text.to_owned()));
}

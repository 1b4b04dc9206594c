//! Limits of queries: which queries they refuse, and with which texts.

use serde_json::json;

use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

/// Ten streams of ten lines of 100 bytes, the last at `now`.
fn fill(client: &mut Client, now_ns: i64) {
    let line = "x".repeat(100);
    let streams: Vec<_> = (0..10)
        .map(|number| {
            let pod = format!("p{number}");
            let at = |second: i64| now_ns - second * SECOND_NS;
            let entries = (0..10).map(|second| entry(at(second), line.as_str())).collect();
            stream(&[("app", "web"), ("pod", &pod), ("service_name", "web")], entries)
        })
        .collect();
    client.push(&streams);
}

#[test]
fn queries_that_would_read_too_much_are_refused() {
    let folder = DataDir::new();
    let now_ns = now_ns();
    let more = ["--cores", "2", "--limits.max-query-bytes-read", "5000B"];
    let server = Server::start(folder.path(), &more);
    let mut client = server.client();
    fill(&mut client, now_ns);
    let end = (now_ns + 1).to_string();
    let range =
        |query: &str| query::target("/loki/api/v1/query_range", &[("query", query), ("end", &end)]);
    let instant =
        |query: &str| query::target("/loki/api/v1/query", &[("query", query), ("time", &end)]);
    let advice = "consider adding more specific stream selectors or reduce the time range of the \
                  query";
    let text =
        format!("the query would read too many bytes (query: 9.8 KiB, limit: 4.9 KiB); {advice}");
    // Filters and limits do not count.
    assert_eq!(client.get(&range(r#"{app="web"} |= "nothing""#)).expect(400), text);
    assert_eq!(client.get(&instant(r#"sum(rate({app="web"}[1m]))"#)).expect(400), text);
    let good = client.get(&range(r#"{app="web", pod="p1"}"#)).json();
    assert_eq!(good["data"]["stats"]["summary"]["estimatedQueryBytes"], 1000);
    // Both sides of an operation count, equal ones once.
    let twice = r#"sum(rate({pod=~"p[0-2]"}[1m])) / sum(rate({pod=~"p[0-2]"} |= "x" [1m]))"#;
    let sum = client.get(&instant(twice)).json();
    assert_eq!(sum["data"]["stats"]["summary"]["estimatedQueryBytes"], 3000);
    server.stop();

    let more = ["--cores", "2", "--limits.max-querier-bytes-read", "5000B"];
    let server = Server::start(folder.path(), &more);
    let text = format!(
        "query too large to execute on a single querier: (query: 9.8 KiB, limit: 4.9 KiB); {advice}"
    );
    assert_eq!(server.get(&range(r#"{app="web"}"#)).expect(400), text);
}

#[test]
fn selectors_and_windows_are_bounded() {
    let folder = DataDir::new();
    let more = [
        "--limits.required-labels=env",
        "--limits.max-streams-matchers-per-query=2",
        "--limits.max-query-range=10m",
        "--cores=1",
    ];
    let server = Server::start(folder.path(), &more);
    let refused = |path: &str, query: &str| {
        let target = query::target(&format!("/loki/api/v1/{path}"), &[("query", query)]);
        server.get(&target).expect(400)
    };
    for (path, query, text) in [
        (
            "query_range",
            r#"{app="web"}"#,
            "stream selector is missing required matchers [env], labels present in the query were \
             [app]",
        ),
        (
            "query_range",
            r#"{app="web", env="a", pod="b"}"#,
            "max streams matchers per query exceeded, matchers-count > limit (3 > 2)",
        ),
        ("query", r#"rate({app="web"}[1h])"#, "[interval] value exceeds limit: [1h] > [10m]"),
    ] {
        assert_eq!(refused(path, query), text, "{query}");
    }
    let instant = query::target("/loki/api/v1/query", &[("query", r#"rate({app="web"}[1m])"#)]);
    server.get(&instant).expect(200);
}

#[test]
fn queries_are_blocked_by_policy() {
    let folder = DataDir::new();
    let rules = r#"[{"pattern": ".*secret.*", "regex": true}, {"types": "metric"}]"#;
    let server =
        Server::start(folder.path(), &["--cores=1", &format!("--limits.blocked-queries={rules}")]);
    let ask = |path: &str, query: &str| server.get(&query::target(path, &[("query", query)]));
    for (path, query) in [
        ("/loki/api/v1/query_range", r#"{app="web"} |= "a secret""#),
        ("/api/prom/query", r#"{app="secret"}"#),
        ("/loki/api/v1/query", r#"rate({app="web"}[1m])"#),
        ("/loki/api/v1/query_range", "vector(1)"),
    ] {
        assert_eq!(ask(path, query).expect(400), "query blocked by policy", "{query}");
    }
    ask("/loki/api/v1/query_range", r#"{app="web"} |= "known""#).expect(200);
    // A query that does not parse gets its own error, and only queries are blocked.
    let unreadable = ask("/loki/api/v1/query_range", r#"{app="secret""#).expect(400);
    assert!(unreadable.starts_with("parse error"), "{unreadable}");
    ask("/loki/api/v1/labels", r#"{app="secret"}"#).expect(200);
    ask("/loki/api/v1/index/stats", r#"{app="secret"}"#).expect(200);
}

#[test]
fn requests_make_their_limits_stricter_if_they_may() {
    let target = query::target("/loki/api/v1/query_range", &[("query", r#"{app="web"}"#)]);
    let headers = [("X-Loki-Query-Limits", r#"{"maxQueryLength": "30m"}"#)];
    let text = "the query time range exceeds the limit (query length: 1h0m0s, limit: 30m)";
    for (flag, status) in [("=true", 400), ("=false", 200)] {
        let folder = DataDir::new();
        let flag = format!("--querier.per-request-limits-enabled{flag}");
        let server = Server::start(folder.path(), &["--cores=1", &flag]);
        let mut client = server.client();
        let reply = client.request("GET", &target, &headers, None);
        let body = reply.expect(status);
        assert!(status == 200 || body == text, "{body}");
        let ignored = [("X-Loki-Query-Limits", r#"{"maxQueryLength": 30}"#)];
        client.request("GET", &target, &ignored, None).expect(200);
    }
}

#[test]
fn drilldown_gets_a_part_of_too_many_series() {
    let folder = DataDir::new();
    let now_ns = now_ns();
    let server = Server::start(folder.path(), &["--cores", "2", "--limits.max-query-series", "3"]);
    let mut client = server.client();
    fill(&mut client, now_ns);
    let time = now_ns.to_string();
    let count = r#"sum by (pod) (count_over_time({app="web"}[1m]))"#;
    for (path, bound) in [("query", "time"), ("query_range", "end")] {
        let params = [("query", count), (bound, time.as_str())];
        let target = query::target(&format!("/loki/api/v1/{path}"), &params);
        let refused = client.get(&target).expect(400);
        let text = "maximum number of series (3) reached for a single query; consider reducing";
        assert!(refused.starts_with(text), "{refused}");
        let tags = [("X-Query-Tags", "Source=grafana-lokiexplore-app,Feature=x")];
        let part = client.request("GET", &target, &tags, None).json();
        assert_eq!(part["data"]["result"].as_array().map(Vec::len), Some(3));
        let text =
            "maximum number of series (3) reached for a single query; returning partial results";
        assert_eq!(part["warnings"], json!([text]));
        // Enough is enough, without a warning.
        let target = target.replace("sum%20by%20%28pod%29%20", "sum");
        let whole = client.request("GET", &target, &tags, None).json();
        assert_eq!(whole["status"], "success");
        assert_eq!(whole.get("warnings"), None);
    }
}

#[test]
fn statistics_tell_the_work_that_was_done() {
    let folder = DataDir::new();
    let now_ns = now_ns();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    fill(&mut client, now_ns);
    let end = (now_ns + 1).to_string();
    let data =
        query::range(&mut client, r#"{app="web"} |= "x""#, &[("end", &end), ("limit", "1000")]);
    let summary = &data["stats"]["summary"];
    assert_eq!(summary["totalEntriesReturned"], 100);
    // Every line was looked at, once.
    assert_eq!(summary["totalLinesProcessed"], 100);
    // Each has a level, whose name and value have their lengths in front of them.
    let metadata_bytes = 100 * ("detected_level".len() + "unknown".len() + 2) as u64;
    assert_eq!(summary["totalStructuredMetadataBytesProcessed"], metadata_bytes);
    assert_eq!(summary["totalBytesProcessed"], 10_000 + metadata_bytes);
    assert_eq!(summary["totalPostFilterLines"], 100);
    assert!(summary["execTime"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert!(summary["bytesProcessedPerSecond"].as_u64().is_some_and(|bytes| bytes > 0));
    let (flat, nested) = (&data["stats"]["ingester"], &data["stats"]["ingester"]["store"]["chunk"]);
    assert_eq!(flat["totalReached"], 2);
    assert_eq!((&flat["headChunkLines"], &nested["headChunkLines"]), (&json!(100), &json!(100)));
    assert_eq!(flat["headChunkBytes"], 10_000 + metadata_bytes);
    assert_eq!(nested["headChunkStructuredMetadataBytes"], metadata_bytes);
    assert_eq!(data["stats"]["ingester"]["store"]["queryReferencedStructuredMetadata"], true);
    assert_eq!(data["stats"]["index"]["totalStreams"], 10);
    // A filter that finds nothing looks at all lines and passes none.
    let data = query::range(&mut client, r#"{app="web"} |= "z""#, &[("end", &end)]);
    let summary = &data["stats"]["summary"];
    assert_eq!(summary["totalLinesProcessed"], 100);
    assert_eq!(summary["totalPostFilterLines"], 0);
    assert_eq!(summary["totalEntriesReturned"], 0);
    // Samples count as entries.
    let start = (now_ns - 10 * SECOND_NS).to_string();
    let bounds = [("start", start.as_str()), ("end", &end), ("step", "5")];
    let data = query::range(&mut client, r#"sum(count_over_time({app="web"}[1m]))"#, &bounds);
    let points = data["result"][0]["values"].as_array().map(Vec::len);
    assert_eq!(data["stats"]["summary"]["totalEntriesReturned"], json!(points));
}

#[test]
fn statistics_tell_memory_and_segments_apart() {
    let folder = DataDir::new();
    let now_ns = now_ns();
    let args = ["--cores", "2", "--ingester.flush-on-shutdown=true"];
    let server = Server::start(folder.path(), &args);
    fill(&mut server.client(), now_ns);
    server.stop();
    let server = Server::start(folder.path(), &args);
    let mut client = server.client();
    let recent = vec![entry(now_ns, "xy").with_metadata(&[("a", "b")])];
    client.push(&[stream(&[("app", "web"), ("pod", "new"), ("service_name", "web")], recent)]);
    let end = (now_ns + 1).to_string();
    let bounds = [("end", end.as_str()), ("limit", "1000")];
    let data = query::range(&mut client, r#"{app="web"} |= "x""#, &bounds);
    let stats = &data["stats"];
    assert_eq!(stats["summary"]["totalLinesProcessed"], 101);
    let level = ("detected_level".len() + "unknown".len() + 2) as u64;
    let (sealed, recent) = (100 * level, level + 4);
    assert_eq!(stats["summary"]["totalBytesProcessed"], 10_002 + sealed + recent);
    // Columns are read once and are in memory for the next query.
    let cache = &stats["cache"]["chunk"];
    assert_eq!((&cache["entriesFound"], &cache["entriesStored"]), (&json!(0), &cache["requests"]));
    assert!(cache["entriesStored"].as_u64().is_some_and(|columns| columns >= 3), "{cache}");
    assert!(stats["store"]["chunksDownloadTime"].as_f64().is_some_and(|seconds| seconds > 0.0));
    let again = query::range(&mut client, r#"{app="web"} |= "x""#, &bounds);
    assert_eq!(again["stats"]["cache"]["chunk"]["entriesFound"], cache["entriesStored"]);
    assert_eq!(again["stats"]["store"]["compressedBytes"], 0);
    assert_eq!(stats["ingester"]["headChunkLines"], 1);
    assert_eq!(stats["ingester"]["headChunkBytes"], 2 + recent);
    assert_eq!(stats["store"]["decompressedLines"], 100);
    assert_eq!(stats["store"]["decompressedBytes"], 10_000 + sealed);
    assert!(stats["store"]["totalChunksDownloaded"].as_u64().is_some_and(|blocks| blocks > 0));
    assert!(stats["store"]["compressedBytes"].as_u64().is_some_and(|bytes| bytes > 0));
    let chunk = &stats["querier"]["store"]["chunk"];
    assert_eq!(
        (&chunk["decompressedLines"], &chunk["postFilterLines"]),
        (&json!(100), &json!(100))
    );
    // Volumes and statistics look at directories alone.
    let params = [("query", r#"{app="web"}"#), ("end", &end)];
    let volume = client.get(&query::target("/loki/api/v1/index/volume", &params)).json();
    assert_eq!(
        volume["data"]["result"][0]["value"][1],
        (10_002 + 101 * (level - 2) + 2).to_string()
    );
    let stats = &volume["data"]["stats"];
    assert_eq!(stats["querier"]["store"]["chunk"]["decompressedBytes"], 0, "{stats}");
    let found = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    assert_eq!((&found["streams"], &found["entries"]), (&json!(11), &json!(101)));
}

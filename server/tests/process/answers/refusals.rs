//! What is told of refusals: the log, the list of the tenant, and the metrics agree, whatever the
//! protocol.

use std::io::{Read, Write};

use logsvc_proto::otlp::transcode_json;
use serde_json::{Value, json};

use crate::support::client::connect;
use crate::support::{Client, DataDir, SECOND_NS, Server, body, entry, now_ns, query, stream};

const DAY_NS: i64 = 24 * 3600 * SECOND_NS;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");

/// The lines of the log with a message.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let parsed = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter(|line| line["message"] == message).collect()
}

fn listed(client: &mut Client, tenant: (&str, &str)) -> Vec<Value> {
    let listing = client.request("GET", "/loki/api/v1/refusals", &[tenant], None).json();
    assert_eq!(listing["status"], "success");
    listing["data"].as_array().expect("a list").clone()
}

fn otlp(times_ns: &[i64]) -> String {
    let records: Vec<Value> = times_ns
        .iter()
        .map(|time| json!({"timeUnixNano": time.to_string(), "body": {"stringValue": "SECRET"}}))
        .collect();
    let service = json!({"key": "service.name", "value": {"stringValue": "old"}});
    json!({"resourceLogs": [{
        "resource": {"attributes": [service]},
        "scopeLogs": [{"logRecords": records}]}]})
    .to_string()
}

/// A hundred entries of thirty days ago, by each protocol, alone and beside a good one.
#[test]
fn every_protocol_tells_what_is_too_old() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled", "--cores", "2"]);
    let mut client = server.client();
    let old_ns = now_ns() - 30 * DAY_NS;
    let text_of = |time_ns: i64| {
        let mut text = Vec::new();
        logsvc_proto::time::write_rfc3339_nano(Some(time_ns), &mut text);
        String::from_utf8(text).expect("ASCII")
    };
    let protocols = ["json", "legacy", "protobuf", "otlp-json", "otlp-protobuf"];
    for (protocol, with_good) in
        protocols.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)])
    {
        let name = format!("{protocol}-{with_good}");
        let tenant = ("X-Scope-OrgID", &*name);
        let mut times_ns: Vec<i64> = (0..100).map(|n| old_ns + n).collect();
        times_ns.extend(with_good.then(now_ns));
        let entries = times_ns.iter().map(|&time_ns| entry(time_ns, "SECRET"));
        let streams = [stream(&[("service_name", "old")], entries.collect())];
        let mut message = Vec::new();
        transcode_json(otlp(&times_ns).as_bytes(), &mut message).expect("valid JSON");
        let (path, media_type, sent) = match protocol {
            "json" => ("/loki/api/v1/push", JSON, body::json(&streams).into_bytes()),
            "legacy" => ("/api/prom/push", JSON, body::legacy_json(&streams, text_of).into_bytes()),
            "protobuf" => ("/loki/api/v1/push", PROTOBUF, body::protobuf(&streams)),
            "otlp-json" => ("/otlp/v1/logs", JSON, otlp(&times_ns).into_bytes()),
            _ => ("/otlp/v1/logs", PROTOBUF, message),
        };
        let headers = [media_type, tenant, ("User-Agent", "agent\u{9b}/1")];
        let reply = client.request("POST", path, &headers, Some(&sent));
        let status = if protocol.starts_with("otlp") && with_good { 200 } else { 400 };
        assert_eq!(reply.status, status, "{name}: {}", reply.text());

        let labels = format!("{{reason=\"greater_than_max_sample_age\",tenant=\"{name}\"}}");
        let discarded = server.metric(&format!("loki_discarded_samples_total{labels}"));
        let bytes = server.metric(&format!("loki_discarded_bytes_total{labels}"));
        assert_eq!((discarded, bytes), (100.0, 600.0), "{name}");
        let list = listed(&mut client, tenant);
        assert_eq!(list.len(), 1, "{name}: {list:?}");
        let record = &list[0];
        assert_eq!(record["reason"], "greater_than_max_sample_age");
        assert_eq!((&record["entries"], &record["bytes"]), (&100.into(), &600.into()));
        assert_eq!(record["pushes"], 1);
        assert_eq!(record["stream"], "{service_name=\"old\"}");
        assert_eq!(record["entry_time"], text_of(old_ns));
        assert_eq!(record["user_agent"], "agent\\u{9b}/1");
        assert!(record["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
        let limit = record["limit_time"].as_str().expect("a limit");
        assert!(*limit > *text_of(old_ns), "{record}");
        assert!(
            record["route"]
                .as_str()
                .is_some_and(|route| path.replace('/', "_") == format!("_{route}"))
        );
        let log = server.log_text();
        let told: Vec<Value> = lines(&log, "refused entries")
            .into_iter()
            .filter(|line| line["tenant"] == *name)
            .collect();
        assert_eq!(told.len(), 1, "{name}");
        for field in ["reason", "stream", "route", "entries", "bytes", "entry_time", "limit_time"] {
            assert_eq!(told[0][field], record[field], "{name}");
        }
        assert_eq!(told[0]["level"], "WARN");
    }
    assert!(listed(&mut client, ("X-Scope-OrgID", "nobody")).is_empty());
    client.get("/loki/api/v1/refusals").expect(401);
    let log = server.stop();
    assert!(!log.contains("SECRET") && !log.contains('\u{9b}'), "{log}");
}

#[test]
fn a_flood_is_told_with_numbers() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2", "--limits.max-line-size=3"]);
    let mut client = server.client();
    for number in 0..150 {
        let line = entry(now_ns(), "SECRET");
        let labels = [("app", if number < 110 { format!("a{number}") } else { "x".into() })];
        let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(
            client.push_json(body::json(&[stream(&labels, vec![line])]).as_bytes()).status,
            400
        );
        // A connection of its own, which may be another core's.
        client = server.client();
    }
    let list = listed(&mut client, ("X-Scope-OrgID", "fake"));
    assert_eq!(list.len(), 100);
    assert_eq!((&list[0]["pushes"], &list[0]["entries"]), (&40.into(), &40.into()));
    assert!(list[0]["first"].as_str() < list[0]["last"].as_str());
    assert_eq!(list[99]["stream"], "{app=\"a11\", service_name=\"a11\"}");
    let discarded = "loki_discarded_samples_total{reason=\"line_too_long\",tenant=\"fake\"}";
    assert_eq!(server.metric(discarded), 150.0);
    let log = server.stop();
    assert_eq!(lines(&log, "refused entries").len(), 1, "{log}");
    let rest = lines(&log, "refused more entries");
    assert_eq!(rest.len(), 1, "{log}");
    assert_eq!((&rest[0]["left_out"], &rest[0]["entries"]), (&149.into(), &149.into()));
    assert!(!log.contains("SECRET"));
}

/// Tenant, headers and body of a push; status, reason, and the text if it is to be looked at.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], &'c [u8], u16, &'c str, String);

#[test]
fn pushes_that_are_refused_as_a_whole_are_told() {
    let folder = DataDir::new();
    let flags = ["--auth.enabled", "--cores=1", "--distributor.max-recv-msg-size=10KB"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let good = body::json(&[stream(&[("app", "x")], vec![entry(now_ns(), "SECRET")])]);
    let large = vec![b'{'; 20_000];
    let hint = "the body looks like JSON, which needs the header Content-Type: application/json\n";
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let gzip = ("Content-Encoding", "gzip");
    let zipped = body::gzip(good.as_bytes());
    let cases: [Case<'_>; 8] = [
        (
            "form",
            &[form],
            good.as_bytes(),
            400,
            "malformed",
            format!("snappy: corrupt input: {hint}"),
        ),
        (
            "zipped",
            &[form, gzip],
            &zipped,
            400,
            "malformed",
            format!("snappy: corrupt input: {hint}"),
        ),
        ("untyped", &[], good.as_bytes(), 400, "malformed", format!("mime: no media type: {hint}")),
        ("bytes", &[], b"\x01\x02", 400, "malformed", "mime: no media type\n".into()),
        ("cut", &[JSON], &good.as_bytes()[..40], 400, "malformed", String::new()),
        ("empty", &[JSON], b"{\"streams\":[]}", 422, "empty", String::new()),
        ("large", &[JSON], &large, 413, "too_large", String::new()),
        (
            "page",
            &[JSON, ("Sec-Fetch-Site", "cross-site")],
            good.as_bytes(),
            403,
            "forbidden",
            String::new(),
        ),
    ];
    for (tenant, headers, sent, status, reason, text) in &cases {
        let headers = [*headers, &[("X-Scope-OrgID", *tenant)]].concat();
        let reply = server.client().request("POST", "/loki/api/v1/push", &headers, Some(sent));
        let answered = reply.expect(*status);
        assert!(text.is_empty() || answered == *text, "{tenant}: {answered}");
        let list = listed(&mut client, ("X-Scope-OrgID", tenant));
        assert_eq!(list.len(), 1, "{tenant}: {list:?}");
        assert_eq!(list[0]["reason"], *reason, "{tenant}");
        assert_eq!((&list[0]["status"], &list[0]["pushes"]), (&(*status).into(), &1.into()));
        assert_eq!(answered.trim_end(), list[0]["error"], "{tenant}");
        let labels = format!("{{reason=\"{reason}\",tenant=\"{tenant}\"}}");
        assert_eq!(server.metric(&format!("logsvc_refused_pushes_total{labels}")), 1.0);
    }
    client.push_json(good.as_bytes()).expect(401);
    let unknown = "logsvc_refused_pushes_total{reason=\"unauthorized\",tenant=\"(none)\"}";
    assert_eq!(server.metric(unknown), 1.0);
    let log = server.stop();
    let told = lines(&log, "refused a push");
    assert_eq!(told.len(), cases.len() + 1, "{log}");
    assert!(told.iter().all(|line| line["level"] == "WARN"), "{log}");
    assert!(!log.contains("SECRET"), "{log}");
}

#[test]
fn queries_that_fail_or_are_slow_are_told() {
    let folder = DataDir::new();
    let flags =
        ["--cores=1", "--frontend.log-queries-longer-than=-1s", "--limits.max-query-length=1h"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    query::instant(&mut client, "vector(1)", now_ns());
    let long = format!("{{app=\"x\"}} |= \"{}\" |", "é".repeat(2000));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    for _ in 0..9 {
        let sent = query::form(&[("query", &long)]);
        client
            .request("POST", "/loki/api/v1/query_range", &form, Some(sent.as_bytes()))
            .expect(400);
    }
    client.get("/api/prom/query?query=rate(%7Ba%3D%22b%22%7D%5B1m%5D)").expect(400);
    let log = server.stop();
    let slow = lines(&log, "a query was slow");
    assert_eq!(slow.len(), 1, "{log}");
    assert_eq!((&slow[0]["query"], &slow[0]["level"]), (&"vector(1)".into(), &"INFO".into()));
    assert_eq!((&slow[0]["status"], &slow[0]["tenant"]), (&200.into(), &"fake".into()));
    assert!(slow[0]["took_ms"].as_f64().is_some_and(|took| took > 0.0), "{log}");
    let failed = lines(&log, "a query failed");
    assert_eq!(failed.len(), 5, "{log}");
    assert_eq!(failed[0]["level"], "INFO");
    let end = format!("... ({} bytes)", long.len());
    let text = failed[0]["query"].as_str().expect("the text");
    assert!(text.starts_with("{app=\"x\"}") && text.ends_with(&end), "{text}");
    assert!(text.len() < 1100, "{}", text.len());
    let rest = lines(&log, "more queries failed");
    assert_eq!(rest[0]["left_out"], 5, "{log}");
}

#[test]
fn requests_are_shown_when_that_is_wanted() {
    let folder = DataDir::new();
    let evil = "/loki/api/v1/labels?start=%0A\u{202e}&x=1";
    let start = |flags: &[&str]| Server::start(folder.path(), &[&["--cores=1"], flags].concat());
    let quiet = start(&[]);
    quiet.client().get(evil);
    assert!(lines(&quiet.stop(), "request").is_empty());
    for (flags, level) in [
        (["--log.level=debug"], "DEBUG"),
        (["--server.log-request-at-info-level-enabled=true"], "INFO"),
    ] {
        let server = start(&flags);
        let mut client = server.client();
        client.push(&[stream(&[("app", "x")], vec![entry(now_ns(), "SECRET")])]);
        client.get(evil);
        client.get("/nothing").expect(404);
        let log = server.stop();
        let shown = lines(&log, "request");
        let of = |target: &str| {
            let found = shown
                .iter()
                .find(|line| line["uri"].as_str().is_some_and(|text| text.starts_with(target)));
            found.unwrap_or_else(|| panic!("{target}\n{log}"))
        };
        assert_eq!(of("/loki/api/v1/push")["status"], 204);
        assert_eq!(of("/loki/api/v1/push")["level"], level);
        assert_eq!(of("/nothing")["status"], 404);
        assert!(of("/loki/api/v1/labels")["peer"].is_string());
        assert!(!log.contains("SECRET") && !log.contains('\u{202e}'), "{log}");
    }
    let server = start(&["--frontend.query-stats-enabled=true"]);
    let mut client = server.client();
    for _ in 0..40 {
        query::instant(&mut client, "vector(2)", now_ns());
    }
    let log = server.stop();
    assert_eq!(lines(&log, "query").len(), 40, "{log}");
}

#[test]
fn clients_that_are_turned_away_are_told() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores=1", "--server.http-conn-limit=2"]);
    let send = |bytes: &[u8]| {
        let mut connection = connect(server.address()).expect("a connection");
        connection.write_all(bytes).expect("the server reads");
        let mut answer = String::new();
        // It may be reset once the answer is there.
        _ = connection.read_to_string(&mut answer);
        answer
    };
    for _ in 0..3 {
        assert!(send(b"GET / HTTP/1.1\r\nbad\x1b header\r\n\r\n").starts_with("HTTP/1.1 400"));
    }
    assert!(send(b"GET / HTTP/9.9\r\n\r\n").starts_with("HTTP/1.1 "));
    let held: Vec<_> = (0..2).map(|_| connect(server.address()).expect("a connection")).collect();
    let refused = (0..50).any(|_| send(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n").contains("503"));
    assert!(refused, "no connection was one too many");
    drop(held);
    let log = server.stop();
    let told = lines(&log, "turned a client away");
    let reasons: Vec<_> = told.iter().filter_map(|line| line["reason"].as_str()).collect();
    assert!(reasons.contains(&"malformed") && reasons.contains(&"too_many_connections"), "{log}");
    assert!(told.iter().all(|line| line["level"] == "WARN" && line["peer"].is_string()), "{log}");
    assert!(!lines(&log, "turned more clients away").is_empty(), "{log}");
}

//! OpenTelemetry logs over HTTP.

use logsvc_proto::otlp::transcode_json;

use crate::support::{Client, DataDir, Reply, Server, body, now_ns, query};

fn request(service: &str, time_ns: i64) -> String {
    serde_json::json!({"resourceLogs": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": service}},
            {"key": "k8s.pod.name", "value": {"stringValue": "pod-1"}},
            {"key": "host.name", "value": {"stringValue": "h"}}]},
        "scopeLogs": [{
            "scope": {"name": "lib", "attributes": [{"key": "sa", "value": {"intValue": "1"}}]},
            "logRecords": [
                {"timeUnixNano": time_ns.to_string(), "severityNumber": 17, "severityText": "ERROR",
                 "body": {"stringValue": "it failed"},
                 "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}],
                 "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"},
                {"timeUnixNano": (time_ns + 1).to_string(), "severityText": "Warn",
                 "body": {"stringValue": "it may fail"}}]}]}]})
    .to_string()
}

fn protobuf(json: &str) -> Vec<u8> {
    let mut message = Vec::new();
    transcode_json(json.as_bytes(), &mut message).expect("valid JSON");
    message
}

fn send(client: &mut Client, content_type: &str, encoding: &str, body: &[u8]) -> Reply {
    let mut headers = vec![("Content-Type", content_type)];
    if !encoding.is_empty() {
        headers.push(("Content-Encoding", encoding));
    }
    client.request("POST", "/otlp/v1/logs", &headers, Some(body))
}

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// Compresses a body.
type Wrap = fn(&[u8]) -> Vec<u8>;

#[test]
fn every_encoding_stores_the_same() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let time_ns = now_ns();
    let wrappings: [(&str, Wrap); 4] = [
        ("", |bytes| bytes.to_vec()),
        ("gzip", body::gzip),
        ("zstd", body::zstd),
        ("lz4", body::lz4),
    ];
    for (encoding, wrap) in wrappings {
        for content_type in [PROTOBUF, JSON] {
            let service = format!("{encoding}-{}", &content_type[12..]);
            let json = request(&service, time_ns);
            let body = if content_type == JSON { json.into_bytes() } else { protobuf(&json) };
            let reply = send(&mut client, content_type, encoding, &wrap(&body));
            assert_eq!((reply.status, reply.text()), (204, String::new()), "{service}");
            let selector = format!("{{service_name=\"{service}\"}}");
            let data = query::range(&mut client, &selector, &[("direction", "forward")]);
            let stream = &data["result"][0];
            assert_eq!(
                stream["stream"],
                serde_json::json!({"service_name": service, "k8s_pod_name": "pod-1"})
            );
            let shared = [("host_name", "h"), ("sa", "1"), ("scope_name", "lib")];
            let own: [&[(&str, &str)]; 2] = [
                &[
                    ("detected_level", "error"),
                    ("http_method", "GET"),
                    ("severity_number", "17"),
                    ("severity_text", "ERROR"),
                    ("span_id", "b7ad6b7169203331"),
                    ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
                ],
                &[("detected_level", "warn"), ("severity_text", "Warn")],
            ];
            for (index, (line, own)) in ["it failed", "it may fail"].iter().zip(own).enumerate() {
                let entry = &stream["values"][index];
                assert_eq!(entry[0], (time_ns + index as i64).to_string(), "{service}");
                assert_eq!(entry[1], *line, "{service}");
                let metadata = entry[2]["structuredMetadata"].as_object().expect("metadata");
                let mut expected: Vec<_> = own.iter().chain(&shared).copied().collect();
                expected.sort_unstable();
                let found: Vec<_> =
                    metadata.iter().map(|(n, v)| (n.as_str(), v.as_str().unwrap_or(""))).collect();
                assert_eq!(found, expected, "{service}");
            }
        }
    }
}

/// The message of a `google.rpc.Status` that has nothing else.
fn status_message(body: &[u8]) -> String {
    assert_eq!(body.first(), Some(&0x12), "{body:?}");
    let mut position = 1;
    let len = logsvc_proto::varint::read(body, &mut position).expect("a length");
    assert_eq!(body.len(), position + len as usize);
    String::from_utf8_lossy(&body[position..]).into_owned()
}

/// Content type, encoding, tenant header and body; status and message of the answer.
type Refused<'r> = (&'r str, &'r str, (&'r str, &'r str), &'r [u8], u16, &'r str);

#[test]
fn errors_are_what_the_sdks_decode() {
    let folder = DataDir::new();
    let server = Server::start(
        folder.path(),
        &[
            "--auth.enabled=true",
            "--limits.max-line-size=10",
            "--distributor.max-recv-msg-size=1000",
        ],
    );
    let mut client = server.client();
    let time_ns = now_ns();
    let good =
        request("s", time_ns).replace("it failed", "short").replace("it may fail", "short 2");
    let long_lines = request("s", time_ns).replace("it failed", "it may fail");
    // It concerns all records of the resource.
    let bad_name = good.replace("host.name", "..");
    let tenant = ("X-Scope-OrgID", "t1");
    let long = "x".repeat(1001);
    let rows: [Refused<'_>; 11] = [
        (
            PROTOBUF,
            "",
            tenant,
            b"",
            422,
            "error at least one valid stream is required for ingestion",
        ),
        (JSON, "", tenant, b"{}", 422, "error at least one valid stream is required for ingestion"),
        (JSON, "", tenant, b"{", 400, "invalid JSON push at byte 2: expected a name in an object"),
        (PROTOBUF, "", tenant, b"\x0a\xff", 400, "unexpected EOF"),
        (PROTOBUF, "gzip", tenant, b"this is no gzip stream", 400, "gzip: invalid header"),
        ("text/plain", "", tenant, b"x", 400, "content type: text/plain is not supported"),
        (
            JSON,
            "snappy",
            tenant,
            b"x",
            400,
            "unsupported content encoding snappy: only gzip, lz4 and zstd are supported",
        ),
        (JSON, "", ("X-Scope-OrgID", "a|b"), good.as_bytes(), 400, "multiple org IDs present"),
        (
            JSON,
            "",
            tenant,
            bad_name.as_bytes(),
            400,
            "2 errors like: symbolizer lookup: normalization for label name \"..\" resulted in \
             invalid name \"_\"",
        ),
        (JSON, "", tenant, long.as_bytes(), 413, "message size too large than max (1001 vs 1000)"),
        (
            JSON,
            "",
            tenant,
            long_lines.as_bytes(),
            400,
            "2 errors like: max entry size '10' bytes exceeded for stream '{k8s_pod_name=\"pod-1\", \
             service_name=\"s\"}' while adding an entry with length '11' bytes",
        ),
    ];
    for (content_type, encoding, tenant, body, status, message) in rows {
        let mut headers = vec![tenant, ("Content-Type", content_type)];
        if !encoding.is_empty() {
            headers.push(("Content-Encoding", encoding));
        }
        let reply = client.request("POST", "/otlp/v1/logs", &headers, Some(body));
        assert_eq!(reply.status, status, "{message}: {}", reply.text());
        assert_eq!(status_message(&reply.body), message);
        assert_eq!(reply.header("content-type"), Some("application/octet-stream"), "{message}");
    }
    // The tenant check knows nothing of OpenTelemetry.
    let reply = send(&mut client, JSON, "", good.as_bytes());
    assert_eq!((reply.status, reply.text()), (401, "no org id\n".to_owned()));
    for target in ["/otlp/v1/traces", "/v1/logs"] {
        assert_eq!(client.request("POST", target, &[tenant], Some(b"")).status, 404, "{target}");
    }
    assert_eq!(client.get("/otlp/v1/logs").status, 405);
}

#[test]
fn attributes_follow_the_rules() {
    let folder = DataDir::new();
    let rules = r#"{
        "resource_attributes": {"ignore_defaults": true, "attributes_config": [
            {"action": "index_label", "attributes": ["service.name"]},
            {"action": "drop", "regex": "host.*"}]},
        "scope_attributes": [{"action": "drop", "attributes": ["sa"]}],
        "log_attributes": [{"action": "index_label", "regex": "http\\..*"}],
        "severity_text_as_label": true}"#;
    let flag = format!("--limits.otlp-config={}", rules.replace('\n', " "));
    let server = Server::start(folder.path(), &[&flag]);
    let mut client = server.client();
    let reply = send(&mut client, JSON, "", request("s", now_ns()).as_bytes());
    assert_eq!((reply.status, reply.text()), (204, String::new()));
    let data = query::range(&mut client, "{service_name=\"s\"}", &[]);
    let mut streams: Vec<String> = data["result"]
        .as_array()
        .expect("streams")
        .iter()
        .map(|s| format!("{} {}", s["stream"], s["values"][0][2]["structuredMetadata"]))
        .collect();
    streams.sort_unstable();
    // The severity is a label and metadata; queries name the second one apart.
    assert_eq!(
        streams,
        [
            "{\"http_method\":\"GET\",\"service_name\":\"s\",\"severity_text\":\"ERROR\"} \
             {\"detected_level\":\"error\",\"k8s_pod_name\":\"pod-1\",\"scope_name\":\"lib\",\
             \"severity_number\":\"17\",\"severity_text_extracted\":\"ERROR\",\"span_id\":\"b7ad6b7169203331\",\
             \"trace_id\":\"0af7651916cd43dd8448eb211c80319c\"}",
            "{\"service_name\":\"s\",\"severity_text\":\"Warn\"} {\"detected_level\":\"warn\",\
             \"k8s_pod_name\":\"pod-1\",\"scope_name\":\"lib\",\"severity_text_extracted\":\"Warn\"}",
        ]
    );
}

/// Records of one resource: attributes, body and time of each.
fn resource(service: &str, attributes: &str, records: &[(&str, &str, i64)]) -> String {
    let records: Vec<String> = records
        .iter()
        .map(|(attributes, body, time_ns)| {
            format!(
                r#"{{"timeUnixNano":"{time_ns}","body":{{"stringValue":"{body}"}},
                    "attributes":[{attributes}]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}
            {attributes}]}},"scopeLogs":[{{"logRecords":[{}]}}]}}"#,
        records.join(",")
    )
}

/// The content of a partial success: the number of rejected records, and the reason.
fn partial_success(reply: &Reply, content_type: &str) -> (u64, String) {
    assert_eq!((reply.status, reply.header("content-type")), (200, Some(content_type)));
    if content_type == JSON {
        let json: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
        let partial = &json["partialSuccess"];
        let rejected = partial["rejectedLogRecords"].as_str().expect("64 bits are a text");
        let message = partial["errorMessage"].as_str().expect("a message").to_owned();
        return (rejected.parse().expect("a number"), message);
    }
    let mut position = 0;
    let read =
        |position: &mut usize| logsvc_proto::varint::read(&reply.body, position).expect("a varint");
    assert_eq!(read(&mut position), 0x0a);
    let len = read(&mut position) as usize;
    assert_eq!(reply.body.len(), position + len);
    assert_eq!(read(&mut position), 0x08);
    let rejected = read(&mut position);
    assert_eq!(read(&mut position), 0x12);
    let len = read(&mut position) as usize;
    assert_eq!(reply.body.len(), position + len);
    (rejected, String::from_utf8_lossy(&reply.body[position..]).into_owned())
}

#[test]
fn bad_records_leave_the_others_alone() {
    let folder = DataDir::new();
    let flags = ["--cores=2", "--limits.max-line-size=20", "--limits.max-label-value-length=30"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let now = now_ns();
    let bad = |name: &str| format!(r#"{{"key":"{name}","value":{{"stringValue":"x"}}}}"#);
    let bad_resource = format!(",{}", bad("..."));
    let long = "x".repeat(21);
    let hour_ns = 3_600 * 1_000_000_000;
    let nested = format!(
        r#"{{"key":"n","value":{}{{"intValue":1}}{}}}"#,
        r#"{"arrayValue":{"values":["#.repeat(70),
        "]}}".repeat(70)
    );
    type Case<'c> = (&'c str, String, u64, &'c str);
    let cases: [Case<'_>; 9] = [
        ("unicode", resource("a", "", &[(&bad("日本"), "bad", now)]), 1, "\"日本\""),
        ("underscore", resource("a", "", &[(&bad("_"), "bad", now)]), 1, "invalid name \"_\""),
        ("empty", resource("a", "", &[(&bad(""), "bad", now)]), 1, "label name is empty"),
        ("nested", resource("a", "", &[(&nested, "bad", now)]), 1, "nested more than 64"),
        ("long", resource("a", "", &[("", &long, now)]), 1, "max entry size '20' bytes"),
        ("late", resource("a", "", &[("", "bad", now - 400 * 24 * hour_ns)]), 1, "too old"),
        ("early", resource("a", "", &[("", "bad", now + hour_ns)]), 1, "too new"),
        (
            "resource",
            resource("a", &bad_resource, &[("", "bad", now), ("", "bad", now + 1)]),
            2,
            "2 errors like: symbolizer lookup: ",
        ),
        ("label", resource(&"l".repeat(31), "", &[("", "bad", now)]), 1, "label value too long"),
    ];
    for content_type in [JSON, PROTOBUF] {
        for (name, bad, rejected, text) in &cases {
            let service = format!("{name}-{}", &content_type[12..]);
            let good = resource(&service, "", &[("", "good", now), ("", "good", now + 1)]);
            let json = format!(r#"{{"resourceLogs":[{bad},{good}]}}"#);
            let body = if content_type == JSON { json.into_bytes() } else { protobuf(&json) };
            let reply = send(&mut client, content_type, "", &body);
            let (found, message) = partial_success(&reply, content_type);
            assert_eq!(found, *rejected, "{service}: {message}");
            assert!(message.contains(text), "{service}: {message}");
            let selector = format!("{{service_name=\"{service}\"}}");
            assert_eq!(query::texts(&query::range(&mut client, &selector, &[])).len(), 2);
            // A request without any good record is an error.
            let json = format!(r#"{{"resourceLogs":[{bad}]}}"#);
            let reply = send(&mut client, JSON, "", json.as_bytes());
            assert_eq!(reply.status, 400, "{service}: {}", reply.text());
            assert!(status_message(&reply.body).contains(text), "{service}");
        }
        // Good and bad records of one resource.
        let underscore = bad("_");
        let records = [("", "first", now), (&*underscore, "second", now), ("", "third", now + 2)];
        let json =
            format!(r#"{{"resourceLogs":[{}]}}"#, resource(&content_type[12..], "", &records));
        let body = if content_type == JSON { json.into_bytes() } else { protobuf(&json) };
        let reply = send(&mut client, content_type, "", &body);
        assert_eq!(partial_success(&reply, content_type).0, 1);
        let selector = format!("{{service_name=\"{}\"}}", &content_type[12..]);
        let lines =
            query::texts(&query::range(&mut client, &selector, &[("direction", "forward")]));
        assert_eq!(lines, ["first", "third"]);
    }
    assert!(query::texts(&query::range(&mut client, "{service_name=\"a\"}", &[])).is_empty());
}

#[test]
fn what_may_be_stored_later_is_an_error_all_the_same() {
    let folder = DataDir::new();
    let flags = ["--limits.per-stream-rate-limit=1KB", "--limits.per-stream-rate-limit-burst=1KB"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let now = now_ns();
    let bad = r#"{"key":"_","value":{"stringValue":"x"}}"#;
    let hot = resource("hot", "", &[("", &"x".repeat(2000), now)]);
    let mixed = resource("mixed", "", &[("", "good", now), (bad, "bad", now)]);
    let json = format!(r#"{{"resourceLogs":[{hot},{mixed}]}}"#);
    let reply = send(&mut client, JSON, "", json.as_bytes());
    assert_eq!(reply.status, 429);
    assert!(status_message(&reply.body).contains("Per stream rate limit exceeded"));
    assert_eq!(query::texts(&query::range(&mut client, "{service_name=\"mixed\"}", &[])), ["good"]);
}

#[test]
fn numbers_that_do_not_fit_store_nothing() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    let time_ns = now_ns();
    for value in [
        r#""body":{"intValue":"12345678901234567890"}"#,
        r#""body":{"doubleValue":1e400}"#,
        r#""flags":4294967297"#,
        r#""severityNumber":4294967297"#,
        r#""droppedAttributesCount":-1"#,
        r#""observedTimeUnixNano":"18446744073709551616""#,
    ] {
        let json = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"timeUnixNano":"{time_ns}",{value}}}]}}]}}]}}"#
        );
        let reply = send(&mut client, JSON, "", json.as_bytes());
        assert_eq!(reply.status, 400, "{value}");
        assert!(status_message(&reply.body).contains("expected a "), "{value}");
    }
    assert!(query::texts(&query::range(&mut client, "{service_name=~\".+\"}", &[])).is_empty());
}

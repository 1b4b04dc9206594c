//! Paths, methods, headers and encodings.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use crate::support::{DataDir, Server, entry, now_ns, query, stream};

const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

#[test]
fn routes_answer_their_methods_only() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    for (method, path, status) in [
        ("GET", "/ready", 200),
        ("HEAD", "/ready", 200),
        ("HEAD", "/health", 200),
        ("GET", "/-/healthy", 200),
        ("GET", "/-/ready", 200),
        ("OPTIONS", "/ready", 204),
        ("HEAD", "/flush", 405),
        ("OPTIONS", "/nothing", 404),
        ("POST", "/ready", 405),
        ("GET", "/metrics", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/loki/api/v1/push", 405),
        ("HEAD", "/loki/api/v1/labels", 200),
        ("OPTIONS", "/loki/api/v1/labels", 204),
        ("OPTIONS", "/loki/api/v1/label/a/values", 204),
        ("DELETE", "/logsvc/api/v1/query_range", 405),
        ("GET", "/loki/api/v1/labels", 200),
        ("GET", "/loki/api/v1/labels/", 404),
        ("GET", "/Loki/api/v1/labels", 404),
        ("GET", "/loki/api/v1/label/a%2Fb/values", 404),
        ("GET", "/api/prom/labels", 404),
        ("GET", "/", 200),
        ("POST", "/", 405),
        ("PUT", "/nothing", 404),
    ] {
        let reply = client.request(method, path, &[], None);
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text());
        assert!(reply.header("date").is_some(), "{method} {path}");
        match status {
            404 => {
                assert_eq!(reply.text(), "404 page not found\n");
                assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
                assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
            }
            405 => {
                assert_eq!(reply.header("content-length"), Some("0"), "{method} {path}");
                assert_eq!(reply.header("content-type"), None);
                assert_eq!(reply.text(), "");
                let allowed = reply.header("allow").expect("405 names the methods");
                assert!(
                    !allowed.split(", ").any(|known| known == method),
                    "{method} {path}: {allowed}"
                );
                assert!(allowed.ends_with("OPTIONS"), "{allowed}");
            }
            204 => {
                let allowed = reply.header("allow").expect("OPTIONS names the methods");
                assert!(allowed.starts_with("GET, ") && allowed.contains("HEAD"), "{allowed}");
            }
            _ if method == "HEAD" => assert_eq!(reply.text(), "", "{path}"),
            _ => {}
        }
    }
    for (path, location) in [
        ("//loki/api/v1/labels?start=1", "/loki/api/v1/labels?start=1"),
        ("/loki/api/v1/label//values", "/loki/api/v1/label/values"),
    ] {
        let reply = client.get(path);
        assert_eq!(reply.expect(301), "");
        assert_eq!(reply.header("location"), Some(location));
    }
    assert_eq!(client.get("/loki/api/v1/labels?a=%zz").expect(400), "invalid URL escape \"%zz\"");
    let separator = client.get("/loki/api/v1/labels?a=1;b=2").expect(400);
    assert_eq!(separator, "invalid semicolon separator in query");
}

#[test]
fn form_bodies_carry_parameters() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let now_ns = now_ns();
    client.push(&[stream(&[("app", "form")], vec![entry(now_ns, "by form")])]);
    let form_type = [("Content-Type", "application/x-www-form-urlencoded")];
    let end = (now_ns + 1).to_string();
    let form = query::form(&[("query", r#"{app="form"} |= "by form""#), ("end", &end)]);
    // The body wins over the URL.
    let path = "/loki/api/v1/query_range?query=nonsense";
    let mut answer = client.request("POST", path, &form_type, Some(form.as_bytes())).json();
    assert_eq!(query::texts(&answer["data"].take()), ["by form"]);
    let form = query::form(&[("match[]", r#"{app="form"}"#)]);
    let reply = client.request("POST", "/loki/api/v1/series", &form_type, Some(form.as_bytes()));
    assert_eq!(reply.json()["data"][0]["app"], "form");
    let reply = client.request("POST", "/loki/api/v1/label/app/values", &form_type, Some(b""));
    assert_eq!(reply.json()["data"], json!(["form"]));
    let form = query::form(&[("query", r#"sum( rate({app="form"}[5m]) )"#)]);
    let reply =
        client.request("POST", "/loki/api/v1/format_query", &form_type, Some(form.as_bytes()));
    assert_eq!(reply.json()["data"], r#"sum(rate({app="form"}[5m]))"#);
    // A body that was not posted is no form.
    let form = query::form(&[("query", r#"{app="form"}"#)]);
    let reply =
        client.request("GET", "/loki/api/v1/query_range", &form_type, Some(form.as_bytes()));
    assert_eq!(reply.expect(400), "parse error : syntax error: unexpected $end");
}

#[test]
fn answers_are_compressed_when_that_pays() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    let now_ns = now_ns();
    let entries = (0..2000).map(|number| entry(now_ns - number, format!("line {number}")));
    client.push(&[stream(&[("app", "gzip")], entries.collect())]);
    let end = (now_ns + 1).to_string();
    let params = [("query", r#"{app="gzip"}"#), ("limit", "2000"), ("end", &end)];
    let target = query::target("/loki/api/v1/query_range", &params);
    let plain = client.get(&target);
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.header("content-type"), Some("application/json; charset=UTF-8"));
    assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
    let accepts = [("Accept-Encoding", "deflate, gzip")];
    let compressed = client.request("GET", &target, &accepts, None);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert!(compressed.body.len() < plain.body.len() / 2);
    let mut body = Vec::new();
    GzDecoder::new(&*compressed.body).read_to_end(&mut body).expect("gzip");
    let result = |body: &[u8]| {
        let mut answer: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        query::lines(&answer["data"].take())
    };
    assert_eq!(result(&body), result(&plain.body));
    assert_eq!(result(&body).len(), 2000);
    // Short answers go out as they are.
    let short = client.request("GET", "/loki/api/v1/labels", &accepts, None);
    assert_eq!((short.status, short.header("content-encoding")), (200, None));
    let metrics = client.request("GET", "/metrics", &accepts, None);
    assert_eq!(metrics.header("content-encoding"), Some("gzip"));
}

#[test]
fn the_server_tells_about_itself() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2", "--runtime.driver", "epoll"]);
    let mut client = server.client();
    assert_eq!(client.get("/ready").expect(200), "ready\n");
    for prefix in ["/loki", "/logsvc"] {
        let info = client.get(&format!("{prefix}/api/v1/status/buildinfo")).json();
        let fields: Vec<&String> = info.as_object().expect("an object").keys().collect();
        let expected = ["branch", "buildDate", "buildUser", "goVersion", "revision", "version"];
        assert_eq!(fields, expected);
        let major = info["version"].as_str().and_then(|text| text.split('.').next());
        assert_eq!(major, Some("3"), "Grafana chooses features by it: {info}");
    }
    let now_ns = now_ns();
    let entries = vec![entry(now_ns - 1, "abc"), entry(now_ns, "defg")];
    client.push(&[stream(&[("app", "metrics")], entries)]);
    client.push_json(b"nonsense").expect(400);
    let reply = client.get("/metrics");
    assert_eq!(reply.header("content-type"), Some(TEXT_FORMAT));
    let text = reply.text();
    let accept = [("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")];
    let open = client.request("GET", "/metrics", &accept, None);
    let content_type = open.header("content-type").expect("a content type");
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(open.text().ends_with("\n# EOF\n"), "{}", open.text());
    for line in [
        r#"loki_build_info{version="0.1.0",revision="development",branch="main",driver="monoio/epoll"} 1"#,
        r#"loki_distributor_lines_received_total{tenant="fake"} 2"#,
        r#"loki_distributor_bytes_received_total{tenant="fake"} 7"#,
        r#"loki_ingester_memory_streams{tenant="fake"} 1"#,
        r#"loki_request_duration_seconds_count{method="POST",route="loki_api_v1_push",status_code="204",ws="false"} 1"#,
        r#"loki_request_duration_seconds_count{method="POST",route="loki_api_v1_push",status_code="400",ws="false"} 1"#,
        r#"loki_request_duration_seconds_count{method="GET",route="ready",status_code="200",ws="false"} 1"#,
        r#"loki_inflight_requests{method="GET",route="metrics"} 1"#,
        "loki_tcp_connections 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
    }
    assert_eq!(server.metric("logsvc_head_entries"), 2.0);
    assert!(server.metric("logsvc_wal_syncs_total") >= 1.0);
    assert!(server.metric("logsvc_memory_max_bytes{budget=\"bodies\"}") > 0.0);
}

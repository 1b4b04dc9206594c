//! Elasticsearch's bulk protocol, as shippers speak it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Client, DataDir, Reply, SECOND_NS, Server, now_ns, query};

const DAY_NS: i64 = 24 * 3600 * SECOND_NS;

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");

fn bulk(client: &mut Client, target: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers = [&[NDJSON], headers].concat();
    let reply = client.request("POST", target, &headers, Some(body.as_bytes()));
    assert_eq!(reply.header("x-elastic-product"), Some("Elasticsearch"), "{}", reply.text());
    reply
}

/// The body of an answer with any status.
fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(&reply.text()).expect("JSON")
}

fn time_text(time_ns: i64) -> String {
    let mut text = Vec::new();
    logsvc_proto::time::write_rfc3339_nano(Some(time_ns), &mut text);
    String::from_utf8(text).expect("ASCII")
}

fn document(time_ns: i64, message: &str) -> String {
    json!({"@timestamp": time_text(time_ns), "message": message}).to_string()
}

fn stored(client: &mut Client, selector: &str) -> Vec<String> {
    query::texts(&query::range(client, selector, &[("direction", "forward")]))
}

#[test]
fn each_document_has_a_fate_of_its_own_and_repeating_is_harmless() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let base_ns = now_ns() - 10 * SECOND_NS;
    let body = format!(
        "{{\"create\":{{}}}}\n{}\n{{\"index\":{{}}}}\n[1]\n{{\"create\":{{}}}}\n{}\n",
        document(base_ns, "one"),
        document(base_ns + SECOND_NS, "two"),
    );
    let mut answers = Vec::new();
    for path in ["/elasticsearch/logs/_bulk", "/insert/elasticsearch/logs/_bulk"] {
        let reply = bulk(&mut client, path, &[], &body);
        assert_eq!(reply.status, 200);
        let mut answer = reply.json();
        assert!(answer["took"].is_u64(), "{answer}");
        answer["took"] = 0.into();
        answers.push(answer);
    }
    assert_eq!(answers[0], answers[1], "sent again");
    let answer = &answers[0];
    assert_eq!(answer["errors"], true);
    let items = answer["items"].as_array().expect("items");
    let fates: Vec<_> = items
        .iter()
        .map(|item| {
            let (name, fate) =
                item.as_object().and_then(|item| item.iter().next()).expect("a name");
            (name.as_str(), fate["status"].as_u64())
        })
        .collect();
    let expected = [("create", Some(201)), ("index", Some(400)), ("create", Some(201))];
    assert_eq!(fates, expected, "{answer}");
    let error = &items[1]["index"]["error"];
    assert!(error["type"].is_string() && error["reason"].is_string(), "{answer}");
    assert_eq!(stored(&mut client, r#"{index="logs"}"#), ["one", "two"]);
    let labels = r#"{reason="unreadable",tenant="fake"}"#;
    assert_eq!(server.metric(&format!("loki_discarded_samples_total{labels}")), 2.0);
}

#[test]
fn a_body_that_cannot_be_read_stores_nothing() {
    let folder = DataDir::new();
    let flags = ["--cores", "1", "--distributor.max-recv-msg-size=2000B"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let good = format!("{{\"create\":{{\"_index\":\"x\"}}}}\n{}\n", document(now_ns(), "kept"));
    for (body, status, kind) in [
        (format!("{good}oops\n{{}}\n"), 400, "illegal_argument_exception"),
        (format!("{good}{{\"index\":{{}}}}"), 400, "illegal_argument_exception"),
        (String::new(), 400, "parse_exception"),
        ("\n".to_owned(), 400, "action_request_validation_exception"),
        (" ".repeat(3000), 413, "content_too_long_exception"),
    ] {
        let reply = bulk(&mut client, "/_bulk", &[], &body);
        let answer = json_of(&reply);
        assert_eq!(reply.status, status, "{answer}");
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["error"]["type"], kind, "{answer}");
        assert_eq!(answer["error"]["root_cause"][0]["type"], kind, "{answer}");
        client = server.client();
    }
    assert!(stored(&mut client, r#"{index="x"}"#).is_empty());
    bulk(&mut client, "/_bulk", &[], &good).expect(200);
    assert_eq!(stored(&mut client, r#"{index="x"}"#), ["kept"]);
}

#[test]
fn shippers_get_through_their_start() {
    let folder = DataDir::new();
    let flags = ["--cores", "1", "--intake.elasticsearch.version=8.11.3"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    for prefix in ["/elasticsearch", "/insert/elasticsearch"] {
        for (method, path) in [
            ("GET", "/"),
            ("HEAD", "/"),
            ("GET", ""),
            ("GET", "/_license"),
            ("GET", "/_xpack"),
            ("HEAD", "/_index_template/x"),
            ("PUT", "/_index_template/x"),
            ("GET", "/_template/x"),
            ("PUT", "/_template/x"),
            ("GET", "/_ilm/policy/x"),
            ("PUT", "/_ilm/policy/x"),
            ("GET", "/_nodes/http"),
            ("GET", "/_cluster/health"),
            ("HEAD", "/logs"),
            ("GET", "/logs"),
            ("PUT", "/logs"),
            ("GET", "/_cat/health?format=json"),
        ] {
            let target = format!("{prefix}{path}");
            let body = (method == "PUT").then_some(&b"{}"[..]);
            let reply = client.request(method, &target, &[], body);
            assert_eq!(reply.status, 200, "{method} {target}: {}", reply.text());
            let product = reply.header("x-elastic-product");
            assert_eq!(product, Some("Elasticsearch"), "{method} {target}");
            match (method, path) {
                ("HEAD", _) => {}
                ("PUT", _) => assert_eq!(reply.json()["acknowledged"], true),
                (_, "/") => assert_eq!(reply.json()["version"]["number"], "8.11.3"),
                (_, "/_license") => assert_eq!(reply.json()["license"]["status"], "active"),
                (_, "/_cat/health?format=json") => {
                    assert_eq!(reply.json()[0]["status"], "green");
                }
                _ => assert!(reply.json().is_object()),
            }
        }
    }
    // An index is named as it is asked for, and what is none is not there.
    let reply = client.get("/elasticsearch/a%22b").json();
    assert!(reply["a\"b"].is_object(), "{reply}");
    for path in ["/elasticsearch/_search", "/insert/elasticsearch/_all"] {
        let reply = client.get(path);
        assert_eq!(reply.status, 404, "{}", reply.text());
        assert_eq!(json_of(&reply)["error"]["type"], "resource_not_found_exception");
    }
    // Tables are text unless JSON is asked for.
    for (accept, table, answer) in [
        ("*/*", "health", "logsvc green 1 1\n"),
        ("text/plain,application/json", "indices", ""),
        ("application/json", "indices", "[]"),
        ("application/vnd.elasticsearch+json; compatible-with=8", "nodes", "[]"),
    ] {
        let target = format!("/elasticsearch/_cat/{table}");
        let reply = client.request("GET", &target, &[("Accept", accept)], None);
        assert_eq!((reply.status, reply.text().as_str()), (200, answer), "{accept}");
        let is_text = reply.header("content-type").is_some_and(|name| name.starts_with("text/"));
        assert_eq!(is_text, answer != "[]", "{accept}");
    }
    let version = "application/vnd.elasticsearch+json; compatible-with=8";
    let headers = [("Accept", version)];
    let reply = client.request("GET", "/elasticsearch/", &headers, None);
    let media_type = reply.header("content-type").map(|name| name.replace(' ', ""));
    assert_eq!(media_type.as_deref(), Some(&*version.replace(' ', "")));

    let body = format!("{{\"create\":{{}}}}\n{}\n", document(now_ns(), "logstash"));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(body.as_bytes()).expect("memory");
    let packed = gzip.finish().expect("memory");
    let target = "/elasticsearch/_bulk?filter_path=errors,items.*.error,items.*.status";
    let headers = [("Content-Type", version), ("Content-Encoding", "gzip")];
    let reply = client.request("POST", target, &headers, Some(&packed));
    assert_eq!(reply.status, 200);
    let expected = json!({"errors": false, "items": [{"create": {"status": 201}}]});
    assert_eq!(reply.json(), expected);
    assert_eq!(stored(&mut client, r#"{service_name="unknown_service"}"#), ["logstash"]);
}

#[test]
fn what_is_refused_by_limits_is_told_of_each_document() {
    let folder = DataDir::new();
    let flags = ["--auth.enabled", "--cores", "2"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let tenant = ("X-Scope-OrgID", "bulk");
    let old_ns = now_ns() - 30 * DAY_NS;
    let action = "{\"index\":{\"_index\":\"old\"}}\n";
    let mut body: String =
        (0..100).map(|n| format!("{action}{}\n", document(old_ns + n, "SECRET"))).collect();
    body.push_str(&format!("{action}{}\n", document(now_ns(), "SECRET, too")));
    let answer = bulk(&mut client, "/_bulk", &[tenant], &body).json();
    let items = answer["items"].as_array().expect("items");
    let statuses: Vec<_> = items.iter().map(|item| item["index"]["status"].as_u64()).collect();
    assert_eq!(statuses.len(), 101);
    assert!(statuses[..100].iter().all(|status| *status == Some(400)), "{answer}");
    assert_eq!(statuses[100], Some(201));
    let labels = r#"{reason="greater_than_max_sample_age",tenant="bulk"}"#;
    assert_eq!(server.metric(&format!("loki_discarded_samples_total{labels}")), 100.0);
    let list: Value = client.request("GET", "/loki/api/v1/refusals", &[tenant], None).json();
    let record = &list["data"][0];
    assert_eq!((&record["entries"], &record["route"]), (&100.into(), &"elasticsearch_bulk".into()));
    assert_eq!(record["stream"], r#"{index="old", service_name="unknown_service"}"#);
    assert!(record["entry_time"].is_string() && record["limit_time"].is_string(), "{list}");
    let reply = bulk(&mut client, "/_bulk", &[], &body);
    assert_eq!(
        (reply.status, &json_of(&reply)["error"]["type"]),
        (401, &"security_exception".into())
    );
    assert!(!server.stop().contains("SECRET"));
}

#[test]
fn overload_is_429_for_each_document_and_not_for_ever() {
    let folder = DataDir::new();
    let flags = [
        "--cores",
        "1",
        "--limits.ingestion-rate-mb=0.001",
        "--limits.ingestion-burst-size-mb=0.001",
    ];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let body =
        format!("{{\"create\":{{\"_index\":\"x\"}}}}\n{}\n", document(now_ns(), &"x".repeat(900)));
    bulk(&mut client, "/_bulk", &[], &body).expect(200);
    let body = body.replace("xxxx", "yyyy");
    let reply = bulk(&mut client, "/_bulk", &[], &body);
    let answer = json_of(&reply);
    let status = match reply.status {
        200 => answer["items"][0]["create"]["status"].as_u64(),
        _ => answer["status"].as_u64(),
    };
    assert_eq!(status, Some(429), "{answer}");
    assert!(answer.to_string().contains("es_rejected_execution_exception"), "{answer}");
}

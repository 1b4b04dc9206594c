//! Detected fields, their values, and detected labels.

use serde_json::{Value, json};

use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

/// JSON and logfmt lines about requests, with a trace in their metadata, and lines of
/// plain text.
fn fill(client: &mut Client, now_ns: i64) {
    let at = |number: i64| now_ns - (60 - number) * SECOND_NS;
    let json = (0..30).map(|number| {
        let line = format!(
            r#"{{"req":{{"id":{number},"took":"{number}ms"}},"size":"{number}kb","ok":true,"app":"x"}}"#
        );
        let trace = format!("t{}", number % 3);
        entry(at(number), line).with_metadata(&[("trace_id", &trace)])
    });
    let logfmt = (30..60).map(|number| {
        let line = format!("req_id={number} size={number}.5 user=u{}", number % 4);
        entry(at(number), line)
    });
    let text = (0..5).map(|number| entry(at(number), "no fields here"));
    let labels =
        [("app", "web"), ("service_name", "web"), ("shard", "12"), ("flag", "1"), ("pod", "7")];
    client.push(&[
        stream(&labels, json.chain(logfmt).collect()),
        stream(&[("app", "text"), ("service_name", "text"), ("flag", "0")], text.collect()),
    ]);
}

fn setting() -> (DataDir, Server) {
    let folder = DataDir::new();
    let off = ["--limits.discover-log-levels=false", "--cores", "2"];
    let server = Server::start(folder.path(), &off);
    fill(&mut server.client(), now_ns());
    (folder, server)
}

fn ask(server: &Server, path: &str, params: &[(&str, &str)]) -> Value {
    server.get(&query::target(&format!("/loki/api/v1/{path}"), params)).json()
}

#[test]
fn fields_have_types_parsers_and_paths() {
    let (_folder, server) = setting();
    let web = ("query", r#"{app="web"}"#);
    let found = ask(&server, "detected_fields", &[web]);
    assert_eq!(found["limit"], 1000);
    let mut fields = found["fields"].as_array().expect("fields").clone();
    fields.sort_by_key(|field| field["label"].as_str().map(str::to_owned));
    let parsed = |label, kind, cardinality, parsers: &[&str], path: Option<Value>| {
        let mut field =
            json!({"label": label, "type": kind, "cardinality": cardinality, "parsers": parsers});
        if let Some(path) = path {
            field["jsonPath"] = path;
        }
        field
    };
    let expected = [
        parsed("app_extracted", "string", 1, &["json"], Some(json!(["app"]))),
        parsed("ok", "boolean", 1, &["json"], Some(json!(["ok"]))),
        parsed("req_id", "int", 60, &["logfmt", "json"], Some(json!(["req", "id"]))),
        parsed("req_took", "duration", 30, &["json"], Some(json!(["req", "took"]))),
        parsed("size", "bytes", 60, &["logfmt", "json"], Some(json!(["size"]))),
        json!({"label": "trace_id", "type": "string", "cardinality": 3, "parsers": null}),
        parsed("user", "string", 4, &["logfmt"], None),
    ];
    assert_eq!(fields, expected);
    // The newest lines only.
    let few = ask(&server, "detected_fields", &[web, ("line_limit", "10"), ("field_limit", "2")]);
    let labels: Vec<_> = few["fields"].as_array().expect("fields").iter().collect();
    assert_eq!((labels.len(), &few["limit"]), (2, &json!(2)));
    assert_eq!(labels[0]["cardinality"], 10);
    assert_eq!(labels[0]["parsers"], json!(["logfmt"]));
    // Fields that the query extracts count, too.
    let query = r#"{app="web"} | regexp `user=(?P<who>\w+)`"#;
    let found = ask(&server, "detected_fields", &[("query", query)]).to_string();
    assert!(found.contains(r#""label":"who""#), "{found}");
    let none = server
        .get(&query::target("/logsvc/api/v1/detected_fields", &[("query", r#"{app="text"}"#)]));
    assert_eq!(none.expect(200), "{}\n");
}

#[test]
fn values_of_a_field_are_listed() {
    let (_folder, server) = setting();
    let values = |field: &str, more: &[(&str, &str)]| -> Value {
        let params = [&[("query", r#"{app="web"}"#)], more].concat();
        ask(&server, &format!("detected_field/{field}/values"), &params)
    };
    let users = json!({"limit": 1000, "values": ["u0", "u1", "u2", "u3"]});
    assert_eq!(values("user", &[]), users);
    let traces = json!({"limit": 1000, "values": ["t0", "t1", "t2"]});
    assert_eq!(values("trace_id", &[]), traces);
    assert_eq!(values("user", &[("limit", "2")])["values"].as_array().map(Vec::len), Some(2));
    let sizes = values("size", &[]).to_string();
    assert!(sizes.contains(r#""29kB""#) && !sizes.contains(r#""29kb""#), "{sizes}");
    assert_eq!(values("app", &[]), json!({}));
}

#[test]
fn labels_are_detected_in_the_index() {
    let (_folder, server) = setting();
    let labels = |params: &[(&str, &str)]| -> Value { ask(&server, "detected_labels", params) };
    let count = |label: &str, cardinality: u64| json!({"label": label, "cardinality": cardinality});
    // `shard` only numbers, `flag` only says yes and no.
    let all = [count("app", 2), count("flag", 2), count("pod", 1), count("service_name", 2)];
    assert_eq!(labels(&[]), json!({"detectedLabels": all}));
    assert_eq!(labels(&[("query", "{}")]), json!({"detectedLabels": all}));
    let text = [count("app", 1), count("flag", 1), count("service_name", 1)];
    assert_eq!(labels(&[("query", r#"{app="text"}"#)]), json!({"detectedLabels": text}));
    assert_eq!(labels(&[("start", "1000"), ("end", "2000")]), json!({}));
}

#[test]
fn mistakes_are_explained() {
    let (_folder, server) = setting();
    let good = ("query", r#"{app="web"}"#);
    for (path, params, text) in [
        ("detected_fields", vec![("query", r#"rate({app="web"}[1m])"#)], "only log selector is"),
        ("detected_fields", vec![good, ("limit", "0")], "limit must be a positive value"),
        ("detected_fields", vec![good, ("line_limit", "0")], "limit must be a positive value"),
        ("detected_fields", vec![good, ("line_limit", "5001")], "max entries limit per query"),
        ("detected_fields", vec![good, ("start", "2"), ("end", "1")], "end timestamp must not be"),
        ("detected_field/user/values", vec![("query", "{")], "parse error at line 1"),
        ("detected_labels", vec![("query", r#"{app="web"} |= "x""#)], "only label matchers are"),
        ("detected_labels", vec![("query", r#"{app!="web"}"#)], "queries require at least one"),
    ] {
        let reply = server.get(&query::target(&format!("/loki/api/v1/{path}"), &params));
        let answer = reply.expect(400);
        assert!(answer.contains(text), "{path} {params:?}: {answer}");
    }
}

#[test]
fn tenants_explore_their_own_streams_only() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled=true", "--cores", "2"]);
    let mut client = server.client();
    let line = r#"{"streams":[{"stream":{"app":"web"},"values":[["NOW","user=u1"]]}]}"#;
    let body = line.replace("NOW", &(now_ns() - SECOND_NS).to_string());
    let as_owner = [("Content-Type", "application/json"), ("X-Scope-OrgID", "owner")];
    let pushed = client.request("POST", "/loki/api/v1/push", &as_owner, Some(body.as_bytes()));
    assert_eq!(pushed.status, 204);
    let query = [("query", r#"{app="web"}"#)];
    let nothing = r#"{"streams":0,"chunks":0,"bytes":0,"entries":0}"#;
    for (path, none) in [
        ("detected_fields", "{}"),
        ("detected_field/user/values", "{}"),
        ("detected_labels", "{}"),
        ("index/stats", nothing),
        ("index/volume", r#""result":[]"#),
        ("index/volume_range", r#""result":[]"#),
        ("index/shards", r#""bytes":0"#),
    ] {
        let more = [&query[..], &[("targetBytesPerShard", "1MB")]].concat();
        let target = query::target(&format!("/loki/api/v1/{path}"), &more);
        assert_eq!(client.get(&target).expect(401), "no org id\n", "{path}");
        let mut ask =
            |tenant| client.request("GET", &target, &[("X-Scope-OrgID", tenant)], None).expect(200);
        assert!(ask("other").contains(none), "{path}: {}", ask("other"));
        assert!(!ask("owner").contains(none), "{path}: {}", ask("owner"));
    }
}

//! Queries about several tenants at a time.

use serde_json::{Value, json};

use crate::support::{DataDir, SECOND_NS, Server, body, entry, now_ns, query, stream};

struct Node {
    server: Server,
    now_ns: i64,
    _folder: DataDir,
}

impl Node {
    /// Tenants `a`, `b` and `c` with like streams, one of which has labels that look
    /// like ours.
    fn start(cores: &str, more: &[&str]) -> Node {
        let folder = DataDir::new();
        let args = ["--auth.enabled", "--querier.multi-tenant-queries-enabled", "--cores", cores];
        let server = Server::start(folder.path(), &[&args[..], more].concat());
        let node = Node { server, now_ns: now_ns(), _folder: folder };
        for (number, tenant) in ["a", "b", "c"].into_iter().enumerate() {
            node.push(tenant, &[("app", "web")], 10 + number as i64);
            node.push(tenant, &[("app", "web"), ("only", tenant)], 20 + number as i64);
        }
        node.push("b", &[("app", "odd"), ("__tenant_id__", "mine")], 30);
        node
    }

    /// Lines `<tenant> <age>` of that age in seconds.
    fn push(&self, tenant: &str, labels: &[(&str, &str)], age_s: i64) {
        let mut labels = labels.to_vec();
        labels.push(("service_name", "x"));
        let line = format!("{tenant} {age_s} level=info");
        let entry = entry(self.now_ns - age_s * SECOND_NS, line);
        let body = body::json(&[stream(&labels, vec![entry])]);
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", tenant)];
        let reply = self.server.client().request(
            "POST",
            "/loki/api/v1/push",
            &headers,
            Some(body.as_bytes()),
        );
        reply.expect(204);
    }

    fn reply(&self, path: &str, tenants: &str, params: &[(&str, &str)]) -> crate::support::Reply {
        let target = query::target(&format!("/loki/api/v1/{path}"), params);
        self.server.client().request("GET", &target, &[("X-Scope-OrgID", tenants)], None)
    }

    /// `data` of an answer, up to now.
    #[track_caller]
    fn data(&self, path: &str, tenants: &str, params: &[(&str, &str)]) -> Value {
        let end = (self.now_ns + 1).to_string();
        let time = [("end", end.as_str()), ("time", end.as_str())];
        let mut answer = self.reply(path, tenants, &[params, &time].concat()).json();
        assert_eq!(answer["status"], "success");
        answer["data"].take()
    }

    /// Lines of a log query, each with its stream's labels, sorted.
    #[track_caller]
    fn lines(&self, tenants: &str, text: &str) -> Vec<(Value, String)> {
        let data = self.data("query_range", tenants, &[("query", text)]);
        let streams = data["result"].as_array().expect("streams").clone();
        let mut lines = Vec::new();
        for stream in &streams {
            for value in stream["values"].as_array().expect("values") {
                let line = value[1].as_str().expect("a line").to_owned();
                lines.push((stream["stream"].clone(), line));
            }
        }
        lines.sort_by(|a, b| a.1.cmp(&b.1));
        lines
    }

    /// The first words of the lines.
    #[track_caller]
    fn words(&self, tenants: &str, text: &str) -> Vec<String> {
        let lines = self.lines(tenants, text);
        lines.iter().map(|(_, line)| line.split(' ').take(2).collect::<Vec<_>>().join("")).collect()
    }

    #[track_caller]
    fn vector(&self, tenants: &str, text: &str) -> Vec<(String, f64)> {
        query::vector(&self.data("query", tenants, &[("query", text)]))
    }
}

#[test]
fn results_carry_the_tenant_as_a_stream_label() {
    for cores in ["1", "2"] {
        let node = Node::start(cores, &[]);
        let check = || {
            let web = r#"{app="web"}"#;
            assert_eq!(node.words("a|b", web), ["a10", "a20", "b11", "b21"]);
            assert_eq!(node.words("b|a|b", web), ["a10", "a20", "b11", "b21"], "in any order");
            for (labels, line) in node.lines("a|b", web) {
                assert_eq!(labels["__tenant_id__"].as_str(), Some(&line[..1]), "{labels}");
                assert_eq!(labels["app"], "web");
            }
            // One tenant is shown as ever.
            assert!(node.lines("a|a", web).iter().all(|(l, _)| l.get("__tenant_id__").is_none()));
            // A real label of that name is kept under another.
            let (odd, _) = node.lines("a|b", r#"{app="odd"}"#).remove(0);
            assert_eq!(odd["__tenant_id__"], "b");
            assert_eq!(odd["original___tenant_id__"], "mine");
            assert_eq!(node.words("a|b", r#"{original___tenant_id__="mine"}"#), ["b30"]);
            assert_eq!(node.words("b", r#"{__tenant_id__="mine"}"#), ["b30"]);
            // Matchers choose tenants.
            for (matcher, expected) in [
                (r#"="b""#, &["b11", "b21"][..]),
                (r#"!="b""#, &["a10", "a20", "c12", "c22"]),
                (r#"=~"a|c""#, &["a10", "a20", "c12", "c22"]),
                (r#"!~"a|c""#, &["b11", "b21"]),
                (r#"="d""#, &[]),
                (r#"="mine""#, &[]),
            ] {
                let text = format!(r#"{{app="web", __tenant_id__{matcher}}}"#);
                assert_eq!(node.words("a|b|c", &text), expected, "{text}");
                let sum = format!("sum by (__tenant_id__) (count_over_time({text}[1h]))");
                let mut tenants: Vec<String> = expected
                    .iter()
                    .map(|w| format!(r#"{{"__tenant_id__":"{}"}}"#, &w[..1]))
                    .collect();
                tenants.dedup();
                let expected: Vec<_> = tenants.into_iter().map(|labels| (labels, 2.0)).collect();
                assert_eq!(node.vector("a|b|c", &sum), expected, "{sum}");
            }
            // The answer has no tenant that the request does not name, although the matcher names
            // one.
            assert!(node.words("a|b", r#"{app="web", __tenant_id__="c"}"#).is_empty());
            // Pipelines and functions see a label like any other.
            let text =
                r#"{app="web"} | __tenant_id__="a" | line_format "{{.__tenant_id__}} {{.app}}""#;
            assert_eq!(node.words("a|b", text), ["aweb", "aweb"]);
            let text = r#"{app="web", only=~".+"} | drop __tenant_id__"#;
            assert!(node.lines("a|b", text).iter().all(|(l, _)| l.get("__tenant_id__").is_none()));
            assert_eq!(
                node.vector("a|b", r#"sum(count_over_time({app="web"}[1h]))"#),
                [("{}".to_owned(), 4.0)]
            );
            assert_eq!(
                node.vector(
                    "a|b",
                    r#"sum without (service_name, detected_level) (rate({app="web"}[1h]))"#
                )
                .len(),
                4
            );
            let text = r#"sum(count_over_time({app="web",__tenant_id__="a"}[1h])) + sum(count_over_time({app="web",__tenant_id__=~"b|c"}[1h]))"#;
            assert_eq!(node.vector("a|b|c", text), [("{}".to_owned(), 6.0)]);
        };
        check();
        // Entries in segments are read the same way.
        node.server.client().request("POST", "/flush", &[], None).expect(204);
        check();
    }
}

#[test]
fn labels_series_and_sizes_are_those_of_all_tenants() {
    for cores in ["1", "2"] {
        let node = Node::start(cores, &[]);
        let names = ["__tenant_id__", "app", "only", "original___tenant_id__", "service_name"];
        assert_eq!(node.data("labels", "a|b", &[]), json!(names));
        assert_eq!(
            node.data("labels", "a|c", &[]),
            json!(["__tenant_id__", "app", "only", "service_name"])
        );
        assert_eq!(node.data("label/only/values", "a|c", &[]), json!(["a", "c"]));
        let narrowed = [("query", r#"{app="web", __tenant_id__="c"}"#)];
        assert_eq!(node.data("label/only/values", "a|c", &narrowed), json!(["c"]));
        assert_eq!(node.data("label/__tenant_id__/values", "c|a", &[]), json!(["a", "c"]));
        assert_eq!(node.data("label/__tenant_id__/values", "a", &[]), json!(["a"]));
        assert_eq!(node.data("label/original___tenant_id__/values", "a|b", &[]), json!(["mine"]));
        let series = node.data("series", "a|b", &[("match[]", r#"{only=~".+"}"#)]);
        let mut series = series.as_array().expect("a list").clone();
        series.sort_by_key(Value::to_string);
        let of = |tenant: &str| json!({"__tenant_id__": tenant, "app": "web", "only": tenant, "service_name": "x"});
        assert_eq!(series, [of("a"), of("b")]);
        let stats = |tenants: &str| {
            let end = (node.now_ns + 1).to_string();
            let params = [("query", r#"{app="web"}"#), ("end", end.as_str())];
            node.reply("index/stats", tenants, &params).json()
        };
        assert_eq!((&stats("a")["streams"], &stats("a|b|c")["streams"]), (&json!(2), &json!(6)));
        assert_eq!(stats("a|b|c")["entries"], 6);
        let volume =
            |params: &[(&str, &str)]| query::vector(&node.data("index/volume", "a|b", params));
        let by_app = volume(&[("query", r#"{app="web"}"#)]);
        assert_eq!(by_app.len(), 1, "summed over tenants: {by_app:?}");
        let one = query::vector(&node.data("index/volume", "a", &[("query", r#"{app="web"}"#)]));
        assert_eq!(by_app[0].1, one[0].1 * 2.0);
        let all = volume(&[("query", "{}")]);
        assert!(
            all.iter().all(|(labels, _)| !labels.contains("\"__tenant_id__\":\"a\"")),
            "{all:?}"
        );
        let told_apart = volume(&[("query", r#"{app="web"}"#), ("targetLabels", "__tenant_id__")]);
        assert_eq!(told_apart.len(), 2, "asked for by name: {told_apart:?}");
        let fields = node.reply("detected_fields", "a|b", &[("query", r#"{app="web"}"#)]).json();
        assert!(fields["fields"].to_string().contains("level"), "{fields}");
        let labels = node.reply("detected_labels", "a|b", &[]).json();
        assert!(labels.to_string().contains("\"only\""), "{labels}");
        node.reply("patterns", "a|b", &[("query", r#"{app="web"}"#)]).expect(200);
        let legacy = query::target("/api/prom/query", &[("query", r#"{app="web"}"#)]);
        let legacy =
            node.server.client().request("GET", &legacy, &[("X-Scope-OrgID", "a|b")], None);
        assert!(legacy.expect(200).contains("__tenant_id__=\\\"b\\\""));
    }
}

#[test]
fn what_is_not_for_several_tenants_is_refused() {
    let node = Node::start("1", &[]);
    let client = || node.server.client();
    let headers = [("X-Scope-OrgID", "a|b"), ("Content-Type", "application/json")];
    for (method, path) in [
        ("POST", "/loki/api/v1/push"),
        ("POST", "/api/prom/push"),
        ("POST", "/otlp/v1/logs"),
        ("POST", "/upload"),
        ("POST", "/loki/api/v1/import"),
        ("GET", "/loki/api/v1/tail?query={app=%22web%22}"),
        ("GET", "/api/prom/tail?query={app=%22web%22}"),
        ("GET", "/loki/api/v1/index/shards?query={app=%22web%22}&targetBytesPerShard=1KB"),
        ("GET", "/config/tenant/v1/limits"),
    ] {
        let body = (method == "POST").then_some(&b"{}"[..]);
        let reply = client().request(method, path, &headers, body);
        assert_eq!(reply.status, 400, "{path}: {}", reply.text());
        assert!(reply.text().contains("multiple org IDs present"), "{path}: {}", reply.text());
    }
    let refused = |tenants: &str, text: &str| {
        node.reply("query_range", tenants, &[("query", text)]).expect(400)
    };
    assert_eq!(
        refused("a|b/c", "{app=\"web\"}"),
        "tenant ID 'b/c' contains unsupported character '/'\n"
    );
    let only = "log selector is invalid after matcher update: parse error : queries require at least one regexp or equality matcher";
    for text in [
        r#"{__tenant_id__="a"}"#,
        r#"{__tenant_id__="a", app=~".*"}"#,
        r#"sum(rate({__tenant_id__=~".+"}[1m]))"#,
    ] {
        let found = refused("a|b", text);
        assert!(found.starts_with(only), "{text}: {found}");
    }
    // Switched off by default.
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled", "--cores=1"]);
    for path in [
        "/loki/api/v1/query_range?query={app=%22web%22}",
        "/loki/api/v1/labels",
        "/loki/api/v1/series?match[]={app=%22web%22}",
        "/loki/api/v1/index/volume?query={app=%22web%22}",
        "/loki/api/v1/patterns?query={app=%22web%22}",
    ] {
        let reply = server.client().request("GET", path, &[("X-Scope-OrgID", "a|b")], None);
        assert_eq!(reply.expect(400), "multiple org IDs present\n", "{path}");
    }
}

//! Reading back: log queries, metric queries, labels and series.

use serde_json::json;

use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

/// Two apps, 20 lines each, one a second; every fourth line is an error. The last
/// line of both is at `now`.
fn fill(client: &mut Client, now_ns: i64) {
    let streams = ["web", "db"].map(|app| {
        let entries = (0..20).map(|number: i64| {
            let level = if number % 4 == 0 { "error" } else { "info" };
            let line = format!("level={level} app={app} n={number} took={}ms", number * 10);
            let (text, took) = (number.to_string(), format!("{}ms", number * 10));
            let mut metadata = vec![("number", text.as_str()), ("took", &took)];
            if number == 5 {
                metadata.push(("trace_id", "t5"));
            }
            entry(now_ns - (19 - number) * SECOND_NS, line).with_metadata(&metadata)
        });
        stream(&[("app", app), ("env", "test"), ("service_name", app)], entries.collect())
    });
    client.push(&streams);
}

struct Setting {
    _folder: DataDir,
    server: Server,
    now_ns: i64,
}

fn setting() -> Setting {
    let folder = DataDir::new();
    // Three shards, so that streams and requests meet on different ones.
    let server = Server::start(folder.path(), &["--cores", "3"]);
    let now_ns = now_ns() / SECOND_NS * SECOND_NS;
    fill(&mut server.client(), now_ns);
    Setting { _folder: folder, server, now_ns }
}

fn numbers(data: &serde_json::Value) -> Vec<i64> {
    let number = |line: &String| {
        let text = line.split(' ').find_map(|word| word.strip_prefix("n="));
        text.and_then(|text| text.parse().ok()).expect("n=<number>")
    };
    query::texts(data).iter().map(number).collect()
}

#[test]
fn log_queries_go_in_both_directions_under_a_limit() {
    let Setting { _folder, server, now_ns } = setting();
    let mut client = server.client();
    let end = (now_ns + 1).to_string();
    let mut ask = |query: &str, more: &[(&str, &str)]| {
        let params = [&[("end", end.as_str())], more].concat();
        numbers(&query::range(&mut client, query, &params))
    };
    let web = r#"{app="web"}"#;
    assert_eq!(ask(web, &[]), (0..20).rev().collect::<Vec<_>>());
    assert_eq!(ask(web, &[("direction", "forward")]), (0..20).collect::<Vec<_>>());
    assert_eq!(ask(web, &[("limit", "3")]), [19, 18, 17]);
    assert_eq!(ask(web, &[("limit", "3"), ("direction", "FORWARD")]), [0, 1, 2]);
    // `start` is included and `end` is not.
    let (start, end) = ((now_ns - 9 * SECOND_NS).to_string(), (now_ns - 5 * SECOND_NS).to_string());
    let bounds = [("start", start.as_str()), ("end", &end)];
    let params = |more| [&bounds[..], more].concat();
    let found = query::range(&mut server.client(), web, &params(&[]));
    assert_eq!(numbers(&found), [13, 12, 11, 10]);
    // A limit counts the lines of all streams, newest first.
    let found = query::range(&mut server.client(), r#"{env="test"}"#, &params(&[("limit", "4")]));
    let mut newest = numbers(&found);
    newest.sort_unstable();
    assert_eq!(newest, [12, 12, 13, 13]);
}

#[test]
fn line_filters_and_parsers_choose_lines() {
    let Setting { _folder, server, now_ns } = setting();
    let mut client = server.client();
    let end = (now_ns + 1).to_string();
    for (query, expected) in [
        (r#"{app="web"} |= "error""#, vec![16, 12, 8, 4, 0]),
        (r#"{app="web"} |= "error" != "n=1""#, vec![8, 4, 0]),
        (r#"{app="web"} |~ "n=1[0-2] ""#, vec![12, 11, 10]),
        (r#"{app="web"} |~ "n=1\\d" !~ "took=1[0-6]0ms""#, vec![19, 18, 17]),
        (r#"{app="web"} |= "ERROR""#, vec![]),
        (r#"{app=~"w.b", env!="prod"} |= "n=5 ""#, vec![5]),
        (r#"{app="nothing"}"#, vec![]),
    ] {
        let found = query::range(&mut client, query, &[("end", &end)]);
        assert_eq!(numbers(&found), expected, "{query}");
    }
}

#[test]
fn metric_queries_count_and_aggregate() {
    let Setting { _folder, server, now_ns } = setting();
    let mut client = server.client();
    for (query, expected) in [
        // The range is open at its start, so it has the lines 10 to 19.
        (r#"sum(count_over_time({env="test"}[10s]))"#, vec![20.0]),
        (r#"sum by (app) (count_over_time({env="test"} |= "error" [20s]))"#, vec![5.0, 5.0]),
        (r#"sum(rate({app="web"}[20s]))"#, vec![1.0]),
        (r#"sum(sum_over_time({app="web"} | unwrap number [4s]))"#, vec![70.0]),
        (r#"topk(1, sum by (app) (count_over_time({env="test"} |= "=web" [5s])))"#, vec![5.0]),
        ("vector(1)+vector(1)", vec![2.0]),
    ] {
        let found = query::vector(&query::instant(&mut client, query, now_ns));
        let values: Vec<f64> = found.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, expected, "{query}: {found:?}");
    }
    let by_app = r#"sum by (app) (count_over_time({env="test"}[20s]))"#;
    let found = query::vector(&query::instant(&mut client, by_app, now_ns));
    let expected = [(r#"{"app":"db"}"#.to_owned(), 20.0), (r#"{"app":"web"}"#.to_owned(), 20.0)];
    assert_eq!(found, expected);

    let (start, end) = ((now_ns - 10 * SECOND_NS).to_string(), now_ns.to_string());
    let params = [("start", start.as_str()), ("end", &end), ("step", "5s")];
    let matrix = query::range(&mut client, r#"sum(count_over_time({app="web"}[5s]))"#, &params);
    assert_eq!(matrix["resultType"], "matrix");
    let now_s = now_ns / SECOND_NS;
    let expected = json!([[now_s - 10, "5"], [now_s - 5, "5"], [now_s, "5"]]);
    assert_eq!(matrix["result"][0]["values"], expected);
    assert_eq!(matrix["result"].as_array().map(Vec::len), Some(1));
}

#[test]
fn labels_values_and_series_are_listed() {
    let Setting { _folder, server, now_ns } = setting();
    let mut client = server.client();
    let end = (now_ns + 1).to_string();
    for prefix in ["/loki/api/v1", "/logsvc/api/v1", "/api/prom"] {
        let label = format!("{prefix}/label");
        assert_eq!(query::list(&mut client, &label, &[]), ["app", "env", "service_name"]);
        let values = format!("{prefix}/label/app/values");
        assert_eq!(query::list(&mut client, &values, &[]), ["db", "web"]);
        let narrow = [("query", r#"{app="web"}"#)];
        assert_eq!(query::list(&mut client, &values, &narrow), ["web"]);
        let early = [("start", "1000000000000000000"), ("end", "1000000001000000000")];
        assert!(query::list(&mut client, &values, &early).is_empty());
        let series = format!("{prefix}/series");
        let both = [("match[]", r#"{app="web"}"#), ("match[]", r#"{app="db"}"#), ("end", &end)];
        let mut found = query::list(&mut client, &series, &both);
        found.sort_by_key(|labels| labels["app"].to_string());
        let labels = |app| json!({"app": app, "env": "test", "service_name": app});
        assert_eq!(found, [labels("db"), labels("web")]);
    }
    assert_eq!(query::list(&mut client, "/loki/api/v1/labels", &[]).len(), 3);
    for prefix in ["/loki/api/v1", "/logsvc/api/v1", "/api/prom"] {
        let series = format!("{prefix}/series");
        let none = client.get(&series);
        assert_eq!(none.expect(400), "0 matchers in group: {}");
        // The empty selector alone stands for all series, in any number and under any name.
        let alone: [&[(&str, &str)]; 4] = [
            &[("match[]", "{}")],
            &[("match", "{}")],
            &[("match[]", " { } ")],
            &[("match[]", "{}"), ("match", "{}")],
        ];
        for params in alone {
            let with_end = [params, &[("end", end.as_str())]].concat();
            assert_eq!(query::list(&mut client, &series, &with_end).len(), 2, "{params:?}");
            let target = query::target(&series, &with_end);
            let (path, form) = target.split_once('?').expect("parameters");
            let headers = [("Content-Type", "application/x-www-form-urlencoded")];
            let posted = client.request("POST", path, &headers, Some(form.as_bytes()));
            assert_eq!(posted.expect(200).matches("service_name").count(), 2, "{params:?}");
        }
        // Beside other selectors it is an empty group, and only `{}` stands for all series.
        for (text, status) in [("{}", 400), (r#"{app=~".*"}"#, 400), ("", 400), ("{", 400)] {
            let params = [("match[]", r#"{app="web"}"#), ("match[]", text)];
            let reply = client.get(&query::target(&series, &params));
            assert_eq!(reply.status, status, "{text}: {}", reply.text());
        }
        let reply = client.get(&query::target(&series, &[("match[]", r#"{app=~".*"}"#)]));
        assert_eq!(reply.status, 400);
    }
}

#[test]
fn grafana_gets_labels_by_category() {
    let Setting { _folder, server, now_ns } = setting();
    let mut client = server.client();
    let end = (now_ns + 1).to_string();
    let query = r#"{app="web"} |~ "n=[56] ""#;
    let params = [("query", query), ("end", &end), ("direction", "forward")];
    let target = query::target("/loki/api/v1/query_range", &params);
    let header = [("X-Loki-Response-Encoding-Flags", "categorize-labels")];
    let answer = client.request("GET", &target, &header, None).json();
    let data = &answer["data"];
    assert_eq!(data["encodingFlags"], json!(["categorize-labels"]));
    let stream = &data["result"][0];
    let index_labels = json!({"app": "web", "env": "test", "service_name": "web"});
    assert_eq!(stream["stream"], index_labels);
    let parts = |index: usize| &stream["values"][index][2];
    assert_eq!(parts(0)["structuredMetadata"]["trace_id"], "t5");
    assert_eq!(parts(0)["structuredMetadata"]["number"], "5");
    assert_eq!(parts(1)["structuredMetadata"]["trace_id"], json!(null));
    assert_eq!(parts(1)["structuredMetadata"]["number"], "6");
    // Without the header all labels are of the stream.
    let answer = client.get(&target).json();
    let streams = answer["data"]["result"].as_array().expect("streams");
    assert_eq!(streams.len(), 2, "{answer}");
    assert!(streams.iter().any(|stream| stream["stream"]["trace_id"] == "t5"));
    assert_eq!(streams[0]["values"][0].as_array().map(Vec::len), Some(2));
}

#[test]
fn old_clients_query_logs_in_their_own_form() {
    let Setting { _folder, server, now_ns } = setting();
    let end = (now_ns + 1).to_string();
    let bounds = [("end", end.as_str()), ("direction", "forward"), ("limit", "3")];
    let params = [&bounds[..], &[("query", r#"{app="web"} |= "level""#), ("regexp", "n=1[05] ")]];
    let answer = server.get(&query::target("/api/prom/query", &params.concat())).json();
    assert!(answer["stats"]["summary"].is_object(), "{answer}");
    let streams = answer["streams"].as_array().expect("streams");
    let mut found: Vec<(&str, &str)> = Vec::new();
    for stream in streams {
        let labels = stream["labels"].as_str().expect("labels as text");
        assert!(labels.starts_with(r#"{app="web", "#), "{labels}");
        for entry in stream["entries"].as_array().expect("entries") {
            let text = |name: &str| entry[name].as_str().expect("a text");
            found.push((text("ts"), text("line")));
        }
    }
    found.sort_unstable();
    let lines: Vec<&str> = found.iter().map(|(_, line)| *line).collect();
    assert_eq!(lines, ["level=info app=web n=10 took=100ms", "level=info app=web n=15 took=150ms"]);
    assert!(found[0].0.ends_with('Z') && found[0].0.contains('T'), "{found:?}");
    let metric = [("query", r#"rate({app="web"}[1m])"#)];
    let refused = server.get(&query::target("/api/prom/query", &metric)).expect(400);
    assert_eq!(refused, "legacy endpoints only support streams result type");
}

#[test]
fn mistakes_in_queries_are_explained() {
    let Setting { _folder, server, .. } = setting();
    let mut client = server.client();
    let mut refused = |params: &[(&str, &str)]| {
        let reply = client.get(&query::target("/loki/api/v1/query_range", params));
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        reply.expect(400)
    };
    let good = ("query", r#"{app="web"}"#);
    for (params, text) in [
        (vec![("query", "{app=")], "parse error"),
        (vec![("query", r#"{app="web"} | nonsense("#)], "parse error"),
        (vec![("query", r#"rate({app="web"})"#)], "parse error"),
        (vec![], "parse error"),
        (vec![good, ("limit", "5001")], "max entries limit per query exceeded"),
        (vec![good, ("limit", "0")], "limit must be a positive value"),
        (vec![good, ("direction", "up")], "invalid direction 'up'"),
        (vec![good, ("start", "2"), ("end", "1")], "end timestamp must not be before or equal to"),
        (vec![good, ("since", "soon")], "'since'"),
        (
            vec![good, ("start", "0"), ("end", "1795224948")],
            "the query time range exceeds the limit",
        ),
    ] {
        let answer = refused(&params);
        assert!(answer.contains(text), "{params:?}: {answer}");
    }
    let instant = query::target("/loki/api/v1/query", &[good]);
    let answer = client.get(&instant).expect(400);
    assert!(answer.contains("log queries are not supported as an instant query type"), "{answer}");
}

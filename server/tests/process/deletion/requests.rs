//! What clients send, and what they are answered.

use super::*;
use crate::support::DataDir;

#[test]
fn logcli_creates_lists_and_cancels() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[]);
    let mut client = server.client();
    let agent = ("User-Agent", "loki-logcli/65e30f8");
    let (start_s, end_s) = (seconds_ago(100_000), seconds_ago(60));
    let create = |client: &mut Client, more: &str, query: &str| {
        let target = format!("{PATH}?end={end_s}{more}&query={query}&start={start_s}");
        let reply = client.request("POST", &target, &[agent], Some(b""));
        assert_eq!((reply.status, reply.text().as_str()), (204, ""));
        assert_eq!(reply.header("content-type"), None);
        reply.header("x-delete-request-id").expect("an id").to_owned()
    };
    let before_s = now_ns() as f64 / 1e9 - 0.002;
    let boom = create(&mut client, "", "%7Bapp%3D%22x%22%7D+%7C%3D+%22boom%22");
    let ok = create(&mut client, "&max_interval=1h", "%7Bapp%3D%22x%22%7D+%7C%3D+%22ok%22");
    let reply = client.request("GET", PATH, &[agent], None);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let text = reply.expect(200);
    assert!(text.ends_with("]\n"), "{text}");
    let listed: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    for (request, (id, query)) in listed.iter().zip([(&boom, "boom"), (&ok, "ok")]) {
        assert_eq!(request["request_id"], **id);
        // logcli reads whole numbers here, and fails on others.
        assert_eq!(request["start_time"].as_i64(), Some(start_s));
        assert_eq!(request["end_time"].as_i64(), Some(end_s));
        assert_eq!(request["query"], format!("{{app=\"x\"}} |= \"{query}\""));
        assert_eq!(request["status"], "received");
        assert_eq!(request["user_id"], "");
        let created_s = request["created_at"].as_f64().expect("a number");
        assert!((before_s..=now_ns() as f64 / 1e9).contains(&created_s), "{created_s}");
        let names: Vec<&String> = request.as_object().expect("an object").keys().collect();
        assert_eq!(names.len(), 7, "{names:?}");
    }
    assert_eq!(listed.len(), 2);

    let bad = format!("{PATH}?end={end_s}&query=%7Bapp%3D&start={start_s}");
    let bad = client.request("POST", &bad, &[agent], Some(b""));
    assert_eq!(bad.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(bad.expect(400), "invalid query expression\n");

    let target = format!("{PATH}?request_id={boom}");
    let cancelled = client.request("DELETE", &target, &[agent], None);
    assert_eq!((cancelled.status, cancelled.text().as_str()), (204, ""));
    let target = format!("{PATH}?force=true&request_id=deadbeef");
    let unknown = client.request("DELETE", &target, &[agent], None);
    assert_eq!(unknown.expect(404), "could not find delete request with given id\n");
    let left = client.request("GET", PATH, &[agent], None).json();
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_eq!(left[0]["request_id"], *ok);
}

#[test]
fn bad_requests_are_refused_and_store_nothing() {
    let folder = DataDir::new();
    let server = start(folder.path(), &["--auth.enabled=true"]);
    let mut client = server.client();
    let (now_s, start_s) = (seconds_ago(0), seconds_ago(200_000));
    let [start, day, later, now] =
        [start_s, start_s + 100_000, start_s + 3600, now_s].map(|time_s| time_s.to_string());
    let (millis, nanos) = (format!("{start}000"), format!("{start}000000000"));
    let fraction = format!("{start}.5");
    let future = (now_s + 3600).to_string();
    let all = r#"{app="a"}"#;
    let some = r#"{app="a"} |= "x""#;
    let start_text = "invalid start time: require unix seconds or RFC3339 format";
    let end_text = "invalid end time: require unix seconds or RFC3339 format";
    let order_text = "start time can't be greater than or equal to end time";
    let unit_text = "invalid max_interval: valid time units are 's', 'm', 'h'";
    let query_text = "invalid query expression";
    let long = format!("{{app=\"{}\"}}", "x".repeat(200_000));
    let refused: &[(&[(&str, &str)], &str)] = &[
        (&[], "query not set"),
        (&[("start", &start)], "query not set"),
        (&[("query", ""), ("start", &start)], "query not set"),
        (&[("query", all)], "start time not set"),
        (&[("query", "{"), ("start", &start)], query_text),
        (&[("query", "app=\"a\""), ("start", &start)], query_text),
        (&[("query", "{}"), ("start", &start)], query_text),
        (&[("query", "{host=\"\"}"), ("start", &start)], query_text),
        (&[("query", "{app=~\".*\"}"), ("start", &start)], query_text),
        (&[("query", "rate({app=\"a\"}[1m])"), ("start", &start)], query_text),
        (&[("query", "{app=\"a\"} | line_format \"{{now}}\""), ("start", &start)], query_text),
        (&[("query", &long), ("start", &start)], query_text),
        (&[("query", all), ("start", "abc")], start_text),
        (&[("query", all), ("start", &millis)], start_text),
        (&[("query", all), ("start", &nanos)], start_text),
        (&[("query", all), ("start", &fraction)], start_text),
        (&[("query", all), ("start", "2026-11-21T12:00:00")], start_text),
        (&[("query", all), ("start", &start), ("end", "abc")], end_text),
        (&[("query", all), ("start", &start), ("end", &millis)], end_text),
        (
            &[("query", all), ("start", &start), ("end", &future)],
            "deletes in the future are not allowed",
        ),
        (&[("query", all), ("start", &start), ("end", &start)], order_text),
        (&[("query", all), ("start", &later), ("end", &start)], order_text),
        (&[("query", some), ("start", &start), ("max_interval", "1d")], unit_text),
        (&[("query", some), ("start", &start), ("max_interval", "500ms")], unit_text),
        (&[("query", some), ("start", &start), ("max_interval", "0.5s")], unit_text),
        (
            &[("query", some), ("start", &start), ("end", &day), ("max_interval", "25h")],
            "max_interval can't be greater than 24h0m0s",
        ),
        (
            &[("query", some), ("start", &start), ("end", &later), ("max_interval", "2h")],
            "max_interval can't be greater than the interval to be deleted (1h0m0s)",
        ),
    ];
    for (params, text) in refused {
        let reply = create_as(&mut client, "a", params);
        let shown = reply.text();
        assert_eq!((reply.status, shown), (400, format!("{text}\n")), "{text}");
    }
    // A JSON body is no form, and a form is one with POST alone.
    let target = query::target(PATH, &[]);
    let tenant = ("X-Scope-OrgID", "a");
    let json = format!(r#"{{"query": "{{app=\"a\"}}", "start": "{start}"}}"#);
    let form = query::form(&[("query", all), ("start", &start)]);
    let form_type = ("Content-Type", "application/x-www-form-urlencoded");
    let json_type = ("Content-Type", "application/json");
    for (method, media_type, body) in
        [("POST", json_type, &json), ("PUT", json_type, &json), ("PUT", form_type, &form)]
    {
        let reply = client.request(method, &target, &[tenant, media_type], Some(body.as_bytes()));
        assert_eq!(reply.expect(400), "query not set\n", "{method} {body}");
    }
    assert_eq!(client.request("GET", PATH, &[tenant], None).expect(200), "[]\n");
    assert_eq!(client.get(PATH).expect(401), "no org id\n");
    for method in ["GET", "POST", "PUT", "DELETE"] {
        let several = [("X-Scope-OrgID", "a|b")];
        let reply = client.request(method, &target, &several, Some(b""));
        assert_eq!(reply.expect(400), "multiple org IDs present\n", "{method}");
    }
    let labels = client.request("GET", "/loki/api/v1/labels", &[tenant], None);
    labels.expect(200);
    // Where there are no stages there are no parts.
    let pairs = [("query", all), ("start", &start), ("end", &now), ("max_interval", "odd")];
    create(&mut client, "a", &pairs);
    // A form, and the time in another notation.
    let form = query::form(&[("query", all), ("start", "2023-11-14T22:13:20.5+02:00")]);
    let headers = [tenant, form_type];
    client.request("POST", PATH, &headers, Some(form.as_bytes())).expect(204);
    let reply = client.request("PUT", &format!("{PATH}?{form}"), &[tenant], Some(b""));
    reply.expect(204);
    let starts: Vec<i64> =
        list(&mut client, "a").iter().filter_map(|one| one["start_time"].as_i64()).collect();
    assert_eq!(starts, [start_s, 1_699_992_800, 1_699_992_800]);
}

#[test]
fn the_settings_say_who_may_delete() {
    let folder = DataDir::new();
    let file = folder.path().join("overrides.yaml");
    let text = "overrides:\n  may: {deletion_mode: filter-only}\n  old: {allow_deletes: true}\n";
    std::fs::write(&file, text).expect("the folder can be written");
    let flag = format!("--runtime-config.file={}", file.display());
    let data = folder.path().join("data");
    let args = ["--cores=1", "--auth.enabled=true", &flag];
    let server = Server::start(&data, &args);
    let mut client = server.client();
    let generation = "/loki/api/v1/cache/generation_numbers";
    let ask = |client: &mut Client, method: &str, path: &str, tenant: &str| {
        let reply = client.request(method, path, &[("X-Scope-OrgID", tenant)], Some(b""));
        (reply.status, reply.text())
    };
    let forbidden = (403, "deletion is not available for this tenant\n".to_owned());
    let off = (400, "Retention is not enabled\n".to_owned());
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert_eq!(ask(&mut client, method, PATH, "other"), forbidden, "{method}");
        assert_eq!(ask(&mut client, method, PATH, "may"), off, "{method}");
        assert_eq!(ask(&mut client, method, PATH, "old"), off, "{method}");
    }
    assert_eq!(ask(&mut client, "GET", generation, "other"), forbidden);
    assert_eq!(ask(&mut client, "GET", generation, "may"), (200, "\"\"\n".to_owned()));
    server.stop();
    let args = [&args[..], &["--compactor.retention-enabled=true"]].concat();
    let server = Server::start(&data, &args);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "GET", PATH, "other"), forbidden);
    assert_eq!(ask(&mut client, "GET", PATH, "may"), (200, "[]\n".to_owned()));
    assert_eq!(ask(&mut client, "GET", PATH, "old"), (200, "[]\n".to_owned()));
}

#[test]
fn tenants_see_and_cancel_their_own_requests() {
    let folder = DataDir::new();
    let server = start(folder.path(), &["--auth.enabled=true"]);
    let mut client = server.client();
    let generation = |client: &mut Client, tenant: &str| -> String {
        let path = "/loki/api/v1/cache/generation_numbers";
        let reply = client.request("GET", path, &[("X-Scope-OrgID", tenant)], None);
        reply.json().as_str().expect("a text").to_owned()
    };
    let number = |text: String| text.parse::<i64>().expect("a number");
    let query = r#"{app="a"} |= "sesame""#;
    let (start_s, end_s) = (seconds_ago(3600), seconds_ago(60));
    assert_eq!(generation(&mut client, "tenant-12"), "");
    let id = delete(&mut client, "tenant-12", query, start_s, end_s);
    let first = number(generation(&mut client, "tenant-12"));
    for other in ["t", "tenant-1", "tenant-123"] {
        assert_eq!(list(&mut client, other), [Value::Null; 0]);
        let unknown = (404, "could not find delete request with given id\n".to_owned());
        assert_eq!(cancel(&mut client, other, &[("request_id", &id)]), unknown);
        let forced = [("request_id", id.as_str()), ("force", "true")];
        assert_eq!(cancel(&mut client, other, &forced), unknown);
        assert_eq!(generation(&mut client, other), "");
    }
    let unknown = "could not find delete request with given id\n".to_owned();
    for params in [&[][..], &[("request_id", "")], &[("request_id", "xyz")]] {
        assert_eq!(cancel(&mut client, "tenant-12", params), (404, unknown.clone()));
    }
    // The same request once more is another one.
    let second = delete(&mut client, "tenant-12", query, start_s, end_s);
    assert_ne!(id, second);
    let after_second = number(generation(&mut client, "tenant-12"));
    assert!(after_second > first);
    let ids: Vec<Value> =
        list(&mut client, "tenant-12").iter().map(|one| one["request_id"].clone()).collect();
    assert_eq!(ids, [id.as_str(), second.as_str()]);
    // Only what overlaps is listed, if both bounds are there.
    let listed = |client: &mut Client, params: &[(&str, i64)]| {
        let texts: Vec<(&str, String)> =
            params.iter().map(|(name, time_s)| (*name, time_s.to_string())).collect();
        let params: Vec<(&str, &str)> = texts.iter().map(|(n, t)| (*n, t.as_str())).collect();
        let headers = [("X-Scope-OrgID", "tenant-12")];
        let reply = client.request("GET", &query::target(PATH, &params), &headers, None);
        reply.json().as_array().map(Vec::len)
    };
    assert_eq!(listed(&mut client, &[("start", end_s), ("end", end_s + 60)]), Some(2));
    assert_eq!(listed(&mut client, &[("start", end_s + 1), ("end", end_s + 60)]), Some(0));
    assert_eq!(listed(&mut client, &[("start", end_s + 1)]), Some(2));
    assert_eq!(cancel(&mut client, "tenant-12", &[("request_id", &id)]), (204, String::new()));
    assert!(number(generation(&mut client, "tenant-12")) > after_second);
    assert_eq!(cancel(&mut client, "tenant-12", &[("request_id", &id)]), (404, unknown));
    assert_eq!(list(&mut client, "tenant-12").len(), 1);

    let count = |name: &str| server.metric(name);
    assert_eq!(count(r#"loki_compactor_delete_requests_received_total{user="tenant-12"}"#), 2.0);
    assert_eq!(count("loki_compactor_pending_delete_requests_count"), 1.0);
    let age_s = count("loki_compactor_oldest_pending_delete_request_age_seconds");
    assert!((0.0..120.0).contains(&age_s), "{age_s}");
    let text = server.get("/metrics").expect(200);
    assert!(!text.contains(r#"_received_total{user="tenant-1"}"#), "{text}");

    // The log tells of the requests, and not of their queries.
    let log = server.stop();
    assert!(log.contains(&id) && log.contains("tenant-12"), "{log}");
    assert!(!log.contains("sesame"), "{log}");
}

#[test]
fn methods_and_bodies_are_those_of_the_reference() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.request("PATCH", PATH, &[], None).status, 405);
    let start = seconds_ago(3600).to_string();
    let form_type = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
    // The body of a POST counts before the address, parameter by parameter.
    let target = query::target(PATH, &[("query", r#"{app="address"}"#), ("start", &start)]);
    let form = b"query=%7Bapp%3D%22b%22%7D+%7C%3D+%22%C3%BC+%2B%22&max_interval=60s";
    client.request("POST", &target, &[form_type], Some(form)).expect(204);
    // That of a PUT, or of another type, does not.
    client.request("PUT", &target, &[form_type], Some(form)).expect(204);
    let json_type = ("Content-Type", "application/json");
    client.request("POST", &target, &[json_type], Some(br#"{"query": "{"}"#)).expect(204);
    let queries: Vec<Value> =
        list(&mut client, "fake").iter().map(|one| one["query"].clone()).collect();
    let address = r#"{app="address"}"#;
    assert_eq!(queries, ["{app=\"b\"} |= \"ü +\"", address, address]);
    for form in ["query=%zz", "query=%ff", "query=%7Bapp%3D%22b%22%7D;start=1"] {
        let reply = client.request("POST", &target, &[form_type], Some(form.as_bytes()));
        assert_eq!(reply.status, 400, "{form}: {}", reply.text());
    }
    // Long queries are refused wherever they stand, and are not shown.
    let long = format!("{{app=\"b\"}} |= \"{}\"", "y".repeat(131_072));
    let form = query::form(&[("query", &long)]);
    let reply = client.request("POST", &target, &[form_type], Some(form.as_bytes()));
    assert_eq!(reply.expect(400), "invalid query expression\n");
    // Ids are read in upper case, too.
    let id = list(&mut client, "fake")[0]["request_id"].as_str().expect("a text").to_owned();
    let upper = id.to_ascii_uppercase();
    assert_eq!(cancel(&mut client, "fake", &[("request_id", &upper)]), (204, String::new()));
    assert_eq!(list(&mut client, "fake").len(), 2);
}

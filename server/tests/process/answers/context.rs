//! The lines around a line: of its stream alone, exact where many share a nanosecond, from any
//! query that shows the line.

use serde_json::Value;

use crate::support::{Client, DataDir, SECOND_NS, Server, body, entry, now_ns, query, stream};

const CONTEXT: &str = "/loki/api/v1/context";
const PLACES: [(&str, &str); 1] = [("X-Loki-Response-Encoding-Flags", "categorize-labels,places")];

/// Texts and places of the entries of an answer with at most one stream.
fn entries(answer: &Value) -> Vec<(String, String)> {
    let streams = answer["data"]["result"].as_array().expect("streams");
    assert!(streams.len() <= 1, "{answer}");
    let values = streams.iter().flat_map(|one| one["values"].as_array().expect("values"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    values.map(|value| (text(&value[1]), text(&value[2]["place"]))).collect()
}

fn texts(answer: &Value) -> Vec<String> {
    entries(answer).into_iter().map(|(text, _)| text).collect()
}

/// The place of the only line that a query shows.
fn place_of(client: &mut Client, query: &str) -> String {
    let params = [("query", query), ("since", "3h")];
    let target = query::target("/loki/api/v1/query_range", &params);
    let answer = client.request("GET", &target, &PLACES, None).json();
    match &entries(&answer)[..] {
        [(_, place)] => place.clone(),
        other => panic!("{query}: {other:?}"),
    }
}

fn numbered(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("l{number:03}")).collect()
}

#[test]
fn the_lines_around_a_line_are_those_of_its_stream() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "3"]);
    let mut client = server.client();
    let time_ns = now_ns() - 3600 * SECOND_NS;
    let labels = [("app", "x"), ("service_name", "x")];
    let lines = numbered(0..250).into_iter().map(|line| entry(time_ns, line));
    let mut of_stream: Vec<_> = lines.collect();
    of_stream.insert(0, entry(time_ns - SECOND_NS, "before all"));
    of_stream.push(entry(time_ns + SECOND_NS, "behind all").with_metadata(&[("trace", "t")]));
    client.push(&[stream(&labels, of_stream)]);
    // A stream that has these labels, and one more.
    let more = [&labels[..], &[("pod", "p")]].concat();
    let others = [-3000, -1, 0, 1, 3000].map(|s| entry(time_ns + s * SECOND_NS, format!("o{s}")));
    client.push(&[stream(&more, others.to_vec())]);
    let time = time_ns.to_string();
    for stored in [false, true] {
        if stored {
            client.request("POST", "/flush", &[], None).expect(204);
        }
        let shown = [
            r#"{app="x"} |= "l120""#,
            r#"{app="x", pod=""} |= "l120" | json | line_format "y""#,
            r#"{app=~".+"} |= "l120" | label_format app="z", other="o" | keep other"#,
        ];
        let places = shown.map(|query| place_of(&mut client, query));
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
        for query in shown {
            let params = [("query", query), ("time", &time), ("place", &places[0])];
            let bounds = [("before", "5"), ("after", "5")];
            let target = query::target(CONTEXT, &[&params[..], &bounds].concat());
            let answer = client.get(&target).json();
            assert_eq!(texts(&answer), numbered(115..126), "{query}");
            assert_eq!(entries(&answer)[5].1, places[0]);
            let labels = serde_json::json!({"app": "x", "service_name": "x"});
            assert_eq!(answer["data"]["result"][0]["stream"], labels);
            // Both ends of the stream.
            let bounds = [("before", "300"), ("after", "300")];
            let target = query::target(CONTEXT, &[&params[..], &bounds].concat());
            let expected = [&["before all".to_owned()], &numbered(0..250)[..]].concat();
            let expected = [&expected[..], &["behind all".to_owned()]].concat();
            assert_eq!(texts(&client.get(&target).json()), expected, "{query}");
        }
        // On from the outermost line, with the form of a POST.
        let place = place_of(&mut client, r#"{app="x"} |= "l115""#);
        let form = query::target(
            "",
            &[
                ("query", r#"{app="x"}"#),
                ("time", &time),
                ("place", &place),
                ("before", "3"),
                ("after", "0"),
            ],
        );
        let header = [("Content-Type", "application/x-www-form-urlencoded")];
        let form = form.trim_start_matches('?').as_bytes();
        let answer = client.request("POST", CONTEXT, &header, Some(form)).json();
        assert_eq!(texts(&answer), numbered(112..116));
    }
}

#[test]
fn requests_for_lines_around_no_line_are_explained() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let time_ns = now_ns() - 10 * SECOND_NS;
    client.push(&[stream(&[("app", "x")], vec![entry(time_ns, "one"), entry(time_ns, "two")])]);
    let place = place_of(&mut client, r#"{app="x"} |= "one""#);
    let (time, later) = (time_ns.to_string(), (time_ns + 1).to_string());
    let other = format!("{}{}", &place[..16], "0".repeat(16));
    let good = [("query", r#"{app="x"}"#), ("time", &time), ("place", &place)];
    let with = |name, value| {
        let kept = good.into_iter().filter(move |(known, _)| *known != name);
        kept.chain([(name, value)]).collect::<Vec<(&str, &str)>>()
    };
    let gone = "no stream that query selects has the entry of this time and place";
    for (params, status, text) in [
        (with("place", &other), 404, gone),
        (with("time", &later), 404, gone),
        (with("query", r#"{app="y"}"#), 404, gone),
        (with("place", "x"), 400, "place must be that of an entry"),
        (with("place", ""), 400, "place must be that of an entry"),
        (with("time", ""), 400, "time must be that of the entry"),
        (with("time", "soon"), 400, "time"),
        (with("query", ""), 400, "parse error"),
        (with("query", r#"rate({app="x"}[1m])"#), 400, "query must be a log query"),
        (with("before", "-1"), 400, r#"before must be a number of entries, and not "-1""#),
        (with("after", "5001"), 400, "max entries limit per query exceeded"),
        (with("start", &later), 400, "time must lie between start and end"),
        (with("end", &time), 400, "time must lie between start and end"),
    ] {
        let reply = client.get(&query::target(CONTEXT, &params));
        assert_eq!(reply.status, status, "{params:?}: {}", reply.text());
        assert!(reply.text().contains(text), "{params:?}: {}", reply.text());
    }
    // No query is shown places that it did not ask for.
    for flags in ["categorize-labels", "places", "x"] {
        let header = [("X-Loki-Response-Encoding-Flags", flags)];
        let target = query::target("/loki/api/v1/query_range", &good[..1]);
        let answer = client.request("GET", &target, &header, None).text();
        assert!(!answer.contains("\"place\":"), "{flags}: {answer}");
    }
}

#[test]
fn a_place_leads_to_no_line_of_another_tenant() {
    let folder = DataDir::new();
    let flags = ["--auth.enabled", "--querier.multi-tenant-queries-enabled", "--cores", "2"];
    let server = Server::start(folder.path(), &flags);
    let mut client = server.client();
    let time_ns = now_ns() - 10 * SECOND_NS;
    let streams = [stream(&[("app", "x")], vec![entry(time_ns, "one"), entry(time_ns, "two")])];
    let sent = body::json(&streams);
    let tenants = ["owner", "other", "owner|other"].map(|tenant| ("X-Scope-OrgID", tenant));
    let headers = [("Content-Type", "application/json"), tenants[0]];
    client.request("POST", "/loki/api/v1/push", &headers, Some(sent.as_bytes())).expect(204);
    let mut place_for = |tenant| {
        let target =
            query::target("/loki/api/v1/query_range", &[("query", r#"{app="x"} |= "one""#)]);
        let answer = client.request("GET", &target, &[PLACES[0], tenant], None).json();
        entries(&answer).pop().map(|(_, place)| place)
    };
    let places = tenants.map(&mut place_for);
    assert_eq!(places[1], None);
    let time = time_ns.to_string();
    for (shown, place) in places.iter().enumerate().filter_map(|(at, it)| Some((at, it.as_ref()?)))
    {
        for (asking, tenant) in tenants.into_iter().enumerate() {
            let params = [("query", r#"{app="x"}"#), ("time", &time), ("place", place)];
            let reply = client.request("GET", &query::target(CONTEXT, &params), &[tenant], None);
            // The labels of a stream that several tenants are asked about tell its tenant.
            let status = if asking == shown { 200 } else { 404 };
            assert_eq!(reply.status, status, "{shown} {asking}: {}", reply.text());
        }
    }
}

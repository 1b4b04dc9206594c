//! Tails over real sockets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::websocket::{Frame, WebSocket};
use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

const APP: &str = r#"{app="tail"}"#;

fn target(params: &[(&str, &str)]) -> String {
    query::target("/loki/api/v1/tail", params)
}

fn open(server: &Server, params: &[(&str, &str)]) -> WebSocket {
    let opened = WebSocket::open(server.address(), &target(params), &[]);
    opened.unwrap_or_else(|reply| panic!("{}: {}", reply.status, reply.text()))
}

fn push_line(client: &mut Client, timestamp_ns: i64, line: &str) {
    let labels = [("app", "tail"), ("service_name", "tail")];
    client.push(&[stream(&labels, vec![entry(timestamp_ns, line)])]);
}

#[test]
fn history_and_new_entries_meet_without_gap_or_repetition() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let (start_ns, stop) = (now_ns(), AtomicBool::new(false));
    thread::scope(|scope| {
        let (address, stop) = (server.address().to_owned(), &stop);
        // Two streams, which may live in different shards.
        scope.spawn(move || {
            let mut client = Client::new(&address);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let of_pod = |pod| {
                    let labels = [("app", "tail"), ("pod", pod), ("service_name", "tail")];
                    stream(&labels, vec![entry(start_ns + number, number.to_string())])
                };
                client.push(&[of_pod("a"), of_pod("b")]);
                number += 1;
                thread::sleep(Duration::from_millis(1));
            }
        });
        // Equal tails that join one after another, and one that is not shared.
        let clients: Vec<_> = (0..8)
            .map(|number| {
                let server = &server;
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(40 * number));
                    let query = if number == 5 { r#"{app="tail"} |~ "[0-9]""# } else { APP };
                    let mut tail = open(server, &[("query", query), ("limit", "5000")]);
                    tail.entries(1200)
                })
            })
            .collect();
        for client in clients {
            let entries = client.join().expect("a client");
            for pod in ["a", "b"] {
                let of_pod = entries.iter().filter(|(labels, _, _)| labels["pod"] == pod);
                let numbers: Vec<usize> =
                    of_pod.map(|(_, _, line)| line.parse().expect("a number")).collect();
                let expected: Vec<usize> = (0..numbers.len()).collect();
                assert_eq!(numbers, expected, "from the first line on, each once");
                assert!(numbers.len() > 300);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn history_is_the_newest_entries_since_the_start() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let (mut client, now_ns) = (server.client(), now_ns());
    push_line(&mut client, now_ns - 7000 * SECOND_NS, "two hours ago");
    for seconds in (1..=5).rev() {
        push_line(&mut client, now_ns - seconds * SECOND_NS, &format!("{seconds}s ago"));
    }
    assert_eq!(open(&server, &[("query", APP)]).lines(5)[0], "5s ago");
    let mut tail = open(&server, &[("query", APP), ("limit", "2")]);
    assert_eq!(tail.lines(2), ["2s ago", "1s ago"], "oldest first");
    let start = (now_ns - 3 * SECOND_NS).to_string();
    let mut tail = open(&server, &[("query", APP), ("start", &start)]);
    assert_eq!(tail.lines(3), ["3s ago", "2s ago", "1s ago"]);
    // New lines are not limited, and may be older than shown lines.
    push_line(&mut client, now_ns - 100 * SECOND_NS, "late");
    push_line(&mut client, now_ns, "new");
    assert_eq!(tail.lines(2), ["late", "new"]);
    // A push that is repeated shows nothing new.
    push_line(&mut client, now_ns, "new");
    push_line(&mut client, now_ns, "newer");
    assert_eq!(tail.lines(1), ["newer"]);
}

#[test]
fn delayed_tails_are_in_order() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    let mut tail = open(&server, &[("query", APP), ("delay_for", "2")]);
    assert_eq!(tail.next(), Frame::Ping);
    let now_ns = now_ns();
    for (offset_ms, line) in [(300, "d"), (100, "b"), (200, "c"), (0, "a")] {
        push_line(&mut client, now_ns + offset_ms * 1_000_000, line);
    }
    assert_eq!(tail.lines(4), ["a", "b", "c", "d"]);
    let waited_ns = crate::support::now_ns() - now_ns;
    assert!((2 * SECOND_NS..20 * SECOND_NS).contains(&waited_ns), "{waited_ns}");
}

#[test]
fn a_client_that_does_not_read_misses_entries_and_costs_no_memory() {
    let folder = DataDir::new();
    let more = ["--cores", "2", "--memory.max-bytes", "256MB"];
    let server = Server::start(folder.path(), &more);
    let mut client = server.client();
    push_line(&mut client, now_ns(), "first");
    let mut slow = open(&server, &[("query", APP)]);
    assert_eq!(slow.lines(1), ["first"]);
    let before_bytes = server.memory_bytes("VmRSS");
    let line = "z".repeat(1000);
    let start_ns = now_ns();
    let mut pushed = 0;
    for _ in 0..40 {
        let entries = (pushed..pushed + 2000).map(|n| entry(start_ns + n, line.as_str())).collect();
        pushed += 2000;
        client.push(&[stream(&[("app", "tail"), ("service_name", "tail")], entries)]);
    }
    let max_bytes = server.metric("logsvc_memory_max_bytes{budget=\"tails\"}");
    let peak_bytes = server.metric("logsvc_memory_peak_bytes{budget=\"tails\"}");
    assert!(peak_bytes > 0.0 && peak_bytes <= max_bytes, "{peak_bytes} of {max_bytes}");
    // Heads may have grown to their bound; frames for a client that is gone must not come on top.
    let grown_bytes = server.memory_bytes("VmRSS").saturating_sub(before_bytes);
    assert!(grown_bytes < 256 << 20, "{grown_bytes}");
    let (mut seen, mut told) = (0, 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    while told == 0 {
        assert!(Instant::now() < deadline, "{seen} entries, and none missed");
        match slow.next() {
            Frame::Json(frame) => {
                seen += frame["streams"].as_array().expect("a list").len();
                if let Some(dropped) = frame["dropped_entries"].as_array() {
                    told += dropped.len();
                    let labels = json!({"app": "tail", "service_name": "tail"});
                    assert_eq!(dropped[0]["labels"], labels);
                    let time_ns = dropped[0]["timestamp"].as_str().map(str::parse::<i64>);
                    let time_ns = time_ns.expect("a text").expect("a number");
                    assert!((start_ns..start_ns + pushed).contains(&time_ns));
                }
            }
            Frame::Ping => {
                // Frames that tell of missed entries go out with new ones.
                push_line(&mut client, now_ns(), "more");
            }
            Frame::Close(code, reason) => panic!("{code} {reason}"),
        }
    }
    assert!(seen > 1 && told <= 2000, "{seen} {told}");
    assert!(server.metric("logsvc_tail_missed_entries_total") > 0.0);
    assert!(server.metric("loki_querier_tail_bytes_total") > 0.0);
    // It is served again, from now on: as soon as it has caught up.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the client is not served any more");
        match slow.next() {
            Frame::Json(frame) if frame["streams"].to_string().contains("the end") => break,
            Frame::Json(_) => {}
            Frame::Ping => push_line(&mut client, now_ns(), "the end"),
            Frame::Close(code, reason) => panic!("{code} {reason}"),
        }
    }
}

#[test]
fn tails_are_limited_in_number_and_time() {
    let folder = DataDir::new();
    let more = ["--cores", "2", "--limits.max-concurrent-tail-requests", "2"];
    let server = Server::start(folder.path(), &more);
    let (mut first, mut second) =
        (open(&server, &[("query", APP)]), open(&server, &[("query", APP)]));
    assert_eq!((first.next(), second.next()), (Frame::Ping, Frame::Ping));
    assert_eq!(server.metric("loki_querier_tail_active"), 2.0);
    let text = "max concurrent tail requests limit exceeded, count > limit (3 > 2)";
    assert_eq!(open(&server, &[("query", APP)]).closed(), (1011, text.to_owned()));
    first.close();
    assert_eq!(first.closed(), (1000, String::new()));
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.metric("loki_querier_tail_active") > 1.0 {
        assert!(Instant::now() < deadline, "the tail is still counted");
    }
    let mut third = open(&server, &[("query", APP)]);
    assert_eq!(third.next(), Frame::Ping);
    // The server also notices a client that vanishes without a close.
    drop((second, third));
    while server.metric("loki_querier_tail_active") > 0.0 {
        assert!(Instant::now() < deadline, "tails are still counted");
        thread::sleep(Duration::from_millis(20));
    }
    server.stop();

    let more = ["--querier.tail-max-duration", "1500ms", "--limits.max-query-length", "2h"];
    let server = Server::start(folder.path(), &more);
    let start = (now_ns() - 3 * 3600 * SECOND_NS).to_string();
    let (code, reason) = open(&server, &[("query", APP), ("start", &start)]).closed();
    assert_eq!(code, 1011);
    assert!(
        reason.starts_with("the query time range exceeds the limit (query length: 3h"),
        "{reason}"
    );
    assert!(reason.ends_with("limit: 2h)"), "{reason}");
    let metric = r#"rate({app="tail"}[1m])"#;
    let text = "only log selector is supported";
    assert_eq!(open(&server, &[("query", metric)]).closed(), (1011, text.to_owned()));
    let text = "reached tail max duration limit";
    assert_eq!(open(&server, &[("query", APP)]).closed(), (1011, text.to_owned()));
}

#[test]
fn a_stop_closes_tails() {
    for runtime in ["monoio", "glommio"] {
        if runtime == "glommio" && !crate::support::node::glommio_works() {
            continue;
        }
        let folder = DataDir::new();
        let more = ["--cores", "2", "--runtime", runtime];
        let server = Server::start(folder.path(), &more);
        push_line(&mut server.client(), now_ns(), "x");
        let mut tails: Vec<_> = (0..6).map(|_| open(&server, &[("query", APP)])).collect();
        tails.iter_mut().for_each(|tail| assert_eq!(tail.lines(1), ["x"]));
        let begun = Instant::now();
        server.terminate();
        for tail in &mut tails {
            assert_eq!(tail.closed(), (1001, "the server stops".to_owned()));
            tail.close();
        }
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn tenants_see_their_own_entries() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2", "--auth.enabled=true"]);
    let tenant = |name| [("X-Scope-OrgID", name)];
    let of_tenant = |name| {
        let opened = WebSocket::open(server.address(), &target(&[("query", APP)]), &tenant(name));
        opened.unwrap_or_else(|reply| panic!("{}", reply.text()))
    };
    let (mut one, mut two) = (of_tenant("one"), of_tenant("two"));
    assert_eq!((one.next(), two.next()), (Frame::Ping, Frame::Ping));
    for name in ["two", "one"] {
        let labels = [("app", "tail"), ("service_name", "tail")];
        let body = crate::support::body::json(&[stream(&labels, vec![entry(now_ns(), name)])]);
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", name)];
        let mut client = server.client();
        client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes())).expect(204);
    }
    assert_eq!(one.lines(1), ["one"]);
    assert_eq!(two.lines(1), ["two"]);
    let refused = |headers: &[(&str, &str)]| {
        let refused = WebSocket::open(server.address(), &target(&[("query", APP)]), headers);
        refused.err().map(|reply| (reply.status, reply.text()))
    };
    assert_eq!(refused(&[]), Some((401, "no org id\n".to_owned())));
    assert_eq!(refused(&tenant("one|two")).map(|(status, _)| status), Some(400));
}

#[test]
fn the_old_path_has_its_own_form() {
    let folder = DataDir::new();
    let server =
        Server::start(folder.path(), &["--cores", "1", "--limits.discover-log-levels=false"]);
    let mut client = server.client();
    let start = (now_ns() - SECOND_NS).to_string();
    let params = [("query", APP), ("regexp", "w.nted"), ("start", &start)];
    let path = query::target("/api/prom/tail", &params);
    push_line(&mut client, now_ns(), "not this one");
    push_line(&mut client, now_ns() + 1, "wanted");
    let mut tail = WebSocket::open(server.address(), &path, &[]).unwrap_or_else(|reply| {
        panic!("{}", reply.text());
    });
    let Frame::Json(frame) = tail.next_told() else { panic!("no frame") };
    assert_eq!(frame["streams"].as_array().map(Vec::len), Some(1));
    assert_eq!(frame["streams"][0]["labels"], r#"{app="tail", service_name="tail"}"#);
    assert_eq!(frame["streams"][0]["entries"][0]["line"], "wanted");
    assert!(frame["streams"][0]["entries"][0]["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')));
    assert!(frame["dropped_entries"].is_null());
    // Not a WebSocket.
    let reply = client.get(&path);
    assert_eq!(reply.expect(400), "Bad Request\n");
    assert_eq!(reply.header("sec-websocket-version"), Some("13"));
    let bad = query::target("/api/prom/tail", &[("query", APP), ("regexp", "(")]);
    let refused = WebSocket::open(server.address(), &bad, &[]).err();
    assert_eq!(refused.map(|reply| reply.status), Some(400));
    let reply = client.get(&target(&[("query", APP), ("delay_for", "6")]));
    assert_eq!(reply.expect(400), "delay_for can't be greater than 5");
}

/// `stream` and the third member of `values`, for each line.
fn labels_of(tail: &mut WebSocket, count: usize) -> Vec<(String, Value, Value)> {
    let mut found = Vec::new();
    while found.len() < count {
        let Frame::Json(frame) = tail.next_told() else { panic!("closed, after {found:?}") };
        for stream in frame["streams"].as_array().expect("streams") {
            let value = &stream["values"][0];
            let line = value[1].as_str().expect("a line").to_owned();
            found.push((line, stream["stream"].clone(), value[2].clone()));
        }
    }
    found
}

#[test]
fn new_entries_have_the_labels_of_history_where_labels_are_apart_or_a_stage_is_there() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let before_ns = now_ns();
    push_line(&mut client, before_ns, "plain");
    push_line(&mut client, before_ns + 1, "level=warn");
    let header = [("X-Loki-Response-Encoding-Flags", "categorize-labels")];
    let staged = r#"{app="tail"} != "nothing""#;
    let open_with = |params: &[(&str, &str)], headers: &[(&str, &str)]| {
        let opened = WebSocket::open(server.address(), &target(params), headers);
        opened.unwrap_or_else(|reply| panic!("{}", reply.text()))
    };
    let mut by_param = open_with(&[("query", APP), ("categorize", "true")], &[]);
    let mut by_header = open_with(&[("query", APP), ("categorize", "false")], &header);
    let mut merged = open_with(&[("query", staged), ("categorize", "")], &[]);
    let mut streams_only = open_with(&[("query", APP)], &[]);
    let of_stream = json!({"app": "tail", "service_name": "tail"});
    let with =
        |level: &str| json!({"app": "tail", "service_name": "tail", "detected_level": level});
    let apart = |level: &str| json!({"structuredMetadata": {"detected_level": level}});
    let are_apart = [
        ("plain".to_owned(), of_stream.clone(), apart("unknown")),
        ("level=warn".to_owned(), of_stream.clone(), apart("warn")),
    ];
    let are_merged = [
        ("plain".to_owned(), with("unknown"), Value::Null),
        ("level=warn".to_owned(), with("warn"), Value::Null),
    ];
    let are_hidden = [
        ("plain".to_owned(), of_stream.clone(), Value::Null),
        ("level=warn".to_owned(), of_stream.clone(), Value::Null),
    ];
    let mut tails = [
        ("by parameter", &mut by_param, &are_apart, &are_apart),
        ("by header", &mut by_header, &are_apart, &are_apart),
        ("with a stage", &mut merged, &are_merged, &are_merged),
        // As the reference has it: history with all labels, new entries with those of the stream.
        ("without a stage", &mut streams_only, &are_merged, &are_hidden),
    ];
    for (what, tail, history, _) in &mut tails {
        assert_eq!(labels_of(tail, 2), *history, "history, {what}");
    }
    let after_ns = now_ns();
    push_line(&mut client, after_ns, "plain");
    push_line(&mut client, after_ns + 1, "level=warn");
    for (what, tail, _, new) in &mut tails {
        assert_eq!(labels_of(tail, 2), *new, "new entries, {what}");
    }
}

#[test]
fn the_parameter_that_keeps_labels_apart_is_checked_before_the_upgrade() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    for bad in ["1", "True", "yes", "true,false"] {
        let refused = target(&[("query", APP), ("categorize", bad)]);
        let reply = WebSocket::open(server.address(), &refused, &[]).err().expect("refused");
        let text = format!("categorize is true or false, and not {bad:?}");
        assert_eq!((reply.status, reply.text()), (400, text));
    }
    // The old interface has one form of frames.
    let old = query::target("/api/prom/tail", &[("query", APP), ("categorize", "true")]);
    push_line(&mut server.client(), now_ns(), "x");
    let Ok(mut tail) = WebSocket::open(server.address(), &old, &[]) else { panic!("no upgrade") };
    let Frame::Json(frame) = tail.next_told() else { panic!("no frame") };
    assert!(frame["streams"][0]["labels"].is_string() && frame["encodingFlags"].is_null());
}

//! Queries that wait for their turn: which are refused, which go first, and how they end when their
//! client goes away.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::client::connect;
use crate::support::{Client, DataDir, SECOND_NS, Server, body, entry, now_ns, query, stream};

/// Long lines, over which a slow query takes half a minute at least. Each is a stream of
/// its own, so that the query gives the core to others after each.
pub(crate) fn fill(client: &mut Client, tenant: &str, now_ns: i64) {
    let line = "abcdefghij".repeat(500);
    let streams: Vec<_> = (0..2000)
        .map(|number: i64| {
            let pod = number.to_string();
            let labels = [("app", "long"), ("pod", pod.as_str()), ("service_name", "long")];
            stream(&labels, vec![entry(now_ns - number, line.as_str())])
        })
        .collect();
    let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", tenant)];
    let body = body::json(&streams);
    client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes())).expect(204);
}

/// The form of a query that works on the long lines for long. Each `mark` is another
/// query.
pub(crate) fn slow(mark: &str, now_ns: i64) -> String {
    let stage = "| line_format \"{{ regexReplaceAll `([a-e])([f-j])` __line__ `$1$2` }}\" ";
    let stages = stage.repeat(20);
    let parts: Vec<String> = (0..5)
        .map(|part| {
            format!(r#"sum(count_over_time({{app="long"}} {stages} |= "{mark}{part}" [1h]))"#)
        })
        .collect();
    let (text, time) = (parts.join(" + "), (now_ns + 1).to_string());
    query::form(&[("query", &text), ("time", &time)])
}

/// The headers of a form.
pub(crate) fn form_headers(tenant: &str) -> [(&str, &str); 2] {
    [("X-Scope-OrgID", tenant), ("Content-Type", "application/x-www-form-urlencoded")]
}

/// A query that is answered as soon as it runs.
pub(crate) fn quick(mark: &str, now_ns: i64) -> String {
    let (text, end) = (format!(r#"{{app="none"}} |= "{mark}""#), (now_ns + 1).to_string());
    query::target("/loki/api/v1/query_range", &[("query", &text), ("end", &end)])
}

/// Sends a request and does not wait for the answer.
pub(crate) fn send(server: &Server, target: &str, tenant: &str) -> TcpStream {
    let mut connection = connect(server.address()).expect("a connection");
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nX-Scope-OrgID: {tenant}\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("sent");
    connection
}

/// [`send`] with a form as the body.
pub(crate) fn send_form(server: &Server, path: &str, form: &str, tenant: &str) -> TcpStream {
    let mut connection = connect(server.address()).expect("a connection");
    let mut request = format!("POST {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in form_headers(tenant) {
        request += &format!("{name}: {value}\r\n");
    }
    request += &format!("Content-Length: {}\r\n\r\n{form}", form.len());
    connection.write_all(request.as_bytes()).expect("sent");
    connection
}

/// Waits until a metric has a value.
#[track_caller]
pub(crate) fn await_metric(server: &Server, name: &str, value: f64) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = server.metric(name);
        if found == value {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is {found}, not {value}");
        thread::sleep(Duration::from_millis(5));
    }
}

const QUERY: &str = "/loki/api/v1/query";
const RUNNING: &str = "logsvc_queries_running{work=\"query\"}";
const WAITING: &str = "logsvc_queries_waiting{work=\"query\"}";

/// One place, of which a slow query of tenant `a` has hold.
fn busy(folder: &DataDir, more: &[&str]) -> (Server, TcpStream, i64) {
    let args = [&["--auth.enabled", "--cores=2", "--querier.max-concurrent=1"], more].concat();
    let server = Server::start(folder.path(), &args);
    let now_ns = now_ns();
    fill(&mut server.client(), "a", now_ns);
    let running = send_form(&server, QUERY, &slow("first", now_ns), "a");
    await_metric(&server, RUNNING, 1.0);
    (server, running, now_ns)
}

#[test]
fn a_full_queue_refuses_and_others_still_get_in() {
    let folder = DataDir::new();
    let more = ["--query-scheduler.max-outstanding-requests-per-tenant=2"];
    let (server, running, now_ns) = busy(&folder, &more);
    let get = |target: &str, tenant: &str| {
        server.client().request("GET", target, &[("X-Scope-OrgID", tenant)], None)
    };
    thread::scope(|scope| {
        let waiting: Vec<_> = ["one", "two"]
            .map(|mark| scope.spawn(move || get(&quick(mark, now_ns), "a")))
            .into_iter()
            .collect();
        await_metric(&server, WAITING, 2.0);
        assert_eq!(server.metric("loki_query_scheduler_queue_length{user=\"a\"}"), 2.0);
        let refused = get(&quick("three", now_ns), "a");
        assert_eq!(refused.expect(429), "too many outstanding requests");
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(server.metric("logsvc_queries_refused_total"), 1.0);
        // Labels need no turn of queries, and pushes none at all.
        get("/loki/api/v1/labels", "a").expect(200);
        get("/loki/api/v1/index/stats?query={app=%22none%22}", "a").expect(200);
        fill(&mut server.client(), "a", now_ns - SECOND_NS);
        // Another tenant has a queue of its own.
        let other = scope.spawn(move || get(&quick("four", now_ns), "b"));
        await_metric(&server, WAITING, 3.0);
        // One that goes away while it waits makes room for another.
        let gone = send(&server, &quick("five", now_ns), "b");
        await_metric(&server, WAITING, 4.0);
        drop(gone);
        await_metric(&server, WAITING, 3.0);
        // When the slow query's client goes, all waiting queries have their turn.
        drop(running);
        let waited = other.join().expect("a client").json();
        let queue_time = &waited["data"]["stats"]["summary"]["queueTime"];
        assert!(queue_time.as_f64().is_some_and(|seconds| seconds > 0.0), "{queue_time}");
        for client in waiting {
            client.join().expect("a client").expect(200);
        }
    });
    await_metric(&server, RUNNING, 0.0);
    // The slow one never had to wait for long, the four others did.
    assert!(server.metric("loki_query_scheduler_queue_duration_seconds_count") >= 4.0);
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn the_time_in_the_queue_counts() {
    let folder = DataDir::new();
    let (server, running, now_ns) = busy(&folder, &["--limits.query-timeout=2s"]);
    let begun = Instant::now();
    thread::scope(|scope| {
        let server = &server;
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let form = slow(&format!("n{number}"), now_ns);
                scope.spawn(move || {
                    let body = Some(form.as_bytes());
                    server.client().request("POST", QUERY, &form_headers("a"), body)
                })
            })
            .collect();
        for client in clients {
            let text = client.join().expect("a client").expect(504);
            assert!(text.starts_with("request timed out, decrease the duration"), "{text}");
        }
    });
    // One after another they would have taken six times as long.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    drop(running);
    await_metric(&server, RUNNING, 0.0);
}

#[test]
fn a_burst_of_a_dashboard_just_works() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores=2"]);
    let now_ns = now_ns();
    fill(&mut server.client(), "fake", now_ns);
    assert_eq!(server.metric("logsvc_query_places{work=\"query\"}"), 8.0);
    let end = (now_ns + 1).to_string();
    thread::scope(|scope| {
        let (server, end) = (&server, &end);
        for panel in 0..50 {
            scope.spawn(move || {
                let text =
                    format!(r#"sum(count_over_time({{app="long"}} |~ "j(x{panel})?a" [1h]))"#);
                let params = [("query", text.as_str()), ("end", end), ("step", "60")];
                let target = query::target("/loki/api/v1/query_range", &params);
                let answer = server.get(&target).json();
                assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(1), "{answer}");
            });
        }
    });
    assert_eq!(server.metric("logsvc_queries_refused_total"), 0.0);
    assert_eq!(server.metric("logsvc_memory_refused_total{budget=\"queries\"}"), 0.0);
}

#[test]
fn zero_parallelism_forbids_queries() {
    for flag in ["--limits.max-query-parallelism=0", "--limits.tsdb-max-query-parallelism=0"] {
        let folder = DataDir::new();
        let server = Server::start(folder.path(), &["--cores=1", flag]);
        let refused = server.get(&quick("x", now_ns()));
        assert_eq!(refused.expect(429), "querying is disabled, please contact your operator");
        server.get("/loki/api/v1/labels").expect(200);
    }
}

#[test]
fn equal_queries_run_once() {
    let folder = DataDir::new();
    let (server, running, now_ns) = busy(&folder, &[]);
    let target = quick("same", now_ns);
    // The first to ask goes away before there is an answer.
    let first = send(&server, &target, "a");
    await_metric(&server, WAITING, 1.0);
    let get = |tenant: &str, flags: &str| {
        let headers = [("X-Scope-OrgID", tenant), ("X-Loki-Response-Encoding-Flags", flags)];
        server.client().request("GET", &target, &headers, None)
    };
    thread::scope(|scope| {
        let same: Vec<_> = (0..6).map(|_| scope.spawn(|| get("a", ""))).collect();
        await_metric(&server, "logsvc_queries_shared_total", 6.0);
        assert_eq!(server.metric(WAITING), 1.0);
        // Another form of answer or another tenant is another run.
        let flagged = scope.spawn(|| get("a", "categorize-labels"));
        let other = scope.spawn(|| get("b", ""));
        await_metric(&server, WAITING, 3.0);
        drop(first);
        // One that is alone and goes away takes its run with it.
        let alone = send(&server, &quick("alone", now_ns), "a");
        await_metric(&server, WAITING, 4.0);
        drop(alone);
        await_metric(&server, WAITING, 3.0);
        drop(running);
        let bodies: Vec<String> =
            same.into_iter().map(|client| client.join().expect("a client").expect(200)).collect();
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
        assert!(flagged.join().expect("a client").expect(200).contains("encodingFlags"));
        other.join().expect("a client").expect(200);
    });
    assert_eq!(server.metric("logsvc_queries_shared_total"), 6.0);
    await_metric(&server, RUNNING, 0.0);
    // Nothing is remembered.
    let runs = server.metric("loki_query_scheduler_queue_duration_seconds_count");
    get("a", "").expect(200);
    assert_eq!(server.metric("loki_query_scheduler_queue_duration_seconds_count"), runs + 1.0);
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn a_query_after_a_push_runs_anew() {
    const SHARED: &str = "logsvc_queries_shared_total";
    let folder = DataDir::new();
    let (server, running, now_ns) = busy(&folder, &[]);
    let same = send_form(&server, QUERY, &slow("first", now_ns), "a");
    await_metric(&server, SHARED, 1.0);
    assert_eq!(server.metric(WAITING), 0.0);
    fill(&mut server.client(), "a", now_ns - SECOND_NS);
    let newer = send_form(&server, QUERY, &slow("first", now_ns), "a");
    await_metric(&server, WAITING, 1.0);
    // The newer one has not begun, so it will see entries that come until then.
    let newest = send_form(&server, QUERY, &slow("first", now_ns), "a");
    await_metric(&server, SHARED, 2.0);
    assert_eq!(server.metric(WAITING), 1.0);
    // The first run goes on for the one that has joined it, and ends with it.
    drop(running);
    assert_eq!((server.metric(RUNNING), server.metric(WAITING)), (1.0, 1.0));
    drop(same);
    await_metric(&server, WAITING, 0.0);
    drop((newer, newest));
    await_metric(&server, RUNNING, 0.0);
    let log = server.stop();
    assert!(!log.contains("panicked"), "{log}");
}

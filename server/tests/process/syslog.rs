//! Syslog, as senders see it: over TCP and TLS, with a stop, a kill and refusals.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{DataDir, Server, now_ns, query};

/// An address without a listener.
pub(super) fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").to_string()
}

/// A server that takes syslog at the address.
fn start(data: &DataDir, address: &str, more: &[&str]) -> Server {
    let flag = format!("--intake.syslog.tcp-address={address}");
    Server::start(data.path(), &[&[flag.as_str(), "--cores", "2"], more].concat())
}

pub(super) fn connect(address: &str) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(address) {
            Ok(connection) => return connection,
            Err(error) => assert!(Instant::now() < deadline, "nobody listens: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks until the answer has so many lines.
pub(super) fn await_lines(server: &Server, text: &str, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let data = query::range(&mut server.client(), text, &[("direction", "forward")]);
        let texts = query::texts(&data);
        if texts.len() >= count {
            assert_eq!(texts.len(), count, "{texts:?}");
            return texts;
        }
        assert!(Instant::now() < deadline, "{text}: {texts:?}\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(super) fn await_metric(server: &Server, name: &str, expected: f64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.metric(name) < expected {
        assert!(Instant::now() < deadline, "{name}: {}", server.metric(name));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.metric(name), expected, "{name}");
}

/// A time as RFC 5424 writes it.
pub(super) fn stamp(unix_ns: i64) -> String {
    let mut text = Vec::new();
    logsvc_proto::time::write_rfc3339_nano(Some(unix_ns), &mut text);
    String::from_utf8(text).expect("ASCII")
}

#[test]
fn both_framings_share_a_connection_and_nothing_is_lost_by_a_kill() {
    let (data, address) = (DataDir::new(), free_address());
    let server = start(&data, &address, &[]);
    let mut sender = connect(&address);
    let now = stamp(now_ns());
    let first = format!("<11>1 {now} h1 app 7 - - one\ntwo");
    let second = format!("<13>1 {now} h1 app 7 - [a@1 p=\"1\\\\2\"] \u{feff}{{\"a\":1}}");
    let text = format!(
        "{} {first}{} {second}2026-11-25 03:00:02 x\n<30>device=\"fw\" log_id=\"1\"\nhello\r\n",
        first.len(),
        second.len(),
    );
    sender.write_all(text.as_bytes()).expect("sent");
    sender.write_all(b"<13>1 - h2 app - - - fo\xffo\n").expect("sent");
    let lines = await_lines(&server, r#"{host="h1"}"#, 2);
    assert_eq!(lines, ["one\ntwo", r#"{"a":1}"#]);
    assert_eq!(await_lines(&server, r#"{host="h1"} | json | a="1""#, 1), [r#"{"a":1}"#]);
    assert_eq!(await_lines(&server, r#"{app="app", facility="user"} | p=`1\2`"#, 1).len(), 1);
    assert_eq!(await_lines(&server, r#"{host="h1"} | level="error" | pid="7""#, 1), ["one\ntwo"]);
    let lines = await_lines(&server, r#"{host="127.0.0.1"}"#, 3);
    for line in ["2026-11-25 03:00:02 x", "device=\"fw\" log_id=\"1\"", "hello"] {
        assert!(lines.iter().any(|found| found == line), "{lines:?}");
    }
    assert_eq!(await_lines(&server, r#"{host="h2"}"#, 1), ["fo\u{fffd}o"]);
    assert_eq!(server.metric("logsvc_syslog_tcp_messages_total"), 6.0);
    assert_eq!(server.metric("logsvc_syslog_parse_failures_total"), 3.0);
    assert_eq!(server.metric("logsvc_syslog_invalid_utf8_total"), 1.0);
    assert_eq!(server.metric("logsvc_syslog_connections"), 1.0);
    server.kill();

    let server = start(&data, &address, &[]);
    assert_eq!(await_lines(&server, r#"{facility="user"}"#, 5).len(), 5);
    server.stop();
}

#[test]
fn what_was_received_before_a_stop_is_stored() {
    let (data, address) = (DataDir::new(), free_address());
    let server = start(&data, &address, &[]);
    let mut sender = connect(&address);
    let lines: String = (0..2000).map(|n| format!("<13>1 - h1 app - - - line {n}\n")).collect();
    sender.write_all(lines.as_bytes()).expect("sent");
    // Without an end: the connection stays open, and the stop ends the message.
    sender.write_all(b"<13>1 - h1 app - - - last").expect("sent");
    await_lines(&server, r#"{host="h1"} |= "line 0""#, 1);
    server.stop();
    let server = start(&data, &address, &[]);
    let counted = r#"sum(count_over_time({host="h1"}[1h]))"#;
    let found = query::instant(&mut server.client(), counted, now_ns());
    assert_eq!(query::vector(&found)[0].1, 2001.0);
    server.stop();
}

#[test]
fn refusals_are_counted_and_listed_and_leave_the_connection_open() {
    let (data, address) = (DataDir::new(), free_address());
    let flags = [
        "--intake.syslog.max-message-size=16KB",
        "--limits.reject-old-samples=true",
        "--limits.reject-old-samples-max-age=168h",
    ];
    let server = start(&data, &address, &flags);
    let mut sender = connect(&address);
    let old = now_ns() - 30 * 24 * 3_600_000_000_000;
    for number in 0..100 {
        let line = format!("<13>1 {} h1 app - - - old {number}\n", stamp(old + number));
        sender.write_all(line.as_bytes()).expect("sent");
    }
    let long = format!("<13>1 - h1 app - - - {}", "a".repeat(30_000));
    sender.write_all(format!("{} {long}{long}\n", long.len()).as_bytes()).expect("sent");
    let ahead = stamp(now_ns() + 24 * 3_600_000_000_000);
    sender.write_all(format!("<13>1 {ahead} h1 app - - - ahead\n").as_bytes()).expect("sent");
    sender.write_all(b"19 <14>1 - - - - - - x").expect("sent");
    assert_eq!(await_lines(&server, r#"{facility="user"}"#, 1), ["x"]);

    let listed: Value = server.get("/loki/api/v1/refusals").json();
    let text = listed.to_string();
    for (reason, count) in
        [("greater_than_max_sample_age", 100), ("line_too_long", 2), ("too_far_in_future", 1)]
    {
        assert!(text.contains(reason), "{text}");
        let name = format!("loki_discarded_samples_total{{reason=\"{reason}\",tenant=\"fake\"}}");
        assert_eq!(server.metric(&name), f64::from(count), "{reason}");
    }
    assert!(text.contains("127.0.0.1") && text.contains("syslog"), "{text}");
    await_metric(&server, "logsvc_syslog_tcp_messages_total", 104.0);
    server.stop();
}

#[test]
fn a_listener_without_its_needs_is_refused_at_the_start() {
    let data = DataDir::new();
    for (flags, text) in [
        (
            vec!["--intake.syslog.tcp-address=127.0.0.1:601", "--auth.enabled=true"],
            "intake.syslog.tenant: must be set",
        ),
        (vec!["--intake.syslog.tls-address=127.0.0.1:6514"], "needs the certificate"),
        (vec!["--intake.syslog.time-zone=Mars/Olympus"], "neither a zone"),
    ] {
        let (status, log) = Server::launch(data.path(), &flags).wait();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(text), "{log}");
    }
}

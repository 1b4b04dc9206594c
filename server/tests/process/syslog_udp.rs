//! Syslog over UDP, as senders see it.

use std::net::UdpSocket;

use serde_json::Value;

use crate::support::{DataDir, Server, now_ns, query};
use crate::syslog::{await_lines, await_metric, stamp};

/// An address at which nobody takes datagrams.
fn free_address() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("it is bound").to_string()
}

fn start(data: &DataDir, address: &str, more: &[&str]) -> Server {
    let flag = format!("--intake.syslog.udp-address={address}");
    let server = Server::start(data.path(), &[&[flag.as_str(), "--cores", "2"], more].concat());
    await_listener(&server, address);
    server
}

/// Sends empty datagrams until one comes to a socket. An empty message is none.
fn await_listener(server: &Server, address: &str) {
    let probe = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    probe.connect(address).expect("an address");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    // The kernel answers a datagram to a closed port, and the next call reports it.
    loop {
        let _ = probe.send(b"");
        std::thread::sleep(std::time::Duration::from_millis(20));
        if probe.send(b"").is_ok() {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "nobody listens\n{}", server.log_text());
    }
}

/// A socket of a sender.
fn sender(address: &str, from: &str) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).expect("a socket");
    socket.connect(address).expect("an address");
    socket
}

#[test]
fn each_datagram_is_a_message_and_stays_after_a_kill() {
    let (data, address) = (DataDir::new(), free_address());
    let server = start(&data, &address, &[]);
    let (one, two) = (sender(&address, "127.0.0.1"), sender(&address, "127.0.0.2"));
    let now = stamp(now_ns());
    let send = |socket: &UdpSocket, text: &[u8]| {
        assert_eq!(socket.send(text).expect("sent"), text.len());
    };
    send(&one, format!("<11>1 {now} h1 app 7 - - one\ntwo\n\n").as_bytes());
    send(&one, b"\n\0");
    send(&one, b"<13>1 - h2 app - - - fo\xffo");
    send(&one, b"no priority at all");
    // The same text of one second, from two senders in turns: each is kept.
    for _ in 0..3 {
        send(&one, format!("<13>1 {now} - twin - - - again").as_bytes());
        send(&two, format!("<13>1 {now} - twin - - - again").as_bytes());
    }
    assert_eq!(await_lines(&server, r#"{host="h1"} | level="error" | pid="7""#, 1), ["one\ntwo"]);
    assert_eq!(await_lines(&server, r#"{host="h2"}"#, 1), ["fo\u{fffd}o"]);
    assert_eq!(await_lines(&server, r#"{host="127.0.0.1", app="twin"}"#, 3).len(), 3);
    assert_eq!(await_lines(&server, r#"{host="127.0.0.2", app="twin"}"#, 3).len(), 3);
    assert_eq!(await_lines(&server, r#"{host="127.0.0.1"} |= "priority""#, 1).len(), 1);
    await_metric(&server, "logsvc_syslog_udp_messages_total", 9.0);
    assert_eq!(server.metric("logsvc_syslog_udp_dropped_total"), 0.0);
    assert_eq!(server.metric("logsvc_syslog_invalid_utf8_total"), 1.0);
    server.kill();

    let server = start(&data, &address, &[]);
    assert_eq!(await_lines(&server, r#"{facility="user"}"#, 9).len(), 9);
    server.stop();
}

#[test]
fn what_the_kernel_holds_at_a_stop_is_stored() {
    let (data, address) = (DataDir::new(), free_address());
    let server = start(&data, &address, &[]);
    let socket = sender(&address, "127.0.0.1");
    for number in 0..200 {
        socket.send(format!("<13>1 - h1 app - - - line {number}").as_bytes()).expect("sent");
    }
    server.stop();
    let server = start(&data, &address, &[]);
    let counted = r#"sum(count_over_time({host="h1"}[1h]))"#;
    let found = query::instant(&mut server.client(), counted, now_ns());
    assert_eq!(query::vector(&found)[0].1, 200.0);
    server.stop();
}

#[test]
fn bad_datagrams_are_counted_and_listed_and_cost_no_other() {
    let (data, address) = (DataDir::new(), free_address());
    let server = start(&data, &address, &["--intake.syslog.max-message-size=16KB"]);
    let socket = sender(&address, "127.0.0.1");
    let long = format!("<13>1 - h1 app - - - {}", "a".repeat(30_000));
    socket.send(long.as_bytes()).expect("sent");
    let ahead = stamp(now_ns() + 24 * 3_600_000_000_000);
    socket.send(format!("<13>1 {ahead} h1 app - - - ahead").as_bytes()).expect("sent");
    socket.send(b"<13>1 - h1 app - - - good").expect("sent");
    assert_eq!(await_lines(&server, r#"{host="h1"}"#, 1), ["good"]);
    let listed: Value = server.get("/loki/api/v1/refusals").json();
    let text = listed.to_string();
    for reason in ["line_too_long", "too_far_in_future"] {
        assert!(text.contains(reason), "{text}");
        let name = format!("loki_discarded_samples_total{{reason=\"{reason}\",tenant=\"fake\"}}");
        assert_eq!(server.metric(&name), 1.0, "{reason}");
    }
    assert!(text.contains("127.0.0.1") && text.contains("syslog"), "{text}");
    server.stop();
}

#[test]
fn an_address_that_is_taken_ends_the_start() {
    let data = DataDir::new();
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    let flag = format!("--intake.syslog.udp-address={address}");
    let (status, log) = Server::launch(data.path(), &[&flag]).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(&format!("cannot receive datagrams at {address}")), "{log}");
}

//! Requests that hold memory and do not come.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::Victim;
use crate::support::client::connect;
use crate::support::{body, entry, now_ns, stream};

/// Longest time that another client may wait for the answer to a push.
const PUSH_MAX: Duration = Duration::from_secs(5);

/// Opens a connection and sends as much of a request as the server takes at once.
fn open(victim: &Victim, request: &[u8]) -> TcpStream {
    let mut connection = connect(victim.server.address()).expect("a connection");
    connection.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    // The server may have said no already.
    _ = connection.write_all(request);
    connection
}

/// Pushes a small and a larger body, as plain JSON, gzip and snappy.
fn push_beside(victim: &Victim, pushed: &mut u32) {
    for bytes in [10, 50_000] {
        let line = "x".repeat(bytes);
        let streams = [stream(&[("app", "beside")], vec![entry(now_ns(), line)])];
        let json = body::json(&streams);
        let gzipped = body::gzip(json.as_bytes());
        let json_type = ("Content-Type", "application/json");
        let gzip = [json_type, ("Content-Encoding", "gzip")];
        for (headers, body) in [(&gzip[..1], json.as_bytes()), (&gzip[..], &gzipped[..])] {
            let begun = Instant::now();
            let mut client = victim.server.client();
            client.request("POST", "/loki/api/v1/push", headers, Some(body)).expect(204);
            assert!(begun.elapsed() < PUSH_MAX, "{:?}", begun.elapsed());
            *pushed += 1;
        }
        let begun = Instant::now();
        let snappy = body::snappy(&body::message(&streams));
        victim.server.client().push_protobuf(&snappy).expect(204);
        assert!(begun.elapsed() < PUSH_MAX, "{:?}", begun.elapsed());
        *pushed += 1;
    }
}

/// Sends parts of requests over and over; others must not notice.
fn attack(request: impl Fn(usize) -> Vec<u8>, args: &[&str]) {
    let victim = Victim::new(&[&["--cores", "2"], args].concat());
    let mut pushed = 0;
    for sent_bytes in [1000, 65_536, 262_144] {
        let request = request(sent_bytes);
        // Twice as many connections as the memory has room for, in two rounds, because the server
        // ends connections that hold memory.
        let count = (64 << 20) / sent_bytes.max(128 << 10);
        for _ in 0..2 {
            let mut held = Vec::new();
            for number in 0..count {
                held.push(open(&victim, &request));
                if number % 64 == 63 {
                    push_beside(&victim, &mut pushed);
                }
            }
            push_beside(&victim, &mut pushed);
            victim.server.get("/ready").expect(200);
        }
    }
    assert!(pushed > 50);
    victim.survives();
}

#[test]
fn announced_bodies_do_not_shut_others_out() {
    let head = "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 30000000\r\n\r\n";
    attack(|sent_bytes| [head.as_bytes(), &vec![b' '; sent_bytes]].concat(), &[]);
}

#[test]
fn chunked_bodies_do_not_shut_others_out() {
    let head = "POST /otlp/v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\nf00000\r\n";
    attack(|sent_bytes| [head.as_bytes(), &vec![b' '; sent_bytes]].concat(), &[]);
}

#[test]
fn heads_and_forms_do_not_shut_others_out() {
    let head = |sent_bytes: usize| match sent_bytes {
        200_000.. => format!("GET /ready?{}", "x".repeat(sent_bytes - 10_000)),
        _ => format!(
            "POST /loki/api/v1/query HTTP/1.1\r\nHost: x\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000000\r\n\r\n{}",
            "x".repeat(sent_bytes)
        ),
    };
    attack(|sent_bytes| head(sent_bytes).into_bytes(), &[]);
}

/// The server tells a client whose connection it ends that it may come again.
#[test]
fn bodies_that_give_way_are_told() {
    let victim = Victim::new(&["--cores", "1"]);
    let request = [
        &b"POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n"[..],
        &vec![b' '; 1 << 20],
    ]
    .concat();
    let mut held: Vec<TcpStream> = (0..40).map(|_| open(&victim, &request)).collect();
    let first = &mut held[0];
    first.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut answer = Vec::new();
    // Unread bytes of the body may reset the connection behind the answer.
    _ = first.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
    assert!(answer.contains("too slowly while memory for others was short"), "{answer}");
    drop(held);
    victim.survives();
}

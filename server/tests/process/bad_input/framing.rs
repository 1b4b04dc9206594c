//! Requests whose head or length is wrong, and bodies that do not end.

use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

use super::Victim;
use crate::support::Reply;
use crate::support::client::{connect, read_reply};

/// Sends bytes; returns the answer, if any, after which the connection must be
/// closed by the server.
fn last_answer(victim: &Victim, bytes: &[u8]) -> Option<Reply> {
    let mut connection = connect(victim.server.address()).expect("a connection");
    connection.write_all(bytes).expect("the server reads");
    let mut reader = BufReader::new(connection);
    let reply = read_reply(&mut reader, false).ok()?;
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).expect("the server closes");
    assert!(rest.is_empty(), "{rest:?}");
    Some(reply)
}

fn push_head(more: &str) -> String {
    format!(
        "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{more}\r\n"
    )
}

#[test]
fn ambiguous_and_broken_heads_are_refused() {
    let victim = Victim::new(&["--cores", "2"]);
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(300_000));
    let long_header =
        format!("GET /ready HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(70_000));
    let many_headers =
        format!("GET /ready HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(20_000));
    for (request, status) in [
        (push_head("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "{}\n", 400),
        (push_head("Content-Length: 3\r\nContent-Length: 3\r\n") + "{}\n", 400),
        (push_head("Content-Length: +3\r\n") + "{}\n", 400),
        (push_head("Content-Length: -1\r\n"), 400),
        (push_head("Content-Length: 18446744073709551616\r\n"), 400),
        (push_head("Transfer-Encoding: gzip, chunked\r\n"), 501),
        (push_head("Transfer-Encoding: chunked\r\n") + "zz\r\n", 400),
        (push_head("Transfer-Encoding: chunked\r\n") + "ffffffffffffffffff\r\n", 400),
        (push_head("Expect: a miracle\r\nContent-Length: 3\r\n"), 417),
        ("GET /ready HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /ready HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n".to_owned(), 400),
        ("GET /ready HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n".to_owned(), 400),
        ("GET /ready HTTP/1.1\r\nHost : x\r\n\r\n".to_owned(), 400),
        ("GET /ready HTTP/2.0\r\nHost: x\r\n\r\n".to_owned(), 505),
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("\u{0}\u{1}\u{2}\u{3}\r\n\r\n".to_owned(), 400),
        (long_path, 414),
        (long_header, 431),
        (many_headers, 431),
    ] {
        let reply = last_answer(&victim, request.as_bytes()).expect("an answer");
        assert_eq!(reply.status, status, "{:.300}: {}", request, reply.text());
        assert_eq!(reply.header("connection"), Some("close"), "{request:.300}");
    }
    victim.survives();
}

#[test]
fn lengths_over_the_limit_are_refused_at_once() {
    let victim = Victim::new(&["--cores", "1"]);
    let begun = Instant::now();
    // The memory of the server is the limit, not the larger setting.
    let reply = last_answer(&victim, push_head("Content-Length: 10737418240\r\n").as_bytes());
    let answer = reply.expect("an answer").expect(413);
    assert_eq!(answer, "message size too large than max (10737418240 vs 33554432)\n");
    let query = "POST /loki/api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Length: 10485761\r\n\r\n";
    last_answer(&victim, query.as_bytes()).expect("an answer").expect(413);
    // No body is waited for when the path is wrong.
    let nowhere = "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10737418240\r\n\r\n";
    last_answer(&victim, nowhere.as_bytes()).expect("an answer").expect(404);
    // Far below any timeout, far above the need of a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(10));
    victim.survives();
}

#[test]
fn a_chunked_body_without_end_is_refused_at_the_limit() {
    let victim = Victim::new(&["--cores", "1", "--distributor.max-recv-msg-size", "1MB"]);
    let mut connection = connect(victim.server.address()).expect("a connection");
    let head = push_head("Transfer-Encoding: chunked\r\n");
    connection.write_all(head.as_bytes()).expect("the server reads");
    let chunk = [b"10000\r\n", &[b' '; 65536][..], b"\r\n"].concat();
    let mut sent = 0;
    // The server stops reading at some point and closes; writing fails then.
    while sent < 1024 && connection.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 1024, "the server took 64 MiB of a body of at most 1 MiB");
    let metrics = victim.server.get("/metrics").text();
    let refused = r#"loki_request_duration_seconds_count{method="POST",route="loki_api_v1_push",status_code="413",ws="false"} 1"#;
    assert!(metrics.contains(refused), "{metrics}");
    // A client that listens reads why.
    let body = [head.as_bytes(), &chunk.repeat(20)].concat();
    let answer = last_answer(&victim, &body).expect("an answer").expect(413);
    assert!(answer.starts_with("message size too large than max"), "{answer}");
    victim.survives();
}

#[test]
fn slow_bodies_end_at_their_deadline() {
    let victim = Victim::new(&["--cores", "2", "--server.http-read-timeout", "500ms"]);
    for (head, drop) in [
        (push_head("Content-Length: 1000\r\n"), &b" "[..]),
        (push_head("Transfer-Encoding: chunked\r\n"), b"1\r\n \r\n"),
        (push_head("Content-Length: 30000000\r\n"), b""),
    ] {
        let mut connection = connect(victim.server.address()).expect("a connection");
        let begun = Instant::now();
        connection.write_all(head.as_bytes()).expect("the server reads");
        let pause = Duration::from_millis(20);
        connection.set_read_timeout(Some(pause)).expect("a timeout");
        let mut answer = Vec::new();
        // A byte now and then, until the server has enough of it.
        while answer.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{head}");
            _ = connection.write_all(drop);
            let mut buffer = [0; 4096];
            match connection.read(&mut buffer) {
                Ok(0) => panic!("closed without an answer: {head}"),
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{head}"),
            }
        }
        assert!(begun.elapsed() >= Duration::from_millis(500), "{head}");
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    }
    victim.survives();
}

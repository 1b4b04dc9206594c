//! Bodies that a handler takes while they arrive.

use std::time::Duration;

use futures_util::future::join;
use logsvc_runtime::{Budget, Runtime};

use crate::client::get;
use crate::support::{Server, lines};

const CHUNKED: &str = " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";

fn chunked(path: &str) -> String {
    format!("POST {path}{CHUNKED}\r\n")
}

fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// What `/pieces` says of a whole body.
fn whole(body: &[u8]) -> String {
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    format!("{} {sum} whole", body.len())
}

/// The memory for bodies is a part of what comes.
pub(crate) async fn a_body_of_any_length_is_handed_over<R: Runtime>(runtime: R) {
    let budget = Budget::new("test bodies", 1 << 20);
    let server = Server::start_with(&runtime, |config| config.body_budget = budget);
    let mut client = server.client().await;
    client.send(chunked("/pieces")).await;
    let data = lines(100_000);
    for _ in 0..40 {
        client.send(chunk(&data)).await;
        assert!(server.budget.used_bytes() <= 4 * 64 * 1024, "{}", server.budget.used_bytes());
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.answer().await.text(), whole(&data.repeat(40)));
    let length = data.len() * 40;
    client
        .send(format!("POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"))
        .await;
    for _ in 0..40 {
        client.send(&data).await;
    }
    assert_eq!(client.answer().await.text(), whole(&data.repeat(40)));
    drop(client);
    server.finish().await;
}

pub(crate) async fn single_bytes_make_the_same_body<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let request = chunked("/pieces") + "3;x\r\nabc\r\n1\r\nd\r\n0\r\nT: 1\r\n\r\n";
    for byte in (request + &get("/ok")).bytes() {
        client.send([byte]).await;
    }
    assert_eq!(client.answer().await.text(), whole(b"abcd"));
    assert_eq!(client.answer().await.text(), "fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn the_connection_lives_on<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.extend(chunked("/pieces").into_bytes());
        requests.extend(chunk(&lines(30_000)));
        requests.extend(b"0\r\n\r\n");
    }
    // Without a length there is no body.
    requests.extend(b"POST /pieces HTTP/1.1\r\nHost: a\r\n\r\n");
    requests.extend(get("/ok").into_bytes());
    client.send(requests).await;
    for _ in 0..3 {
        let answer = client.answer().await;
        assert_eq!((answer.text(), answer.header("connection")), (&*whole(&lines(30_000)), None));
    }
    assert_eq!(client.answer().await.text(), whole(b""));
    assert_eq!(client.answer().await.text(), "fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn continue_comes_at_once<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let expecting = |path: &str| format!("POST {path}{CHUNKED}Expect: 100-continue\r\n\r\n");
    for _ in 0..2 {
        client.send(expecting("/pieces")).await;
        assert_eq!(client.receive_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.exchange("5\r\nhello\r\n0\r\n\r\n").await.text(), whole(b"hello"));
    }
    // A handler that wants no body asks for none.
    let answer = client.exchange(expecting("/pieces/none")).await;
    assert_eq!((answer.text(), answer.header("connection")), ("no body wanted", Some("close")));
    assert_eq!(client.rest().await, b"");
    server.finish().await;
}

pub(crate) async fn an_early_answer_ends_the_connection<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send(chunked("/pieces/early") + "5\r\nhello\r\n").await;
    let answer = client.answer().await;
    // The first piece is what came first.
    assert!(!answer.text().is_empty() && "hello".starts_with(answer.text()), "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"));
    // What is still sent does not reset the connection before the answer is read.
    client.try_send(chunk(&lines(100_000))).await;
    drop(client);

    // The rest has come already, so nothing is lost.
    let mut client = server.client().await;
    client.send(chunked("/pieces/none") + "5\r\nhello\r\n0\r\n\r\n" + &get("/ok")).await;
    let answer = client.answer().await;
    assert_eq!(answer.text(), "no body wanted");
    if answer.header("connection").is_none() {
        assert_eq!(client.answer().await.text(), "fine");
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn malformed_chunks_are_refused<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let extension = format!("1;{}\r\n", "x".repeat(5000));
    for bad in ["5\r\nhelloX", "zz\r\n", "ffffffffffffffff\r\n", "1\n", &extension] {
        let mut client = server.client().await;
        client.send(chunked("/pieces") + "2\r\nhi\r\n" + bad).await;
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.header("connection")), (400, Some("close")), "{bad}");
        assert_eq!(client.rest().await, b"");
        let seen = server.service.ends.borrow_mut().pop().expect("the handler ends");
        assert!(seen.starts_with(if bad.starts_with('5') { "7 " } else { "2 " }), "{seen}");
    }
    // Two ways to read a request are none.
    let mut client = server.client().await;
    let request = format!("POST /pieces{CHUNKED}Content-Length: 3\r\n\r\n0\r\n\r\n");
    assert_eq!(client.exchange(request).await.status(), 400);
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_handler_that_waits_holds_the_client_back<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.body_timeout = Duration::from_millis(50);
        config.pace_window = Duration::from_millis(200);
    });
    let mut client = server.client().await;
    client.send(chunked("/pieces/later")).await;
    let data = lines(3_000_000);
    let mut body = chunk(&data);
    body.extend(b"0\r\n\r\n");
    let runtime = server.runtime.clone();
    let sending = client.send(body);
    let going = async {
        // Longer than a body may stand still: here it is the server that does.
        runtime.sleep_until(runtime.now().after(Duration::from_millis(700))).await;
        assert!(server.budget.used_bytes() <= 128 * 1024);
        server.service.go.set();
    };
    join(sending, going).await;
    assert_eq!(client.answer().await.text(), whole(&data));
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_client_that_vanishes_is_told<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send(chunked("/pieces") + "5\r\nhello\r\n5\r\nhe").await;
    drop(client);
    server.until(|service| !service.ends.borrow().is_empty()).await;
    let seen = server.service.ends.borrow_mut().pop().expect("it ends");
    assert!(seen.ends_with("the client went away in the middle of the request body"), "{seen}");
    assert!(server.service.observed.borrow().is_empty(), "nobody is answered");
    server.finish().await;
}

pub(crate) async fn a_body_that_stands_still_is_refused<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.body_timeout = Duration::from_millis(300);
        config.pace_min_bytes = 1;
    });
    let mut client = server.client().await;
    client.send(chunked("/pieces")).await;
    // Longer than one timeout in all: each piece begins it anew.
    for _ in 0..8 {
        client.send("5\r\nhello\r\n").await;
        client.sleep(Duration::from_millis(60)).await;
    }
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.header("connection")), (408, Some("close")));
    assert!(server.service.ends.borrow()[0].starts_with("40 "), "all of it reached the handler");
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_stop_refuses_the_rest<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send(chunked("/pieces") + "5\r\nhello\r\n").await;
    server.until(|service| service.calls.get() == 1).await;
    server.stop.trigger();
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1")));
    drop(client);
    server.finish().await;
}

pub(crate) async fn http_1_0_may_send_a_length<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let request = "POST /pieces HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello";
    let answer = client.exchange(request).await;
    assert_eq!((answer.text(), answer.header("connection")), (&*whole(b"hello"), Some("close")));
    assert_eq!(client.rest().await, b"");
    server.finish().await;
}

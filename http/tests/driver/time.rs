//! Clients that are slow or silent, and the stop.

use std::time::Duration;

use logsvc_http::ConnectionLimit;
use logsvc_runtime::Runtime;

use crate::client::{get, post};
use crate::support::Server;

const SHORT: Duration = Duration::from_millis(60);
const LONG: Duration = Duration::from_secs(50);

pub(crate) async fn a_silent_connection_is_closed<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.head_timeout = SHORT;
        config.idle_timeout = LONG;
    });
    let mut client = server.client().await;
    let started = client.now();
    assert_eq!(client.rest().await, b"");
    assert!(client.now().since(started) < LONG);
    server.finish().await;
}

pub(crate) async fn a_slow_head_is_refused<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.head_timeout = SHORT;
        config.idle_timeout = LONG;
    });
    // On a fresh connection, and on one that has served a request at once or
    // with reading ahead.
    for before in [None, Some(get("/ok")), Some(get("/sleep?ms=5"))] {
        let mut client = server.client().await;
        if let Some(request) = before {
            assert_eq!(client.exchange(request).await.status(), 200);
        }
        for byte in b"GET /ok HTTP/1.1\r\nX: " {
            client.send([*byte]).await;
        }
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.header("connection")), (408, Some("close")));
        assert_eq!(client.rest().await, b"");
    }
    server.finish().await;
}

pub(crate) async fn an_idle_connection_is_closed<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.head_timeout = LONG;
        config.idle_timeout = SHORT;
    });
    for request in [get("/ok"), get("/sleep?ms=5")] {
        let mut client = server.client().await;
        assert_eq!(client.exchange(request).await.status(), 200);
        let started = client.now();
        assert_eq!(client.rest().await, b"");
        assert!(client.now().since(started) < LONG);
    }
    server.finish().await;
}

pub(crate) async fn a_slow_body_is_refused<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.body_timeout = SHORT;
        config.min_rate_bytes_per_s = 1_000_000;
    });
    let chunked = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe";
    for request in [post("/echo", "hello").replace("hello", "hel"), chunked.to_owned()] {
        let mut client = server.client().await;
        let answer = client.exchange(request).await;
        assert_eq!((answer.status(), answer.header("connection")), (408, Some("close")));
        assert_eq!(client.rest().await, b"");
    }
    server.finish().await;
}

/// Each byte extends the deadline, but by less than it takes to come.
pub(crate) async fn an_endless_body_is_refused<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.body_timeout = SHORT;
        config.min_rate_bytes_per_s = 1000;
    });
    let mut client = server.client().await;
    client.send(&post("/echo", &"x".repeat(1_000_000))[..70]).await;
    let started = client.now();
    while client.try_send("x").await && client.now().since(started) < SHORT * 3 {
        client.sleep(Duration::from_millis(4)).await;
    }
    assert_eq!(client.answer().await.status(), 408);
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_client_that_reads_nothing_is_dropped<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.write_timeout = SHORT;
        config.min_rate_bytes_per_s = 1 << 30;
    });
    let mut client = server.client().await;
    client.send(get("/text?bytes=40000000")).await;
    server.until(|service| !service.observed.borrow().is_empty()).await;
    assert_eq!(*server.service.observed.borrow(), ["200 text!"]);
    server.until(|service| service.open.get() == 0).await;
    drop(client);
    server.finish().await;
}

pub(crate) async fn connections_over_the_limit_are_turned_away<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| {
        config.connections = ConnectionLimit::new(2);
    });
    let mut first = server.client().await;
    let mut second = server.client().await;
    assert_eq!(first.exchange(get("/ok")).await.status(), 200);
    assert_eq!(second.exchange(get("/ok")).await.status(), 200);
    let mut third = server.client().await;
    // Also if the client goes on sending, with any request.
    third.send("POST / HTTP/1.1\r\nContent-Length: 30000\r\n\r\n").await;
    third.try_send([b'x'; 30_000]).await;
    let answer = third.answer().await;
    assert_eq!((answer.status(), answer.text()), (503, "too many connections\n"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(third.rest().await, b"");
    assert_eq!((server.service.refused.get(), server.service.open.get()), (1, 2));
    drop(first);
    server.until(|service| service.open.get() == 1).await;
    let mut fourth = server.client().await;
    assert_eq!(fourth.exchange(get("/ok")).await.status(), 200);
    // Connections that are being told do not hold up a stop.
    let mut fifth = server.client().await;
    assert_eq!(fifth.answer().await.status(), 503);
    drop((second, fourth));
    server.finish().await;
}

pub(crate) async fn a_stop_lets_requests_finish<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut idle = server.client().await;
    assert_eq!(idle.exchange(get("/ok")).await.status(), 200);
    let mut idle_after_reading_ahead = server.client().await;
    assert_eq!(idle_after_reading_ahead.exchange(get("/sleep?ms=2")).await.status(), 200);
    let mut fresh = server.client().await;
    let mut busy = server.client().await;
    busy.send(get("/wait")).await;
    server.until(|service| service.calls.get() == 3 && service.open.get() == 4).await;

    server.stop.trigger();
    assert_eq!(idle.rest().await, b"");
    assert_eq!(idle_after_reading_ahead.rest().await, b"");
    assert_eq!(fresh.rest().await, b"");
    server.service.go.set();
    let answer = busy.answer().await;
    assert_eq!((answer.text(), answer.header("connection")), ("went", Some("close")));
    assert_eq!(busy.rest().await, b"");
    server.finish().await;
}

pub(crate) async fn a_stop_does_not_wait_for_ever<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| config.drain_timeout = SHORT);
    let mut busy = server.client().await;
    busy.send(get("/wait")).await;
    server.until(|service| service.calls.get() == 1).await;
    server.finish().await;
    assert_eq!(busy.rest().await, b"");
}

//! Requests and their answers on connections that live on.

use logsvc_runtime::{Budget, Runtime};

use crate::client::{get, post};
use crate::support::{Server, lines};

pub(crate) async fn heads_are_exact<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let answer = client.exchange(get("/ok")).await;
    let date = answer.header("date").expect("a date").to_owned();
    assert_eq!(date.len(), 29);
    assert_eq!(
        answer.head.replace(&date, "*"),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: *\r\nContent-Length: 4\r\n\r\n"
    );
    let answer = client.exchange(get("/none")).await;
    assert_eq!(answer.head.replace(&date, "*"), "HTTP/1.1 204 No Content\r\nDate: *\r\n\r\n");
    let answer = client.exchange(get("/empty")).await;
    assert_eq!(answer.header("content-length"), Some("0"));
    drop(client);
    server.finish().await;
}

pub(crate) async fn pipelined_requests_are_answered_in_order<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let requests = [
        get("/sleep?ms=20"),
        post("/echo", "first"),
        get("/ok"),
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nsec\r\n3;x\r\nond\r\n0\r\nT: 1\r\n\r\n"
            .to_owned(),
        "GET /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_owned(),
        get("/never"),
    ];
    client.send(requests.concat()).await;
    for expected in ["slept", "first", "fine", "second"] {
        let answer = client.answer().await;
        assert_eq!(answer.text(), expected);
        assert_eq!(answer.header("connection"), None);
    }
    let last = client.answer().await;
    assert_eq!((last.text(), last.header("connection")), ("fine", Some("close")));
    assert_eq!(client.rest().await, b"");
    let calls = server.service.calls.get();
    assert_eq!(calls, 5, "a request after `close` must not be answered");
    server.finish().await;
}

pub(crate) async fn requests_may_come_in_single_bytes<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for request in [post("/echo", "hello"), get("/ok")] {
        for byte in request.bytes() {
            client.send([byte]).await;
        }
    }
    assert_eq!(client.answer().await.text(), "hello");
    assert_eq!(client.answer().await.text(), "fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn http_1_0_closes_unless_asked<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let request = "GET /ok HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answer = client.exchange(request).await;
    assert_eq!(answer.header("connection"), Some("keep-alive"));
    let answer = client.exchange("GET /ok HTTP/1.0\r\n\r\n").await;
    assert_eq!((answer.text(), answer.header("connection")), ("fine", Some("close")));
    assert_eq!(client.rest().await, b"");

    // Without chunks, the end of the connection is the end of the body.
    let mut client = server.client().await;
    client
        .send("GET /stream?pieces=40&bytes=1000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        .await;
    let head = client.receive_until("\r\n\r\n").await;
    assert!(head.contains("Connection: close\r\n") && !head.contains("Transfer-Encoding"));
    assert_eq!(client.rest().await, lines(1000).repeat(40));
    server.finish().await;
}

pub(crate) async fn head_requests_get_no_body<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for path in ["/ok", "/stream?pieces=100&bytes=100"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let head = client.receive_until("\r\n\r\n").await;
        let marked = head.contains("Content-Length: 4\r\n") || head.contains("chunked\r\n");
        assert!(marked, "{head}");
    }
    assert_eq!(client.exchange(get("/ok")).await.text(), "fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn continue_is_sent_after_admission<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let expecting = |path: &str, len_bytes: u32| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
             Content-Length: {len_bytes}\r\n\r\n"
        )
    };
    client.send(expecting("/tiny", 5)).await;
    assert_eq!(client.receive_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.exchange("hello").await.text(), "hello");

    // A client that does not wait gets no 100.
    let answer = client.exchange(expecting("/tiny", 2) + "hi").await;
    assert_eq!((answer.status(), answer.text()), (200, "hi"));

    for (path, len_bytes, status) in [("/refused", 5, 401), ("/tiny", 11, 413)] {
        let mut client = server.client().await;
        let answer = client.exchange(expecting(path, len_bytes)).await;
        assert_eq!((answer.status(), answer.header("connection")), (status, Some("close")));
        assert_eq!(client.rest().await, b"");
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_refused_short_body_is_skipped<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let body = "x".repeat(20_000);
    client.send(post("/refused", &body) + &get("/ok")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text()), (401, "no org id\n"));
    assert_eq!(client.answer().await.text(), "fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn large_bodies_arrive_whole<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let body = String::from_utf8(lines(3_000_000)).expect("text");
    // Requests that are pipelined behind the body must survive reads into the body.
    let request = post("/echo", &body) + &get("/ok");
    client.send_and_receive(request.into_bytes(), body.len()).await;
    assert!(client.answer().await.body == body.as_bytes());
    assert_eq!(client.answer().await.text(), "fine");

    let mut chunked =
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.as_bytes()[..500_000].chunks(7_001) {
        chunked.extend_from_slice(format!("{:X}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert!(client.exchange(chunked).await.body == body.as_bytes()[..500_000]);
    assert_eq!(server.budget.used_bytes(), 0);
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_body_over_the_budget_is_refused<R: Runtime>(runtime: R) {
    let budget = Budget::new("small", 100_000);
    let server = Server::start_with(&runtime, |config| config.body_budget = budget);
    let mut client = server.client().await;
    // A claim that can never be met is refused for good, before it arrives.
    let answer = client.exchange(&post("/echo", &"x".repeat(150_000))[..1000]).await;
    assert_eq!((answer.status(), answer.header("connection")), (413, Some("close")));
    drop(client);
    // A claim that cannot be met at the moment is refused for the moment.
    let others = server.budget.try_reserve(50_000).expect("there is room");
    let mut client = server.client().await;
    let answer = client.exchange(post("/echo", &"x".repeat(90_000))).await;
    assert_eq!((answer.status(), answer.header("connection")), (429, Some("close")));
    assert_eq!(answer.header("retry-after"), Some("1"));
    drop((client, others));
    let mut client = server.client().await;
    assert_eq!(client.exchange(post("/echo", &"x".repeat(90_000))).await.status(), 200);
    drop(client);
    server.finish().await;
}

pub(crate) async fn disconnects_are_noticed<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send(get("/until-gone")).await;
    server.until(|service| service.calls.get() == 1).await;
    assert_eq!(server.service.gone.get(), 0);
    drop(client);
    server.until(|service| service.gone.get() == 1).await;
    server.finish().await;
}

pub(crate) async fn reading_ahead_loses_nothing<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let body = "b".repeat(10_000);
    let next = post("/echo", &body) + &get("/ok");
    for cut in [0, 1, 40, 200, 5000, next.len()] {
        let calls = server.service.calls.get();
        client.send(get("/sleep?ms=15")).await;
        server.until(|service| service.calls.get() > calls).await;
        client.send(&next[..cut]).await;
        assert_eq!(client.answer().await.text(), "slept");
        client.send(&next[cut..]).await;
        assert_eq!(client.answer().await.text(), body, "cut at {cut}");
        assert_eq!(client.answer().await.text(), "fine");
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn malformed_requests_are_answered_and_closed<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
        ("\u{16}\u{3}\u{1}".to_owned(), 400),
        (format!("GET /{} HTTP/1.1\r\n", "a".repeat(300_000)), 414),
        (format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(70_000)), 431),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n".to_owned(), 501),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n".to_owned(), 417),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n".to_owned(), 400),
        (post("/tiny", "0123456789a"), 413),
        (
            "POST /tiny HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n".to_owned(),
            413,
        ),
    ] {
        let mut client = server.client().await;
        // More behind it must not be taken for a request.
        client.send(request + &get("/ok")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status(), answer.header("connection")), (status, Some("close")));
        assert_eq!(client.rest().await, b"");
    }
    let observed = server.service.observed.borrow().clone();
    assert_eq!((observed.len(), observed[0].as_str()), (10, "400 "));
    assert_eq!(server.service.calls.get(), 0);
    server.finish().await;
}

/// The client gets the answer although it is still sending when the server
/// closes.
pub(crate) async fn an_early_refusal_reaches_the_client<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send("POST /tiny HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n").await;
    for _ in 0..10 {
        if !client.try_send(vec![b'x'; 40_000]).await {
            break;
        }
    }
    assert_eq!(client.answer().await.status(), 413);
    drop(client);
    server.finish().await;
}

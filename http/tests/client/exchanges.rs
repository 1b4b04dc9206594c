//! Requests and answers of all kinds, against this crate's own server.

use bytes::Bytes;
use futures_util::future::join_all;
use http::Method;
use http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use logsvc_http::client::{AnswerError, ClientRequest, Fault};
use logsvc_runtime::Runtime;

use crate::support::{
    PATIENCE, Server, TestSource, client, client_with, failure, get, pattern, post, whole,
};

pub(crate) async fn requests_are_answered<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    assert_eq!(server.get(&client, "/ok").await, (200, b"fine".to_vec()));
    assert_eq!(server.get(&client, "/none").await, (204, Vec::new()));
    assert_eq!(server.get(&client, "/missing").await.0, 404);
    let head = ClientRequest::new(Method::HEAD, server.target("/bytes?len=5000"));
    let response = client.send(head).await.expect("an answer");
    assert_eq!(response.headers.get("content-length").expect("a length"), "5000");
    assert_eq!(whole(response).await, (200, Vec::new()));
    let empty = ClientRequest::new(Method::PUT, server.target("/echo"));
    assert_eq!(whole(client.send(empty).await.expect("an answer")).await, (200, Vec::new()));
    assert_eq!(client.opened_connections(), 1);
    drop(client);
    server.finish().await;
}

pub(crate) async fn bodies_go_both_ways<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    for len_bytes in [1, 1000, 16 << 10, (16 << 10) + 1, 70_000, 3 << 20] {
        let body = pattern(len_bytes);
        let response = client.send(post(server.target("/echo"), body.clone())).await;
        let response = response.expect("an answer");
        assert_eq!(response.left_bytes().unwrap_or(0), len_bytes as u64);
        assert!(whole(response).await == (200, body.clone()), "{len_bytes} bytes");
        let shared = Bytes::from(body);
        let request = post(server.target("/echo"), "").with_shared_body(shared.clone());
        let response = client.send(request).await.expect("an answer");
        assert!(whole(response).await == (200, shared.to_vec()), "{len_bytes} shared bytes");
        assert!(shared.is_unique(), "the request has given them back");
    }
    assert_eq!(client.opened_connections(), 1);
    drop(client);
    server.finish().await;
}

pub(crate) async fn streams_go_both_ways<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    for len_bytes in [1, 300, 20_000, 200_000] {
        let pieces = vec![pattern(len_bytes), Vec::new(), pattern(7), pattern(len_bytes)];
        let body = pieces.iter().rev().flatten().copied().collect::<Vec<u8>>();
        for known in [None, Some(body.len() as u64)] {
            let source =
                TestSource { runtime: runtime.clone(), pieces: pieces.clone(), fails: false };
            let request =
                ClientRequest::new(Method::PUT, server.target("/echo")).with_stream(source, known);
            let response = client.send(request).await.expect("an answer");
            assert!(whole(response).await.1 == body, "{len_bytes} bytes");
        }
        let path = format!("/stream?pieces=5&len={len_bytes}");
        let mut response = client.send(get(server.target(&path))).await.expect("an answer");
        let mut received = Vec::new();
        while let Some(piece) = response.next().await.expect("no error") {
            assert!(!piece.is_empty());
            received.extend_from_slice(&piece);
        }
        assert!(response.next().await.expect("no error").is_none(), "the end stays the end");
        assert!(received == pattern(len_bytes).repeat(5), "{len_bytes} bytes");
    }
    assert_eq!(client.opened_connections(), 1);
    let error = failure(&client, get(server.target("/stream?pieces=5&len=9000&fail=1"))).await;
    assert!(matches!(error.fault, Fault::Answer(AnswerError::CutOff)), "{error}");
    drop(client);
    server.finish().await;
}

pub(crate) async fn parts_of_a_body_are_answered<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    let request =
        get(server.target("/range")).with_header(RANGE, HeaderValue::from_static("bytes=10-19"));
    let response = client.send(request).await.expect("an answer");
    assert_eq!(response.headers.get(CONTENT_RANGE).expect("a range"), "bytes 10-19/1000");
    assert_eq!(whole(response).await, (206, pattern(1000)[10..20].to_vec()));
    drop(client);
    server.finish().await;
}

pub(crate) async fn many_requests_go_at_the_same_time<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = client_with(&runtime, |config| config.max_idle_per_destination = 5);
    let requests = (0..40).map(|number| {
        let (client, body) = (client.clone(), pattern(number * 997));
        let request = post(server.target("/echo"), body.clone());
        async move {
            let response = client.send(request).await.expect("an answer");
            assert!(whole(response).await.1 == body);
        }
    });
    join_all(requests).await;
    assert!(client.idle_connections() <= 5, "{}", client.idle_connections());
    assert_eq!(server.service.seen.borrow().len(), 40);
    drop(client);
    server.finish().await;
}

/// The server answers when it has seen the head, and reads little more.
pub(crate) async fn an_early_refusal_is_read<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    for len_bytes in [10, 100_000, 8 << 20] {
        let request = post(server.target("/refuse"), pattern(len_bytes));
        let response = client.send(request).await.expect("an answer");
        assert_eq!(whole(response).await, (413, b"not wanted\n".to_vec()));
        assert_eq!(client.idle_connections(), 0, "the server has not read the body");
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_body_waits_until_it_is_wanted<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = client_with(&runtime, |config| {
        config.expect_continue_min_bytes = Some(1000);
        config.continue_timeout = PATIENCE;
    });
    for len_bytes in [10, 2000, 1 << 20] {
        let body = pattern(len_bytes);
        let response = client.send(post(server.target("/echo"), body.clone())).await;
        assert!(whole(response.expect("an answer")).await == (200, body), "{len_bytes} bytes");
    }
    assert_eq!(client.opened_connections(), 1);
    let response = client.send(post(server.target("/refuse"), pattern(8 << 20))).await;
    assert_eq!(whole(response.expect("an answer")).await.0, 413);
    assert_eq!(client.idle_connections(), 0, "the body was not sent");
    drop(client);
    server.finish().await;
}

pub(crate) async fn long_bodies_are_refused<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = client_with(&runtime, |config| config.answer.max_body_bytes = 1000);
    assert_eq!(server.get(&client, "/bytes?len=1000").await.1.len(), 1000);
    for path in ["/bytes?len=1001", "/stream?pieces=2&len=600", "/stream?pieces=2&len=501"] {
        let error = failure(&client, get(server.target(path))).await;
        let over = AnswerError::BodyTooLarge { max_bytes: 1000 };
        assert!(matches!(error.fault, Fault::Answer(fault) if fault == over), "{path}: {error}");
    }
    let request =
        ClientRequest { max_body_bytes: Some(5000), ..get(server.target("/bytes?len=5000")) };
    let response = client.send(request).await.expect("an answer");
    let error = response.collect(4999).await.expect_err("too long");
    assert!(error.to_string().ends_with("the body of the answer is longer than 4999 bytes"));
    for (path, first) in [("/bytes?len=900", 50), ("/stream?pieces=2&len=400", 50), ("/ok", 4)] {
        let response = client.send(get(server.target(path))).await.expect("an answer");
        let (before, opened) = (client.idle_connections(), client.opened_connections());
        assert_eq!(response.first_bytes(50).await.expect("bytes").len(), first);
        assert_eq!(
            (before, client.opened_connections()),
            (client.idle_connections() - usize::from(before == 0), opened)
        );
    }
    drop(client);
    server.finish().await;
}

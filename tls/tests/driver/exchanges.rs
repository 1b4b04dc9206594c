//! HTTP exchanges that work without TLS work with it.

use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Reader, Runtime, Writer};
use rustls::pki_types::ServerName;

use crate::client::{PATIENCE, get, post};
use crate::support::{Server, client_config, settings};

/// Bytes without a period that a mistake could hide in.
fn noise(len_bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len_bytes + 8);
    while bytes.len() < len_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len_bytes);
    bytes
}

pub(crate) async fn requests_are_answered<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for _ in 0..3 {
        assert_eq!(client.exchange(get("/ok")).await, b"fine");
    }
    assert_eq!(client.exchange(post("/echo", b"hello")).await, b"hello");
    // Bodies of which one record, and one read, holds many or a part of one.
    for len_bytes in [1, 4095, 4096, 16384, 16385, 70_000] {
        let body = noise(len_bytes);
        assert!(client.exchange(post("/echo", &body)).await == body, "{len_bytes} bytes");
    }
    drop(client);
    server.finish().await;
}

pub(crate) async fn bytes_may_come_one_by_one<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.write_bytes = 1;
    assert_eq!(client.exchange(post("/echo", b"slowly")).await, b"slowly");
    drop(client);
    server.finish().await;
}

pub(crate) async fn large_bodies_go_both_ways<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let body = noise(3_000_000);
    let echoed = {
        client.send_and_receive(&post("/echo", &body), body.len()).await;
        client.answer().await
    };
    assert!(echoed == body);
    // In chunks: through the small buffer instead of the body's own memory.
    let mut chunked =
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(100_000) {
        chunked.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    client.send_and_receive(&chunked, body.len()).await;
    assert!(client.answer().await == body);
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_pipeline_is_answered_in_order<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    let mut requests = Vec::new();
    for number in 0..200 {
        requests.extend(post("/echo", format!("number {number}").as_bytes()));
    }
    client.send(requests).await;
    for number in 0..200 {
        assert_eq!(client.answer().await, format!("number {number}").into_bytes());
    }
    drop(client);
    server.finish().await;
}

/// A client's frame with a mask.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 0, 200, 33];
    let mut bytes = vec![first, 0x80 | u8::try_from(payload.len()).expect("a short payload")];
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

pub(crate) async fn web_sockets_work<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client
        .send(
            "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        )
        .await;
    let head = client.receive_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for _ in 0..20 {
        client.send(frame(0x81, b"hello")).await;
        assert_eq!(client.receive_bytes(7).await, b"\x81\x05hello");
    }
    client.send(frame(0x88, &1000u16.to_be_bytes())).await;
    assert_eq!(client.rest().await, b"\x88\x02\x03\xe8");
    assert!(client.was_closed);
    server.finish().await;
}

/// The answer to a request for new keys goes out with the next write, also if the request comes
/// while an answer is being made, when the server only reads ahead.
pub(crate) async fn new_keys_may_be_asked_for<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for _ in 0..3 {
        assert_eq!(client.exchange(get("/ok")).await, b"fine");
        client.tls.refresh_traffic_keys().expect("it is TLS 1.3");
        assert!(client.flush().await);
    }
    client.send(get("/wait")).await;
    server.until(|server| server.service.calls.get() == 4).await;
    client.tls.refresh_traffic_keys().expect("it is TLS 1.3");
    client.send(get("/ok")).await;
    server.service.go.set();
    assert_eq!(client.answer().await, b"went");
    assert_eq!(client.answer().await, b"fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn the_end_is_said<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, &settings(), |config, _| {
        config.idle_timeout = Duration::from_millis(30);
    });
    // An answer that closes, an idle connection, and a client that goes first.
    let mut client = server.client().await;
    assert_eq!(client.exchange(get("/closing")).await, b"bye");
    assert!(client.rest().await.is_empty());
    assert!(client.was_closed && client.fault.is_none());

    let mut client = server.client().await;
    assert_eq!(client.exchange(get("/ok")).await, b"fine");
    assert!(client.rest().await.is_empty());
    assert!(client.was_closed && client.fault.is_none());

    let mut client = server.client().await;
    assert_eq!(client.exchange(get("/ok")).await, b"fine");
    client.tls.send_close_notify();
    assert!(client.flush().await);
    assert!(client.rest().await.is_empty());
    assert!(client.was_closed && client.fault.is_none());
    server.finish().await;
}

pub(crate) async fn the_connector_works<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let config = Arc::new(client_config(rustls::ALL_VERSIONS, None));
    let name = |name| ServerName::try_from(name).expect("a good name");
    let deadline = runtime.now().after(PATIENCE);
    let connected =
        logsvc_tls::connect(&runtime, server.address, name("localhost"), config.clone(), deadline);
    let (mut reader, mut writer) = connected.await.expect("a handshake");
    writer.write_all(get("/ok").into_bytes(), deadline).await.0.expect("it is taken");
    let mut answer = Vec::with_capacity(4096);
    while !answer.ends_with(b"fine") {
        let (result, buffer) = reader.read(answer, deadline).await;
        answer = buffer;
        assert!(result.expect("an answer") > 0);
    }
    writer.shutdown().await.expect("the end is sent");
    let (result, _) = reader.read(Vec::with_capacity(10), deadline).await;
    assert_eq!(result.expect("an end"), 0);

    let elsewhere =
        logsvc_tls::connect(&runtime, server.address, name("elsewhere"), config, deadline);
    let error = elsewhere.await.err().expect("another name");
    assert!(error.to_string().contains("certificate"), "{error}");
    server.finish().await;
}

pub(crate) async fn a_stop_lets_requests_finish<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut idle = server.client().await;
    assert_eq!(idle.exchange(get("/ok")).await, b"fine");
    let mut busy = server.client().await;
    busy.send(get("/wait")).await;
    server.until(|server| server.service.calls.get() == 2).await;
    server.trigger_stop();
    assert!(idle.rest().await.is_empty());
    assert!(idle.was_closed);
    server.service.go.set();
    assert_eq!(busy.answer().await, b"went");
    assert!(busy.rest().await.is_empty());
    assert!(busy.was_closed);
    server.finish().await;
}

//! WebSocket over real connections.

use logsvc_runtime::Runtime;

use crate::client::Client;
use crate::support::Server;

const HANDSHAKE: &str = "GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\n\
     Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
     Sec-WebSocket-Version: 13\r\n\r\n";

/// A client's frame with a mask.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 0, 200, 33];
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..126 => bytes.push(0x80 | len as u8),
        len => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&u16::try_from(len).expect("short").to_be_bytes());
        }
    }
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
    bytes
}

fn close_frame(code: u16) -> Vec<u8> {
    frame(0x88, &code.to_be_bytes())
}

async fn open<R: Runtime>(server: &Server<R>) -> Client<R> {
    let mut client = server.client().await;
    client.send(HANDSHAKE).await;
    let head = client.receive_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("Sec-Websocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
    assert!(head.contains("Connection: Upgrade\r\n") && head.contains("Upgrade: websocket\r\n"));
    assert!(!head.contains("Content-Length"));
    client
}

pub(crate) async fn messages_go_both_ways<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = open(&server).await;
    client.send(frame(0x81, b"hello")).await;
    assert_eq!(client.receive_bytes(7).await, b"\x81\x05hello");
    // Fragments with a ping between them, in single bytes.
    let fragments = [frame(0x02, b"ab"), frame(0x89, b"ping"), frame(0x80, &[b'c'; 200])].concat();
    for byte in fragments {
        client.send([byte]).await;
    }
    assert_eq!(client.receive_bytes(6).await, b"\x8a\x04ping");
    let echoed = client.receive_bytes(4 + 202).await;
    assert_eq!(echoed[..6], [0x82, 126, 0, 202, b'a', b'b']);
    client.send(close_frame(1000)).await;
    assert_eq!(client.rest().await, b"\x88\x02\x03\xe8");
    server.finish().await;
}

pub(crate) async fn frames_right_behind_the_handshake_count<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send([HANDSHAKE.as_bytes(), &frame(0x81, b"early")].concat()).await;
    client.receive_until("\r\n\r\n").await;
    assert_eq!(client.receive_bytes(7).await, b"\x81\x05early");
    drop(client);
    server.finish().await;
}

pub(crate) async fn the_handler_closes<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = open(&server).await;
    client.send(frame(0x81, b"leave")).await;
    assert_eq!(client.receive_bytes(4).await, b"\x88\x02\x03\xe8");
    client.send(close_frame(1000)).await;
    assert_eq!(client.rest().await, b"");

    let mut client = open(&server).await;
    client.send(frame(0x81, b"fail")).await;
    assert_eq!(client.receive_bytes(16).await, b"\x88\x0e\x03\xf3told to fail");
    // A client that does not answer is not waited for long.
    assert_eq!(client.rest().await, b"");
    server.finish().await;
}

pub(crate) async fn breaches_of_the_protocol_close<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    for (bytes, code) in [
        (b"\x81\x05hello".to_vec(), 1002u16),
        (frame(0x83, b""), 1002),
        (frame(0x80, b""), 1002),
        (frame(0x81, b"\xff"), 1007),
        (frame(0x82, &[0; 1001]), 1009),
        (close_frame(1005), 1002),
    ] {
        let mut client = open(&server).await;
        client.send(&bytes).await;
        let answer = client.rest().await;
        assert_eq!(answer[0], 0x88, "{bytes:?}");
        assert_eq!(answer[2..4], code.to_be_bytes(), "{bytes:?}");
        assert_eq!(answer.len(), 2 + usize::from(answer[1]), "{bytes:?}");
    }
    server.finish().await;
}

pub(crate) async fn a_slow_client_holds_the_handler_back<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = open(&server).await;
    client.send(frame(0x81, b"flood")).await;
    let mut message_count = 0;
    while message_count < 21 {
        let header = client.receive_bytes(4).await;
        assert_eq!(header, [0x82, 126, 0xc3, 0x50]);
        client.receive_bytes(50_000).await;
        message_count += 1;
    }
    client.send(close_frame(1001)).await;
    assert!(client.rest().await.ends_with(b"\x88\x02\x03\xe9"));
    server.finish().await;
}

pub(crate) async fn a_stop_closes_sockets<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = open(&server).await;
    server.stop.trigger();
    let frame = client.receive_bytes(2).await;
    assert_eq!(frame[0], 0x88);
    assert_eq!(client.rest().await[..2], 1001u16.to_be_bytes());
    server.finish().await;
}

pub(crate) async fn a_vanished_client_ends_the_handler<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = open(&server).await;
    assert_eq!(server.service.open.get(), 1);
    drop(client);
    server.until(|service| service.open.get() == 0).await;
    server.finish().await;
}

/// Proxies that speak HTTP/1.0 to their backends pass handshakes on.
pub(crate) async fn http_1_0_may_open_one<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    client.send(HANDSHAKE.replace("HTTP/1.1", "HTTP/1.0")).await;
    let head = client.receive_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(!head.to_ascii_lowercase().contains("connection: close"), "{head}");
    drop(client);
    server.until(|service| service.open.get() == 0).await;
    server.finish().await;
}

pub(crate) async fn other_requests_are_refused<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    for (from, to) in [
        ("GET", "POST"),
        ("Upgrade: WebSocket\r\n", ""),
        ("keep-alive, Upgrade", "keep-alive"),
        ("Version: 13", "Version: 8"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
    ] {
        let answer = client.exchange(HANDSHAKE.replace(from, to)).await;
        assert_eq!(answer.status(), 400, "{from} -> {to}");
        if answer.header("connection") == Some("close") {
            client = server.client().await;
        }
    }
    drop(client);
    server.finish().await;
}

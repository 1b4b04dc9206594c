//! Peers that do not keep to the protocol, or take their time.

use std::time::Duration;

use logsvc_runtime::{Budget, Runtime};
use logsvc_tls::MAX_HANDSHAKE_BYTES;
use rustls::{AlertDescription, Error};

use crate::client::{Raw, TlsClient, get};
use crate::support::{Server, client_config, settings};

/// A record that is an alert: two bytes of it at least, fatal in TLS 1.2 and before.
fn is_alert(bytes: &[u8]) -> bool {
    bytes.len() == 7 && bytes[0] == 21 && bytes[5] == 2
}

pub(crate) async fn plain_http_is_told<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let long = format!("POST / HTTP/1.1\r\nContent-Length: 20000\r\n\r\n{}", "x".repeat(20_000));
    for request in [get("/ok"), long, "G".to_owned()] {
        let mut client = Raw::connect(&runtime, server.address).await;
        client.send(request.as_bytes()).await;
        let answer = String::from_utf8(client.rest().await).expect("text");
        assert!(answer.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{answer:?}");
        assert!(answer.ends_with("\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"));
    }
    assert_eq!(server.service.calls.get(), 0);
    server.finish().await;
}

pub(crate) async fn garbage_is_refused<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let hello_of_ssl_2 = [0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 7, 0, 0xc0];
    // No hello but another message, a length over the limit, a version of 1995.
    let finished = [&[22, 3, 1, 0, 16, 20, 0, 0, 12][..], &[0; 12]].concat();
    let too_long = [&[22, 3, 1, 0xff, 0xff][..], &[1; 30_000]].concat();
    let data_first = [&[23, 3, 3, 0, 20][..], &[7; 20]].concat();
    for garbage in [&hello_of_ssl_2[..], &finished, &too_long, &data_first, &[0; 100], &[22; 500]] {
        let mut client = Raw::connect(&runtime, server.address).await;
        client.send(garbage).await;
        let answer = client.rest().await;
        assert!(is_alert(&answer), "{:?} after {:?}", answer, &garbage[..9]);
    }
    assert_eq!(server.service.calls.get(), 0);
    server.finish().await;
}

/// On random bytes the connection ends or waits for more, and the server lives.
pub(crate) async fn random_bytes_are_refused<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, &settings(), |_, handshake_timeout| {
        *handshake_timeout = Duration::from_millis(20);
    });
    // A good hello, of which some bytes are changed.
    let mut client = server.client().await;
    let mut hello = Vec::new();
    client.tls.write_tls(&mut hello).expect("memory takes all");
    drop(client);
    for _ in 0..60 {
        let mut bytes = hello.clone();
        for _ in 0..1 + runtime.random_u64() % 4 {
            let at = runtime.random_u64() as usize % bytes.len();
            bytes[at] = runtime.random_u64() as u8;
        }
        bytes.truncate(1 + runtime.random_u64() as usize % (2 * bytes.len()));
        let mut client = Raw::connect(&runtime, server.address).await;
        client.send(&bytes).await;
        client.rest().await;
    }
    assert_eq!(server.service.calls.get(), 0);
    let mut client = server.client().await;
    assert_eq!(client.exchange(get("/ok")).await, b"fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_broken_record_ends_the_connection<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = server.client().await;
    assert_eq!(client.exchange(get("/ok")).await, b"fine");
    // Only the client could make a record that decrypts.
    let forged = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
    assert!(client.raw.send(&forged).await);
    assert!(client.rest().await.is_empty());
    let expected = Error::AlertReceived(AlertDescription::BadRecordMac);
    assert_eq!(client.fault, Some(expected));
    server.finish().await;
}

pub(crate) async fn a_silent_client_is_dropped<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, &settings(), |_, handshake_timeout| {
        *handshake_timeout = Duration::from_millis(50);
    });
    let begun = runtime.now();
    let mut client = Raw::connect(&runtime, server.address).await;
    assert!(client.rest().await.is_empty());
    assert!(runtime.now().since(begun) >= Duration::from_millis(50));
    server.until(|server| server.service.open.get() == 0).await;
    server.finish().await;
}

/// Progress does not extend the deadline.
pub(crate) async fn a_slow_handshake_is_dropped<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, &settings(), |_, handshake_timeout| {
        *handshake_timeout = Duration::from_millis(100);
    });
    let mut client = server.client().await;
    let mut hello = Vec::new();
    client.tls.write_tls(&mut hello).expect("memory takes all");
    let begun = runtime.now();
    let mut sent = 0;
    for byte in hello.chunks(1) {
        if !client.raw.send(byte).await || server.service.open.get() == 0 && sent > 1 {
            break;
        }
        sent += 1;
        runtime.sleep_until(runtime.now().after(Duration::from_millis(5))).await;
    }
    assert!(sent < hello.len(), "a whole hello of {sent} bytes was taken");
    assert!(runtime.now().since(begun) >= Duration::from_millis(100));
    server.finish().await;
}

/// A hello that goes on and on takes memory from the budget, and a limited amount.
pub(crate) async fn long_handshakes_cost_memory<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut client = Raw::connect(&runtime, server.address).await;
    // A hello that claims 60,000 bytes, in records of 10,000.
    let mut hello = vec![1, 0, 0xea, 0x60];
    hello.resize(30_000, 0);
    let records = |hello: &[u8]| {
        let mut bytes = Vec::new();
        for piece in hello.chunks(10_000) {
            bytes.extend_from_slice(&[22, 3, 1]);
            bytes.extend_from_slice(&(piece.len() as u16).to_be_bytes());
            bytes.extend_from_slice(piece);
        }
        bytes
    };
    assert!(client.send(&records(&hello)).await);
    server.until(|server| server.budget.used_bytes() >= 30_000).await;
    assert!(server.budget.used_bytes() <= MAX_HANDSHAKE_BYTES as u64);
    drop(client);
    server.until(|server| server.service.open.get() == 0).await;
    assert_eq!(server.budget.used_bytes(), 0);
    server.finish().await;

    // Without a budget it ends early.
    let server = Server::start_with(&runtime, &settings(), |config, _| {
        config.body_budget = Budget::new("small", 8000);
    });
    let mut client = Raw::connect(&runtime, server.address).await;
    client.send(&records(&hello)).await;
    assert!(client.rest().await.is_empty());
    server.until(|server| server.service.open.get() == 0).await;
    let mut good = server.client().await;
    assert_eq!(good.exchange(get("/ok")).await, b"fine");
    drop(good);
    server.finish().await;
}

pub(crate) async fn a_half_open_connection_holds_up_no_stop<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let mut silent = Raw::connect(&runtime, server.address).await;
    let config = client_config(rustls::ALL_VERSIONS, None);
    let mut half = TlsClient::connect(&runtime, server.address, config).await;
    assert!(half.flush().await);
    assert!(half.receive().await);
    let begun = runtime.now();
    server.finish().await;
    assert!(runtime.now().since(begun) < Duration::from_secs(10));
    assert!(silent.rest().await.is_empty());
    assert!(half.rest().await.is_empty());
}

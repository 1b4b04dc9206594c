//! Connections that are kept, and requests that are dropped.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::Runtime;

use crate::support::{PATIENCE, Server, client, client_with, get, pattern, post, until, whole};

const SHORT: Duration = Duration::from_millis(60);

pub(crate) async fn a_connection_serves_many_requests<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    for _ in 0..10 {
        assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    }
    assert_eq!((client.opened_connections(), client.idle_connections()), (1, 1));
    assert_eq!(server.get(&client, "/closing").await.1, b"bye");
    assert_eq!((client.opened_connections(), client.idle_connections()), (1, 0));
    assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    assert_eq!(client.opened_connections(), 2);
    drop(client);
    server.until(|service| service.open.get() == 0).await;
    server.finish().await;
}

pub(crate) async fn a_connection_that_the_server_closes_is_not_used<R: Runtime>(runtime: R) {
    let server = Server::start_with(&runtime, |config| config.idle_timeout = SHORT);
    let client = client(&runtime);
    for round in 1..4 {
        // A request that must not be repeated finds no dead connection either.
        let response = client.send(post(server.target("/echo"), "x")).await.expect("an answer");
        assert_eq!(whole(response).await.1, b"x");
        assert_eq!((client.opened_connections(), client.idle_connections()), (round, 1));
        until(&runtime, || client.idle_connections() == 0).await;
    }
    server.finish().await;
}

pub(crate) async fn idle_connections_are_closed<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = client_with(&runtime, |config| config.idle_timeout = SHORT);
    assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    let started = runtime.now();
    assert_eq!(client.idle_connections(), 1);
    server.until(|service| service.open.get() == 0).await;
    assert!(runtime.now().since(started) < PATIENCE);
    assert_eq!(client.idle_connections(), 0);
    assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    assert_eq!(client.opened_connections(), 2);
    server.finish().await;
}

pub(crate) async fn few_idle_connections_are_kept<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let client = client_with(&runtime, |config| {
        config.max_idle_per_destination = 2;
        config.max_idle = 3;
    });
    // The name and the address are two destinations.
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("http://{host}:{}/bytes?len=9", server.address.port());
        let target = || logsvc_http::client::Target::parse(&url).expect("good");
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(client.send(get(target())).await.expect("an answer"));
        }
        for answer in answers {
            assert_eq!(whole(answer).await.1, pattern(9));
        }
    }
    assert_eq!(client.idle_connections(), 3);
    server.until(|service| service.open.get() == 3).await;
    drop(client);
    server.until(|service| service.open.get() == 0).await;
    server.finish().await;
}

pub(crate) async fn a_dropped_request_ends_its_connection<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    {
        let mut sent = pin!(client.send(get(server.target("/wait"))));
        let waits = pin!(server.until(|service| service.waiting.get() == 1));
        assert!(matches!(select(sent.as_mut(), waits).await, Either::Right(_)));
    }
    server.until(|service| service.gone.get() == 1 && service.open.get() == 0).await;
    assert_eq!(client.idle_connections(), 0);
    assert_eq!(server.get(&client, "/ok").await.1, b"fine");
    drop(client);
    server.finish().await;
}

pub(crate) async fn a_dropped_answer_ends_its_connection<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    let target = server.target("/stream?pieces=2000&len=10000");
    let request =
        logsvc_http::client::ClientRequest { max_body_bytes: Some(u64::MAX), ..get(target) };
    let mut response = client.send(request).await.expect("an answer");
    assert!(response.next().await.expect("no error").is_some());
    drop(response);
    server.until(|service| service.open.get() == 0).await;
    assert_eq!(client.idle_connections(), 0);
    server.finish().await;
}

/// A wait for a piece may be dropped: the read goes on, and its bytes come with the next wait.
pub(crate) async fn a_dropped_wait_loses_nothing<R: Runtime>(runtime: R) {
    let (server, client) = (Server::start(&runtime), client(&runtime));
    let target = server.target("/stream?pieces=9&len=3000");
    let mut response = client.send(get(target)).await.expect("an answer");
    let mut received = Vec::new();
    let mut dropped = 0;
    loop {
        let soon = runtime.now().after(Duration::from_micros(100));
        match select(pin!(response.next()), pin!(runtime.sleep_until(soon))).await {
            Either::Left((piece, _)) => match piece.expect("no error") {
                Some(piece) => received.extend_from_slice(&piece),
                None => break,
            },
            Either::Right(_) => dropped += 1,
        }
    }
    assert!(received == pattern(3000).repeat(9));
    assert!(dropped > 0, "the server pauses");
    drop(client);
    server.finish().await;
}

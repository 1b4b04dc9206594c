//! Clients that hold memory with requests that never arrive completely.

use std::time::Duration;

use http::StatusCode;
use logsvc_runtime::{Budget, Runtime};

use crate::client::{Client, get, post};
use crate::support::Server;

const BUDGET_BYTES: u64 = 1 << 20;

fn start<R: Runtime>(runtime: &R) -> Server<R> {
    let budget = Budget::with_owners("test bodies", BUDGET_BYTES);
    Server::start_with(runtime, |config| {
        config.body_budget = budget;
        config.linger_timeout = Duration::from_millis(100);
    })
}

/// Announces as much as there may be and sends a part of it.
fn announced(sent_bytes: usize) -> String {
    let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {BUDGET_BYTES}\r\n\r\n");
    head + &"x".repeat(sent_bytes)
}

fn chunked(sent_bytes: usize) -> String {
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{}", BUDGET_BYTES / 2, "x".repeat(sent_bytes))
}

/// Sends requests that are not complete until they would fill the memory twice, and small
/// ones beside them that must all be answered.
async fn attack<R: Runtime>(server: &Server<R>, sent_bytes: usize, request: fn(usize) -> String) {
    let mut held: Vec<Client<R>> = Vec::new();
    let count = 2 * BUDGET_BYTES as usize / sent_bytes;
    for number in 0..count {
        let mut client = server.client().await;
        client.try_send(request(sent_bytes)).await;
        held.push(client);
        if number % 8 == 7 {
            let mut other = server.client().await;
            for len_bytes in [0, 100, 10_000] {
                let answer = other.exchange(post("/echo", &"y".repeat(len_bytes))).await;
                assert_eq!(answer.status(), 200, "{len_bytes} bytes beside {number}");
            }
        }
    }
    // The clients whose connections were closed got an answer.
    let answer = held[0].answer().await;
    assert_eq!((answer.status(), answer.header("connection")), (503, Some("close")));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.text().contains("too slowly"), "{}", answer.text());
}

pub(crate) async fn slow_bodies_give_way<R: Runtime>(runtime: R) {
    for sent_bytes in [20_000, 70_000] {
        for request in [announced, chunked] {
            let server = start(&runtime);
            attack(&server, sent_bytes, request).await;
            server.finish().await;
        }
    }
}

pub(crate) async fn slow_heads_give_way<R: Runtime>(runtime: R) {
    let server = start(&runtime);
    let head = |bytes| format!("GET /ok?{} ", "x".repeat(bytes));
    attack(&server, 40_000, head).await;
    server.finish().await;
}

/// Much that came at once is no licence to hold it for ever.
pub(crate) async fn a_trickle_after_a_burst_is_refused<R: Runtime>(runtime: R) {
    for request in [announced, chunked] {
        let server = Server::start_with(&runtime, |config| {
            config.pace_window = Duration::from_millis(300);
            config.pace_min_bytes = 1000;
            config.linger_timeout = Duration::from_millis(100);
        });
        let mut client = server.client().await;
        client.send(request(200_000)).await;
        let started = client.now();
        // The bytes received would buy twelve seconds at the slowest rate.
        while client.try_send("x").await && client.now().since(started) < Duration::from_secs(5) {
            client.sleep(Duration::from_millis(20)).await;
            if server.service.observed.borrow().iter().any(|seen| seen.starts_with("408")) {
                break;
            }
        }
        assert_eq!(client.answer().await.status(), 408);
        drop(client);
        server.finish().await;
    }
}

pub(crate) async fn a_slow_body_goes_on_where_there_is_memory<R: Runtime>(runtime: R) {
    let server = start(&runtime);
    let mut slow = server.client().await;
    slow.send(&post("/echo", &"x".repeat(100))[..80]).await;
    for _ in 0..40 {
        slow.sleep(Duration::from_millis(20)).await;
        let mut other = server.client().await;
        assert_eq!(other.exchange(post("/echo", &"y".repeat(50_000))).await.status(), 200);
    }
    let answer = slow.exchange(&post("/echo", &"x".repeat(100))[80..]).await;
    assert_eq!((answer.status(), answer.body.len()), (200, 100));
    drop(slow);
    server.finish().await;
}

pub(crate) async fn a_body_waits_for_memory<R: Runtime>(runtime: R) {
    let server = start(&runtime);
    let others = server.budget.try_reserve(BUDGET_BYTES).expect("it is empty");
    for request in [
        post("/echo", &"x".repeat(30_000)),
        chunked(0).replace("80000", "3") + "abc\r\n0\r\n\r\n",
        get(&format!("/ok?{}", "x".repeat(30_000))),
    ] {
        let mut client = server.client().await;
        client.send(&request).await;
        let refused = client.answer().await;
        let expected = (StatusCode::TOO_MANY_REQUESTS.as_u16(), Some("close"));
        assert_eq!((refused.status(), refused.header("connection")), expected);
    }
    let mut client = server.client().await;
    let request = post("/echo", &"x".repeat(30_000));
    client.send(&request).await;
    client.sleep(Duration::from_millis(100)).await;
    drop(others);
    assert_eq!(client.answer().await.status(), 200);
    drop(client);
    server.finish().await;
}

//! Servers that are stale, slow, silent, or lie.

use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue};
use logsvc_http::client::{AnswerError, ClientRequest, Fault};
use logsvc_runtime::{Listener, Runtime};

use crate::peer::{Peer, Step, send};
use crate::support::{
    PATIENCE, TestSource, client, client_with, failure, get, loopback, pattern, post, target,
    until, whole,
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const SHORT: Duration = Duration::from_millis(60);

pub(crate) async fn heads_are_exact<R: Runtime>(runtime: R) {
    let script = vec![Step::Head, send(OK), Step::Head, Step::Read(3), send(OK)];
    let peer = Peer::start(&runtime, vec![script]);
    let client = client(&runtime);
    let answer = client.send(get(peer.target("/a%20b?c=d#e"))).await.expect("an answer");
    assert_eq!(whole(answer).await.1, b"hi");
    let request = post(peer.target(""), "abc")
        .with_header(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    assert_eq!(whole(client.send(request).await.expect("an answer")).await.1, b"hi");
    let (port, version) = (peer.address.port(), env!("CARGO_PKG_VERSION"));
    let common = format!("Host: localhost:{port}\r\nUser-Agent: logsvc/{version}\r\n");
    assert_eq!(
        *peer.heads.borrow(),
        [
            format!("GET /a%20b?c=d HTTP/1.1\r\n{common}\r\n"),
            format!(
                "POST / HTTP/1.1\r\n{common}Authorization: Bearer x\r\nContent-Length: 3\r\n\r\n"
            ),
        ]
    );
}

/// The server closes the kept connection when the next request comes.
fn stale() -> Vec<Vec<Step>> {
    vec![vec![Step::Head, send(OK), Step::Head], vec![Step::Head, send(OK), Step::Rest]]
}

pub(crate) async fn a_stale_connection_is_replaced<R: Runtime>(runtime: R) {
    let peer = Peer::start(&runtime, stale());
    let client = client(&runtime);
    for path in ["/1", "/2"] {
        let answer = client.send(get(peer.target(path))).await.expect("an answer");
        assert_eq!(whole(answer).await.1, b"hi");
    }
    assert_eq!(peer.lines(), ["GET /1 HTTP/1.1", "GET /2 HTTP/1.1", "GET /2 HTTP/1.1"]);
    assert_eq!(client.opened_connections(), 2);
}

pub(crate) async fn a_request_that_must_not_be_repeated_is_not<R: Runtime>(runtime: R) {
    for may_repeat in [None, Some(true)] {
        let peer = Peer::start(&runtime, stale());
        let client = client(&runtime);
        whole(client.send(get(peer.target("/1"))).await.expect("an answer")).await;
        let request = ClientRequest { may_repeat, ..post(peer.target("/2"), "") };
        let sent = client.send(request).await;
        assert_eq!(sent.is_ok(), may_repeat.is_some());
        let fault = sent.err().map(|error| error.fault);
        assert!(matches!(fault, None | Some(Fault::Closed | Fault::Connection(_))), "{fault:?}");
        assert_eq!(peer.lines().len(), if may_repeat.is_some() { 3 } else { 2 });
    }
    // A connection that has served nothing yet is not stale, so the failure is the server's.
    let peer = Peer::start(&runtime, vec![vec![Step::Head], vec![Step::Head, send(OK)]]);
    let error = failure(&client(&runtime), get(peer.target("/"))).await;
    assert!(matches!(error.fault, Fault::Closed | Fault::Connection(_)), "{error}");
    assert_eq!(peer.lines().len(), 1);
}

pub(crate) async fn a_large_body_is_sent_again_whole<R: Runtime>(runtime: R) {
    const LEN_BYTES: usize = 1 << 20;
    let peer = Peer::start(
        &runtime,
        vec![
            vec![Step::Head, send(OK), Step::Head, Step::Read(1000)],
            vec![Step::Head, Step::Read(LEN_BYTES), send(OK), Step::Rest],
        ],
    );
    let client = client(&runtime);
    whole(client.send(get(peer.target("/"))).await.expect("an answer")).await;
    let request =
        ClientRequest { may_repeat: Some(true), ..post(peer.target("/"), pattern(LEN_BYTES)) };
    assert_eq!(whole(client.send(request).await.expect("an answer")).await.1, b"hi");
    let heads = peer.heads.borrow();
    assert_eq!(heads.len(), 3);
    assert!(heads[2].contains("Content-Length: 1048576\r\n"));
}

pub(crate) async fn answers_that_are_cut_off_are_errors<R: Runtime>(runtime: R) {
    for start in [
        "H",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ] {
        // On a kept connection, too, nothing is repeated once an answer has begun.
        let script = vec![Step::Head, send(OK), Step::Head, send(start)];
        let peer = Peer::start(&runtime, vec![script, vec![Step::Head, send(OK)]]);
        let client = client(&runtime);
        whole(client.send(get(peer.target("/"))).await.expect("an answer")).await;
        let error = failure(&client, get(peer.target("/"))).await;
        assert!(matches!(error.fault, Fault::Answer(AnswerError::CutOff)), "{start:?}: {error}");
        assert_eq!((peer.lines().len(), client.idle_connections()), (2, 0));
    }
}

pub(crate) async fn answers_that_are_none_are_errors<R: Runtime>(runtime: R) {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(200_000));
    for (answer, text) in [
        ("SSH-2.0-OpenSSH\r\n", "malformed answer: this is no HTTP/1.1 answer"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "malformed answer: "),
        (huge.as_str(), "the head of the answer is longer than 65536 bytes"),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "malformed answer: "),
    ] {
        let peer = Peer::start(&runtime, vec![vec![Step::Head, send(answer), Step::Rest]]);
        let error = failure(&client(&runtime), get(peer.target("/"))).await.to_string();
        let start = format!("localhost:{}: {text}", peer.address.port());
        assert!(error.starts_with(&start), "{error}");
        until(&runtime, || *peer.done.borrow() == 1).await;
    }
}

pub(crate) async fn interim_answers_are_skipped<R: Runtime>(runtime: R) {
    let script = vec![
        Step::Head,
        send("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        Step::Wait(Duration::from_millis(1)),
        send("HTTP/1.1 100 Continue\r\n\r\n"),
        send(OK),
    ];
    let peer = Peer::start(&runtime, vec![script]);
    let answer = client(&runtime).send(get(peer.target("/"))).await.expect("an answer");
    assert_eq!(whole(answer).await, (200, b"hi".to_vec()));
}

/// Bytes that nobody asked for are no part of the next answer.
pub(crate) async fn a_silent_server_does_not_confuse_the_next_request<R: Runtime>(runtime: R) {
    let script = vec![Step::Head, send(format!("{OK}HTTP/1.1 500 Bad\r\n\r\n")), Step::Rest];
    let late = vec![
        Step::Head,
        send(OK),
        Step::Wait(Duration::from_millis(3)),
        send("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"),
        Step::Rest,
    ];
    let peer = Peer::start(&runtime, vec![script, late, vec![Step::Head, send(OK), Step::Rest]]);
    let client = client(&runtime);
    for _ in 0..3 {
        let answer = client.send(get(peer.target("/"))).await.expect("an answer");
        assert_eq!(whole(answer).await, (200, b"hi".to_vec()));
        if client.opened_connections() == 2 {
            until(&runtime, || client.idle_connections() == 0).await;
        }
    }
    assert_eq!(client.opened_connections(), 3);
}

pub(crate) async fn the_end_of_the_connection_ends_a_body<R: Runtime>(runtime: R) {
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let head = format!("{version} 200 OK\r\n\r\n");
        let body = pattern(100_000);
        let script =
            vec![Step::Head, send(head), Step::Send(body.clone()), Step::Shutdown, Step::Rest];
        let peer = Peer::start(&runtime, vec![script]);
        let client = client(&runtime);
        let answer = client.send(get(peer.target("/"))).await.expect("an answer");
        assert!(whole(answer).await == (200, body));
        assert_eq!(client.idle_connections(), 0);
    }
}

pub(crate) async fn a_slow_server_times_out<R: Runtime>(runtime: R) {
    let long = Duration::from_secs(50);
    let body = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi";
    for (steps, phase) in [
        (vec![Step::Head, Step::Hang], "waiting for the answer"),
        (vec![Step::Head, send("HTTP/1.1 200 OK\r\n"), Step::Hang], "waiting for the answer"),
        (vec![Step::Head, send(body), Step::Hang], "reading the body of the answer"),
    ] {
        for whole_request in [false, true] {
            let peer = Peer::start(&runtime, vec![steps.clone()]);
            let client = client_with(&runtime, |config| {
                config.head_timeout = if whole_request { long } else { SHORT };
                config.progress_timeout = if whole_request { long } else { SHORT };
            });
            let mut request = get(peer.target("/"));
            if whole_request {
                request.timeout = Some(SHORT);
            }
            let started = runtime.now();
            let error = failure(&client, request).await;
            assert!(error.fault.is_timeout(), "{error}");
            assert!(error.to_string().ends_with(&format!(": timed out while {phase}")), "{error}");
            let took = runtime.now().since(started);
            assert!((SHORT..long).contains(&took), "{took:?}");
            until(&runtime, || *peer.done.borrow() == 1).await;
        }
    }
}

pub(crate) async fn a_server_that_reads_nothing_times_out<R: Runtime>(runtime: R) {
    let peer = Peer::start(&runtime, vec![vec![Step::Head, Step::Wait(PATIENCE * 2)]]);
    let client = client_with(&runtime, |config| {
        config.progress_timeout = SHORT;
        config.min_rate_bytes_per_s = 1 << 30;
    });
    let error = failure(&client, post(peer.target("/"), vec![0; 64 << 20])).await;
    assert!(error.to_string().ends_with("timed out while sending the request"), "{error}");
}

pub(crate) async fn nobody_there_is_an_error<R: Runtime>(runtime: R) {
    let client = client_with(&runtime, |config| config.connect_timeout = PATIENCE);
    let listener = runtime.listen(loopback()).expect("a listener");
    let address = listener.local_address().expect("its address");
    drop(listener);
    runtime.sleep_until(runtime.now().after(Duration::from_millis(5))).await;
    let error = failure(&client, get(target(address, "/"))).await;
    let text = format!("localhost:{}: cannot connect: ", address.port());
    assert!(error.to_string().starts_with(&text), "{error}");
    let nowhere = logsvc_http::client::Target::parse("http://no-such-host.invalid/").expect("good");
    let error = failure(&client, get(nowhere)).await;
    assert!(error.to_string().starts_with("no-such-host.invalid:80: cannot connect: "), "{error}");
    let secure = logsvc_http::client::Target::parse("https://localhost/").expect("good");
    let error = failure(&client, get(secure)).await;
    assert!(error.to_string().ends_with("this client speaks no TLS"), "{error}");
}

pub(crate) async fn bodies_that_cannot_be_made_are_errors<R: Runtime>(runtime: R) {
    for (len_bytes, fails, text) in [
        (None, true, "out of luck"),
        (Some(100), false, "it is shorter than it said"),
        (Some(50), false, "it is longer than it said"),
    ] {
        let peer = Peer::start(&runtime, vec![vec![Step::Head, Step::Rest]]);
        let pieces = vec![vec![1; 30]; 2];
        let source = TestSource { runtime: runtime.clone(), pieces, fails };
        let request = post(peer.target("/"), "").with_stream(source, len_bytes);
        let error = failure(&client(&runtime), request).await.to_string();
        assert!(error.ends_with(text), "{error}");
        // The server must not take what has come for a whole body.
        until(&runtime, || *peer.done.borrow() == 1).await;
    }
}

pub(crate) async fn a_server_that_never_says_continue_gets_the_body<R: Runtime>(runtime: R) {
    let peer = Peer::start(&runtime, vec![vec![Step::Head, Step::Read(9), send(OK)]]);
    let client = client_with(&runtime, |config| {
        config.expect_continue_min_bytes = Some(0);
        config.continue_timeout = SHORT;
    });
    let answer = client.send(post(peer.target("/"), "123456789")).await.expect("an answer");
    assert_eq!(whole(answer).await, (200, b"hi".to_vec()));
    assert!(peer.heads.borrow()[0].contains("\r\nExpect: 100-continue\r\n"));
}

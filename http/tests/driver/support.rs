//! A service with one route for each thing that a test needs, and a server
//! around it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use http::StatusCode;
use logsvc_http::websocket::{Handshake, Message, WebSocket, WebSocketConfig};
use logsvc_http::{
    Admission, BodyStream, ChunkError, ChunkSource, Observation, PIECE_BYTES, Params, Request,
    RequestHead, Response, ServerConfig, Service, Signal, serve,
};
use logsvc_runtime::{Budget, Latch, Listener, Runtime};

use crate::client::Client;

pub(crate) struct TestService<R> {
    runtime: R,
    /// Routes of the answers that were sent, with `!` if incomplete.
    pub(crate) observed: RefCell<Vec<String>>,
    /// Requests that saw their client go away.
    pub(crate) gone: Cell<u32>,
    /// Lets `/wait` go on.
    pub(crate) go: Signal,
    pub(crate) refused: Cell<u32>,
    pub(crate) open: Cell<usize>,
    pub(crate) calls: Cell<u32>,
    /// What handlers of streamed bodies saw.
    pub(crate) ends: RefCell<Vec<String>>,
}

impl<R: Runtime> TestService<R> {
    async fn count_pieces(&self, mut stream: BodyStream) -> Response {
        let (mut count, mut len_bytes, mut sum) = (0u64, 0u64, 0u64);
        let end = loop {
            match stream.next().await {
                Ok(Some(piece)) => {
                    assert!((1..=2 * PIECE_BYTES).contains(&piece.len()), "{}", piece.len());
                    count += 1;
                    len_bytes += piece.len() as u64;
                    sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                }
                Ok(None) => break "whole".to_owned(),
                Err(fault) => break fault.to_string(),
            }
        };
        self.ends.borrow_mut().push(format!("{len_bytes} {end}"));
        assert_eq!(count == 0, len_bytes == 0);
        Response::new(StatusCode::OK)
            .with_route("pieces")
            .with_body(format!("{len_bytes} {sum} {end}").into_bytes())
    }
}

impl<R: Runtime> Service for TestService<R> {
    fn admit(&self, head: &RequestHead, _peer: std::net::SocketAddr) -> Admission {
        match head.path.as_str() {
            "/refused" => {
                Admission::Refuse(Response::text(StatusCode::UNAUTHORIZED, "no org id\n"))
            }
            path if path.starts_with("/pieces") => Admission::Stream { account: None },
            "/tiny" => Admission::Body { max_bytes: 10, account: None },
            _ => Admission::Body { max_bytes: 8 << 20, account: None },
        }
    }

    async fn call(&self, request: Request) -> Response {
        self.calls.set(self.calls.get() + 1);
        let head = &request.head;
        let query = head.query.as_deref().unwrap_or("");
        let params = Params::parse(query.as_bytes()).expect("tests send good queries");
        let number = |name| params.get(name).map_or(0, |value| value.parse().expect("a number"));
        let ok = || Response::new(StatusCode::OK).with_content_type("text/plain");
        match head.path.as_str() {
            "/ok" => ok().with_route("ok").with_body(b"fine".to_vec()),
            "/none" => Response::new(StatusCode::NO_CONTENT).with_route("none"),
            "/empty" => ok(),
            "/closing" => ok().closing(),
            "/echo" | "/tiny" => {
                let (bytes, reservation) = request.body.into_parts();
                drop(reservation);
                ok().with_route("echo").with_body(bytes)
            }
            // Counts what comes, in pieces.
            "/pieces" => self.count_pieces(request.stream.expect("a stream")).await,
            // Answers after the first piece.
            "/pieces/early" => {
                let mut stream = request.stream.expect("a stream");
                let first = stream.next().await.expect("a piece").expect("more than none");
                ok().with_route("early").with_body(first)
            }
            "/pieces/none" => ok().with_route("none").with_body(b"no body wanted".to_vec()),
            // Waits before it reads on.
            "/pieces/later" => {
                self.go.wait().await;
                self.count_pieces(request.stream.expect("a stream")).await
            }
            "/sleep" => {
                let pause = Duration::from_millis(number("ms"));
                self.runtime.sleep_until(self.runtime.now().after(pause)).await;
                ok().with_route("sleep").with_body(b"slept".to_vec())
            }
            "/wait" => {
                self.go.wait().await;
                ok().with_route("wait").with_body(b"went".to_vec())
            }
            "/until-gone" => {
                request.disconnect.wait().await;
                self.gone.set(self.gone.get() + 1);
                ok().with_route("until-gone")
            }
            "/text" => {
                let text = lines(number("bytes") as usize);
                ok().with_route("text").compressible().with_body(text)
            }
            "/stream" => {
                let source = TestSource {
                    runtime: self.runtime.clone(),
                    left: number("pieces"),
                    piece_bytes: number("bytes") as usize,
                    pause_every: number("pause_every"),
                    fail: params.get("fail").is_some(),
                };
                ok().with_route("stream").compressible().with_chunks(source)
            }
            "/socket" => match Handshake::of_request(head) {
                Ok(handshake) => {
                    let config = WebSocketConfig {
                        max_message_bytes: 1000,
                        max_queued_bytes: 100_000,
                        close_timeout: Duration::from_millis(200),
                        ..WebSocketConfig::default()
                    };
                    Response::websocket(handshake, config, echo)
                }
                Err(error) => Response::text(StatusCode::BAD_REQUEST, error.to_string()),
            },
            _ => Response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        let cut_off = if observation.incomplete { "!" } else { "" };
        let (status, route) = (observation.status.as_u16(), observation.route);
        self.observed.borrow_mut().push(format!("{status} {route}{cut_off}"));
    }

    fn connections_changed(&self, open: usize) {
        self.open.set(open);
    }

    fn connection_refused(&self, _peer: std::net::SocketAddr) {
        self.refused.set(self.refused.get() + 1);
    }
}

/// Sends messages back; some texts are orders.
async fn echo(socket: WebSocket) {
    while let Some(message) = socket.next_message().await {
        match &message {
            Message::Text(text) if text == "leave" => return,
            Message::Text(text) if text == "fail" => {
                socket.close(1011, "told to fail");
                socket.closed().await;
                assert!(socket.send(message).await.is_err());
                return;
            }
            Message::Text(text) if text == "flood" => {
                let big = Message::Binary(vec![7; 50_000]);
                let mut sent = 0;
                while socket.try_send(big.clone()).is_ok() {
                    sent += 1;
                }
                assert!((1..=3).contains(&sent), "the queue took {sent} messages");
                // Goes on only when the client reads.
                for _ in 0..20 {
                    if socket.send(big.clone()).await.is_err() {
                        return;
                    }
                    assert!(socket.queued_bytes() < 200_000);
                }
            }
            _ => {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Text that compresses well.
pub(crate) fn lines(len_bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(len_bytes + 40);
    let mut number = 0u32;
    while text.len() < len_bytes {
        number += 1;
        text.extend_from_slice(format!("line {number} of a text\n").as_bytes());
    }
    text.truncate(len_bytes);
    text
}

struct TestSource<R> {
    runtime: R,
    left: u64,
    piece_bytes: usize,
    pause_every: u64,
    fail: bool,
}

impl<R: Runtime> ChunkSource for TestSource<R> {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(async move {
            if self.left == 0 {
                return self.fail.then(|| Err(ChunkError("out of luck".to_owned())));
            }
            self.left -= 1;
            if self.pause_every > 0 && self.left.is_multiple_of(self.pause_every) {
                let pause = Duration::from_millis(2);
                self.runtime.sleep_until(self.runtime.now().after(pause)).await;
            }
            Some(Ok(lines(self.piece_bytes)))
        })
    }
}

/// A running server.
pub(crate) struct Server<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) service: Rc<TestService<R>>,
    pub(crate) budget: Budget,
    pub(crate) stop: Latch,
    pub(crate) task: R::Task<()>,
    address: SocketAddr,
}

impl<R: Runtime> Server<R> {
    pub(crate) fn start(runtime: &R) -> Server<R> {
        Server::start_with(runtime, |_| {})
    }

    pub(crate) fn start_with(runtime: &R, configure: impl FnOnce(&mut ServerConfig)) -> Server<R> {
        let budget = Budget::new("test bodies", 16 << 20);
        let mut config = ServerConfig::new(budget.clone());
        configure(&mut config);
        let budget = config.body_budget.clone();
        let service = Rc::new(TestService {
            runtime: runtime.clone(),
            observed: RefCell::default(),
            gone: Cell::default(),
            go: Signal::new(),
            refused: Cell::default(),
            open: Cell::default(),
            calls: Cell::default(),
            ends: RefCell::default(),
        });
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = runtime.listen(any_port).expect("a listener");
        let address = listener.local_address().expect("its address");
        let stop = Latch::new();
        let task = runtime.spawn(serve(
            runtime.clone(),
            listener,
            Rc::clone(&service),
            Rc::new(config),
            stop.clone(),
        ));
        Server { runtime: runtime.clone(), service, budget, stop, task, address }
    }

    pub(crate) async fn client(&self) -> Client<R> {
        let deadline = self.runtime.now().after(Duration::from_secs(60));
        let connected = self.runtime.connect(self.address, deadline).await;
        let (reader, writer) = connected.expect("the server accepts");
        Client { runtime: self.runtime.clone(), reader, writer, received: Vec::new() }
    }

    /// Stops and checks that nothing is left behind.
    pub(crate) async fn finish(self) {
        self.stop.trigger();
        self.task.await;
        assert_eq!(self.service.open.get(), 0, "connections are left");
        assert_eq!(self.budget.used_bytes(), 0, "memory is left reserved");
    }

    /// Waits until `condition` holds. For state that only the server's side shows.
    pub(crate) async fn until(&self, condition: impl Fn(&TestService<R>) -> bool) {
        let deadline = self.runtime.now().after(Duration::from_secs(60));
        while !condition(&self.service) {
            assert!(self.runtime.now() < deadline, "the server never gets there");
            let soon = self.runtime.now().after(Duration::from_millis(1));
            self.runtime.sleep_until(soon).await;
        }
    }
}

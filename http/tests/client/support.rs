//! A small service, a server around it, and a client.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use http::{Method, StatusCode};
use logsvc_http::client::{
    Client, ClientConfig, ClientError, ClientRequest, ClientResponse, Target,
};
use logsvc_http::{
    Admission, ChunkError, ChunkSource, Observation, Params, Request, RequestHead, Response,
    ServerConfig, Service, Signal, serve,
};
use logsvc_runtime::{Budget, Dial, Latch, Listener, PlainDialer, Runtime};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type TestClient<R> = Client<R, PlainDialer<R>>;

/// Bytes that differ from place to place.
pub(crate) fn pattern(len_bytes: usize) -> Vec<u8> {
    (0..len_bytes as u32).map(|place| (place.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

pub(crate) struct TestService<R> {
    runtime: R,
    /// Method and path of each request, with the length of its body.
    pub(crate) seen: RefCell<Vec<String>>,
    /// Lets `/wait` go on.
    pub(crate) go: Signal,
    pub(crate) open: Cell<usize>,
    /// Requests whose client went away.
    pub(crate) gone: Cell<u32>,
    pub(crate) waiting: Cell<u32>,
}

impl<R: Runtime> Service for TestService<R> {
    fn admit(&self, head: &RequestHead, _peer: std::net::SocketAddr) -> Admission {
        if head.path == "/refuse" {
            let mut response = Response::text(StatusCode::PAYLOAD_TOO_LARGE, "not wanted\n");
            response.close = true;
            return Admission::Refuse(response);
        }
        Admission::Body { max_bytes: 8 << 20, account: None }
    }

    async fn call(&self, request: Request) -> Response {
        let head = &request.head;
        let seen = format!("{} {} {}", head.method, head.path, request.body.len());
        self.seen.borrow_mut().push(seen);
        let query = head.query.as_deref().unwrap_or("");
        let params = Params::parse(query.as_bytes()).expect("tests send good queries");
        let number = |name| params.get(name).map_or(0, |value| value.parse().expect("a number"));
        let ok = || Response::new(StatusCode::OK);
        match head.path.as_str() {
            "/ok" => ok().with_body(b"fine".to_vec()),
            "/none" => Response::new(StatusCode::NO_CONTENT),
            "/closing" => ok().closing().with_body(b"bye".to_vec()),
            "/echo" => {
                let (bytes, reservation) = request.body.into_parts();
                drop(reservation);
                ok().with_body(bytes)
            }
            "/bytes" => ok().with_body(pattern(number("len") as usize)),
            "/stream" => ok().with_chunks(TestSource {
                runtime: self.runtime.clone(),
                pieces: vec![pattern(number("len") as usize); number("pieces") as usize],
                fails: params.get("fail").is_some(),
            }),
            "/range" => part(head, &pattern(1000)),
            "/wait" => {
                self.waiting.set(self.waiting.get() + 1);
                futures_util::future::select(
                    std::pin::pin!(self.go.wait()),
                    std::pin::pin!(request.disconnect.wait()),
                )
                .await;
                self.gone.set(self.gone.get() + u32::from(!self.go.is_set()));
                ok().with_body(b"went".to_vec())
            }
            _ => Response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }

    fn observe(&self, _observation: &Observation<'_>) {}

    fn connections_changed(&self, open: usize) {
        self.open.set(open);
    }
}

/// Answers a request for a part of a body, such as `bytes=10-19`.
fn part(head: &RequestHead, body: &[u8]) -> Response {
    let range = head.header(RANGE).and_then(|range| range.strip_prefix("bytes="));
    let Some((from, to)) = range.and_then(|range| range.split_once('-')) else {
        return Response::new(StatusCode::OK).with_body(body.to_vec());
    };
    let (from, to): (usize, usize) = (from.parse().expect("from"), to.parse().expect("to"));
    let mut response = Response::new(StatusCode::PARTIAL_CONTENT);
    let said = format!("bytes {from}-{to}/{}", body.len());
    response.headers.insert(CONTENT_RANGE, HeaderValue::try_from(said).expect("ASCII"));
    response.with_body(body[from..=to].to_vec())
}

/// A body of pieces, with a pause before each second one.
pub(crate) struct TestSource<R> {
    pub(crate) runtime: R,
    /// From the last one to the first one.
    pub(crate) pieces: Vec<Vec<u8>>,
    /// Whether it fails at its end.
    pub(crate) fails: bool,
}

impl<R: Runtime> ChunkSource for TestSource<R> {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(async move {
            if self.pieces.len().is_multiple_of(2) {
                self.runtime.sleep_until(self.runtime.now().after(Duration::from_millis(2))).await;
            }
            match self.pieces.pop() {
                Some(piece) => Some(Ok(piece)),
                None => self.fails.then(|| Err(ChunkError("out of luck".to_owned()))),
            }
        })
    }
}

/// A running server.
pub(crate) struct Server<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) service: Rc<TestService<R>>,
    pub(crate) address: SocketAddr,
    budget: Budget,
    stop: Latch,
    task: R::Task<()>,
}

impl<R: Runtime> Server<R> {
    pub(crate) fn start(runtime: &R) -> Server<R> {
        Server::start_with(runtime, |_| {})
    }

    pub(crate) fn start_with(runtime: &R, configure: impl FnOnce(&mut ServerConfig)) -> Server<R> {
        let budget = Budget::new("test bodies", 64 << 20);
        let mut config = ServerConfig::new(budget.clone());
        configure(&mut config);
        let service = Rc::new(TestService {
            runtime: runtime.clone(),
            seen: RefCell::default(),
            go: Signal::new(),
            open: Cell::default(),
            gone: Cell::default(),
            waiting: Cell::default(),
        });
        let listener = runtime.listen(loopback()).expect("a listener");
        let address = listener.local_address().expect("its address");
        let stop = Latch::new();
        let task = runtime.spawn(serve(
            runtime.clone(),
            listener,
            Rc::clone(&service),
            Rc::new(config),
            stop.clone(),
        ));
        Server { runtime: runtime.clone(), service, address, budget, stop, task }
    }

    pub(crate) fn target(&self, path: &str) -> Target {
        target(self.address, path)
    }

    /// Sends a request without a body, and gives the status and the body of the answer.
    pub(crate) async fn get(&self, client: &TestClient<R>, path: &str) -> (u16, Vec<u8>) {
        whole(client.send(get(self.target(path))).await.expect("an answer")).await
    }

    /// Stops and checks that nothing is left behind. The client must be gone or idle.
    pub(crate) async fn finish(self) {
        self.stop.trigger();
        self.task.await;
        assert_eq!(self.service.open.get(), 0, "connections are left");
        assert_eq!(self.budget.used_bytes(), 0, "memory is left reserved");
    }

    /// Waits until `condition` holds. For state that only the server's side shows.
    pub(crate) async fn until(&self, condition: impl Fn(&TestService<R>) -> bool) {
        until(&self.runtime, || condition(&self.service)).await;
    }
}

pub(crate) async fn until<R: Runtime>(runtime: &R, condition: impl Fn() -> bool) {
    let deadline = runtime.now().after(PATIENCE);
    while !condition() {
        assert!(runtime.now() < deadline, "it never gets there");
        runtime.sleep_until(runtime.now().after(Duration::from_millis(1))).await;
    }
}

pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn target(address: SocketAddr, path: &str) -> Target {
    Target::parse(&format!("http://localhost:{}{path}", address.port())).expect("a good address")
}

pub(crate) fn get(target: Target) -> ClientRequest {
    ClientRequest::new(Method::GET, target).with_timeout(PATIENCE)
}

pub(crate) fn post(target: Target, body: impl Into<Vec<u8>>) -> ClientRequest {
    ClientRequest::new(Method::POST, target).with_timeout(PATIENCE).with_body(body.into())
}

pub(crate) fn client<R: Runtime>(runtime: &R) -> TestClient<R> {
    client_with(runtime, |_| {})
}

pub(crate) fn client_with<R: Runtime>(
    runtime: &R,
    configure: impl FnOnce(&mut ClientConfig),
) -> TestClient<R> {
    let mut config = ClientConfig::default();
    configure(&mut config);
    Client::new(runtime.clone(), PlainDialer::new(runtime.clone()), config)
}

/// Status and body of an answer.
pub(crate) async fn whole<R: Runtime, D: Dial>(response: ClientResponse<R, D>) -> (u16, Vec<u8>) {
    let status = response.status.as_u16();
    (status, response.collect(64 << 20).await.expect("a whole body"))
}

/// The error of a request, be it before the head of the answer or in its body.
pub(crate) async fn failure<R: Runtime>(
    client: &TestClient<R>,
    request: ClientRequest,
) -> ClientError {
    match client.send(request).await {
        Err(error) => error,
        Ok(response) => response.collect(64 << 20).await.expect_err("the answer is bad"),
    }
}

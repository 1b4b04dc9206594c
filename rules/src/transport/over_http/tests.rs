//! Requests of rules on the simulation, against the server's own HTTP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use http::{Method, StatusCode};
use logsvc_http::{
    Admission, Observation, Request, RequestHead, Response, ServerConfig, Service, serve,
};
use logsvc_runtime::sim::{SimRuntime, for_each_seed};
use logsvc_runtime::{Budget, Latch, Listener, PlainDialer};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

/// An Alertmanager that notes what it gets.
#[derive(Default)]
struct Receiver {
    requests: RefCell<Vec<String>>,
}

impl Service for Receiver {
    fn admit(&self, _head: &RequestHead, _peer: std::net::SocketAddr) -> Admission {
        Admission::Body { max_bytes: 1 << 20, account: None }
    }

    async fn call(&self, request: Request) -> Response {
        let head = request.head;
        let header = |name: &str| head.header(name).unwrap_or("-").to_owned();
        self.requests.borrow_mut().push(format!(
            "{} {} {} x-a={} x-b={} agent={}",
            head.method,
            head.path,
            request.body.len(),
            header("x-a"),
            header("x-b"),
            header("user-agent"),
        ));
        match head.path.as_str() {
            "/long" => Response::text(StatusCode::BAD_REQUEST, "no ".repeat(10_000)),
            "/slow" => std::future::pending().await,
            _ => Response::new(StatusCode::OK).with_body(b"{}".to_vec()),
        }
    }

    fn observe(&self, _observation: &Observation<'_>) {}

    fn connections_changed(&self, _open: usize) {}
}

/// Starts a receiver and gives its address.
fn start(runtime: &SimRuntime) -> (Rc<Receiver>, String) {
    let receiver = Rc::new(Receiver::default());
    let listener = runtime.listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a listener");
    let port = listener.local_address().expect("its address").port();
    let config = ServerConfig::new(Budget::new("test bodies", 16 << 20));
    drop(runtime.spawn(serve(
        runtime.clone(),
        listener,
        Rc::clone(&receiver),
        Rc::new(config),
        Latch::new(),
    )));
    (receiver, format!("http://localhost:{port}"))
}

fn transport(
    runtime: &SimRuntime,
    config: &HttpConfig,
) -> Result<HttpTransport<SimRuntime, PlainDialer<SimRuntime>>, HttpTransportError> {
    HttpTransport::new(runtime.clone(), PlainDialer::new(runtime.clone()), config)
}

fn request(url: String, body: &[u8]) -> OutgoingRequest {
    OutgoingRequest {
        method: Method::POST,
        url,
        headers: HeaderMap::new(),
        body: body.to_vec(),
        timeout: TIMEOUT,
    }
}

#[test]
fn headers_of_the_settings_are_sent_unless_the_request_has_them() {
    for_each_seed(0..20, |simulation| {
        simulation.block_on(|runtime| async move {
            let (receiver, address) = start(&runtime);
            let headers = [("X-A", "1"), ("x-b", "2")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let config = HttpConfig { headers, ..HttpConfig::default() };
            let transport = transport(&runtime, &config).expect("good settings");
            let mut sent = request(format!("{address}/api/v2/alerts"), b"[]");
            sent.headers.insert("x-b", HeaderValue::from_static("own"));
            let answer = transport.send(sent).await.expect("an answer");
            assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"{}"[..]));
            assert_eq!(answer.headers.get("content-length").expect("a length"), "2");
            let agent = concat!("logsvc/", env!("CARGO_PKG_VERSION"));
            assert_eq!(
                *receiver.requests.borrow(),
                [format!("POST /api/v2/alerts 2 x-a=1 x-b=own agent={agent}")]
            );
        });
    });
}

#[test]
fn long_answers_are_cut_and_keep_the_connection() {
    for_each_seed(0..20, |simulation| {
        simulation.block_on(|runtime| async move {
            let (receiver, address) = start(&runtime);
            let transport = transport(&runtime, &HttpConfig::default()).expect("good settings");
            for _ in 0..3 {
                let answer = transport.send(request(format!("{address}/long"), b"x")).await;
                let answer = answer.expect("an answer");
                assert_eq!((answer.status.as_u16(), answer.body.len()), (400, ANSWER_MAX_BYTES));
            }
            assert_eq!(receiver.requests.borrow().len(), 3);
            assert_eq!(transport.client.opened_connections(), 1);
        });
    });
}

#[test]
fn failures_have_a_reason() {
    for_each_seed(0..20, |simulation| {
        simulation.block_on(|runtime| async move {
            let (_, address) = start(&runtime);
            let transport = transport(&runtime, &HttpConfig::default()).expect("good settings");
            let started = runtime.now();
            for (url, reason) in [
                (format!("{address}/slow"), "timed out while waiting for the answer"),
                ("http://localhost:9/".to_owned(), "localhost:9: cannot connect: "),
                ("nonsense".to_owned(), "invalid URL: "),
                ("http://u:secret@a b/".to_owned(), "invalid URL: "),
            ] {
                let error = transport.send(request(url, b"")).await.expect_err("no answer");
                assert!(error.0.contains(reason) && !error.0.contains("secret"), "{error}");
            }
            let took = runtime.now().since(started);
            assert!((TIMEOUT..TIMEOUT * 2).contains(&took), "{took:?}");
        });
    });
}

#[test]
fn bad_settings_are_refused_without_their_secrets() {
    for_each_seed(0..1, |simulation| {
        simulation.block_on(|runtime| async move {
            let headers = vec![("x-a".to_owned(), "secret\n".to_owned())];
            let config = HttpConfig { headers, ..HttpConfig::default() };
            let error = transport(&runtime, &config).err().expect("a bad header");
            assert_eq!(error.to_string(), "invalid header \"x-a\"");
            let proxy_url = "socks5://u:secret@p".to_owned();
            let config = HttpConfig { proxy_url, ..HttpConfig::default() };
            let error = transport(&runtime, &config).err().expect("a bad proxy").to_string();
            assert!(error.starts_with("invalid proxy URL: ") && !error.contains("secret"));
        });
    });
}

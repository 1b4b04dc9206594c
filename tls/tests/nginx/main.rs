//! The HTTP client against a real nginx, which the tests start on the loopback interface: kept
//! connections, chunks, ranges, large bodies both ways, refusals, and TLS with certificates of
//! clients.
//!
//! Without nginx the tests say so and pass, except with `CI=true` in the environment: there it is
//! a failure.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests write real files for a real process; nothing of them is simulated"
)]

mod server;

use std::future::Future;
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, join_all};
use http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use http::{HeaderMap, Method};
use logsvc_http::client::{Client, ClientConfig, ClientRequest, Fault, Proxies, Target};
use logsvc_http::{ChunkError, ChunkSource};
use logsvc_runtime::monoio_backend::{MonoioDriver, MonoioRuntime, launch};
use logsvc_runtime::{LaunchOptions, Runtime, glommio_backend};
use logsvc_tls::{ClientTlsSettings, TlsDialer};

use server::{Nginx, PATIENCE, content};

type NginxClient<R> = Client<R, TlsDialer<R>>;

/// Runs a case on the real backends, if nginx is there.
fn on_all<F, G>(
    name: &str,
    on_monoio: fn(MonoioRuntime, Rc<Nginx>) -> F,
    on_glommio: fn(glommio_backend::GlommioRuntime, Rc<Nginx>) -> G,
) where
    F: Future<Output = ()> + 'static,
    G: Future<Output = ()> + 'static,
{
    let options = LaunchOptions::with_cores(1);
    for driver in [MonoioDriver::Epoll, MonoioDriver::Auto] {
        let name = format!("{name}-{driver:?}");
        let case = move |runtime| {
            let name = name.clone();
            async move {
                if let Some(nginx) = Nginx::start(&runtime, &name).await {
                    on_monoio(runtime, Rc::new(nginx)).await;
                }
            }
        };
        launch(&options, driver, case).expect("one core starts");
    }
    if let Err(error) = glommio_backend::launch(&options, |_| async {}) {
        println!("SKIPPED: this machine refuses glommio: {error}");
        return;
    }
    let name = format!("{name}-glommio");
    let case = move |runtime| {
        let name = name.clone();
        async move {
            if let Some(nginx) = Nginx::start(&runtime, &name).await {
                on_glommio(runtime, Rc::new(nginx)).await;
            }
        }
    };
    glommio_backend::launch(&options, case).expect("one core starts");
}

macro_rules! cases {
    ($($case:ident)*) => {
        mod real {
            $(#[test]
            fn $case() {
                crate::on_all(stringify!($case), crate::$case, crate::$case);
            })*
        }
    };
}

cases! {
    answers_of_all_kinds_are_read
    bodies_go_both_ways
    refusals_are_read
    connections_are_kept_as_nginx_says
    many_requests_go_at_the_same_time
    tls_with_certificates
    nginx_passes_requests_on
}

async fn client<R: Runtime>(
    runtime: &R,
    nginx: &Nginx,
    has_certificate: bool,
    configure: impl FnOnce(&mut ClientConfig),
) -> NginxClient<R> {
    let file = |name| has_certificate.then(|| nginx.folder.join(name));
    let settings = ClientTlsSettings {
        ca_file: Some(nginx.folder.join("ca.pem")),
        cert_file: file("client.pem"),
        key_file: file("client.key"),
        ..ClientTlsSettings::default()
    };
    let dialer = TlsDialer::load(runtime.clone(), &settings).await.expect("good settings");
    let mut config = ClientConfig::default();
    configure(&mut config);
    Client::new(runtime.clone(), dialer, config)
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }
}

async fn send<R: Runtime>(client: &NginxClient<R>, request: ClientRequest) -> Answer {
    let response = client.send(request).await.expect("an answer");
    let (status, headers) = (response.status.as_u16(), response.headers.clone());
    Answer { status, headers, body: response.collect(64 << 20).await.expect("a body") }
}

fn request(method: Method, url: String) -> ClientRequest {
    let target = Target::parse(&url).expect("a good address");
    ClientRequest::new(method, target).with_timeout(PATIENCE)
}

async fn get<R: Runtime>(client: &NginxClient<R>, url: String) -> Answer {
    send(client, request(Method::GET, url)).await
}

async fn answers_of_all_kinds_are_read<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    let client = client(&runtime, &nginx, false, |_| {}).await;
    let whole = get(&client, nginx.url("/files/large")).await;
    assert!(whole.status == 200 && whole.body == content());
    assert_eq!(whole.header("content-length"), content().len().to_string());
    // A filter changes the text, so nginx does not know its length beforehand.
    let chunked = get(&client, nginx.url("/chunked/text")).await;
    assert_eq!(chunked.header("transfer-encoding"), "chunked");
    assert_eq!(chunked.body, b"some CHANGED text\n".repeat(5000));
    let head = send(&client, request(Method::HEAD, nginx.url("/files/large"))).await;
    assert_eq!(head.header("content-length"), content().len().to_string());
    assert_eq!((head.status, head.body.len()), (200, 0));
    let none = get(&client, nginx.url("/none")).await;
    assert_eq!((none.status, none.body.len()), (204, 0));
    let moved = get(&client, nginx.url("/moved")).await;
    assert_eq!((moved.status, moved.header("location")), (302, "http://elsewhere.example/"));
    let part = send(
        &client,
        request(Method::GET, nginx.url("/files/large"))
            .with_header(RANGE, HeaderValue::from_static("bytes=1000000-1999999")),
    )
    .await;
    assert_eq!(part.status, 206);
    let range = format!("bytes 1000000-1999999/{}", content().len());
    assert_eq!(part.headers.get(CONTENT_RANGE).expect("a range"), range.as_str());
    assert!(part.body == content()[1_000_000..2_000_000]);
    let beyond = send(
        &client,
        request(Method::GET, nginx.url("/files/large"))
            .with_header(RANGE, HeaderValue::from_static("bytes=999999999-")),
    )
    .await;
    assert_eq!(beyond.status, 416);
    let etag = whole.headers.get("etag").expect("a tag").clone();
    let same = request(Method::GET, nginx.url("/files/large"))
        .with_header(http::header::IF_NONE_MATCH, etag);
    assert_eq!(send(&client, same).await.status, 304);
    assert_eq!(client.opened_connections(), 1, "all went over one connection");
}

/// A body in pieces.
struct Pieces(Vec<Vec<u8>>);

impl ChunkSource for Pieces {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        Box::pin(async move { self.0.pop().map(Ok) })
    }
}

async fn bodies_go_both_ways<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    for least in [None, Some(0)] {
        let client =
            client(&runtime, &nginx, false, |config| config.expect_continue_min_bytes = least);
        let client = client.await;
        for (number, body) in [Vec::new(), b"small".to_vec(), content()].into_iter().enumerate() {
            let url = nginx.url(&format!("/stored/whole-{number}"));
            let put = request(Method::PUT, url.clone()).with_body(body.clone());
            assert!([201, 204].contains(&send(&client, put).await.status));
            assert!(get(&client, url.clone()).await.body == body);
            for known in [false, true] {
                let pieces: Vec<Vec<u8>> = body.chunks(70_001).rev().map(<[u8]>::to_vec).collect();
                let known = known.then_some(body.len() as u64);
                let put = request(Method::PUT, url.clone()).with_stream(Pieces(pieces), known);
                assert_eq!(send(&client, put).await.status, 204);
                assert!(get(&client, url.clone()).await.body == body);
            }
            assert_eq!(send(&client, request(Method::DELETE, url.clone())).await.status, 204);
            assert_eq!(get(&client, url).await.status, 404);
        }
        assert_eq!(client.opened_connections(), 1, "all went over one connection");
    }
}

async fn refusals_are_read<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    for least in [None, Some(0)] {
        let client =
            client(&runtime, &nginx, false, |config| config.expect_continue_min_bytes = least);
        let client = client.await;
        let put = request(Method::PUT, nginx.url("/small/x")).with_body(content());
        let answer = send(&client, put).await;
        assert_eq!(answer.status, 413);
        assert!(answer.body.starts_with(b"<html>"));
        assert_eq!(client.idle_connections(), 0, "nginx has not read the body");
        assert_eq!(get(&client, nginx.url("/none")).await.status, 204);
    }
    // nginx answers with 400 to plain HTTP at the port for TLS.
    let client = client(&runtime, &nginx, false, |_| {}).await;
    let url = nginx.secure_url("/none").replace("https", "http");
    assert_eq!(get(&client, url).await.status, 400);
    let target = Target::parse(&nginx.url("/none").replace("http", "https")).expect("good");
    let error = client.send(ClientRequest::new(Method::GET, target)).await.err().expect("no TLS");
    assert!(matches!(error.fault, Fault::Connect(_)), "{error}");
}

async fn connections_are_kept_as_nginx_says<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    let client = client(&runtime, &nginx, false, |_| {}).await;
    // nginx closes a connection after three of these requests, and says so in the last answer.
    for number in 1..=9_u64 {
        assert_eq!(get(&client, nginx.url("/three")).await.body, b"one of three\n");
        assert_eq!(client.opened_connections(), number.div_ceil(3));
    }
    // It closes an idle connection after a second without a word; the client notices.
    assert_eq!(get(&client, nginx.url("/brief")).await.body, b"brief\n");
    let deadline = runtime.now().after(PATIENCE);
    while client.idle_connections() > 0 {
        assert!(runtime.now() < deadline, "nginx keeps the connection");
        let soon = runtime.now().after(std::time::Duration::from_millis(20));
        runtime.sleep_until(soon).await;
    }
    let post = request(Method::POST, nginx.url("/three"));
    assert_eq!(send(&client, post).await.status, 200);
}

async fn many_requests_go_at_the_same_time<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    let client = client(&runtime, &nginx, true, |_| {}).await;
    let requests = (0..30).map(|number| {
        let (client, nginx) = (client.clone(), Rc::clone(&nginx));
        async move {
            let url = match number % 2 {
                0 => nginx.url("/files/large"),
                _ => nginx.secure_url("/files/large"),
            };
            assert!(get(&client, url).await.body == content());
        }
    });
    join_all(requests).await;
}

async fn tls_with_certificates<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    let somebody = client(&runtime, &nginx, true, |_| {}).await;
    let answer = get(&somebody, nginx.secure_url("/who")).await;
    assert_eq!(answer.body, b"SUCCESS CN=the client localhost\n");
    assert!(get(&somebody, nginx.secure_url("/files/large")).await.body == content());
    let url = nginx.secure_url("/stored/secure");
    let put = request(Method::PUT, url.clone()).with_body(content());
    assert!([201, 204].contains(&send(&somebody, put).await.status));
    assert!(get(&somebody, url).await.body == content());
    assert_eq!(somebody.opened_connections(), 1, "all went over one connection");
    // Without a certificate nginx answers 400 by itself.
    let nobody = client(&runtime, &nginx, false, |_| {}).await;
    let answer = get(&nobody, nginx.secure_url("/who")).await;
    assert_eq!(answer.status, 400);
}

/// nginx as a proxy that passes requests on: to itself, without buffers, and by HTTP/1.0.
async fn nginx_passes_requests_on<R: Runtime>(runtime: R, nginx: Rc<Nginx>) {
    let direct = client(&runtime, &nginx, false, |_| {}).await;
    assert!(get(&direct, nginx.url("/passed/files/large")).await.body == content());
    let chunked = get(&direct, nginx.url("/passed/chunked/text")).await;
    assert_eq!(chunked.body, b"some CHANGED text\n".repeat(5000));
    let proxies = Proxies::always(&nginx.url("")).expect("good");
    let through = client(&runtime, &nginx, false, |config| config.proxies = proxies).await;
    let answer = get(&through, "http://am.example/who-is-asked?x".to_owned()).await;
    assert_eq!(answer.body, b"am.example /who-is-asked?x\n");
    let put = request(Method::PUT, "http://am.example/stored/proxied".to_owned());
    let put = put.with_body(content());
    assert!([201, 204].contains(&send(&through, put).await.status));
    assert!(get(&direct, nginx.url("/stored/proxied")).await.body == content());
}

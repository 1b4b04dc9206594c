//! A small service, and a server with TLS around it.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::StatusCode;
use logsvc_http::websocket::{Handshake, WebSocket, WebSocketConfig};
use logsvc_http::{
    Admission, Observation, Request, RequestHead, Response, ServerConfig, Service, Signal, serve,
};
use logsvc_runtime::{Budget, Latch, Listener, Runtime};
use logsvc_tls::{TlsAcceptor, TlsListener, TlsSettings};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ED25519,
};
use rustls::RootCertStore;
use rustls::client::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::client::TlsClient;

/// A key and its certificate.
pub(crate) struct Identity {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
}

/// An authority, the certificates that it issued to a server and to a client, and a certificate of
/// another authority.
pub(crate) struct Authority {
    pub(crate) ca_pem: String,
    pub(crate) server: Identity,
    pub(crate) client: Identity,
    pub(crate) stranger: Identity,
}

pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let ca = issuer("the authority");
    let server = issue(&ca);
    let client = issue(&ca);
    Authority { ca_pem: ca.pem(), server, client, stranger: issue(&issuer("another authority")) }
});

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("a certificate")
}

fn issue(ca: &CertifiedIssuer<'static, KeyPair>) -> Identity {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a good name");
    let certificate = params.signed_by(&key, ca).expect("a certificate");
    Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() }
}

/// Settings of a server that asks no client for a certificate.
pub(crate) fn settings() -> TlsSettings {
    TlsSettings {
        certificates_pem: AUTHORITY.server.certificate_pem.clone().into_bytes(),
        key_pem: AUTHORITY.server.key_pem.clone().into_bytes(),
        ..TlsSettings::default()
    }
}

/// A client that trusts the authority and may show a certificate.
pub(crate) fn client_config(
    versions: &[&'static rustls::SupportedProtocolVersion],
    identity: Option<&Identity>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(AUTHORITY.ca_pem.as_bytes()).expect("PEM");
    roots.add(ca).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .expect("there are suites")
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes());
            builder
                .with_client_auth_cert(vec![chain.expect("PEM")], key.expect("PEM"))
                .expect("key and certificate fit")
        }
    }
}

pub(crate) struct TestService {
    /// Routes of the answers that were sent, with `!` if incomplete.
    pub(crate) observed: RefCell<Vec<String>>,
    /// Lets `/wait` go on.
    pub(crate) go: Signal,
    pub(crate) open: Cell<usize>,
    pub(crate) calls: Cell<u32>,
}

impl Service for TestService {
    fn admit(&self, _head: &RequestHead, _peer: std::net::SocketAddr) -> Admission {
        Admission::Body { max_bytes: 8 << 20, account: None }
    }

    async fn call(&self, request: Request) -> Response {
        self.calls.set(self.calls.get() + 1);
        let ok = || Response::new(StatusCode::OK).with_content_type("text/plain");
        match request.head.path.as_str() {
            "/ok" => ok().with_route("ok").with_body(b"fine".to_vec()),
            "/closing" => ok().closing().with_body(b"bye".to_vec()),
            "/echo" => {
                let (bytes, reservation) = request.body.into_parts();
                drop(reservation);
                ok().with_route("echo").with_body(bytes)
            }
            "/wait" => {
                self.go.wait().await;
                ok().with_route("wait").with_body(b"went".to_vec())
            }
            "/socket" => match Handshake::of_request(&request.head) {
                Ok(handshake) => Response::websocket(handshake, WebSocketConfig::default(), echo),
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
}

/// Sends messages back.
async fn echo(socket: WebSocket) {
    while let Some(message) = socket.next_message().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}

/// A running server.
pub(crate) struct Server<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) service: Rc<TestService>,
    pub(crate) budget: Budget,
    pub(crate) address: SocketAddr,
    stop: Latch,
    task: R::Task<()>,
}

impl<R: Runtime> Server<R> {
    pub(crate) fn start(runtime: &R) -> Server<R> {
        Server::start_with(runtime, &settings(), |_, _| {})
    }

    /// `configure` may change the configuration and the time for handshakes.
    pub(crate) fn start_with(
        runtime: &R,
        settings: &TlsSettings,
        configure: impl FnOnce(&mut ServerConfig, &mut Duration),
    ) -> Server<R> {
        let mut config = ServerConfig::new(Budget::new("test bodies", 32 << 20));
        let mut handshake_timeout = Duration::from_secs(60);
        configure(&mut config, &mut handshake_timeout);
        let budget = config.body_budget.clone();
        let service = Rc::new(TestService {
            observed: RefCell::default(),
            go: Signal::new(),
            open: Cell::default(),
            calls: Cell::default(),
        });
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let acceptor = TlsAcceptor::new(settings).expect("good settings");
        let listener = TlsListener::new(
            runtime.clone(),
            runtime.listen(any_port).expect("a listener"),
            &acceptor,
            handshake_timeout,
            budget.clone(),
        );
        let address = listener.local_address().expect("its address");
        let stop = Latch::new();
        let task = runtime.spawn(serve(
            runtime.clone(),
            listener,
            Rc::clone(&service),
            Rc::new(config),
            stop.clone(),
        ));
        Server { runtime: runtime.clone(), service, budget, address, stop, task }
    }

    /// A client that trusts the server.
    pub(crate) async fn client(&self) -> TlsClient<R> {
        self.client_with(client_config(rustls::ALL_VERSIONS, None)).await
    }

    pub(crate) async fn client_with(&self, config: ClientConfig) -> TlsClient<R> {
        TlsClient::connect(&self.runtime, self.address, config).await
    }

    pub(crate) fn trigger_stop(&self) {
        self.stop.trigger();
    }

    /// Stops and checks that nothing is left behind.
    pub(crate) async fn finish(self) {
        self.stop.trigger();
        self.task.await;
        assert_eq!(self.service.open.get(), 0, "connections are left");
        assert_eq!(self.budget.used_bytes(), 0, "memory is left reserved");
    }

    /// Waits until `condition` holds. For state that only the server's side shows.
    pub(crate) async fn until(&self, condition: impl Fn(&Server<R>) -> bool) {
        let deadline = self.runtime.now().after(Duration::from_secs(60));
        while !condition(self) {
            assert!(self.runtime.now() < deadline, "the server never gets there");
            let soon = self.runtime.now().after(Duration::from_millis(1));
            self.runtime.sleep_until(soon).await;
        }
    }
}

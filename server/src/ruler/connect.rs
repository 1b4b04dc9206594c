//! The transports of notifications and of remote write: the server's HTTP client, with TLS if the
//! program has it.

use std::rc::Rc;

use logsvc_rules::common::{CommonFiles, Keeping};
use logsvc_rules::config::{ClientTls, HttpConfig};
use logsvc_rules::notify::Connect;
use logsvc_rules::transport::{
    HttpTransport, OutgoingAnswer, OutgoingRequest, Transport, TransportError,
};
use logsvc_runtime::Runtime;

use super::term::Term;

#[cfg(feature = "tls")]
type Dialer<R> = logsvc_tls::TlsDialer<R>;
#[cfg(not(feature = "tls"))]
type Dialer<R> = logsvc_runtime::PlainDialer<R>;

/// Makes a transport for each set of settings.
pub(super) struct Connections<R> {
    runtime: R,
}

impl<R: Runtime> Connections<R> {
    pub(super) fn new(runtime: &R) -> Connections<R> {
        Connections { runtime: runtime.clone() }
    }
}

impl<R: Runtime> Connect for Connections<R> {
    type Transport = HttpTransport<R, Dialer<R>>;

    async fn transport(&self, config: &HttpConfig) -> Result<Rc<Self::Transport>, TransportError> {
        let dialer = dialer(&self.runtime, &config.tls).await?;
        // Whoever sends gives the headers with each request.
        let config = HttpConfig { headers: Vec::new(), ..config.clone() };
        let transport = HttpTransport::new(self.runtime.clone(), dialer, &config);
        transport.map(Rc::new).map_err(|error| TransportError(error.to_string()))
    }
}

/// Transports of notifications. Those of a node among others send nothing without a proof that its term
/// is not over.
pub(super) struct KeeperConnections<R: Runtime> {
    connections: Connections<R>,
    term: Option<Rc<Term<R>>>,
}

impl<R: Runtime> KeeperConnections<R> {
    pub(super) fn new(
        connections: Connections<R>,
        term: Option<Rc<Term<R>>>,
    ) -> KeeperConnections<R> {
        KeeperConnections { connections, term }
    }
}

impl<R: Runtime> Connect for KeeperConnections<R> {
    type Transport = KeeperTransport<R>;

    async fn transport(&self, config: &HttpConfig) -> Result<Rc<Self::Transport>, TransportError> {
        let transport = self.connections.transport(config).await?;
        Ok(Rc::new(KeeperTransport { transport, term: self.term.clone() }))
    }
}

/// See [`KeeperConnections`].
pub(super) struct KeeperTransport<R: Runtime> {
    transport: Rc<HttpTransport<R, Dialer<R>>>,
    term: Option<Rc<Term<R>>>,
}

impl<R: Runtime> Transport for KeeperTransport<R> {
    async fn send(&self, request: OutgoingRequest) -> Result<OutgoingAnswer, TransportError> {
        if let Some(term) = &self.term {
            let refused = match term.keeping().await {
                Keeping::Yes => None,
                Keeping::No => Some("another node sends the alerts of all nodes"),
                Keeping::Unknown => Some("the bucket does not say which node sends alerts"),
            };
            if let Some(text) = refused {
                return Err(TransportError(text.to_owned()));
            }
        }
        self.transport.send(request).await
    }
}

#[cfg(feature = "tls")]
async fn dialer<R: Runtime>(runtime: &R, tls: &ClientTls) -> Result<Dialer<R>, TransportError> {
    let settings = logsvc_tls::ClientTlsSettings {
        ca_file: tls.ca_file.clone(),
        cert_file: tls.cert_file.clone(),
        key_file: tls.key_file.clone(),
        server_name: tls.server_name.clone(),
        insecure_skip_verify: tls.insecure_skip_verify,
    };
    let loaded = Dialer::load(runtime.clone(), &settings).await;
    loaded.map_err(|error| TransportError(error.to_string()))
}

#[cfg(not(feature = "tls"))]
async fn dialer<R: Runtime>(runtime: &R, tls: &ClientTls) -> Result<Dialer<R>, TransportError> {
    if *tls != ClientTls::default() {
        return Err(TransportError("this program was built without TLS".to_owned()));
    }
    Ok(Dialer::new(runtime.clone()))
}

//! The side that accepts.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Budget, Listener, Runtime, SpareConnection};
use rustls::{Connection, ServerConfig, ServerConnection};

use crate::session::Session;
use crate::settings::{SettingsError, TlsSettings};
use crate::stream::{FailureWatch, TlsReader, TlsWriter, halves};

/// The certificates and rules that all connections of a server share. Cheap to clone; cores should
/// not share one, see [`TlsAcceptor::for_core`].
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
}

impl TlsAcceptor {
    /// Checks the settings.
    pub fn new(settings: &TlsSettings) -> Result<TlsAcceptor, SettingsError> {
        Ok(TlsAcceptor { config: Arc::new(settings.server_config()?) })
    }

    /// A copy whose reference count no other core changes.
    pub fn for_core(&self) -> TlsAcceptor {
        TlsAcceptor { config: Arc::new(ServerConfig::clone(&self.config)) }
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        f.debug_struct("TlsAcceptor").finish_non_exhaustive()
    }
}

/// A listener of one core whose connections speak TLS.
pub struct TlsListener<R: Runtime> {
    runtime: R,
    listener: R::Listener,
    acceptor: TlsAcceptor,
    handshake_timeout: Duration,
    budget: Budget,
    failures: Option<FailureWatch>,
}

impl<R: Runtime> TlsListener<R> {
    /// Wraps `listener`. A connection must have finished its handshake
    /// `handshake_timeout` after it was accepted; memory of long handshakes comes from
    /// `budget`.
    pub fn new(
        runtime: R,
        listener: R::Listener,
        acceptor: &TlsAcceptor,
        handshake_timeout: Duration,
        budget: Budget,
    ) -> TlsListener<R> {
        let acceptor = acceptor.for_core();
        TlsListener { runtime, listener, acceptor, handshake_timeout, budget, failures: None }
    }

    /// Has `watch` told of connections that fail.
    pub fn watched_by(mut self, watch: FailureWatch) -> TlsListener<R> {
        self.failures = Some(watch);
        self
    }
}

impl<R: Runtime> Listener for TlsListener<R> {
    type Reader = TlsReader<R>;
    type Writer = TlsWriter<R>;

    async fn accept(&self) -> io::Result<(TlsReader<R>, TlsWriter<R>, SocketAddr)> {
        let (reader, writer, peer) = self.listener.accept().await?;
        let (reader, writer) = self.wrap(reader, writer, peer)?;
        Ok((reader, writer, peer))
    }

    async fn accept_with_spare(&self) -> io::Result<SpareConnection<TlsReader<R>, TlsWriter<R>>> {
        let SpareConnection { reader, writer, peer, has_descriptor } =
            self.listener.accept_with_spare().await?;
        let (reader, writer) = self.wrap(reader, writer, peer)?;
        Ok(SpareConnection { reader, writer, peer, has_descriptor })
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_address()
    }
}

impl<R: Runtime> TlsListener<R> {
    fn wrap(
        &self,
        reader: R::Reader,
        writer: R::Writer,
        peer: SocketAddr,
    ) -> io::Result<(TlsReader<R>, TlsWriter<R>)> {
        let tls = ServerConnection::new(Arc::clone(&self.acceptor.config))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let session = Session::new(Connection::Server(tls), writer, self.budget.clone());
        let deadline = self.runtime.now().after(self.handshake_timeout);
        let (reader, writer) = halves(self.runtime.clone(), session, reader, deadline, true);
        Ok((reader.watched_by(self.failures.clone(), peer), writer))
    }
}

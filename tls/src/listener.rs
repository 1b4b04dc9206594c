//! The side that accepts.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
#[expect(clippy::disallowed_types, reason = "see the type that has it")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use logsvc_runtime::{Budget, Listener, Runtime, SpareConnection};
use rustls::{Connection, ServerConfig, ServerConnection};

use crate::session::Session;
use crate::settings::{SettingsError, TlsSettings};
use crate::stream::{FailureWatch, TlsReader, TlsWriter, halves};

/// The certificates and rules that all connections of a server share. Cheap to clone.
///
/// A mutex guards the ones in force (ARCHITECTURE.md, *Locks*). A core holds it for the time of a
/// copied pointer, once after each change.
#[derive(Clone)]
pub struct TlsAcceptor {
    shared: Arc<Shared>,
}

struct Shared {
    #[expect(clippy::disallowed_types, reason = "see above")]
    config: Mutex<Arc<ServerConfig>>,
    /// Grows with each change.
    version: AtomicU64,
}

/// The certificates as a core sees them. Notices changes by itself.
struct CoreView {
    shared: Arc<Shared>,
    seen: RefCell<(u64, Arc<ServerConfig>)>,
}

impl CoreView {
    fn new(acceptor: &TlsAcceptor) -> CoreView {
        let shared = Arc::clone(&acceptor.shared);
        // Read before the certificates: if they change in between they are read once more.
        let version = shared.version.load(Ordering::Acquire);
        let seen = RefCell::new((version, shared.copy()));
        CoreView { shared, seen }
    }

    fn config(&self) -> Arc<ServerConfig> {
        let version = self.shared.version.load(Ordering::Acquire);
        let mut seen = self.seen.borrow_mut();
        if seen.0 != version {
            *seen = (version, self.shared.copy());
        }
        Arc::clone(&seen.1)
    }
}

impl Shared {
    fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy whose reference count no other core changes.
    fn copy(&self) -> Arc<ServerConfig> {
        Arc::new(ServerConfig::clone(&self.current()))
    }
}

impl TlsAcceptor {
    /// Checks the settings.
    pub fn new(settings: &TlsSettings) -> Result<TlsAcceptor, SettingsError> {
        #[expect(clippy::disallowed_types, reason = "see the type")]
        let config = Mutex::new(Arc::new(settings.server_config()?));
        Ok(TlsAcceptor { shared: Arc::new(Shared { config, version: AtomicU64::new(0) }) })
    }

    /// Takes the certificates and rules of another one, for connections that come from now on and
    /// for all clones of this value.
    pub fn replace(&self, with: &TlsAcceptor) {
        let config = with.shared.current();
        *self.shared.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        self.shared.version.fetch_add(1, Ordering::Release);
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
    certificates: CoreView,
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
        let certificates = CoreView::new(acceptor);
        TlsListener { runtime, listener, certificates, handshake_timeout, budget, failures: None }
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
        let tls = ServerConnection::new(self.certificates.config())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let session = Session::new(Connection::Server(tls), writer, self.budget.clone());
        let deadline = self.runtime.now().after(self.handshake_timeout);
        let (reader, writer) = halves(self.runtime.clone(), session, reader, deadline, true);
        Ok((reader.watched_by(self.failures.clone(), peer), writer))
    }
}

//! The side that connects.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use logsvc_runtime::{Budget, Monotonic, Runtime};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};

use crate::session::{MAX_HANDSHAKE_BYTES, Session};
use crate::stream::{TlsReader, TlsWriter, halves};

/// Opens a TLS connection to `address`, whose certificate must be for `name`, and
/// finishes the handshake before `deadline`.
pub async fn connect<R: Runtime>(
    runtime: &R,
    address: SocketAddr,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    deadline: Monotonic,
) -> io::Result<(TlsReader<R>, TlsWriter<R>)> {
    let (reader, writer) = runtime.connect(address, deadline).await?;
    begin(runtime, reader, writer, name, config, deadline).await
}

/// Begins TLS on a connection, and finishes the handshake before `deadline`.
pub(crate) async fn begin<R: Runtime>(
    runtime: &R,
    reader: R::Reader,
    writer: R::Writer,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    deadline: Monotonic,
) -> io::Result<(TlsReader<R>, TlsWriter<R>)> {
    let tls = ClientConnection::new(config, name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    // One's own connections are few: each may hold the longest handshake.
    let budget = Budget::new("handshake", MAX_HANDSHAKE_BYTES as u64);
    let session = Session::new(Connection::Client(tls), writer, budget);
    let (mut reader, writer) = halves(runtime.clone(), session, reader, deadline, false);
    reader.handshake(deadline).await?;
    Ok((reader, writer))
}

//! Opens connections to hosts by name, plain or with TLS.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use logsvc_runtime::{Dial, Monotonic, OwnedBytes, Reader, Runtime, Writer, connect_host};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::client_settings::{ClientParts, ClientTlsError, ClientTlsSettings};
use crate::connector::begin;
use crate::stream::{TlsReader, TlsWriter};

/// Opens plain connections, and connections with TLS. The files of its settings have been read;
/// the authorities of the system are read for the first connection that needs them.
pub struct TlsDialer<R> {
    runtime: R,
    parts: ClientParts,
    config: RefCell<Option<Arc<ClientConfig>>>,
}

impl<R: Runtime> TlsDialer<R> {
    /// Reads the files of the settings.
    ///
    /// # Errors
    /// See [`ClientTlsError`], which names the file.
    pub async fn load(
        runtime: R,
        settings: &ClientTlsSettings,
    ) -> Result<TlsDialer<R>, ClientTlsError> {
        let parts = settings.load(&runtime).await?;
        Ok(TlsDialer { runtime, parts, config: RefCell::default() })
    }

    async fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = &*self.config.borrow() {
            return Ok(Arc::clone(config));
        }
        let made = Arc::new(self.parts.config(&self.runtime).await?);
        // Another task may have been faster; then all use its sessions.
        Ok(Arc::clone(self.config.borrow_mut().get_or_insert(made)))
    }

    async fn begin_tls(
        &self,
        reader: R::Reader,
        writer: R::Writer,
        host: &str,
        deadline: Monotonic,
    ) -> io::Result<(TlsReader<R>, TlsWriter<R>)> {
        let name = match &self.parts.server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.trim_end_matches('.').to_owned())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
        };
        let config = self.config().await?;
        begin(&self.runtime, reader, writer, name, config, deadline).await
    }
}

impl<R: Runtime> Dial for TlsDialer<R> {
    type Reader = DialedReader<R>;
    type Writer = DialedWriter<R>;

    async fn dial(
        &self,
        host: &str,
        port: u16,
        is_secure: bool,
        deadline: Monotonic,
    ) -> io::Result<(DialedReader<R>, DialedWriter<R>)> {
        let (reader, writer) = connect_host(&self.runtime, host, port, deadline).await?;
        if !is_secure {
            return Ok((DialedReader::Plain(reader), DialedWriter::Plain(writer)));
        }
        let (reader, writer) = self.begin_tls(reader, writer, host, deadline).await?;
        Ok((DialedReader::Tls(Box::new(reader)), DialedWriter::Tls(writer)))
    }

    async fn secure(
        &self,
        reader: DialedReader<R>,
        writer: DialedWriter<R>,
        host: &str,
        deadline: Monotonic,
    ) -> io::Result<(DialedReader<R>, DialedWriter<R>)> {
        let (DialedReader::Plain(reader), DialedWriter::Plain(writer)) = (reader, writer) else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this is a TLS connection"));
        };
        let (reader, writer) = self.begin_tls(reader, writer, host, deadline).await?;
        Ok((DialedReader::Tls(Box::new(reader)), DialedWriter::Tls(writer)))
    }
}

/// The receiving half of a connection of a [`TlsDialer`].
pub enum DialedReader<R: Runtime> {
    /// Without TLS.
    Plain(R::Reader),
    /// With TLS; its handshake is done.
    Tls(Box<TlsReader<R>>),
}

impl<R: Runtime> Reader for DialedReader<R> {
    async fn read(&mut self, buffer: Vec<u8>, deadline: Monotonic) -> (io::Result<usize>, Vec<u8>) {
        match self {
            DialedReader::Plain(reader) => reader.read(buffer, deadline).await,
            DialedReader::Tls(reader) => reader.read(buffer, deadline).await,
        }
    }
}

/// The sending half of a connection of a [`TlsDialer`].
pub enum DialedWriter<R: Runtime> {
    /// Without TLS.
    Plain(R::Writer),
    /// With TLS.
    Tls(TlsWriter<R>),
}

impl<R: Runtime> Writer for DialedWriter<R> {
    async fn write_all<B: OwnedBytes>(
        &mut self,
        buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B) {
        match self {
            DialedWriter::Plain(writer) => writer.write_all(buffer, deadline).await,
            DialedWriter::Tls(writer) => writer.write_all(buffer, deadline).await,
        }
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            DialedWriter::Plain(writer) => writer.shutdown().await,
            DialedWriter::Tls(writer) => writer.shutdown().await,
        }
    }

    async fn close(&mut self) {
        match self {
            DialedWriter::Plain(writer) => writer.close().await,
            DialedWriter::Tls(writer) => writer.close().await,
        }
    }
}

//! Opens connections to hosts by name, plain or with TLS.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use logsvc_runtime::{Dial, Monotonic, OwnedBytes, Reader, Runtime, Writer, connect_host};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::client_settings::{ClientParts, ClientTlsError, ClientTlsSettings};
use crate::client_tls::ClientTls;
use crate::connector::begin;
use crate::stream::{TlsReader, TlsWriter};

/// Opens plain connections, and connections with TLS. The files of its settings have been read;
/// the authorities of the system are read for the first connection that needs them.
pub struct TlsDialer<R> {
    runtime: R,
    source: Source,
}

/// Where the configuration comes from.
enum Source {
    /// Files that have been read, of this dialer alone.
    Own { parts: ClientParts, config: RefCell<Option<Arc<ClientConfig>>> },
    /// What the dialers of all cores share.
    Shared(ClientTls),
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
        Ok(TlsDialer { runtime, source: Source::Own { parts, config: RefCell::default() } })
    }

    /// A dialer that uses what others use, too, and follows its changes.
    pub fn sharing(runtime: R, tls: &ClientTls) -> TlsDialer<R> {
        TlsDialer { runtime, source: Source::Shared(tls.clone()) }
    }

    /// The configuration for a connection that begins now, and the name that the server has to have,
    /// if that is not the host that is asked.
    async fn current(&self) -> io::Result<(Arc<ClientConfig>, Option<ServerName<'static>>)> {
        match &self.source {
            Source::Own { parts, config } => {
                Ok((self.own_config(parts, config).await?, parts.server_name.clone()))
            }
            Source::Shared(tls) => {
                let current = tls.current();
                Ok((Arc::clone(&current.config), current.server_name.clone()))
            }
        }
    }

    async fn own_config(
        &self,
        parts: &ClientParts,
        config: &RefCell<Option<Arc<ClientConfig>>>,
    ) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = &*config.borrow() {
            return Ok(Arc::clone(config));
        }
        let made = Arc::new(parts.config(&self.runtime).await?);
        // Another task may have been faster; then all use its sessions.
        Ok(Arc::clone(config.borrow_mut().get_or_insert(made)))
    }

    async fn begin_tls(
        &self,
        reader: R::Reader,
        writer: R::Writer,
        host: &str,
        deadline: Monotonic,
    ) -> io::Result<(TlsReader<R>, TlsWriter<R>)> {
        let (config, server_name) = self.current().await?;
        let name = match server_name {
            Some(name) => name,
            None => ServerName::try_from(host.trim_end_matches('.').to_owned())
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?,
        };
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

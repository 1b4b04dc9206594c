//! Clients: one that drives `rustls` over the runtime's connections by itself, so that
//! the layer under test is not tested against itself, and one that sends exact bytes.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use logsvc_runtime::{Reader, Runtime, Writer};
use rustls::client::{ClientConfig, ClientConnection};
use rustls::pki_types::ServerName;

/// How long a client waits for anything before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a connection.
pub(crate) struct Raw<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) reader: R::Reader,
    pub(crate) writer: R::Writer,
}

impl<R: Runtime> Raw<R> {
    pub(crate) async fn connect(runtime: &R, address: SocketAddr) -> Raw<R> {
        let connected = runtime.connect(address, runtime.now().after(PATIENCE)).await;
        let (reader, writer) = connected.expect("the server accepts");
        Raw { runtime: runtime.clone(), reader, writer }
    }

    /// False if the server does not take it.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let deadline = self.runtime.now().after(PATIENCE);
        self.writer.write_all(bytes.to_vec(), deadline).await.0.is_ok()
    }

    /// The next bytes; empty at the end of the connection, however it ended.
    pub(crate) async fn receive(&mut self) -> Vec<u8> {
        receive(&self.runtime, &mut self.reader).await
    }

    /// All that comes until the end.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            match self.receive().await {
                more if more.is_empty() => return all,
                more => all.extend(more),
            }
        }
    }
}

async fn receive<R: Runtime>(runtime: &R, reader: &mut R::Reader) -> Vec<u8> {
    let buffer = Vec::with_capacity(16 * 1024);
    match reader.read(buffer, runtime.now().after(PATIENCE)).await {
        (Ok(_), buffer) => buffer,
        (Err(error), _) if error.kind() == std::io::ErrorKind::TimedOut => {
            panic!("the server neither answers nor closes: {error}")
        }
        (Err(_), _) => Vec::new(),
    }
}

pub(crate) struct TlsClient<R: Runtime> {
    pub(crate) raw: Raw<R>,
    pub(crate) tls: ClientConnection,
    pub(crate) received: Vec<u8>,
    /// Most bytes that one write may have.
    pub(crate) write_bytes: usize,
    /// Whether the server said `close_notify`.
    pub(crate) was_closed: bool,
    /// Why the client refused the server's records, alerts included.
    pub(crate) fault: Option<rustls::Error>,
}

impl<R: Runtime> TlsClient<R> {
    /// Connects, and begins no handshake yet.
    pub(crate) async fn connect(
        runtime: &R,
        address: SocketAddr,
        config: ClientConfig,
    ) -> TlsClient<R> {
        let name = ServerName::try_from("localhost").expect("a good name");
        TlsClient {
            raw: Raw::connect(runtime, address).await,
            tls: ClientConnection::new(Arc::new(config), name).expect("a good configuration"),
            received: Vec::new(),
            write_bytes: usize::MAX,
            was_closed: false,
            fault: None,
        }
    }

    /// Sends all waiting records. False if the server does not take them.
    pub(crate) async fn flush(&mut self) -> bool {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).expect("memory takes all");
        }
        for piece in out.chunks(self.write_bytes) {
            if !self.raw.send(piece).await {
                return false;
            }
        }
        true
    }

    /// Finishes the handshake; false if that fails.
    pub(crate) async fn handshake(&mut self) -> bool {
        while self.tls.is_handshaking() {
            if !self.flush().await || !self.receive().await {
                return false;
            }
        }
        self.flush().await
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.handshake().await, "no handshake: {:?}", self.fault);
        for piece in bytes.as_ref().chunks(16 * 1024) {
            self.tls.writer().write_all(piece).expect("memory takes all");
            assert!(self.flush().await, "the server does not take what is sent");
        }
    }

    /// Takes the next bytes; false at the end of the connection or after a fault.
    pub(crate) async fn receive(&mut self) -> bool {
        let bytes = self.raw.receive().await;
        self.take(&bytes)
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() && self.fault.is_none() {
            if self.tls.read_tls(&mut rest).expect("what came was read") == 0 {
                break;
            }
            match self.tls.process_new_packets() {
                Ok(state) => self.was_closed |= state.peer_has_closed(),
                Err(error) => self.fault = Some(error),
            }
            // An error means that there is no more at the moment.
            let _ = self.tls.reader().read_to_end(&mut self.received);
        }
        !bytes.is_empty() && self.fault.is_none()
    }

    /// Sends and reads at the same time, for data that fits into no socket buffer.
    pub(crate) async fn send_and_receive(&mut self, bytes: &[u8], min_received: usize) {
        assert!(self.handshake().await, "no handshake: {:?}", self.fault);
        self.tls.set_buffer_limit(None);
        self.tls.writer().write_all(bytes).expect("memory takes all");
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).expect("memory takes all");
        }
        let mut pieces = Vec::new();
        {
            let Raw { runtime, reader, writer } = &mut self.raw;
            let sending =
                async { writer.write_all(out, runtime.now().after(PATIENCE)).await.0.is_ok() };
            let receiving = async {
                let mut count = 0;
                while count < min_received {
                    let piece = receive::<R>(runtime, reader).await;
                    assert!(!piece.is_empty(), "it ended after {count} bytes");
                    count += piece.len();
                    pieces.push(piece);
                }
            };
            assert!(join(sending, receiving).await.0, "the server does not take what is sent");
        }
        for piece in pieces {
            assert!(self.take(&piece), "{:?}", self.fault);
        }
    }

    pub(crate) async fn receive_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive().await, "the connection ended early: {:?}", self.fault);
        }
        self.received.drain(..count).collect()
    }

    pub(crate) async fn receive_until(&mut self, end: &str) -> String {
        loop {
            let place = self.received.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(at) = place {
                let bytes = self.receive_bytes(at + end.len()).await;
                return String::from_utf8(bytes).expect("text");
            }
            assert!(
                self.receive().await,
                "the connection ended ({:?}) after {:?}",
                self.fault,
                String::from_utf8_lossy(&self.received)
            );
        }
    }

    /// Reads an answer with a length; returns its body.
    pub(crate) async fn answer(&mut self) -> Vec<u8> {
        let head = self.receive_until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.expect("a length").parse().expect("a number");
        self.receive_bytes(length).await
    }

    pub(crate) async fn exchange(&mut self, request: impl AsRef<[u8]>) -> Vec<u8> {
        self.send(request).await;
        self.answer().await
    }

    /// Reads until the connection ends and returns all bytes.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.receive().await {}
        std::mem::take(&mut self.received)
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let len_bytes = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len_bytes}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

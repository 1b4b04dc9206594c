//! The two halves of a TLS connection.
//!
//! The reader drives the handshake, and only the reader sends during it. Afterwards only the
//! writer sends: a server reads ahead while it answers, and a read that waits must not hold
//! anything that a write needs. Replies of the protocol to messages of the peer (new keys,
//! refused renegotiations) therefore go out before the next write, as the protocol permits.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::{Monotonic, OwnedBytes, Reader, Runtime, Writer};
use rustls::Error;

use crate::session::{Fault, Plain, Session};

/// Reads with less room than this go into the caller's memory, so that an idle connection needs no
/// buffer of its own. Reads with more room, for the bodies of requests, go into a buffer of
/// [`CIPHER_BYTES`].
const LARGE_ROOM_BYTES: usize = 16 * 1024;

/// Encrypted bytes that are read at once for a large room.
const CIPHER_BYTES: usize = 32 * 1024;

/// Time for last words to be sent, and for the peer to stop sending after them.
const FAREWELL: Duration = Duration::from_secs(1);

/// Bytes that are read and dropped after last words.
const FAREWELL_BYTES: usize = 64 * 1024;

/// The answer to a client that speaks HTTP to a port with TLS. HTTP/1.0, which every client
/// understands.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\
    \r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// Is told of each connection whose handshake fails or whose records are broken: the peer, and why.
/// Peers that only go away are none of them.
pub type FailureWatch = Rc<dyn Fn(SocketAddr, &str)>;

/// The receiving half.
pub struct TlsReader<R: Runtime> {
    runtime: R,
    session: Rc<Session<R::Writer>>,
    transport: R::Reader,
    handshake_deadline: Monotonic,
    /// Encrypted bytes received; the bytes before `taken` have been decrypted.
    cipher: Vec<u8>,
    taken: usize,
    /// Whether this side accepted the connection, and nothing has come yet.
    may_be_plain_http: bool,
    failures: Option<(FailureWatch, SocketAddr)>,
}

/// The sending half.
pub struct TlsWriter<R: Runtime> {
    runtime: R,
    session: Rc<Session<R::Writer>>,
}

pub(crate) fn halves<R: Runtime>(
    runtime: R,
    session: Session<R::Writer>,
    transport: R::Reader,
    handshake_deadline: Monotonic,
    is_server: bool,
) -> (TlsReader<R>, TlsWriter<R>) {
    let session = Rc::new(session);
    let writer = TlsWriter { runtime: runtime.clone(), session: Rc::clone(&session) };
    let reader = TlsReader {
        runtime,
        session,
        transport,
        handshake_deadline,
        cipher: Vec::new(),
        taken: 0,
        may_be_plain_http: is_server,
        failures: None,
    };
    (reader, writer)
}

impl<R: Runtime> Reader for TlsReader<R> {
    async fn read(
        &mut self,
        mut buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<usize>, Vec<u8>) {
        if buffer.len() == buffer.capacity() {
            return (Ok(0), buffer);
        }
        loop {
            if self.session.has_failed() {
                return (Err(io::ErrorKind::ConnectionAborted.into()), buffer);
            }
            match self.session.take_plain(&mut buffer) {
                Plain::Bytes(count) => return (Ok(count), buffer),
                Plain::Closed => return (Ok(0), buffer),
                Plain::Nothing => {}
            }
            let (result, returned) = self.step(buffer, deadline).await;
            buffer = returned;
            match result {
                Ok(true) => {}
                Ok(false) => return (Ok(0), buffer),
                Err(error) => {
                    if error.kind() == io::ErrorKind::TimedOut && !self.session.is_established() {
                        self.tell_failure("the handshake timed out");
                    }
                    return (Err(error), buffer);
                }
            }
        }
    }
}

impl<R: Runtime> TlsReader<R> {
    /// Has the watch told if the connection to `peer` fails.
    pub(crate) fn watched_by(
        mut self,
        watch: Option<FailureWatch>,
        peer: SocketAddr,
    ) -> TlsReader<R> {
        self.failures = watch.map(|watch| (watch, peer));
        self
    }

    /// Tells the watch, once.
    fn tell_failure(&mut self, why: &str) {
        if let Some((watch, peer)) = self.failures.take() {
            watch(peer, why);
        }
    }

    /// Finishes the handshake. Reading does so as well; a client that speaks first
    /// needs this before it can write.
    pub async fn handshake(&mut self, deadline: Monotonic) -> io::Result<()> {
        self.session_hello(deadline).await?;
        let mut buffer = Vec::new();
        while !self.session.is_established() {
            if self.session.has_failed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            buffer.reserve(4096);
            let (result, returned) = self.step(buffer, deadline).await;
            buffer = returned;
            if !result? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Sends the first message of this side.
    async fn session_hello(&mut self, deadline: Monotonic) -> io::Result<()> {
        match self.session.waiting_records() {
            Some(records) if !self.session.is_established() => {
                self.session.send(records, deadline.min(self.handshake_deadline)).await
            }
            _ => Ok(()),
        }
    }

    /// Looks at some of the encrypted bytes, or waits for more. `buffer` comes back as
    /// it was. False at the end of the transport.
    async fn step(&mut self, buffer: Vec<u8>, deadline: Monotonic) -> (io::Result<bool>, Vec<u8>) {
        let deadline = if self.session.is_established() {
            deadline
        } else {
            deadline.min(self.handshake_deadline)
        };
        if self.taken < self.cipher.len() {
            return (self.digest(deadline).await.map(|()| true), buffer);
        }
        let (result, buffer) = self.fetch(buffer, deadline).await;
        match result {
            Ok(0) if !self.session.is_established() => {
                (Err(io::ErrorKind::UnexpectedEof.into()), buffer)
            }
            other => (other.map(|count| count > 0), buffer),
        }
    }

    /// Reads encrypted bytes.
    async fn fetch(
        &mut self,
        mut buffer: Vec<u8>,
        deadline: Monotonic,
    ) -> (io::Result<usize>, Vec<u8>) {
        self.taken = 0;
        self.cipher.clear();
        let start = buffer.len();
        if buffer.capacity() - start >= LARGE_ROOM_BYTES {
            self.cipher.reserve_exact(CIPHER_BYTES);
            let cipher = std::mem::take(&mut self.cipher);
            let (result, cipher) = self.transport.read(cipher, deadline).await;
            self.cipher = cipher;
            return (result, buffer);
        }
        self.cipher = Vec::new();
        self.session.shrink();
        let (result, returned) = self.transport.read(buffer, deadline).await;
        buffer = returned;
        self.cipher.extend_from_slice(&buffer[start..]);
        buffer.truncate(start);
        (result, buffer)
    }

    /// Decrypts some of the received bytes, and answers during a handshake.
    async fn digest(&mut self, deadline: Monotonic) -> io::Result<()> {
        let cipher = &self.cipher[self.taken..];
        if std::mem::take(&mut self.may_be_plain_http) && is_plain_http(cipher) {
            tracing::debug!("a client sent HTTP to the port for HTTPS");
            self.tell_failure("the client sent HTTP to the port for HTTPS");
            self.part(PLAIN_HTTP_ANSWER.to_vec()).await;
            return Err(io::ErrorKind::InvalidData.into());
        }
        let was_established = self.session.is_established();
        match self.session.decrypt(cipher) {
            Ok(taken) => self.taken += taken,
            Err(fault) => return Err(self.refuse(fault).await),
        }
        if !was_established {
            if let Some(records) = self.session.waiting_records() {
                self.session.send(records, deadline).await?;
            }
            // Signing takes up to a millisecond: others come first now.
            self.runtime.yield_now().await;
        }
        Ok(())
    }

    /// Tells the peer why the connection cannot go on.
    async fn refuse(&mut self, fault: Fault) -> io::Error {
        let error = match fault {
            Fault::Protocol(error) => error,
            Fault::TooLong => Error::General("the handshake is too long".to_owned()),
            Fault::NoMemory => Error::General("no memory for the handshake".to_owned()),
        };
        tracing::debug!(%error, "a TLS connection failed");
        self.tell_failure(&error.to_string());
        let mut alert = Vec::new();
        self.session.take_records(&mut alert);
        self.part(alert).await;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Sends last words and closes so that they arrive: closing a socket with unread
    /// bytes resets the connection, and the reset may overtake them.
    async fn part(&mut self, last_words: Vec<u8>) {
        self.session.fail();
        self.cipher = Vec::new();
        self.taken = 0;
        // Another task is writing; then the peer sees only the end of the connection.
        let Some(mut transport) = self.session.take_transport() else { return };
        let deadline = self.runtime.now().after(FAREWELL);
        if transport.write_all(last_words, deadline).await.0.is_err()
            || transport.shutdown().await.is_err()
        {
            return;
        }
        let mut dropped_bytes = 0;
        let mut buffer = Vec::with_capacity(4096);
        while dropped_bytes < FAREWELL_BYTES {
            buffer.clear();
            let (result, returned) = self.transport.read(buffer, deadline).await;
            buffer = returned;
            match result {
                Ok(count) if count > 0 => dropped_bytes += count,
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Records begin with bytes from 20 to 24, methods with a letter.
fn is_plain_http(first: &[u8]) -> bool {
    first.first().is_some_and(u8::is_ascii_uppercase)
}

impl<R: Runtime> Writer for TlsWriter<R> {
    /// Fails with [`io::ErrorKind::NotConnected`] before the handshake is done.
    async fn write_all<B: OwnedBytes>(
        &mut self,
        buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B) {
        if self.session.has_failed() {
            return (Err(io::ErrorKind::BrokenPipe.into()), buffer);
        }
        if !self.session.is_established() {
            return (Err(io::ErrorKind::NotConnected.into()), buffer);
        }
        (self.session.send_plain(buffer.as_ref(), deadline).await, buffer)
    }

    async fn shutdown(&mut self) -> io::Result<()> {
        self.session.say_goodbye(self.runtime.now().after(FAREWELL)).await?;
        self.session.shut_down_transport().await
    }

    async fn close(&mut self) {
        // The connection ends anyway, said or unsaid.
        let _ = self.session.say_goodbye(self.runtime.now().after(FAREWELL)).await;
    }
}

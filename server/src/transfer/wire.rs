//! A request of a command to a running server, over plain HTTP, with an answer of any length.
//!
//! Guarantees: one piece of the answer is held at a time. An answer that is cut off is an error, and
//! so is anything that is no HTTP.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;
use logsvc_http::client::{Piece, ResponseDecoder, ResponseHead, ResponseLimits};

use crate::ask;

/// Longest time to connect to one address, and to send a part of a request.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SEND_LIMIT: Duration = Duration::from_secs(120);
/// Longest time without a byte of the answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Most bytes of an answer that is read as a whole.
const TEXT_MAX_BYTES: usize = 1 << 20;

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    host: String,
    prefix: String,
    /// Headers of all requests.
    headers: String,
}

/// An answer whose head was read.
pub(super) struct Answer {
    stream: TcpStream,
    decoder: ResponseDecoder,
    input: Bytes,
    pub(super) head: ResponseHead,
}

impl Server {
    /// A server, with the tenant and the account that it is asked for.
    ///
    /// # Errors
    /// The address cannot be used, or a header.
    pub(super) fn new(
        address: &str,
        tenant: Option<&str>,
        authorization: Option<&str>,
    ) -> io::Result<Server> {
        let (host, prefix) = ask::parts(address)?;
        let mut headers = format!("Host: {host}\r\nConnection: close\r\n");
        let named = [("X-Scope-OrgID", tenant), ("Authorization", authorization)];
        for (name, value) in named {
            let Some(value) = value else { continue };
            if value.chars().any(char::is_control) {
                return Err(ask::invalid(format!("{name} cannot have line breaks")));
            }
            // Into a text.
            let _ = write!(headers, "{name}: {value}\r\n");
        }
        Ok(Server { host, prefix, headers })
    }

    /// Sends a request, and reads the head of the answer.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn ask(&self, method: &str, target: &str, body: &[u8]) -> io::Result<Answer> {
        let Server { host, prefix, headers } = self;
        let mut stream = Err(ask::invalid(format!("{host} has no address")));
        for address in host.to_socket_addrs()? {
            stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT);
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        stream.set_write_timeout(Some(SEND_LIMIT))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let head = format!(
            "{method} {prefix}{target} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        // A server may answer before it has read the body, and that says more.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let limits = ResponseLimits { max_body_bytes: u64::MAX, ..ResponseLimits::default() };
        let mut decoder = ResponseDecoder::new(limits, false);
        let mut input = Bytes::new();
        loop {
            match next(&mut stream, &mut decoder, &mut input) {
                Ok(Some(Piece::Interim(_))) => {}
                Ok(Some(Piece::Head(head))) => return Ok(Answer { stream, decoder, input, head }),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
                Err(error) => return Err(sent.err().unwrap_or(error)),
            }
        }
    }
}

/// The next piece of an answer.
fn next(
    stream: &mut TcpStream,
    decoder: &mut ResponseDecoder,
    input: &mut Bytes,
) -> io::Result<Option<Piece>> {
    let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    loop {
        if let Some(piece) = decoder.decode(input).map_err(bad)? {
            return Ok(Some(piece));
        }
        if decoder.is_complete() {
            return Ok(None);
        }
        let mut buffer = vec![0; READ_BYTES];
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            decoder.finish().map_err(bad)?;
            return Ok(None);
        }
        buffer.truncate(count);
        *input = Bytes::from(buffer);
    }
}

impl Answer {
    /// The next bytes of the body; none behind its end.
    ///
    /// # Errors
    /// It is cut off.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        match next(&mut self.stream, &mut self.decoder, &mut self.input)? {
            Some(Piece::Data(data)) => Ok(Some(data)),
            _ => Ok(None),
        }
    }

    /// The body of a short answer.
    ///
    /// # Errors
    /// It is cut off.
    pub(super) fn text(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        while let Some(data) = self.next()? {
            text.extend_from_slice(&data);
            if text.len() > TEXT_MAX_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(super) fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let value = self.head.headers.get(http::header::RETRY_AFTER)?;
        Some(Duration::from_secs(value.to_str().ok()?.parse().ok()?))
    }

    /// Whether the same request may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self.status(), 429 | 500 | 502 | 503 | 504)
    }
}

/// An answer that is no success, in words.
pub(super) fn refused(status: u16, text: &str) -> io::Error {
    io::Error::other(format!("the server answers {status}: {}", text.trim_end()))
}

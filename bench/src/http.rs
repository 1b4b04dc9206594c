//! A minimal blocking HTTP/1.1 client: one connection, kept alive, one request at a time. The
//! caller prepares the bytes of a request in advance. An error closes the connection, and the
//! next request opens a new one. The client never repeats a request by itself: only its caller
//! knows whether that is safe.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Header lines and chunk lines longer than this in all are refused.
const HEAD_LIMIT_BYTES: u64 = 64 * 1024;
/// Answers longer than this are refused.
const BODY_LIMIT_BYTES: usize = 1 << 30;

/// The server that a `http://host:port` URL names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) authority: String,
}

/// Reads `http://host[:port]`; the default port is that of HTTP.
pub(crate) fn parse_target(url: &str) -> Result<Target, String> {
    let rest = url.strip_prefix("http://").ok_or("only http:// URLs are supported")?;
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
        return Err(format!("expected http://host:port, got {url:?}"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok(Target { authority })
}

impl Target {
    /// Opens a connection.
    pub(crate) fn connect(&self, timeout: Duration) -> io::Result<TcpStream> {
        let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(timeout))?;
                    stream.set_write_timeout(Some(timeout))?;
                    return Ok(stream);
                }
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    /// The bytes of a request. `headers` are further header lines, each with its
    /// line end. A request without a body has no `Content-Length`.
    pub(crate) fn request(
        &self,
        method: &str,
        path_and_query: &str,
        tenant: Option<&str>,
        headers: &str,
        body: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut out = format!(
            "{method} {path_and_query} HTTP/1.1\r\nHost: {}\r\nUser-Agent: bench\r\n{headers}",
            self.authority
        );
        if let Some(tenant) = tenant {
            out.push_str(&format!("X-Scope-OrgID: {tenant}\r\n"));
        }
        if let Some(body) = body {
            out.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        out.extend_from_slice(body.unwrap_or_default());
        out
    }
}

/// How the end of a body is known (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Framing {
    /// So many bytes follow.
    Length(usize),
    /// Chunks follow.
    Chunked,
    /// Everything until the server closes.
    UntilClose,
}

/// The fields of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) retry_after_seconds: Option<u64>,
}

/// Reads a complete head, up to and including its empty line.
pub(crate) fn parse_head(head: &[u8]) -> io::Result<Head> {
    let head = std::str::from_utf8(head).map_err(|_| invalid("head is not UTF-8"))?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let (version, rest) =
        status_line.split_once(' ').ok_or_else(|| invalid("no HTTP status line"))?;
    if !version.starts_with("HTTP/1.") {
        return Err(invalid("no HTTP/1 status line"));
    }
    let status: u16 = rest
        .get(..3)
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| invalid("status is not a number"))?;
    let mut parsed = Head {
        status,
        framing: Framing::UntilClose,
        keep_alive: version != "HTTP/1.0",
        retry_after_seconds: None,
    };
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| invalid("header without ':'"))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().map_err(|_| invalid("Content-Length is not a number"))?;
            if parsed.framing == Framing::UntilClose {
                parsed.framing = Framing::Length(length);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                return Err(invalid("unknown Transfer-Encoding"));
            }
            parsed.framing = Framing::Chunked;
        } else if name.eq_ignore_ascii_case("connection") {
            parsed.keep_alive &= !value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("retry-after") {
            parsed.retry_after_seconds = value.parse().ok();
        }
    }
    if status == 204 || status == 304 || (100..200).contains(&status) {
        parsed.framing = Framing::Length(0);
    }
    Ok(parsed)
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body's first characters, for messages.
    pub(crate) fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).trim().to_owned()
    }
}

/// A client with at most one connection.
pub(crate) struct Client {
    target: Target,
    timeout: Duration,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(target: Target, timeout: Duration) -> Client {
        Client { target, timeout, connection: None }
    }

    /// Sends prepared request bytes and reads the answer. After an error the server may or may not
    /// have processed the request.
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::with_capacity(64 * 1024, self.target.connect(self.timeout)?),
        };
        connection.get_mut().write_all(request)?;
        let (response, keep_alive) = read_response(&mut connection)?;
        if keep_alive {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Sends a request that may safely be repeated: once more, on a new
    /// connection, if the kept one turns out to be dead.
    pub(crate) fn send_repeatable(&mut self, request: &[u8]) -> io::Result<Response> {
        let was_kept = self.connection.is_some();
        match self.send(request) {
            Err(error) if was_kept && error.kind() != io::ErrorKind::WouldBlock => {
                self.send(request)
            }
            result => result,
        }
    }
}

/// Reads one answer, and whether the connection stays open.
fn read_response(reader: &mut impl BufRead) -> io::Result<(Response, bool)> {
    let head = loop {
        let head = parse_head(&read_head(reader)?)?;
        if head.status >= 200 {
            break head;
        }
    };
    let mut body = Vec::new();
    match head.framing {
        Framing::Length(length) => read_body_part(reader, length, &mut body)?,
        Framing::Chunked => read_chunks(reader, &mut body)?,
        Framing::UntilClose => {
            reader.take(BODY_LIMIT_BYTES as u64 + 1).read_to_end(&mut body)?;
            if body.len() > BODY_LIMIT_BYTES {
                return Err(invalid("answer is too long"));
            }
        }
    }
    let keep_alive = head.keep_alive && head.framing != Framing::UntilClose;
    let retry_after_seconds = head.retry_after_seconds;
    Ok((Response { status: head.status, retry_after_seconds, body }, keep_alive))
}

fn read_head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut limited = reader.take(HEAD_LIMIT_BYTES);
    loop {
        let line_start = head.len();
        if limited.read_until(b'\n', &mut head)? == 0 || !head.ends_with(b"\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if &head[line_start..] == b"\r\n" {
            return Ok(head);
        }
    }
}

fn read_body_part(reader: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if length > BODY_LIMIT_BYTES - body.len() {
        return Err(invalid("answer is too long"));
    }
    // Grows with the bytes received, not with the announced length.
    if reader.take(length as u64).read_to_end(body)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let line = read_line(reader)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let length =
            usize::from_str_radix(digits, 16).map_err(|_| invalid("chunk without a length"))?;
        if length == 0 {
            // Trailer fields, up to the empty line.
            while !read_line(reader)?.is_empty() {}
            return Ok(());
        }
        read_body_part(reader, length, body)?;
        if !read_line(reader)?.is_empty() {
            return Err(invalid("chunk is longer than announced"));
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(HEAD_LIMIT_BYTES).read_until(b'\n', &mut line)?;
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    String::from_utf8(line.to_vec()).map_err(|_| invalid("chunk line is not UTF-8"))
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Percent-encodes a query parameter's value.
pub(crate) fn encode_query(value: &str) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<(Response, bool)> {
        read_response(&mut text.as_bytes())
    }

    #[test]
    fn framings() {
        for (text, body, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "abc", true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\nConnection: close\r\n\r\nabc", "abc", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
                "abc0123456789",
                true,
            ),
            ("HTTP/1.0 200 OK\r\n\r\nrest", "rest", false),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "", true),
        ] {
            let (response, kept) = read(text).unwrap();
            assert_eq!((&*response.body, kept), (body.as_bytes(), keep_alive), "{text}");
        }
    }

    #[test]
    fn broken_answers_are_errors() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "SSH-2.0-x y\r\n\r\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(20_000));
        assert!(read(&endless).is_err());
    }

    #[test]
    fn damaged_answers_neither_panic_nor_hang() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nRetry-After: 1\r\n\r\n\
                      3\r\nabc\r\n0\r\n\r\n";
        let seed = 42;
        let mut random = logsvc_testkit::Rng::new(seed);
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.index(bytes.len());
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.index(bytes.len()) + 1);
            // The bytes received are as long as an accepted body at least.
            match read_response(&mut bytes.as_slice()) {
                Ok((response, _)) => assert!(response.body.len() <= bytes.len(), "seed {seed}"),
                Err(_) => refused += 1,
            }
        }
        assert!((10_000..20_000).contains(&refused), "{refused} refused, seed {seed}");
    }

    #[test]
    fn retry_after_is_kept() {
        let text =
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nslow";
        let (response, _) = read(text).unwrap();
        assert_eq!((response.status, response.retry_after_seconds), (429, Some(7)));
        assert_eq!(response.excerpt(), "slow");
        assert!(!response.is_success());
    }

    #[test]
    fn targets() {
        for (url, authority) in [
            ("http://127.0.0.1:3100", "127.0.0.1:3100"),
            ("http://localhost/", "localhost:80"),
            ("http://[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(parse_target(url).unwrap().authority, authority);
        }
        for url in ["", "https://x", "http://", "http://a/b", "127.0.0.1:3100"] {
            assert!(parse_target(url).is_err(), "{url}");
        }
    }

    #[test]
    fn query_values_are_encoded() {
        assert_eq!(encode_query("{a=\"é +\"}"), "%7Ba%3D%22%C3%A9%20%2B%22%7D");
    }
}

//! A blocking HTTP/1.1 client on one connection. It is precise about the server's bytes rather than
//! lenient.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for anything.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longest answer that a test has use for.
const BODY_MAX_BYTES: u64 = 256 << 20;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON: {error}: {}", self.text()))
    }

    /// Insists on a status; returns the body as text.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        self.text()
    }
}

/// A connection, made when it is first needed and again after the server closed
/// it.
pub(crate) struct Client {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(address: &str) -> Client {
        Client { address: address.to_owned(), connection: None }
    }

    /// Sends a request and reads the answer.
    pub(crate) fn try_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<Reply> {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut bytes = (request + "\r\n").into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        self.try_exchange(&bytes, method == "HEAD")
    }

    /// Sends bytes as they are and reads one answer.
    pub(crate) fn try_exchange(&mut self, bytes: &[u8], to_head: bool) -> io::Result<Reply> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => BufReader::new(connect(&self.address)?),
        };
        connection.get_mut().write_all(bytes)?;
        let reply = read_reply(&mut connection, to_head)?;
        if reply.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(reply)
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        self.try_request(method, target, headers, body)
            .unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, &[], None)
    }

    /// Pushes as JSON and insists on 204.
    #[track_caller]
    pub(crate) fn push(&mut self, streams: &[super::Stream]) {
        let reply = self.push_json(super::body::json(streams).as_bytes());
        assert_eq!(reply.status, 204, "{}", reply.text());
    }

    /// Sends a JSON body to the push endpoint.
    pub(crate) fn push_json(&mut self, body: &[u8]) -> Reply {
        let headers = [("Content-Type", "application/json")];
        self.request("POST", "/loki/api/v1/push", &headers, Some(body))
    }

    /// Sends a snappy-compressed protobuf body to the push endpoint.
    pub(crate) fn push_protobuf(&mut self, body: &[u8]) -> Reply {
        let headers = [("Content-Type", "application/x-protobuf")];
        self.request("POST", "/loki/api/v1/push", &headers, Some(body))
    }
}

/// A connection with timeouts.
pub(crate) fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Reads the head of an answer, and the body if the server does not switch protocols.
pub(crate) fn read_handshake(connection: &mut impl BufRead) -> io::Result<Reply> {
    let reply = read_head(connection)?;
    if reply.status == 101 { Ok(reply) } else { read_body(connection, reply) }
}

/// Reads one answer.
pub(crate) fn read_reply(connection: &mut impl BufRead, to_head: bool) -> io::Result<Reply> {
    let reply = read_head(connection)?;
    if to_head || reply.status == 204 {
        return Ok(reply);
    }
    read_body(connection, reply)
}

pub(crate) fn read_head(connection: &mut impl BufRead) -> io::Result<Reply> {
    let status_line = read_line(connection)?;
    let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| bad(format!("status line {status_line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(connection)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad(format!("header {line:?}")))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Reply { status, headers, body: Vec::new() })
}

pub(crate) fn read_body(connection: &mut impl BufRead, mut reply: Reply) -> io::Result<Reply> {
    if reply.header("transfer-encoding") == Some("chunked") {
        loop {
            let size = read_line(connection)?;
            let len = u64::from_str_radix(&size, 16).map_err(|_| bad(format!("chunk {size:?}")))?;
            read_exactly(connection, len, &mut reply.body)?;
            let end = read_line(connection)?;
            if !end.is_empty() {
                return Err(bad(format!("{end:?} after a chunk")));
            }
            if len == 0 {
                return Ok(reply);
            }
        }
    }
    // 304 never has a body, and need not say the length of what it stands for.
    if reply.status == 304 {
        return Ok(reply);
    }
    let len = reply.header("content-length").and_then(|text| text.parse().ok());
    let len = len.ok_or_else(|| bad("an answer without a length".to_owned()))?;
    read_exactly(connection, len, &mut reply.body)?;
    Ok(reply)
}

fn bad(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn read_line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_exactly(connection: &mut impl BufRead, len: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if len > BODY_MAX_BYTES {
        return Err(bad(format!("an answer of {len} bytes")));
    }
    let read = connection.take(len).read_to_end(body)? as u64;
    if read == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

//! A client of a few lines: one request per connection, and the answer to its end.
//!
//! Guarantees: no call takes longer than its time, and no answer takes more memory than its first
//! [`KEPT_BYTES`].

use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// So much of an answer is kept, its head included.
const KEPT_BYTES: usize = 4096;

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The begin of the body.
    pub(super) text: String,
    /// From the first byte of the request to the last one of the answer.
    pub(super) took: Duration,
}

/// An HTTP request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    pub(super) tenant: &'a str,
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
}

impl<'a> Request<'a> {
    pub(super) fn get(target: &'a str) -> Request<'a> {
        Request { method: "GET", target, tenant: "attack", content_type: "text/plain", body: b"" }
    }

    pub(super) fn push(tenant: &'a str, json: &'a str) -> Request<'a> {
        let (target, content_type) = ("/loki/api/v1/push", "application/json");
        Request { method: "POST", target, tenant, content_type, body: json.as_bytes() }
    }

    pub(super) fn query(form: &'a str) -> Request<'a> {
        let target = "/loki/api/v1/query_range";
        let content_type = "application/x-www-form-urlencoded";
        Request { method: "POST", target, tenant: "attack", content_type, body: form.as_bytes() }
    }
}

/// Sends the request to a port of this machine.
///
/// # Errors
/// The server does not answer, or the answer does not end in time.
pub(super) fn send(port: u16, request: &Request<'_>, within: Duration) -> Result<Answer> {
    let begun = Instant::now();
    let mut stream = connect(port, within)?;
    let Request { method, target, tenant, content_type, body } = request;
    let mut bytes = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         X-Scope-OrgID: {tenant}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    // An answer may come before the body's end; the rest of the body then finds a closed
    // connection.
    let sent = stream.write_all(&bytes);
    let kept = match read_answer(&mut stream, begun + within) {
        Ok(kept) => kept,
        Err(error) => return Err(sent.err().unwrap_or(error)).context("no answer"),
    };
    let took = begun.elapsed();
    parse(&kept, took)
}

/// A connection whose calls end in time.
pub(super) fn connect(port: u16, within: Duration) -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, within).context("connecting")?;
    stream.set_read_timeout(Some(within))?;
    stream.set_write_timeout(Some(within))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn read_answer(stream: &mut TcpStream, end: Instant) -> std::io::Result<Vec<u8>> {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(kept),
            Ok(count) => {
                let room = KEPT_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..count.min(room)]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The end of a connection on which the server left bytes unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !kept.is_empty() => {
                return Ok(kept);
            }
            Err(error) => return Err(error),
        }
    }
}

fn parse(kept: &[u8], took: Duration) -> Result<Answer> {
    let text = String::from_utf8_lossy(kept);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let Some(status) = status else { bail!("this is no answer: {head:?}") };
    Ok(Answer { status, text: body.to_owned(), took })
}

/// A query over the last hour as the body of a form.
pub(super) fn query_form(query: &str) -> String {
    format!("query={}&since=1h&step=60&limit=5000", percent_encoded(query))
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
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
    use std::net::TcpListener;

    #[test]
    fn forms_say_what_was_meant() {
        assert_eq!(percent_encoded("{a=\"b c\"}+1"), "%7Ba%3D%22b%20c%22%7D%2B1");
        assert!(query_form("x").starts_with("query=x&"));
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_one_that_does_not_come_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            let mut head = [0; 4];
            first.read_exact(&mut head).unwrap();
            first.write_all(b"HTTP/1.1 429 Too Many Requests\r\nA: b\r\n\r\nlater").unwrap();
            drop(first);
            // The second connection gets no answer.
            let (second, _) = listener.accept().unwrap();
            second
        });
        let answer = send(port, &Request::get("/ready"), Duration::from_secs(10)).unwrap();
        assert_eq!((answer.status, answer.text.as_str()), (429, "later"));
        let within = Duration::from_millis(50);
        assert!(send(port, &Request::get("/ready"), within).is_err());
        drop(server.join().unwrap());
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(parse(b"", Duration::ZERO).is_err());
        assert!(parse(b"SSH-2.0-x\r\n", Duration::ZERO).is_err());
    }
}

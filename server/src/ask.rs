//! A request of a command to a running server, without a body, over plain HTTP.
//!
//! It waits as long as the server works, and keeps at most [`ANSWER_MAX_BYTES`] of the answer. It
//! needs no core: a ring for one request would cost more than the request.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longest time to connect to one address, and to send the request.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Longest time without a byte of the answer: the server writes memory to segments meanwhile.
const ANSWER_LIMIT: Duration = Duration::from_secs(3600);

/// Most bytes of an answer that are read.
const ANSWER_MAX_BYTES: u64 = 1 << 20;

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: u16,
    /// Its text.
    pub(crate) body: String,
}

/// An error of what was asked for.
pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// The host with its port, and the path, of an address such as `http://host:3100/prefix`.
pub(crate) fn parts(server: &str) -> io::Result<(String, String)> {
    let rest = match server.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => {
            let text = format!(
                "{scheme}:// is not supported: name an address that begins with http://, or ask \
                 with curl"
            );
            return Err(invalid(text));
        }
        None => return Err(invalid("an address begins with http://")),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bare = |c: char| c.is_ascii_graphic() && c != '@' && c != '?' && c != '#';
    if host.is_empty() || !rest.chars().all(is_bare) {
        return Err(invalid("an address has the form http://host:port"));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let host = if has_port { host.to_owned() } else { format!("{host}:80") };
    let path = path.trim_end_matches('/');
    Ok((host, if path.is_empty() { String::new() } else { format!("/{path}") }))
}

/// A value of a query string.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(byte.into()),
            _ => {
                let digit = |nibble: u8| char::from(b"0123456789ABCDEF"[usize::from(nibble)]);
                out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    out
}

/// Sends POST to a path of a server, and reads the answer.
pub(crate) fn post(server: &str, target: &str) -> io::Result<Answer> {
    let (host, prefix) = parts(server)?;
    let mut stream = Err(invalid(format!("{host} has no address")));
    for address in host.to_socket_addrs()? {
        stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT);
        if stream.is_ok() {
            break;
        }
    }
    let mut stream = stream?;
    stream.set_write_timeout(Some(CONNECT_LIMIT))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    write!(
        stream,
        "POST {prefix}{target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
    understood(&String::from_utf8_lossy(&answer))
}

/// Takes an answer apart. One that ends too early is an error.
fn understood(answer: &str) -> io::Result<Answer> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| bad("the answer is no HTTP or is cut off"))?;
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| bad("the answer is no HTTP/1.1"))?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| length > body.len()) {
        return Err(bad("the answer is cut off"));
    }
    Ok(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let is = |host: &str, path: &str| Some((host.to_owned(), path.to_owned()));
        for (address, expected) in [
            ("http://h:3100", is("h:3100", "")),
            ("http://h:3100/", is("h:3100", "")),
            ("http://[::1]:1/logs/", is("[::1]:1", "/logs")),
            ("http://h", is("h:80", "")),
            ("https://h:3100", None),
            ("h:3100", None),
            ("http://", None),
            ("http://a b", None),
            ("http://u@h", None),
            ("http://h/?a=b", None),
            ("http://h\r\nX: y", None),
        ] {
            assert_eq!(parts(address).ok(), expected, "{address}");
        }
    }

    #[test]
    fn answers_are_taken_apart() {
        let answer = |status, body: &str| Some(Answer { status, body: body.to_owned() });
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", answer(200, "ok")),
            ("HTTP/1.1 409 Conflict\r\n\r\nno", answer(409, "no")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", None),
            ("HTTP/1.1 200 OK\r\n", None),
            ("SSH-2.0-x\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(understood(text).ok(), expected, "{text}");
        }
        assert_eq!(escaped("a b/\u{e4}"), "a%20b%2F%C3%A4");
    }
}

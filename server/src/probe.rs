//! `logsvc health`: asks a running server whether it is alive, for health checks of images that
//! hold no other program.
//!
//! Guarantees: it ends within [`LIMIT`] for each step of the connection, and exits with 0 if the
//! server answers 2xx, and 1 if it answers anything else or nothing. A port that speaks HTTPS only
//! refuses the plain request in words, so this answer means that the server is alive, too.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// The path that is asked unless another is named. It answers while the node is not ready, so
/// that nobody restarts a node that replays its log.
pub(crate) const ALIVE: &str = "/-/healthy";

/// Longest time to connect, and for each reading and writing.
const LIMIT: Duration = Duration::from_secs(3);

/// Most bytes of an answer that are read.
const ANSWER_MAX_BYTES: u64 = 4096;

/// How a port that speaks HTTPS only refuses a plain request.
const HTTPS_ONLY: &str = "Client sent an HTTP request to an HTTPS server.";

/// Asks for `path` and tells the answer.
pub(crate) fn run(address: SocketAddr, path: &str) -> ExitCode {
    let (code, text) = match ask(address, path) {
        Ok(answer) => judge(&answer),
        Err(error) => (ExitCode::FAILURE, format!("{address} does not answer: {error}")),
    };
    // The exit code says it, too, if standard output is closed.
    let _ = writeln!(io::stdout(), "{text}");
    code
}

/// Sends the request and reads the beginning of the answer.
///
/// It needs no core: a ring for one request would cost more than the request.
fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The exit code of an answer, and what is said of it.
fn judge(answer: &str) -> (ExitCode, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let line = head.lines().next().unwrap_or("");
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let is_alive = match status {
        Some("400") => body.contains(HTTPS_ONLY),
        Some(status) => status.starts_with('2'),
        None => false,
    };
    let text = if is_alive { "alive".to_owned() } else { format!("{line}\n{}", body.trim_end()) };
    (if is_alive { ExitCode::SUCCESS } else { ExitCode::FAILURE }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged() {
        let https = format!("HTTP/1.1 400 Bad Request\r\na: b\r\n\r\n{HTTPS_ONLY}");
        for (answer, alive) in [
            ("HTTP/1.1 200 OK\r\n\r\nready\n", true),
            ("HTTP/1.1 204 No Content\r\n\r\n", true),
            (https.as_str(), true),
            ("HTTP/1.1 400 Bad Request\r\n\r\nno", false),
            ("HTTP/1.1 404 Not Found\r\n\r\n", false),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\nreplaying", false),
            ("HTTP/1.1 2", false),
            ("SSH-2.0-x", false),
            ("", false),
        ] {
            let (code, text) = judge(answer);
            let expected = if alive { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            assert_eq!(code, expected, "{answer}: {text}");
            assert_eq!(text == "alive", alive, "{answer}");
        }
    }
}

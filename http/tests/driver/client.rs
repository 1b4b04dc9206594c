//! A client that sends exact bytes and reads whole answers.

use std::io::Read;
use std::time::Duration;

use futures_util::future::join;
use logsvc_runtime::{Monotonic, Reader, Runtime, Writer};

/// How long a client waits for anything before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) reader: R::Reader,
    pub(crate) writer: R::Writer,
    pub(crate) received: Vec<u8>,
}

/// One answer, its transfer coding undone.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().expect("a status line")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.split("\r\n").skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text body")
    }

    pub(crate) fn gunzip(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&self.body[..]);
        decoder.read_to_end(&mut plain).expect("a gzip body");
        plain
    }
}

impl<R: Runtime> Client<R> {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes).await, "the server does not take what is sent");
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let deadline = self.runtime.now().after(PATIENCE);
        self.writer.write_all(bytes.as_ref().to_vec(), deadline).await.0.is_ok()
    }

    /// Sends and reads at the same time, for data that fits into no socket buffer.
    pub(crate) async fn send_and_receive(&mut self, bytes: Vec<u8>, min_received: usize) {
        let deadline = self.runtime.now().after(PATIENCE);
        let Client { runtime, reader, writer, received } = self;
        let sending = async { writer.write_all(bytes, deadline).await.0 };
        let receiving = async {
            while received.len() < min_received {
                assert!(receive_more(runtime, reader, received).await, "it ended early");
            }
        };
        join(sending, receiving).await.0.expect("the server takes what is sent");
    }

    /// Reads more; false at the end of the connection, however it ended.
    pub(crate) async fn receive(&mut self) -> bool {
        receive_more(&self.runtime, &mut self.reader, &mut self.received).await
    }

    pub(crate) async fn receive_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive().await, "the connection ended early");
        }
        self.received.drain(..count).collect()
    }

    /// Reads up to and including `end`.
    pub(crate) async fn receive_until(&mut self, end: &str) -> String {
        loop {
            let place = self.received.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(at) = place {
                let bytes = self.receive_bytes(at + end.len()).await;
                return String::from_utf8(bytes).expect("text");
            }
            assert!(
                self.receive().await,
                "the connection ended after {:?}",
                String::from_utf8_lossy(&self.received)
            );
        }
    }

    /// Reads an answer to a request other than HEAD.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.receive_until("\r\n\r\n").await;
        let mut answer = Answer { head, body: Vec::new() };
        if let Some(len_bytes) = answer.header("content-length") {
            let len_bytes = len_bytes.parse().expect("a length");
            answer.body = self.receive_bytes(len_bytes).await;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.receive_until("\r\n").await;
                let size = usize::from_str_radix(size.trim_end(), 16).expect("a chunk size");
                answer.body.extend(self.receive_bytes(size).await);
                assert_eq!(self.receive_bytes(2).await, b"\r\n");
                if size == 0 {
                    break;
                }
            }
        }
        answer
    }

    pub(crate) async fn exchange(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// Reads until the connection ends and returns all bytes.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.receive().await {}
        std::mem::take(&mut self.received)
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.runtime.sleep_until(self.runtime.now().after(duration)).await;
    }

    pub(crate) fn now(&self) -> Monotonic {
        self.runtime.now()
    }
}

async fn receive_more<R: Runtime>(
    runtime: &R,
    reader: &mut R::Reader,
    received: &mut Vec<u8>,
) -> bool {
    let mut buffer = std::mem::take(received);
    buffer.reserve(64 * 1024);
    let (result, buffer) = reader.read(buffer, runtime.now().after(PATIENCE)).await;
    *received = buffer;
    match result {
        Ok(count) => count > 0,
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            panic!("the server neither answers nor closes: {error}")
        }
        Err(_) => false,
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

pub(crate) fn post(path: &str, body: &str) -> String {
    let len_bytes = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {len_bytes}\r\n\r\n{body}")
}

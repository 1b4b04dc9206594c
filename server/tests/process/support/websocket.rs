//! A WebSocket client: the opening handshake, and frames as they come.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Reply, connect, read_handshake};

/// A message of a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    Json(Value),
    Ping,
    Close(u16, String),
}

/// An open WebSocket.
pub(crate) struct WebSocket {
    connection: BufReader<TcpStream>,
}

impl WebSocket {
    /// Opens a WebSocket; gives the answer instead if it is not 101.
    pub(crate) fn open(
        address: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<WebSocket, Reply> {
        let mut connection = BufReader::new(connect(address).expect("a connection"));
        let mut request = format!(
            "GET {target} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        connection.get_mut().write_all((request + "\r\n").as_bytes()).expect("sent");
        let reply = read_handshake(&mut connection).expect("an answer");
        if reply.status != 101 {
            return Err(reply);
        }
        assert_eq!(reply.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        Ok(WebSocket { connection })
    }

    fn read(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.connection.read_exact(&mut bytes).map(|()| bytes)
    }

    /// The next frame.
    pub(crate) fn next(&mut self) -> Frame {
        let head = self.read(2).expect("a frame");
        let len = match head[1] {
            126 => {
                self.read(2).expect("a length").iter().fold(0, |len, &b| len << 8 | usize::from(b))
            }
            127 => {
                self.read(8).expect("a length").iter().fold(0, |len, &b| len << 8 | usize::from(b))
            }
            len => usize::from(len),
        };
        let payload = self.read(len).expect("a payload");
        match head[0] {
            0x81 => Frame::Json(serde_json::from_slice(&payload).expect("JSON")),
            0x89 => {
                assert!(payload.is_empty());
                Frame::Ping
            }
            0x88 => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                Frame::Close(code, String::from_utf8_lossy(&payload[2..]).into_owned())
            }
            first => panic!("a frame of type {first:#x}"),
        }
    }

    /// The next frame that is no ping.
    pub(crate) fn next_told(&mut self) -> Frame {
        loop {
            match self.next() {
                Frame::Ping => {}
                frame => return frame,
            }
        }
    }

    /// The close frame, after all messages before it.
    pub(crate) fn closed(&mut self) -> (u16, String) {
        loop {
            if let Frame::Close(code, reason) = self.next() {
                return (code, reason);
            }
        }
    }

    /// Entries until there are `count`: their labels, times and lines.
    pub(crate) fn entries(&mut self, count: usize) -> Vec<(Value, i64, String)> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut entries = Vec::new();
        while entries.len() < count {
            assert!(Instant::now() < deadline, "only {entries:?}");
            match self.next() {
                Frame::Json(frame) => entries.extend(entries_of(&frame)),
                Frame::Ping => {}
                Frame::Close(code, reason) => panic!("closed: {code} {reason}, after {entries:?}"),
            }
        }
        entries
    }

    /// Just the lines.
    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        self.entries(count).into_iter().map(|(_, _, line)| line).collect()
    }

    /// Sends a close frame.
    pub(crate) fn close(&mut self) {
        let frame = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8];
        self.connection.get_mut().write_all(&frame).expect("sent");
    }
}

/// The entries of a tail's frame; each is a stream of its own.
pub(crate) fn entries_of(frame: &Value) -> Vec<(Value, i64, String)> {
    let streams = frame["streams"].as_array().expect("a list of streams");
    let entry = |stream: &Value| {
        let values = stream["values"].as_array().expect("values");
        assert_eq!(values.len(), 1, "{stream}");
        let time = values[0][0].as_str().and_then(|text| text.parse().ok()).expect("a time in ns");
        (stream["stream"].clone(), time, values[0][1].as_str().expect("a line").to_owned())
    };
    streams.iter().map(entry).collect()
}

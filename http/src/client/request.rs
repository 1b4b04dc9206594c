//! Requests as callers make them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};

use super::target::Target;
use crate::response::ChunkSource;

/// A request.
#[derive(Debug)]
pub struct ClientRequest {
    /// The method; neither `CONNECT` nor one that upgrades the connection.
    pub method: Method,
    /// The address.
    pub target: Target,
    /// Headers beside those of the client itself: `Content-Length`, `Transfer-Encoding`,
    /// `Connection` and `Expect` are its own, `Host`, `User-Agent` and `Authorization` are set
    /// where they are missing.
    pub headers: HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// Most time from now to the last byte of the answer; `None`: no limit beside those of the
    /// client's phases.
    pub timeout: Option<Duration>,
    /// Longest body of the answer; `None`: the client's limit.
    pub max_body_bytes: Option<u64>,
    /// Whether the server may get the request twice. `None`: by the method.
    pub may_repeat: Option<bool>,
}

/// The body of a request.
#[derive(Default)]
pub enum RequestBody {
    /// No body.
    #[default]
    Empty,
    /// All bytes at once. They are not copied unless they fit into one write with the head.
    Full(Vec<u8>),
    /// All bytes at once, which others have, too. They are never copied unless they are short. Sent in
    /// pieces, so that a server which takes some of them is not given up.
    Shared(Bytes),
    /// Bytes as they are made. A request with such a body is never repeated.
    Stream {
        /// Makes the pieces. Large ones are not copied.
        source: Box<dyn ChunkSource>,
        /// Their number if it is known; otherwise the body is sent in chunks.
        len_bytes: Option<u64>,
    },
}

impl RequestBody {
    /// Number of bytes, if it is known.
    pub fn len_bytes(&self) -> Option<u64> {
        match self {
            RequestBody::Empty => Some(0),
            RequestBody::Full(bytes) => Some(bytes.len() as u64),
            RequestBody::Shared(bytes) => Some(bytes.len() as u64),
            RequestBody::Stream { len_bytes, .. } => *len_bytes,
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len_bytes() {
            Some(len_bytes) => write!(f, "{len_bytes} bytes"),
            None => f.write_str("a stream"),
        }
    }
}

impl ClientRequest {
    /// A request without body and headers.
    pub fn new(method: Method, target: Target) -> ClientRequest {
        ClientRequest {
            method,
            target,
            headers: HeaderMap::new(),
            body: RequestBody::Empty,
            timeout: None,
            max_body_bytes: None,
            may_repeat: None,
        }
    }

    /// Sets a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> ClientRequest {
        self.headers.insert(name, value);
        self
    }

    /// Sets the whole body.
    #[must_use]
    pub fn with_body(mut self, body: Vec<u8>) -> ClientRequest {
        self.body = RequestBody::Full(body);
        self
    }

    /// Sets the whole body, without a copy.
    #[must_use]
    pub fn with_shared_body(mut self, body: Bytes) -> ClientRequest {
        self.body = RequestBody::Shared(body);
        self
    }

    /// Sets a body that is made piece by piece.
    #[must_use]
    pub fn with_stream(
        mut self,
        source: impl ChunkSource + 'static,
        len_bytes: Option<u64>,
    ) -> ClientRequest {
        self.body = RequestBody::Stream { source: Box::new(source), len_bytes };
        self
    }

    /// Sets the longest time.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> ClientRequest {
        self.timeout = Some(timeout);
        self
    }

    /// Whether the server may get the request twice (RFC 9110, section 9.2.2).
    pub(super) fn may_repeat(&self) -> bool {
        !matches!(self.body, RequestBody::Stream { .. })
            && self.may_repeat.unwrap_or_else(|| self.method.is_idempotent())
    }
}

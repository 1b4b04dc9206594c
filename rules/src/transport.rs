//! Small HTTP requests, as notifications and remote write send them.

mod over_http;

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

pub use self::over_http::{HttpTransport, HttpTransportError};
use crate::shown_url::shown_url;

/// A request with its whole body.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// The method.
    pub method: Method,
    /// `http://` or `https://`, with host, path and query.
    pub url: String,
    /// Headers beside those of the transport itself (`Host`, `Content-Length`, `User-Agent`).
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// Most time from the first byte of the connection to the last one of the answer.
    pub timeout: Duration,
}

/// The address without its password, and no values of headers.
impl fmt::Debug for OutgoingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingRequest")
            .field("method", &self.method)
            .field("url", &shown_url(&self.url))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// The answer, whatever its status.
#[derive(Clone, Debug)]
pub struct OutgoingAnswer {
    /// The status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// The first bytes of its body, at most [`ANSWER_MAX_BYTES`].
    pub body: Vec<u8>,
}

/// How much of an answer's body is kept, for log lines.
pub const ANSWER_MAX_BYTES: usize = 4096;

/// There is no answer: the host has no address, refuses, is too slow, or does not speak HTTP.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub String);

/// Sends requests.
#[allow(async_fn_in_trait)]
pub trait Transport: 'static {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// See [`TransportError`]. An answer with a bad status is an answer.
    async fn send(&self, request: OutgoingRequest) -> Result<OutgoingAnswer, TransportError>;
}

//! Requests of clients that one node answers for all: how they go there.
//!
//! They go as they are, below another path, with the writer that they are for. A node that is another
//! one, or that does not keep what is common to all, says 421 and does nothing.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER};
use http::{Method, StatusCode};

/// What the paths of such requests begin with.
pub const PREFIX: &str = "/v1/common";

/// The writer that a request is for.
pub const WRITER: HeaderName = HeaderName::from_static("x-logsvc-writer");

/// Headers of requests that matter to whoever answers them.
const OF_REQUESTS: [HeaderName; 3] =
    [CONTENT_TYPE, http::header::ACCEPT, HeaderName::from_static("x-scope-orgid")];

/// Headers of answers that matter to clients.
const OF_ANSWERS: [HeaderName; 3] =
    [CONTENT_TYPE, RETRY_AFTER, HeaderName::from_static("x-delete-request-id")];

/// The longest request in bytes.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// A request on its way.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// The method.
    pub method: Method,
    /// Path and query, as the client has sent them.
    pub target: String,
    /// Headers; see [`for_request`].
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The answer to it.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Headers that matter to the client.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// Those headers of a client's request that go with it.
#[must_use]
pub fn for_request(headers: &HeaderMap) -> HeaderMap {
    picked(headers, &OF_REQUESTS)
}

pub(crate) fn for_client(headers: &HeaderMap) -> HeaderMap {
    picked(headers, &OF_ANSWERS)
}

fn picked(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut out = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

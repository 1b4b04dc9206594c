//! Why the protocol layer refuses a request before the service has seen it.

use http::StatusCode;

/// A refusal made by the protocol layer. [`crate::Service::refusal`] turns it
/// into a response; after most of them the connection closes, because what
/// follows on it cannot be trusted or was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The bytes are no valid HTTP/1.1 request; the text names the error.
    #[error("{0}")]
    BadRequest(&'static str),
    /// The head did not arrive in time.
    #[error("timed out while waiting for the request head")]
    HeadTimeout,
    /// The body did not arrive in time.
    #[error("timed out while waiting for the request body")]
    BodyTimeout,
    /// The body is longer than the route admits.
    #[error("request body is larger than the limit of {max_bytes} bytes")]
    BodyTooLarge {
        /// The longest body of the route.
        max_bytes: u64,
    },
    /// The request target is longer than the server accepts.
    #[error("request target is longer than the limit of {max_bytes} bytes")]
    TargetTooLong {
        /// The limit of the server.
        max_bytes: usize,
    },
    /// `Expect` names something other than `100-continue`.
    #[error("expectation failed")]
    ExpectationFailed,
    /// No memory is left for request bodies; the client should retry later.
    #[error("too many bytes of requests in flight")]
    BudgetExhausted,
    /// The request came too slowly while others had no memory; the client should retry
    /// later.
    #[error("the request came too slowly while memory for others was short")]
    GaveWay,
    /// The header block is too long.
    #[error("request header fields are too large")]
    HeadTooLarge,
    /// The server stops while the body comes; the client should retry elsewhere or later.
    #[error("the server is stopping")]
    Stopping,
    /// `Transfer-Encoding` is something other than exactly `chunked`.
    #[error("transfer encoding is not supported")]
    TransferEncodingNotSupported,
    /// The request speaks a version other than HTTP/1.0 and HTTP/1.1.
    #[error("HTTP version is not supported")]
    VersionNotSupported,
}

impl Refusal {
    /// The status that says this to the client.
    pub fn status(self) -> StatusCode {
        match self {
            Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
            Refusal::HeadTimeout | Refusal::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Refusal::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::TargetTooLong { .. } => StatusCode::URI_TOO_LONG,
            Refusal::ExpectationFailed => StatusCode::EXPECTATION_FAILED,
            Refusal::BudgetExhausted => StatusCode::TOO_MANY_REQUESTS,
            Refusal::GaveWay | Refusal::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::TransferEncodingNotSupported => StatusCode::NOT_IMPLEMENTED,
            Refusal::VersionNotSupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}

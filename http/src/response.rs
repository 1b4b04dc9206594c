//! Responses as a service makes them.

use std::fmt;
use std::future::Future;

use futures_util::future::LocalBoxFuture;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};

use crate::websocket::{Handshake, Upgrade, WebSocket, WebSocketConfig};

/// A response. The driver adds `Date`, `Content-Length` or `Transfer-Encoding`, `Connection`, and
/// the headers of compression.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// Headers other than those that the driver adds.
    pub headers: HeaderMap,
    /// The body. Not sent in answer to HEAD, nor with 204 and 304.
    pub body: ResponseBody,
    /// Whether the body may be compressed if the client accepts that. Adds
    /// `Vary: Accept-Encoding` even if it is not.
    pub compressible: bool,
    /// Whether the connection closes after this response.
    pub close: bool,
    /// Name of the route for [`crate::Observation`]; empty if there is none.
    pub route: &'static str,
}

/// The body of a response.
pub enum ResponseBody {
    /// No bytes; `Content-Length: 0` where the status allows a body.
    Empty,
    /// All bytes at once.
    Full(Vec<u8>),
    /// Bytes as they are made, in chunked transfer coding. To HTTP/1.0 clients
    /// they go out plain and the connection's end is the body's end.
    Chunks(Box<dyn ChunkSource>),
    /// The connection becomes a WebSocket. Made by [`Response::websocket`].
    WebSocket(Upgrade),
}

/// Makes a body piece by piece.
pub trait ChunkSource {
    /// The next piece, `None` after the last one. Empty pieces are skipped.
    /// After an error the connection is closed without the mark of a complete
    /// body, so that the client knows that it is cut off. The source is dropped
    /// when the client goes away.
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>>;

    /// Whether each piece goes out as soon as it is there, also the first one, with the head. A body
    /// that is not live waits until it is long enough to be worth chunks.
    fn is_live(&self) -> bool {
        false
    }
}

/// Says that a body cannot be completed. The reason is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChunkError(pub String);

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBody::Empty => f.write_str("Empty"),
            ResponseBody::Full(bytes) => write!(f, "Full({:?})", String::from_utf8_lossy(bytes)),
            ResponseBody::Chunks(_) => f.write_str("Chunks"),
            ResponseBody::WebSocket(_) => f.write_str("WebSocket"),
        }
    }
}

impl Response {
    /// A response without body and headers.
    pub fn new(status: StatusCode) -> Response {
        Response {
            status,
            headers: HeaderMap::new(),
            body: ResponseBody::Empty,
            compressible: false,
            close: false,
            route: "",
        }
    }

    /// A plain text response. `text` is the whole body; no newline is added.
    pub fn text(status: StatusCode, text: impl Into<String>) -> Response {
        Response::new(status)
            .with_content_type("text/plain; charset=utf-8")
            .with_header(HeaderName::from_static("x-content-type-options"), "nosniff")
            .with_body(text.into().into_bytes())
    }

    /// The response that opens a WebSocket. `handler` runs on the connection's
    /// task; when it ends, the WebSocket is closed with code 1000 unless
    /// [`WebSocket::close`] named another.
    pub fn websocket<H, F>(handshake: Handshake, config: WebSocketConfig, handler: H) -> Response
    where
        H: FnOnce(WebSocket) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let mut response = Response::new(StatusCode::SWITCHING_PROTOCOLS);
        response.headers.extend(handshake.into_headers());
        response.body = ResponseBody::WebSocket(Upgrade::new(config, handler));
        response
    }

    /// A permanent redirection to `location`, which must be valid in a header.
    pub fn redirect(location: &str) -> Response {
        match HeaderValue::from_str(location) {
            Ok(value) => {
                let mut response = Response::new(StatusCode::MOVED_PERMANENTLY);
                response.headers.insert(LOCATION, value);
                response
            }
            Err(_) => Response::text(StatusCode::BAD_REQUEST, "Bad Request\n"),
        }
    }

    /// Sets the whole body.
    #[must_use]
    pub fn with_body(mut self, body: Vec<u8>) -> Response {
        self.body = ResponseBody::Full(body);
        self
    }

    /// Sets a body that is made piece by piece.
    #[must_use]
    pub fn with_chunks(mut self, source: impl ChunkSource + 'static) -> Response {
        self.body = ResponseBody::Chunks(Box::new(source));
        self
    }

    /// Sets the media type.
    #[must_use]
    pub fn with_content_type(self, media_type: &'static str) -> Response {
        self.with_header(CONTENT_TYPE, media_type)
    }

    /// Sets a header to a constant. For computed values use `headers`.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &'static str) -> Response {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Sets the name of the route for [`crate::Observation`].
    #[must_use]
    pub fn with_route(mut self, route: &'static str) -> Response {
        self.route = route;
        self
    }

    /// Allows compression.
    #[must_use]
    pub fn compressible(mut self) -> Response {
        self.compressible = true;
        self
    }

    /// Closes the connection after this response.
    #[must_use]
    pub fn closing(mut self) -> Response {
        self.close = true;
        self
    }
}

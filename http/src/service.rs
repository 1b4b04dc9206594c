//! The interface between the server and the program that uses it.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};

use crate::body::Body;
use crate::head::RequestHead;
use crate::refusal::Refusal;
use crate::response::Response;
use crate::signal::Disconnect;
use crate::stream::BodyStream;

/// A request, complete unless its body is a stream.
#[derive(Debug)]
pub struct Request {
    /// Request line and headers.
    pub head: RequestHead,
    /// The body, empty if there is none or if it is a stream.
    pub body: Body,
    /// The body as it comes, if it was admitted as [`Admission::Stream`].
    pub stream: Option<BodyStream>,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// Tells when the client goes away while the answer is being made.
    pub disconnect: Disconnect,
}

/// The decision about a request, by its head.
#[derive(Debug)]
pub enum Admission {
    /// The body is read, up to this length.
    Body {
        /// Longest body that is admitted; over it the answer is 413.
        max_bytes: u64,
        /// Whom the body's memory is counted for besides the client's address: a hash, for
        /// example of a tenant.
        account: Option<u64>,
    },
    /// The body is handed to the service while it arrives, as [`Request::stream`]. It may be of
    /// any length.
    Stream {
        /// See [`Admission::Body`].
        account: Option<u64>,
    },
    /// The request is answered without its body. A short body is read and
    /// dropped; after a long one, or one that waits for `100 Continue`, the
    /// connection closes.
    Refuse(Response),
}

/// One answered or refused request, for metrics and logs.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The method; `None` if the request could not be parsed that far.
    pub method: Option<&'a Method>,
    /// The route that the response names.
    pub route: &'static str,
    /// The status that was sent, or would have been.
    pub status: StatusCode,
    /// From the complete head to the end of the last write.
    pub duration: Duration,
    /// Length of the request body.
    pub received_bytes: u64,
    /// Length of the response with its head, as far as it was sent.
    pub sent_bytes: u64,
    /// Whether the response was cut off because the client went away, did not
    /// take it in time, or the body could not be completed.
    pub incomplete: bool,
}

/// Answers requests. One value serves all connections of a core.
#[allow(async_fn_in_trait)]
pub trait Service: 'static {
    /// Decides after the head, before the body. `Expect: 100-continue` is
    /// answered only after this admits the body. `peer` is the other end of the connection.
    fn admit(&self, head: &RequestHead, peer: SocketAddr) -> Admission;

    /// Answers a request. The future always runs to completion, also when [`Request::disconnect`]
    /// says that the client is gone, because a push that has begun should end in a defined way. It
    /// is dropped only when the server stops and the drain timeout has passed.
    async fn call(&self, request: Request) -> Response;

    /// Makes the response for a refusal by the protocol layer. The connection
    /// closes after it. `head` is there if the head could be parsed. This default
    /// sends the refusal's text with a newline, and asks clients to retry after a
    /// second if only memory was missing.
    fn refusal(&self, head: Option<&RequestHead>, refusal: Refusal, peer: SocketAddr) -> Response {
        let _ = (head, peer);
        let mut text = refusal.to_string();
        text.push('\n');
        let response = Response::text(refusal.status(), text);
        match refusal {
            Refusal::BudgetExhausted | Refusal::GaveWay | Refusal::Stopping => {
                response.with_header(RETRY_AFTER, "1")
            }
            _ => response,
        }
    }

    /// Called after each response.
    fn observe(&self, observation: &Observation<'_>) {
        let _ = observation;
    }

    /// Called when the number of open connections changed.
    fn connections_changed(&self, open: usize) {
        let _ = open;
    }

    /// Called when a connection was turned away because too many are open.
    fn connection_refused(&self, peer: SocketAddr) {
        let _ = peer;
    }
}

//! Takes messages of other nodes from HTTP.

use std::net::SocketAddr;
use std::rc::Rc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use logsvc_http::{
    Admission, ChunkSource, Disconnect, Request, RequestHead, Response, ResponseBody, Service,
};
use logsvc_runtime::Reservation;

use crate::forward;
use crate::frame::Damaged;

/// Where pushes go.
pub(crate) const PUSH_PATH: &str = "/v1/push";
/// Where questions go.
pub(crate) const QUESTION_PATH: &str = "/v1/question";
/// Where questions go whose new entries are followed.
pub(crate) const TAIL_PATH: &str = "/v1/tail";

/// Where it is asked what was removed.
pub(crate) const REMOVED_PATH: &str = "/v1/removed";

/// Longest such question.
const REMOVED_MAX_BYTES: u64 = 1 << 10;

/// Longest push: a batch, which has 64 MiB at most, and the definitions of its streams. Their labels
/// come from one request, which has 100 MB unless the settings allow more. Memory for a body is
/// reserved as it comes.
const PUSH_MAX_BYTES: u64 = 256 << 20;

/// Longest question. A query has 128 KiB at most, and each leaf a part of it.
const QUESTION_MAX_BYTES: u64 = 16 << 20;

/// Answers other nodes.
#[allow(async_fn_in_trait)]
pub trait Answerer: 'static {
    /// Takes the bytes of a [`crate::push::Push`]; gives those of a [`crate::push::PushReply`].
    ///
    /// # Errors
    /// The bytes are no push.
    async fn push(&self, message: Vec<u8>, memory: Option<Reservation>)
    -> Result<Vec<u8>, Damaged>;

    /// Takes the bytes of a [`crate::question::Sent`]; gives those of a
    /// [`crate::question::Reply`]. `disconnect` says when nobody waits for it any more.
    ///
    /// # Errors
    /// The bytes are no question.
    async fn question(&self, message: &[u8], disconnect: &Disconnect) -> Result<Vec<u8>, Damaged>;

    /// Takes the bytes of [`crate::removal::encode_question`]; gives those of
    /// [`crate::removal::encode_report`].
    ///
    /// # Errors
    /// The bytes are no such question.
    async fn removed(&self, message: &[u8]) -> Result<Vec<u8>, Damaged>;

    /// Answers a client's request that another node has sent on ([`crate::forward`]) for this writer.
    async fn forwarded(&self, request: Request, writer: u32) -> Response;

    /// Takes the bytes of a [`crate::question::Sent`]; gives what makes words
    /// ([`crate::tail::WordWriter`]) until nobody reads them any more, which `disconnect` says.
    ///
    /// # Errors
    /// The bytes are no question of a tail.
    async fn tail(
        &self,
        message: &[u8],
        disconnect: &Disconnect,
    ) -> Result<Box<dyn ChunkSource>, Damaged>;
}

/// See the module.
#[derive(Debug)]
pub struct PeerService<A>(Rc<A>);

impl<A: Answerer> PeerService<A> {
    /// Answers by `answerer`.
    pub fn new(answerer: Rc<A>) -> PeerService<A> {
        PeerService(answerer)
    }
}

impl<A: Answerer> Service for PeerService<A> {
    fn admit(&self, head: &RequestHead, _peer: SocketAddr) -> Admission {
        let max_bytes = match (&head.method, &head.path[..]) {
            (&Method::POST, PUSH_PATH) => PUSH_MAX_BYTES,
            (&Method::POST, REMOVED_PATH) => REMOVED_MAX_BYTES,
            (&Method::POST, QUESTION_PATH | TAIL_PATH) => QUESTION_MAX_BYTES,
            (_, path) if path.starts_with(forward::PREFIX) => forward::MAX_BYTES,
            _ => {
                let text = "this port is for other nodes of the cluster\n";
                return Admission::Refuse(Response::text(StatusCode::NOT_FOUND, text));
            }
        };
        Admission::Body { max_bytes, account: None }
    }

    async fn call(&self, mut request: Request) -> Response {
        if let Some(path) = request.head.path.strip_prefix(forward::PREFIX) {
            let writer = request.head.header(forward::WRITER.as_str());
            let Some(writer) = writer.and_then(|text| text.parse().ok()) else {
                let text = "the request does not say which node it is for\n";
                return Response::text(StatusCode::BAD_REQUEST, text);
            };
            request.head.path = path.to_owned();
            return self.0.forwarded(request, writer).await;
        }
        let Request { head, body, disconnect, .. } = request;
        let (message, memory) = body.into_parts();
        let answered = match &head.path[..] {
            REMOVED_PATH => self.0.removed(&message).await.map(ResponseBody::Full),
            PUSH_PATH => self.0.push(message, memory).await.map(ResponseBody::Full),
            TAIL_PATH => {
                let _memory = memory;
                self.0.tail(&message, &disconnect).await.map(ResponseBody::Chunks)
            }
            _ => {
                let _memory = memory;
                self.0.question(&message, &disconnect).await.map(ResponseBody::Full)
            }
        };
        match answered {
            Ok(body) => {
                let mut response = Response::new(StatusCode::OK);
                let octets = HeaderValue::from_static("application/octet-stream");
                response.headers.insert(CONTENT_TYPE, octets);
                response.body = body;
                response
            }
            Err(damaged) => Response::text(StatusCode::BAD_REQUEST, format!("{damaged}\n")),
        }
    }
}

//! Sends the requests of `object_store` with the server's own HTTP client.
//!
//! That crate wants a service that may be called from any thread, and the client stays on its core.
//! So a request travels through a channel to a task of the same core, and the answer comes back
//! through another one.
//!
//! Guarantees: a request that is dropped closes its connection. Answers are read whole before they
//! are handed over, up to [`ANSWER_MAX_BYTES`]; callers ask for ranges that they have room for.

use std::fmt;
use std::pin::pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body_util::BodyExt;
use logsvc_http::client::{Client, ClientError, ClientRequest, Fault, Target};
use logsvc_runtime::{Dial, Runtime};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};

/// The longest answer.
const ANSWER_MAX_BYTES: u64 = 80 << 20;

type Reply = Result<HttpResponse, HttpError>;

struct Call {
    request: HttpRequest,
    reply: oneshot::Sender<Reply>,
}

/// Makes clients of `object_store` whose requests `serve` sends.
#[derive(Clone)]
pub(super) struct Connector {
    calls: flume::Sender<Call>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// A connector whose requests a task of this core sends with `client`. The task ends with the
    /// last client that came from the connector.
    pub(super) fn new<R: Runtime, D: Dial>(runtime: &R, client: Client<R, D>) -> Connector {
        // Who waits for an answer is in memory anyway.
        let (calls, inbox) = flume::unbounded::<Call>();
        let own = runtime.clone();
        drop(runtime.spawn(async move {
            while let Ok(Call { request, reply }) = inbox.recv_async().await {
                let client = client.clone();
                drop(own.spawn(async move { serve(&client, request, reply).await }));
            }
        }));
        Connector { calls }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Reply {
        let (reply, answer) = oneshot::channel();
        let is_gone = || HttpError::new(HttpErrorKind::Interrupted, Gone);
        self.calls.send(Call { request, reply }).map_err(|_| is_gone())?;
        answer.await.map_err(|_| is_gone())?
    }
}

/// The core stops.
#[derive(Debug, thiserror::Error)]
#[error("the core stops")]
struct Gone;

async fn serve<R: Runtime, D: Dial>(
    client: &Client<R, D>,
    request: HttpRequest,
    mut reply: oneshot::Sender<Reply>,
) {
    let answer = {
        let sent = pin!(send(client, request));
        match select(sent, reply.cancellation()).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => return,
        }
    };
    // Whoever has gone meanwhile needs no answer.
    let _ = reply.send(answer);
}

async fn send<R: Runtime, D: Dial>(client: &Client<R, D>, request: HttpRequest) -> Reply {
    let (parts, body) = request.into_parts();
    let target = Target::parse(&parts.uri.to_string())
        .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
    let mut sent = ClientRequest::new(parts.method, target);
    sent.headers = parts.headers;
    // The client sets these.
    sent.headers.remove(CONTENT_LENGTH);
    sent.headers.remove(TRANSFER_ENCODING);
    sent.max_body_bytes = Some(ANSWER_MAX_BYTES);
    // One piece, which is not copied.
    let body = body.collect().await?.to_bytes();
    if !body.is_empty() {
        sent = sent.with_shared_body(body);
        // The store tries again, and has to know of each attempt.
        sent.may_repeat = Some(false);
    }
    let answer = client.send(sent).await.map_err(failed)?;
    let mut response = http::Response::builder().status(answer.status).version(answer.version);
    if let Some(headers) = response.headers_mut() {
        *headers = answer.headers.clone();
    }
    let body = answer.collect(ANSWER_MAX_BYTES as usize).await.map_err(failed)?;
    response
        .body(HttpResponseBody::from(Bytes::from(body)))
        .map_err(|error| HttpError::new(HttpErrorKind::Decode, error))
}

fn failed(error: ClientError) -> HttpError {
    let kind = match &error.fault {
        Fault::Connect(_) | Fault::Proxy { .. } => HttpErrorKind::Connect,
        Fault::TimedOut(_) => HttpErrorKind::Timeout,
        Fault::Connection(_) | Fault::Closed => HttpErrorKind::Interrupted,
        Fault::Answer(_) => HttpErrorKind::Decode,
        Fault::Body(_) => HttpErrorKind::Request,
    };
    HttpError::new(kind, error)
}

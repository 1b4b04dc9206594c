//! Sends messages to other nodes: one client per core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, StatusCode};
use logsvc_http::client::{
    Client, ClientConfig, ClientError, ClientRequest, ClientResponse, Fault, Target,
};
use logsvc_runtime::{Budget, Denied, Dial, Grant, Runtime};

use crate::forward::{Answer, Forwarded, PREFIX, WRITER, for_client};
use crate::frame::Damaged;
use crate::push::PushReply;
use crate::service::{PUSH_PATH, QUESTION_PATH, REMOVED_PATH, TAIL_PATH};
use crate::tail::{TailWord, Words};

/// Connections to one node that a core keeps.
const IDLE_CONNECTIONS: usize = 64;

/// How long a connection may take to come about. A node that lives answers in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time in which no byte of a message moves.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// No answer takes longer. Requests have timeouts of their own.
const HEAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Longest answer to a push. It tells which streams were refused, with their labels, all of which
/// the push had. Memory for it grows with what comes.
const PUSH_REPLY_MAX_BYTES: u64 = 128 << 20;

/// What was sent to other nodes, and what came back. Shared by the cores of a node.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Messages that were sent.
    pub messages: AtomicU64,
    /// Messages that got no answer.
    pub failures: AtomicU64,
    /// Bytes of messages that were sent.
    pub sent_bytes: AtomicU64,
    /// Bytes of their answers.
    pub received_bytes: AtomicU64,
}

impl Traffic {
    fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Why a message has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// Nobody has answered.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The address of the node is none.
    #[error("the address {0} of a node is none")]
    Address(String),
    /// The answer says that the message cannot be read, or is for somebody else.
    #[error("the node {address} says {status}: {text}")]
    Status {
        /// The node.
        address: String,
        /// The status.
        status: StatusCode,
        /// The text.
        text: String,
    },
    /// The answer cannot be read.
    #[error("the answer of the node {address} cannot be read: {damaged}")]
    Damaged {
        /// The node.
        address: String,
        /// Why not.
        damaged: Damaged,
    },
    /// There is no memory for the answer.
    #[error("there is no memory for the answer of a node")]
    Memory(Denied),
}

impl Unanswered {
    /// Whether the node has certainly not got the message.
    #[must_use]
    pub fn was_not_sent(&self) -> bool {
        match self {
            Unanswered::Client(error) => matches!(error.fault, Fault::Connect(_)),
            Unanswered::Address(_) => true,
            Unanswered::Status { .. } | Unanswered::Damaged { .. } | Unanswered::Memory(_) => false,
        }
    }
}

/// See the module.
pub struct Peers<R: Runtime, D: Dial> {
    client: Client<R, D>,
    scheme: &'static str,
    traffic: Arc<Traffic>,
}

impl<R: Runtime, D: Dial> Peers<R, D> {
    /// The client of a core. Connections are encrypted if `is_secure` says so.
    pub fn new(runtime: R, dialer: D, is_secure: bool, traffic: Arc<Traffic>) -> Peers<R, D> {
        let config = ClientConfig {
            connect_timeout: CONNECT_TIMEOUT,
            head_timeout: HEAD_TIMEOUT,
            progress_timeout: PROGRESS_TIMEOUT,
            max_idle_per_destination: IDLE_CONNECTIONS,
            ..ClientConfig::default()
        };
        let scheme = if is_secure { "https" } else { "http" };
        Peers { client: Client::new(runtime, dialer, config), scheme, traffic }
    }

    /// Sends a [`crate::push::Push`] to the node at an address.
    ///
    /// # Errors
    /// See [`Unanswered`]. Perhaps the entries are stored.
    pub async fn push(
        &self,
        address: &str,
        message: Bytes,
        timeout: Duration,
    ) -> Result<PushReply, Unanswered> {
        let mut nothing = None;
        let bytes = self.send(address, PUSH_PATH, message, timeout, &mut nothing).await?;
        PushReply::decode(&bytes)
            .map_err(|damaged| Unanswered::Damaged { address: address.to_owned(), damaged })
    }

    /// Sends a [`crate::question::Question`] to the node at an address. The answer is the bytes of a
    /// [`crate::question::Reply`], whose memory was added to `memory`.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn ask(
        &self,
        address: &str,
        message: Bytes,
        timeout: Duration,
        memory: &mut Grant,
    ) -> Result<Vec<u8>, Unanswered> {
        self.send(address, QUESTION_PATH, message, timeout, &mut Some(memory)).await
    }

    /// Asks the node at an address what it has removed. The answer is the bytes of
    /// [`crate::removal::encode_report`].
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn removed(
        &self,
        address: &str,
        message: Bytes,
        timeout: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        self.send(address, REMOVED_PATH, message, timeout, &mut None).await
    }

    /// Sends a client's request to the node at an address, which answers it for all nodes if it is this
    /// writer. Memory of the answer was added to `memory`.
    ///
    /// # Errors
    /// See [`Unanswered`]. Perhaps the request was done.
    pub async fn forward(
        &self,
        address: &str,
        writer: u32,
        request: Forwarded,
        timeout: Duration,
        memory: &mut Grant,
    ) -> Result<Answer, Unanswered> {
        let sent_bytes = request.body.len();
        let sending = self.send_on(address, writer, request, timeout, memory);
        self.counted(sent_bytes, sending, |answer: &Answer| answer.body.len()).await
    }

    async fn send_on(
        &self,
        address: &str,
        writer: u32,
        request: Forwarded,
        timeout: Duration,
        memory: &mut Grant,
    ) -> Result<Answer, Unanswered> {
        let Forwarded { method, target, headers, body } = request;
        let url = format!("{}://{address}{PREFIX}{target}", self.scheme);
        let target = Target::parse(&url).map_err(|_| Unanswered::Address(address.to_owned()))?;
        // What may have been done is not done again, unless it changes nothing.
        let may_repeat = method == Method::GET;
        let mut request =
            ClientRequest::new(method, target).with_shared_body(body).with_timeout(timeout);
        request.headers = headers;
        request.headers.insert(WRITER, HeaderValue::from(writer));
        request.may_repeat = Some(may_repeat);
        request.max_body_bytes = Some(u64::MAX >> 1);
        let response = self.client.send(request).await?;
        let (status, headers) = (response.status, for_client(&response.headers));
        let body = whole(response, address, u64::MAX >> 1, &mut Some(memory)).await?;
        Ok(Answer { status, headers, body })
    }

    /// Asks the node at an address to tell new entries of the streams of a
    /// [`crate::question::Question`]. Words and entries take memory of `memory`. Dropping the answer
    /// ends it.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn follow(
        &self,
        address: &str,
        message: Bytes,
        memory: &Budget,
    ) -> Result<Following<R, D>, Unanswered> {
        Traffic::add(&self.traffic.messages, 1);
        Traffic::add(&self.traffic.sent_bytes, message.len() as u64);
        let answered = self.begin(address, TAIL_PATH, message, None, u64::MAX >> 1).await;
        let response = answered.inspect_err(|_| Traffic::add(&self.traffic.failures, 1))?;
        Ok(Following {
            response,
            words: Words::new(memory.clone()),
            address: address.to_owned(),
            traffic: Arc::clone(&self.traffic),
        })
    }

    /// Counts a message, and its answer by the length that `len_of` gives.
    async fn counted<T>(
        &self,
        sent_bytes: usize,
        sending: impl Future<Output = Result<T, Unanswered>>,
        len_of: impl FnOnce(&T) -> usize,
    ) -> Result<T, Unanswered> {
        Traffic::add(&self.traffic.messages, 1);
        Traffic::add(&self.traffic.sent_bytes, sent_bytes as u64);
        let answered = sending.await;
        match &answered {
            Ok(answer) => Traffic::add(&self.traffic.received_bytes, len_of(answer) as u64),
            Err(_) => Traffic::add(&self.traffic.failures, 1),
        }
        answered
    }

    async fn send(
        &self,
        address: &str,
        path: &str,
        message: Bytes,
        timeout: Duration,
        memory: &mut Option<&mut Grant>,
    ) -> Result<Vec<u8>, Unanswered> {
        let max_bytes = if memory.is_some() { u64::MAX >> 1 } else { PUSH_REPLY_MAX_BYTES };
        let sent_bytes = message.len();
        let sending = async {
            let response = self.begin(address, path, message, Some(timeout), max_bytes).await?;
            whole(response, address, max_bytes, memory).await
        };
        self.counted(sent_bytes, sending, Vec::len).await
    }

    /// The head of an answer of status 200.
    async fn begin(
        &self,
        address: &str,
        path: &str,
        message: Bytes,
        timeout: Option<Duration>,
        max_bytes: u64,
    ) -> Result<ClientResponse<R, D>, Unanswered> {
        let target = Target::parse(&format!("{}://{address}{path}", self.scheme))
            .map_err(|_| Unanswered::Address(address.to_owned()))?;
        let mut request = ClientRequest::new(Method::POST, target).with_shared_body(message);
        request.timeout = timeout;
        // Entries are a set, and questions change nothing.
        request.may_repeat = Some(true);
        request.max_body_bytes = Some(max_bytes);
        let response = self.client.send(request).await?;
        let status = response.status;
        if status != StatusCode::OK {
            let text = response.first_bytes(1 << 10).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).trim_end().to_owned();
            return Err(Unanswered::Status { address: address.to_owned(), status, text });
        }
        Ok(response)
    }
}

/// The body of an answer. Nodes always tell its length, so that memory is there before the bytes.
async fn whole<R: Runtime, D: Dial>(
    response: ClientResponse<R, D>,
    address: &str,
    max_bytes: u64,
    memory: &mut Option<&mut Grant>,
) -> Result<Vec<u8>, Unanswered> {
    let Some(len_bytes) = response.left_bytes() else {
        let damaged = Damaged::Message("it does not say how long it is".to_owned());
        return Err(Unanswered::Damaged { address: address.to_owned(), damaged });
    };
    if let Some(memory) = memory {
        memory.grow(len_bytes).map_err(Unanswered::Memory)?;
    }
    // A longer one was refused with its head.
    let len = usize::try_from(len_bytes.min(max_bytes)).unwrap_or(usize::MAX);
    Ok(response.collect(len).await?)
}

/// The words of a tail as they come. Dropping it ends the tail at the other node.
pub struct Following<R: Runtime, D: Dial> {
    response: ClientResponse<R, D>,
    words: Words,
    address: String,
    traffic: Arc<Traffic>,
}

impl<R: Runtime, D: Dial> Following<R, D> {
    /// The next words, perhaps none; `None` when there is no further one. May be dropped at any moment
    /// without loss.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn next(&mut self) -> Result<Option<Vec<TailWord>>, Unanswered> {
        let Some(piece) = self.response.next().await? else { return Ok(None) };
        Traffic::add(&self.traffic.received_bytes, piece.len() as u64);
        let words = self.words.push(&piece);
        let damaged = |damaged| Unanswered::Damaged { address: self.address.clone(), damaged };
        words.map(Some).map_err(damaged)
    }
}

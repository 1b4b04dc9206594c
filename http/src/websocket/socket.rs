//! The WebSocket as a handler sees it.
//!
//! A handler and the driver share one small state: messages that were received,
//! frames that wait to be written, and whether the connection is closed. All
//! methods take `&self`, and all futures may be dropped at any time without
//! losing a message, so a handler may wait for several things at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::frame::{MAX_CONTROL_BYTES, Opcode, encode_frame, encode_frame_of};
use super::message::close_payload;
use super::{CloseReason, Message, code};

/// Limits of a WebSocket. It may hold `max_received + 1` messages of
/// `max_message_bytes`, and `max_queued_bytes` and one message on their way out;
/// they are not taken from a budget.
#[derive(Clone, Copy, Debug)]
pub struct WebSocketConfig {
    /// Longest message from the client; over it the connection is closed with
    /// code 1009.
    pub max_message_bytes: usize,
    /// Received messages that wait for the handler; when there are more, nothing
    /// more is read. With zero, messages are dropped on arrival, and only pings
    /// and the closing handshake are dealt with.
    pub max_received: usize,
    /// Frames that wait to be written; over it [`WebSocket::send`] waits.
    pub max_queued_bytes: usize,
    /// Time that the client has to answer a close frame.
    pub close_timeout: Duration,
}

impl Default for WebSocketConfig {
    fn default() -> WebSocketConfig {
        WebSocketConfig {
            max_message_bytes: 64 * 1024,
            max_received: 16,
            max_queued_bytes: 1024 * 1024,
            close_timeout: Duration::from_secs(5),
        }
    }
}

/// The WebSocket is closed, or closing; nothing can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the WebSocket is closed")]
pub struct Closed;

/// Why [`WebSocket::try_send`] did not take a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrySendError {
    /// The client is slow: too many bytes wait already.
    #[error("too many bytes wait to be sent")]
    Full(Message),
    /// The WebSocket is closed.
    #[error("the WebSocket is closed")]
    Closed,
}

type Handler = Box<dyn FnOnce(WebSocket) -> LocalBoxFuture<'static, ()>>;

/// A WebSocket to be run by the driver.
pub struct Upgrade {
    pub(super) config: WebSocketConfig,
    pub(super) handler: Handler,
}

impl Upgrade {
    pub(crate) fn new<H, F>(config: WebSocketConfig, handler: H) -> Upgrade
    where
        H: FnOnce(WebSocket) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        Upgrade { config, handler: Box::new(move |socket| Box::pin(handler(socket))) }
    }
}

/// The server's end of a WebSocket.
pub struct WebSocket {
    pub(super) state: Rc<State>,
}

impl WebSocket {
    /// The next message, or `None` once the WebSocket is closed and all messages
    /// were taken.
    pub async fn next_message(&self) -> Option<Message> {
        poll_fn(|cx| self.state.poll_message(cx)).await
    }

    /// Ends once the WebSocket is closed by either side.
    pub async fn closed(&self) -> CloseReason {
        poll_fn(|cx| self.state.poll_closed(cx)).await
    }

    /// Queues a message; waits while too many bytes are queued already. The
    /// message has not reached the client when this returns.
    pub async fn send(&self, message: Message) -> Result<(), Closed> {
        poll_fn(|cx| self.state.poll_room(cx)).await?;
        self.state.queue_message(&message);
        Ok(())
    }

    /// Queues a message if not too many bytes are queued already.
    pub fn try_send(&self, message: Message) -> Result<(), TrySendError> {
        match self.state.room() {
            Err(Closed) => Err(TrySendError::Closed),
            Ok(false) => Err(TrySendError::Full(message)),
            Ok(true) => {
                self.state.queue_message(&message);
                Ok(())
            }
        }
    }

    /// Ready when a message may be queued, or the WebSocket is closed.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        self.state.poll_room(cx)
    }

    /// Queues a text message that is given in pieces, however many bytes are queued
    /// already: for messages that many sockets share, after [`WebSocket::poll_room`].
    pub fn send_pieces(&self, pieces: &[&str]) -> Result<(), Closed> {
        self.state.room()?;
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        self.state.change(|inner| encode_frame_of(&mut inner.out, Opcode::Text, true, &pieces));
        Ok(())
    }

    /// Queues a ping, unless the queue is full or the WebSocket closed. At most
    /// 125 bytes of the payload are sent.
    pub fn ping(&self, payload: &[u8]) {
        let payload = &payload[..payload.len().min(MAX_CONTROL_BYTES)];
        self.state.queue_control(Opcode::Ping, payload);
    }

    /// Bytes that wait to be written or are being written.
    pub fn queued_bytes(&self) -> usize {
        self.state.inner.borrow().queued_bytes()
    }

    /// Starts the closing handshake, unless it was started before. What is
    /// queued is sent first.
    pub fn close(&self, close_code: u16, reason: impl Into<String>) {
        self.state.close(CloseReason::new(close_code, reason));
    }
}

/// State that handler and driver share.
pub(super) struct State {
    config: WebSocketConfig,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    received: VecDeque<Message>,
    out: Vec<u8>,
    /// Bytes of the write under way.
    writing_bytes: usize,
    closed: Option<CloseReason>,
    /// Tasks that wait for a change: few, usually one.
    wakers: Vec<Waker>,
}

impl Inner {
    fn queued_bytes(&self) -> usize {
        self.out.len() + self.writing_bytes
    }

    fn register(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }
}

impl State {
    pub(super) fn new(config: WebSocketConfig) -> Rc<State> {
        Rc::new(State { config, inner: RefCell::default() })
    }

    /// Applies a change and wakes all waiting tasks, outside of the borrow.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let (result, wakers) = {
            let mut inner = self.inner.borrow_mut();
            let result = change(&mut inner);
            (result, std::mem::take(&mut inner.wakers))
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    fn room(&self) -> Result<bool, Closed> {
        let inner = self.inner.borrow();
        match inner.closed {
            Some(_) => Err(Closed),
            None => Ok(inner.queued_bytes() < self.config.max_queued_bytes),
        }
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        match self.room() {
            Err(Closed) => Poll::Ready(Err(Closed)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => {
                self.inner.borrow_mut().register(cx);
                Poll::Pending
            }
        }
    }

    fn queue_message(&self, message: &Message) {
        self.change(|inner| match message {
            Message::Text(text) => {
                encode_frame(&mut inner.out, Opcode::Text, true, text.as_bytes());
            }
            Message::Binary(bytes) => encode_frame(&mut inner.out, Opcode::Binary, true, bytes),
        });
    }

    /// Control frames are dropped when the queue is full: a client that sends
    /// pings and does not read pongs must not fill the memory.
    pub(super) fn queue_control(&self, opcode: Opcode, payload: &[u8]) {
        if self.room() == Ok(true) {
            self.change(|inner| encode_frame(&mut inner.out, opcode, true, payload));
        }
    }

    /// Queues a close frame, if none was queued and the connection did not fail.
    pub(super) fn close(&self, reason: CloseReason) {
        if self.inner.borrow().closed.is_none() {
            self.change(|inner| {
                encode_frame(&mut inner.out, Opcode::Close, true, &close_payload(&reason));
                inner.closed = Some(reason);
            });
        }
    }

    /// The connection takes no bytes.
    pub(super) fn fail(&self) {
        self.change(|inner| {
            inner.out = Vec::new();
            inner.writing_bytes = 0;
            let reason = || CloseReason::new(code::ABNORMAL, "the connection ended");
            inner.closed.get_or_insert_with(reason);
        });
    }

    pub(super) fn receive(&self, message: Message) {
        if self.config.max_received > 0 {
            self.change(|inner| inner.received.push_back(message));
        }
    }

    fn poll_message(&self, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let mut inner = self.inner.borrow_mut();
        if inner.received.is_empty() {
            if inner.closed.is_some() {
                return Poll::Ready(None);
            }
            inner.register(cx);
            return Poll::Pending;
        }
        drop(inner);
        Poll::Ready(self.change(|inner| inner.received.pop_front()))
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let mut inner = self.inner.borrow_mut();
        match &inner.closed {
            Some(reason) => Poll::Ready(reason.clone()),
            None => {
                inner.register(cx);
                Poll::Pending
            }
        }
    }

    /// Ready when another message may be received. Always after the close, when
    /// they are dropped.
    pub(super) fn poll_may_receive(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        let full = inner.received.len() >= self.config.max_received.max(1);
        if full && inner.closed.is_none() {
            inner.register(cx);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// The next bytes to write; `None` when all was written and no more can come.
    /// `spare` becomes the memory of the queue.
    pub(super) fn poll_output(
        &self,
        cx: &mut Context<'_>,
        spare: &mut Vec<u8>,
    ) -> Poll<Option<Vec<u8>>> {
        let mut inner = self.inner.borrow_mut();
        if inner.out.is_empty() {
            if inner.closed.is_some() {
                return Poll::Ready(None);
            }
            inner.register(cx);
            return Poll::Pending;
        }
        let out = std::mem::replace(&mut inner.out, std::mem::take(spare));
        inner.writing_bytes = out.len();
        Poll::Ready(Some(out))
    }

    pub(super) fn written(&self) {
        self.change(|inner| inner.writing_bytes = 0);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.borrow().closed.is_some()
    }
}

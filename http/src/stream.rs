//! A request body that its handler reads piece by piece, while it arrives.
//!
//! The handler asks for a piece, and only then the driver reads from the connection: a handler
//! that does not ask holds the client back. Guarantees: one piece is there at a time; pieces come
//! in order; after the end or a failure nothing comes. Handler and driver are parts of one task.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::refusal::Refusal;

/// Most bytes of a piece, in about.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Why a body ends before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamFault {
    /// The client is gone. Nobody reads an answer.
    #[error("the client went away in the middle of the request body")]
    Gone,
    /// The driver refuses the rest, and answers in the place of the handler.
    #[error("{0}")]
    Refused(Refusal),
}

#[derive(Debug, Default)]
struct State {
    /// Whether the handler waits for a piece.
    is_wanted: bool,
    piece: Option<Vec<u8>>,
    end: Option<Result<(), StreamFault>>,
    handler: Option<Waker>,
    driver: Option<Waker>,
}

/// The handler's end of a body.
#[derive(Debug)]
pub struct BodyStream {
    state: Rc<RefCell<State>>,
}

/// The driver's end of it.
#[derive(Debug)]
pub(crate) struct StreamSource {
    state: Rc<RefCell<State>>,
}

/// Both ends of a body.
pub(crate) fn body_stream() -> (StreamSource, BodyStream) {
    let state = Rc::new(RefCell::new(State::default()));
    (StreamSource { state: Rc::clone(&state) }, BodyStream { state })
}

fn keep(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        waker => *waker = Some(cx.waker().clone()),
    }
}

impl BodyStream {
    /// A body that was received whole, for example by a test.
    pub fn whole(bytes: Vec<u8>) -> BodyStream {
        let (source, stream) = body_stream();
        source.give(bytes);
        source.end(Ok(()));
        stream
    }

    /// The next bytes, never none; `None` after the last. A wait may be dropped, and nothing is
    /// lost.
    ///
    /// # Errors
    /// The body is cut off. Every later call says so, too.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, StreamFault> {
        poll_fn(|cx| {
            let state = &mut *self.state.borrow_mut();
            if let Some(piece) = state.piece.take() {
                state.is_wanted = false;
                return Poll::Ready(Ok(Some(piece)));
            }
            if let Some(end) = state.end {
                return Poll::Ready(end.map(|()| None));
            }
            state.is_wanted = true;
            keep(&mut state.handler, cx);
            let driver = state.driver.take();
            driver.into_iter().for_each(Waker::wake);
            Poll::Pending
        })
        .await
    }
}

impl StreamSource {
    /// Whether the handler waits for a piece; otherwise the task is woken when it does.
    pub(crate) fn poll_wanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        if state.is_wanted && state.piece.is_none() {
            return Poll::Ready(());
        }
        keep(&mut state.driver, cx);
        Poll::Pending
    }

    /// Gives a piece; an empty one is none.
    pub(crate) fn give(&self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.change(|state| state.piece = Some(piece));
        }
    }

    /// Says that nothing comes any more.
    pub(crate) fn end(&self, end: Result<(), StreamFault>) {
        self.change(|state| state.end = Some(end));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let handler = {
            let state = &mut *self.state.borrow_mut();
            change(state);
            state.handler.take()
        };
        handler.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn pieces_come_when_they_are_wanted() {
        let (source, mut stream) = body_stream();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(source.poll_wanted(&mut cx).is_pending());
        assert!(stream.next().now_or_never().is_none());
        assert!(source.poll_wanted(&mut cx).is_ready());
        source.give(Vec::new());
        assert!(source.poll_wanted(&mut cx).is_ready());
        source.give(b"one".to_vec());
        assert!(source.poll_wanted(&mut cx).is_pending());
        assert_eq!(stream.next().now_or_never(), Some(Ok(Some(b"one".to_vec()))));
        assert!(source.poll_wanted(&mut cx).is_pending());
        source.end(Err(StreamFault::Gone));
        for _ in 0..2 {
            assert_eq!(stream.next().now_or_never(), Some(Err(StreamFault::Gone)));
        }
        let mut whole = BodyStream::whole(b"all".to_vec());
        assert_eq!(whole.next().now_or_never(), Some(Ok(Some(b"all".to_vec()))));
        assert_eq!(whole.next().now_or_never(), Some(Ok(None)));
    }
}

//! The queue of one client: frames, and the end of its tail.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::frame::{Form, Frame, into_text};
use super::missed::Missed;

/// Frames that wait for a client; a slower client misses later entries.
pub(super) const OUTBOX_MAX_BYTES: usize = 512 << 10;

/// Most bytes of the list of entries that one client alone has missed.
const MISSED_MAX_BYTES: usize = 128 << 10;

/// A frame, and the entries that this client has missed before it.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: Rc<Frame>,
    /// The list in JSON, without brackets.
    pub(super) missed_text: String,
    pub(super) missed_count: u64,
}

impl Outgoing {
    pub(super) fn len_bytes(&self) -> usize {
        self.frame.len_bytes() + self.missed_text.len()
    }
}

/// See the module. Shared by a client's session and its group.
#[derive(Debug)]
pub(super) struct Outbox {
    form: Form,
    inner: RefCell<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    frames: VecDeque<Outgoing>,
    queued_bytes: usize,
    missed: Missed,
    end: Option<String>,
    left: bool,
    waker: Option<Waker>,
}

impl Outbox {
    pub(super) fn new(form: Form) -> Outbox {
        Outbox { form, inner: RefCell::default() }
    }

    fn wake(&self) {
        let waker = self.inner.borrow_mut().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Queues a frame, or notes that the client has missed it.
    pub(super) fn offer(&self, frame: &Rc<Frame>) {
        {
            let inner = &mut *self.inner.borrow_mut();
            let has_room = inner.queued_bytes + frame.len_bytes() <= OUTBOX_MAX_BYTES;
            if !has_room && !inner.frames.is_empty() {
                frame.add_to(&mut inner.missed);
                return;
            }
            let missed = std::mem::take(&mut inner.missed);
            let missed_count = missed.count();
            let mut missed_text = Vec::new();
            missed.write(self.form, MISSED_MAX_BYTES, &mut missed_text);
            let missed_text = into_text(missed_text);
            let outgoing = Outgoing { frame: Rc::clone(frame), missed_text, missed_count };
            inner.queued_bytes += outgoing.len_bytes();
            inner.frames.push_back(outgoing);
        }
        self.wake();
    }

    /// Ends the tail, once its frames are sent, with a reason.
    pub(super) fn end(&self, reason: impl Into<String>) {
        self.inner.borrow_mut().end.get_or_insert(reason.into());
        self.wake();
    }

    /// The client is gone.
    pub(super) fn leave(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.left = true;
        inner.frames.clear();
    }

    /// Whether the client is gone.
    pub(super) fn has_left(&self) -> bool {
        self.inner.borrow().left
    }

    /// Length of the frame that comes next.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.inner.borrow().frames.front().map(Outgoing::len_bytes)
    }

    /// Takes the frame that comes next.
    pub(super) fn take(&self) -> Option<Outgoing> {
        let inner = &mut *self.inner.borrow_mut();
        let next = inner.frames.pop_front()?;
        inner.queued_bytes -= next.len_bytes();
        Some(next)
    }

    /// The reason of the end, once there are no frames left.
    pub(super) fn ended(&self) -> Option<String> {
        let inner = self.inner.borrow();
        inner.end.clone().filter(|_| inner.frames.is_empty())
    }

    /// Ready when there is a frame or the tail has ended.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.borrow_mut();
        if !inner.frames.is_empty() || inner.end.is_some() {
            return Poll::Ready(());
        }
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

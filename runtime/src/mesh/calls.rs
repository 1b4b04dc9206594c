//! The calls of one core that have not ended, and the task that waits for each reply.
//!
//! A slot is taken from the call until both its reply has arrived and its future
//! has taken or dropped it. Nothing here runs foreign code (wakers, destructors
//! of replies): wakers and replies are returned to the caller, because they may call back
//! into the mesh.

use std::task::{Poll, Waker};

use super::Disconnected;

/// Names a call of one core. The generation tells a slot's calls apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CallId {
    slot: u32,
    generation: u32,
}

pub(super) struct Calls<Rep> {
    slots: Vec<Slot<Rep>>,
    free: Vec<u32>,
    unanswered: usize,
}

struct Slot<Rep> {
    generation: u32,
    state: State<Rep>,
}

enum State<Rep> {
    Free,
    /// The reply is on its way; its future was polled if there is a waker.
    Waiting(Option<Waker>),
    /// The reply is on its way; its future was dropped.
    Abandoned,
    /// The future has not seen its reply yet.
    Answered(Result<Rep, Disconnected>),
}

/// The waker to wake or the reply to drop after a reply has arrived.
#[must_use]
pub(super) enum Settled<Rep> {
    Wake(Option<Waker>),
    ThrowAway(Result<Rep, Disconnected>),
}

impl<Rep> Settled<Rep> {
    pub(super) fn finish(self) {
        match self {
            Settled::Wake(Some(waker)) => waker.wake(),
            Settled::Wake(None) => {}
            Settled::ThrowAway(reply) => drop(reply),
        }
    }
}

impl<Rep> Calls<Rep> {
    pub(super) fn new() -> Self {
        Calls { slots: Vec::new(), free: Vec::new(), unanswered: 0 }
    }

    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    pub(super) fn start(&mut self) -> CallId {
        self.unanswered += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free });
            u32::try_from(self.slots.len() - 1).expect("fewer calls than fit in memory")
        });
        let entry = &mut self.slots[slot as usize];
        entry.state = State::Waiting(None);
        CallId { slot, generation: entry.generation }
    }

    /// Takes back a call whose request was not accepted.
    pub(super) fn cancel(&mut self, call: CallId) {
        self.unanswered -= 1;
        self.release(call);
    }

    /// The reply of `call` has arrived.
    pub(super) fn settle(
        &mut self,
        call: CallId,
        outcome: Result<Rep, Disconnected>,
    ) -> Settled<Rep> {
        self.unanswered -= 1;
        match std::mem::replace(self.state(call), State::Free) {
            State::Waiting(waker) => {
                *self.state(call) = State::Answered(outcome);
                Settled::Wake(waker)
            }
            State::Abandoned => {
                self.release(call);
                Settled::ThrowAway(outcome)
            }
            State::Free | State::Answered(_) => unreachable!("a call is answered once"),
        }
    }

    /// Asks for the reply on behalf of the future, which must not ask again once
    /// it has the reply. Returns a waker that is not needed.
    pub(super) fn poll(
        &mut self,
        call: CallId,
        waker: Waker,
    ) -> (Poll<Result<Rep, Disconnected>>, Option<Waker>) {
        assert!(self.is_current(call), "the reply was polled after it was given");
        match self.state(call) {
            State::Waiting(registered) => (Poll::Pending, registered.replace(waker)),
            state @ State::Answered(_) => {
                let State::Answered(outcome) = std::mem::replace(state, State::Free) else {
                    unreachable!("matched above")
                };
                self.release(call);
                (Poll::Ready(outcome), Some(waker))
            }
            State::Free | State::Abandoned => unreachable!("its future is alive"),
        }
    }

    /// The future of `call` was dropped; it may have had its reply.
    pub(super) fn abandon(&mut self, call: CallId) -> impl Sized + use<Rep> {
        if !self.is_current(call) {
            return None;
        }
        match std::mem::replace(self.state(call), State::Abandoned) {
            State::Answered(outcome) => {
                self.release(call);
                Some((Some(outcome), None))
            }
            State::Waiting(waker) => Some((None, waker)),
            State::Free | State::Abandoned => unreachable!("a future is dropped once"),
        }
    }

    fn is_current(&self, call: CallId) -> bool {
        self.slots[call.slot as usize].generation == call.generation
    }

    fn state(&mut self, call: CallId) -> &mut State<Rep> {
        debug_assert!(self.is_current(call), "the slot belongs to a later call");
        &mut self.slots[call.slot as usize].state
    }

    fn release(&mut self, call: CallId) {
        let entry = &mut self.slots[call.slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.state = State::Free;
        self.free.push(call.slot);
    }
}

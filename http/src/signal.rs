//! A one-shot flag for tasks of one core.
//!
//! It does what the runtime's latch does without atomics and locks, because
//! every idle connection waits for two of these at each wake-up. A wait that is
//! dropped leaves nothing behind.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A flag that starts unset, is set at most once, and wakes all waiting tasks. Clones share the
/// flag. Stays on its core.
#[derive(Clone, Default)]
pub struct Signal {
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    set: Cell<bool>,
    waiters: RefCell<Waiters>,
}

#[derive(Default)]
struct Waiters {
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Signal {
    /// An unset signal.
    pub fn new() -> Signal {
        Signal::default()
    }

    /// Sets the flag for good and wakes every waiter. Further calls do nothing.
    pub fn set(&self) {
        self.shared.set.set(true);
        // Wakers are foreign code: none runs while the list is borrowed.
        let wakers: Vec<Waker> = {
            let mut waiters = self.shared.waiters.borrow_mut();
            waiters.slots.iter_mut().filter_map(Option::take).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether [`Signal::set`] was called.
    pub fn is_set(&self) -> bool {
        self.shared.set.get()
    }

    /// Ends once the signal is set; at once if it already is.
    pub fn wait(&self) -> SignalWait {
        SignalWait { shared: Rc::clone(&self.shared), slot: None }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("set", &self.is_set()).finish()
    }
}

/// Future of [`Signal::wait`]. May be dropped at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct SignalWait {
    shared: Rc<Shared>,
    slot: Option<usize>,
}

impl Future for SignalWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.shared.set.get() {
            return Poll::Ready(());
        }
        let mut waiters = this.shared.waiters.borrow_mut();
        let slot = *this.slot.get_or_insert_with(|| {
            waiters.free.pop().unwrap_or_else(|| {
                waiters.slots.push(None);
                waiters.slots.len() - 1
            })
        });
        match &mut waiters.slots[slot] {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            waker => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for SignalWait {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            let waker = {
                let mut waiters = self.shared.waiters.borrow_mut();
                waiters.free.push(slot);
                waiters.slots[slot].take()
            };
            drop(waker);
        }
    }
}

/// Told to a request whose client went away: the connection ended or failed
/// while the answer was being made. A client that closes only its sending side
/// looks the same and counts as gone too. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Disconnect {
    signal: Signal,
}

impl Disconnect {
    /// A client that is still there. The connection driver makes these; a
    /// service needs one for its own tests.
    pub fn new() -> Disconnect {
        Disconnect::default()
    }

    /// Whether the client went away.
    pub fn is_gone(&self) -> bool {
        self.signal.is_set()
    }

    /// Ends once the client went away; never if it stays.
    pub fn wait(&self) -> SignalWait {
        self.signal.wait()
    }

    /// Says that the client went away.
    pub fn set_gone(&self) {
        self.signal.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_wait_ends_after_set_and_slots_are_reused() {
        let signal = Signal::new();
        for _ in 0..10 {
            assert!(signal.wait().now_or_never().is_none());
        }
        assert_eq!(signal.shared.waiters.borrow().slots.len(), 1);
        signal.set();
        assert!(signal.wait().now_or_never().is_some());
    }

    #[test]
    fn set_wakes_every_waiter() {
        let signal = Signal::new();
        let count = std::sync::Arc::new(Count::default());
        let waker = Waker::from(std::sync::Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut waits = [signal.wait(), signal.wait(), signal.wait()];
        for wait in &mut waits {
            assert!(Pin::new(&mut *wait).poll(&mut cx).is_pending());
            assert!(Pin::new(wait).poll(&mut cx).is_pending());
        }
        signal.set();
        signal.set();
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 3);
    }

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

//! A one-shot flag that tasks on any core can wait for.
//!
//! Guarantees: a [`Latch::wait`] that starts before, during or after
//! [`Latch::trigger`] ends; no wake-up is lost. A dropped wait leaves nothing
//! behind, so a loop may create one per iteration.
//!
//! A mutex guards the list of waiters (ARCHITECTURE.md, *Locks*). A task holds it for one map
//! operation, never while a waker runs, and only for events as rare as a connection or a shutdown.
//! The latch is not for hot paths.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

/// A flag that starts unset, is set at most once, and wakes all tasks that wait for it.
#[derive(Clone, Default)]
pub struct Latch {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    triggered: AtomicBool,
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    next_key: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Shared {
    fn with_waiters<T>(&self, change: impl FnOnce(&mut Waiters) -> T) -> T {
        // A panic cannot leave the map half changed, so poison says nothing here.
        change(&mut self.waiters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Latch {
    /// An untriggered latch.
    pub fn new() -> Latch {
        Latch::default()
    }

    /// Sets the flag for good and wakes every waiter. Further calls do nothing.
    pub fn trigger(&self) {
        let wakers = self.shared.with_waiters(|waiters| {
            // Set under the lock: a waiter either sees the flag when it
            // registers, or is in the map that is taken here.
            self.shared.triggered.store(true, Ordering::Release);
            std::mem::take(&mut waiters.wakers)
        });
        for waker in wakers.into_values() {
            waker.wake();
        }
    }

    /// Whether [`Latch::trigger`] was called.
    pub fn is_triggered(&self) -> bool {
        self.shared.triggered.load(Ordering::Acquire)
    }

    /// Ends once the latch is triggered; at once if it already is.
    pub fn wait(&self) -> LatchWait {
        LatchWait { shared: self.shared.clone(), key: None }
    }

    #[cfg(test)]
    fn waiter_count(&self) -> usize {
        self.shared.with_waiters(|waiters| waiters.wakers.len())
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("triggered", &self.is_triggered()).finish()
    }
}

/// Future of [`Latch::wait`]. May be dropped at any time.
#[must_use = "futures do nothing unless awaited"]
pub struct LatchWait {
    shared: Arc<Shared>,
    key: Option<u64>,
}

impl Future for LatchWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.shared.triggered.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let shared = &this.shared;
        let registered = &mut this.key;
        // Wakers are foreign code: they are cloned before the lock is taken and
        // the one that is replaced is dropped after it is released.
        let waker = cx.waker().clone();
        let (replaced, result) = shared.with_waiters(|waiters| {
            if shared.triggered.load(Ordering::Acquire) {
                return (Some(waker), Poll::Ready(()));
            }
            let key = *registered.get_or_insert_with(|| {
                waiters.next_key += 1;
                waiters.next_key
            });
            (waiters.wakers.insert(key, waker), Poll::Pending)
        });
        drop(replaced);
        result
    }
}

impl Drop for LatchWait {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.shared.with_waiters(|waiters| waiters.wakers.remove(&key));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{block_on, on_thread, poll_once};

    #[test]
    fn wait_ends_at_once_after_the_trigger() {
        let latch = Latch::new();
        assert!(!latch.is_triggered());
        latch.trigger();
        latch.trigger();
        assert!(latch.is_triggered());
        block_on(latch.wait());
    }

    #[test]
    fn dropped_waits_leave_nothing_behind() {
        let latch = Latch::new();
        for _ in 0..100 {
            let mut wait = latch.wait();
            assert!(poll_once(&mut wait).is_pending());
            assert!(poll_once(&mut wait).is_pending());
            assert_eq!(latch.waiter_count(), 1);
        }
        assert_eq!(latch.waiter_count(), 0);
    }

    #[test]
    fn no_wake_up_is_lost_when_trigger_and_wait_race() {
        for _ in 0..500 {
            let latch = Latch::new();
            let waiters = [latch.clone(), latch.clone()]
                .map(|latch| on_thread(move || block_on(latch.wait())));
            latch.trigger();
            for waiter in waiters {
                waiter.join().expect("the waiter does not panic");
            }
            assert_eq!(latch.waiter_count(), 0);
        }
    }
}

//! Whether anything is made durable these days, that is, in these tenths of a second: who
//! computes in idle time then rests now and then (see [`crate::side_thread`]).
//!
//! Guarantees: what is noted on one thread is seen by all others before long. Nothing that is
//! right depends on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a durable write counts as recent. Pushes that come one after the other are closer.
const RECENT: Duration = Duration::from_millis(100);

/// No write was noted yet.
const NEVER: u64 = u64::MAX;

/// When the last durable write of the process began.
pub(crate) struct Commits {
    origin: Instant,
    /// Nanoseconds from `origin` on, or [`NEVER`].
    last_ns: AtomicU64,
}

impl Commits {
    pub(crate) fn new() -> Commits {
        Commits { origin: Instant::now(), last_ns: AtomicU64::new(NEVER) }
    }

    /// Notes that a durable write begins.
    pub(crate) fn note(&self) {
        self.last_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// Whether one began a short time ago.
    pub(crate) fn are_recent(&self) -> bool {
        is_recent(self.last_ns.load(Ordering::Relaxed), self.now_ns())
    }

    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}

fn is_recent(last_ns: u64, now_ns: u64) -> bool {
    last_ns != NEVER && u128::from(now_ns.saturating_sub(last_ns)) < RECENT.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_recent_for_a_while() {
        let recent_ns = RECENT.as_nanos() as u64;
        assert!(!is_recent(NEVER, 0));
        assert!(!is_recent(NEVER, recent_ns));
        assert!(is_recent(5, 5));
        // Another thread may have noted one after this one has looked at the clock.
        assert!(is_recent(6, 5));
        assert!(is_recent(5, 4 + recent_ns));
        assert!(!is_recent(5, 5 + recent_ns));
        let commits = Commits::new();
        assert!(!commits.are_recent());
        commits.note();
        assert_ne!(commits.last_ns.load(Ordering::Relaxed), NEVER);
    }
}

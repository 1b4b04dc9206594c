//! Whether commits happened within the last tenths of a second. Long work rests now and then
//! while they do (see [`crate::pacer`]).
//!
//! Guarantee: all threads see the note of one thread after a short time. Correctness does not
//! depend on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Monotonic;

/// How long a durable write counts as recent. Pushes that come one after the other are closer.
const RECENT: Duration = Duration::from_millis(100);

/// When the last durable write of the process began.
#[derive(Default)]
pub(crate) struct Commits {
    /// A [`Monotonic`]. The process' clock begins late enough for 0 to be long ago.
    last: AtomicU64,
}

impl Commits {
    /// Notes that a durable write begins.
    pub(crate) fn note(&self, now: Monotonic) {
        self.last.store(now.0, Ordering::Relaxed);
    }

    /// Whether one began a short time ago.
    pub(crate) fn are_recent(&self, now: Monotonic) -> bool {
        now.since(Monotonic(self.last.load(Ordering::Relaxed))) < RECENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_write_is_recent_for_a_while() {
        let commits = Commits::default();
        let start = clock::now();
        assert!(!commits.are_recent(start), "none was noted");
        commits.note(start);
        assert!(commits.are_recent(start));
        // Another thread may have noted one after this one has looked at the clock.
        assert!(commits.are_recent(Monotonic(start.0 - 1)));
        let end = start.after(RECENT);
        assert!(commits.are_recent(Monotonic(end.0 - 1)));
        assert!(!commits.are_recent(end));
    }
}

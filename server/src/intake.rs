//! Whether the shards can store what is pushed, as the answers to pushes show it.
//!
//! Guarantees: a shard whose log could not be written is at fault until one of its writes succeeds,
//! or until [`IntakeHealth::forgive`]. Nothing is known of a shard that nobody has pushed to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::{CoreId, Monotonic};

/// The states of all shards.
#[derive(Debug)]
pub(crate) struct IntakeHealth {
    /// By shard: when its log last failed, in ms of the monotonic clock and one more; 0: it did not.
    failed_ms: Box<[AtomicU64]>,
    /// By shard: how often its log could not be written.
    failures: Box<[AtomicU64]>,
}

impl IntakeHealth {
    /// All are well.
    pub(crate) fn new(shards: u16) -> IntakeHealth {
        let zeros = || (0..shards).map(|_| AtomicU64::new(0)).collect();
        IntakeHealth { failed_ms: zeros(), failures: zeros() }
    }

    /// A shard has stored something.
    pub(crate) fn stored(&self, shard: CoreId) {
        let failed = &self.failed_ms[shard.index()];
        // Nearly always there is nothing to write.
        if failed.load(Ordering::Relaxed) != 0 {
            failed.store(0, Ordering::Relaxed);
        }
    }

    /// The log of a shard could not be written.
    pub(crate) fn failed(&self, shard: CoreId, now: Monotonic) {
        let since_ms = u64::try_from(now.since(Monotonic(0)).as_millis()).unwrap_or(u64::MAX - 1);
        self.failed_ms[shard.index()].store(since_ms + 1, Ordering::Relaxed);
        self.failures[shard.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// By shard: how often its log could not be written since the start.
    pub(crate) fn failures(&self) -> Vec<u64> {
        self.failures.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// How long ago a log has failed last; `None` if all shards are well.
    pub(crate) fn fault_age(&self, now: Monotonic) -> Option<Duration> {
        let failed = self.failed_ms.iter().map(|ms| ms.load(Ordering::Relaxed)).max()?;
        let since = Monotonic(0).after(Duration::from_millis(failed.checked_sub(1)?));
        Some(now.since(since))
    }

    /// The cause seems to be gone: pushes may try.
    pub(crate) fn forgive(&self) {
        self.failed_ms.iter().for_each(|failed| failed.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shard_that_fails_is_enough() {
        let health = IntakeHealth::new(2);
        let at = |s| Monotonic(0).after(Duration::from_secs(s));
        assert_eq!(health.fault_age(at(1)), None);
        health.failed(CoreId(1), at(1));
        health.stored(CoreId(0));
        assert_eq!(health.fault_age(at(3)), Some(Duration::from_secs(2)));
        health.stored(CoreId(1));
        assert_eq!(health.fault_age(at(3)), None);
        health.failed(CoreId(0), Monotonic(0));
        assert_eq!(health.fault_age(at(0)), Some(Duration::ZERO), "the first moment counts");
        health.forgive();
        assert_eq!(health.fault_age(at(9)), None);
        assert_eq!(health.failures(), [1, 1], "what has failed stays counted");
    }
}

//! How far the replay of the log has come, for people and metrics.
//!
//! Guarantees: both numbers only grow, and all shards of a node add to the same ones. They are no
//! promise: a file that several shards read counts once for each.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct ReplayProgress {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

impl ReplayProgress {
    /// Bytes of the log files that are to be read, as far as they are known.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of these that have been read.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed).min(self.total_bytes())
    }

    /// The read part in per cent, 0 to 100; 100 if there is nothing to read.
    pub fn percent(&self) -> u64 {
        (self.done_bytes() * 100).checked_div(self.total_bytes()).unwrap_or(100)
    }

    pub(crate) fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_all_is_never_done() {
        let progress = ReplayProgress::default();
        assert_eq!(progress.percent(), 100);
        progress.expect(200);
        assert_eq!((progress.percent(), progress.total_bytes()), (0, 200));
        progress.advance(50);
        assert_eq!(progress.percent(), 25);
        progress.advance(500);
        assert_eq!((progress.percent(), progress.done_bytes()), (100, 200));
    }
}

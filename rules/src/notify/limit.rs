//! Keeps repeated log lines apart: an Alertmanager that is down fails every request.

use std::cell::Cell;
use std::time::Duration;

use logsvc_runtime::Monotonic;

/// Time between two lines about one thing.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct LogLimit {
    next: Cell<Monotonic>,
    skipped: Cell<u64>,
}

impl Default for LogLimit {
    fn default() -> LogLimit {
        LogLimit { next: Cell::new(Monotonic(0)), skipped: Cell::new(0) }
    }
}

impl LogLimit {
    /// Whether a line may be written at this moment; then the number of those that were skipped.
    pub(super) fn admit(&self, now: Monotonic) -> Option<u64> {
        if now < self.next.get() {
            self.skipped.set(self.skipped.get() + 1);
            return None;
        }
        self.next.set(now.after(INTERVAL));
        Some(self.skipped.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_says_how_many_were_skipped() {
        let limit = LogLimit::default();
        let at = |seconds: u64| Monotonic(seconds * 1_000_000_000);
        let admitted = [0, 1, 59, 60, 100, 130].map(|seconds| limit.admit(at(seconds)));
        assert_eq!(admitted, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}

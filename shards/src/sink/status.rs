//! How a sink stands, for metrics and for those who wait until objects are gone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::{Budget, Monotonic};

/// What the cores of a node had sent to the sink at a moment, by core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMark(Box<[u64]>);

/// Shared by the cores of a node. All numbers are of this start.
#[derive(Debug)]
pub struct SinkStatus {
    objects: AtomicU64,
    object_bytes: AtomicU64,
    failures: AtomicU64,
    last_delay_us: AtomicU64,
    is_lost: AtomicBool,
    /// When the newest object that counts was sent for the first time, as ns of the monotonic clock.
    begun_ns: AtomicU64,
    /// Of pieces that are not confirmed.
    waiting: Budget,
    cores: Box<[CoreStatus]>,
}

/// Pieces of a core, by the number of the last one.
#[derive(Debug, Default)]
struct CoreStatus {
    /// That were sent.
    sent: AtomicU64,
    /// That are in objects which count.
    confirmed: AtomicU64,
    /// That are in no object any more.
    gone: AtomicU64,
    /// When the local log has failed first, and last, since something was written to it, as ns of the
    /// monotonic clock. 0: it has not.
    failed_first_ns: AtomicU64,
    failed_last_ns: AtomicU64,
}

/// The numbers of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkNumbers {
    /// Objects that count.
    pub objects: u64,
    /// Their payloads.
    pub object_bytes: u64,
    /// Attempts to write an object that failed.
    pub failures: u64,
    /// From the arrival of the first piece of the newest object that counts until it counted.
    pub last_delay: Duration,
    /// Bytes of pieces that are not confirmed. Those that have found no room do not count.
    pub waiting_bytes: u64,
    /// Whether another process has taken the log over.
    pub is_lost: bool,
}

impl SinkStatus {
    pub(super) fn new(cores: u16, waiting: Budget) -> SinkStatus {
        SinkStatus {
            objects: AtomicU64::new(0),
            object_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_delay_us: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            begun_ns: AtomicU64::new(0),
            waiting,
            cores: (0..cores).map(|_| CoreStatus::default()).collect(),
        }
    }

    /// The numbers of this moment.
    pub fn numbers(&self) -> SinkNumbers {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        SinkNumbers {
            objects: of(&self.objects),
            object_bytes: of(&self.object_bytes),
            failures: of(&self.failures),
            last_delay: Duration::from_micros(of(&self.last_delay_us)),
            waiting_bytes: self.waiting.used_bytes(),
            is_lost: self.is_lost.load(Ordering::Relaxed),
        }
    }

    /// Memory of pieces that are not confirmed.
    pub fn memory(&self) -> &Budget {
        &self.waiting
    }

    /// A time at which nobody had taken the log over: the newest object that counts was sent for the
    /// first time then. `None`: there is none.
    pub fn was_own_at(&self) -> Option<Monotonic> {
        Some(self.begun_ns.load(Ordering::Acquire)).filter(|ns| *ns > 0).map(Monotonic)
    }

    pub(super) fn note_begun(&self, begun: Monotonic) {
        self.begun_ns.fetch_max(begun.0, Ordering::AcqRel);
    }

    /// What was sent so far.
    pub fn sent(&self) -> SentMark {
        SentMark(self.cores.iter().map(|core| core.sent.load(Ordering::Acquire)).collect())
    }

    /// Whether no object has anything that was sent before the mark.
    pub(crate) fn has_left(&self, mark: &SentMark) -> bool {
        let is_gone =
            |(core, &sent): (&CoreStatus, &u64)| core.gone.load(Ordering::Acquire) >= sent;
        self.cores.iter().zip(&mark.0).all(is_gone)
    }

    /// Whether the bucket has all that was sent before the mark.
    pub fn is_confirmed(&self, mark: &SentMark) -> bool {
        let is_there =
            |(core, &sent): (&CoreStatus, &u64)| core.confirmed.load(Ordering::Acquire) >= sent;
        self.cores.iter().zip(&mark.0).all(is_there)
    }

    /// How long local logs of the node have failed without a success between, from the first failure to
    /// the last: that of the core with the longest time. `None`: none fails.
    pub fn log_failing(&self) -> Option<Duration> {
        let failing = |core: &CoreStatus| {
            let first = core.failed_first_ns.load(Ordering::Acquire);
            let last = core.failed_last_ns.load(Ordering::Acquire);
            (first > 0).then(|| Duration::from_nanos(last.saturating_sub(first)))
        };
        self.cores.iter().filter_map(failing).max()
    }

    pub(super) fn note_log_failed(&self, core: u16, now: Monotonic) {
        if let Some(core) = self.cores.get(usize::from(core)) {
            let now_ns = now.0.max(1);
            core.failed_last_ns.store(now_ns, Ordering::Release);
            if core.failed_first_ns.load(Ordering::Acquire) == 0 {
                core.failed_first_ns.store(now_ns, Ordering::Release);
            }
        }
    }

    pub(super) fn note_log_written(&self, core: u16) {
        if let Some(core) = self.cores.get(usize::from(core)) {
            core.failed_first_ns.store(0, Ordering::Release);
        }
    }

    pub(super) fn note_core_confirmed(&self, core: u16, sequence: u64) {
        if let Some(core) = self.cores.get(usize::from(core)) {
            core.confirmed.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    pub(super) fn note_sent(&self, core: u16, sequence: u64) {
        if let Some(core) = self.cores.get(usize::from(core)) {
            core.sent.store(sequence, Ordering::Release);
        }
    }

    pub(super) fn note_gone(&self, core: u16, sequence: u64) {
        if let Some(core) = self.cores.get(usize::from(core)) {
            core.gone.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    /// An object without pieces has no delay.
    pub(super) fn note_confirmed(&self, len_bytes: u64, delay: Option<Duration>) {
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.object_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if let Some(delay) = delay {
            self.last_delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn note_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_lost(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_fails_until_something_is_written_to_it() {
        let status = SinkStatus::new(2, Budget::new("test", 1));
        let at = |second| Monotonic(0).after(Duration::from_secs(second));
        assert_eq!(status.log_failing(), None);
        status.note_log_failed(0, at(0));
        assert_eq!(status.log_failing(), Some(Duration::ZERO));
        status.note_log_failed(1, at(3));
        status.note_log_written(0);
        assert_eq!(status.log_failing(), Some(Duration::ZERO), "that of the other core");
        status.note_log_failed(1, at(10));
        assert_eq!(status.log_failing(), Some(Duration::from_secs(7)));
        status.note_log_written(1);
        assert_eq!(status.log_failing(), None);
        status.note_log_failed(1, at(20));
        assert_eq!(status.log_failing(), Some(Duration::ZERO), "it begins anew");
    }
}

//! How a node and its bucket stand, for metrics and for those who wait for the bucket.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::{Bell, Monotonic};

/// Never, as a time in ms.
const NEVER: u64 = u64::MAX;

/// Shared by the cores of a node. All numbers are of this start.
#[derive(Debug)]
pub struct BucketStatus {
    /// Segments that were uploaded.
    uploads: AtomicU64,
    upload_bytes: AtomicU64,
    failures: AtomicU64,
    /// Of segments that are not in the bucket.
    backlog_segments: AtomicU64,
    backlog_bytes: AtomicU64,
    local_file_bytes: AtomicU64,
    absent_tails: AtomicU64,
    /// Objects of segments that were removed.
    removed_objects: AtomicU64,
    failing_since_ms: AtomicU64,
    is_lost: AtomicBool,
    wanted: AtomicU64,
    reached: AtomicU64,
    /// As `wanted`: the log of edits has all.
    recorded: AtomicU64,
    position: AtomicU64,
    is_clean_wanted: AtomicBool,
    bell: Bell,
}

impl Default for BucketStatus {
    fn default() -> BucketStatus {
        BucketStatus {
            uploads: AtomicU64::new(0),
            upload_bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            backlog_segments: AtomicU64::new(0),
            backlog_bytes: AtomicU64::new(0),
            local_file_bytes: AtomicU64::new(0),
            absent_tails: AtomicU64::new(0),
            removed_objects: AtomicU64::new(0),
            failing_since_ms: AtomicU64::new(NEVER),
            is_lost: AtomicBool::new(false),
            wanted: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            position: AtomicU64::new(0),
            is_clean_wanted: AtomicBool::new(false),
            bell: Bell::new(),
        }
    }
}

/// The numbers of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketNumbers {
    /// Segments that were uploaded.
    pub uploads: u64,
    /// Their bytes.
    pub upload_bytes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Segments that the bucket lacks.
    pub backlog_segments: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Bytes of files on the local disk whose segments the bucket has, too.
    pub local_file_bytes: u64,
    /// Segments of which not even the end is on the local disk.
    pub absent_tails: u64,
    /// Objects of segments that were removed.
    pub removed_objects: u64,
    /// How long nothing has come into the bucket, although there was something.
    pub failing_for: Option<Duration>,
    /// Whether another process has taken the bucket over.
    pub is_lost: bool,
}

impl BucketStatus {
    /// The numbers of this moment.
    pub fn numbers(&self, now: Monotonic) -> BucketNumbers {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let since_ms = of(&self.failing_since_ms);
        let now_ms = now.since(Monotonic(0)).as_millis() as u64;
        let failing_for =
            (since_ms != NEVER).then(|| Duration::from_millis(now_ms.saturating_sub(since_ms)));
        BucketNumbers {
            uploads: of(&self.uploads),
            upload_bytes: of(&self.upload_bytes),
            failures: of(&self.failures),
            backlog_segments: of(&self.backlog_segments),
            backlog_bytes: of(&self.backlog_bytes),
            local_file_bytes: of(&self.local_file_bytes),
            absent_tails: of(&self.absent_tails),
            removed_objects: of(&self.removed_objects),
            failing_for,
            is_lost: self.is_lost(),
        }
    }

    /// Whether another process has taken the bucket over.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Asks for a moment from which on the bucket has all that the shards have done before this
    /// call, and nothing that they have removed. To be waited for with
    /// [`BucketStatus::has_reached`].
    pub fn want(&self) -> u64 {
        let wanted = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.bell.ring();
        wanted
    }

    /// The same, and from then on nothing is there that earlier starts have left without naming it.
    pub fn want_clean(&self) -> u64 {
        self.is_clean_wanted.store(true, Ordering::Release);
        self.want()
    }

    /// Whether the moment has come.
    pub fn has_reached(&self, wanted: u64) -> bool {
        self.reached.load(Ordering::Acquire) >= wanted
    }

    /// Whether the log of edits in the bucket has all that the shards had done before a moment was asked
    /// for. What they have removed may be there still.
    pub fn is_recorded(&self, wanted: u64) -> bool {
        self.recorded.load(Ordering::Acquire) >= wanted
    }

    /// The number that follows the last entry of the log of edits.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    pub(super) fn note_position(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    pub(super) fn note_recorded(&self, wanted: u64) {
        self.recorded.fetch_max(wanted, Ordering::AcqRel);
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Acquire)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted() > self.reached.load(Ordering::Acquire)
    }

    pub(super) fn is_clean_wanted(&self) -> bool {
        self.is_clean_wanted.load(Ordering::Acquire)
    }

    pub(super) async fn asked(&self) {
        self.bell.wait().await;
    }

    pub(super) fn note_reached(&self, wanted: u64) {
        self.reached.fetch_max(wanted, Ordering::AcqRel);
    }

    pub(super) fn note_upload(&self, len_bytes: u64) {
        self.uploads.fetch_add(1, Ordering::Relaxed);
        self.upload_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        self.failing_since_ms.store(NEVER, Ordering::Relaxed);
    }

    pub(super) fn note_sent(&self) {
        self.failing_since_ms.store(NEVER, Ordering::Relaxed);
    }

    pub(super) fn note_failure(&self, now: Monotonic) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let now_ms = now.since(Monotonic(0)).as_millis() as u64;
        let since = &self.failing_since_ms;
        let _ = since.compare_exchange(NEVER, now_ms, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn note_backlog(&self, segments: u64, len_bytes: u64) {
        self.backlog_segments.store(segments, Ordering::Relaxed);
        self.backlog_bytes.store(len_bytes, Ordering::Relaxed);
    }

    pub(super) fn note_local(&self, file_bytes: u64, absent_tails: usize) {
        self.local_file_bytes.store(file_bytes, Ordering::Relaxed);
        self.absent_tails.store(absent_tails as u64, Ordering::Relaxed);
    }

    pub(super) fn note_removed(&self) {
        self.removed_objects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_lost(&self) {
        self.is_lost.store(true, Ordering::Release);
    }
}

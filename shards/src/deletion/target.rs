//! Entries that are to be removed from the disk.

use std::sync::Arc;

use logsvc_proto::Labels;

use super::DeleteFilter;

/// Entries that are to be removed from the disk: a part of a request.
#[derive(Clone, Debug)]
pub struct PurgeTarget {
    /// The request.
    pub filter: Arc<DeleteFilter>,
    /// The oldest time of the part, in ns since the Unix epoch.
    pub start_ns: i64,
    /// The newest time of the part, in ns since the Unix epoch.
    pub end_ns: i64,
}

impl PurgeTarget {
    /// The oldest and the newest time of its entries, both included; the first is the later one if
    /// there can be none.
    pub fn bounds_ns(&self) -> (i64, i64) {
        (self.start_ns.max(self.filter.start_ns), self.end_ns.min(self.filter.end_ns))
    }

    /// Whether it may have entries between two times, both included.
    pub fn overlaps(&self, min_ns: i64, max_ns: i64) -> bool {
        let (start_ns, end_ns) = self.bounds_ns();
        start_ns <= end_ns && start_ns <= max_ns && min_ns <= end_ns
    }

    /// Whether it has all entries of its streams between two times, both included.
    pub(crate) fn has_all(&self, min_ns: i64, max_ns: i64) -> bool {
        let (start_ns, end_ns) = self.bounds_ns();
        self.filter.plan.is_none() && start_ns <= min_ns && max_ns <= end_ns
    }
}

/// The entries that were removed for one [`PurgeTarget`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedTotals {
    /// Entries.
    pub entries: u64,
    /// Bytes of their lines.
    pub line_bytes: u64,
}

impl RemovedTotals {
    /// Adds others.
    pub(crate) fn add(&mut self, other: RemovedTotals) {
        self.entries += other.entries;
        self.line_bytes += other.line_bytes;
    }
}

/// A stream of a segment of which targets select entries.
#[derive(Clone, Debug)]
pub(crate) struct SelectedStream {
    /// Its row in the segment.
    pub(crate) row: u32,
    pub(crate) labels: Arc<Labels>,
    /// The numbers of the targets, rising.
    pub(crate) targets: Vec<u16>,
}

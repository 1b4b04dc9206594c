//! Finds and drops the entries of a segment whose retention period is over.

use std::sync::Arc;

use super::{CompactionFilter, EntryView, FilterDecision, RetentionPolicy, RunView};
use crate::types::StreamDefinition;
use logsvc_segment::Directory;

/// The memory of an entry besides its line, roughly, so that empty lines count.
const ENTRY_BYTES: u64 = 8;

/// How much of a segment has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeriodShares {
    /// Bytes of runs of which every entry has expired.
    pub(crate) expired_bytes: u64,
    /// All others.
    pub(crate) kept_bytes: u64,
}

/// Adds up the runs of a segment. `cutoff_ns` gives, for the row of a stream, the time before which
/// its entries have expired, or `None` if the stream is not the shard's; these streams are left
/// out.
pub(crate) fn expired_share(
    directory: &Directory,
    cutoff_ns: impl Fn(u32) -> Option<i64>,
) -> PeriodShares {
    let mut shares = PeriodShares::default();
    for row in 0..directory.stream_count() {
        let Some(cutoff_ns) = cutoff_ns(row) else { continue };
        for run in directory.runs_of_stream(row) {
            let bytes = run.line_bytes.len() as u64 + ENTRY_BYTES * run.entries.len() as u64;
            if run.max_ns < cutoff_ns {
                shares.expired_bytes += bytes;
            } else {
                shares.kept_bytes += bytes;
            }
        }
    }
    shares
}

/// Drops entries whose period is over.
#[derive(Debug)]
pub(crate) struct ExpiryFilter {
    policy: Arc<RetentionPolicy>,
    now_ns: i64,
    /// For the current stream: entries before this have expired.
    cutoff_ns: i64,
}

impl ExpiryFilter {
    /// Drops entries that have expired at `now_ns` since the Unix epoch.
    pub(crate) fn new(policy: Arc<RetentionPolicy>, now_ns: i64) -> ExpiryFilter {
        ExpiryFilter { policy, now_ns, cutoff_ns: i64::MIN }
    }
}

impl CompactionFilter for ExpiryFilter {
    fn begin(&mut self, stream: &StreamDefinition) {
        let period_ns = self.policy.of_stream(&stream.tenant, &stream.labels);
        self.cutoff_ns = period_ns.map_or(i64::MIN, |ns| self.now_ns.saturating_sub(ns));
    }

    fn run(&self, RunView { run, .. }: RunView<'_>) -> FilterDecision {
        if run.min_ns >= self.cutoff_ns {
            FilterDecision::Keep
        } else if run.max_ns < self.cutoff_ns {
            FilterDecision::Drop
        } else {
            FilterDecision::Each
        }
    }

    fn entry(&self, _: RunView<'_>, _: usize, entry: &EntryView<'_>) -> bool {
        entry.timestamp_ns >= self.cutoff_ns
    }
}

//! Drops the entries of a segment whose retention period is over.

use std::sync::Arc;

use super::{CompactionFilter, EntryView, FilterDecision, RetentionPolicy, RunView};
use crate::types::StreamDefinition;

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

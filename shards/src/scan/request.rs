//! The request of a scan.

use std::num::NonZeroUsize;
use std::sync::Arc;

use logsvc_logql::engine::LeafPlan;
use logsvc_runtime::Account;

use crate::deletion::DeletionVersion;
use crate::scope::TenantScope;
use crate::types::Cancellation;

/// A shard of so many matching streams looks for its share of the entries of an answer, if it may.
const MANY_STREAMS: usize = 4;

/// One shard's part of a query.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    /// Whose streams are read.
    pub tenants: TenantScope,
    /// The part of the plan that a shard computes.
    pub plan: Arc<LeafPlan>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// The requests for deletion whose entries are hidden.
    pub deletions: DeletionVersion,
    /// Memory of the query.
    pub account: Account,
    /// How many entries of a log query a shard with many streams (4) looks for, if these
    /// are fewer than the answer has. [`crate::types::ScanStats::cut_leaves`] tells whether it did so.
    pub entries_each: Option<NonZeroUsize>,
}

impl LeafRequest {
    /// Has a shard look for fewer entries, if it may and so many streams are known. Returns whether it does.
    ///
    /// Entries of few streams are in few blocks, which are read for one entry as well as for all.
    pub(super) fn cut(&mut self, streams: usize) -> bool {
        let (Some(each), Some(limit)) = (self.entries_each, self.plan.entry_limit()) else {
            return false;
        };
        let is_cut = streams >= MANY_STREAMS && each.get() < limit;
        if is_cut {
            self.plan = Arc::new(self.plan.with_entry_limit(each.get()));
        }
        is_cut
    }
}

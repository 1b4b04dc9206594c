//! The request of a scan.

use std::sync::Arc;

use logsvc_logql::engine::LeafPlan;
use logsvc_runtime::Account;

use crate::deletion::DeletionVersion;
use crate::scope::TenantScope;
use crate::types::Cancellation;

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
}

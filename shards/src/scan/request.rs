//! The request and the reply of a scan.

use std::sync::Arc;

use logsvc_logql::engine::{LeafPlan, LeafResult};
use logsvc_runtime::{Account, Grant};

use super::ScanJob;
use crate::scope::TenantScope;
use crate::types::{Cancellation, ScanStats};

/// One shard's part of a query.
#[derive(Clone, Debug)]
pub struct LeafRequest {
    /// Whose streams are read.
    pub tenants: TenantScope,
    /// The part of the plan that a shard computes.
    pub plan: Arc<LeafPlan>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// Memory of the query.
    pub account: Account,
}

/// The reply to one shard's part of a query.
#[derive(Debug)]
pub struct LeafReply {
    /// The part's result.
    pub result: LeafResult,
    /// The memory of the query that the result holds.
    pub memory: Grant,
    /// The counters of the scan.
    pub stats: ScanStats,
    /// The rest of the scan, if it is so large that all cores should share it.
    pub rest: Option<Box<ScanJob>>,
}

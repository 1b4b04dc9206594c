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
    /// What to compute.
    pub plan: Arc<LeafPlan>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// Memory of the query.
    pub account: Account,
}

/// What a shard's part of a query gave.
#[derive(Debug)]
pub struct LeafReply {
    /// The part's result.
    pub result: LeafResult,
    /// What it holds of the query's memory.
    pub memory: Grant,
    /// What it has cost.
    pub stats: ScanStats,
    /// What is left to read, if that is so much that all cores should share it.
    pub rest: Option<Box<ScanJob>>,
}

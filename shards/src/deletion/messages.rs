//! The requests and replies between front cores and the keeper of the requests for deletion.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::TenantId;

use super::{DeleteId, DeleteRequest, RemovedTotals};

/// A request for deletion that was checked.
#[derive(Clone, Debug)]
pub struct NewDelete {
    /// Whose entries.
    pub tenant: TenantId,
    /// The log query, as the client sent it.
    pub query: String,
    /// The oldest time that is deleted, in ns since the Unix epoch.
    pub start_ns: i64,
    /// The newest time that is deleted, in ns since the Unix epoch.
    pub end_ns: i64,
    /// The length of the parts in ns; `None`: one part.
    pub part_ns: Option<i64>,
}

/// A request of a front core to the keeper.
#[derive(Debug)]
pub enum DeletionRequest {
    /// Record a request and hide its entries; answered when it is durable and in force.
    Create(Box<NewDelete>),
    /// The requests of a tenant; only requests that overlap the bounds in ns, if there are any.
    List {
        /// Which tenant.
        tenant: TenantId,
        /// Oldest and newest time, both included.
        bounds_ns: Option<(i64, i64)>,
    },
    /// End a request, see [`CancelError`]; answered when that is durable and in force.
    Cancel {
        /// Whose request.
        tenant: TenantId,
        /// Which one.
        id: DeleteId,
        /// Whether it may be under way.
        is_forced: bool,
    },
    /// Numbers for metrics.
    Status,
    /// What this node, as one of many, has removed.
    Removed,
    /// Whether this node gathers what all nodes have removed.
    WantsReports,
    /// What all nodes have removed, for the one that gathers it.
    Reported(Vec<RemovalReport>),
}

/// What one of many nodes has removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovalReport {
    /// The partitions that it owns.
    pub owned: Vec<u16>,
    /// The pending requests whose entries it has removed from all of them, with what that was.
    pub done: BTreeMap<DeleteId, RemovedTotals>,
}

/// Why a request for deletion is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The query cannot be evaluated, or its outcome depends on the time at which it runs.
    #[error("{0}")]
    Query(String),
    /// The query takes too long to be compiled, which queries that overlap it have to do.
    #[error("the query is too complex")]
    TooComplex,
    /// There are too many.
    #[error("too many delete requests: {max} may be pending")]
    TooMany {
        /// How many may be pending.
        max: usize,
    },
    /// There is no memory for its filter.
    #[error("the memory for delete requests is used up")]
    NoMemory,
    /// It could not be written.
    #[error("the delete request could not be stored: {0}")]
    Disk(Arc<str>),
    /// The bucket does not take it. It is on the disk and in force.
    #[error(
        "the bucket does not take the delete request; it is in force, and is sent to the bucket later"
    )]
    Bucket,
    /// Another node keeps the requests of all nodes by now. Perhaps it is recorded.
    #[error("another node keeps the delete requests")]
    Elsewhere,
    /// It was not recorded for all nodes in time. Perhaps it is.
    #[error("it is not known whether the delete request is recorded: {0}")]
    Unsure(Arc<str>),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Why a request for deletion is not cancelled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelError {
    /// The tenant has no such request.
    #[error("could not find delete request with given id")]
    Unknown,
    /// It is processed.
    #[error("deletion of request which is in process or already processed is not allowed")]
    Processed,
    /// Its cancel period is over, or some of its parts are done.
    #[error("the cancel period of the delete request is over")]
    TooLate,
    /// The change could not be written.
    #[error("the cancellation could not be stored: {0}")]
    Disk(Arc<str>),
    /// The bucket does not take the change. It is on the disk and in force.
    #[error(
        "the bucket does not take the cancellation; it is in force, and is sent to the bucket later"
    )]
    Bucket,
    /// Another node keeps the requests of all nodes by now. Perhaps it is cancelled.
    #[error("another node keeps the delete requests")]
    Elsewhere,
    /// It was not cancelled for all nodes in time. Perhaps it is.
    #[error("it is not known whether the delete request is cancelled: {0}")]
    Unsure(Arc<str>),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Numbers of one tenant since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantDeletions {
    /// Requests that were received.
    pub received: u64,
    /// Requests that were processed.
    pub processed: u64,
    /// Entries that were removed.
    pub removed_entries: u64,
}

/// Numbers for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionStatus {
    /// By tenant.
    pub tenants: BTreeMap<TenantId, TenantDeletions>,
    /// Requests that are not processed.
    pub pending: u64,
    /// When the oldest of them was made, in ms since the Unix epoch.
    pub oldest_pending_ms: Option<i64>,
    /// Attempts to remove entries that failed since the start.
    pub failures: u64,
    /// Line bytes that were rewritten since the start.
    pub rewritten_line_bytes: u64,
    /// When the last attempt that failed at nothing ended, in ms since the Unix epoch.
    pub last_success_ms: Option<i64>,
}

/// The answer of the keeper; the variant follows the request's.
#[derive(Debug)]
pub enum DeletionReply {
    /// To [`DeletionRequest::Create`].
    Created(Result<DeleteId, CreateError>),
    /// To [`DeletionRequest::List`], by the time at which they were made.
    Listed(Vec<DeleteRequest>),
    /// To [`DeletionRequest::Cancel`].
    Cancelled(Result<(), CancelError>),
    /// To [`DeletionRequest::Status`].
    Status(Box<DeletionStatus>),
    /// To [`DeletionRequest::Removed`].
    Removed(RemovalReport),
    /// To the two requests about reports: whether there are some to be gathered.
    WantsReports(bool),
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<DeletionRequest>();
const _: () = assert_send::<DeletionReply>();

//! Gathers the parts of a query that shards have computed, and has long ones shared.
//!
//! Guarantees: what a shard leaves unread is read by all cores together, each block
//! once, before the answer is complete.

use logsvc_logql::engine::MergeState;
use logsvc_proto::error::ApiError;
use logsvc_runtime::CoreId;
use logsvc_runtime::mesh::PendingReply;
use logsvc_shards::messages::{LeafReply, ScanStats, ShardReply, ShardRequest};
use logsvc_shards::scan::ScanError;

/// Why an answer cannot be gathered.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeafError {
    /// A shard's part failed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A lane is full.
    #[error("too many outstanding requests")]
    Busy,
    /// A shard does not answer any more: the node is going down.
    #[error("a shard of this node is not running")]
    Gone,
}

impl From<LeafError> for ApiError {
    fn from(error: LeafError) -> ApiError {
        let text = error.to_string();
        match error {
            LeafError::Scan(ScanError::Plan(_) | ScanError::Memory { .. }) => {
                ApiError::bad_request(text)
            }
            LeafError::Busy => ApiError::too_many_requests(text, 1),
            LeafError::Scan(ScanError::Cancelled) | LeafError::Gone => ApiError::unavailable(text),
        }
    }
}

/// Waits for the shards' answers to a leaf and merges them. `ask` sends a request to
/// a core, `reserve` is told the bytes of each part before it is merged.
pub(super) async fn gather_leaves<E: From<LeafError>>(
    ask: impl Fn(CoreId, ShardRequest) -> Result<PendingReply<ShardReply>, E>,
    cores: u16,
    replies: Vec<PendingReply<ShardReply>>,
    merge: &mut MergeState,
    mut reserve: impl FnMut(u64) -> Result<(), E>,
) -> Result<ScanStats, E> {
    let mut stats = ScanStats::default();
    let mut rests = Vec::new();
    for reply in replies {
        let part = part_of(reply.await)?;
        stats.add(&part.stats);
        reserve(part.result.held_bytes() as u64)?;
        merge.add(part.result);
        rests.extend(part.rest);
    }
    // What is long is shared by all cores, whoever owns the streams.
    let mut replies = Vec::new();
    for rest in rests {
        for (core, job) in (0..cores).map(CoreId).zip(rest.divide(cores)) {
            replies.push(ask(core, ShardRequest::Share(Box::new(job)))?);
        }
    }
    for reply in replies {
        let part = part_of(reply.await)?;
        stats.add(&part.stats);
        reserve(part.result.held_bytes() as u64)?;
        merge.add(part.result);
    }
    Ok(stats)
}

fn part_of<E>(reply: Result<ShardReply, E>) -> Result<LeafReply, LeafError> {
    match reply {
        Ok(ShardReply::Leaf(Ok(part))) => Ok(*part),
        Ok(ShardReply::Leaf(Err(error))) => Err(error.into()),
        Ok(_) | Err(_) => Err(LeafError::Gone),
    }
}

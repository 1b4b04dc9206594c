//! The history of a tail: the newest entries since its start.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use logsvc_logql::engine::{Direction, Plan, QueryParams, QueryResult, QueryTime};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, CoreId, Runtime};
use logsvc_shards::messages::ShardRequest;
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::tail::TailJoin;
use logsvc_shards::types::Cancellation;

use super::GroupKey;
use super::evaluate::flatten;
use super::frame::{Entry, Form};
use super::hub::Hub;
use crate::front::query::execute::CancelOnDrop;
use crate::front::query::leaves::{LeafError, Merged, gather_leaves};

/// The entries, oldest first, or why there are none.
pub(super) type History = LocalBoxFuture<'static, Result<Vec<Entry>, String>>;

/// The query, and the point from which entries are followed.
pub(super) struct Ask<'a> {
    pub(super) key: &'a GroupKey,
    pub(super) log: &'a LogExpr,
    /// First nanosecond since the Unix epoch.
    pub(super) start_ns: i64,
    /// Most entries.
    pub(super) limit: u32,
    pub(super) subscription: u64,
    pub(super) epoch: u64,
    pub(super) queue_max_bytes: usize,
}

/// Subscribes to all shards, and asks them for the history.
///
/// # Errors
/// The query cannot be evaluated, or the node is too busy. Some shards may have been
/// joined.
pub(super) fn ask<R: Runtime>(hub: &Rc<Hub<R>>, ask: &Ask<'_>) -> Result<History, String> {
    // Up to the end of time: an entry that claims to be of the future came before too.
    let time = QueryTime::Range { start_ns: ask.start_ns, end_ns: i64::MAX, step_ns: 1 };
    let params = QueryParams {
        now_ns: hub.core.runtime.unix_nanos(),
        limit: ask.limit as usize,
        direction: Direction::Backward,
        categorize_labels: ask.key.form == Form::Categorized,
        ..QueryParams::new(time)
    };
    // The query was checked when the client joined.
    let plan = Plan::of_checked(&Expr::Log(ask.log.clone()), &params);
    let plan = plan.map_err(|error| error.to_string())?;
    let [leaf] = plan.leaves() else { return Err("only log selector is supported".to_owned()) };
    let leaf = Arc::new(leaf.clone());
    let busy = || "too many outstanding requests".to_owned();
    let max_bytes = hub.core.budgets().queries.max_bytes();
    let account = Account::open(&hub.core.budgets().queries, 0, max_bytes).ok_or_else(busy)?;
    let cancellation = CancelOnDrop(Cancellation::default());
    // All shards hide the same.
    let deletions = hub.core.node.deletions.version();
    let mut replies = Vec::new();
    for shard in (0..hub.core.runtime.core_count()).map(CoreId) {
        let join = TailJoin {
            subscription: ask.subscription,
            epoch: ask.epoch,
            queue_max_bytes: ask.queue_max_bytes,
            history: LeafRequest {
                tenants: ask.key.tenant.clone().into(),
                plan: Arc::clone(&leaf),
                deletions,
                cancellation: cancellation.0.clone(),
                account: account.clone(),
            },
        };
        let reply = hub.core.lanes.call(shard, ShardRequest::TailJoin(join));
        replies.push(reply.map_err(|_| busy())?);
    }
    let (runtime, caller, cores) =
        (hub.core.runtime.clone(), hub.core.lanes.clone(), hub.core.runtime.core_count());
    let gather = async move {
        let ask = |core, request| caller.call(core, request).map_err(|_| LeafError::Busy);
        let gathered = gather_leaves(ask, cores, replies, account.grant()).await;
        let gathered = gathered.map_err(|error| error.to_string())?;
        let merged = gathered.merged(&runtime, &plan, cancellation.0.clone()).await;
        let Merged { result, memory: _memory, .. } = merged.map_err(|error| error.message)?;
        let QueryResult::Streams(mut streams) = result else {
            return Err("only log selector is supported".to_owned());
        };
        // Newest first became oldest first, also among equal times.
        streams.iter_mut().for_each(|stream| stream.entries.reverse());
        Ok(flatten(streams, false))
    };
    let timeout_ns = hub.core.limits(&ask.key.tenant).query_timeout_ns;
    let hub = Rc::clone(hub);
    Ok(Box::pin(async move {
        let mut gather = pin!(gather);
        let mut late = pin!(async {
            match u64::try_from(timeout_ns) {
                Ok(ns) if ns > 0 => {
                    let deadline = hub.core.runtime.now().after(Duration::from_nanos(ns));
                    hub.core.runtime.sleep_until(deadline).await;
                }
                _ => std::future::pending().await,
            }
        });
        poll_fn(|cx| {
            if let Poll::Ready(result) = gather.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            late.as_mut().poll(cx).map(|()| Err(ApiError::query_timeout().message))
        })
        .await
    }))
}

//! The history of a tail: the newest entries since its start. With several nodes also what was missed
//! when one of them came or went.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, LocalBoxFuture, select};
use logsvc_logql::engine::{Direction, LeafPlan, Plan, QueryParams, QueryResult, QueryTime};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_peers::question::{Asked, Question};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, CoreId, Latch, Monotonic, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::ShardRequest;
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::tail::TailJoin;
use logsvc_shards::types::Cancellation;

use super::GroupKey;
use super::evaluate::{TailPipeline, flatten, shows_streams_only};
use super::frame::{Entry, Form};
use super::hub::Hub;
use crate::front::query::execute::CancelOnDrop;
use crate::front::query::leaves::{Gathered, LeafError, Merged, gather_leaves};
use crate::front::query::owners::{Bounds, FoundByAll, PATIENCE, no_owner};

/// The entries, oldest first, or why there are none.
pub(super) type History = LocalBoxFuture<'static, Result<Vec<Entry>, String>>;

/// How entries are shown that are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// As the answer to a query.
    History,
    /// As new entries.
    Missed,
}

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
    let plan = plan(ask.log, &params(hub, ask, Shown::History))?;
    let leaf = leaf(&plan)?;
    let account = account(hub)?;
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
                entries_each: None,
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
        entries_of(gathered, &runtime, &plan, cancellation.0.clone(), false).await
    };
    Ok(within_timeout(hub, &ask.key.tenant, gather))
}

/// What the shards of all nodes are asked to follow.
///
/// # Errors
/// The query cannot be evaluated.
pub(super) fn question<R: Runtime>(hub: &Hub<R>, ask: &Ask<'_>) -> Result<Question, String> {
    question_of(
        &plan(ask.log, &params(hub, ask, Shown::History))?,
        ask,
        hub.core.node.deletions.version(),
    )
}

/// Asks the owners of all partitions for the history, or for what was missed, once all of them are
/// followed, as `ready` says. Entries tell their places.
///
/// # Errors
/// The query cannot be evaluated.
pub(super) fn ask_owners<R: Runtime>(
    hub: &Rc<Hub<R>>,
    ask: &Ask<'_>,
    shown: Shown,
    ready: &Latch,
) -> Result<History, String> {
    let params = QueryParams { places: true, ..params(hub, ask, shown) };
    let plan = plan(ask.log, &params)?;
    let question = question_of(&plan, ask, hub.core.node.deletions.version())?;
    let streams_only = shown == Shown::Missed && shows_streams_only(ask.log, ask.key.form);
    let (asking, ready, tenant) = (Rc::clone(hub), ready.wait(), ask.key.tenant.clone());
    let work = async move {
        let runtime = &asking.core.runtime;
        let late = pin!(runtime.sleep_until(runtime.now().after(PATIENCE)));
        if let Either::Right(_) = select(pin!(ready), late).await {
            return Err(no_owner().message);
        }
        let account = account(&asking)?;
        let cancellation = CancelOnDrop(Cancellation::default());
        let deadline = Monotonic::NEVER;
        let cancelled = cancellation.0.clone();
        let bounds =
            Bounds { account, cancellation: cancelled.clone(), deadline, takes_part: None };
        let found = asking.querier.ask_owners(question, &bounds).await;
        let FoundByAll { found, memory, .. } = found.map_err(|error| error.message)?;
        let gathered = Gathered::of(found.parts, memory, found.stats);
        entries_of(gathered, runtime, &plan, cancelled, streams_only).await
    };
    Ok(within_timeout(hub, &tenant, work))
}

fn busy() -> String {
    "too many outstanding requests".to_owned()
}

fn account<R: Runtime>(hub: &Hub<R>) -> Result<Account, String> {
    let queries = &hub.core.budgets().queries;
    Account::open(queries, 0, queries.max_bytes()).ok_or_else(busy)
}

fn params<R: Runtime>(hub: &Hub<R>, ask: &Ask<'_>, shown: Shown) -> QueryParams {
    // Up to the end of time: an entry that claims to be of the future came before too.
    let time = QueryTime::Range { start_ns: ask.start_ns, end_ns: i64::MAX, step_ns: 1 };
    let now_ns = hub.core.runtime.unix_nanos();
    let of_new = TailPipeline::params(ask.log, ask.key.form, now_ns);
    let categorize_labels = match shown {
        Shown::History => ask.key.form == Form::Categorized,
        Shown::Missed => of_new.categorize_labels,
    };
    QueryParams {
        now_ns,
        limit: ask.limit as usize,
        direction: Direction::Backward,
        categorize_labels,
        ..QueryParams::new(time)
    }
}

fn plan(log: &LogExpr, params: &QueryParams) -> Result<Plan, String> {
    // The query was checked when the client joined.
    Plan::of_checked(&Expr::Log(log.clone()), params).map_err(|error| error.to_string())
}

fn leaf(plan: &Plan) -> Result<Arc<LeafPlan>, String> {
    let [leaf] = plan.leaves() else { return Err("only log selector is supported".to_owned()) };
    Ok(Arc::new(leaf.clone()))
}

fn question_of(plan: &Plan, ask: &Ask<'_>, deletions: DeletionVersion) -> Result<Question, String> {
    let asked = Asked::Leaves(vec![leaf(plan)?]);
    Ok(Question { tenants: ask.key.tenant.clone().into(), asked, deletions, entries_each: None })
}

/// What was found, oldest first.
async fn entries_of<R: Runtime>(
    gathered: Gathered,
    runtime: &R,
    plan: &Plan,
    cancellation: Cancellation,
    streams_only: bool,
) -> Result<Vec<Entry>, String> {
    let merged = gathered.merged(runtime, plan, cancellation).await;
    let Merged { result, memory: _memory, .. } = merged.map_err(|error| error.message)?;
    let QueryResult::Streams(mut streams) = result else {
        return Err("only log selector is supported".to_owned());
    };
    // Newest first became oldest first, also among equal times.
    for stream in &mut streams {
        stream.entries.reverse();
        stream.places.reverse();
    }
    Ok(flatten(streams, streams_only))
}

/// What comes of something within the time of a query.
fn within_timeout<R: Runtime>(
    hub: &Rc<Hub<R>>,
    tenant: &TenantId,
    work: impl Future<Output = Result<Vec<Entry>, String>> + 'static,
) -> History {
    let timeout_ns = hub.core.limits(tenant).query_timeout_ns;
    let hub = Rc::clone(hub);
    Box::pin(async move {
        let work = pin!(work);
        let late = pin!(async {
            match u64::try_from(timeout_ns) {
                Ok(ns) if ns > 0 => {
                    let deadline = hub.core.runtime.now().after(Duration::from_nanos(ns));
                    hub.core.runtime.sleep_until(deadline).await;
                }
                _ => std::future::pending().await,
            }
        });
        match select(work, late).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => Err(ApiError::query_timeout().message),
        }
    })
}

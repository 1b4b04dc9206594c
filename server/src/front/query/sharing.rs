//! Equal queries at the same time run once.
//!
//! The first one that asks has the query run in a task of its core; all that ask for the same while
//! it runs, on any core, get its answer, encoded once and counted once in the memory for queries.
//! Each request has its own time limit, and its client may go away, the first one's too; the run
//! ends early when nobody waits for it.
//!
//! Guarantees: nobody gets an answer that lacks an entry whose push was acknowledged before the
//! question came. A run that still waits for its turn may be joined by everybody; one that has
//! begun only as long as nothing was stored on the node since, and only if the node has no others. Failures of the run go to all
//! requests that wait for it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use logsvc_logql::engine::{Direction, Place, QueryParams, QueryTime};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Joined, Leader, Runtime, SharedRuns};

use super::Querier;
use super::answer::AnswerBody;
use super::endpoints::{AnswerForm, AnswerOptions, PreparedQuery};
use super::queue::QueryContext;
use super::tenants::Tenants;
use crate::config::Limits;
use crate::metrics::Metric;

/// Everything that an answer depends on besides the data.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueryKey {
    tenants: Tenants,
    /// As it is printed.
    query: String,
    /// The moment, or first, last and step.
    times_ns: (i64, Option<(i64, i64)>),
    limit: usize,
    is_forward: bool,
    interval_ns: i64,
    after: Option<Place>,
    form: AnswerForm,
    options: AnswerOptions,
    /// Where its limits lie. The run holds them, so that no others lie there meanwhile.
    limits: usize,
}

impl QueryKey {
    /// The key of a query with parameters as they were asked for.
    pub(super) fn new(
        context: &QueryContext<'_>,
        query: String,
        params: &QueryParams,
        form: AnswerForm,
        options: AnswerOptions,
    ) -> QueryKey {
        QueryKey {
            tenants: context.tenants.clone(),
            limits: Arc::as_ptr(&context.limits).addr(),
            query,
            times_ns: match params.time {
                QueryTime::Instant { time_ns } => (time_ns, None),
                QueryTime::Range { start_ns, end_ns, step_ns } => {
                    (start_ns, Some((end_ns, step_ns)))
                }
            },
            limit: params.limit,
            is_forward: params.direction == Direction::Forward,
            interval_ns: params.interval_ns,
            after: params.after,
            form,
            options,
        }
    }
}

/// The answer that all equal queries get.
#[derive(Clone, Debug)]
pub(crate) struct SharedAnswer {
    /// The text.
    pub(super) held: Arc<AnswerBody>,
    /// Where a page of entries ended, if there may be more.
    pub(super) last: Option<Place>,
    /// Bytes that were read for it.
    pub(super) read_bytes: u64,
}

/// The end of a run.
pub(crate) type SharedOutcome = Result<SharedAnswer, ApiError>;

/// Runs that somebody waits for, of the whole node.
pub(crate) type QueryRuns = SharedRuns<QueryKey, SharedOutcome>;

impl<R: Runtime> Querier<R> {
    /// The answer to a query, by a run of its own or by that of an equal one.
    ///
    /// # Errors
    /// As for [`Querier::bounded`] and [`Querier::encoded`].
    pub(super) async fn shared(
        &self,
        context: &QueryContext<'_>,
        key: QueryKey,
        prepared: PreparedQuery,
    ) -> Result<SharedAnswer, ApiError> {
        let form = key.form.clone();
        let follower = match self.shared.runs.join(key, self.changes_seen()) {
            Joined::Follows(follower) => {
                self.core.counters().numbers.add(Metric::QueriesShared, 1);
                follower
            }
            Joined::Leads(leader, follower) => {
                let front = self.me.upgrade().ok_or_else(stopped)?;
                let (tenants, limits) = (context.tenants.clone(), Arc::clone(&context.limits));
                drop(self.core.runtime.spawn(async move {
                    front.lead(leader, tenants, limits, prepared, form).await;
                }));
                follower
            }
        };
        self.bounded(context, async { follower.await.unwrap_or_else(|| Err(stopped())) }).await
    }

    /// A number that grows with every stored push and with every change of the entries that are
    /// hidden. What other nodes store is not known, so with others it grows with every question.
    fn changes_seen(&self) -> u64 {
        let node = &self.core.node;
        if let Some(cluster) = self.core.cluster() {
            return cluster.next_number();
        }
        node.metrics.stored_pushes() + node.deletions.version().number()
    }

    /// Does the work for all that wait for it, until it is done or nobody does.
    async fn lead(
        &self,
        leader: Leader<QueryKey, SharedOutcome>,
        tenants: Tenants,
        limits: Arc<Limits>,
        prepared: PreparedQuery,
        form: AnswerForm,
    ) {
        let outcome = {
            let begins = || leader.begin(self.changes_seen());
            let mut work = pin!(self.encoded(&tenants, &limits, &prepared, &form, begins));
            let mut abandoned = pin!(leader.abandoned());
            poll_fn(|cx| {
                if abandoned.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(cx).map(Some)
            })
            .await
        };
        if let Some(outcome) = outcome {
            leader.finish(outcome);
        }
    }
}

/// The run ended without an outcome: only if the node goes down.
fn stopped() -> ApiError {
    ApiError::unavailable("the node is stopping")
}

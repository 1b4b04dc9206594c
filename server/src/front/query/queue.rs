//! Which queries run, and which wait in a queue.
//!
//! There are three queues on the node: one for queries that read entries, one for lookups, which
//! the index answers alone or nearly so, and one for the queries of rules. Each queue has places of
//! its own, so lookups and rules never wait behind queries, nor queries behind rules; each queue
//! shares its places fairly between tenants, see [`FairQueue`]. Several tenants in one request count
//! as a tenant of its own. Pushes and tails wait in none of them. Rules have memory of their own,
//! too.
//!
//! Guarantees: a request leaves the queue when its client goes away or its time is up, and the time
//! in the queue is part of the time that a query may take. Failures: the queue of the tenant is
//! full, or the tenant may not query at all.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use logsvc_http::{Disconnect, Request};
use logsvc_peers::question::{Found, Question};
use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, FairQueue, Grant, KeyBounds, Monotonic, Permit, Runtime};
use logsvc_shards::types::Cancellation;

use super::Querier;
use super::errors::client_gone;
use super::execute::CancelOnDrop;
use super::limits::check_enabled;
use super::owners::{Bounds, FoundByAll, Lacking, TakesPart};
use super::params;
use super::request_limits;
use super::tenants::Tenants;
use crate::config::{Config, Limits};
use crate::front::core::errors::too_busy;
use crate::metrics::{Metric, QueueStatus};

/// How long a request with a place waits for its first memory, and how often it looks.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(1);
const MEMORY_LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The queue of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueKind {
    /// The request reads entries.
    Query,
    /// The request looks up streams, or adds up the directories of their blocks.
    Lookup,
    /// The query of a rule.
    Rule,
    /// The part of a query that another node asks for. It waits for no node.
    Peer,
}

/// All queues of the node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    queries: FairQueue<Tenants>,
    lookups: FairQueue<Tenants>,
    rules: FairQueue<Tenants>,
    peers: FairQueue<Tenants>,
    /// Most that wait for each tenant; 0 is no limit.
    max_waiting: usize,
}

impl Queues {
    /// Empty queues. So many queries of rules run at a time.
    pub(crate) fn new(config: &Config, rule_places: usize) -> Queues {
        Queues {
            queries: FairQueue::new(config.max_concurrent_queries),
            lookups: FairQueue::new(config.max_concurrent_queries),
            rules: FairQueue::new(rule_places),
            peers: FairQueue::new(config.max_concurrent_queries),
            max_waiting: config.max_outstanding_per_tenant,
        }
    }

    fn of(&self, work: QueueKind) -> &FairQueue<Tenants> {
        match work {
            QueueKind::Query => &self.queries,
            QueueKind::Lookup => &self.lookups,
            QueueKind::Rule => &self.rules,
            QueueKind::Peer => &self.peers,
        }
    }

    /// Numbers for metrics.
    pub(crate) fn status(&self) -> [QueueStatus; 4] {
        let queues = [
            ("query", &self.queries),
            ("lookup", &self.lookups),
            ("rule", &self.rules),
            ("peer", &self.peers),
        ];
        queues.map(|(work, queue)| QueueStatus {
            work,
            places: queue.places(),
            running: queue.running(),
            waiting: queue.waiting().into_iter().map(|(key, n)| (key.to_string(), n)).collect(),
        })
    }
}

/// A request of the query family: its tenants and its limits.
pub(crate) struct QueryContext<'r> {
    pub(crate) tenants: Tenants,
    pub(crate) limits: Arc<Limits>,
    deadline: Monotonic,
    disconnect: &'r Disconnect,
    /// Whether a part of the answer is better than none.
    pub(crate) takes_part: bool,
}

/// The right to run. Dropping it lets the next one in.
#[derive(Debug)]
pub(crate) struct QueryPermit {
    _permit: Permit<Tenants>,
    /// How long it was waited for.
    pub(crate) waited: Duration,
    /// The memory for its intermediate results, on all cores together.
    pub(crate) account: Account,
    /// When its time is up, at the latest.
    pub(crate) deadline: Monotonic,
    /// Whether a part of the answer is better than none.
    pub(crate) takes_part: Option<TakesPart>,
}

impl QueryPermit {
    /// The same for a query that takes a part of the answer if it cannot have all, if it does.
    pub(crate) fn taking_part(self, takes_part: bool) -> QueryPermit {
        QueryPermit { takes_part: takes_part.then(TakesPart::default), ..self }
    }
}

/// What all shards have listed.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Names or values of labels; shards may have the same.
    pub(crate) texts: Vec<Box<str>>,
    /// Label sets of streams. A stream lives on one shard only, so nothing repeats.
    pub(crate) series: Vec<Arc<Labels>>,
    /// Memory of the lists, out of the memory for queries.
    pub(crate) memory: Grant,
    /// Parts of the stored entries that could not be read, so that the lists lack their streams.
    pub(crate) unreadable_parts: u64,
    /// What they lack of other nodes.
    pub(crate) lacking: Option<Lacking>,
}

impl<R: Runtime> Querier<R> {
    /// Tenants, limits and deadline of a request. Its time runs from here on.
    ///
    /// # Errors
    /// The tenants are missing or bad.
    pub(crate) fn query_context<'r>(
        &self,
        request: &'r Request,
    ) -> Result<QueryContext<'r>, ApiError> {
        let tenants = self.tenants(&request.head)?;
        Ok(self.context_of(tenants, request))
    }

    /// [`Querier::query_context`] of an endpoint whose answers have a place for warnings: it may take a part
    /// of an answer. A node without others has no parts.
    ///
    /// # Errors
    /// As for [`Querier::query_context`], or `partial` is neither true nor false.
    pub(crate) fn context_of_parts<'r>(
        &self,
        request: &'r Request,
    ) -> Result<QueryContext<'r>, ApiError> {
        let mut context = self.query_context(request)?;
        if self.core.cluster().is_some() {
            let asked = params::partial(&params::of(request)?)?;
            context.takes_part = asked.unwrap_or(context.limits.allow_partial_answers);
        }
        Ok(context)
    }

    /// [`Querier::query_context`] of an endpoint that works for one tenant.
    pub(crate) fn single_tenant_context<'r>(
        &self,
        request: &'r Request,
    ) -> Result<QueryContext<'r>, ApiError> {
        let tenants = self.core.tenant(&request.head)?.into();
        Ok(self.context_of(tenants, request))
    }

    fn context_of<'r>(&self, tenants: Tenants, request: &'r Request) -> QueryContext<'r> {
        let mut limits = self.limits_of(&tenants);
        if self.core.config().per_request_limits_enabled
            && let Some(stricter) = request_limits::of(&request.head)
        {
            Arc::make_mut(&mut limits).tighten(&stricter);
        }
        self.context_within(tenants, limits, &request.disconnect)
    }

    /// A context with these limits, whose time runs from here on.
    pub(crate) fn context_within<'r>(
        &self,
        tenants: Tenants,
        limits: Arc<Limits>,
        disconnect: &'r Disconnect,
    ) -> QueryContext<'r> {
        let deadline = self.deadline(&limits);
        QueryContext { tenants, limits, deadline, disconnect, takes_part: false }
    }

    /// When the time of a query that begins now is up.
    fn deadline(&self, limits: &Limits) -> Monotonic {
        match u64::try_from(limits.query_timeout_ns) {
            Ok(timeout_ns) if timeout_ns > 0 => {
                self.core.runtime.now().after(Duration::from_nanos(timeout_ns))
            }
            _ => Monotonic::NEVER,
        }
    }

    /// Waits for a place in the queue of these tenants.
    ///
    /// # Errors
    /// Too many wait already, or they may not query.
    pub(crate) async fn permit(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        work: QueueKind,
    ) -> Result<QueryPermit, ApiError> {
        let max_running = match work {
            QueueKind::Query | QueueKind::Rule => {
                check_enabled(limits)?;
                limits.tsdb_max_query_parallelism
            }
            // The node that was asked by the client has bounds for it.
            QueueKind::Lookup | QueueKind::Peer => 0,
        };
        let queue = self.shared.queues.of(work);
        let max_waiting = match work {
            QueueKind::Query | QueueKind::Lookup => self.shared.queues.max_waiting,
            // The lanes to the fronts bound how many there are, and the other nodes.
            QueueKind::Rule | QueueKind::Peer => 0,
        };
        let bounds = KeyBounds { max_running, max_waiting };
        let begun = self.core.runtime.now();
        let ticket = queue.enter(tenants.clone(), bounds).map_err(|_| {
            self.core.counters().numbers.add(Metric::QueriesRefused, 1);
            too_busy()
        })?;
        let permit = ticket.await;
        let waited = self.core.runtime.now().since(begun);
        self.core.counters().query_waits.record(waited);
        let account = self.account(work, queue.places() as u64).await?;
        let deadline = self.deadline(limits);
        Ok(QueryPermit { _permit: permit, waited, account, deadline, takes_part: None })
    }

    /// The account of a request that has one of so many places. The query that had the place may
    /// still run on a side thread for a moment; then it gives its memory back.
    async fn account(&self, work: QueueKind, places: u64) -> Result<Account, ApiError> {
        let (queries, rules) = (&self.core.budgets().queries, &self.core.budgets().rules);
        // Together, queries get a half of the memory and lookups an eighth; the rest
        // is for answers on their way to clients. Columns of blocks are the rest for rules.
        let open = || match work {
            QueueKind::Query | QueueKind::Lookup | QueueKind::Peer => {
                let share = match work {
                    QueueKind::Query => 2,
                    _ => 8,
                };
                let first_bytes = (queries.max_bytes() / (share * places)).max(1);
                Account::open(queries, first_bytes, self.query_max_bytes())
            }
            QueueKind::Rule => {
                let first_bytes = (rules.max_bytes() / (2 * places)).max(1);
                Account::open_apart(rules, first_bytes, rules.max_bytes())
            }
        };
        let give_up = self.core.runtime.now().after(MEMORY_WAIT_MAX);
        loop {
            if let Some(account) = open() {
                return Ok(account);
            }
            let now = self.core.runtime.now();
            if now >= give_up {
                return Err(too_busy());
            }
            self.core.runtime.sleep_until(now.after(MEMORY_LOOK_INTERVAL)).await;
        }
    }

    /// Asks all shards for lists that take no reading of entries, once the request has a place.
    ///
    /// # Errors
    /// As for [`Querier::permit`] and [`Querier::bounded`], or there is no memory for the answers.
    pub(crate) async fn lookup(
        &self,
        context: &QueryContext<'_>,
        question: Question,
    ) -> Result<Lists, ApiError> {
        let work = async {
            let permit = self.permit(&context.tenants, &context.limits, QueueKind::Lookup).await?;
            let cancellation = CancelOnDrop(Cancellation::default());
            let bounds = Bounds {
                account: permit.account.clone(),
                cancellation: cancellation.0.clone(),
                deadline: context.deadline,
                takes_part: context.takes_part.then(TakesPart::default),
            };
            let FoundByAll { found, memory, lacking } = match self.core.cluster() {
                Some(_) => self.ask_owners(question, &bounds).await?,
                None => {
                    let (found, memory) = self.list_here(&question, &bounds).await?;
                    FoundByAll { found, memory, lacking: None }
                }
            };
            let Found { texts, series, unreadable_parts, .. } = found;
            self.core.counters().numbers.add(Metric::UnreadableParts, unreadable_parts);
            Ok(Lists { texts, series, memory, unreadable_parts, lacking })
        };
        self.bounded(context, work).await
    }

    /// Runs `work` until it ends, its time is up, or the client goes away; then drops it.
    ///
    /// # Errors
    /// Errors of `work`, or it did not end.
    pub(crate) async fn bounded<T>(
        &self,
        context: &QueryContext<'_>,
        work: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let mut work = pin!(work);
        let mut gone = pin!(context.disconnect.wait());
        let mut late = pin!(async {
            match context.deadline {
                Monotonic::NEVER => pending().await,
                deadline => self.core.runtime.sleep_until(deadline).await,
            }
        });
        poll_fn(|cx| {
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            if late.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ApiError::query_timeout()));
            }
            if gone.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(client_gone()));
            }
            Poll::Pending
        })
        .await
    }
}

//! The HTTP front of one core: routes, tenants, and what every handler shares.
//!
//! Guarantees: a request is answered by this core alone, which asks the shards
//! through the lanes; nothing here holds a borrow across a wait. What can go wrong
//! is an [`ApiError`], whose text and status go to the client.

mod core;
mod cross_site;
mod explore;
pub(crate) mod ingest;
pub(crate) mod operate;
pub(crate) mod query;
pub(crate) mod routes;
pub(crate) mod tail;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use logsvc_http::{
    Admission, Match, Observation, Refusal, Request, RequestHead, Response, Router, Service,
};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{Budget, Runtime, Turns};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::app::{Barrier, Boot};
use crate::config::{Config, Limits, LimitsView};
use crate::metrics::{CoreMetrics, Metric, NodeMetrics, Reloads};
use crate::services::Services;
use core::errors::error_response;
use ingest::active_streams::ActiveStreams;
use ingest::push::PushBuffers;
use ingest::rate_limit::Buckets;
use ingest::stream_cache::StreamCache;
use operate::operations::not_ready;
use query::parquet;
use query::queue::Queues;
use query::results::Results;
use query::sharing::QueryRuns;
use routes::{Class, Route};
use tail::TailHub;

/// See the module.
pub(crate) struct Front<R: Runtime> {
    runtime: R,
    config: Arc<Config>,
    limits: LimitsView,
    reloads: Arc<Reloads>,
    caller: Caller<ShardRequest, ShardReply>,
    metrics: Arc<NodeMetrics>,
    bodies: Budget,
    heads: Budget,
    stream_memory: Budget,
    cache: Budget,
    directories: Budget,
    queries: Budget,
    queues: Queues,
    runs: QueryRuns,
    results: Results,
    /// What the shards have changed.
    changes: NodeChanges,
    /// For tasks that outlive the request that they were started for.
    me: Weak<Front<R>>,
    recovered: Barrier,
    services: Arc<Services>,
    /// Whether stopping writes memory to segments, whatever the settings say.
    prepared: Arc<AtomicBool>,
    /// See [`Boot::cache_generation`].
    cache_generation: Arc<AtomicI64>,
    /// When the node started, in ns since the Unix epoch.
    started_ns: i64,
    replay_us: Arc<AtomicU64>,
    stopping: logsvc_runtime::Latch,
    router: Router<Route>,
    streams: RefCell<StreamCache>,
    tenant_rates: Arc<Buckets>,
    stream_rates: Arc<Buckets>,
    active_streams: Arc<ActiveStreams>,
    tails: TailHub<R>,
    /// Decoding pushes takes turns with what else the core does.
    turns: Turns,
    /// Buffers that no push uses at the moment.
    spare_buffers: RefCell<Vec<PushBuffers>>,
}

impl<R: Runtime> Front<R> {
    /// The front of the core that `runtime` belongs to.
    pub(crate) fn new(
        runtime: R,
        boot: &Boot,
        caller: Caller<ShardRequest, ShardReply>,
    ) -> Rc<Front<R>> {
        let started_ns = runtime.unix_nanos();
        let tails = TailHub::new(runtime.clone(), boot, caller.clone());
        let resolved_share = boot.config.resolved_budget_bytes / u64::from(boot.config.cores);
        let streams = StreamCache::new(resolved_share, runtime.random_u64());
        Rc::new_cyclic(|me| Front {
            runtime,
            config: Arc::clone(&boot.config),
            limits: LimitsView::new(Arc::clone(&boot.limits)),
            reloads: Arc::clone(&boot.reloads),
            caller,
            metrics: Arc::clone(&boot.metrics),
            bodies: boot.bodies.clone(),
            heads: boot.heads.clone(),
            stream_memory: boot.streams.clone(),
            cache: boot.cache.clone(),
            directories: boot.directories.clone(),
            queries: boot.queries.clone(),
            queues: boot.queues.clone(),
            runs: boot.runs.clone(),
            results: boot.results.clone(),
            changes: boot.changes.clone(),
            me: Weak::clone(me),
            recovered: boot.recovered.clone(),
            services: Arc::clone(&boot.services),
            prepared: Arc::clone(&boot.prepared),
            cache_generation: Arc::clone(&boot.cache_generation),
            started_ns,
            replay_us: Arc::clone(&boot.replay_us),
            stopping: boot.stop.clone(),
            router: routes::router(),
            streams: RefCell::new(streams),
            tenant_rates: Arc::clone(&boot.tenant_rates),
            stream_rates: Arc::clone(&boot.stream_rates),
            active_streams: Arc::clone(&boot.active_streams),
            tails,
            turns: Turns::default(),
            spare_buffers: RefCell::new(Vec::new()),
        })
    }

    /// The longest body of which there can be `max_bytes`: what the memory cannot hold even if
    /// nothing else is there is refused for good.
    fn body_max_bytes(&self, max_bytes: u64) -> u64 {
        max_bytes.min(self.bodies.max_bytes())
    }

    fn counters(&self) -> &CoreMetrics {
        self.metrics.core(self.runtime.core())
    }

    /// What a tenant may do. They may change: whoever needs them several times for one
    /// request takes them once.
    fn limits(&self, tenant: &TenantId) -> Arc<Limits> {
        self.limits.of(tenant)
    }

    async fn dispatch(
        &self,
        route: Route,
        name: &str,
        request: Request,
    ) -> Result<Response, ApiError> {
        let row = route.row();
        if !row.is_before_ready() && !self.recovered.is_complete() {
            return Err(not_ready().with_newline());
        }
        if row.traits.class == Class::Lookup && parquet::accepted(&request.head).is_some() {
            self.refuse_parquet(&request)?;
        }
        routes::answer(route, self, request, name).await
    }
}

impl<R: Runtime> Service for Front<R> {
    fn admit(&self, head: &RequestHead) -> Admission {
        // Routing comes before everything else, so an unknown path is refused
        // without reading its body.
        match self.router.find(&head.method, &head.path) {
            Match::Found(route, _)
                if let Err(error) = cross_site::check(
                    route.row().traits.cross_site,
                    &head.method,
                    &head.headers,
                ) =>
            {
                Admission::Refuse(route.error_response(&error).with_route(route.row().metric_name))
            }
            // A push that says nothing of a body is one whose sender forgot it.
            Match::Found(route, _) if route.row().is_push() && !says_length(head) => {
                let error = ApiError::new(StatusCode::LENGTH_REQUIRED, "Length Required");
                Admission::Refuse(route.error_response(&error.with_newline()))
            }
            Match::Found(route, _) if route.row().is_push() => Admission::Body {
                max_bytes: self.body_max_bytes(self.config.push_body_max_bytes),
                account: self.account_of(head),
            },
            Match::Found(..) => Admission::Body {
                max_bytes: self.body_max_bytes(self.config.form_body_max_bytes),
                account: self.account_of(head),
            },
            Match::MethodNotAllowed => {
                Admission::Refuse(Response::new(StatusCode::METHOD_NOT_ALLOWED))
            }
            Match::Redirect(path) => {
                let query = head.query.as_ref().map(|query| format!("?{query}"));
                Admission::Refuse(Response::redirect(&(path + &query.unwrap_or_default())))
            }
            Match::NotFound => Admission::Refuse(error_response(&ApiError::page_not_found())),
        }
    }

    async fn call(&self, request: Request) -> Response {
        let path = request.head.path.clone();
        let Match::Found(&route, params) = self.router.find(&request.head.method, &path) else {
            return error_response(&ApiError::page_not_found());
        };
        let _under_way =
            self.counters().requests.begin(&request.head.method, route.row().metric_name);
        let answered = self.dispatch(route, params.get("name").unwrap_or_default(), request).await;
        answered
            .unwrap_or_else(|error| route.error_response(&error))
            .with_route(route.row().metric_name)
    }

    fn refusal(&self, head: Option<&RequestHead>, refusal: Refusal) -> Response {
        let error = match refusal {
            Refusal::BodyTooLarge { max_bytes } => {
                let claimed = head.and_then(|head| head.header("content-length"));
                let claimed = claimed.and_then(|text| text.parse().ok());
                ApiError::body_too_large(claimed.unwrap_or(max_bytes + 1), max_bytes)
            }
            Refusal::BudgetExhausted => {
                ApiError::too_many_requests("too many bytes of requests in flight", 1)
                    .with_newline()
            }
            Refusal::GaveWay => ApiError {
                retry_after_s: Some(1),
                ..ApiError::unavailable(refusal.to_string()).with_newline()
            },
            other => ApiError::new(other.status(), other.to_string()).with_newline(),
        };
        let route = head.and_then(|head| match self.router.find(&head.method, &head.path) {
            Match::Found(&route, _) => Some(route),
            _ => None,
        });
        match route {
            Some(route) => route.error_response(&error).with_route(route.row().metric_name),
            None => error_response(&error).with_route("other"),
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        let status = observation.status.as_u16();
        let (method, route) = (observation.method, observation.route);
        self.counters().requests.finished(method, route, status, observation.duration);
    }

    fn connections_changed(&self, open: usize) {
        self.counters().numbers.set(Metric::Connections, open as u64);
    }

    fn connection_refused(&self) {
        self.counters().numbers.add(Metric::ConnectionsRefused, 1);
    }
}

fn says_length(head: &RequestHead) -> bool {
    head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING)
}

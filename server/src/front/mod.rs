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
pub(crate) mod tail;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use http::header::{CONTENT_LENGTH, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING};
use http::{Method, StatusCode};
use logsvc_http::{
    Admission, Match, Observation, Refusal, Request, RequestHead, Response, Router, Service,
};
use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::push::json::Dialect as JsonDialect;
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{Budget, Runtime, Turns};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::messages::{ShardReply, ShardRequest};

use crate::app::{Barrier, Boot};
use crate::config::{Config, Limits, LimitsView};
use crate::metrics::{CoreMetrics, NodeMetrics, add};
use crate::reload::Reloads;
use crate::services::Services;
use ingest::active_streams::ActiveStreams;
use ingest::otlp;
use ingest::push::PushBuffers;
use ingest::rate_limit::Buckets;
use ingest::stream_cache::StreamCache;
use operate::{admin, operations, pages};
use query::parquet;
use query::queue::Queues;
use query::results::Results;
use query::sharing::QueryRuns;
use tail::TailHub;

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Route {
    Push,
    LegacyPush,
    OtlpLogs,
    Query,
    QueryRange,
    LegacyQuery,
    Labels,
    LabelValues,
    Series,
    IndexStats,
    IndexShards,
    Volume,
    VolumeRange,
    DetectedFields,
    DetectedFieldValues,
    DetectedLabels,
    Patterns,
    Tail,
    LegacyTail,
    FormatQuery,
    BuildInfo,
    Ready,
    Metrics,
    LogLevel,
    Services,
    Config,
    TenantLimits,
    DrilldownLimits,
    Flush,
    FlushTenant,
    PrepareShutdown,
    Shutdown,
    FlushShutdown,
    Ring,
    Memberlist,
    CacheGeneration,
    IncreaseCacheGeneration,
    Landing,
}

impl Route {
    /// The name under which requests are counted: [`crate::metrics::ROUTES`] has it, too.
    fn label(self) -> &'static str {
        match self {
            Route::Push => "loki_api_v1_push",
            Route::LegacyPush => "api_prom_push",
            Route::OtlpLogs => "otlp_v1_logs",
            Route::Query => "loki_api_v1_query",
            Route::QueryRange => "loki_api_v1_query_range",
            Route::LegacyQuery => "api_prom_query",
            Route::Labels => "loki_api_v1_labels",
            Route::LabelValues => "loki_api_v1_label_name_values",
            Route::Series => "loki_api_v1_series",
            Route::IndexStats => "loki_api_v1_index_stats",
            Route::IndexShards => "loki_api_v1_index_shards",
            Route::Volume => "loki_api_v1_index_volume",
            Route::VolumeRange => "loki_api_v1_index_volume_range",
            Route::DetectedFields => "loki_api_v1_detected_fields",
            Route::DetectedFieldValues => "loki_api_v1_detected_field_name_values",
            Route::DetectedLabels => "loki_api_v1_detected_labels",
            Route::Patterns => "loki_api_v1_patterns",
            Route::Tail => "loki_api_v1_tail",
            Route::LegacyTail => "api_prom_tail",
            Route::FormatQuery => "loki_api_v1_format_query",
            Route::BuildInfo => "loki_api_v1_status_buildinfo",
            Route::Ready => "ready",
            Route::Metrics => "metrics",
            Route::LogLevel => "log_level",
            Route::Services => "services",
            Route::Config => "config",
            Route::TenantLimits => "config_tenant_v1_limits",
            Route::DrilldownLimits => "loki_api_v1_drilldown_limits",
            Route::Flush => "flush",
            Route::FlushTenant => "flush_tenant",
            Route::PrepareShutdown => "ingester_prepare_shutdown",
            Route::Shutdown => "ingester_shutdown",
            Route::FlushShutdown => "ingester_flush_shutdown",
            Route::Ring => "ring",
            Route::Memberlist => "memberlist",
            Route::CacheGeneration => "loki_api_v1_cache_generation_numbers",
            Route::IncreaseCacheGeneration => "loki_api_v1_cache_generation_numbers_increase",
            Route::Landing => "root",
        }
    }

    /// Whether answers may be compressed, which the answer says even if it is an error.
    fn is_compressible(self) -> bool {
        matches!(
            self,
            Route::Query
                | Route::QueryRange
                | Route::LegacyQuery
                | Route::Labels
                | Route::LabelValues
                | Route::Series
                | Route::IndexStats
                | Route::IndexShards
                | Route::Volume
                | Route::VolumeRange
                | Route::DetectedFields
                | Route::DetectedFieldValues
                | Route::DetectedLabels
                | Route::Patterns
        )
    }

    /// Whether requests carry log entries.
    fn is_push(self) -> bool {
        matches!(self, Route::Push | Route::LegacyPush | Route::OtlpLogs)
    }

    /// An error as the clients of the route expect it.
    fn error_response(self, error: &ApiError) -> Response {
        // The tenant check comes before everything that knows of OpenTelemetry.
        if self == Route::OtlpLogs && error.status != StatusCode::UNAUTHORIZED {
            otlp::error_response(error)
        } else if self.is_compressible() {
            error_response(error).compressible()
        } else {
            error_response(error)
        }
    }

    /// Whether the route works before the log is replayed.
    fn works_early(self) -> bool {
        matches!(
            self,
            Route::FormatQuery
                | Route::BuildInfo
                | Route::Ready
                | Route::Metrics
                | Route::LogLevel
                | Route::Services
                | Route::Config
                | Route::TenantLimits
                | Route::DrilldownLimits
                | Route::Ring
                | Route::Memberlist
                | Route::Landing
        )
    }
}

fn routes() -> Router<Route> {
    const GET: &[Method] = &[Method::GET];
    const POST: &[Method] = &[Method::POST];
    const BOTH: &[Method] = &[Method::GET, Method::POST];
    let mut router = Router::new();
    for prefix in ["/logsvc/api/v1", "/loki/api/v1"] {
        let mut add =
            |methods, path: &str, route| router.add(methods, &format!("{prefix}{path}"), route);
        add(POST, "/push", Route::Push);
        add(BOTH, "/query", Route::Query);
        add(BOTH, "/query_range", Route::QueryRange);
        add(BOTH, "/labels", Route::Labels);
        add(BOTH, "/label", Route::Labels);
        add(BOTH, "/label/{name}/values", Route::LabelValues);
        add(BOTH, "/series", Route::Series);
        add(BOTH, "/index/stats", Route::IndexStats);
        add(BOTH, "/index/shards", Route::IndexShards);
        add(BOTH, "/index/volume", Route::Volume);
        add(BOTH, "/index/volume_range", Route::VolumeRange);
        add(BOTH, "/detected_fields", Route::DetectedFields);
        add(BOTH, "/detected_field/{name}/values", Route::DetectedFieldValues);
        add(BOTH, "/detected_labels", Route::DetectedLabels);
        add(BOTH, "/patterns", Route::Patterns);
        add(BOTH, "/tail", Route::Tail);
        add(BOTH, "/format_query", Route::FormatQuery);
        add(GET, "/status/buildinfo", Route::BuildInfo);
        add(GET, "/drilldown-limits", Route::DrilldownLimits);
        add(GET, "/cache/generation_numbers", Route::CacheGeneration);
        add(POST, "/cache/generation_numbers/increase", Route::IncreaseCacheGeneration);
    }
    router.add(POST, "/api/prom/push", Route::LegacyPush);
    router.add(POST, "/otlp/v1/logs", Route::OtlpLogs);
    router.add(BOTH, "/api/prom/query", Route::LegacyQuery);
    router.add(BOTH, "/api/prom/label", Route::Labels);
    router.add(BOTH, "/api/prom/label/{name}/values", Route::LabelValues);
    router.add(BOTH, "/api/prom/series", Route::Series);
    router.add(BOTH, "/api/prom/tail", Route::LegacyTail);
    router.add(GET, "/", Route::Landing);
    router.add(GET, "/ready", Route::Ready);
    router.add(BOTH, "/log_level", Route::LogLevel);
    router.add(GET, "/services", Route::Services);
    router.add(GET, "/config", Route::Config);
    router.add(GET, "/config/tenant/v1/limits", Route::TenantLimits);
    router.add(BOTH, "/flush", Route::Flush);
    router.add(POST, "/flush/tenant", Route::FlushTenant);
    let prepare = &[Method::GET, Method::POST, Method::DELETE];
    router.add(prepare, "/ingester/prepare_shutdown", Route::PrepareShutdown);
    router.add(BOTH, "/ingester/shutdown", Route::Shutdown);
    router.add(BOTH, "/ingester/flush_shutdown", Route::FlushShutdown);
    router.add(BOTH, "/ring", Route::Ring);
    for ring in ["distributor", "compactor", "scheduler", "ruler", "pattern", "indexgateway"] {
        router.add(BOTH, &format!("/{ring}/ring"), Route::Ring);
    }
    router.add_any_method("/memberlist", Route::Memberlist);
    router.add_any_method("/metrics", Route::Metrics);
    router
}

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
            router: routes(),
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
        name: Option<&str>,
        request: Request,
    ) -> Result<Response, ApiError> {
        if !route.works_early() && !self.recovered.is_complete() {
            return Err(operations::not_ready().with_newline());
        }
        if parquet::is_unknown_to(route) && parquet::accepted(&request.head).is_some() {
            self.refuse_parquet(&request)?;
        }
        match route {
            Route::Push => self.push(request, JsonDialect::V1).await,
            Route::LegacyPush => self.push(request, JsonDialect::Legacy).await,
            Route::OtlpLogs => self.push_otlp(request).await,
            Route::Query => self.query(request).await,
            Route::QueryRange => self.query_range(request).await,
            Route::LegacyQuery => self.legacy_query(request).await,
            Route::Labels => self.label_names(request).await,
            Route::LabelValues => self.label_values(request, name.unwrap_or_default()).await,
            Route::Series => self.series(request).await,
            Route::IndexStats => self.index_stats(request).await,
            Route::IndexShards => self.index_shards(request).await,
            Route::Volume => self.volume(request).await,
            Route::VolumeRange => self.volume_range(request).await,
            Route::DetectedFields => self.detected_fields(request).await,
            Route::DetectedFieldValues => {
                self.detected_field_values(request, name.unwrap_or_default()).await
            }
            Route::DetectedLabels => self.detected_labels(request).await,
            Route::Patterns => self.patterns(request).await,
            Route::Tail => self.tail(&request, tail::Dialect::V1).await,
            Route::LegacyTail => self.tail(&request, tail::Dialect::Legacy).await,
            Route::FormatQuery => self.format_query(&request).await,
            Route::BuildInfo => Ok(operations::build_info()),
            Route::Ready => self.ready(),
            Route::Metrics => Ok(self.exposition(&request.head).await),
            Route::LogLevel => admin::log_level(&request),
            Route::Services => Ok(self.services_page()),
            Route::Config => self.config_page(&request),
            Route::TenantLimits => self.tenant_limits(&request),
            Route::DrilldownLimits => self.drilldown_limits(&request),
            Route::Flush => self.flush().await,
            Route::FlushTenant => self.flush_tenant(&request).await,
            Route::PrepareShutdown => self.prepare_shutdown(&request).await,
            Route::Shutdown => self.shut_down(&request, true).await,
            Route::FlushShutdown => self.shut_down(&request, false).await,
            Route::Ring => Ok(self.ring_page(&request)),
            Route::Memberlist => Ok(pages::memberlist()),
            Route::CacheGeneration => self.cache_generation(&request),
            Route::IncreaseCacheGeneration => self.increase_cache_generation(&request),
            Route::Landing => Ok(pages::landing()),
        }
    }
}

impl<R: Runtime> Service for Front<R> {
    fn admit(&self, head: &RequestHead) -> Admission {
        // Routing comes before everything else, so an unknown path is refused
        // without reading its body.
        match self.router.find(&head.method, &head.path) {
            Match::Found(route, _) if let Err(error) = route.guard(&head.method, &head.headers) => {
                Admission::Refuse(route.error_response(&error).with_route(route.label()))
            }
            // A push that says nothing of a body is one whose sender forgot it.
            Match::Found(route, _) if route.is_push() && !says_length(head) => {
                let error = ApiError::new(StatusCode::LENGTH_REQUIRED, "Length Required");
                Admission::Refuse(route.error_response(&error.with_newline()))
            }
            Match::Found(route, _) if route.is_push() => Admission::Body {
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
        let _under_way = self.counters().requests.begin(&request.head.method, route.label());
        let answered = self.dispatch(route, params.get("name"), request).await;
        answered.unwrap_or_else(|error| route.error_response(&error)).with_route(route.label())
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
            Some(route) => route.error_response(&error).with_route(route.label()),
            None => error_response(&error).with_route("other"),
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        let status = observation.status.as_u16();
        let (method, route) = (observation.method, observation.route);
        self.counters().requests.finished(method, route, status, observation.duration);
    }

    fn connections_changed(&self, open: usize) {
        let connections = &self.counters().connections;
        connections.store(open as u64, std::sync::atomic::Ordering::Relaxed);
    }

    fn connection_refused(&self) {
        add(&self.counters().connections_refused, 1);
    }
}

fn says_length(head: &RequestHead) -> bool {
    head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING)
}

/// An error as it goes to the client.
fn error_response(error: &ApiError) -> Response {
    let mut response = Response::text(error.status, "").with_body(error.body());
    if let Some(seconds) = error.retry_after_s {
        response.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_in_the_api_reference() {
        let reference = include_str!("../../../docs/api.md");
        let router = routes();
        let missing: Vec<&str> = router
            .paths()
            // The same routes under another name, which the reference says once.
            .filter(|path| !path.starts_with("/logsvc/"))
            .filter(|path| !reference.contains(&format!("{path}`")))
            .collect();
        assert_eq!(missing, [""; 0]);
        assert!(router.paths().count() > 50);
    }
}

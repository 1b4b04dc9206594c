//! `query`, `query_range` and the deprecated `/api/prom/query`: parse, run, encode.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{
    Allowance, Place, Plan, QueryLimits, QueryParams, QueryResult, QueryTime,
};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::encode::QueryStats;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::types::Cancellation;

use super::Querier;
use super::answer::{AnswerBody, AnswerMemory, shared_json_response};
use super::compile::{Parsed, executable};
use super::cursor::{CursorScope, with_next};
use super::encode::{encode, encode_legacy};
use super::execute::{CancelOnDrop, Executed};
use super::leaves::{inline_or_offloaded, merge_queue};
use super::limits::{check_enabled, check_query, check_tenant_matchers};
use super::params;
use super::parquet;
use super::queue::{QueryContext, QueueKind};
use super::results::StepReuse;
use super::sharing::{QueryKey, SharedAnswer};
use super::tenants::Tenants;
use crate::config::Limits;
use crate::metrics::QueryKind;

/// Value of the header that asks for labels by category.
pub(super) const CATEGORIZE_LABELS: &str = "categorize-labels";

/// Value of the header that asks, with [`CATEGORIZE_LABELS`], for the places of entries.
pub(super) const PLACES: &str = "places";

impl<R: Runtime> Querier<R> {
    pub(crate) async fn query(&self, request: Request) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let answered = self.answer_query(&request).await;
        self.told("loki_api_v1_query", &request, begun, answered)
    }

    async fn answer_query(&self, request: &Request) -> Result<(Response, u64), ApiError> {
        let context = self.context_of_parts(request)?;
        let params = params::of(request)?;
        let time_ns = params::instant(&params, self.core.runtime.unix_nanos())?;
        let mut query_params = QueryParams::new(QueryTime::Instant { time_ns });
        query_params.limit = params::limit(&params)? as usize;
        query_params.direction = params::direction(&params)?;
        let text = params.get("query").unwrap_or_default();
        let form = AnswerForm::v1(request);
        let expr = self.bounded(&context, self.parse_query(text)).await?;
        let asked = Asked { text, expr: &expr, cursor: None };
        self.answer(&context, asked, query_params, request, form).await
    }

    pub(crate) async fn query_range(&self, request: Request) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let answered = self.answer_query_range(&request).await;
        self.told("loki_api_v1_query_range", &request, begun, answered)
    }

    async fn answer_query_range(&self, request: &Request) -> Result<(Response, u64), ApiError> {
        let context = self.context_of_parts(request)?;
        let params = params::of(request)?;
        let query_params = self.range_params(&params)?;
        let text = params.get("query").unwrap_or_default();
        let form = AnswerForm::v1(request);
        let expr = self.bounded(&context, self.parse_query(text)).await?;
        let asked = Asked { text, expr: &expr, cursor: params.get_non_empty("cursor") };
        self.answer(&context, asked, query_params, request, form).await
    }

    /// `/api/prom/query`: a range query for logs, with a line filter beside the query
    /// and another form of answer.
    pub(crate) async fn legacy_query(&self, request: Request) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let answered = self.answer_legacy_query(&request).await;
        self.told("api_prom_query", &request, begun, answered)
    }

    async fn answer_legacy_query(&self, request: &Request) -> Result<(Response, u64), ApiError> {
        let context = self.query_context(request)?;
        let params = params::of(request)?;
        let query_params = self.range_params(&params)?;
        let text = params.get("query").unwrap_or_default();
        let mut expr = self.bounded(&context, self.parse_query(text)).await?;
        if matches!(**expr, Expr::Metric(_)) {
            let text = "legacy endpoints only support streams result type";
            return Err(ApiError::bad_request(text));
        }
        if let Some(regexp) = params.get_non_empty("regexp") {
            let regexp = logsvc_proto::go::quote::quoted(regexp);
            let text = format!("{} |~ {regexp}", syntax::format(&expr));
            expr = self.bounded(&context, self.parse_query(&text)).await?;
        }
        let form = AnswerForm::Legacy;
        let asked = Asked { text, expr: &expr, cursor: params.get_non_empty("cursor") };
        self.answer(&context, asked, query_params, request, form).await
    }

    /// Parses a query that is to be run.
    pub(super) async fn parse_query(&self, text: &str) -> Result<Parsed<Arc<Expr>>, ApiError> {
        self.parse(text, |text| executable(text).map(Arc::new)).await
    }

    /// The parameters of a range query.
    fn range_params(&self, params: &Params) -> Result<QueryParams, ApiError> {
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(params, now_ns, params::QUERY_RANGE_NS)?;
        let limit = params::limit(params)?;
        let direction = params::direction(params)?;
        let step_ns = params::step(params, range)?;
        let interval_ns = params::interval(params)?;
        let (start_ns, end_ns) = (range.start_ns, range.end_ns);
        let mut query_params = QueryParams::new(QueryTime::Range { start_ns, end_ns, step_ns });
        query_params.limit = limit as usize;
        query_params.direction = direction;
        query_params.interval_ns = interval_ns;
        Ok(query_params)
    }

    /// Answers a query within the limits of its tenants, and counts it. The number is the bytes
    /// that were read for it.
    async fn answer(
        &self,
        context: &QueryContext<'_>,
        asked: Asked<'_>,
        query_params: QueryParams,
        request: &Request,
        form: AnswerForm,
    ) -> Result<(Response, u64), ApiError> {
        let begun = self.core.runtime.now();
        let is_range = matches!(query_params.time, QueryTime::Range { .. });
        let answered = self.answer_within_limits(context, asked, query_params, request, form).await;
        let (status, read_bytes) = match &answered {
            Ok((_, read_bytes)) => (200, *read_bytes),
            Err(error) => (error.status.as_u16(), 0),
        };
        let duration = self.core.runtime.now().since(begun);
        self.core.counters().queries.ended(
            kind_of(asked.expr),
            is_range,
            status,
            duration,
            read_bytes,
        );
        answered
    }

    /// The answer, and the bytes that were read for it.
    async fn answer_within_limits(
        &self,
        context: &QueryContext<'_>,
        asked: Asked<'_>,
        mut query_params: QueryParams,
        request: &Request,
        form: AnswerForm,
    ) -> Result<(Response, u64), ApiError> {
        let query = asked.expr.to_string();
        let direction = query_params.direction;
        let scope = CursorScope { tenants: &context.tenants, query: &query, direction };
        if let Some(cursor) = asked.cursor {
            query_params.after = Some(scope.parse(cursor)?);
            check_pages(asked.expr, &query_params)?;
        }
        let cursor_of = |last: Option<Place>| last.map(|place| scope.print(&place));
        let parquet = parquet::accepted(&request.head);
        // A file has one column for labels of all categories.
        query_params.categorize_labels = parquet.is_none() && form.categorizes_labels();
        query_params.places = query_params.categorize_labels && form.has_flag(PLACES);
        let takes_some_series = takes_some_series(request);
        let reuses = self.core.config().cache_results && !forbids_caches(request);
        let options = AnswerOptions { takes_some_series, takes_part: context.takes_part, reuses };
        let prepare = self.prepare(context, asked, query_params.clone(), options);
        let prepared = self.bounded(context, prepare).await?;
        if let Some(media_type) = parquet {
            let work = async {
                let evaluate = self.evaluate(&context.tenants, &context.limits, &prepared, || {});
                let Evaluated { result, last, stats, warnings, memory: _memory } = evaluate.await?;
                let response = self.parquet_response(media_type, result, &warnings).await?;
                Ok((with_next(response, cursor_of(last)), stats.total_bytes()))
            };
            return self.bounded(context, work).await;
        }
        let key = QueryKey::new(context, query.clone(), &query_params, form, options);
        let SharedAnswer { held, last, read_bytes } = self.shared(context, key, prepared).await?;
        Ok((with_next(shared_json_response(held), cursor_of(last)), read_bytes))
    }

    /// Checks and plans a query.
    pub(super) async fn prepare(
        &self,
        context: &QueryContext<'_>,
        Asked { text, expr, .. }: Asked<'_>,
        mut query_params: QueryParams,
        AnswerOptions { takes_some_series, takes_part, reuses }: AnswerOptions,
    ) -> Result<PreparedQuery, ApiError> {
        let QueryContext { tenants, limits, .. } = context;
        check_enabled(limits)?;
        check_query(limits, expr, query_params.time, query_params.limit)?;
        check_tenant_matchers(tenants, expr)?;
        if limits.blocked_queries.blocks(text, kind_of(expr).word()) {
            return Err(ApiError::bad_request("query blocked by policy"));
        }
        query_params.now_ns = self.core.runtime.unix_nanos();
        query_params.align_to_step = self.core.config().align_queries_with_step;
        let refused_above = if takes_some_series { 0 } else { limits.max_query_series };
        query_params.limits = QueryLimits { max_series: refused_above, ..QueryLimits::default() };
        let is_visible = self.look_back(limits, expr, &mut query_params.time);
        let plan = self.plan(expr, query_params.clone()).await?;
        let generation = self.shared.cache_generation.load(Ordering::Acquire);
        let by_step = || StepReuse::of(tenants, expr, &query_params, &plan, generation);
        let by_step = (reuses && is_visible).then(by_step).flatten();
        Ok(PreparedQuery { plan, is_visible, takes_some_series, takes_part, by_step })
    }

    /// Runs a query once it has a place in the queue; `begins` is called then.
    pub(super) async fn evaluate(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        prepared: &PreparedQuery,
        begins: impl FnOnce(),
    ) -> Result<Evaluated, ApiError> {
        let PreparedQuery { plan, is_visible, takes_some_series, takes_part, by_step } = prepared;
        let mut estimated_bytes = None;
        let mut executed = if *is_visible {
            let permit = self.permit(tenants, limits, QueueKind::Query).await?;
            let permit = permit.taking_part(*takes_part);
            begins();
            let begun = self.core.runtime.now();
            estimated_bytes = self.check_bytes(tenants, limits, plan, &permit).await?;
            let mut executed = match by_step {
                Some(by_step) => self.execute_by_step(tenants, plan, by_step, &permit).await?,
                None => {
                    let version = self.core.node.deletions.version();
                    self.execute(&tenants.labelled(), plan, version, &permit).await?
                }
            };
            executed.exec_time_ns = self.core.runtime.now().since(begun).as_nanos() as u64;
            executed
        } else {
            Executed::nothing(plan)?
        };
        let max_series = limits.max_query_series;
        let warning =
            takes_some_series.then(|| cut_series(&mut executed.result, max_series)).flatten();
        let mut stats = executed.stats();
        stats.estimated_bytes = estimated_bytes;
        let mut warnings = executed.warnings();
        warnings.extend(warning);
        let Executed { result, last, memory, .. } = executed;
        Ok(Evaluated { result, last, stats, warnings, memory })
    }

    /// [`Querier::evaluate`], encoded as JSON.
    ///
    /// # Errors
    /// The query cannot run or fails, or there is no memory for its answer.
    pub(super) async fn encoded(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        prepared: &PreparedQuery,
        form: &AnswerForm,
        begins: impl FnOnce(),
    ) -> Result<SharedAnswer, ApiError> {
        let evaluated = self.evaluate(tenants, limits, prepared, begins).await?;
        let (read_bytes, last) = (evaluated.stats.total_bytes(), evaluated.last);
        let held = self.in_json(evaluated, form.clone()).await?;
        Ok(SharedAnswer { held: Arc::new(held), last, read_bytes })
    }

    /// The JSON text of an answer. It is not written to its end when it is dropped before.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) async fn in_json(
        &self,
        evaluated: Evaluated,
        form: AnswerForm,
    ) -> Result<AnswerBody, ApiError> {
        let result_bytes = evaluated.result.held_bytes();
        // Samples become several times as long as they are, lines mostly stay.
        let work = match &evaluated.result {
            QueryResult::Streams(_) => result_bytes,
            _ => result_bytes.saturating_mul(4),
        };
        let cancellation = CancelOnDrop(Cancellation::default());
        let own_bytes = budget_bytes(evaluated.memory.as_deref()).max(result_bytes as u64);
        let room = AnswerMemory::new(&self.core.budgets().queries, own_bytes)
            .until(cancellation.0.clone());
        let encode = move || {
            let Evaluated { result, stats, warnings, memory: _memory, .. } = evaluated;
            match form {
                AnswerForm::V1 { flags } => {
                    encode(&result, &borrowed(&flags), &stats, &borrowed(&warnings), room)
                }
                AnswerForm::Legacy => encode_legacy(&result, &stats, room),
            }
        };
        inline_or_offloaded(&self.core.runtime, merge_queue(work), encode).await
    }
}

/// Bytes of the budget that are reserved as long as the memory of a result is held. They may be far
/// more than the result itself has.
fn budget_bytes(memory: Option<&(dyn Allowance + 'static)>) -> u64 {
    let memory = memory.and_then(|memory| (memory as &dyn Any).downcast_ref::<PartAllowance>());
    memory.map_or(0, |memory| memory.grant.budget_bytes())
}

/// Texts as they are written.
fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// How an answer is written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AnswerForm {
    /// That of `/loki/api/v1`, with the flags of the request.
    V1 {
        /// See [`encoding_flags`].
        flags: Vec<String>,
    },
    /// That of `/api/prom`.
    Legacy,
}

impl AnswerForm {
    fn v1(request: &Request) -> AnswerForm {
        let flags = encoding_flags(request).into_iter().map(str::to_owned).collect();
        AnswerForm::V1 { flags }
    }

    fn categorizes_labels(&self) -> bool {
        self.has_flag(CATEGORIZE_LABELS)
    }

    fn has_flag(&self, flag: &str) -> bool {
        matches!(self, AnswerForm::V1 { flags } if flags.iter().any(|f| f == flag))
    }
}

/// A query as it was asked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'q> {
    pub(super) text: &'q str,
    pub(super) expr: &'q Arc<Expr>,
    /// Where the page before ended.
    pub(super) cursor: Option<&'q str>,
}

/// Refuses to go on behind a cursor where there are no pages.
fn check_pages(expr: &Expr, params: &QueryParams) -> Result<(), ApiError> {
    match expr {
        Expr::Metric(_) => Err(ApiError::bad_request("cursor is for log queries")),
        Expr::Log(_) if params.interval_ns > 0 => {
            Err(ApiError::bad_request("cursor and interval exclude each other"))
        }
        Expr::Log(_) => Ok(()),
    }
}

/// A query that was checked and planned.
pub(super) struct PreparedQuery {
    plan: Plan,
    /// Whether its time is not further back than queries see.
    is_visible: bool,
    takes_some_series: bool,
    /// See [`QueryContext::takes_part`].
    takes_part: bool,
    /// How its answer may be put together from one that was kept.
    by_step: Option<StepReuse>,
}

/// Options of a client for the answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct AnswerOptions {
    /// See [`takes_some_series`].
    pub(super) takes_some_series: bool,
    /// See [`QueryContext::takes_part`].
    pub(super) takes_part: bool,
    /// Whether kept answers may be used.
    pub(super) reuses: bool,
}

/// The kind that a query is counted as.
pub(super) fn kind_of(expr: &Expr) -> QueryKind {
    match expr {
        Expr::Metric(_) => QueryKind::Metric,
        Expr::Log(log) if log.stages.is_empty() => QueryKind::Limited,
        Expr::Log(_) => QueryKind::Filter,
    }
}

/// The answer to a query before it is encoded.
pub(crate) struct Evaluated {
    pub(crate) result: QueryResult,
    /// Where a page of entries ended, if there may be more.
    pub(crate) last: Option<Place>,
    pub(crate) stats: QueryStats,
    pub(crate) warnings: Vec<String>,
    /// For the result.
    pub(crate) memory: Option<Box<dyn Allowance>>,
}

/// Flags of the header that changes how results are encoded.
fn encoding_flags(request: &Request) -> Vec<&str> {
    let header = request.head.header("x-loki-response-encoding-flags");
    header.filter(|value| !value.is_empty()).map_or(Vec::new(), |value| value.split(',').collect())
}

/// Whether the client prefers a part of the series to an error: Grafana Logs Drilldown, which names
/// itself in a header.
fn takes_some_series(request: &Request) -> bool {
    let tags = request.head.header("x-query-tags").unwrap_or_default();
    tags.split(',').any(|tag| tag.trim() == "Source=grafana-lokiexplore-app")
}

/// Whether the client wants an answer that comes from no cache.
fn forbids_caches(request: &Request) -> bool {
    let directives = request.head.header("cache-control").unwrap_or_default();
    let forbids =
        |word: &str| word.eq_ignore_ascii_case("no-cache") || word.eq_ignore_ascii_case("no-store");
    directives.split(',').any(|directive| forbids(directive.trim()))
}

/// Cuts a result down to the series that a query may have. Says so, if it had more.
fn cut_series(result: &mut QueryResult, max_series: usize) -> Option<String> {
    let found = match result {
        QueryResult::Matrix(series) => series.len(),
        QueryResult::Vector(samples) => samples.len(),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => 0,
    };
    if max_series == 0 || found <= max_series {
        return None;
    }
    match result {
        QueryResult::Matrix(series) => series.truncate(max_series),
        QueryResult::Vector(samples) => samples.truncate(max_series),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => {}
    }
    Some(format!(
        "maximum number of series ({max_series}) reached for a single query; returning partial results"
    ))
}

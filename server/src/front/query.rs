//! `query`, `query_range` and the deprecated `/api/prom/query`: parse, run, encode.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{Allowance, Plan, QueryLimits, QueryParams, QueryResult, QueryTime};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::encode::QueryStats;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::messages::Cancellation;

use super::answer::{Held, Room, shared_json_response};
use super::compile::{Read, executable};
use super::encode::{encode, encode_legacy};
use super::execute::{CancelOnDrop, Executed};
use super::leaves::{here_or_aside, merging_queue};
use super::query_limits::{check_enabled, check_query, check_tenant_matchers};
use super::queue::{Inquiry, Work};
use super::results::ByStep;
use super::sharing::{QueryKey, SharedAnswer};
use super::tenants::Tenants;
use super::{Front, params, parquet};
use crate::config::Limits;
use crate::metrics::QueryKind;

/// Value of the header that asks for labels by category.
const CATEGORIZE_LABELS: &str = "categorize-labels";

impl<R: Runtime> Front<R> {
    pub(super) async fn query(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let params = params::of(&request)?;
        let time_ns = params::instant(&params, self.runtime.unix_nanos())?;
        let mut query_params = QueryParams::new(QueryTime::Instant { time_ns });
        query_params.limit = params::limit(&params)? as usize;
        query_params.direction = params::direction(&params)?;
        let text = params.get("query").unwrap_or_default();
        let form = AnswerForm::v1(&request);
        let expr = self.bounded(&inquiry, self.read_query(text)).await?;
        self.answer(&inquiry, (text, &expr), query_params, &request, form).await
    }

    pub(super) async fn query_range(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let params = params::of(&request)?;
        let query_params = self.range_params(&params)?;
        let text = params.get("query").unwrap_or_default();
        let form = AnswerForm::v1(&request);
        let expr = self.bounded(&inquiry, self.read_query(text)).await?;
        self.answer(&inquiry, (text, &expr), query_params, &request, form).await
    }

    /// `/api/prom/query`: a range query for logs, with a line filter beside the query
    /// and another form of answer.
    pub(super) async fn legacy_query(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let params = params::of(&request)?;
        let query_params = self.range_params(&params)?;
        let text = params.get("query").unwrap_or_default();
        let mut expr = self.bounded(&inquiry, self.read_query(text)).await?;
        if matches!(**expr, Expr::Metric(_)) {
            let text = "legacy endpoints only support streams result type";
            return Err(ApiError::bad_request(text));
        }
        if let Some(regexp) = params.get_non_empty("regexp") {
            let regexp = logsvc_proto::go::quote::quoted(regexp);
            let text = format!("{} |~ {regexp}", syntax::format(&expr));
            expr = self.bounded(&inquiry, self.read_query(&text)).await?;
        }
        let form = AnswerForm::Legacy;
        self.answer(&inquiry, (text, &expr), query_params, &request, form).await
    }

    /// Parses a query that is to be run.
    async fn read_query(&self, text: &str) -> Result<Read<Arc<Expr>>, ApiError> {
        self.read(text, |text| executable(text).map(Arc::new)).await
    }

    /// The parameters of a range query.
    fn range_params(&self, params: &Params) -> Result<QueryParams, ApiError> {
        let now_ns = self.runtime.unix_nanos();
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

    /// Answers a query within the limits of its tenants, and counts it.
    async fn answer(
        &self,
        inquiry: &Inquiry<'_>,
        query: (&str, &Arc<Expr>),
        query_params: QueryParams,
        request: &Request,
        form: AnswerForm,
    ) -> Result<Response, ApiError> {
        let begun = self.runtime.now();
        let is_range = matches!(query_params.time, QueryTime::Range { .. });
        let answered = self.answer_within_limits(inquiry, query, query_params, request, form).await;
        let (status, read_bytes) = match &answered {
            Ok((_, read_bytes)) => (200, *read_bytes),
            Err(error) => (error.status.as_u16(), 0),
        };
        let duration = self.runtime.now().since(begun);
        self.counters().queries.ended(kind_of(query.1), is_range, status, duration, read_bytes);
        answered.map(|(response, _)| response)
    }

    /// The answer, and the bytes that were read for it.
    async fn answer_within_limits(
        &self,
        inquiry: &Inquiry<'_>,
        query: (&str, &Arc<Expr>),
        mut query_params: QueryParams,
        request: &Request,
        form: AnswerForm,
    ) -> Result<(Response, u64), ApiError> {
        let parquet = parquet::accepted(&request.head);
        // A file has one column for labels of all categories.
        query_params.categorize_labels = parquet.is_none() && form.categorizes_labels();
        let takes_parts = takes_parts(request);
        let reuses = self.config.cache_results && !forbids_caches(request);
        let asked = Asked { takes_parts, reuses };
        let prepare = self.prepare(inquiry, query, query_params.clone(), asked);
        let prepared = self.bounded(inquiry, prepare).await?;
        if let Some(media_type) = parquet {
            let work = async {
                let evaluate = self.evaluate(&inquiry.tenants, &inquiry.limits, &prepared, || {});
                let Evaluated { result, stats, warnings, memory: _memory } = evaluate.await?;
                let response = self.parquet_response(media_type, result, &warnings).await?;
                Ok((response, stats.total_bytes()))
            };
            return self.bounded(inquiry, work).await;
        }
        let key = QueryKey::new(inquiry, query.1.to_string(), &query_params, form, asked);
        let SharedAnswer { held, read_bytes } = self.shared(inquiry, key, prepared).await?;
        Ok((shared_json_response(held), read_bytes))
    }

    /// Checks and plans a query.
    async fn prepare(
        &self,
        inquiry: &Inquiry<'_>,
        (text, expr): (&str, &Arc<Expr>),
        mut query_params: QueryParams,
        Asked { takes_parts, reuses }: Asked,
    ) -> Result<Prepared, ApiError> {
        let Inquiry { tenants, limits, .. } = inquiry;
        check_enabled(limits)?;
        check_query(limits, expr, query_params.time, query_params.limit)?;
        check_tenant_matchers(tenants, expr)?;
        if limits.blocked_queries.blocks(text, kind_of(expr).word()) {
            return Err(ApiError::bad_request("query blocked by policy"));
        }
        query_params.now_ns = self.runtime.unix_nanos();
        query_params.align_to_step = self.config.align_queries_with_step;
        let refused_above = if takes_parts { 0 } else { limits.max_query_series };
        query_params.limits = QueryLimits { max_series: refused_above, ..QueryLimits::default() };
        let is_visible = self.look_back(limits, expr, &mut query_params.time);
        let plan = self.plan(expr, query_params.clone()).await?;
        let generation = self.cache_generation.load(Ordering::Acquire);
        let by_step = || ByStep::of(tenants, expr, &query_params, &plan, generation);
        let by_step = (reuses && is_visible).then(by_step).flatten();
        Ok(Prepared { plan, is_visible, takes_parts, by_step })
    }

    /// Runs a query when it is its turn; `begins` is called when it is.
    async fn evaluate(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        prepared: &Prepared,
        begins: impl FnOnce(),
    ) -> Result<Evaluated, ApiError> {
        let Prepared { plan, is_visible, takes_parts, by_step } = prepared;
        let mut estimated_bytes = None;
        let mut executed = if *is_visible {
            let turn = self.turn(tenants, limits, Work::Query).await?;
            begins();
            let begun = self.runtime.now();
            estimated_bytes = self.check_bytes(tenants, limits, plan, &turn).await?;
            let mut executed = match by_step {
                Some(by_step) => self.execute_by_step(tenants, plan, by_step, &turn).await?,
                None => self.execute(&tenants.labelled(), plan, &turn).await?,
            };
            executed.exec_time_ns = self.runtime.now().since(begun).as_nanos() as u64;
            executed
        } else {
            Executed::nothing(plan)?
        };
        let max_series = limits.max_query_series;
        let warning = takes_parts.then(|| cut_series(&mut executed.result, max_series)).flatten();
        let mut stats = executed.stats();
        stats.estimated_bytes = estimated_bytes;
        let mut warnings = executed.warnings();
        warnings.extend(warning);
        let Executed { result, memory, .. } = executed;
        Ok(Evaluated { result, stats, warnings, memory })
    }

    /// [`Front::evaluate`], encoded as JSON.
    ///
    /// # Errors
    /// The query cannot run or fails, or there is no memory for its answer.
    pub(super) async fn encoded(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        prepared: &Prepared,
        form: &AnswerForm,
        begins: impl FnOnce(),
    ) -> Result<SharedAnswer, ApiError> {
        let evaluated = self.evaluate(tenants, limits, prepared, begins).await?;
        let read_bytes = evaluated.stats.total_bytes();
        let held = self.in_json(evaluated, form.clone()).await?;
        Ok(SharedAnswer { held: Arc::new(held), read_bytes })
    }

    /// The JSON text of an answer. It is not written to its end when it is dropped before.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) async fn in_json(
        &self,
        evaluated: Evaluated,
        form: AnswerForm,
    ) -> Result<Held, ApiError> {
        let result_bytes = evaluated.result.held_bytes();
        // Samples become several times as long as they are, lines mostly stay.
        let work = match &evaluated.result {
            QueryResult::Streams(_) => result_bytes,
            _ => result_bytes.saturating_mul(4),
        };
        let cancellation = CancelOnDrop(Cancellation::default());
        let room = Room::new(&self.queries, result_bytes as u64).until(cancellation.0.clone());
        let encode = move || {
            let Evaluated { result, stats, warnings, memory: _memory } = evaluated;
            match form {
                AnswerForm::V1 { flags } => {
                    encode(&result, &borrowed(&flags), &stats, &borrowed(&warnings), room)
                }
                AnswerForm::Legacy => encode_legacy(&result, &stats, room),
            }
        };
        here_or_aside(&self.runtime, merging_queue(work), encode).await
    }
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
        matches!(self, AnswerForm::V1 { flags } if flags.iter().any(|f| f == CATEGORIZE_LABELS))
    }
}

/// A query that was checked and planned.
pub(super) struct Prepared {
    plan: Plan,
    /// Whether its time is not further back than queries see.
    is_visible: bool,
    takes_parts: bool,
    /// How its answer may be put together from one that is known.
    by_step: Option<ByStep>,
}

/// How a client wants its answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Asked {
    /// See [`takes_parts`].
    pub(super) takes_parts: bool,
    /// Whether what is known may be used again.
    pub(super) reuses: bool,
}

/// What a query is counted as.
fn kind_of(expr: &Expr) -> QueryKind {
    match expr {
        Expr::Metric(_) => QueryKind::Metric,
        Expr::Log(log) if log.stages.is_empty() => QueryKind::Limited,
        Expr::Log(_) => QueryKind::Filter,
    }
}

/// The answer to a query before it is encoded.
pub(super) struct Evaluated {
    pub(super) result: QueryResult,
    pub(super) stats: QueryStats,
    pub(super) warnings: Vec<String>,
    /// For the result.
    pub(super) memory: Option<Box<dyn Allowance>>,
}

/// Flags of the header that changes how results are encoded.
fn encoding_flags(request: &Request) -> Vec<&str> {
    let header = request.head.header("x-loki-response-encoding-flags");
    header.filter(|value| !value.is_empty()).map_or(Vec::new(), |value| value.split(',').collect())
}

/// Whether the client would rather have a part of the series than none: Grafana Logs
/// Drilldown says who it is.
fn takes_parts(request: &Request) -> bool {
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

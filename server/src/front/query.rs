//! `query` and `query_range`: plan, scatter, merge, encode.

use std::sync::Arc;
use std::time::Duration;

use logsvc_http::{Request, Response};
use logsvc_logql::engine::{
    LeafStats, MergeState, Plan, PlanError, QueryLimits, QueryParams, QueryResult, QueryTime,
    StreamResult,
};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::TenantId;
use logsvc_proto::encode::{
    IngesterStats, MatrixWriter, QueryStats, StoreStats, StreamsWriter, VectorWriter, write_scalar,
};
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{format_go_duration, format_model_duration};
use logsvc_runtime::Runtime;
use logsvc_shards::messages::{Cancellation, LeafRequest, ShardReply, ShardRequest};
use logsvc_shards::scan::ScanError;

use super::answer::json_response;
use super::scatter::shard_gone;
use super::{Front, params};
use crate::metrics::add;

/// Value of the header that asks for labels by category.
const CATEGORIZE_LABELS: &str = "categorize-labels";

impl<R: Runtime> Front<R> {
    pub(super) async fn query(&self, request: Request) -> Result<Response, ApiError> {
        let tenant = self.tenant(&request.head)?;
        let params = params::of(&request)?;
        let time_ns = params::instant(&params, self.runtime.unix_nanos())?;
        let mut query_params = QueryParams::new(QueryTime::Instant { time_ns });
        query_params.limit = params::limit(&params)? as usize;
        query_params.direction = params::direction(&params)?;
        self.answer(tenant, params.get("query").unwrap_or_default(), query_params, request).await
    }

    pub(super) async fn query_range(&self, request: Request) -> Result<Response, ApiError> {
        let tenant = self.tenant(&request.head)?;
        let params = params::of(&request)?;
        let now_ns = self.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let limit = params::limit(&params)?;
        let direction = params::direction(&params)?;
        let step_ns = params::step(&params, range)?;
        let interval_ns = params::interval(&params)?;
        let (start_ns, end_ns) = (range.start_ns, range.end_ns);
        let mut query_params = QueryParams::new(QueryTime::Range { start_ns, end_ns, step_ns });
        query_params.limit = limit as usize;
        query_params.direction = direction;
        query_params.interval_ns = interval_ns;
        self.answer(tenant, params.get("query").unwrap_or_default(), query_params, request).await
    }

    async fn answer(
        &self,
        tenant: TenantId,
        text: &str,
        mut query_params: QueryParams,
        request: Request,
    ) -> Result<Response, ApiError> {
        let begun = self.runtime.now();
        let bad_request = |error: String| ApiError::bad_request(error);
        let expr = syntax::parse(text).map_err(|error| bad_request(error.to_string()))?;
        syntax::check_executable(&expr).map_err(|error| bad_request(error.to_string()))?;
        self.check_limits(&expr, &query_params)?;
        let flags = encoding_flags(&request);
        query_params.now_ns = self.runtime.unix_nanos();
        query_params.align_to_step = self.config.align_queries_with_step;
        query_params.categorize_labels = flags.contains(&CATEGORIZE_LABELS);
        let max_series = self.config.limits.max_query_series;
        query_params.limits = QueryLimits { max_series, ..QueryLimits::default() };
        let visible = self.look_back(&mut query_params.time);
        let plan = Plan::new(&expr, &query_params).map_err(|error| match error {
            // As the reference answers for a part of the language that it switches off.
            PlanError::ApproxTopkIsDisabled => ApiError::internal(error.to_string()),
            _ => bad_request(error.to_string()),
        })?;
        if !visible {
            let result = MergeState::new(&plan).finish();
            let result = result.map_err(|error| bad_request(error.to_string()))?;
            return json_response(encode(&result, &flags, QueryStats::default()), &self.queries);
        }

        let cancellation = Cancellation::default();
        let timeout_ns = self.config.limits.query_timeout_ns;
        let timeout = (timeout_ns > 0).then(|| Duration::from_nanos(timeout_ns.unsigned_abs()));
        let run = self.run(&tenant, &plan, &cancellation);
        let (result, mut stats) =
            self.bounded(run, &cancellation, &request.disconnect, timeout).await?;
        stats.exec_time_ns = self.runtime.now().since(begun).as_nanos() as u64;
        add(&self.counters().queried_bytes, stats.total_bytes());
        json_response(encode(&result, &flags, stats), &self.queries)
    }

    /// Cuts off what lies further back than a query may see; false if nothing is
    /// left. Never an error: that is how the limit is defined.
    fn look_back(&self, time: &mut QueryTime) -> bool {
        let lookback_ns = self.config.limits.max_query_lookback_ns;
        if lookback_ns <= 0 {
            return true;
        }
        let oldest_ns = self.runtime.unix_nanos().saturating_sub(lookback_ns);
        match time {
            QueryTime::Instant { time_ns } => *time_ns >= oldest_ns,
            QueryTime::Range { start_ns, end_ns, .. } => {
                if *end_ns <= oldest_ns {
                    return false;
                }
                *start_ns = (*start_ns).max(oldest_ns);
                true
            }
        }
    }

    /// Limits that need the query but no data.
    fn check_limits(&self, expr: &Expr, query_params: &QueryParams) -> Result<(), ApiError> {
        let limits = &self.config.limits;
        let max_entries = limits.max_entries_limit_per_query;
        if matches!(expr, Expr::Log(_)) && max_entries > 0 && query_params.limit > max_entries {
            return Err(ApiError::bad_request(format!(
                "max entries limit per query exceeded, limit > max_entries_limit_per_query ({} > {max_entries})",
                query_params.limit
            )));
        }
        if let QueryTime::Range { start_ns, end_ns, .. } = query_params.time {
            let length_ns = end_ns.saturating_sub(start_ns);
            let max_ns = limits.max_query_length_ns;
            if max_ns > 0 && length_ns > max_ns {
                return Err(ApiError::bad_request(format!(
                    "the query time range exceeds the limit (query length: {}, limit: {})",
                    format_go_duration(length_ns),
                    format_model_duration(max_ns)
                )));
            }
        }
        Ok(())
    }

    /// Runs the leaves on all shards at once and merges what they give.
    async fn run(
        &self,
        tenant: &TenantId,
        plan: &Plan,
        cancellation: &Cancellation,
    ) -> Result<(QueryResult, QueryStats), ApiError> {
        let mut merge = MergeState::new(plan);
        let memory_max_bytes = self.queries.max_bytes() / u64::from(self.runtime.core_count());
        // The shards' parts are bounded each; the reservation bounds their number.
        let part_bytes = (memory_max_bytes / 8).max(1);
        let _reservation = self
            .queries
            .try_reserve(part_bytes)
            .ok_or_else(|| ApiError::too_many_requests("too many outstanding requests", 1))?;
        let mut replies = Vec::new();
        for leaf in plan.leaves() {
            let leaf = Arc::new(leaf.clone());
            replies.extend(self.ask_all(|| {
                ShardRequest::Leaf(LeafRequest {
                    tenant: tenant.clone(),
                    plan: Arc::clone(&leaf),
                    cancellation: cancellation.clone(),
                    memory_max_bytes: memory_max_bytes as usize,
                })
            })?);
        }
        let (mut streams, mut blocks) = (0, 0);
        for reply in replies {
            match reply.await {
                Ok(ShardReply::Leaf(Ok(part))) => {
                    streams += part.streams;
                    blocks += part.blocks;
                    merge.add(part.result);
                }
                Ok(ShardReply::Leaf(Err(error))) => return Err(scan_error(error)),
                Ok(_) | Err(_) => return Err(shard_gone()),
            }
        }
        let leaf_stats = merge.stats();
        let result = merge.finish().map_err(|error| ApiError::bad_request(error.to_string()))?;
        let shards = u64::from(self.runtime.core_count());
        let stats = query_stats(&leaf_stats, &result, streams, blocks, shards);
        Ok((result, stats))
    }
}

fn scan_error(error: ScanError) -> ApiError {
    match error {
        ScanError::Plan(_) | ScanError::Memory { .. } => ApiError::bad_request(error.to_string()),
        ScanError::Cancelled => ApiError::unavailable(error.to_string()),
    }
}

fn query_stats(
    leaf: &LeafStats,
    result: &QueryResult,
    streams: u64,
    blocks: u64,
    shards: u64,
) -> QueryStats {
    let entries_returned = match result {
        QueryResult::Streams(streams) => streams.iter().map(|s| s.entries.len() as u64).sum(),
        QueryResult::Matrix(series) => series.len() as u64,
        QueryResult::Vector(samples) => samples.len() as u64,
        QueryResult::Scalar { .. } => 1,
    };
    QueryStats {
        splits: 1,
        shards,
        entries_returned,
        streams_matched: streams,
        ingester: IngesterStats {
            reached: shards,
            heads_matched: blocks,
            batches: shards,
            lines_sent: leaf.entries_kept,
            store: StoreStats {
                head_bytes: leaf.line_bytes,
                head_lines: leaf.entries,
                lines_after_filter: leaf.entries_kept,
                ..StoreStats::default()
            },
            ..IngesterStats::default()
        },
        ..QueryStats::default()
    }
}

/// Flags of the header that changes how results are encoded.
fn encoding_flags(request: &Request) -> Vec<&str> {
    let header = request.head.header("x-loki-response-encoding-flags");
    header.filter(|value| !value.is_empty()).map_or(Vec::new(), |value| value.split(',').collect())
}

fn encode(result: &QueryResult, flags: &[&str], stats: QueryStats) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    match result {
        QueryResult::Streams(streams) => encode_streams(streams, flags, &stats, &mut out),
        QueryResult::Matrix(series) => {
            let mut writer = MatrixWriter::new();
            writer.begin(&mut out);
            for series in series {
                writer.series(series.labels.iter(), &mut out);
                for point in &series.points {
                    writer.sample(point.timestamp_ms, point.value, &mut out);
                }
            }
            writer.end(&stats, &[], &mut out);
        }
        QueryResult::Vector(samples) => {
            let mut writer = VectorWriter::new();
            writer.begin(&mut out);
            for sample in samples {
                let point = &sample.point;
                writer.sample(sample.labels.iter(), point.timestamp_ms, point.value, &mut out);
            }
            writer.end(&stats, &[], &mut out);
        }
        QueryResult::Scalar { timestamp_ms, value } => {
            write_scalar(*timestamp_ms, *value, &stats, &mut out);
        }
    }
    out
}

fn encode_streams(streams: &[StreamResult], flags: &[&str], stats: &QueryStats, out: &mut Vec<u8>) {
    let mut writer = StreamsWriter::new();
    writer.begin(flags, out);
    for stream in streams {
        writer.streams().stream(stream.labels.iter(), out);
        for entry in &stream.entries {
            match &entry.categories {
                Some(categories) => writer.streams().categorized_entry(
                    entry.timestamp_ns,
                    &entry.line,
                    categories.structured_metadata.iter(),
                    categories.parsed.iter(),
                    out,
                ),
                None => writer.streams().entry(entry.timestamp_ns, &entry.line, out),
            }
        }
    }
    writer.end(stats, &[], out);
}

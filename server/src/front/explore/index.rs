//! `index/stats` and `index/shards`: how much a selector stands for.

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::SizeOf;
use logsvc_logql::syntax::ast::Selector;
use logsvc_proto::encode::{IndexStats, write_index_shards, write_index_stats};
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::types::TimeRange;

use crate::front::explore::Explorer;
use crate::front::query::answer::json_response;
use crate::front::query::compile::Parsed;
use crate::front::query::limits::check_length;
use crate::front::query::params;
use crate::front::query::queue::{QueryContext, QueueKind};

/// Most shards that a plan for a query is cut into.
const SHARDS_MAX: u64 = 1 << 16;

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn index_stats(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.query_context(&request)?;
        let params = params::of(&request)?;
        let (selector, range) = self.index_params(&context, &params).await?;
        let stats = self.index_size(&context, &selector, range).await?;
        let mut out = Vec::new();
        write_index_stats(&stats, &mut out);
        out.push(b'\n');
        json_response(out, &self.core.budgets().queries)
    }

    /// Cuts the space of stream hashes into equal parts, as many as it takes for
    /// none to hold more bytes than asked for.
    pub(crate) async fn index_shards(&self, request: Request) -> Result<Response, ApiError> {
        let context = self.querier.single_tenant_context(&request)?;
        let params = params::of(&request)?;
        let (selector, range) = self.index_params(&context, &params).await?;
        let target_bytes = params::target_bytes_per_shard(&params)?;
        let stats = self.index_size(&context, &selector, range).await?;
        let wanted = stats.bytes.div_ceil(target_bytes).clamp(1, SHARDS_MAX);
        let mut out = Vec::new();
        write_index_shards(&stats, wanted.next_power_of_two(), &mut out);
        json_response(out, &self.core.budgets().queries)
    }

    /// Parameters that both have, checked in the order of `query_range`.
    async fn index_params(
        &self,
        context: &QueryContext<'_>,
        params: &Params,
    ) -> Result<(Parsed<Selector>, TimeRange), ApiError> {
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(params, now_ns, params::QUERY_RANGE_NS)?;
        params::limit(params)?;
        params::direction(params)?;
        params::step(params, range)?;
        params::interval(params)?;
        let selector = self.querier.parse_selector(params.get("query").unwrap_or_default()).await?;
        check_length(&context.limits, range)?;
        context.tenants.check_selector(&selector)?;
        Ok((selector, range))
    }

    /// Counts entries and bytes of the selected streams in the visible part of the range.
    async fn index_size(
        &self,
        context: &QueryContext<'_>,
        selector: &Selector,
        range: TimeRange,
    ) -> Result<IndexStats, ApiError> {
        let (tenants, limits) = (&context.tenants, &context.limits);
        let Some(range) = self.querier.visible(limits, range) else {
            return Ok(IndexStats::default());
        };
        let work = async {
            let permit = self.querier.permit(tenants, limits, QueueKind::Lookup).await?;
            self.querier.measure(tenants, selector, range, SizeOf::Entry, &permit).await
        };
        self.querier.bounded(context, work).await
    }
}

//! `index/stats` and `index/shards`: how much a selector stands for.

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{Effort, Plan, QueryResult, SizeOf, StreamLabels};
use logsvc_logql::syntax::ast::Selector;
use logsvc_proto::encode::{IndexStats, write_index_shards, write_index_stats};
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::types::TimeRange;

use crate::front::Front;
use crate::front::query::answer::json_response;
use crate::front::query::compile::Read;
use crate::front::query::execute::Executed;
use crate::front::query::limits::check_length;
use crate::front::query::params;
use crate::front::query::queue::{Inquiry, Turn, Work};
use crate::front::query::tenants::Tenants;

/// Most shards that a plan for a query is cut into.
const SHARDS_MAX: u64 = 1 << 16;

impl<R: Runtime> Front<R> {
    pub(crate) async fn index_stats(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry(&request)?;
        let params = params::of(&request)?;
        let (selector, range) = self.index_params(&inquiry, &params).await?;
        let stats = self.index_size(&inquiry, &selector, range).await?;
        let mut out = Vec::new();
        write_index_stats(&stats, &mut out);
        out.push(b'\n');
        json_response(out, &self.queries)
    }

    /// Cuts the space of stream hashes into equal parts, as many as it takes for
    /// none to hold more bytes than asked for.
    pub(crate) async fn index_shards(&self, request: Request) -> Result<Response, ApiError> {
        let inquiry = self.inquiry_of_one(&request)?;
        let params = params::of(&request)?;
        let (selector, range) = self.index_params(&inquiry, &params).await?;
        let target_bytes = params::target_bytes_per_shard(&params)?;
        let stats = self.index_size(&inquiry, &selector, range).await?;
        let wanted = stats.bytes.div_ceil(target_bytes).clamp(1, SHARDS_MAX);
        let mut out = Vec::new();
        write_index_shards(&stats, wanted.next_power_of_two(), &mut out);
        json_response(out, &self.queries)
    }

    /// Parameters that both have, checked in the order of `query_range`.
    async fn index_params(
        &self,
        inquiry: &Inquiry<'_>,
        params: &Params,
    ) -> Result<(Read<Selector>, TimeRange), ApiError> {
        let now_ns = self.runtime.unix_nanos();
        let range = params::time_range(params, now_ns, params::QUERY_RANGE_NS)?;
        params::limit(params)?;
        params::direction(params)?;
        params::step(params, range)?;
        params::interval(params)?;
        let selector = self.read_selector(params.get("query").unwrap_or_default()).await?;
        check_length(&inquiry.limits, range)?;
        inquiry.tenants.check_selector(&selector)?;
        Ok((selector, range))
    }

    /// Counts what the selected streams hold in the part of the range that may be seen.
    async fn index_size(
        &self,
        inquiry: &Inquiry<'_>,
        selector: &Selector,
        range: TimeRange,
    ) -> Result<IndexStats, ApiError> {
        let (tenants, limits) = (&inquiry.tenants, &inquiry.limits);
        let Some(range) = self.visible(limits, range) else { return Ok(IndexStats::default()) };
        let work = async {
            let turn = self.turn(tenants, limits, Work::Lookup).await?;
            self.measure(tenants, selector, range, SizeOf::Entry, &turn).await
        };
        self.bounded(inquiry, work).await
    }

    /// Counts what the selected streams hold in the range.
    pub(crate) async fn measure(
        &self,
        tenants: &Tenants,
        selector: &Selector,
        range: TimeRange,
        size: SizeOf,
        turn: &Turn,
    ) -> Result<IndexStats, ApiError> {
        // One sum over everything: its bytes are the sample, the rest was counted on
        // the way.
        let bounds_ns = (range.start_ns, range.end_ns);
        let (effort, selector) = (Effort::of_matchers(&selector.matchers), selector.clone());
        let plan = move |_: &PartAllowance| {
            let by = StreamLabels::Listed(Vec::new());
            Plan::volume(&selector, by, bounds_ns, None, size)
        };
        let plan = self.planned(effort, plan).await?;
        let executed = self.execute(&tenants.merged(), &plan, turn).await?;
        Ok(stats_of(&executed))
    }
}

fn stats_of(executed: &Executed) -> IndexStats {
    // Streams and blocks that overlap the range count only if it holds entries.
    if executed.leaf.entries == 0 {
        return IndexStats::default();
    }
    let QueryResult::Matrix(series) = &executed.result else { return IndexStats::default() };
    let bytes: f64 = series.iter().flat_map(|series| &series.points).map(|p| p.value).sum();
    IndexStats {
        streams: executed.scan.streams,
        chunks: executed.leaf.blocks + executed.leaf.summaries,
        bytes: bytes as u64,
        entries: executed.leaf.entries,
    }
}

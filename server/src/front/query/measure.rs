//! How much streams hold, from the directories of their blocks.

use logsvc_logql::engine::{Estimate, Plan, QueryResult, SizeOf, StreamLabels};
use logsvc_logql::syntax::ast::Selector;
use logsvc_proto::encode::IndexStats;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::types::TimeRange;

use super::Querier;
use super::execute::Executed;
use super::queue::QueryPermit;
use super::tenants::Tenants;

impl<R: Runtime> Querier<R> {
    /// Counts entries and bytes of the selected streams in the range.
    pub(crate) async fn measure(
        &self,
        tenants: &Tenants,
        selector: &Selector,
        range: TimeRange,
        size: SizeOf,
        permit: &QueryPermit,
    ) -> Result<IndexStats, ApiError> {
        // One sum over everything: its bytes are the sample, the rest was counted on
        // the way.
        let bounds_ns = (range.start_ns, range.end_ns);
        let (estimate, selector) = (Estimate::of_matchers(&selector.matchers), selector.clone());
        let plan = move |_: &PartAllowance| {
            let by = StreamLabels::Listed(Vec::new());
            Plan::volume(&selector, by, bounds_ns, None, size)
        };
        let plan = self.planned(estimate, plan).await?;
        let executed =
            self.execute(&tenants.merged(), &plan, DeletionVersion::NONE, permit).await?;
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

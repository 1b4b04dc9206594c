//! What a query may ask for, checked before any data is read.

use logsvc_logql::engine::QueryTime;
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{format_go_duration, format_model_duration};
use logsvc_runtime::Runtime;
use logsvc_shards::messages::TimeRange;

use super::Front;

impl<R: Runtime> Front<R> {
    /// Refuses a time range that is longer than a query's may be.
    pub(super) fn check_length(&self, range: TimeRange) -> Result<(), ApiError> {
        let length_ns = range.end_ns.saturating_sub(range.start_ns);
        let max_ns = self.config.limits.max_query_length_ns;
        if max_ns > 0 && length_ns > max_ns {
            return Err(ApiError::bad_request(format!(
                "the query time range exceeds the limit (query length: {}, limit: {})",
                format_go_duration(length_ns),
                format_model_duration(max_ns)
            )));
        }
        Ok(())
    }

    /// Refuses a log query that asks for too many entries.
    pub(super) fn check_entries(&self, entries: usize) -> Result<(), ApiError> {
        let max_entries = self.config.limits.max_entries_limit_per_query;
        if max_entries > 0 && entries > max_entries {
            return Err(ApiError::bad_request(format!(
                "max entries limit per query exceeded, limit > max_entries_limit_per_query \
                 ({entries} > {max_entries})"
            )));
        }
        Ok(())
    }

    /// Limits of `query` and `query_range` that need the query but no data.
    pub(super) fn check_query(
        &self,
        expr: &Expr,
        time: QueryTime,
        entries: usize,
    ) -> Result<(), ApiError> {
        if matches!(expr, Expr::Log(_)) {
            self.check_entries(entries)?;
        }
        if let QueryTime::Range { start_ns, end_ns, .. } = time {
            self.check_length(TimeRange { start_ns, end_ns })?;
        }
        Ok(())
    }

    /// The part of a range that lies no further back than a query may see. Never an
    /// error: that is how the limit is defined.
    pub(super) fn visible(&self, range: TimeRange) -> Option<TimeRange> {
        let lookback_ns = self.config.limits.max_query_lookback_ns;
        if lookback_ns <= 0 {
            return Some(range);
        }
        let oldest_ns = self.runtime.unix_nanos().saturating_sub(lookback_ns);
        let start_ns = range.start_ns.max(oldest_ns);
        (start_ns < range.end_ns).then_some(TimeRange { start_ns, ..range })
    }

    /// [`Front::visible`] for the time of a query, which is cut; false if nothing is
    /// left.
    pub(super) fn look_back(&self, time: &mut QueryTime) -> bool {
        match time {
            QueryTime::Instant { time_ns } => {
                let end_ns = time_ns.saturating_add(1);
                self.visible(TimeRange { start_ns: *time_ns, end_ns }).is_some()
            }
            QueryTime::Range { start_ns, end_ns, .. } => {
                let visible = self.visible(TimeRange { start_ns: *start_ns, end_ns: *end_ns });
                visible.inspect(|range| *start_ns = range.start_ns).is_some()
            }
        }
    }
}

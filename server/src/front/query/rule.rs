//! Evaluates the queries of rules.
//!
//! Rules have a queue, places and memory of their own ([`super::queue`]), and windows that serve
//! again ([`super::windows`]). Everything else is as for the queries of clients: limits of the
//! tenant (time, series, bytes, length of windows, blocked and disabled queries), hidden entries,
//! cancellation. Three limits are about clients and do not count here: `max_query_lookback`, since
//! the node itself chooses the time; labels that selectors must have, which range queries alone
//! need; and the length of the queue, since the ruler waits instead of being refused.
//!
//! Guarantees: an answer is complete. A part that cannot be read, or a line that the pipeline
//! cannot read, makes an error, because an alert must not change by what is missing. Failures are
//! texts that a client of the query endpoints would read.

use std::cmp::Reverse;

use logsvc_http::Disconnect;
use logsvc_logql::engine::{
    QueryLimits, QueryParams, QueryResult, QueryTime, ResultPoint, StreamResult, VectorSample,
};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_rules::evaluator::{RuleAnswer, RuleLine, RuleQuery, RuleQueryError, Wanted};
use logsvc_runtime::Runtime;

use super::Querier;
use super::endpoints::kind_of;
use super::execute::Executed;
use super::limits::{check_enabled, check_query};
use super::queue::{QueryContext, QueueKind};
use super::tenants::Tenants;

/// Most bytes of the lines of an answer, with their labels.
const LINES_MAX_BYTES: usize = 256 << 10;

impl<R: Runtime> Querier<R> {
    /// The answer to the query of a rule.
    ///
    /// # Errors
    /// The query gives something else than what is wanted, or it cannot run or fails.
    pub(crate) async fn answer_rule(
        &self,
        query: &RuleQuery,
    ) -> Result<RuleAnswer, RuleQueryError> {
        let failed = |error: ApiError| RuleQueryError::Failed(error.message);
        match (&*query.expr, query.wanted) {
            (Expr::Metric(_), Wanted::Vector) | (Expr::Log(_), Wanted::Lines { .. }) => {}
            (Expr::Log(_), Wanted::Vector) | (Expr::Metric(_), Wanted::Lines { .. }) => {
                return Err(RuleQueryError::NoVector);
            }
        }
        let tenants = Tenants::from(query.tenant.clone());
        let (limits, stays) = (self.limits_of(&tenants), Disconnect::new());
        let context = self.context_within(tenants, limits, &stays);
        let work = self.run_rule(&context, query);
        let executed = self.bounded(&context, work).await.map_err(failed)?;
        Ok(match executed.result {
            QueryResult::Vector(samples) => RuleAnswer::Vector(samples),
            QueryResult::Scalar { timestamp_ms, value } => {
                let point = ResultPoint { timestamp_ms, value };
                RuleAnswer::Vector(vec![VectorSample { labels: Labels::empty(), point }])
            }
            QueryResult::Streams(streams) => RuleAnswer::Lines(newest_lines(streams)),
            // Instant queries give none.
            QueryResult::Matrix(_) => return Err(RuleQueryError::NoVector),
        })
    }

    /// Checks, plans and runs a query.
    async fn run_rule(
        &self,
        context: &QueryContext<'_>,
        query: &RuleQuery,
    ) -> Result<Executed, ApiError> {
        let (QueryContext { tenants, limits, .. }, expr) = (context, &query.expr);
        check_enabled(limits)?;
        syntax::check_executable(expr).map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut params = QueryParams::new(match query.wanted {
            Wanted::Vector => QueryTime::Instant { time_ns: query.time_ns },
            // The end of a log query is not part of it.
            Wanted::Lines { start_ns, .. } => {
                let end_ns = query.time_ns.saturating_add(1);
                QueryTime::Range { start_ns: start_ns.min(end_ns), end_ns, step_ns: 1 }
            }
        });
        if let Wanted::Lines { limit, .. } = query.wanted {
            let most = match limits.max_entries_limit_per_query {
                0 => usize::MAX,
                most => most,
            };
            params.limit = limit.min(most);
        }
        check_query(limits, expr, params.time, params.limit)?;
        if limits.blocked_queries.blocks(&query.text, kind_of(expr).word()) {
            return Err(ApiError::bad_request("query blocked by policy"));
        }
        params.now_ns = self.core.runtime.unix_nanos();
        let max_series = limits.max_query_series;
        params.limits = QueryLimits { max_series, ..QueryLimits::default() };
        let plan = self.plan_rule(expr, params).await?;
        let permit = self.permit(tenants, limits, QueueKind::Rule).await?;
        self.check_bytes(tenants, limits, &plan, &permit).await?;
        let interval_ns = if self.core.config().cache_results { query.interval_ns } else { 0 };
        let executed = self.execute_in_parts(tenants, &plan, interval_ns, &permit).await?;
        match executed.warnings().pop() {
            Some(warning) => Err(ApiError::internal(warning)),
            None => Ok(executed),
        }
    }
}

/// The lines of an answer, newest first, as many as have room.
fn newest_lines(streams: Vec<StreamResult>) -> Vec<RuleLine> {
    let lines_of = |StreamResult { labels, entries, .. }: StreamResult| {
        entries.into_iter().map(move |entry| {
            let (time_ns, labels) = (entry.timestamp_ns, labels.clone());
            RuleLine { time_ns, labels, line: entry.line }
        })
    };
    let mut lines: Vec<RuleLine> = streams.into_iter().flat_map(lines_of).collect();
    // Lines of one time stay in the order of their streams.
    lines.sort_by_key(|line| Reverse(line.time_ns));
    let mut held_bytes = 0;
    let has_room = |line: &&RuleLine| {
        held_bytes += line.line.len() + line.labels.as_bytes().len();
        held_bytes <= LINES_MAX_BYTES
    };
    let count = lines.iter().take_while(has_room).count();
    lines.truncate(count);
    lines
}

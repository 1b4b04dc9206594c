//! Limits of queries, checked before any data is read.

use http::StatusCode;
use logsvc_logql::engine::{Plan, QueryTime, SizeOf};
use logsvc_logql::syntax::ast::{Expr, LogExpr, Matcher, MetricExpr, Selector};
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{format_go_duration, format_model_duration};
use logsvc_runtime::Runtime;
use logsvc_shards::types::TimeRange;

use super::Querier;
use super::queue::QueryPermit;
use super::tenants::Tenants;
use crate::config::Limits;

/// Refuses queries of a tenant that may have none.
pub(super) fn check_enabled(limits: &Limits) -> Result<(), ApiError> {
    if limits.max_query_parallelism == 0 || limits.tsdb_max_query_parallelism == 0 {
        // Coming back later does not help, so the answer does not say when.
        let text = "querying is disabled, please contact your operator";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, text));
    }
    Ok(())
}

/// Refuses a time range that is longer than a query's may be.
pub(crate) fn check_length(limits: &Limits, range: TimeRange) -> Result<(), ApiError> {
    let length_ns = range.end_ns.saturating_sub(range.start_ns);
    let max_ns = limits.max_query_length_ns;
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
pub(crate) fn check_entries(limits: &Limits, entries: usize) -> Result<(), ApiError> {
    let max_entries = limits.max_entries_limit_per_query;
    if max_entries > 0 && entries > max_entries {
        return Err(ApiError::bad_request(format!(
            "max entries limit per query exceeded, limit > max_entries_limit_per_query \
             ({entries} > {max_entries})"
        )));
    }
    Ok(())
}

/// Limits of `query` and `query_range` that need the query but no data.
pub(crate) fn check_query(
    limits: &Limits,
    expr: &Expr,
    time: QueryTime,
    entries: usize,
) -> Result<(), ApiError> {
    if matches!(expr, Expr::Log(_)) {
        check_entries(limits, entries)?;
    }
    if let QueryTime::Range { start_ns, end_ns, .. } = time {
        check_length(limits, TimeRange { start_ns, end_ns })?;
    }
    let is_range = matches!(time, QueryTime::Range { .. });
    let mut found = Ok(());
    for_each_log(expr, &mut |log, interval_ns| {
        if found.is_ok() {
            found = check_log(limits, log, interval_ns, is_range).map_err(ApiError::bad_request);
        }
    });
    found
}

/// Refuses a query about several tenants of which a selector says nothing but which
/// tenants it means.
pub(super) fn check_tenant_matchers(tenants: &Tenants, expr: &Expr) -> Result<(), ApiError> {
    let mut found = Ok(());
    for_each_log(expr, &mut |log, _| {
        if found.is_ok() {
            found = tenants.check_selector(&log.selector);
        }
    });
    found
}

impl<R: Runtime> Querier<R> {
    /// Refuses a plan that would read too much. Returns how many bytes its streams and
    /// times stand for, if there was a reason to ask.
    pub(super) async fn check_bytes(
        &self,
        tenants: &Tenants,
        limits: &Limits,
        plan: &Plan,
        permit: &QueryPermit,
    ) -> Result<Option<u64>, ApiError> {
        let (whole, node) = (limits.max_query_bytes_read, limits.max_querier_bytes_read);
        if whole == 0 && node == 0 {
            return Ok(None);
        }
        let mut bytes = 0;
        let mut seen: Vec<(&[Matcher], (i64, i64))> = Vec::new();
        for leaf in plan.leaves() {
            let asked = (leaf.matchers(), leaf.entry_bounds_ns());
            let (start_ns, end_ns) = asked.1;
            // Functions over the same entries read them together, about.
            if start_ns >= end_ns || seen.contains(&asked) {
                continue;
            }
            let selector = Selector { matchers: asked.0.to_vec() };
            let range = TimeRange { start_ns, end_ns };
            bytes += self.measure(tenants, &selector, range, SizeOf::Line, permit).await?.bytes;
            seen.push(asked);
        }
        let refused = |what: &str, max_bytes: u64| {
            ApiError::bad_request(format!(
                "{what} (query: {}, limit: {}); consider adding more specific stream selectors or \
                 reduce the time range of the query",
                humanized(bytes),
                humanized(max_bytes)
            ))
        };
        if whole > 0 && bytes > whole {
            return Err(refused("the query would read too many bytes", whole));
        }
        if node > 0 && bytes > node {
            return Err(refused("query too large to execute on a single querier:", node));
        }
        Ok(Some(bytes))
    }

    /// The part of a range that lies no further back than a query may see. Never an
    /// error: that is how the limit is defined.
    pub(crate) fn visible(&self, limits: &Limits, range: TimeRange) -> Option<TimeRange> {
        let lookback_ns = limits.max_query_lookback_ns;
        if lookback_ns <= 0 {
            return Some(range);
        }
        let oldest_ns = self.core.runtime.unix_nanos().saturating_sub(lookback_ns);
        let start_ns = range.start_ns.max(oldest_ns);
        (start_ns < range.end_ns).then_some(TimeRange { start_ns, ..range })
    }

    /// [`Querier::visible`] for the time of a query, which is cut; false if nothing is
    /// left. Metric queries are still evaluated at the points that were asked for.
    pub(super) fn look_back(&self, limits: &Limits, expr: &Expr, time: &mut QueryTime) -> bool {
        match time {
            QueryTime::Instant { time_ns } => {
                let end_ns = time_ns.saturating_add(1);
                self.visible(limits, TimeRange { start_ns: *time_ns, end_ns }).is_some()
            }
            QueryTime::Range { start_ns, end_ns, step_ns } => {
                let range = TimeRange { start_ns: *start_ns, end_ns: *end_ns };
                let Some(visible) = self.visible(limits, range) else { return false };
                *start_ns = match expr {
                    Expr::Metric(_) => next_point(*start_ns, *step_ns, visible.start_ns),
                    Expr::Log(_) => visible.start_ns,
                };
                *start_ns <= *end_ns
            }
        }
    }
}

/// The first of the points that begin at `start_ns` and are `step_ns` apart, which must be
/// positive, that is not before `oldest_ns`.
fn next_point(start_ns: i64, step_ns: i64, oldest_ns: i64) -> i64 {
    let (start, oldest, step) = (i128::from(start_ns), i128::from(oldest_ns), i128::from(step_ns));
    let steps = ((oldest - start).max(0) + step - 1) / step;
    i64::try_from(start + steps * step).unwrap_or(i64::MAX)
}

/// Calls `visit` for every log query of an expression, with the length of its window if
/// it is in a range aggregation. Expressions are no deeper than the parser lets them be.
fn for_each_log<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e LogExpr, Option<i64>)) {
    match expr {
        Expr::Log(log) => visit(log, None),
        Expr::Metric(metric) => for_each_range(metric, visit),
    }
}

fn for_each_range<'e>(metric: &'e MetricExpr, visit: &mut dyn FnMut(&'e LogExpr, Option<i64>)) {
    match metric {
        MetricExpr::Literal(_) | MetricExpr::Vector(_) => {}
        MetricExpr::RangeAggregation(range) => {
            visit(&range.range.log, Some(range.range.range_ns));
        }
        MetricExpr::VectorAggregation(vector) => for_each_range(&vector.expr, visit),
        MetricExpr::BinaryOperation(binary) => {
            for_each_range(&binary.left, visit);
            for_each_range(&binary.right, visit);
        }
        MetricExpr::LabelReplace(replace) => for_each_range(&replace.expr, visit),
    }
}

/// Limits of one log query of an expression.
fn check_log(
    limits: &Limits,
    log: &LogExpr,
    interval_ns: Option<i64>,
    is_range: bool,
) -> Result<(), String> {
    let max_ns = limits.max_query_range_ns;
    if let Some(interval_ns) = interval_ns.filter(|&ns| max_ns > 0 && ns > max_ns) {
        return Err(format!(
            "[interval] value exceeds limit: [{}] > [{}]",
            format_model_duration(interval_ns),
            format_model_duration(max_ns)
        ));
    }
    let matchers = &log.selector.matchers;
    let max_matchers = limits.max_streams_matchers_per_query;
    if max_matchers > 0 && matchers.len() > max_matchers {
        return Err(format!(
            "max streams matchers per query exceeded, matchers-count > limit ({} > {max_matchers})",
            matchers.len()
        ));
    }
    if !is_range {
        return Ok(());
    }
    let present: Vec<&str> = matchers.iter().map(|matcher| matcher.name.as_str()).collect();
    let missing = limits.required_labels.iter().map(String::as_str);
    let missing: Vec<&str> = missing.filter(|name| !present.contains(name)).collect();
    if !missing.is_empty() {
        return Err(format!(
            "stream selector is missing required matchers [{}], labels present in the query were \
             [{}]",
            missing.join(", "),
            present.join(", ")
        ));
    }
    let required = limits.minimum_labels_number;
    if present.len() < required {
        return Err(format!(
            "stream selector has less label matchers than required: (present: [{}], \
             number_present: {}, required_number_label_matchers: {required})",
            present.join(", "),
            present.len()
        ));
    }
    Ok(())
}

/// A size in units of 1024, with one decimal below ten of a unit: `1.5 KiB`, `100 GiB`.
fn humanized(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exponent = bytes.checked_ilog2().unwrap_or(0) as usize / 10;
    if exponent == 0 {
        return format!("{bytes} B");
    }
    let scaled = bytes as f64 / 1024f64.powi(exponent as i32);
    let scaled = (scaled * 10.0 + 0.5).floor() / 10.0;
    let decimals = usize::from(scaled < 10.0);
    format!("{scaled:.decimals$} {}", UNITS[exponent])
}

#[cfg(test)]
mod tests {
    use logsvc_logql::syntax;

    use super::*;

    fn checked(limits: &Limits, query: &str, is_range: bool) -> Result<(), String> {
        let expr = syntax::parse(query).expect("a query");
        let mut found = Ok(());
        for_each_log(&expr, &mut |log, interval_ns| {
            if found.is_ok() {
                found = check_log(limits, log, interval_ns, is_range);
            }
        });
        found
    }

    #[test]
    fn selectors_and_windows_are_bounded_wherever_they_stand() {
        let limits = Limits {
            max_query_range_ns: 600_000_000_000,
            max_streams_matchers_per_query: 2,
            required_labels: vec!["env".to_owned(), "app".to_owned()],
            minimum_labels_number: 2,
            ..Limits::default()
        };
        let good = r#"{app="x", env=~"a|b"}"#;
        assert_eq!(checked(&limits, good, true), Ok(()));
        assert_eq!(checked(&limits, "vector(1)", true), Ok(()));
        for (query, text) in [
            (
                r#"{app="x"} |= "y""#.to_owned(),
                "stream selector is missing required matchers [env], labels present in the query \
                 were [app]",
            ),
            (
                format!("sum(rate({good}[5m])) / count(rate({good}[1h]))"),
                "[interval] value exceeds limit: [1h] > [10m]",
            ),
            (
                r#"label_replace(rate({app="x", env="a", z=""}[5m]), "a", "b", "c", "d")"#
                    .to_owned(),
                "max streams matchers per query exceeded, matchers-count > limit (3 > 2)",
            ),
        ] {
            assert_eq!(checked(&limits, &query, true), Err(text.to_owned()), "{query}");
        }
        // An instant query need not be specific.
        assert_eq!(checked(&limits, r#"rate({app="x"}[5m])"#, false), Ok(()));
        let few = Limits { minimum_labels_number: 2, ..Limits::default() };
        let text = "stream selector has less label matchers than required: (present: [env], \
                    number_present: 1, required_number_label_matchers: 2)";
        assert_eq!(checked(&few, r#"{env="x"}"#, true), Err(text.to_owned()));
    }

    #[test]
    fn points_that_are_too_old_are_left_out_and_none_is_moved() {
        for (start, step, oldest, expected) in [
            (100, 10, 50, 100),
            (100, 10, 100, 100),
            (100, 10, 101, 110),
            (100, 10, 130, 130),
            (-5, 7, 1, 2),
            (i64::MIN, i64::MAX, i64::MAX, i64::MAX),
        ] {
            assert_eq!(next_point(start, step, oldest), expected, "{start} {step} {oldest}");
        }
    }

    #[test]
    fn sizes_are_humanised() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (150 << 30, "150 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(humanized(bytes), text);
        }
    }
}

//! `context`: the entries around an entry in its own stream.
//!
//! Guarantees: the entry is found by its place, so stages of a query do not matter, nor how many
//! entries share its time. The answer holds entries of exactly one stream, in the order of paging.
//! An entry that is no longer there is told with 404, and never stands for another one.

use std::sync::Arc;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{
    Direction, EntryPlace, QueryParams, QueryResult, QueryTime, StreamResult,
};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::error::ApiError;
use logsvc_proto::time::parse_time_param_ns;
use logsvc_runtime::Runtime;

use super::Querier;
use super::answer::shared_json_response;
use super::endpoints::{AnswerForm, AnswerOptions, Asked, CATEGORIZE_LABELS, Evaluated, PLACES};
use super::limits::check_entries;
use super::params;
use super::queue::QueryContext;
use crate::metrics::QueryKind;

/// Entries on each side by default.
const SIDE_ENTRIES: u32 = 10;

/// How far the search goes to each side by default, if the limit on the range of queries allows it.
const SIDE_NS: i64 = 30 * 24 * 3_600_000_000_000;

/// What a request asks for.
struct Around {
    place: EntryPlace,
    time_ns: i64,
    /// Most entries on each side.
    before: u32,
    after: u32,
    start_ns: i64,
    end_ns: i64,
}

impl<R: Runtime> Querier<R> {
    pub(crate) async fn context(&self, request: Request) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let answered = self.answer_context(&request).await;
        let (status, read_bytes) = match &answered {
            Ok((_, read_bytes)) => (200, *read_bytes),
            Err(error) => (error.status.as_u16(), 0),
        };
        let took = self.core.runtime.now().since(begun);
        self.core.counters().queries.ended(QueryKind::Limited, true, status, took, read_bytes);
        self.told("loki_api_v1_context", &request, begun, answered)
    }

    async fn answer_context(&self, request: &Request) -> Result<(Response, u64), ApiError> {
        let context = self.query_context(request)?;
        let params = params::of(request)?;
        let around = around(&params, context.limits.max_query_length_ns)?;
        check_entries(&context.limits, around.before.saturating_add(around.after) as usize)?;
        let text = params.get("query").unwrap_or_default();
        let parsed = self.bounded(&context, self.parse_query(text)).await?;
        let Expr::Log(log) = &**parsed else {
            return Err(ApiError::bad_request("query must be a log query: it selects the streams"));
        };
        let log = LogExpr { selector: log.selector.clone(), stages: Vec::new() };
        let expr = Arc::new(Expr::Log(log));
        let work = async {
            let mut after = self.side(&context, text, &expr, &around, Direction::Forward).await?;
            let mut read_bytes = after.stats.total_bytes();
            around.check(&after.result)?;
            let mut before = match around.before {
                0 => None,
                _ => Some(self.side(&context, text, &expr, &around, Direction::Backward).await?),
            };
            if let Some(before) = &mut before {
                read_bytes += before.stats.total_bytes();
                join(&mut before.result, &mut after.result);
                after.warnings.append(&mut before.warnings);
            }
            let flags = [CATEGORIZE_LABELS, PLACES].map(str::to_owned).into();
            let body = self.in_json(after, AnswerForm::V1 { flags }).await?;
            Ok((shared_json_response(Arc::new(body)), read_bytes))
        };
        self.bounded(&context, work).await
    }

    /// The entries on one side; those behind the entry begin with it.
    async fn side(
        &self,
        context: &QueryContext<'_>,
        text: &str,
        expr: &Arc<Expr>,
        around: &Around,
        direction: Direction,
    ) -> Result<Evaluated, ApiError> {
        let (start_ns, end_ns, limit) = match direction {
            Direction::Forward => (around.time_ns, around.end_ns, around.after.saturating_add(1)),
            Direction::Backward => {
                (around.start_ns, around.time_ns.saturating_add(1), around.before)
            }
        };
        let query_params = QueryParams {
            limit: limit as usize,
            direction,
            after: Some(around.place.at(around.time_ns)),
            from_place: direction == Direction::Forward,
            places: true,
            only_stream: Some(around.place.stream_hash),
            categorize_labels: true,
            ..QueryParams::new(QueryTime::Range { start_ns, end_ns, step_ns: 1 })
        };
        let asked = Asked { text, expr, cursor: None };
        let options = AnswerOptions { takes_some_series: false, takes_part: false, reuses: false };
        let prepared = self.prepare(context, asked, query_params, options).await?;
        self.evaluate(&context.tenants, &context.limits, &prepared, || {}).await
    }
}

/// The parameters. `max_range_ns` is the longest range of a query; 0 is no limit.
fn around(params: &Params, max_range_ns: i64) -> Result<Around, ApiError> {
    let place = params.get_non_empty("place").and_then(EntryPlace::parse).ok_or_else(|| {
        ApiError::bad_request(
            "place must be that of an entry in an answer to a query with the header \
             X-Loki-Response-Encoding-Flags: categorize-labels,places",
        )
    })?;
    let time_ns = match params.get_non_empty("time") {
        Some(text) => parse_time_param_ns("time", text)?,
        None => return Err(ApiError::bad_request("time must be that of the entry")),
    };
    let entries = |name: &str| match params.get_non_empty(name) {
        None => Ok(SIDE_ENTRIES),
        Some(text) => text.parse().map_err(|_| {
            ApiError::bad_request(format!("{name} must be a number of entries, and not {text:?}"))
        }),
    };
    let side_ns = if max_range_ns > 0 { SIDE_NS.min(max_range_ns - 1) } else { SIDE_NS };
    let bound_ns = |name: &'static str, default_ns: i64| match params.get_non_empty(name) {
        Some(text) => parse_time_param_ns(name, text),
        None => Ok(default_ns),
    };
    let start_ns = bound_ns("start", time_ns.saturating_sub(side_ns))?;
    let end_ns = bound_ns("end", time_ns.saturating_add(side_ns))?;
    if start_ns > time_ns || end_ns <= time_ns {
        return Err(ApiError::bad_request("time must lie between start and end"));
    }
    Ok(Around {
        place,
        time_ns,
        before: entries("before")?,
        after: entries("after")?,
        start_ns,
        end_ns,
    })
}

impl Around {
    /// Checks that an answer begins with the entry.
    ///
    /// # Errors
    /// It is not there.
    fn check(&self, result: &QueryResult) -> Result<(), ApiError> {
        let first = match result {
            QueryResult::Streams(streams) => streams.first().and_then(|one| one.places.first()),
            _ => None,
        };
        match first {
            Some(place) if *place == self.place => Ok(()),
            _ => Err(ApiError::not_found(
                "no stream that query selects has the entry of this time and place: it may have \
                 been deleted since",
            )),
        }
    }
}

/// Puts the entries of `before`, newest first, in front of those of `after`.
fn join(before: &mut QueryResult, after: &mut QueryResult) {
    let (QueryResult::Streams(before), QueryResult::Streams(after)) = (before, after) else {
        return;
    };
    let (Some(StreamResult { entries, places, .. }), Some(stream)) =
        (before.pop(), after.first_mut())
    else {
        return;
    };
    let entries_behind = std::mem::replace(&mut stream.entries, entries);
    let places_behind = std::mem::replace(&mut stream.places, places);
    stream.entries.reverse();
    stream.places.reverse();
    stream.entries.extend(entries_behind);
    stream.places.extend(places_behind);
}

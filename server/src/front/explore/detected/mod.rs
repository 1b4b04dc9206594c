//! `detected_fields`, `detected_field/{name}/values` and `detected_labels`: fields and labels of
//! the lines and streams of a selector, for people who explore them.
//!
//! Fields are those of the newest lines of a log query, see [`fields`]; labels come
//! from the index alone, see [`labels`].

mod fields;
mod labels;
mod sketch;
mod value;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use logsvc_http::{Params, Request, Response};
use logsvc_logql::engine::{
    FieldReader, QueryParams, QueryResult, QueryTime, ResultEntry, StreamResult,
};
use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::Labels;
use logsvc_proto::encode::{write_detected_fields, write_field_values};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Reservation, Runtime};

use crate::front::explore::Explorer;
use crate::front::query::answer::json_response;
use crate::front::query::errors::bad_selector;
use crate::front::query::limits::{check_entries, check_length};
use crate::front::query::params;
use fields::{FIELDS_MAX, Fields, line_bytes, values_of};

/// Bytes of a field or a value, about.
const FIELD_BYTES: u64 = 4096;

/// How long lines are read before the core is given back.
const SLICE: Duration = Duration::from_millis(1);

impl<R: Runtime> Explorer<R> {
    pub(crate) async fn detected_fields(&self, request: Request) -> Result<Response, ApiError> {
        let params = params::of(&request)?;
        let (lines, limit) = self.sample(&request, &params).await?;
        let mut fields = Fields::new(limit as usize);
        let take = |entry: &ResultEntry, stream: &Labels, reader: &mut FieldReader| {
            fields.add(entry, stream, reader);
        };
        self.read_fields(&lines.streams, take).await;
        let mut out = Vec::new();
        write_detected_fields(&fields.finish(), limit, &mut out);
        json_response(out, &self.core.budgets().queries)
    }

    pub(crate) async fn detected_field_values(
        &self,
        request: Request,
        name: &str,
    ) -> Result<Response, ApiError> {
        let params = params::of(&request)?;
        let (lines, limit) = self.sample(&request, &params).await?;
        let values_max = (limit as usize).min(FIELDS_MAX);
        let mut values = BTreeSet::new();
        let take = |entry: &ResultEntry, _: &Labels, reader: &mut FieldReader| {
            values_of(name, entry, reader, values_max, &mut values);
        };
        self.read_fields(&lines.streams, take).await;
        let mut out = Vec::new();
        write_field_values(values.iter().map(String::as_str), limit, &mut out);
        json_response(out, &self.core.budgets().queries)
    }

    /// The newest lines of the query, and how many fields or values may be named.
    async fn sample(&self, request: &Request, params: &Params) -> Result<(Sample, u32), ApiError> {
        let context = self.querier.query_context(request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(params, now_ns, params::QUERY_RANGE_NS)?;
        let limit = params::field_limit(params)?;
        let line_limit = params::line_limit(params)?;
        params::step(params, range)?;
        let text = params.get("query").unwrap_or_default();
        let read = |text: &str| syntax::parse_log_selector(text).map_err(bad_selector);
        let expr =
            self.querier.parse(text, move |text| read(text).map(|log| Arc::new(Expr::Log(log))));
        let expr = self.querier.bounded(&context, expr).await?;
        let limits = &context.limits;
        check_entries(limits, line_limit as usize)?;
        check_length(limits, range)?;
        let Some(range) = self.querier.visible(limits, range) else {
            return Ok((Sample::default(), limit));
        };
        if let Expr::Log(log) = &**expr {
            context.tenants.check_selector(&log.selector)?;
        }
        let (start_ns, end_ns) = (range.start_ns, range.end_ns);
        let time = QueryTime::Range { start_ns, end_ns, step_ns: 1 };
        let mut query_params = QueryParams::new(time);
        query_params.now_ns = now_ns;
        query_params.limit = line_limit as usize;
        query_params.categorize_labels = true;
        let plan = self.querier.bounded(&context, self.querier.plan(&expr, query_params)).await?;
        let executed = self.querier.run(&context, &context.tenants.merged(), &plan).await?;
        let QueryResult::Streams(streams) = executed.result else {
            return Err(ApiError::internal("a log query has no streams"));
        };
        let held_bytes =
            line_bytes(&streams) + FIELD_BYTES * u64::from(limit).min(FIELDS_MAX as u64);
        let reservation = self
            .core
            .budgets()
            .queries
            .try_reserve(held_bytes)
            .ok_or_else(|| ApiError::too_many_requests("too many outstanding requests", 1))?;
        Ok((Sample { streams, _reservation: Some(reservation) }, limit))
    }

    /// Gives every entry to `take`, and the core to others in between.
    async fn read_fields(
        &self,
        streams: &[StreamResult],
        mut take: impl FnMut(&ResultEntry, &Labels, &mut FieldReader),
    ) {
        let mut slice_end = self.core.runtime.now().after(SLICE);
        for stream in streams {
            let mut reader = FieldReader::new(&stream.labels);
            for entry in &stream.entries {
                take(entry, &stream.labels, &mut reader);
                if self.core.runtime.now() >= slice_end {
                    self.core.runtime.yield_now().await;
                    slice_end = self.core.runtime.now().after(SLICE);
                }
            }
        }
    }
}

/// Lines to look at, with the memory that they take.
#[derive(Default)]
struct Sample {
    streams: Vec<StreamResult>,
    _reservation: Option<Reservation>,
}

//! `/loki/api/v1/export`: every entry of a log query, oldest first, as lines of JSON
//! ([`logsvc_proto::transfer`]) or a Parquet file.
//!
//! Guarantees: an export runs pages, each a query of bounded time and size ([`pages`]). It has a
//! place in the queue only while a page is read, so other queries go on, and it takes the memory of
//! one page, however long it is. The next page is read when the client has taken the one before: a
//! slow client holds the export back, and one that goes away ends it. The last line says that the
//! export is whole. After an error there is a line with its text, and the connection ends without
//! the mark of a complete body.

mod encode;
pub(super) mod pages;
#[cfg(feature = "parquet")]
mod parquet;

use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use logsvc_http::{ChunkError, ChunkSource, Params, Request, Response};
use logsvc_logql::engine::{Direction, QueryTime};
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::error::ApiError;
use logsvc_proto::transfer::{TransferLine, write_control};
use logsvc_runtime::Runtime;

use super::Querier;
use super::answer::AnswerBody;
use super::cursor::CursorScope;
use super::endpoints::kind_of;
use super::errors::client_gone;
use super::limits::{check_enabled, check_query, check_tenant_matchers};
use super::params;
use encode::Form;
use pages::{Page, Pages};

/// Size of the pieces that pages go out in.
const PIECE_BYTES: usize = 64 << 10;

impl<R: Runtime> Querier<R> {
    /// See the module.
    pub(crate) async fn export(&self, request: Request) -> Result<Response, ApiError> {
        let begun = self.core.runtime.now();
        let answered = self.begin_export(&request).await;
        self.told("loki_api_v1_export", &request, begun, answered)
    }

    /// The answer, whose first page is there, and the bytes that were read for that.
    async fn begin_export(&self, request: &Request) -> Result<(Response, u64), ApiError> {
        let context = self.query_context(request)?;
        let params = params::of(request)?;
        let now_ns = self.core.runtime.unix_nanos();
        let range = params::time_range(&params, now_ns, params::QUERY_RANGE_NS)?;
        let says_cursors = params::flag(&params, "cursors")?;
        let format = params.get_non_empty("format").unwrap_or("ndjson");
        let text = params.get("query").unwrap_or_default();
        let expr = self.bounded(&context, self.parse_query(text)).await?;
        if matches!(**expr, Expr::Metric(_)) {
            return Err(ApiError::bad_request(
                "an export is of a log query, not of a metric query",
            ));
        }
        let (tenants, limits) = (&context.tenants, &context.limits);
        check_enabled(limits)?;
        // Only what the query itself says: an export may have any number of entries and any range.
        let no_time = QueryTime::Range { start_ns: 0, end_ns: 0, step_ns: 1 };
        check_query(limits, &expr, no_time, 0)?;
        check_tenant_matchers(tenants, &expr)?;
        if limits.blocked_queries.blocks(text, kind_of(&expr).word()) {
            return Err(ApiError::bad_request("query blocked by policy"));
        }
        let query = expr.to_string();
        let scope = CursorScope { tenants, query: &query, direction: Direction::Forward };
        let after = params.get_non_empty("cursor").map(|text| scope.parse(text)).transpose()?;
        let form = Form::new(format, says_cursors)?;
        let part_entries = part_entries(&params, &form)?;
        let response = form.response();
        let querier = self.me.upgrade().ok_or_else(stopping)?;
        let (start_ns, end_ns) = (range.start_ns, range.end_ns);
        let mut time = QueryTime::Range { start_ns, end_ns, step_ns: 1 };
        let is_visible = self.look_back(limits, &expr, &mut time);
        let QueryTime::Range { start_ns, .. } = time else { unreachable!("it is a range") };
        let start_ns = if is_visible { start_ns } else { end_ns };
        let (tenants, limits) = (tenants.clone(), Arc::clone(limits));
        let mut export = Export {
            pages: Pages::new(querier, tenants, limits, expr, query, (start_ns, end_ns), after),
            form,
            part_entries,
            entries: 0,
            current: None,
            sent_bytes: 0,
            next: Next::Page,
        };
        // Its failure is still an answer of its own.
        let page = match select(pin!(export.pages.next()), pin!(request.disconnect.wait())).await {
            Either::Left((page, _)) => page?,
            Either::Right(_) => return Err(client_gone()),
        };
        let read_bytes = page.as_ref().map_or(0, |page| page.read_bytes);
        export.take(page).await?;
        Ok((response.with_chunks(export), read_bytes))
    }
}

/// How many entries a part of the export has, if it is one.
fn part_entries(params: &Params, form: &Form) -> Result<Option<u64>, ApiError> {
    let Some(text) = params.get_non_empty("part_entries") else { return Ok(None) };
    if form.has_lines() {
        return Err(ApiError::bad_request("part_entries is for format=parquet"));
    }
    match text.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(ApiError::bad_request(format!("part_entries {text:?} is no number above 0"))),
    }
}

/// The node goes down.
fn stopping() -> ApiError {
    ApiError::unavailable("the server stops")
}

/// What follows the bytes that are there.
enum Next {
    Page,
    Nothing,
    /// The export is cut off, with this text.
    Failure(String),
}

/// An export on its way to its client.
struct Export<R: Runtime> {
    pages: Pages<R>,
    form: Form,
    /// After so many entries the rest is left to another request.
    part_entries: Option<u64>,
    entries: u64,
    current: Option<AnswerBody>,
    sent_bytes: usize,
    next: Next,
}

impl<R: Runtime> Export<R> {
    /// Makes the bytes of a page, or of the end if there is none.
    async fn take(&mut self, page: Option<Page>) -> Result<(), ApiError> {
        let budget = &self.pages.querier.core.budgets().queries;
        let body = match page {
            Some(page) => {
                self.entries += page.entries;
                let cursor = self.pages.cursor();
                self.form.encode(&self.pages.querier, page, cursor).await?
            }
            None => {
                self.next = Next::Nothing;
                let rest = self.pages.cursor().filter(|_| !self.pages.is_over());
                AnswerBody::new(self.form.end(self.entries, rest)?, budget)?
            }
        };
        (self.current, self.sent_bytes) = (Some(body), 0);
        Ok(())
    }

    /// The next bytes of what is there.
    fn piece(&mut self) -> Option<Vec<u8>> {
        let rest = self.current.as_ref()?.bytes().get(self.sent_bytes..)?;
        let piece = rest[..rest.len().min(PIECE_BYTES)].to_vec();
        if piece.is_empty() {
            self.current = None;
            return None;
        }
        self.sent_bytes += piece.len();
        Some(piece)
    }

    async fn fill(&mut self) -> Result<(), ApiError> {
        let is_full = self.part_entries.is_some_and(|most| self.entries >= most);
        let page = if is_full { None } else { self.pages.next().await? };
        self.take(page).await
    }
}

impl<R: Runtime> ChunkSource for Export<R> {
    fn next(&mut self) -> LocalBoxFuture<'_, Option<Result<Vec<u8>, ChunkError>>> {
        async move {
            loop {
                if let Some(piece) = self.piece() {
                    return Some(Ok(piece));
                }
                match &self.next {
                    Next::Nothing => return None,
                    Next::Failure(text) => return Some(Err(ChunkError(text.clone()))),
                    Next::Page => {}
                }
                if let Err(error) = self.fill().await {
                    self.current = None;
                    let text = format!("the export was cut off: {}", error.message.trim_end());
                    self.next = Next::Failure(text);
                    if !self.form.has_lines() {
                        continue;
                    }
                    let mut line = Vec::new();
                    let text = error.message.trim_end().to_owned();
                    write_control(&TransferLine::Failed(text), &mut line);
                    return Some(Ok(line));
                }
            }
        }
        .boxed_local()
    }
}

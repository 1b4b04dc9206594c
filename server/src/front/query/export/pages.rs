//! The pages of an export.
//!
//! Guarantees: a page has at most [`PAGE_ENTRIES_MAX`] entries, and about [`PAGE_BYTES`]. It covers
//! a span of time that is made shorter when a page takes long, runs into the time limit of queries
//! or finds too little memory, and longer when it was quick: neither a filter that nothing matches
//! nor years without entries need more time or memory than one query may take. All entries are
//! visited once, in the order of their times ([`Place`]); those that come meanwhile may be missing.
//!
//! A node that is busy is asked again for a while. Failures are those of a query.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_http::Disconnect;
use logsvc_logql::engine::{Allowance, Direction, Place, QueryParams, QueryResult, QueryTime};
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::super::Querier;
use super::super::compile::Parsed;
use super::super::cursor::CursorScope;
use super::super::endpoints::kind_of;
use super::super::execute::Executed;
use super::super::queue::QueueKind;
use super::super::tenants::Tenants;
use crate::config::Limits;

/// The most entries of a page, of the first page, and of the smallest.
const PAGE_ENTRIES_MAX: usize = 32 << 10;
const PAGE_ENTRIES_FIRST: usize = 4 << 10;
const PAGE_ENTRIES_MIN: usize = 16;
/// Bytes of results that a page should have.
const PAGE_BYTES: usize = 8 << 20;

/// The first span of time, and the shortest.
const SPAN_FIRST_NS: i64 = 3_600_000_000_000;
const SPAN_MIN_NS: i64 = 1_000_000;
/// A page that is read in less time has a longer span after it; one that takes longer, a shorter.
const QUICK: Duration = Duration::from_millis(300);
const SLOW: Duration = Duration::from_secs(5);

/// After so long there is a page, also without entries: its cursor keeps what was done.
const EMPTY_PAGE_AFTER: Duration = Duration::from_secs(10);

/// How long a node may be busy, and the pauses between two tries.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A part of the answer.
pub(super) struct Page {
    pub(super) result: QueryResult,
    pub(super) entries: u64,
    pub(super) read_bytes: u64,
    pub(super) warnings: Vec<String>,
    /// For the result.
    pub(super) memory: Option<Box<dyn Allowance>>,
}

/// See the module.
pub(super) struct Pages<R: Runtime> {
    pub(super) querier: Rc<Querier<R>>,
    tenants: Tenants,
    limits: Arc<Limits>,
    expr: Parsed<Arc<Expr>>,
    /// As it is printed.
    query: String,
    end_ns: i64,
    /// Everything before this time was visited, and everything up to this place.
    start_ns: i64,
    after: Option<Place>,
    span_ns: i64,
    entries: usize,
}

impl<R: Runtime> Pages<R> {
    pub(super) fn new(
        querier: Rc<Querier<R>>,
        tenants: Tenants,
        limits: Arc<Limits>,
        expr: Parsed<Arc<Expr>>,
        query: String,
        times_ns: (i64, i64),
        after: Option<Place>,
    ) -> Pages<R> {
        let (start_ns, end_ns) = times_ns;
        let start_ns = after.map_or(start_ns, |place| place.timestamp_ns.max(start_ns));
        let (span_ns, entries) = (SPAN_FIRST_NS, PAGE_ENTRIES_FIRST);
        Pages { querier, tenants, limits, expr, query, end_ns, start_ns, after, span_ns, entries }
    }

    /// The cursor of everything that was visited; none before the first page.
    pub(super) fn cursor(&self) -> Option<String> {
        let direction = Direction::Forward;
        let scope = CursorScope { tenants: &self.tenants, query: &self.query, direction };
        self.after.map(|place| scope.print(&place))
    }

    /// Whether everything was visited.
    pub(super) fn is_over(&self) -> bool {
        self.start_ns >= self.end_ns
    }

    /// The next page; none after the last. A page without entries is there to tell its cursor.
    pub(super) async fn next(&mut self) -> Result<Option<Page>, ApiError> {
        let runtime = self.querier.core.runtime.clone();
        let first = runtime.now();
        let (mut waited, mut pause) = (Duration::ZERO, Duration::ZERO);
        while self.start_ns < self.end_ns {
            if self.querier.core.node.stop.is_triggered() {
                return Err(super::stopping());
            }
            let span = self.span();
            let begun = runtime.now();
            match self.ask(span.clone()).await {
                Ok(executed) => {
                    let took = runtime.now().since(begun);
                    let page = page_of(executed, |last| self.advance(span.end, last, took));
                    self.learn(&page);
                    let is_late = runtime.now().since(first) > EMPTY_PAGE_AFTER;
                    if page.entries > 0 || !page.warnings.is_empty() || is_late {
                        return Ok(Some(page));
                    }
                }
                Err(error) => match error.status.as_u16() {
                    // It takes too long, or too much memory.
                    400 | 413 | 504 if self.shrink(&span) => {}
                    429 | 503 if waited < PATIENCE => {
                        pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
                        runtime.sleep_until(runtime.now().after(pause)).await;
                        waited += pause;
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }

    /// The time of the next page.
    fn span(&self) -> Range<i64> {
        let mut span_ns = self.span_ns;
        if self.limits.max_query_length_ns > 0 {
            span_ns = span_ns.min(self.limits.max_query_length_ns);
        }
        self.start_ns..self.start_ns.saturating_add(span_ns.max(1)).min(self.end_ns)
    }

    async fn ask(&self, span: Range<i64>) -> Result<Executed, ApiError> {
        let Pages { querier, tenants, limits, .. } = self;
        // The source is dropped when the client goes away.
        let here = Disconnect::new();
        let context = querier.context_within(tenants.clone(), Arc::clone(limits), &here);
        let (start_ns, end_ns) = (span.start, span.end);
        let time = QueryTime::Range { start_ns, end_ns, step_ns: 1_000_000_000 };
        let mut params = QueryParams::new(time);
        params.limit = self.entries;
        params.direction = Direction::Forward;
        params.after = self.after;
        params.categorize_labels = true;
        params.now_ns = querier.core.runtime.unix_nanos();
        let begun = querier.core.runtime.now();
        let work = async {
            let plan = querier.plan(&self.expr, params).await?;
            let permit = querier.permit(tenants, limits, QueueKind::Query).await?;
            let version = querier.core.node.deletions.version();
            querier.execute(&tenants.labelled(), &plan, version, &permit).await
        };
        let executed = querier.bounded(&context, work).await;
        let (status, read_bytes) = match &executed {
            Ok(executed) => (200, executed.stats().total_bytes()),
            Err(error) => (error.status.as_u16(), 0),
        };
        let took = querier.core.runtime.now().since(begun);
        let kind = kind_of(&self.expr);
        querier.core.counters().queries.ended(kind, true, status, took, read_bytes);
        executed
    }

    /// Goes on behind the last entry of a page, or behind its span if there are no more.
    fn advance(&mut self, span_end_ns: i64, last: Option<Place>, took: Duration) {
        match last {
            Some(place) => {
                self.start_ns = self.start_ns.max(place.timestamp_ns);
                self.after = Some(place);
            }
            None => {
                self.start_ns = span_end_ns;
                // Behind all entries that there may be before the end of the span.
                self.after = Some(Place {
                    timestamp_ns: span_end_ns.saturating_sub(1),
                    stream_hash: u64::MAX,
                    entry_hash: u64::MAX,
                    ordinal: u32::MAX,
                });
                if took < QUICK {
                    self.span_ns = self.span_ns.saturating_mul(2);
                }
            }
        }
        if took > SLOW {
            self.span_ns = (self.span_ns / 2).max(SPAN_MIN_NS);
        }
    }

    /// Sets the number of entries by the bytes of a page.
    fn learn(&mut self, page: &Page) {
        if page.entries == 0 {
            return;
        }
        let entry_bytes = (page.result.held_bytes() / page.entries as usize).max(1);
        // Only a full page tells that there is more to read at once.
        let is_full = page.entries >= self.entries as u64;
        let most = if is_full { self.entries.saturating_mul(2) } else { self.entries };
        let wanted = (PAGE_BYTES / entry_bytes).min(most);
        self.entries = wanted.clamp(PAGE_ENTRIES_MIN, PAGE_ENTRIES_MAX);
    }

    /// Asks for less. False if there is no less.
    fn shrink(&mut self, span: &Range<i64>) -> bool {
        let was = (self.entries, self.span_ns);
        self.entries = (self.entries / 4).max(PAGE_ENTRIES_MIN);
        self.span_ns = ((span.end - span.start) / 4).max(SPAN_MIN_NS).min(self.span_ns);
        (self.entries, self.span_ns) != was
    }
}

fn page_of(executed: Executed, advance: impl FnOnce(Option<Place>)) -> Page {
    let stats = executed.stats();
    let warnings = executed.warnings();
    let Executed { result, last, memory, .. } = executed;
    advance(last);
    let entries = match &result {
        QueryResult::Streams(streams) => streams.iter().map(|s| s.entries.len() as u64).sum(),
        _ => 0,
    };
    Page { result, entries, read_bytes: stats.total_bytes(), warnings, memory }
}

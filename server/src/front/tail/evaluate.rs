//! Runs a query's pipeline over new entries.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_logql::engine::{
    Allowance, Direction, LeafExecutor, MergeState, Plan, QueryParams, QueryResult, QueryTime,
    Stop, StreamResult,
};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_runtime::{Account, Budget, Denied, Grant};
use logsvc_shards::tail::TailPart;

use super::frame::{Entry, Form};

/// Entries that one run takes. Among entries of one time each is compared with the
/// others, so runs are short.
pub(super) const RUN_ENTRIES: usize = 1024;

/// What one run may hold: a thousand entries with much that stages make of them.
const RUN_MAX_BYTES: u64 = 64 << 20;

/// Memory of the budget for queries, for one run.
#[derive(Debug)]
struct RunAllowance(Grant);

impl Allowance for RunAllowance {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.0.grow(bytes).map_err(|denied| match denied {
            Denied::TooLarge { max_bytes } => Stop::TooLarge { max_bytes },
            Denied::Busy => Stop::Busy,
        })
    }

    fn give_back(&mut self, bytes: u64) {
        self.0.shrink_to(self.0.bytes().saturating_sub(bytes));
    }

    fn look(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(RunAllowance(self.0.sibling()))
    }
}

/// Why a tail ends whose run had to.
fn stopped(stop: Stop) -> String {
    match stop {
        Stop::TooLarge { max_bytes } => {
            format!("the query holds more than {max_bytes} bytes of intermediate results")
        }
        Stop::Busy | Stop::Ended => "there is no memory for the query now".to_owned(),
    }
}

/// The pipeline of a tail, ready to run.
pub(super) struct Live {
    expr: Expr,
    params: QueryParams,
    plan: Plan,
    /// Whether a template asks for the time.
    reads_clock: bool,
    /// Whether entries show the labels of their streams only.
    streams_only: bool,
}

impl Live {
    /// # Errors
    /// The query cannot be evaluated.
    pub(super) fn new(log: &LogExpr, form: Form, now_ns: i64) -> Result<Live, String> {
        let expr = Expr::Log(log.clone());
        // As the reference shows them: without stages, metadata stays hidden.
        let streams_only = log.stages.is_empty() && form != Form::Categorized;
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams {
            now_ns,
            limit: usize::MAX,
            direction: Direction::Forward,
            categorize_labels: streams_only || form == Form::Categorized,
            ..QueryParams::new(time)
        };
        let plan = Plan::new(&expr, &params).map_err(|error| error.to_string())?;
        let reads_clock = expr.to_string().contains("now");
        Ok(Live { expr, params, plan, reads_clock, streams_only })
    }

    /// Whether entries show the labels of their streams only.
    #[cfg(test)]
    pub(super) fn shows_streams_only(&self) -> bool {
        self.streams_only
    }

    /// Runs the pipeline over parts of at most [`RUN_ENTRIES`], or of one part; gives
    /// the entries that pass, in order of time. What it holds meanwhile is of `queries`.
    ///
    /// # Errors
    /// The query fails, or there is no memory for it.
    pub(super) fn run(
        &mut self,
        parts: &[TailPart],
        now_ns: i64,
        queries: &Budget,
    ) -> Result<Vec<Entry>, String> {
        if self.reads_clock {
            self.params.now_ns = now_ns;
            let plan = Plan::new(&self.expr, &self.params);
            self.plan = plan.map_err(|error| error.to_string())?;
        }
        let account = Account::open(queries, 0, RUN_MAX_BYTES.min(queries.max_bytes()));
        let account = account.ok_or_else(|| stopped(Stop::Busy))?;
        let mut merge = MergeState::new(&self.plan);
        // What is merged is there until the entries are.
        let mut held = Vec::new();
        for leaf in self.plan.leaves() {
            let allowance = Box::new(RunAllowance(account.grant()));
            let mut executor =
                LeafExecutor::with_allowance(leaf, allowance).map_err(|error| error.to_string())?;
            for (arrival, part) in parts.iter().enumerate() {
                let mut stream = executor.stream(part.block.labels());
                part.block.with_columns(arrival as u64, |columns| {
                    executor.block(&mut stream, columns);
                });
            }
            let (result, memory) = executor.finish_counted().map_err(stopped)?;
            held.push(memory);
            merge.add(result);
        }
        match merge.finish() {
            Ok(QueryResult::Streams(streams)) => Ok(flatten(streams, self.streams_only)),
            Ok(_) => Err("only log selector is supported".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The entries of a result in order of time, oldest first. Those of a stream with equal
/// times keep their order.
pub(super) fn flatten(streams: Vec<StreamResult>, streams_only: bool) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(streams.iter().map(|s| s.entries.len()).sum());
    for StreamResult { labels, entries: of_stream } in streams {
        let labels = Arc::new(labels);
        entries.extend(of_stream.into_iter().map(|entry| Entry {
            timestamp_ns: entry.timestamp_ns,
            labels: Arc::clone(&labels),
            line: entry.line,
            categories: if streams_only { None } else { entry.categories },
        }));
    }
    entries.sort_by_key(|entry| entry.timestamp_ns);
    entries
}

/// Entries that are shared from now on.
pub(super) fn shared(entries: Vec<Entry>) -> Vec<Rc<Entry>> {
    entries.into_iter().map(Rc::new).collect()
}

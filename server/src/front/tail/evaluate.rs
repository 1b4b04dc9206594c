//! Runs a query's pipeline over new entries.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_logql::engine::{
    Allowance, Direction, LeafExecutor, LeafPlan, MergeState, Plan, QueryParams, QueryResult,
    QueryTime, StreamResult,
};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_shards::deletion::HiddenEntries;
use logsvc_shards::tail::TailPart;

use super::frame::{Entry, Form};

/// Entries that one run takes. Among entries of one time each is compared with the
/// others, so runs are short.
pub(super) const RUN_ENTRIES: usize = 1024;

/// The pipeline of a tail, ready to run.
pub(super) struct TailPipeline {
    expr: Expr,
    params: QueryParams,
    plan: Plan,
    /// Whether a template asks for the time.
    reads_clock: bool,
    /// Whether entries show the labels of their streams only.
    streams_only: bool,
}

impl TailPipeline {
    /// `places`: entries tell their places.
    ///
    /// # Errors
    /// The query cannot be evaluated.
    pub(super) fn new(
        log: &LogExpr,
        form: Form,
        places: bool,
        now_ns: i64,
    ) -> Result<TailPipeline, String> {
        let expr = Expr::Log(log.clone());
        let params = QueryParams { places, ..Self::params(log, form, now_ns) };
        let streams_only = shows_streams_only(log, form);
        let plan = Plan::new(&expr, &params).map_err(|error| error.to_string())?;
        let reads_clock = expr.to_string().contains("now");
        Ok(TailPipeline { expr, params, plan, reads_clock, streams_only })
    }

    /// The parameters for the engine.
    pub(super) fn params(log: &LogExpr, form: Form, now_ns: i64) -> QueryParams {
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        QueryParams {
            now_ns,
            limit: usize::MAX,
            direction: Direction::Forward,
            categorize_labels: shows_streams_only(log, form) || form == Form::Categorized,
            ..QueryParams::new(time)
        }
    }

    /// Whether entries show the labels of their streams only.
    #[cfg(test)]
    pub(super) fn shows_streams_only(&self) -> bool {
        self.streams_only
    }

    /// A run over the next parts.
    ///
    /// # Errors
    /// The query fails.
    pub(super) fn run(&mut self, now_ns: i64) -> Result<PipelineRun, String> {
        if self.reads_clock {
            self.params.now_ns = now_ns;
            let plan = Plan::of_checked(&self.expr, &self.params);
            self.plan = plan.map_err(|error| error.to_string())?;
        }
        Ok(PipelineRun { plan: self.plan.clone(), streams_only: self.streams_only })
    }

    /// Whether a run over these parts belongs on a side thread.
    pub(super) fn is_long(&self, parts: &[TailPart]) -> bool {
        let entries = parts.iter().map(|part| part.block.entry_count()).sum::<usize>();
        let bytes = parts.iter().map(|part| part.block.held_bytes()).sum::<usize>();
        let is_light =
            |leaf: &LeafPlan| bytes <= leaf.core_batch_bytes() && leaf.estimate().is_short();
        entries > RUN_ENTRIES || !self.plan.leaves().iter().all(is_light)
    }
}

/// A run of a tail's pipeline.
#[derive(Debug)]
pub(super) struct PipelineRun {
    plan: Plan,
    streams_only: bool,
}

impl PipelineRun {
    /// The entries of parts that pass, in order of time, with no more memory than is allowed.
    ///
    /// # Errors
    /// The query fails.
    pub(super) fn over(
        &self,
        parts: &[TailPart],
        allowance: &dyn Allowance,
    ) -> Result<Vec<Entry>, String> {
        let mut merge = MergeState::with_allowance(&self.plan, allowance.sibling(), 0);
        // The memory of parts is held until the entries are made.
        let mut held = Vec::new();
        for leaf in self.plan.leaves() {
            let executor = LeafExecutor::with_allowance(leaf, allowance.sibling());
            let mut executor = executor.map_err(|error| error.to_string())?;
            let mut hidden = HiddenEntries::new(allowance.sibling());
            for (arrival, part) in parts.iter().enumerate() {
                let block = &part.block;
                if block.may_hide() && !executor.admits(2 * block.held_bytes()) {
                    break;
                }
                let mut stream = executor.stream(block.labels());
                let shown = block.with_shown_columns(arrival as u64, &mut hidden, |columns| {
                    executor.block(&mut stream, columns);
                });
                shown.map_err(|error| error.to_string())?;
            }
            let (result, memory) = executor.finish_counted().map_err(|stop| stop.to_string())?;
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

/// As the reference shows them: without stages, metadata stays hidden.
pub(super) fn shows_streams_only(log: &LogExpr, form: Form) -> bool {
    log.stages.is_empty() && form != Form::Categorized
}

/// The entries of a result in order of time, oldest first. Entries of a stream with equal times
/// keep their order.
pub(super) fn flatten(streams: Vec<StreamResult>, streams_only: bool) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(streams.iter().map(|s| s.entries.len()).sum());
    for StreamResult { labels, entries: of_stream, places } in streams {
        let labels = Arc::new(labels);
        let mut places = places.into_iter();
        entries.extend(of_stream.into_iter().map(|entry| Entry {
            place: places.next(),
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

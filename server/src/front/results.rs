//! Answers to metric range queries are kept, and used again step by step.
//!
//! A dashboard asks the same again and again, each time for a few steps more. Of what is
//! asked, the steps that are known and of whose entries none has changed since are taken
//! from the last answer to the same query; the others run, from the first to the last of
//! them. What is put together so is kept for the next time.
//!
//! Guarantees: an answer is the one that a run over all steps would give. The stamp of the
//! changes ([`logsvc_shards::changes`]) is taken before anything is read, so whatever
//! changes while a query runs is found out when its answer is to be used; late entries,
//! retention and whatever else changes what is stored are no special cases. An answer that
//! lacks something that could not be read is not kept.
//!
//! What is kept never takes more than its budget, and one answer an eighth of it at most.

use std::ops::Range;

use logsvc_logql::engine::{KnownSteps, LeafStats, Plan, QueryParams, QueryResult, Steps};
use logsvc_logql::syntax::ast::Expr;
use logsvc_proto::encode::CacheStats;
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Runtime, SharedCache};
use logsvc_shards::changes::Stamp;
use logsvc_shards::messages::{ScanStats, TimeRange};

use super::Front;
use super::execute::{Executed, denied};
use super::queue::Turn;
use super::tenants::Tenants;
use crate::metrics::add;

/// One answer takes no more than this part of the budget.
const LARGEST_PART: u64 = 8;

/// Answers of the whole node.
pub(crate) type Results = SharedCache<ResultKey, KnownResult>;

/// What the steps of an answer depend on besides the data and their times.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ResultKey {
    tenants: Tenants,
    /// As it is printed.
    query: String,
    step_ns: i64,
    phase_ns: i64,
    /// The order of magnitude of the number of steps: the last hour and the last day, seen
    /// side by side, do not push each other out.
    steps_log2: u32,
    /// See [`crate::app::Boot::cache_generation`].
    generation: i64,
}

/// An answer, and what had changed when its entries were read.
#[derive(Debug)]
pub(crate) struct KnownResult {
    steps: KnownSteps,
    stamp: Stamp,
}

/// A query whose answer may be put together from steps.
pub(super) struct ByStep {
    pub(super) steps: Steps,
    key: ResultKey,
    expr: Expr,
    params: QueryParams,
}

impl ByStep {
    /// How to ask for some of the steps; `None` if the plan does not go by steps.
    pub(super) fn of(
        tenants: &Tenants,
        expr: &Expr,
        params: &QueryParams,
        plan: &Plan,
        generation: i64,
    ) -> Option<ByStep> {
        let steps = plan.steps()?;
        let key = ResultKey {
            tenants: tenants.clone(),
            query: expr.to_string(),
            step_ns: steps.step_ns(),
            phase_ns: steps.phase_ns(),
            steps_log2: steps.count().ilog2(),
            generation,
        };
        // The steps are where they are to be.
        let params = QueryParams { align_to_step: false, ..params.clone() };
        Some(ByStep { steps, key, expr: expr.clone(), params })
    }

    fn plan_of(&self, steps: Range<u32>) -> Result<Plan, ApiError> {
        let params = QueryParams { time: self.steps.time_of(steps), ..self.params.clone() };
        Plan::new(&self.expr, &params).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

impl<R: Runtime> Front<R> {
    /// [`Front::execute`], but for the steps that are known.
    ///
    /// # Errors
    /// As for [`Front::execute`].
    pub(super) async fn execute_by_step(
        &self,
        tenants: &Tenants,
        plan: &Plan,
        by_step: &ByStep,
        turn: &Turn,
    ) -> Result<Executed, ApiError> {
        let (scope, wanted) = (tenants.labelled(), &by_step.steps);
        let all = 0..wanted.count();
        let (start_ns, end_ns) = wanted.entry_bounds_ns(all.clone());
        // Before anything is read: what changes from now on makes another stamp.
        let stamp = self.changes.stamp(scope.tenants(), TimeRange { start_ns, end_ns });
        let Some(stamp) = stamp else { return self.execute(&scope, plan, turn).await };
        let known = self.results.get(&by_step.key);
        let missing = known.as_ref().map_or(all.clone(), |known| {
            known.steps.missing(wanted, &self.changes.since(&known.stamp))
        });
        let known = known.filter(|_| missing != all);
        let mut executed = match &known {
            None => self.execute(&scope, plan, turn).await?,
            Some(_) if missing.is_empty() => Executed::known(turn),
            Some(_) => self.execute(&scope, &by_step.plan_of(missing.clone())?, turn).await?,
        };
        let cache = &mut executed.result_cache;
        cache.lookups = 1;
        if let Some(known) = &known {
            let count = u64::from(wanted.count()) - missing.len() as u64;
            cache.hits = 1;
            cache.served_ns = count.saturating_mul(wanted.step_ns().unsigned_abs());
            add(&self.counters().result_cache_hits, 1);
            add(&self.counters().result_cache_steps, count);
            self.complete(&mut executed, known, by_step, &missing)?;
        } else {
            add(&self.counters().result_cache_misses, 1);
        }
        if !missing.is_empty() && executed.scan.unreadable_parts == 0 {
            executed.result_cache.stored = u64::from(self.keep(by_step, &executed.result, stamp));
        }
        Ok(executed)
    }

    /// Adds the steps that are known to those that were missing.
    fn complete(
        &self,
        executed: &mut Executed,
        known: &KnownResult,
        by_step: &ByStep,
        missing: &Range<u32>,
    ) -> Result<(), ApiError> {
        let QueryResult::Matrix(fresh) = &mut executed.result else { return Ok(()) };
        let bytes = known.steps.completed_bytes(fresh);
        if let Some(memory) = &mut executed.memory {
            memory.grow(bytes).map_err(denied)?;
        }
        let (wanted, max_series) = (&by_step.steps, by_step.params.limits.max_series);
        let whole = known.steps.completed(wanted, missing, std::mem::take(fresh), max_series);
        *fresh = whole.map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(())
    }

    /// Keeps an answer for the next time. Returns whether there is room for it.
    fn keep(&self, by_step: &ByStep, result: &QueryResult, stamp: Stamp) -> bool {
        let QueryResult::Matrix(series) = result else { return false };
        let key = by_step.key.clone();
        let bytes = KnownSteps::bytes_of(series)
            + (stamp.held_bytes() + size_of::<ResultKey>() + 2 * key.query.len()) as u64;
        if bytes > self.results.budget().max_bytes() / LARGEST_PART {
            return false;
        }
        let steps = KnownSteps::new(by_step.steps, series.clone());
        self.results.put(key, KnownResult { steps, stamp }, bytes)
    }
}

impl Executed {
    /// What has asked no shard: an empty answer, to be completed.
    fn known(turn: &Turn) -> Executed {
        Executed {
            result: QueryResult::Matrix(Vec::new()),
            leaf: LeafStats::default(),
            scan: ScanStats::default(),
            shards: 0,
            queue_time_ns: turn.waited.as_nanos() as u64,
            exec_time_ns: 0,
            wait_time_ns: 0,
            memory: Some(turn.account.grant()),
            result_cache: CacheStats::default(),
        }
    }
}

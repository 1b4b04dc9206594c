//! Parses and plans queries: from a text to a tree, and from the tree to a plan.
//!
//! A text of 130 kilobytes may hold ten thousand patterns, whose tree takes megabytes and whose
//! plan takes seconds. Side threads do the long work, see [`Estimate`].
//!
//! Guarantees: memory is reserved before it is taken, and held as long as the tree or plan lives;
//! planning stops when the request ends. Failures: the query is bad, or there is no memory for it.

use std::ops::Deref;
use std::sync::Arc;

use logsvc_logql::engine::{CompiledMatcher, Estimate, Plan, PlanError, QueryParams};
use logsvc_logql::syntax::ast::{Expr, Selector};
use logsvc_logql::syntax::{self, ParseError};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Account, Reservation, Runtime, SideQueue};
use logsvc_shards::scan::PartAllowance;
use logsvc_shards::types::Cancellation;

use super::Querier;
use super::answer::check_size;
use super::errors::{bad_selector, unplanned};
use super::execute::CancelOnDrop;
use super::leaves::inline_or_offloaded;
use crate::front::core::errors::too_busy;

/// Trees of up to so many bytes are not counted: a connection needs about as much for its
/// buffers.
const SMALL_MAX_BYTES: u64 = 64 << 10;

/// The value that a text was parsed to, and the memory that the value holds.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    value: T,
    /// `None` if it is small.
    memory: Option<Reservation>,
}

impl<T> Parsed<T> {
    /// The value and its memory.
    pub(crate) fn into_parts(self) -> (T, Option<Reservation>) {
        (self.value, self.memory)
    }

    /// The same memory with another value.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Parsed<U> {
        Parsed { value: change(self.value), memory: self.memory }
    }
}

impl<T, E> Parsed<Result<T, E>> {
    /// The value, or the error.
    pub(crate) fn transposed(self) -> Result<Parsed<T>, E> {
        Ok(Parsed { value: self.value?, memory: self.memory })
    }
}

impl<T> Deref for Parsed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<R: Runtime> Querier<R> {
    /// Parses the text of a query with `read`, on a side thread if that takes long.
    ///
    /// # Errors
    /// Errors of `read`, or there is no memory for the value.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        text: &str,
        read: impl FnOnce(&str) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<Parsed<T>, ApiError> {
        // Texts that are too long are refused before they are parsed.
        let is_refused = text.len() >= syntax::MAX_QUERY_LEN_BYTES;
        let estimate = if is_refused { Estimate::default() } else { Estimate::of_text(text) };
        let memory = self.reserved(estimate.bytes)?;
        if estimate.is_short() {
            return read(text).map(|value| Parsed { value, memory });
        }
        let (text, cancellation) = (text.to_owned(), CancelOnDrop(Cancellation::default()));
        let is_needed = cancellation.0.clone();
        let work = move || {
            if is_needed.is_cancelled() {
                return Err(ApiError::unavailable("nobody waits for this query any more"));
            }
            read(&text).map(|value| Parsed { value, memory })
        };
        self.core.runtime.offload_to(SideQueue::Queries, work).await
    }

    /// Reads a selector.
    ///
    /// # Errors
    /// As for [`Querier::parse`].
    pub(crate) async fn parse_selector(&self, text: &str) -> Result<Parsed<Selector>, ApiError> {
        self.parse(text, |text| syntax::parse_selector(text).map_err(bad_selector)).await
    }

    /// The matchers of a selector that `read` makes of a text, compiled.
    ///
    /// # Errors
    /// As for [`Querier::parse`].
    pub(crate) async fn parse_matchers(
        &self,
        text: &str,
        read: impl FnOnce(&str) -> Result<Selector, ApiError> + Send + 'static,
    ) -> Result<Parsed<Vec<CompiledMatcher>>, ApiError> {
        let selector = self.parse(text, read).await?;
        let estimate = Estimate::of_matchers(&selector.matchers);
        let memory = self.reserved(estimate.bytes)?;
        let compile = move || compiled(&selector).map(|value| Parsed { value, memory });
        let queue = (!estimate.is_short()).then_some(SideQueue::Queries);
        inline_or_offloaded(&self.core.runtime, queue, compile).await
    }

    /// Memory for compiled patterns, unless they are small.
    fn reserved(&self, bytes: u64) -> Result<Option<Reservation>, ApiError> {
        if bytes <= SMALL_MAX_BYTES {
            return Ok(None);
        }
        check_size(bytes, &self.core.budgets().queries)?;
        self.core.budgets().queries.try_reserve(bytes).map(Some).ok_or_else(too_busy)
    }

    /// The most that one query may hold besides its tree, in bytes. No other query can take this
    /// memory away for good. A query that needs more is refused for good.
    pub(super) fn query_max_bytes(&self) -> u64 {
        let max_bytes = self.core.budgets().queries.max_bytes();
        max_bytes - Estimate::TREE_MAX_BYTES.min(max_bytes / 2)
    }

    /// Plans a query with `plan`, whose cost is `estimate`.
    ///
    /// # Errors
    /// Errors of `plan`, or there is no memory for it.
    pub(crate) async fn planned(
        &self,
        estimate: Estimate,
        plan: impl FnOnce(&PartAllowance) -> Result<Plan, PlanError> + Send + 'static,
    ) -> Result<Plan, ApiError> {
        let account = Account::open(&self.core.budgets().queries, 0, self.query_max_bytes());
        self.planned_within(account.ok_or_else(too_busy)?, estimate, plan).await
    }

    /// [`Querier::planned`] with the memory of an account.
    async fn planned_within(
        &self,
        account: Account,
        estimate: Estimate,
        plan: impl FnOnce(&PartAllowance) -> Result<Plan, PlanError> + Send + 'static,
    ) -> Result<Plan, ApiError> {
        let cancellation = CancelOnDrop(Cancellation::default());
        let allowance =
            PartAllowance { grant: account.grant(), cancellation: cancellation.0.clone() };
        let planned = if estimate.is_short() {
            plan(&allowance)
        } else {
            self.core.runtime.offload_to(SideQueue::Queries, move || plan(&allowance)).await
        };
        planned.map_err(unplanned)
    }

    /// Plans a query that was read.
    ///
    /// # Errors
    /// As for [`Querier::planned`].
    pub(crate) async fn plan(
        &self,
        expr: &Arc<Expr>,
        params: QueryParams,
    ) -> Result<Plan, ApiError> {
        let (estimate, expr) = (Estimate::of_plan(expr), Arc::clone(expr));
        self.planned(estimate, move |allowance| Plan::with_allowance(&expr, &params, allowance))
            .await
    }

    /// [`Querier::plan`] for a rule: with the memory of rules.
    ///
    /// # Errors
    /// As for [`Querier::planned`].
    pub(super) async fn plan_rule(
        &self,
        expr: &Arc<Expr>,
        params: QueryParams,
    ) -> Result<Plan, ApiError> {
        let budget = &self.core.budgets().rules;
        let account = Account::open(budget, 0, budget.max_bytes()).ok_or_else(too_busy)?;
        let (estimate, expr) = (Estimate::of_plan(expr), Arc::clone(expr));
        let plan = move |allowance: &PartAllowance| Plan::with_allowance(&expr, &params, allowance);
        self.planned_within(account, estimate, plan).await
    }
}

/// Parses a query that is to be run.
pub(super) fn executable(text: &str) -> Result<Expr, ApiError> {
    let bad_request = |error: ParseError| ApiError::bad_request(error.to_string());
    let expr = syntax::parse(text).map_err(bad_request)?;
    syntax::check_executable(&expr).map_err(bad_request)?;
    Ok(expr)
}

/// The matchers of a selector, compiled.
fn compiled(selector: &Selector) -> Result<Vec<CompiledMatcher>, ApiError> {
    let matchers: Result<Vec<_>, _> = selector.matchers.iter().map(CompiledMatcher::new).collect();
    matchers.map_err(ApiError::bad_request)
}

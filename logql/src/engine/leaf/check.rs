//! Plans whose leaves are known to compile.
//!
//! A query that cannot be evaluated is refused where it was received, so each leaf is compiled
//! there once. So is a leaf that comes from another node, where it arrives.

use super::super::error::PlanError;
use super::super::meter::{Allowance, Unlimited};
use super::super::params::QueryParams;
use super::super::plan::{LeafPlan, Plan};
use super::LeafExecutor;
use crate::syntax::ast::Expr;

impl Plan {
    /// Plans a query.
    ///
    /// # Errors
    /// All errors of the expression and of the parameters are found here, before leaves
    /// are sent out.
    pub fn new(expr: &Expr, params: &QueryParams) -> Result<Self, PlanError> {
        Self::with_allowance(expr, params, &Unlimited)
    }

    /// Plans a query with no more memory and work than is allowed: the leaves are compiled one
    /// after the other.
    ///
    /// # Errors
    /// As for [`Plan::new`], or it is stopped.
    pub fn with_allowance(
        expr: &Expr,
        params: &QueryParams,
        allowance: &dyn Allowance,
    ) -> Result<Self, PlanError> {
        let plan = Self::of_checked(expr, params)?;
        plan.leaves.iter().try_for_each(|leaf| leaf.check(allowance))?;
        Ok(plan)
    }
}

impl LeafPlan {
    /// Compiles the leaf once, with no more memory and work than is allowed.
    pub(in crate::engine) fn check(&self, allowance: &dyn Allowance) -> Result<(), PlanError> {
        let executor = LeafExecutor::with_allowance(self, allowance.sibling())?;
        if let Some(stop) = executor.stop() {
            return Err(PlanError::Stopped(stop));
        }
        self.compiled_matchers().map(|_| ())
    }
}

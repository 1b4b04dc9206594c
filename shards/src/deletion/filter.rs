//! The test by which a request hides entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logsvc_logql::engine::{
    CompiledMatcher, EntryMatcher, Estimate, LeafPlan, Needs, Plan, PlanError, QueryParams,
    Unlimited,
};
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Reservation;

use super::{DeleteId, DeletionVersion};

/// A filter without its query, and its places in the tables of the shards, in bytes.
const FILTER_BYTES: u64 = 2048;

/// The filters that select a stream, by id. Streams with equal lists share one.
pub type DeleteFilters = Arc<[Arc<DeleteFilter>]>;

/// How much work it is to evaluate filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterWeight {
    /// Whether they compile so quickly that a core may do it.
    pub is_short: bool,
    /// Bytes of lines that a core may evaluate at once; 0 if they are for side threads only.
    pub core_batch_bytes: usize,
}

impl FilterWeight {
    /// No filter, or one without stages.
    pub const NOTHING: FilterWeight = FilterWeight { is_short: true, core_batch_bytes: usize::MAX };

    /// Both together.
    #[must_use]
    pub fn and(self, other: FilterWeight) -> FilterWeight {
        FilterWeight {
            is_short: self.is_short && other.is_short,
            core_batch_bytes: self.core_batch_bytes.min(other.core_batch_bytes),
        }
    }
}

/// A request, ready to be applied. Shared by all cores.
#[derive(Debug)]
pub struct DeleteFilter {
    /// The request.
    pub id: DeleteId,
    /// Whose entries.
    pub tenant: TenantId,
    /// All of them must match the labels of a stream.
    pub matchers: Vec<CompiledMatcher>,
    /// The oldest time, in ns since the Unix epoch.
    pub start_ns: i64,
    /// The newest time, in ns since the Unix epoch.
    pub end_ns: i64,
    /// The log query with its stages; `None` if it has no stages, so that every entry of the
    /// streams and times is hidden.
    pub plan: Option<Arc<LeafPlan>>,
    /// The columns that decide which entries of a stream it hides, besides timestamps.
    pub needs: Needs,
    /// How much work the query is.
    pub weight: FilterWeight,
    /// The memory of the filter, if it is counted.
    _memory: Option<Reservation>,
    /// The version from which on it holds.
    since: DeletionVersion,
    /// The number of the version from which on it does not hold.
    until: AtomicU64,
}

impl DeleteFilter {
    /// The filter of a request that holds from a version on.
    ///
    /// # Errors
    /// The query cannot be evaluated.
    pub fn new(
        id: DeleteId,
        tenant: TenantId,
        log: &LogExpr,
        (start_ns, end_ns): (i64, i64),
        since: DeletionVersion,
    ) -> Result<DeleteFilter, PlanError> {
        let params = QueryParams {
            limit: usize::MAX,
            ..QueryParams::range(start_ns, end_ns.saturating_add(1), 1)
        };
        let plan = Plan::new(&Expr::Log(log.clone()), &params)?;
        let leaf = plan.leaves().first().cloned();
        let matchers = match &leaf {
            Some(leaf) => leaf.compiled_matchers()?,
            None => Vec::new(),
        };
        let plan = if log.stages.is_empty() { None } else { leaf.map(Arc::new) };
        let needs = match &plan {
            Some(plan) => EntryMatcher::with_allowance(plan, Box::new(Unlimited))?.needs(),
            None => Needs { line_lengths: false, lines: false, metadata: false },
        };
        let weight = plan.as_ref().map_or(FilterWeight::NOTHING, |plan| FilterWeight {
            is_short: plan.estimate().is_short(),
            core_batch_bytes: plan.core_batch_bytes(),
        });
        let until = AtomicU64::new(u64::MAX);
        Ok(DeleteFilter {
            id,
            tenant,
            matchers,
            start_ns,
            end_ns,
            plan,
            needs,
            weight,
            _memory: None,
            since,
            until,
        })
    }

    /// About how many bytes the filter of a query takes.
    pub fn held_bytes_of(query: &str) -> u64 {
        FILTER_BYTES + Estimate::of_text(query).bytes
    }

    /// The filter with the memory that was reserved for it.
    #[must_use]
    pub fn with_memory(self, memory: Reservation) -> DeleteFilter {
        DeleteFilter { _memory: Some(memory), ..self }
    }

    /// Whether it hides entries of queries of this version.
    pub fn holds_at(&self, version: DeletionVersion) -> bool {
        self.since <= version && version.number() < self.until.load(Ordering::Acquire)
    }

    /// Whether it has an end: new entries are not hidden then.
    pub fn is_ended(&self) -> bool {
        self.until.load(Ordering::Acquire) != u64::MAX
    }

    /// Ends it with a version that is not published yet.
    pub fn end_at(&self, version: DeletionVersion) {
        self.until.store(version.number(), Ordering::Release);
    }

    /// Whether it may hide entries of a stream.
    pub fn selects(&self, tenant: &TenantId, labels: &Labels) -> bool {
        let holds = |m: &CompiledMatcher| m.matches(labels.get(m.name()).unwrap_or(""));
        self.tenant == *tenant && self.matchers.iter().all(holds)
    }

    /// Whether it may hide entries between two times, both included.
    pub fn overlaps(&self, min_ns: i64, max_ns: i64) -> bool {
        self.start_ns <= max_ns && min_ns <= self.end_ns
    }

    /// Whether all entries of its streams between two times are hidden, both included.
    pub fn hides_all(&self, min_ns: i64, max_ns: i64) -> bool {
        self.plan.is_none() && self.start_ns <= min_ns && max_ns <= self.end_ns
    }
}

//! Queries: from their text to the bytes of the answer.

pub(super) mod answer;
pub(super) mod compile;
mod context;
mod cursor;
pub(super) mod encode;
pub(super) mod endpoints;
pub(super) mod errors;
pub(super) mod execute;
mod export;
mod format_query;
pub(super) mod leaves;
pub(super) mod limits;
mod measure;
pub(super) mod owners;
pub(super) mod params;
pub(super) mod parquet;
pub(super) mod queue;
mod request_limits;
mod results;
mod rule;
mod sharing;
mod tell;
pub(super) mod tenants;
mod windows;

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use logsvc_runtime::Runtime;

use super::core::Core;
use crate::node::NodeState;
use queue::Queues;
use results::ResultCache;
use sharing::QueryRuns;
use windows::WindowCache;

/// State that the queries of all cores share. Cheap to clone.
#[derive(Clone)]
pub(super) struct Queries {
    /// The queues of requests.
    pub(super) queues: Queues,
    /// Queries that run, for equal queries to join.
    runs: QueryRuns,
    /// Answers to queries, to be used again.
    results: ResultCache,
    /// What was found in parts of the windows of rules.
    windows: WindowCache,
    /// When caches of answers outside of the node last became invalid, in ns since the
    /// Unix epoch; 0 if they never did.
    pub(super) cache_generation: Arc<AtomicI64>,
}

impl Queries {
    /// No query runs.
    pub(super) fn new(node: &NodeState) -> Queries {
        let rule_places = node.config.ruler.evaluation.places(node.config.cores);
        Queries {
            queues: Queues::new(&node.config, rule_places),
            runs: QueryRuns::default(),
            results: ResultCache::new(node.budgets.results.clone()),
            windows: WindowCache::new(node.budgets.windows.clone()),
            cache_generation: Arc::new(AtomicI64::new(0)),
        }
    }
}

/// Answers the queries of one core.
pub(super) struct Querier<R: Runtime> {
    pub(super) core: Rc<Core<R>>,
    shared: Queries,
    /// For tasks that outlive the request that they were started for.
    me: Weak<Querier<R>>,
}

impl<R: Runtime> Querier<R> {
    /// A querier of the core.
    pub(super) fn new(core: Rc<Core<R>>, shared: Queries) -> Rc<Querier<R>> {
        Rc::new_cyclic(|me| Querier { core, shared, me: Weak::clone(me) })
    }
}

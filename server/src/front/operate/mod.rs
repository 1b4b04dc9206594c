//! The state of the node, its settings, and how it is stopped.

pub(super) mod admin;
mod backups;
mod memberlist;
pub(super) mod operations;
pub(super) mod pages;
mod refusals;
mod ring;
pub(super) mod shutdown;
pub(super) mod web_page;

use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::core::Core;
use super::query::Queries;

/// Answers requests of operators, for one core.
pub(super) struct Operator<R: Runtime> {
    core: Rc<Core<R>>,
    queries: Queries,
    /// When the node started, in ns since the Unix epoch.
    started_ns: i64,
}

impl<R: Runtime> Operator<R> {
    /// An operator of a node that starts now.
    pub(super) fn new(core: Rc<Core<R>>, queries: Queries) -> Operator<R> {
        let started_ns = core.runtime.unix_nanos();
        Operator { core, queries, started_ns }
    }
}

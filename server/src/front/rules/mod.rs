//! Rules: stored groups, the state of those that are evaluated, and the queries of the ruler, which
//! are evaluated on this core.
//!
//! The ruler on core 0 does the work ([`logsvc_rules::ruler`]). This room reads what clients send
//! and words the answers.

mod evaluate;
mod groups;
mod listing;

use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::core::Core;
pub(super) use evaluate::serve;

/// Answers requests about rules, for one core.
pub(super) struct Ruling<R: Runtime> {
    core: Rc<Core<R>>,
}

impl<R: Runtime> Ruling<R> {
    /// One that asks the ruler through the lanes of its core.
    pub(super) fn new(core: Rc<Core<R>>) -> Ruling<R> {
        Ruling { core }
    }
}

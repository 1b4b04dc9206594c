//! Sends the queries of rules to the fronts of all cores, which evaluate them.
//!
//! Guarantees: a query waits for room when a lane is full, and is never refused for that; tenants
//! get room in turn, so one with thousands of rules does not hold up the others. A query whose core
//! stops ends with [`RuleQueryError::Stopping`]. Failures are those of the evaluation.

use std::fmt;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_runtime::mesh::{Caller, Inbox, LaneFull, Mesh, MeshOptions};
use logsvc_runtime::{CoreId, FairQueue, KeyBounds, Runtime};

use crate::evaluator::{Evaluator, RuleAnswer, RuleQuery, RuleQueryError};

/// How the evaluation of a query ends.
pub type RuleOutcome = Result<RuleAnswer, RuleQueryError>;

/// Lanes between all cores for the queries of rules.
pub type RuleMesh = Mesh<RuleQuery, RuleOutcome>;

/// The end of a core that evaluates.
pub type RuleInbox = Inbox<RuleQuery, RuleOutcome>;

/// The end of a core that asks.
pub type RuleCaller = Caller<RuleQuery, RuleOutcome>;

/// Queries on their way and in evaluation, of the whole node.
const QUERIES_MAX: usize = 1024;

/// How long a query waits before it looks for room again. Only queries that were given up, and that
/// their core has not got to yet, can have taken its room.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Lanes between so many cores.
pub fn rule_mesh(cores: u16) -> RuleMesh {
    let options =
        MeshOptions { request_lane_messages: QUERIES_MAX, inflight_per_core: QUERIES_MAX };
    Mesh::new(cores, options)
}

/// Has queries evaluated by the fronts of all cores. Clones share the room.
pub struct LaneEvaluator<R: Runtime> {
    runtime: R,
    caller: RuleCaller,
    room: FairQueue<TenantId>,
}

impl<R: Runtime> Clone for LaneEvaluator<R> {
    fn clone(&self) -> LaneEvaluator<R> {
        let (runtime, caller) = (self.runtime.clone(), self.caller.clone());
        LaneEvaluator { runtime, caller, room: self.room.clone() }
    }
}

impl<R: Runtime> fmt::Debug for LaneEvaluator<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneEvaluator").field("room", &self.room).finish_non_exhaustive()
    }
}

impl<R: Runtime> LaneEvaluator<R> {
    /// Asks with the caller of this core, whose replies are pumped, on a [`rule_mesh`].
    pub fn new(runtime: R, caller: RuleCaller) -> LaneEvaluator<R> {
        LaneEvaluator { runtime, caller, room: FairQueue::new(QUERIES_MAX) }
    }
}

impl<R: Runtime> Evaluator for LaneEvaluator<R> {
    async fn evaluate(&self, mut query: RuleQuery) -> RuleOutcome {
        let cores = u64::from(self.runtime.core_count().max(1));
        let core = CoreId((query.spread % cores) as u16);
        // Without bounds nobody is refused.
        let ticket = self.room.enter(query.tenant.clone(), KeyBounds::default());
        let _room = match ticket {
            Ok(ticket) => ticket.await,
            Err(full) => return Err(RuleQueryError::Failed(full.to_string())),
        };
        loop {
            match self.caller.call(core, query) {
                Ok(reply) => return reply.await.unwrap_or(Err(RuleQueryError::Stopping)),
                Err(LaneFull { request, .. }) => query = request,
            }
            self.runtime.sleep_until(self.runtime.now().after(LOOK_INTERVAL)).await;
        }
    }
}

#[cfg(test)]
mod tests;

//! The core that its rooms share: the runtime, settings, limits, metrics and the lanes to the
//! shards.

pub(super) mod errors;
mod lanes;
mod refusals;
mod tenant;

use std::sync::Arc;

use logsvc_proto::{StreamId, TenantId};
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::mesh::Caller;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::deletion::{DeletionReply, DeletionRequest};
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::types::Layout;

use crate::config::{Config, Limits, LimitsView};
use crate::metrics::CoreMetrics;
use crate::node::{Budgets, NodeState};
use crate::services::{Component, State};
pub(super) use tenant::tenant_header;

/// The media type of answers that are no results of queries.
pub(super) const JSON: &str = "application/json; charset=utf-8";

/// The ways from a core to the shards of all cores, to the keeper of the requests for deletion, and
/// to the ruler.
pub(crate) struct Lanes {
    /// To the shards.
    pub(crate) shards: Caller<ShardRequest, ShardReply>,
    /// To the keeper, on core 0.
    pub(crate) keeper: Caller<DeletionRequest, DeletionReply>,
    /// To the ruler, on core 0.
    pub(crate) ruler: Caller<RulesRequest, RulesReply>,
}

/// See the module.
pub(crate) struct Core<R: Runtime> {
    /// Of this core.
    pub(crate) runtime: R,
    /// The state that all cores share.
    pub(crate) node: Arc<NodeState>,
    /// Lanes to the shards of all cores.
    pub(crate) lanes: Caller<ShardRequest, ShardReply>,
    /// To the keeper of the requests for deletion.
    keeper: Caller<DeletionRequest, DeletionReply>,
    /// To the ruler.
    ruler: Caller<RulesRequest, RulesReply>,
    limits: LimitsView,
}

impl<R: Runtime> Core<R> {
    /// The core that `runtime` and `lanes` belong to.
    pub(super) fn new(runtime: R, node: Arc<NodeState>, lanes: Lanes) -> Core<R> {
        let limits = LimitsView::new(Arc::clone(&node.limits));
        let Lanes { shards, keeper, ruler } = lanes;
        Core { runtime, node, lanes: shards, keeper, ruler, limits }
    }

    /// Settings.
    pub(crate) fn config(&self) -> &Config {
        &self.node.config
    }

    /// The memory of the node.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.node.budgets
    }

    /// The core that owns a stream. Nothing is pushed before the data folder was looked at.
    pub(crate) fn owner_of(&self, stream: StreamId) -> CoreId {
        let layout = self.node.replay.layout.get().copied();
        let layout = layout.unwrap_or_else(|| Layout::of_cores(self.runtime.core_count()));
        CoreId(layout.core_of(stream))
    }

    /// Counters that only this core writes.
    pub(crate) fn counters(&self) -> &CoreMetrics {
        self.node.metrics.core(self.runtime.core())
    }

    /// The limits of a tenant. They may change: a request that needs them several times takes them
    /// once.
    pub(crate) fn limits(&self, tenant: &TenantId) -> Arc<Limits> {
        self.limits.of(tenant)
    }

    /// False once the part of the node that takes entries was shut down.
    pub(crate) fn takes_entries(&self) -> bool {
        self.node.services.share(self.runtime.core(), Component::Ingester) <= State::Running
    }
}

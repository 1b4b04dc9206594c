//! The core that its rooms share: the runtime, settings, limits, metrics and the lanes to the
//! shards.

pub(super) mod errors;
mod lanes;
mod refusals;
pub(super) mod targets;
mod tenant;

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_cluster::member::Answer;
use logsvc_peers::client::Peers;
use logsvc_proto::TenantId;
use logsvc_rules::messages::{RulesReply, RulesRequest};
use logsvc_runtime::Runtime;
use logsvc_runtime::mesh::Caller;
use logsvc_shards::deletion::{DeletionReply, DeletionRequest};
use logsvc_shards::member::Routes;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::types::Layout;

use crate::cluster::{MemberRequest, OneOfMany};
use crate::config::{Config, Limits, LimitsView};
use crate::dialer::Dialer;
use crate::metrics::CoreMetrics;
use crate::node::{Budgets, NodeState};
use crate::services::{Component, State};
use targets::Targets;
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
    /// To the member, on core 0.
    pub(crate) member: Caller<MemberRequest, Answer>,
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
    /// To the member.
    member: Caller<MemberRequest, Answer>,
    /// The way to other nodes; empty if there are none.
    pub(crate) peers: OnceCell<Peers<R, Dialer<R>>>,
    /// Of a node without others.
    targets: OnceCell<Rc<Targets>>,
    limits: LimitsView,
}

impl<R: Runtime> Core<R> {
    /// The core that `runtime` and `lanes` belong to.
    pub(super) fn new(runtime: R, node: Arc<NodeState>, lanes: Lanes) -> Core<R> {
        let limits = LimitsView::new(Arc::clone(&node.limits));
        let Lanes { shards, keeper, ruler, member } = lanes;
        let (peers, targets) = (OnceCell::new(), OnceCell::new());
        Core { runtime, node, lanes: shards, keeper, ruler, member, peers, targets, limits }
    }

    /// Settings.
    pub(crate) fn config(&self) -> &Config {
        &self.node.config
    }

    /// The memory of the node.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.node.budgets
    }

    /// What the node shares as one of many; `None` if it has no others.
    pub(crate) fn cluster(&self) -> Option<&OneOfMany> {
        self.node.cluster.as_deref()
    }

    /// Who owns which partition, as far as this node knows; `None` if it has no others, or has not
    /// joined them yet.
    pub(crate) fn routes(&self) -> Option<Arc<Routes>> {
        Some(self.cluster()?.routes()?.get())
    }

    /// How many nodes there are, with this one.
    pub(crate) fn node_count(&self) -> usize {
        self.routes().map_or(1, |routes| routes.map.members.len()).max(1)
    }

    /// Where the entries of streams go now. Nothing is pushed before the data folder was looked at.
    pub(crate) fn targets(&self) -> Rc<Targets> {
        if self.node.cluster.is_some() {
            let routes = self.routes();
            let now = self.runtime.now();
            return Rc::new(routes.map_or_else(Targets::none, |it| Targets::of_routes(&it, now)));
        }
        let of_layout = |layout: Layout| Rc::new(Targets::of_layout(layout));
        match self.node.replay.layout.get() {
            Some(layout) => Rc::clone(self.targets.get_or_init(|| of_layout(*layout))),
            None => of_layout(Layout::of_cores(self.runtime.core_count())),
        }
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

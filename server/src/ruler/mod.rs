//! The ruler of the node: evaluation, notifications and remote write, put together with the node's
//! settings.
//!
//! Everything here runs on core 0. Settings of tenants may change while the node runs; alerts and
//! samples follow them from the next ones on.
//!
//! What can go wrong: the folder of samples cannot be opened. Then the log says so, and recording
//! rules fail until the next start; alerts go on.

mod connect;
mod copies;
mod per_tenant;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_rules::catalogue::TenantGroups;
use logsvc_rules::config::{AlertmanagerConfig, RemoteWriteConfig};
use logsvc_rules::evaluation::Evaluation;
use logsvc_rules::group::{GroupLinks, Groups};
use logsvc_rules::lanes::LaneEvaluator;
use logsvc_rules::messages::{GroupStatus, RulerNumbers};
use logsvc_rules::notify::{NameServers, Notifier, NotifierConfig};
use logsvc_rules::remote::RemoteWrite;
use logsvc_rules::ruler::{Ruler, RulerConfig};
use logsvc_rules::store::Backend;
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::kept::KeptFiles;

use crate::node::NodeState;
use connect::Connections;
use copies::BucketCopies;
use per_tenant::PerTenant;

/// The part of the memory that rule groups may take.
const GROUPS_SHARE: u64 = 64;

/// The part of the memory that alerts on their way may take.
const ALERTS_SHARE: u64 = 64;

/// How long a stop waits for alerts that are on their way.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The samples that wait, in the data folder.
const SAMPLES_FOLDER: &str = "rules/samples";

type NodeNotifier<R> = Notifier<R, Connections<R>, NameServers<R>>;
type NodeRemote<R> = RemoteWrite<R, Connections<R>>;

/// The evaluation of the node, with what it sends.
pub(crate) struct NodeEvaluation<R: Runtime> {
    groups: Groups<R, LaneEvaluator<R>, NodeNotifier<R>, NodeRemote<R>>,
    notifier: NodeNotifier<R>,
    remote: NodeRemote<R>,
    alertmanagers: Rc<PerTenant<AlertmanagerConfig>>,
    receivers: Rc<PerTenant<RemoteWriteConfig>>,
}

/// The ruler of a node. To be made on core 0, when the data folder is claimed. If the node has a
/// bucket, changes of the groups are noted in `kept`.
pub(crate) fn ruler<R: Runtime>(
    runtime: &R,
    node: &Arc<NodeState>,
    evaluator: LaneEvaluator<R>,
    kept: Option<KeptFiles>,
) -> Ruler<R, Backend<R>, NodeEvaluation<R>> {
    let settings = &node.config.ruler;
    let config = RulerConfig {
        poll_interval: settings.evaluation_config().poll_interval,
        groups_max_bytes: node.config.memory_max_bytes / GROUPS_SHARE,
        evaluates: Box::new({
            let node = Arc::clone(node);
            move |tenant| node.config.ruler.evaluates(tenant.as_str())
        }),
    };
    let mut store = Backend::new(runtime.clone(), &node.config.data_dir, &settings.rule_storage());
    if let Some(files) = kept {
        store = store.with_copies(Rc::new(BucketCopies { runtime: runtime.clone(), files }));
    }
    let evaluation = NodeEvaluation::new(runtime, node, evaluator);
    Ruler::new(runtime.clone(), store, evaluation, config)
}

impl<R: Runtime> NodeEvaluation<R> {
    fn new(runtime: &R, node: &Arc<NodeState>, evaluator: LaneEvaluator<R>) -> NodeEvaluation<R> {
        let settings = &node.config.ruler;
        let evaluation = settings.evaluation_config();
        let data_dir: &Path = &node.config.data_dir;
        let alertmanagers =
            Rc::new(PerTenant::new(node, |settings, limits| settings.alertmanager_of(limits)));
        let receivers =
            Rc::new(PerTenant::new(node, |settings, limits| settings.remote_write_of(limits)));
        let notifier = Notifier::new(
            runtime.clone(),
            NotifierConfig {
                settings: {
                    let alertmanagers = Rc::clone(&alertmanagers);
                    Box::new(move |tenant| alertmanagers.of(tenant))
                },
                external_labels: evaluation.external_labels.clone(),
                max_queued_bytes: node.config.memory_max_bytes / ALERTS_SHARE,
            },
            Connections::new(runtime),
            NameServers::new(runtime.clone()),
        );
        let remote = RemoteWrite::new(
            runtime.clone(),
            Connections::new(runtime),
            data_dir.join(SAMPLES_FOLDER),
            settings.samples.clone(),
            {
                let receivers = Rc::clone(&receivers);
                Box::new(move |tenant| receivers.of(tenant))
            },
        );
        let links = GroupLinks {
            evaluator,
            alerts: Rc::new(notifier.clone()),
            samples: Rc::new(remote.clone()),
            query_offset: {
                let node = Arc::clone(node);
                Rc::new(move |tenant| node.limits.current().of(tenant).ruler.evaluation_delay)
            },
        };
        let groups = Groups::new(runtime.clone(), data_dir, evaluation, links);
        NodeEvaluation { groups, notifier, remote, alertmanagers, receivers }
    }
}

impl<R: Runtime> Evaluation for NodeEvaluation<R> {
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups) {
        self.groups.set_groups(tenant, groups);
        if groups.groups().next().is_none() {
            self.notifier.retain(|known| known != tenant);
            self.alertmanagers.forget(tenant);
            self.receivers.forget(tenant);
        }
    }

    async fn status(&self, tenant: &TenantId) -> Vec<Arc<GroupStatus>> {
        self.groups.status(tenant).await
    }

    fn numbers(&self) -> RulerNumbers {
        RulerNumbers {
            notifications: self.notifier.numbers(),
            remote: self.remote.numbers(),
            ..self.groups.numbers()
        }
    }

    async fn run(&self, stop: Latch) {
        if let Err(error) = self.remote.start().await {
            tracing::error!(%error, "samples of recording rules cannot be kept");
        }
        self.groups.run(stop).await;
        self.notifier.stop(STOP_PATIENCE).await;
        self.remote.close().await;
    }
}

//! The ruler of the node: evaluation, notifications and remote write, put together with the node's
//! settings.
//!
//! Everything here runs on core 0. Settings of tenants may change while the node runs; alerts and
//! samples follow them from the next ones on.
//!
//! Of nodes that share a bucket one evaluates ([`run_among_others`]).
//!
//! What can go wrong: the folder of samples cannot be opened. Then the log says so, and recording
//! rules fail until the next start; alerts go on.

mod among;
mod connect;
mod copies;
mod per_tenant;
mod term;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use logsvc_proto::TenantId;
use logsvc_rules::catalogue::TenantGroups;
use logsvc_rules::common::CommonFiles;
use logsvc_rules::config::{AlertmanagerConfig, RemoteWriteConfig};
use logsvc_rules::evaluation::Evaluation;
use logsvc_rules::group::{GroupLinks, Groups, StatePlace};
use logsvc_rules::lanes::LaneEvaluator;
use logsvc_rules::messages::{GroupStatus, RulerNumbers};
use logsvc_rules::notify::{NameServers, Notifier, NotifierConfig};
use logsvc_rules::remote::RemoteWrite;
use logsvc_rules::ruler::{Ruler, RulerConfig};
use logsvc_rules::store::Backend;
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::kept::KeptFiles;

use crate::node::NodeState;
pub(crate) use among::run_among_others;
use connect::{Connections, KeeperConnections};
use copies::BucketCopies;
use per_tenant::PerTenant;
use term::Term;

/// The part of the memory that rule groups may take.
const GROUPS_SHARE: u64 = 64;

/// The part of the memory that alerts on their way may take.
const ALERTS_SHARE: u64 = 64;

/// How long the ruler waits before it tries again to read the store.
const LOAD_PAUSE: Duration = Duration::from_secs(10);

/// The same of the keeper of the rules of several nodes, whom others wait for.
const LOAD_PAUSE_OF_KEEPER: Duration = Duration::from_secs(1);

/// How long a stop waits for alerts that are on their way.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The samples that wait, in the data folder.
const SAMPLES_FOLDER: &str = "rules/samples";

type NodeNotifier<R> = Notifier<R, KeeperConnections<R>, NameServers<R>>;
type NodeRemote<R> = RemoteWrite<R, Connections<R>>;

/// Samples on their way.
pub(crate) struct NodeSamples<R: Runtime> {
    remote: NodeRemote<R>,
    receivers: Rc<PerTenant<RemoteWriteConfig>>,
}

impl<R: Runtime> Clone for NodeSamples<R> {
    fn clone(&self) -> NodeSamples<R> {
        NodeSamples { remote: self.remote.clone(), receivers: Rc::clone(&self.receivers) }
    }
}

impl<R: Runtime> NodeSamples<R> {
    fn new(runtime: &R, node: &Arc<NodeState>) -> NodeSamples<R> {
        let receivers =
            Rc::new(PerTenant::new(node, |settings, limits| settings.remote_write_of(limits)));
        let of_remote = Rc::clone(&receivers);
        let remote = RemoteWrite::new(
            runtime.clone(),
            Connections::new(runtime),
            node.config.data_dir.join(SAMPLES_FOLDER),
            node.config.ruler.samples.clone(),
            Box::new(move |tenant| of_remote.of(tenant)),
        );
        NodeSamples { remote, receivers }
    }

    async fn start(&self) {
        if let Err(error) = self.remote.start().await {
            tracing::error!(%error, "samples of recording rules cannot be kept");
        }
    }

    async fn close(&self) {
        self.remote.close().await;
    }
}

/// The evaluation of the node, with what it sends.
pub(crate) struct NodeEvaluation<R: Runtime> {
    groups: Groups<R, LaneEvaluator<R>, NodeNotifier<R>, NodeRemote<R>>,
    notifier: NodeNotifier<R>,
    alertmanagers: Rc<PerTenant<AlertmanagerConfig>>,
    samples: NodeSamples<R>,
    /// Of a node among others. Its samples outlive it.
    term: Option<Rc<Term<R>>>,
}

fn config(node: &Arc<NodeState>, load_pause: Duration) -> RulerConfig {
    RulerConfig {
        poll_interval: node.config.ruler.evaluation_config().poll_interval,
        load_pause,
        groups_max_bytes: node.config.memory_max_bytes / GROUPS_SHARE,
        evaluates: Box::new({
            let node = Arc::clone(node);
            move |tenant| node.config.ruler.evaluates(tenant.as_str())
        }),
    }
}

/// The ruler of a node that is alone. To be made on core 0, when the data folder is claimed. If the
/// node has a bucket, changes of the groups are noted in `kept`.
pub(crate) fn ruler<R: Runtime>(
    runtime: &R,
    node: &Arc<NodeState>,
    evaluator: LaneEvaluator<R>,
    kept: Option<KeptFiles>,
) -> Ruler<R, Backend<R>, NodeEvaluation<R>> {
    let storage = node.config.ruler.rule_storage();
    let mut store = Backend::new(runtime.clone(), &node.config.data_dir, &storage);
    if let Some(files) = kept {
        store = store.with_copies(Rc::new(BucketCopies { runtime: runtime.clone(), files }));
    }
    let samples = NodeSamples::new(runtime, node);
    let evaluation = NodeEvaluation::new(runtime, node, evaluator, samples, None);
    Ruler::new(runtime.clone(), store, evaluation, config(node, LOAD_PAUSE))
}

impl<R: Runtime> NodeEvaluation<R> {
    fn new(
        runtime: &R,
        node: &Arc<NodeState>,
        evaluator: LaneEvaluator<R>,
        samples: NodeSamples<R>,
        term: Option<&Rc<Term<R>>>,
    ) -> NodeEvaluation<R> {
        let settings = &node.config.ruler;
        let evaluation = settings.evaluation_config();
        let alertmanagers =
            Rc::new(PerTenant::new(node, |settings, limits| settings.alertmanager_of(limits)));
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
            KeeperConnections::new(Connections::new(runtime), term.cloned()),
            NameServers::new(runtime.clone()),
        );
        let links = GroupLinks {
            evaluator,
            alerts: Rc::new(notifier.clone()),
            samples: Rc::new(samples.remote.clone()),
            query_offset: {
                let node = Arc::clone(node);
                Rc::new(move |tenant| node.limits.current().of(tenant).ruler.evaluation_delay)
            },
        };
        let place = match term {
            Some(term) => StatePlace::Common(term.clone()),
            None => StatePlace::Folder(node.config.data_dir.clone()),
        };
        let groups = Groups::new(runtime.clone(), place, evaluation, links);
        NodeEvaluation { groups, notifier, alertmanagers, samples, term: term.cloned() }
    }

    /// Whether another node evaluates.
    fn is_over(&self) -> bool {
        self.term.as_ref().is_some_and(|term| term.is_over())
    }

    /// Drops what waits for Alertmanagers: another node tells them.
    async fn end_notifications(&self) {
        self.notifier.retain(|_| false);
        self.notifier.stop(Duration::ZERO).await;
    }
}

impl<R: Runtime> Evaluation for NodeEvaluation<R> {
    fn set_groups(&self, tenant: &TenantId, groups: &TenantGroups) {
        self.groups.set_groups(tenant, groups);
        if groups.groups().next().is_none() {
            self.notifier.retain(|known| known != tenant);
            self.alertmanagers.forget(tenant);
            self.samples.receivers.forget(tenant);
        }
    }

    async fn status(&self, tenant: &TenantId) -> Vec<Arc<GroupStatus>> {
        self.groups.status(tenant).await
    }

    fn numbers(&self) -> RulerNumbers {
        RulerNumbers {
            notifications: self.notifier.numbers(),
            remote: self.samples.remote.numbers(),
            ..self.groups.numbers()
        }
    }

    async fn run(&self, stop: Latch) {
        if self.term.is_none() {
            self.samples.start().await;
        }
        let ending = async {
            stop.wait().await;
            // Before the tasks of groups have ended.
            if self.is_over() {
                self.end_notifications().await;
            }
        };
        join(self.groups.run(stop.clone()), ending).await;
        if self.is_over() {
            return self.end_notifications().await;
        }
        self.notifier.stop(STOP_PATIENCE).await;
        if self.term.is_none() {
            self.samples.close().await;
        }
    }
}

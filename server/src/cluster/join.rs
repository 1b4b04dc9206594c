//! Joins the cluster at the start, and leaves it at the end. For core 0.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_cluster::map::{Epoch, MemberInfo, State};
use logsvc_cluster::member::{Answer, Input, Stop};
use logsvc_cluster::settings::Settings;
use logsvc_membership::engine::Change;
use logsvc_membership::etcd::{self, EtcdSettings};
use logsvc_membership::membership::Membership;
use logsvc_membership::settings::Settings as GossipSettings;
use logsvc_membership::vitals::{State as Vital, Vitals};
use logsvc_runtime::mesh::Inbox;
use logsvc_runtime::{Latch, PlainDialer, Runtime};
use logsvc_shards::common::{CommonFiles, CommonLog, CommonSweep, SweepConfig};
use logsvc_shards::member::{MemberDriver, MemberError, MemberHandle, MemberParts};

use super::gate::serve;
use super::hints::{self, Hints};
use super::membership::{self, Me};
use super::wires::{self, Reach};
use super::{MemberRequest, OneOfMany};
use crate::config::ClusterConfig;
use crate::config::targets::Part;
use crate::node::NodeState;

/// How often the member hears who lives, if nothing has changed.
const HINT_INTERVAL: Duration = Duration::from_millis(500);

/// Objects of the bucket are not listed more often, however soon they may go.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// How long a node may take to give everything to others. What it has not given then is taken over.
const LEAVE_PATIENCE: Duration = Duration::from_secs(60);

/// A node that has joined.
pub(crate) struct MemberTask<R: Runtime> {
    handle: MemberHandle,
    /// The files that all nodes have in common.
    pub(crate) common: CommonFiles<R>,
    membership: Membership,
    shared: Arc<OneOfMany>,
    running: R::Task<()>,
    ended: Latch,
    /// Ends the tasks beside the driver.
    stop: Latch,
}

/// Makes the node one of many, until it leaves or is taken over; then it ends. `lost` is triggered when a
/// write to a log of the node has met a fence, and `inbox` has the requests of the cores.
///
/// # Errors
/// The address of the node is not known, or membership cannot listen.
pub(crate) fn join<R: Runtime>(
    runtime: &R,
    node: &Arc<NodeState>,
    settings: &ClusterConfig,
    parts: MemberParts<R>,
    lost: Latch,
    inbox: Inbox<MemberRequest, Answer>,
) -> Result<MemberTask<R>, String> {
    let me = Epoch(parts.plan.epoch);
    let shared = node.cluster.clone().ok_or("this node shares nothing with others")?;
    let peer_port = shared.peer_address().map(|address| address.port());
    let me_told = Me {
        http: node.address().unwrap_or(node.config.http_address),
        peer_port: peer_port.ok_or("this node does not listen for others")?,
        writer_epoch: Some(me.0),
        map_number: 0,
    };
    let etcd = settings.etcd.as_ref();
    let begin = |settings, vitals| begin(runtime, node, &shared, etcd, settings, vitals);
    let (membership, address) = membership::start(runtime, settings, me_told, begin)?;
    shared.set_membership(membership.clone());
    let name = settings.instance_id.clone();
    let owns = settings.parts.has(Part::Ingester);
    let info = MemberInfo {
        name: name.clone(),
        address: address.to_string(),
        zone: settings.zone.clone(),
        state: if owns { State::Active } else { State::Guest },
        position: 0,
    };
    let (store, swept) = (parts.store.clone(), parts.store.clone());
    let driver = MemberDriver::new(runtime.clone(), Settings::default(), info, parts);
    let handle = driver.handle();
    let log = CommonLog::new(runtime.clone(), store, handle.clone(), shared.common.clone());
    let common = log.files();
    shared.set_routes(handle.routes().clone());
    let (stop, ended) = (Latch::new(), Latch::new());
    let serving = serve(runtime.clone(), handle.clone(), common.clone(), inbox, stop.clone());
    drop(runtime.spawn(serving));
    drop(runtime.spawn(log.run(stop.clone())));
    let delay = node.config.retention_delete_delay;
    let interval = SweepConfig::default().interval.min(delay.max(SWEEP_INTERVAL_MIN));
    let config = SweepConfig { interval, delay, ..SweepConfig::default() };
    let sweep = CommonSweep::new(runtime.clone(), swept, handle.clone(), common.clone(), config);
    drop(runtime.spawn(sweep.run(stop.clone())));
    let hints = Rc::new(RefCell::new(Hints::default()));
    let (joining, of_joining, clock) = (membership.clone(), Rc::clone(&hints), runtime.clone());
    let (failing, aborts) = (Arc::clone(node), settings.clone());
    drop(runtime.spawn(async move {
        if let Err(error) = membership::joined(&joining, &aborts).await {
            failing.fail(error);
        }
        // An attempt that has failed has looked for others, too.
        of_joining.borrow_mut().note_joined(clock.now());
    }));
    let seen = (membership.clone(), hints);
    let hinting = hint(runtime.clone(), handle.clone(), seen, (me, name), stop.clone());
    drop(runtime.spawn(hinting));
    let (watched, stopping) = (handle.clone(), stop.clone());
    match shared.encryption.messages(runtime) {
        Some(dialer) => {
            let reach = Reach { dialer, is_secure: true };
            drop(runtime.spawn(wires::watch(runtime.clone(), reach, watched, stopping)));
        }
        None => {
            let reach = Reach { dialer: PlainDialer::new(runtime.clone()), is_secure: false };
            drop(runtime.spawn(wires::watch(runtime.clone(), reach, watched, stopping)));
        }
    }
    let (node, has_ended, taken_over) = (Arc::clone(node), ended.clone(), shared.ended.clone());
    let running = runtime.spawn(async move {
        match driver.run(lost).await {
            Ok(()) | Err(MemberError::Stopped(Stop::Left)) => {}
            Err(error) => {
                taken_over.trigger();
                if node.cluster.as_ref().is_some_and(|cluster| cluster.is_leaving()) {
                    tracing::warn!("this node was taken over while it was leaving: {error}");
                } else {
                    node.fail(format!("this node is none of the cluster any more: {error}"));
                }
            }
        }
        has_ended.trigger();
    });
    Ok(MemberTask { handle, common, membership, shared, running, ended, stop })
}

/// Begins to take part in gossip, or in what is in its place.
fn begin<R: Runtime>(
    runtime: &R,
    node: &NodeState,
    shared: &OneOfMany,
    etcd: Option<&EtcdSettings>,
    settings: GossipSettings,
    vitals: Vitals,
) -> Result<Membership, String> {
    let encryption = &shared.encryption;
    let Some(etcd) = etcd else {
        let started = encryption.start_gossip(runtime, node, settings, vitals);
        return started.map_err(|error| error.to_string());
    };
    let address = vitals.transport.ok_or("this node does not say where it listens for others")?;
    let started = match encryption.etcd(runtime) {
        Some(dialer) => etcd::start(runtime, etcd, vitals, address, dialer),
        None => {
            let dialer = PlainDialer::new(runtime.clone());
            etcd::start(runtime, etcd, vitals, address, dialer)
        }
    };
    started.map_err(|error| error.to_string())
}

impl<R: Runtime> MemberTask<R> {
    /// Gives everything to other nodes, as far as there are some, and leaves.
    pub(crate) async fn leave(self, runtime: &R) {
        self.shared.note_leaving();
        self.handle.tell(Input::Leave);
        self.membership.change(Change::State(Vital::Leaving)).await;
        let late = std::pin::pin!(runtime.sleep_until(runtime.now().after(LEAVE_PATIENCE)));
        let ended = std::pin::pin!(self.ended.wait());
        if let Either::Right(_) = select(ended, late).await {
            tracing::warn!(
                patience_s = LEAVE_PATIENCE.as_secs(),
                "this node could not give all of its partitions to others; they will take them over"
            );
        }
        self.membership.leave().await;
        self.stop.trigger();
        drop(self.running);
    }
}

/// Tells the member who lives, and which map others know, until `stop` is triggered.
async fn hint<R: Runtime>(
    runtime: R,
    handle: MemberHandle,
    (membership, hints): (Membership, Rc<RefCell<Hints>>),
    (me, name): (Epoch, String),
    stop: Latch,
) {
    membership.change(Change::State(Vital::Active)).await;
    let mut stopped = std::pin::pin!(stop.wait());
    let (mut told, mut told_cut_off) = (0, None);
    loop {
        let members = membership.members();
        let (number, map) = handle.map();
        if number > told {
            told = number;
            membership.change(Change::MapNumber(number)).await;
        }
        let now = runtime.now();
        if membership.is_blind() {
            hints.borrow_mut().note_blind(now);
        }
        let cut_off = handle.cut_off(now);
        if cut_off != told_cut_off {
            told_cut_off = cut_off;
            if let Some(lack) = cut_off {
                tracing::warn!("{lack}; nodes without this trouble may take over");
            }
            membership.change(Change::CutOff(cut_off.is_some())).await;
        }
        let judge = hints::Me { epoch: me, name: &name, is_well: handle.is_well(now) };
        let alive = hints.borrow_mut().alive(now, judge, &map, &members);
        handle.tell(Input::Alive(alive));
        if hints.borrow().is_waiting() {
            // Others are about to take over, and it is to notice that.
            handle.tell(Input::ProofWanted);
        }
        // Somebody has taken over, perhaps a part of what this node is to have.
        let newest = members.alive().map(|member| member.vitals.map_number).max();
        if let Some(newest) = newest.filter(|newest| *newest > number) {
            handle.tell(Input::Heard(newest));
        }
        let pause = std::pin::pin!(runtime.sleep_until(runtime.now().after(HINT_INTERVAL)));
        let changed = std::pin::pin!(membership.changed(members.version));
        let newer = std::pin::pin!(handle.routes().when(|routes| routes.number > told));
        let next = std::pin::pin!(select(pause, select(changed, newer)));
        if let Either::Left(_) = select(&mut stopped, next).await {
            return;
        }
    }
}

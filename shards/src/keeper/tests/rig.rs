//! A node whose shards are played: each line is a file of its own, and is gone when the file is.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::mesh::{Caller, Inbox, Mesh, MeshOptions};
use logsvc_runtime::sim::{Node, SimRuntime, Simulation};
use logsvc_runtime::{Budget, CoreId, Latch, OpenMode, Runtime};

use super::super::{Keeper, KeeperConfig, KeeperLinks};
use crate::changes::NodeChanges;
use crate::deletion::{
    CancelError, CreateError, DeleteFilter, DeleteId, DeleteRequest, DeletionReply,
    DeletionRequest, DeletionStatus, NewDelete, NodeDeletions,
};
use crate::messages::{PurgeOutcome, PurgeRequest, RemovedTotals, ShardReply, ShardRequest};
use crate::node::open_node;

pub(super) const DATA_DIR: &str = "/srv/data";
pub(super) const REQUESTS: &str = "/srv/data/deletes/REQUESTS";
/// The wall clock at the start of a simulation.
pub(super) const NOON_NS: i64 = 1_767_268_800_000_000_000;
pub(super) const SECOND_NS: i64 = 1_000_000_000;
pub(super) const HOUR_NS: i64 = 3_600 * SECOND_NS;
const SHARDS: u16 = 2;
const LINE_BYTES: u64 = 10;

pub(super) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a tenant")
}

/// A line of a stream `{app="a"}`.
#[derive(Clone, Debug)]
pub(super) struct Line {
    shard: u16,
    tenant: TenantId,
    pub(super) time_ns: i64,
    path: PathBuf,
}

/// The parts that outlive a start, and the settings of the next one.
pub(super) struct World<'s> {
    pub(super) simulation: &'s Simulation,
    pub(super) lines: Rc<RefCell<Vec<Line>>>,
    pub(super) play: Rc<Play>,
}

/// Settings that a test changes while the node runs.
pub(super) struct Play {
    pub(super) cancel_period: Cell<Duration>,
    pub(super) batch_size: Cell<usize>,
    /// How long the shards work on a purge.
    pub(super) purge_takes: Cell<Duration>,
    /// How long a query reads a file that has to go.
    pub(super) file_stays: Cell<Duration>,
    /// So many purges fail.
    pub(super) failures: Cell<u32>,
    pub(super) purges: Cell<u32>,
    /// The tenant whose mode does not let entries be removed.
    pub(super) kept: RefCell<Option<TenantId>>,
}

impl<'s> World<'s> {
    pub(super) fn new(simulation: &'s Simulation) -> World<'s> {
        simulation.set_unix_nanos(NOON_NS);
        let play = Play {
            cancel_period: Cell::new(Duration::from_secs(60)),
            batch_size: Cell::new(10),
            purge_takes: Cell::new(Duration::from_millis(5)),
            file_stays: Cell::new(Duration::from_millis(1)),
            failures: Cell::new(0),
            purges: Cell::new(0),
            kept: RefCell::default(),
        };
        World { simulation, lines: Rc::default(), play: Rc::new(play) }
    }

    /// Stores a line, as a push does.
    pub(super) fn push(&self, tenant_name: &str, time_ns: i64) {
        let mut lines = self.lines.borrow_mut();
        let path = PathBuf::from(format!("{DATA_DIR}/segments/lines/{:04}", lines.len()));
        self.simulation.block_on({
            let path = path.clone();
            move |runtime| async move {
                let folder = path.parent().expect("a folder");
                runtime.create_dir_all(folder).await.expect("make");
                drop(runtime.open(&path, OpenMode::CreateNew).await.expect("make"));
                for folder in folder.ancestors().take(4) {
                    runtime.sync_dir(folder).await.expect("sync");
                }
            }
        });
        let shard = (lines.len() % usize::from(SHARDS)) as u16;
        lines.push(Line { shard, tenant: tenant(tenant_name), time_ns, path });
    }

    /// The times of the lines of a tenant that are on the disk.
    pub(super) fn stored(&self, tenant_name: &str) -> Vec<i64> {
        let lines = self.lines.borrow();
        let is_there = |line: &&Line| {
            line.tenant == tenant(tenant_name) && self.simulation.disk().read(&line.path).is_some()
        };
        lines.iter().filter(is_there).map(|line| line.time_ns).collect()
    }

    pub(super) fn start(&self) -> Rig<'_> {
        self.try_start().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn try_start(&self) -> Result<Rig<'_>, String> {
        let options = MeshOptions { request_lane_messages: 64, inflight_per_core: 200 };
        let shared = Rc::new(Shared {
            shards: Mesh::new(SHARDS, options),
            keeper: Mesh::new(SHARDS, options),
            changes: NodeChanges::new(SHARDS),
            deletions: NodeDeletions::default(),
            known: RefCell::new(vec![Vec::new(); usize::from(SHARDS)]),
            callers: RefCell::default(),
            failure: RefCell::default(),
            stop: Latch::new(),
            lines: Rc::clone(&self.lines),
            play: Rc::clone(&self.play),
        });
        let for_cores = Rc::clone(&shared);
        let node = self
            .simulation
            .start_node(SHARDS, move |runtime| run_core(runtime, Rc::clone(&for_cores)));
        let is_up = || {
            shared.callers.borrow().len() == usize::from(SHARDS)
                || shared.failure.borrow().is_some()
        };
        self.simulation.run_until(is_up).unwrap_or_else(|stuck| panic!("{stuck}"));
        if let Some(failure) = shared.failure.borrow_mut().take() {
            node.crash();
            return Err(failure);
        }
        Ok(Rig { world: self, node, shared })
    }
}

struct Shared {
    shards: Mesh<ShardRequest, ShardReply>,
    keeper: Mesh<DeletionRequest, DeletionReply>,
    changes: NodeChanges,
    deletions: NodeDeletions,
    /// The filters that each shard knows.
    known: RefCell<Vec<Vec<Arc<DeleteFilter>>>>,
    callers: RefCell<Vec<Caller<DeletionRequest, DeletionReply>>>,
    failure: RefCell<Option<String>>,
    stop: Latch,
    lines: Rc<RefCell<Vec<Line>>>,
    play: Rc<Play>,
}

async fn run_core(runtime: SimRuntime, shared: Rc<Shared>) {
    let core = runtime.core();
    let (shard_caller, shard_inbox) = shared.shards.attach(core);
    let (caller, inbox) = shared.keeper.attach(core);
    drop(runtime.spawn(shard_caller.pump_replies()));
    drop(runtime.spawn(caller.pump_replies()));
    drop(runtime.spawn(run_shard(runtime.clone(), Rc::clone(&shared), shard_inbox)));
    if core.0 != 0 {
        shared.callers.borrow_mut().push(caller);
        return shared.stop.wait().await;
    }
    let node = match open_node(&runtime, Path::new(DATA_DIR)).await {
        Ok(node) => node,
        Err(error) => {
            *shared.failure.borrow_mut() = Some(error.to_string());
            return;
        }
    };
    for known in shared.known.borrow_mut().iter_mut() {
        *known = node.plan.deletions.filters.to_vec();
    }
    let links = KeeperLinks {
        shards: shard_caller,
        changes: shared.changes.clone(),
        deletions: shared.deletions.clone(),
        memory: Budget::new("deletions", 16 << 20),
        bucket: None,
        sink: None,
        files: None,
    };
    let play = Rc::clone(&shared.play);
    let config = KeeperConfig {
        cancel_period: play.cancel_period.get(),
        batch_size: play.batch_size.get(),
        check_interval: Duration::from_secs(10),
        is_removing: true,
        removes: Box::new(move |tenant| play.kept.borrow().as_ref() != Some(tenant)),
    };
    let keeper = Keeper::new(runtime, &node.plan, links, config);
    shared.callers.borrow_mut().push(caller);
    keeper.run(inbox, shared.stop.clone()).await;
}

fn labels() -> Labels {
    Labels::from_pairs([("app", "a")]).expect("valid labels")
}

async fn run_shard(
    runtime: SimRuntime,
    shared: Rc<Shared>,
    mut inbox: Inbox<ShardRequest, ShardReply>,
) {
    let shard = runtime.core().index();
    while let Some(incoming) = inbox.receive().await {
        match incoming.request {
            ShardRequest::Hide(filter) => {
                shared.known.borrow_mut()[shard].push(filter);
                incoming.reply_to.send(ShardReply::Retained);
            }
            ShardRequest::Unhide(id) => {
                let known = &mut shared.known.borrow_mut()[shard];
                let before = known.len();
                known.retain(|filter| filter.id != id);
                assert_eq!(known.len() + 1, before, "a filter is taken away once");
                incoming.reply_to.send(ShardReply::Retained);
            }
            ShardRequest::Purge(request) => {
                let (runtime, shared) = (runtime.clone(), Rc::clone(&shared));
                drop(runtime.clone().spawn(async move {
                    let outcome = purge(runtime, shared, request).await;
                    incoming.reply_to.send(ShardReply::Purged(outcome));
                }));
            }
            other => panic!("the keeper does not ask for {other:?}"),
        }
    }
}

async fn purge(
    runtime: SimRuntime,
    shared: Rc<Shared>,
    request: PurgeRequest,
) -> Result<PurgeOutcome, Arc<str>> {
    let (play, core) = (Rc::clone(&shared.play), runtime.core());
    play.purges.set(play.purges.get() + u32::from(core.0 == 0));
    runtime.sleep_until(runtime.now().after(play.purge_takes.get())).await;
    if core.0 == 1 && play.failures.get() > 0 {
        play.failures.set(play.failures.get() - 1);
        return Err("the disk is odd".into());
    }
    let removed = vec![RemovedTotals::default(); request.targets.len()];
    let mut outcome = PurgeOutcome { removed, ..PurgeOutcome::default() };
    let lines = shared.lines.borrow().clone();
    for line in lines.iter().filter(|line| line.shard == core.0) {
        let is_hit = |target: &crate::messages::PurgeTarget| {
            let bounds = target.start_ns..=target.end_ns;
            target.filter.selects(&line.tenant, &labels()) && bounds.contains(&line.time_ns)
        };
        let Some(hit) = request.targets.iter().position(is_hit) else { continue };
        match runtime.open(&line.path, OpenMode::Read).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.to_string().into()),
        }
        outcome.removed[hit].entries += 1;
        outcome.removed[hit].line_bytes += LINE_BYTES;
        outcome.leaving.push(line.path.clone());
        let (runtime, path) = (runtime.clone(), line.path.clone());
        let until = runtime.now().after(play.file_stays.get());
        drop(runtime.clone().spawn(async move {
            runtime.sleep_until(until).await;
            while runtime.remove_file(&path).await.is_err() {
                runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await;
            }
        }));
    }
    Ok(outcome)
}

/// One start of the node.
pub(super) struct Rig<'w> {
    world: &'w World<'w>,
    pub(super) node: Node,
    shared: Rc<Shared>,
}

impl Rig<'_> {
    /// Sends a request; the cell has the reply when it has come.
    pub(super) fn send(&self, request: DeletionRequest) -> Rc<RefCell<Option<DeletionReply>>> {
        let runtime = self.node.runtime(CoreId(1));
        let callers = self.shared.callers.borrow();
        let caller = callers.iter().find(|caller| caller.core() == CoreId(1)).expect("is up");
        let reply = caller.call(CoreId(0), request).unwrap_or_else(|_| panic!("has room"));
        let cell = Rc::new(RefCell::new(None));
        let for_task = Rc::clone(&cell);
        drop(runtime.spawn(async move {
            if let Ok(reply) = reply.await {
                *for_task.borrow_mut() = Some(reply);
            }
        }));
        cell
    }

    fn ask(&self, request: DeletionRequest) -> DeletionReply {
        let cell = self.send(request);
        let answered = self.world.simulation.run_until(|| cell.borrow().is_some());
        answered.unwrap_or_else(|stuck| panic!("{stuck}"));
        cell.borrow_mut().take().expect("a reply")
    }

    pub(super) fn new_delete(
        tenant_name: &str,
        query: &str,
        range_ns: (i64, i64),
        part_ns: Option<i64>,
    ) -> DeletionRequest {
        DeletionRequest::Create(Box::new(NewDelete {
            tenant: tenant(tenant_name),
            query: query.to_owned(),
            start_ns: range_ns.0,
            end_ns: range_ns.1,
            part_ns,
        }))
    }

    pub(super) fn create(
        &self,
        tenant_name: &str,
        range_ns: (i64, i64),
        part_ns: Option<i64>,
    ) -> Result<DeleteId, CreateError> {
        let request = Rig::new_delete(tenant_name, r#"{app="a"}"#, range_ns, part_ns);
        match self.ask(request) {
            DeletionReply::Created(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn cancel(
        &self,
        tenant_name: &str,
        id: DeleteId,
        is_forced: bool,
    ) -> Result<(), CancelError> {
        match self.ask(DeletionRequest::Cancel { tenant: tenant(tenant_name), id, is_forced }) {
            DeletionReply::Cancelled(result) => result,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn list(&self, tenant_name: &str) -> Vec<DeleteRequest> {
        match self.ask(DeletionRequest::List { tenant: tenant(tenant_name), bounds_ns: None }) {
            DeletionReply::Listed(requests) => requests,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn status(&self) -> DeletionStatus {
        match self.ask(DeletionRequest::Status) {
            DeletionReply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// The times of the lines that a query shows.
    pub(super) fn visible(&self, tenant_name: &str) -> Vec<i64> {
        let version = self.shared.deletions.version();
        let known = self.shared.known.borrow();
        let mut times = self.world.stored(tenant_name);
        let hides = |filter: &Arc<DeleteFilter>, time_ns| {
            filter.holds_at(version)
                && filter.selects(&tenant(tenant_name), &labels())
                && filter.overlaps(time_ns, time_ns)
        };
        times.retain(|&time_ns| {
            let by_shard: Vec<bool> =
                known.iter().map(|known| known.iter().any(|f| hides(f, time_ns))).collect();
            assert!(by_shard.iter().all(|&is| is == by_shard[0]), "all shards hide the same");
            !by_shard[0]
        });
        times
    }

    pub(super) fn filters(&self) -> usize {
        self.shared.known.borrow()[0].len()
    }

    pub(super) fn changes(&self) -> &NodeChanges {
        &self.shared.changes
    }

    pub(super) fn wait(&self, duration: Duration) {
        self.world.simulation.run_for(duration);
    }

    /// Ends the node in order.
    pub(super) fn stop(self) {
        self.shared.stop.trigger();
        let ended = self.world.simulation.run_until(|| !self.node.is_running());
        ended.unwrap_or_else(|stuck| panic!("{stuck}"));
    }
}

//! Several nodes that share a bucket, and clients who push to them and ask them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_cluster::map::{Epoch, Map, Partition};
use logsvc_cluster::member::{Accept, Answer, Input};
use logsvc_cluster::settings::Settings;
use logsvc_logql::engine::{
    Direction, LeafResult, MergeState, Plan, QueryParams, QueryResult, QueryTime,
};
use logsvc_logql::syntax;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::sim::{Node, SimRuntime, Simulation};
use logsvc_runtime::{Account, CoreId, Runtime};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::member::MemberHandle;
use logsvc_shards::messages::{AppendRequest, ShardReply, ShardRequest};
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::sink::SinkStatus;
use logsvc_shards::types::{Cancellation, StreamDefinition};
use logsvc_store::double::{Way, World};

use crate::cluster::{AsMember, Cluster, ShardCaller, Upkeep, sleep};

/// The time of the first entry.
const T0_NS: i64 = 1_700_000_000_000_000_000;
/// How long a node may take to leave.
const LEAVE_PATIENCE: Duration = Duration::from_secs(300);
/// How long a client waits for one answer of a shard.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for a push.
const PUSH_PATIENCE: Duration = Duration::from_secs(4);

/// A node as clients see it.
#[derive(Clone)]
pub(crate) struct Peer {
    me: Epoch,
    handle: MemberHandle,
    caller: ShardCaller,
    sink: Option<Arc<SinkStatus>>,
    cores: u16,
    /// With its clock.
    runtime: SimRuntime,
}

/// What clients know of the nodes: who runs.
pub(crate) type Peers = Rc<RefCell<BTreeMap<Epoch, Peer>>>;

/// An entry: the number of its stream, and its own.
pub(crate) type Entry = (u32, u64);

/// What became of the entries that were pushed.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) sent: BTreeSet<Entry>,
    pub(crate) acknowledged: BTreeSet<Entry>,
    /// Entries that an answer has had.
    pub(crate) seen: BTreeSet<Entry>,
    pub(crate) answers: u64,
    /// Why a query was not answered.
    pub(crate) last_failure: String,
}

/// The nodes of a test.
pub(crate) struct Nodes<'s> {
    pub(crate) simulation: &'s Simulation,
    upkeep: Box<dyn Fn() -> Upkeep + 's>,
    alive: Rc<RefCell<BTreeSet<Epoch>>>,
    pub(crate) settings: Settings,
    pub(crate) running: BTreeMap<Epoch, Cluster<'s>>,
    pub(crate) peers: Peers,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    pub(crate) clients: Node,
    /// The way of each node to the bucket.
    ways: BTreeMap<Epoch, World>,
    started: u32,
}

impl<'s> Nodes<'s> {
    pub(crate) fn new(
        simulation: &'s Simulation,
        upkeep: impl Fn() -> Upkeep + 's,
        settings: Settings,
    ) -> Nodes<'s> {
        let clients = simulation.start_node(1, |_| std::future::pending());
        Nodes {
            simulation,
            upkeep: Box::new(upkeep),
            alive: Rc::default(),
            settings,
            running: BTreeMap::new(),
            peers: Rc::default(),
            ledger: Rc::default(),
            clients,
            ways: BTreeMap::new(),
            started: 0,
        }
    }

    /// Starts another node with an empty disk.
    pub(crate) fn start(&mut self, cores: u16) -> Epoch {
        self.start_with_clock(cores, 1_000_000)
    }

    /// The same; its clock goes so far while the right one goes a million.
    pub(crate) fn start_with_clock(&mut self, cores: u16, rate_per_million: u64) -> Epoch {
        let folder: &'static str =
            Box::leak(format!("/srv/member-{}", self.started).into_boxed_str());
        self.started += 1;
        let member = AsMember { settings: self.settings.clone(), alive: Rc::clone(&self.alive) };
        // Nodes have to read all segments again and again.
        let mut upkeep =
            Upkeep { member: Some(member), directories_max_bytes: 1 << 20, ..(self.upkeep)() };
        let bucket = upkeep.followed.as_mut().expect("they share one");
        bucket.world = bucket.world.by_another_way();
        let way = bucket.world.clone();
        let wal = Default::default();
        let node = Cluster::launch_at(folder, self.simulation, cores, wal, upkeep);
        node.node.set_clock_rate_per_million(rate_per_million);
        node.await_start().unwrap_or_else(|failure| panic!("{failure}"));
        let run = self.simulation.run_until(|| node.member().is_some());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        let me = Epoch(node.plan().epoch);
        let peer = Peer {
            me,
            handle: node.member().expect("it is one"),
            caller: node.caller(0),
            sink: node.sink_status(),
            cores,
            runtime: node.node.runtime(CoreId(0)).clone(),
        };
        self.ways.insert(me, way);
        self.peers.borrow_mut().insert(me, peer);
        self.running.insert(me, node);
        me
    }

    /// Kills a node, and takes its disk away.
    pub(crate) fn kill(&mut self, me: Epoch) {
        let node = self.running.remove(&me).expect("it runs");
        node.node.crash();
        self.peers.borrow_mut().remove(&me);
        self.alive.borrow_mut().remove(&me);
    }

    /// Has a node hand over and stop.
    pub(crate) fn leave(&mut self, me: Epoch) {
        assert!(self.try_leave(me), "nobody takes it over");
    }

    /// The same; false if it was taken over before it had left.
    pub(crate) fn try_leave(&mut self, me: Epoch) -> bool {
        let node = self.running.remove(&me).expect("it runs");
        node.member().expect("it is one").tell(Input::Leave);
        let deadline = self.simulation.now().after(LEAVE_PATIENCE);
        let is_over = || node.member_end().is_some() || self.simulation.now() >= deadline;
        self.simulation.run_until(is_over).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert!(node.member_end().is_some(), "{me} does not leave: {:?}", node.member());
        let has_left = node.member_end().as_deref() == Some("this node has left the cluster");
        self.peers.borrow_mut().remove(&me);
        self.alive.borrow_mut().remove(&me);
        if has_left {
            node.stop().unwrap_or_else(|failure| panic!("{failure}"));
        } else {
            node.node.crash();
        }
        has_left
    }

    /// Cuts a node off from the bucket, or gives it back its way there.
    pub(crate) fn set_way(&self, me: Epoch, way: Way) {
        self.ways[&me].set_way(way);
    }

    /// Gives all nodes back their ways to the bucket.
    pub(crate) fn open_all_ways(&self) {
        self.ways.values().for_each(|one| one.set_way(Way::Open));
    }

    /// Lets the others believe that a node has died.
    pub(crate) fn lie(&self, me: Epoch) {
        self.alive.borrow_mut().remove(&me);
    }

    /// Tells the others that the process of a node has ended.
    pub(crate) fn tell_gone(&self, me: Epoch) {
        for peer in self.peers.borrow().values().filter(|peer| peer.me != me) {
            peer.handle.tell(Input::Gone(me));
        }
    }

    /// Lets all believe what is so.
    pub(crate) fn tell_the_truth(&self) {
        self.alive.borrow_mut().extend(self.running.keys().copied());
    }

    /// Forgets nodes that were taken over; a test that expects none asserts so.
    pub(crate) fn bury(&mut self) -> Vec<(Epoch, String)> {
        let ended = self.running.iter().filter_map(|(me, node)| Some((*me, node.member_end()?)));
        let ended: Vec<_> = ended.collect();
        ended.iter().for_each(|(me, _)| self.kill(*me));
        ended
    }

    /// Runs for some time.
    pub(crate) fn run_for(&self, duration: Duration) {
        let end = self.simulation.now().after(duration);
        let run = self.simulation.run_until(|| self.simulation.now() >= end);
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
    }

    /// Runs something of a client to its end.
    pub(crate) fn client<T: 'static>(&self, work: impl AsyncFnOnce(Client) -> T + 'static) -> T {
        let output = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&output);
        let client = self.new_client();
        drop(self.clients.runtime(CoreId(0)).spawn(async move {
            let result = work(client).await;
            *slot.borrow_mut() = Some(result);
        }));
        let run = self.simulation.run_until(|| output.borrow().is_some());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        output.take().expect("it has ended")
    }

    pub(crate) fn new_client(&self) -> Client {
        Client {
            runtime: self.clients.runtime(CoreId(0)).clone(),
            peers: Rc::clone(&self.peers),
            ledger: Rc::clone(&self.ledger),
            tenant: tenant(),
        }
    }
}

/// Pushes and asks.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) runtime: SimRuntime,
    peers: Peers,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    tenant: TenantId,
}

fn tenant() -> TenantId {
    TenantId::new("acme").expect("a good name")
}

fn definition(stream: u32) -> StreamDefinition {
    let pairs = [("app".to_owned(), "a".to_owned()), ("n".to_owned(), stream.to_string())];
    let labels = Labels::from_pairs(pairs).expect("good labels");
    let id = StreamId::new(&tenant(), &labels);
    StreamDefinition { id, tenant: tenant(), labels: Arc::new(labels) }
}

/// Entries of a stream, and the definition of it.
fn append(stream: u32, numbers: std::ops::Range<u64>) -> AppendRequest {
    let definition = definition(stream);
    let mut builder = BatchBuilder::new(Vec::new());
    builder.begin(definition.id);
    for number in numbers {
        let line = format!("{stream} {number}");
        let time_ns = T0_NS + number as i64 * 1_000;
        builder.push(time_ns, line.as_bytes(), std::iter::empty::<(&str, &str)>());
    }
    builder.end();
    let definitions = vec![definition];
    AppendRequest {
        batch: builder.finish(),
        definitions,
        out_of_order_window_ns: None,
        is_replayed: false,
    }
}

impl Client {
    /// A push that nobody keeps account of.
    pub(crate) fn new_append(stream: u32) -> AppendRequest {
        append(stream, 0..3)
    }

    /// Some peer that knows a map.
    fn any_peer(&self) -> Option<Peer> {
        let peers = self.peers.borrow();
        let number = self.runtime.random_u64() as usize % peers.len().max(1);
        peers.values().nth(number).cloned()
    }

    fn peer(&self, me: Epoch) -> Option<Peer> {
        self.peers.borrow().get(&me).cloned()
    }

    async fn call(&self, peer: &Peer, core: CoreId, request: ShardRequest) -> Option<ShardReply> {
        let reply = peer.caller.call(core, request).ok()?;
        let timer = Box::pin(sleep(&self.runtime, PATIENCE));
        match select(Box::pin(reply), timer).await {
            Either::Left((reply, _)) => reply.ok(),
            Either::Right(_) => None,
        }
    }

    /// Pushes entries of a stream until a node has acknowledged them, or for a time.
    pub(crate) async fn push(
        &self,
        stream: u32,
        numbers: std::ops::Range<u64>,
        tries: u32,
    ) -> bool {
        let request = append(stream, numbers.clone());
        let entries = || numbers.clone().map(|number| (stream, number));
        self.ledger.borrow_mut().sent.extend(entries());
        for _ in 0..tries {
            if self.try_push(&request).await {
                self.ledger.borrow_mut().acknowledged.extend(entries());
                return true;
            }
            sleep(&self.runtime, Duration::from_millis(50)).await;
        }
        false
    }

    async fn try_push(&self, push: &AppendRequest) -> bool {
        let Some((_, map)) = self.any_peer().map(|peer| peer.handle.map()) else { return false };
        let partition = push.definitions[0].id.shard(map.slots.len() as u16);
        let owner = map.live_owner(partition).and_then(|owner| self.peer(owner));
        let Some(owner) = owner else { return false };
        if owner.handle.may_accept(partition, owner.runtime.now()) != Accept::Yes {
            return false;
        }
        let Some(core) = owner.handle.core_of(partition) else { return false };
        let request = AppendRequest {
            batch: push.batch.clone(),
            definitions: push.definitions.clone(),
            out_of_order_window_ns: None,
            is_replayed: false,
        };
        let reply = Box::pin(self.call(&owner, core, ShardRequest::Append(request)));
        let timer = Box::pin(sleep(&self.runtime, PUSH_PATIENCE));
        let Either::Left((reply, _)) = select(reply, timer).await else { return false };
        matches!(reply, Some(ShardReply::Append(Ok(_))))
    }

    /// Asks for everything, and judges the answer: it has all that was acknowledged before and all that
    /// an earlier answer had, nothing twice, and nothing that was not sent.
    pub(crate) async fn ask(&self, tries: u32) -> bool {
        let expected: BTreeSet<Entry> = {
            let ledger = self.ledger.borrow();
            ledger.acknowledged.union(&ledger.seen).copied().collect()
        };
        for _ in 0..tries {
            match self.try_ask().await {
                Ok(found) => {
                    self.judge(&expected, &found);
                    self.count().await;
                    return true;
                }
                Err(why) => self.ledger.borrow_mut().last_failure = why,
            }
            sleep(&self.runtime, Duration::from_millis(50)).await;
        }
        false
    }

    fn judge(&self, expected: &BTreeSet<Entry>, found: &[Entry]) {
        let mut ledger = self.ledger.borrow_mut();
        let all: BTreeSet<Entry> = found.iter().copied().collect();
        assert_eq!(all.len(), found.len(), "an entry is there twice");
        let missing: Vec<_> = expected.difference(&all).take(5).collect();
        assert!(missing.is_empty(), "{missing:?} are missing, of {}", expected.len());
        let invented: Vec<_> = all.difference(&ledger.sent).take(5).collect();
        assert!(invented.is_empty(), "{invented:?} were never sent");
        ledger.seen.extend(all);
        ledger.answers += 1;
    }

    /// Counts all entries, if the owners answer. A query of entries drops those that are stored twice, and
    /// a count does not.
    async fn count(&self) {
        let least = {
            let ledger = self.ledger.borrow();
            ledger.acknowledged.union(&ledger.seen).count()
        };
        // A hundred years until then.
        let params = QueryParams::instant(3_000_000_000_000_000_000);
        let query = "sum(count_over_time({app=~`.+`}[100y]))";
        let Ok(QueryResult::Vector(samples)) = self.try_query(query, &params).await else { return };
        let count = samples.first().map_or(0, |sample| sample.point.value as usize);
        let most = self.ledger.borrow().sent.len();
        assert!((least..=most).contains(&count), "{count} were counted, not {least} to {most}");
    }

    async fn try_ask(&self) -> Result<Vec<Entry>, String> {
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params =
            QueryParams { limit: 1 << 20, direction: Direction::Forward, ..QueryParams::new(time) };
        let streams = match self.try_query("{app=~`.+`}", &params).await? {
            QueryResult::Streams(streams) => streams,
            other => return Err(format!("{other:?}")),
        };
        let entry = |line: &str| {
            let (stream, number) = line.split_once(' ').expect("a line of ours");
            (stream.parse().expect("a number"), number.parse().expect("a number"))
        };
        let lines = streams.iter().flat_map(|stream| &stream.entries);
        Ok(lines.map(|found| entry(&String::from_utf8_lossy(&found.line))).collect())
    }

    async fn try_query(&self, query: &str, params: &QueryParams) -> Result<QueryResult, String> {
        let (number, map) = self.any_peer().ok_or("nobody runs")?.handle.map();
        let mut owners: BTreeMap<Epoch, Vec<Partition>> = BTreeMap::new();
        for (partition, _) in map.partitions() {
            let owner = map.live_owner(partition).ok_or("a partition has no owner")?;
            owners.entry(owner).or_default().push(partition);
        }
        let expr = syntax::parse(query).expect("a query");
        let plan = Plan::new(&expr, params).expect("it can be planned");
        let leaf = LeafRequest {
            tenants: self.tenant.clone().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 30),
            entries_each: None,
        };
        let mut merge = MergeState::new(&plan);
        for (owner, partitions) in owners {
            let peer = self.peer(owner).ok_or("an owner is gone")?;
            let asked = self.ask_owner(&peer, &partitions, number, &leaf).await;
            for reply in asked.map_err(|why| format!("{owner}: {why}"))? {
                merge.add(reply);
            }
        }
        merge.finish().map_err(|error| format!("{error:?}"))
    }

    /// Waits until a node may answer, at an instant of its own.
    async fn may_answer(&self, peer: &Peer, partitions: &[Partition], number: u64) -> bool {
        for _ in 0..20 {
            match peer.handle.may_answer(partitions, number, peer.runtime.now()) {
                Answer::Yes => return true,
                Answer::Newer(_) | Answer::NotOwner => return false,
                Answer::ReadOn => peer.handle.tell(Input::Heard(number)),
                Answer::Unproven => peer.handle.tell(Input::ProofWanted),
                Answer::Wait => {}
            }
            sleep(&self.runtime, Duration::from_millis(50)).await;
        }
        false
    }

    async fn ask_owner(
        &self,
        peer: &Peer,
        partitions: &[Partition],
        number: u64,
        leaf: &LeafRequest,
    ) -> Result<Vec<LeafResult>, String> {
        let may_answer = || peer.handle.may_answer(partitions, number, peer.runtime.now());
        if !self.may_answer(peer, partitions, number).await {
            return Err(format!("{:?} at first", may_answer()));
        }
        let cores = || (0..peer.cores).map(CoreId);
        let mut replies = Vec::new();
        for core in cores() {
            replies.push(
                peer.caller.call(core, ShardRequest::Leaf(leaf.clone())).map_err(|_| "full")?,
            );
        }
        // A shard takes requests in order: when it has answered this one, it has taken its snapshot.
        for core in cores() {
            self.call(peer, core, ShardRequest::Status).await.ok_or("no status")?;
        }
        let mark = peer.sink.as_ref().map(|sink| sink.sent());
        if may_answer() != Answer::Yes {
            return Err(format!("{:?} behind the snapshot", may_answer()));
        }
        let mut results = Vec::new();
        for reply in replies {
            let timer = Box::pin(sleep(&self.runtime, PATIENCE));
            let Either::Left((Ok(reply), _)) = select(Box::pin(reply), timer).await else {
                return Err("no answer".to_owned());
            };
            let ShardReply::Leaf(Ok(reply)) = reply else { return Err(format!("{reply:?}")) };
            if reply.stats.unreadable_parts > 0 {
                return Err(format!("{} unreadable parts", reply.stats.unreadable_parts));
            }
            results.push(reply.result);
            for job in reply.rest.into_iter().flat_map(|rest| rest.divide(1)) {
                let share = ShardRequest::Share(Box::new(job));
                let reply = self.call(peer, CoreId(0), share).await.ok_or("no share")?;
                let ShardReply::Leaf(Ok(reply)) = reply else { return Err(format!("{reply:?}")) };
                if reply.stats.unreadable_parts > 0 {
                    return Err("a share is unreadable".to_owned());
                }
                results.push(reply.result);
            }
        }
        // What an answer has must not get lost any more.
        while let (Some(sink), Some(mark)) = (&peer.sink, &mark)
            && !sink.is_confirmed(mark)
        {
            sleep(&self.runtime, Duration::from_millis(20)).await;
            self.peer(peer.me).ok_or("it has gone")?;
        }
        Ok(results)
    }
}

/// The newest map that a node knows.
pub(crate) fn map_of(nodes: &Nodes<'_>, me: Epoch) -> (u64, Map) {
    nodes.peers.borrow()[&me].handle.map()
}

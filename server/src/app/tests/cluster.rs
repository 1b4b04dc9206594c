//! Several whole nodes on the simulation, which share a bucket.

mod tails;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use logsvc_runtime::CoreId;
use logsvc_runtime::sim::Node as Process;

use super::*;
use crate::config::targets::Part;
use crate::config::{BucketConfig, ClusterConfig, ClusterTls, Durability, Parts, targets};

mod cuts;
mod deletion;
mod disks;
mod limits;
mod partial;
mod rings;
mod roles;

const PARTITIONS: u16 = 16;
pub(super) const HTTP_PORT: u16 = 3100;
const PEER_PORT: u16 = 9095;

pub(super) fn ip(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, node as u8 + 1).into()
}

/// A node that was started.
pub(super) struct Started {
    pub(super) process: Process,
    pub(super) state: Arc<NodeState>,
}

pub(super) struct World {
    pub(super) simulation: Simulation,
    pub(super) disk: Disk,
    pub(super) nodes: BTreeMap<usize, Started>,
    pub(super) clients: Process,
    starts: usize,
    /// How long requests for deletion can be cancelled, and objects stay that nobody needs.
    pub(super) removal: Duration,
    /// What other settings than usual the nodes have.
    pub(super) settings: fn(&mut Config),
    /// What other limits than usual tenants have.
    limits: fn(&mut Limits),
    /// What nodes do that are started.
    parts: Parts,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let simulation = Simulation::new(seed);
        simulation.set_max_polls(u64::MAX);
        simulation.set_unix_nanos(1_700_000_000 * SECOND_NS);
        let clients = simulation.start_node(1, |_| std::future::pending());
        let disk = simulation.disk().clone();
        let removal = Duration::from_secs(24 * 3600);
        let (nodes, settings): (_, fn(&mut Config)) = (BTreeMap::new(), |_| ());
        let (limits, parts) = (|_: &mut Limits| (), targets::ALL);
        World { simulation, disk, nodes, clients, starts: 0, removal, settings, limits, parts }
    }

    /// Starts a node at an address, with an empty folder.
    pub(super) fn start(&mut self, node: usize, cores: u16) {
        self.start_at_last(node, cores);
        let state = Arc::clone(&self.nodes[&node].state);
        let has_started = || state.failure().is_some() || owned(&state) > 0;
        self.simulation.run_until(has_started).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(state.failure(), None);
    }

    /// The same; it may get partitions later.
    fn start_at_last(&mut self, node: usize, cores: u16) {
        self.begin(node, cores);
        let state = Arc::clone(&self.nodes[&node].state);
        let has_started = || state.failure().is_some() || state.recovered.is_complete();
        self.simulation.run_until(has_started).unwrap_or_else(|stuck| panic!("{stuck}"));
        assert_eq!(state.failure(), None);
    }

    /// The same; it may start later.
    fn begin(&mut self, node: usize, cores: u16) {
        let machine = Machine { cores, memory_bytes: Ok(1 << 30), limited_by: None };
        let loaded = config::load(None, false, &[], &machine).expect("defaults");
        let (mut config, mut limits) = (loaded.config, Limits::clone(loaded.limits.others()));
        limits.max_entries_limit_per_query = 0;
        limits.deletion_mode = DeletionMode::FilterAndDelete;
        config.http_address = SocketAddr::new(ip(node), HTTP_PORT);
        config.auth_enabled = true;
        config.retention_enabled = true;
        config.delete_cancel_period = self.removal;
        config.retention_delete_delay = self.removal;
        config.data_dir = PathBuf::from(format!("/srv/{}", self.starts));
        config.bucket = Some(BucketConfig::Folder("/bucket".into()));
        config.storage.partitions = PARTITIONS;
        config.wal.durability = Durability::Store;
        self.starts += 1;
        let mut membership = logsvc_membership::settings::Settings {
            bind_addr: vec![ip(node)],
            ..Default::default()
        };
        let others = (0..8).filter(|other| *other != node);
        membership.join.join_members = others.map(|other| ip(other).to_string()).collect();
        config.cluster = Some(ClusterConfig {
            parts: self.parts,
            instance_id: format!("node-{node}"),
            advertise_ip: Some(ip(node)),
            zone: String::new(),
            interface_names: Vec::new(),
            tls: ClusterTls::default(),
            etcd: None,
            peer_listen: SocketAddr::new(ip(node), PEER_PORT),
            membership,
        });
        (self.settings)(&mut config);
        (self.limits)(&mut limits);
        let limits = LimitsOfTenants::same_for_all(limits);
        let doors = Doors {
            tls: Certificates::default(),
            users: None,
            connections: ConnectionLimit::new(10_000),
        };
        let boot =
            Boot::new(Arc::new(config), limits, doors, Latch::new(), Surroundings::default());
        let state = Arc::clone(&boot.node);
        let process = self
            .simulation
            .start_node_on(&self.disk, cores, move |runtime| run_core(runtime, boot.clone()));
        self.nodes.insert(node, Started { process, state });
    }

    pub(super) fn run_for(&self, duration: Duration) {
        let end = self.simulation.now().after(duration);
        let run = self.simulation.run_until(|| self.simulation.now() >= end);
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
    }

    /// Runs something of a client to its end.
    pub(super) fn client<T: 'static>(
        &self,
        work: impl AsyncFnOnce(SimRuntime) -> T + 'static,
    ) -> T {
        let (output, runtime) =
            (Rc::new(RefCell::new(None)), self.clients.runtime(CoreId(0)).clone());
        let slot = Rc::clone(&output);
        drop(runtime.clone().spawn(async move {
            let result = work(runtime).await;
            *slot.borrow_mut() = Some(result);
        }));
        let run = self.simulation.run_until(|| output.borrow().is_some());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        output.take().expect("it has ended")
    }

    pub(super) fn kill(&mut self, node: usize) {
        self.nodes.remove(&node).expect("it runs").process.crash();
    }

    /// Stops a node in order; false if it was taken over meanwhile.
    pub(super) fn stop(&mut self, node: usize) -> bool {
        let Started { process, state } = self.nodes.remove(&node).expect("it runs");
        state.stop.trigger();
        let run = self.simulation.run_until(|| !process.is_running());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        state.failure().is_none()
    }

    /// The nodes that run, and what each of them does.
    fn addresses(&self) -> Vec<(usize, Parts)> {
        self.nodes.iter().map(|(node, it)| (*node, it.state.config.parts())).collect()
    }

    /// How many partitions each node owns by its own map.
    fn shares(&self) -> Vec<usize> {
        self.nodes.values().map(|node| owned(&node.state)).collect()
    }
}

fn owned(state: &NodeState) -> usize {
    let routes = state.cluster.as_ref().and_then(|cluster| cluster.routes());
    let Some(routes) = routes.map(|routes| routes.get()) else { return 0 };
    routes.map.slots.iter().filter(|slot| slot.owner == Some(routes.me)).count()
}

/// Pushes lines of many streams to a node, again and again until it takes them.
pub(super) async fn push(runtime: &SimRuntime, node: usize, numbers: std::ops::Range<u64>) -> u32 {
    let streams: Vec<Value> = (0..20)
        .map(|stream| {
            let now_ns = runtime.unix_nanos();
            let values: Vec<Value> = numbers
                .clone()
                .map(|number| json!([(now_ns + number as i64).to_string(), format!("{number}")]))
                .collect();
            json!({"stream": {"app": "a", "n": stream.to_string()}, "values": values})
        })
        .collect();
    let body = json!({ "streams": streams }).to_string();
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    for attempt in 0..100 {
        match http(runtime, address, "POST", "/loki/api/v1/push", &body).await {
            Ok((204, _)) => return attempt,
            Ok((429 | 503, _)) | Err(_) => {}
            Ok((status, text)) => panic!("{status}: {text}"),
        }
        runtime.sleep_until(runtime.now().after(Duration::from_millis(200))).await;
    }
    panic!("node {node} takes nothing");
}

/// The lines of all streams, each with its stream, by a node's answer.
async fn found(runtime: &SimRuntime, node: usize) -> Vec<(String, u64)> {
    let now_ns = runtime.unix_nanos();
    let (start_ns, end_ns) = (now_ns - 3600 * SECOND_NS, now_ns + 60 * SECOND_NS);
    let target = format!(
        "/loki/api/v1/query_range?query=%7Bapp%3D%22a%22%7D&start={start_ns}&end={end_ns}&limit=5000"
    );
    lines(&get(runtime, node, &target).await)
}

/// The lines of an answer, each with its stream.
fn lines(answer: &Value) -> Vec<(String, u64)> {
    let streams = answer["data"]["result"].as_array().expect("streams");
    let lines = streams.iter().flat_map(|stream| {
        let name = stream["stream"]["n"].as_str().expect("a stream").to_owned();
        let values = stream["values"].as_array().expect("values").iter();
        values.map(move |value| {
            (name.clone(), value[1].as_str().expect("a line").parse().expect("a number"))
        })
    });
    lines.collect()
}

pub(super) async fn get(runtime: &SimRuntime, node: usize, target: &str) -> Value {
    let address = SocketAddr::new(ip(node), HTTP_PORT);
    let (status, text) = http(runtime, address, "GET", target, "").await.expect("an answer");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

/// Every node answers with each of so many lines of twenty streams, once.
async fn all_are_there(runtime: SimRuntime, nodes: Vec<usize>, count: u64) {
    for node in nodes {
        let found = found(&runtime, node).await;
        let distinct: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!((found.len(), distinct.len()), (20 * count as usize, 20 * count as usize));
    }
}

#[test]
fn nodes_take_pushes_and_answer_for_each_other() {
    let _guard = SeedGuard(1);
    let mut world = World::new(1);
    world.start(0, 2);
    world.client(async |runtime| push(&runtime, 0, 0..10).await);
    world.client(async |runtime| all_are_there(runtime, vec![0], 10).await);
    world.start(1, 1);
    world.start(2, 2);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.shares().iter().sum::<usize>(), usize::from(PARTITIONS));
    assert!(world.shares().iter().all(|share| (5..=6).contains(share)), "{:?}", world.shares());
    world.client(async |runtime| {
        push(&runtime, 1, 10..20).await;
        push(&runtime, 2, 20..30).await;
        all_are_there(runtime.clone(), vec![0, 1, 2], 30).await;
        for node in 0..3 {
            let labels = get(&runtime, node, "/loki/api/v1/labels").await;
            assert_eq!(labels["data"], json!(["app", "n", "service_name"]));
            let values = get(&runtime, node, "/loki/api/v1/label/n/values").await;
            assert_eq!(values["data"].as_array().map(Vec::len), Some(20));
            let series =
                get(&runtime, node, "/loki/api/v1/series?match[]=%7Bapp%3D%22a%22%7D").await;
            assert_eq!(series["data"].as_array().map(Vec::len), Some(20));
            let count = "sum(count_over_time(%7Bapp%3D%22a%22%7D%5B1h%5D))";
            let answer = get(&runtime, node, &format!("/loki/api/v1/query?query={count}")).await;
            assert_eq!(answer["data"]["result"][0]["value"][1], "600");
        }
    });
    // One is stopped in order, and one dies with everything that it has.
    assert!(world.stop(1));
    world.client(async |runtime| {
        push(&runtime, 0, 30..40).await;
        all_are_there(runtime, vec![0, 2], 40).await;
    });
    world.kill(0);
    world.client(async |runtime| {
        push(&runtime, 2, 40..50).await;
        all_are_there(runtime, vec![2], 50).await;
    });
    assert_eq!(world.shares(), [usize::from(PARTITIONS)]);
    // Who starts at the address of one that has died does not answer in its place.
    world.start(0, 1);
    world.run_for(Duration::from_secs(10));
    world.kill(0);
    world.start_at_last(0, 2);
    world.client(async |runtime| all_are_there(runtime, vec![2], 50).await);
}

/// The machine of a process that has died refuses connections to it.
#[test]
fn who_dies_is_taken_over_within_two_and_a_half_seconds() {
    for seed in 5..8 {
        let _guard = SeedGuard(seed);
        let mut world = World::new(seed);
        for node in 0..3 {
            world.start(node, 1);
        }
        world.run_for(Duration::from_secs(10));
        world.client(async |runtime| push(&runtime, 0, 0..10).await);
        world.kill(1);
        let killed = world.simulation.now();
        let attempts = world.client(async |runtime| {
            let pushes = [push(&runtime, 0, 10..20), push(&runtime, 2, 20..30)];
            futures_util::future::join_all(pushes).await
        });
        let took = world.simulation.now().since(killed);
        assert_eq!(attempts, [0, 0]);
        assert!(took < Duration::from_millis(2_500), "{took:?}");
        world.client(async |runtime| all_are_there(runtime, vec![0, 2], 30).await);
        let took = world.simulation.now().since(killed);
        assert!(took < Duration::from_secs(5), "{took:?}");
        // Nobody has to push for it.
        world.run_for(Duration::from_secs(25));
        world.kill(2);
        world.run_for(Duration::from_secs(2));
        assert_eq!(world.shares(), [usize::from(PARTITIONS)]);
        world.client(async |runtime| all_are_there(runtime, vec![0], 30).await);
        // Who starts at the address of one that has died takes over from it at once.
        world.start(1, 1);
        world.run_for(Duration::from_secs(10));
        world.kill(1);
        world.start_at_last(1, 1);
        let started = world.simulation.now();
        world.client(async |runtime| push(&runtime, 0, 30..40).await);
        let took = world.simulation.now().since(started);
        assert!(took < Duration::from_millis(2_500), "{took:?}");
        world.client(async |runtime| all_are_there(runtime, vec![0, 1], 40).await);
    }
}

/// A node that stands still keeps its connections open and says nothing.
#[test]
fn nobody_waits_for_a_node_that_stands_still_once_it_was_taken_over() {
    let _guard = SeedGuard(4);
    let mut world = World::new(4);
    world.start(0, 2);
    world.start(1, 1);
    world.run_for(Duration::from_secs(10));
    world.client(async |runtime| {
        push(&runtime, 0, 0..10).await;
        all_are_there(runtime, vec![0, 1], 10).await;
    });
    world.nodes[&1].process.stop();
    let begun = world.simulation.now();
    world.client(async |runtime| {
        let asking = found(&runtime, 0);
        let (found, _) = futures_util::future::join(asking, push(&runtime, 0, 10..20)).await;
        // The push may be there already, in part.
        assert!(found.len() >= 200, "{}", found.len());
    });
    let took = world.simulation.now().since(begun);
    let usual = Duration::from_secs(5)..Duration::from_secs(20);
    assert!(usual.contains(&took), "{took:?}");
    world.client(async |runtime| all_are_there(runtime, vec![0], 20).await);
    world.nodes[&1].process.go_on();
    world.run_for(Duration::from_secs(5));
    let failure = world.nodes[&1].state.failure();
    assert!(failure.is_some_and(|text| text.contains("has taken over")), "it has ended");
}

/// The node that keeps what all have in common.
pub(super) fn keeper(world: &World) -> usize {
    let keeps = |node: &Started| {
        let cluster = node.state.cluster.as_ref().expect("one of many");
        let since = cluster.routes().expect("it has joined").get().keeper_since;
        since.is_some_and(|since| cluster.common.get().keeps(since))
    };
    let keepers: Vec<usize> =
        world.nodes.iter().filter(|(_, node)| keeps(node)).map(|(node, _)| *node).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?}");
    keepers[0]
}

/// What clients were told.
#[derive(Default)]
struct Ledger {
    sent: BTreeSet<(String, u64)>,
    acknowledged: BTreeSet<(String, u64)>,
    seen: BTreeSet<(String, u64)>,
    /// Entries that a request for deletion hides, for good: somebody was told so, or an answer that
    /// should have had them did not.
    hidden: BTreeSet<(String, u64)>,
    /// Streams of which requests for deletion may hide any entry.
    perhaps_hidden: BTreeSet<String>,
    answers: u64,
    unanswered: u64,
}

type SharedLedger = Rc<RefCell<Ledger>>;

/// Where clients send requests: nodes that run, as far as somebody knows, and what they do.
type Addresses = Rc<RefCell<Vec<(usize, Parts)>>>;

/// A client that pushes and asks until it is told to stop.
struct Client {
    runtime: SimRuntime,
    ledger: SharedLedger,
    addresses: Addresses,
    number: u64,
}

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Client {
    fn some_node(&self, part: Part) -> Option<usize> {
        let addresses = self.addresses.borrow();
        let nodes = addresses.iter().filter(|(_, parts)| parts.has(part));
        let nodes: Vec<usize> = nodes.map(|(node, _)| *node).collect();
        let place = self.runtime.random_u64() as usize % nodes.len().max(1);
        nodes.get(place).copied()
    }

    /// The answer of some node that has a part, if it comes.
    async fn request(
        &self,
        part: Part,
        method: &str,
        target: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        let address = SocketAddr::new(ip(self.some_node(part)?), HTTP_PORT);
        let answer = std::pin::pin!(http(&self.runtime, address, method, target, body));
        let late = std::pin::pin!(self.runtime.sleep_until(self.runtime.now().after(PATIENCE)));
        match select(answer, late).await {
            // A node with other parts has been started at the address.
            Either::Left((Ok((404, _)), _)) => None,
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(_) => None,
        }
    }

    async fn pause(&self, ms: u64) {
        self.runtime.sleep_until(self.runtime.now().after(Duration::from_millis(ms))).await;
    }

    /// Pushes lines of some streams until a node says that they are stored.
    async fn push(&self, next: u64) {
        let streams = (0..6).map(|stream| format!("{}-{stream}", self.number));
        let time_ns = 1_700_000_000 * SECOND_NS + next as i64;
        let values =
            |number: u64| json!([(time_ns + number as i64).to_string(), number.to_string()]);
        let body: Vec<Value> = streams
            .clone()
            .map(|name| {
                let values = [values(next), values(next + 1)];
                json!({"stream": {"app": "a", "n": name}, "values": values})
            })
            .collect();
        let entries: Vec<(String, u64)> =
            streams.flat_map(|name| [(name.clone(), next), (name, next + 1)]).collect();
        self.ledger.borrow_mut().sent.extend(entries.iter().cloned());
        let body = json!({ "streams": body }).to_string();
        for _ in 0..200 {
            match self.request(Part::Distributor, "POST", "/loki/api/v1/push", &body).await {
                Some((204, _)) => {
                    self.ledger.borrow_mut().acknowledged.extend(entries);
                    return;
                }
                Some((429 | 500 | 503, _)) | None => {}
                Some((status, text)) => panic!("{status}: {text}"),
            }
            self.pause(100).await;
        }
    }

    /// Deletes what one of the streams has.
    async fn delete(&self) {
        let name = format!("{}-{}", self.number, self.runtime.random_u64() % 6);
        let target = format!(
            "/loki/api/v1/delete?query=%7Bapp%3D%22a%22%2Cn%3D%22{name}%22%7D&start=1600000000\
             &end=1700000001"
        );
        let known: BTreeSet<(String, u64)> = {
            let mut ledger = self.ledger.borrow_mut();
            let known = ledger.sent.iter().filter(|(stream, _)| *stream == name).cloned();
            let known: BTreeSet<_> = known.collect();
            ledger.perhaps_hidden.insert(name);
            known
        };
        match self.request(Part::Compactor, "POST", &target, "").await {
            Some((204, _)) => self.ledger.borrow_mut().hidden.extend(known),
            Some((429 | 503, _)) | None => {}
            Some((status, text)) => panic!("{status}: {text}"),
        }
    }

    /// Asks for everything, and judges the answer; false if there is none.
    async fn ask(&self) -> bool {
        let (expected, hidden): (BTreeSet<(String, u64)>, _) = {
            let ledger = self.ledger.borrow();
            let expected = ledger.acknowledged.union(&ledger.seen).cloned().collect();
            (expected, ledger.hidden.clone())
        };
        let (start_ns, end_ns) = (1_699_999_000 * SECOND_NS, 1_700_001_000 * SECOND_NS);
        let takes_part = self.runtime.random_u64().is_multiple_of(4);
        let target = format!(
            "/loki/api/v1/query_range?query=%7Bapp%3D%22a%22%7D&start={start_ns}&end={end_ns}\
             &limit=100000&partial={takes_part}"
        );
        let answer = self.request(Part::Querier, "GET", &target, "").await;
        let Some((status, text)) = answer else { return false };
        if status != 200 {
            assert!(matches!(status, 429 | 503 | 504), "{status}: {text}");
            return false;
        }
        let answer: Value = match serde_json::from_str(&text) {
            Ok(answer) => answer,
            // The node has died in the midst of it.
            Err(error) if error.is_eof() => return false,
            Err(error) => panic!("{error}: {text}"),
        };
        let found = lines(&answer);
        let all: BTreeSet<_> = found.iter().cloned().collect();
        assert_eq!(all.len(), found.len(), "a line is there twice");
        let mut ledger = self.ledger.borrow_mut();
        let invented: Vec<_> = all.difference(&ledger.sent).take(5).collect();
        assert!(invented.is_empty(), "{invented:?} were never sent");
        if answer["warnings"][0].as_str().is_some_and(|it| it.starts_with("this answer is partial"))
        {
            assert!(takes_part, "nobody has asked for a part");
            return true;
        }
        let back: Vec<_> = hidden.intersection(&all).take(5).collect();
        assert!(back.is_empty(), "{back:?} were deleted, and are there again");
        let lacks: BTreeSet<_> = expected.difference(&all).cloned().collect();
        let is_kept = |(name, _): &&(String, u64)| !ledger.perhaps_hidden.contains(name);
        let missing: Vec<_> = lacks.iter().filter(is_kept).take(5).collect();
        let (warnings, count) = (&answer["warnings"], expected.len());
        assert!(missing.is_empty(), "{missing:?} are missing, of {count}; warnings: {warnings}");
        ledger.seen.extend(all);
        ledger.hidden.extend(lacks);
        ledger.answers += 1;
        true
    }
}

/// What happened over all seeds.
#[derive(Default, Debug)]
struct Tally {
    starts: u32,
    readers: u32,
    stops: u32,
    kills: u32,
    pauses: u32,
    cuts: u32,
    ended: u32,
    acknowledged: usize,
    hidden: usize,
    answers: u64,
    unanswered: u64,
}

/// Whole nodes start, are stopped in order, die with their disks, stand still and go on; links between
/// them break in one direction. What clients are told by any node holds all the time.
#[test]
fn nothing_is_lost_or_doubled_whatever_becomes_of_nodes_and_links() {
    let mut tally = Tally::default();
    let all = seeds(8);
    let count = all.end - all.start;
    for seed in all {
        let _guard = SeedGuard(seed);
        trouble(seed, &mut tally);
    }
    println!("{tally:?}");
    if count >= 8 {
        assert!(tally.starts > 20 && tally.stops > 2 && tally.kills > 4 && tally.pauses > 4);
        assert!(tally.cuts > 4 && tally.acknowledged > 1_000 && tally.answers > 50);
        assert!(tally.hidden > 100 && tally.readers > 2);
    }
}

fn trouble(seed: u64, tally: &mut Tally) {
    let mut world = World::new(seed);
    let mut rng = Rng::new(seed);
    world.start(0, 2);
    tally.starts += 1;
    let (ledger, addresses) = (SharedLedger::default(), Addresses::default());
    let stop = Rc::new(std::cell::Cell::new(false));
    let client = |number| Client {
        runtime: world.clients.runtime(CoreId(0)).clone(),
        ledger: Rc::clone(&ledger),
        addresses: Rc::clone(&addresses),
        number,
    };
    for number in 0..rng.between(1, 3) {
        let (client, stop) = (client(number), Rc::clone(&stop));
        drop(client.runtime.clone().spawn(async move {
            let mut next = 0;
            while !stop.get() {
                client.push(next).await;
                next += 2;
                if next > 20 && client.runtime.random_u64() % 12 == 0 {
                    client.delete().await;
                }
                if !client.ask().await {
                    client.ledger.borrow_mut().unanswered += 1;
                }
                client.pause(200).await;
            }
        }));
    }
    let last = client(99);
    let mut asleep: BTreeSet<usize> = BTreeSet::new();
    for _ in 0..rng.between(8, 20) {
        *addresses.borrow_mut() = world.addresses();
        world.run_for(Duration::from_millis(rng.between(200, 8_000)));
        // Who was taken over has ended.
        let ended = world.nodes.iter().filter(|(_, node)| node.state.failure().is_some());
        for node in ended.map(|(node, _)| *node).collect::<Vec<_>>() {
            world.kill(node);
            asleep.remove(&node);
            tally.ended += 1;
        }
        let awake: Vec<usize> =
            world.nodes.keys().filter(|node| !asleep.contains(node)).copied().collect();
        let chosen = (!awake.is_empty()).then(|| *rng.pick(&awake));
        match (rng.below(12), chosen) {
            (0..=3, _) | (_, None) if world.nodes.len() < 4 => {
                let free = (0..8).find(|node| !world.nodes.contains_key(node));
                world.simulation.heal();
                world.parts = if rng.one_in(4) { roles::READ } else { targets::ALL };
                tally.readers += u32::from(world.parts == roles::READ);
                world.start_at_last(free.expect("four run"), rng.between(1, 3) as u16);
                tally.starts += 1;
            }
            (4, Some(node)) if awake.len() > 1 && asleep.is_empty() => {
                world.simulation.heal();
                addresses.borrow_mut().retain(|(one, _)| *one != node);
                match world.stop(node) {
                    true => tally.stops += 1,
                    false => tally.ended += 1,
                }
            }
            (5, Some(node)) => {
                world.kill(node);
                tally.kills += 1;
            }
            (6 | 7, Some(node)) => {
                world.nodes[&node].process.stop();
                asleep.insert(node);
                tally.pauses += 1;
            }
            (8 | 9, Some(from)) if awake.len() > 1 => {
                let to = *rng.pick(&awake);
                if from != to {
                    let (from, to) = (&world.nodes[&from].process, &world.nodes[&to].process);
                    world.simulation.cut(from, to);
                    tally.cuts += 1;
                }
            }
            _ => {
                world.simulation.heal();
                asleep.iter().for_each(|node| world.nodes[node].process.go_on());
                asleep.clear();
            }
        }
    }
    world.simulation.heal();
    asleep.iter().for_each(|node| world.nodes[node].process.go_on());
    world.run_for(Duration::from_secs(10));
    world.nodes.retain(|_, node| node.state.failure().is_none());
    if world.addresses().iter().all(|(_, parts)| !parts.has(Part::Ingester)) {
        world.parts = targets::ALL;
        let free = (0..8).find(|node| !world.nodes.contains_key(node));
        world.start_at_last(free.expect("a place"), 2);
        tally.starts += 1;
    }
    *addresses.borrow_mut() = world.addresses();
    stop.set(true);
    world.run_for(Duration::from_secs(60));
    let is_answered = world.client(async move |_| {
        for _ in 0..100 {
            if last.ask().await {
                return true;
            }
            last.pause(500).await;
        }
        false
    });
    assert!(is_answered, "nobody answers in the end");
    let ledger = ledger.borrow();
    tally.acknowledged += ledger.acknowledged.len();
    tally.hidden += ledger.hidden.len();
    tally.answers += ledger.answers;
    tally.unanswered += ledger.unanswered;
}

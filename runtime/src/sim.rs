//! A deterministic simulation of machines: one thread, one seed, a virtual
//! clock, a network in memory and disks that fail in every way disks may.
//!
//! Guarantees: the same seed and the same program give the same run, to the last poll;
//! [`Simulation::trace_hash`] proves it. A run that cannot go on, or never ends, is reported with
//! its seed instead of hanging. A program that uses other sources of state (thread-locals, clocks
//! of `std`, hashers with random seeds) breaks this.
//!
//! What may go wrong in it: any order of tasks that independent cores could produce, and stalls of
//! single cores (`world.rs`); the disk (`disk.rs`, `inode.rs`, `names.rs`); the network
//! (`stream.rs`, `network.rs`, `datagrams.rs`), with links that are cut; the end of a node at any moment, with its
//! kernel operations half done; a node that is stopped and goes on later (`node.rs`); clocks of nodes
//! that go at another rate, and wall clocks that jump (`clocks.rs`).
//!
//! Not modelled: parallel execution within a poll, so no data races between
//! atomics; memory exhaustion; monotonic clocks that go back or stand still.
//!
//! ```
//! use logsvc_runtime::sim::Simulation;
//! use logsvc_runtime::{File, OpenMode, Runtime};
//!
//! let simulation = Simulation::new(7);
//! let node = simulation.start_node(2, |runtime| async move {
//!     if runtime.core().0 == 0 {
//!         let file = runtime.open("/log".as_ref(), OpenMode::CreateNew).await.unwrap();
//!         file.write_all_at(b"durable".to_vec(), 0).await.0.unwrap();
//!         file.sync_data().await.unwrap();
//!         runtime.sync_dir("/".as_ref()).await.unwrap();
//!     }
//! });
//! simulation.run_until(|| !node.is_running()).unwrap();
//! simulation.disk().power_loss();
//! let content = simulation.block_on(|runtime| async move {
//!     runtime.read_file("/log".as_ref(), 100).await.unwrap()
//! });
//! assert_eq!(content, b"durable");
//! ```

mod clocks;
mod completion;
mod content;
mod costs;
mod datagrams;
mod disk;
mod disk_faults;
mod file;
mod hosts;
mod inode;
mod names;
mod network;
mod node;
mod random;
mod ready;
mod runtime;
mod stream;
mod timer;
mod world;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::rc::Rc;
use std::time::Duration;

pub use self::datagrams::SimDatagrams;
pub use self::disk::Disk;
pub use self::disk_faults::{DiskOperation, FaultRates};
pub use self::file::SimFile;
pub use self::network::SimListener;
pub use self::node::Node;
pub use self::runtime::{SimRuntime, SimTask};
pub use self::stream::{SimReader, SimWriter};

use self::completion::completion;
pub(crate) use self::costs::charge;
use self::network::Network;
use self::world::World;
use crate::Monotonic;

/// Polls after which a run counts as one that never ends.
const DEFAULT_MAX_POLLS: u64 = 20_000_000;

/// Why a run could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The simulation's seed.
    pub seed: u64,
    /// The virtual clock, in nanoseconds.
    pub now_nanos: u64,
    /// Polls since the start of the simulation.
    pub polls: u64,
    /// Tasks that wait.
    pub tasks: usize,
    /// True if no event can ever happen; false if too many polls were made.
    pub is_deadlock: bool,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { seed, now_nanos, polls, tasks, is_deadlock } = self;
        let what = if *is_deadlock { "deadlock" } else { "livelock" };
        write!(
            f,
            "simulation seed {seed}: {what} at {now_nanos} ns after {polls} polls, \
             {tasks} tasks left"
        )
    }
}

impl std::error::Error for Stuck {}

/// A world of nodes, disks and connections. When a test panics, dropping it
/// prints the seed.
pub struct Simulation {
    world: Rc<World>,
    network: Rc<Network>,
    disk: Disk,
    disk_count: Cell<u64>,
    max_polls: Cell<u64>,
}

impl Simulation {
    /// A world with an empty disk and no nodes.
    pub fn new(seed: u64) -> Simulation {
        let world = Rc::new(World::new(seed));
        Simulation {
            network: Rc::new(Network::new(seed)),
            disk: Disk::new(&world, 0),
            world,
            disk_count: Cell::new(1),
            max_polls: Cell::new(DEFAULT_MAX_POLLS),
        }
    }

    /// The seed given at the start.
    pub fn seed(&self) -> u64 {
        self.world.seed()
    }

    /// The disk that nodes use unless told otherwise.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// A further, empty disk.
    pub fn new_disk(&self) -> Disk {
        let number = self.disk_count.get();
        self.disk_count.set(number + 1);
        Disk::new(&self.world, number)
    }

    /// The virtual clock.
    pub fn now(&self) -> Monotonic {
        Monotonic(self.world.now_nanos())
    }

    /// Sets the wall clock of all nodes, in nanoseconds since the Unix epoch. It
    /// starts at 2026-01-01 and advances with the virtual clock.
    pub fn set_unix_nanos(&self, unix_nanos: i64) {
        self.world.set_unix_nanos(unix_nanos);
    }

    /// Sets how many polls one run may take before it counts as a livelock; 20
    /// million unless set.
    pub fn set_max_polls(&self, max_polls: u64) {
        self.max_polls.set(max_polls);
    }

    /// Lets the next `count` accepts of any listener fail with `EMFILE`.
    pub fn fail_next_accepts(&self, count: u64) {
        self.network.fail_next_accepts(count);
    }

    /// Sets the capacity of one direction of later connections, in unread bytes; 64 to 512 KiB
    /// unless set. Small buffers let writers wait.
    pub fn set_socket_buffer_bytes(&self, range: RangeInclusive<u64>) {
        self.network.buffer_bytes.replace(range);
    }

    /// Sets what looking up a host gives from here on, and how long that takes. Other hosts are not
    /// known, except `localhost` and addresses.
    pub fn set_host(
        &self,
        host: &str,
        answer: Result<Vec<IpAddr>, io::ErrorKind>,
        delay: Duration,
    ) {
        self.network.hosts.set(host, answer, delay);
    }

    /// Sets how many of a million datagrams get lost on their way; none unless set.
    pub fn set_datagram_loss_per_million(&self, loss_per_million: u32) {
        self.network.datagrams.loss_per_million.set(loss_per_million);
    }

    /// Sets how many of a million datagrams arrive twice; none unless set.
    pub fn set_datagram_doubles_per_million(&self, double_per_million: u32) {
        self.network.datagrams.double_per_million.set(double_per_million);
    }

    /// Cuts the link from a node to another one, in this direction alone, until [`Simulation::heal`].
    pub fn cut(&self, from: &Node, to: &Node) {
        self.network.cut(from.id(), to.id());
    }

    /// Makes all links whole again.
    pub fn heal(&self) {
        self.network.heal();
    }

    /// Sets how many connections may wait at a listener; 4096 unless set.
    pub fn set_backlog_connections(&self, count: usize) {
        self.network.backlog_connections.set(count);
    }

    /// Sets the cost of each call of [`crate::give_way`] on the virtual clock: nothing unless set.
    pub fn set_look_cost(&self, cost: Duration) {
        self.world.set_look_nanos(u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The highest sum of these costs in one poll of one task. Other tasks of its core stand still
    /// meanwhile.
    pub fn longest_poll(&self) -> Duration {
        Duration::from_nanos(self.world.longest_poll_nanos())
    }

    /// A hash of everything that was polled and delivered so far, and when. Two
    /// runs of one seed give the same.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace_hash()
    }

    /// Polls made so far.
    pub fn polls(&self) -> u64 {
        self.world.polls()
    }

    /// Starts a process on the simulation's disk; `main` runs once per core.
    pub fn start_node<F, Fut>(&self, cores: u16, main: F) -> Node
    where
        F: Fn(SimRuntime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        self.start_node_on(&self.disk, cores, main)
    }

    /// Starts a process on another disk.
    pub fn start_node_on<F, Fut>(&self, disk: &Disk, cores: u16, main: F) -> Node
    where
        F: Fn(SimRuntime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        Node::start(&self.world, &self.network, disk, cores, main)
    }

    /// Starts a process like [`Simulation::start_node`] and runs until `main` has
    /// returned on all cores.
    ///
    /// # Panics
    /// If the run gets stuck.
    pub fn run<F, Fut>(&self, cores: u16, main: F)
    where
        F: Fn(SimRuntime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        let node = self.start_node(cores, main);
        self.run_until(|| !node.is_running()).unwrap_or_else(|stuck| panic!("{stuck}"));
    }

    /// Runs `main` in a process of its own with one core, on the simulation's
    /// disk, until it returns. All other nodes run on meanwhile.
    ///
    /// # Panics
    /// If the run gets stuck.
    pub fn block_on<F, Fut>(&self, main: F) -> Fut::Output
    where
        F: FnOnce(SimRuntime) -> Fut,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        self.try_block_on(main).unwrap_or_else(|stuck| panic!("{stuck}"))
    }

    /// Like [`Simulation::block_on`].
    ///
    /// # Errors
    /// If the run gets stuck; the process is ended then.
    pub fn try_block_on<F, Fut>(&self, main: F) -> Result<Fut::Output, Stuck>
    where
        F: FnOnce(SimRuntime) -> Fut,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let (completer, output) = completion();
        let once = RefCell::new(Some((main, completer)));
        let node = self.start_node(1, |runtime| {
            let (main, completer) = once.take().expect("a node with one core starts main once");
            let body = main(runtime);
            async move { completer.complete(body.await) }
        });
        let result = self.run_until(|| !node.is_running());
        node.crash();
        result.map(|()| output.take().expect("main has returned"))
    }

    /// Runs until `condition` holds; it is asked before each step.
    ///
    /// # Errors
    /// No event can ever happen, or too many polls were made.
    pub fn run_until(&self, mut condition: impl FnMut() -> bool) -> Result<(), Stuck> {
        let limit = self.polls().saturating_add(self.max_polls.get());
        while !condition() {
            let has_steps = self.polls() < limit;
            if !has_steps || !self.step() {
                return Err(Stuck {
                    seed: self.seed(),
                    now_nanos: self.world.now_nanos(),
                    polls: self.polls(),
                    tasks: self.world.task_count(),
                    is_deadlock: has_steps,
                });
            }
        }
        Ok(())
    }

    /// Runs for some virtual time, whether or not anything happens.
    ///
    /// # Panics
    /// If the run gets stuck in a livelock.
    pub fn run_for(&self, duration: Duration) {
        let end = self.now().after(duration);
        let ended = self.run_until(|| self.now() >= end || self.world.skip_to(end.0));
        ended.unwrap_or_else(|stuck| panic!("{stuck}"));
    }

    /// Does one thing: polls a task or moves the clock. False if there is nothing
    /// to do.
    pub fn step(&self) -> bool {
        self.world.step()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("simulation seed {} failed; set {SEED_VARIABLE} to replay it", self.seed());
        }
        // Tasks and events hold the world that holds them.
        self.world.clear();
    }
}

/// Name of the environment variable that [`for_each_seed`] reads.
pub const SEED_VARIABLE: &str = "LOGSVC_SIM_SEED";

/// Calls `test` with a fresh simulation for every seed, or for the one that the
/// environment variable [`SEED_VARIABLE`] names.
///
/// # Panics
/// If the variable does not hold a number.
pub fn for_each_seed(seeds: Range<u64>, test: impl Fn(&Simulation)) {
    let seeds = match std::env::var(SEED_VARIABLE) {
        Ok(text) => {
            let seed = text.parse().expect("the seed to replay is a number");
            seed..seed + 1
        }
        Err(_) => seeds,
    };
    for seed in seeds {
        test(&Simulation::new(seed));
    }
}

//! A process of the simulation: started, ended, killed.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use super::disk::Disk;
use super::network::Network;
use super::runtime::{NodeState, SimRuntime};
use super::world::{NodeId, World};
use crate::{CoreId, Runtime};

/// A handle to a simulated process. Dropping it changes nothing.
#[derive(Clone)]
pub struct Node {
    cores: Rc<[SimRuntime]>,
}

impl Node {
    pub(super) fn start<F, Fut>(
        world: &Rc<World>,
        network: &Rc<Network>,
        disk: &Disk,
        cores: u16,
        main: F,
    ) -> Node
    where
        F: Fn(SimRuntime) -> Fut,
        Fut: Future<Output = ()> + 'static,
    {
        assert!(cores > 0, "at least one core is needed");
        let state = Rc::new(NodeState {
            id: world.new_node(),
            cores,
            disk: disk.clone(),
            is_alive: Cell::new(true),
            running_cores: Cell::new(cores),
        });
        let runtime = |core| SimRuntime {
            world: Rc::clone(world),
            network: Rc::clone(network),
            node: Rc::clone(&state),
            core: CoreId(core),
            is_exact: false,
        };
        let node = Node { cores: (0..cores).map(runtime).collect() };
        for runtime in node.cores.iter() {
            let body = main(runtime.clone());
            let ending = runtime.clone();
            drop(runtime.spawn(async move {
                body.await;
                ending.end_core();
            }));
        }
        node
    }

    /// The runtime of a core, to run something on it from outside.
    pub fn runtime(&self, core: CoreId) -> &SimRuntime {
        &self.cores[core.index()]
    }

    /// Whether `main` still runs on some core and the node was not killed.
    pub fn is_running(&self) -> bool {
        self.cores[0].node.is_alive.get()
    }

    /// Kills the process (`kill -9`): its tasks vanish, its connections and listeners close, its
    /// locks are free, and the kernel's operations for it happen or do not, in part for a write.
    /// The disk keeps all written bytes. A process that has ended stays as it is.
    pub fn crash(&self) {
        self.cores[0].node.end(&self.cores[0].world);
    }

    /// Stops the process (`SIGSTOP`): none of its tasks runs, while its sockets take what comes and
    /// the clock goes on.
    pub fn stop(&self) {
        self.cores[0].world.stop(self.cores[0].node.id);
    }

    /// Lets a stopped process run again (`SIGCONT`).
    pub fn go_on(&self) {
        self.cores[0].world.go_on(self.cores[0].node.id);
    }

    /// Has the monotonic clock go so far from now on while the right one goes a million.
    pub fn set_clock_rate_per_million(&self, rate: u64) {
        let world = &self.cores[0].world;
        world.clocks.set_rate(self.id(), world.now_nanos(), rate);
    }

    /// Has the wall clock of this node jump.
    pub fn shift_wall_clock(&self, by_nanos: i64) {
        self.cores[0].world.clocks.shift_wall(self.id(), by_nanos);
    }

    pub(super) fn id(&self) -> NodeId {
        self.cores[0].node.id
    }

    /// Kills the process together with its disk's power. No other node may use
    /// the disk.
    pub fn power_off(&self) {
        self.crash();
        self.cores[0].node.disk.power_loss();
    }
}

impl SimRuntime {
    /// `main` has returned on this core: its tasks are forgotten, and the process
    /// ends with its last core.
    fn end_core(&self) {
        let left = self.node.running_cores.get() - 1;
        self.node.running_cores.set(left);
        self.world.drop_tasks(self.node.id, Some(self.core));
        if left == 0 {
            self.node.end(&self.world);
        }
    }
}

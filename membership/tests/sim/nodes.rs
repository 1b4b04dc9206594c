//! Nodes of a simulated cluster, and what they see of each other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use logsvc_membership::driver::{StartError, start};
use logsvc_membership::identity::Identity;
use logsvc_membership::members::{Members, Standing};
use logsvc_membership::membership::Membership;
use logsvc_membership::settings::{JoinSettings, Settings};
use logsvc_membership::vitals::{Role, Roles, Vitals};
use logsvc_runtime::sim::{Node, SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Monotonic, Runtime};

/// The name by which all nodes find the first one.
pub(crate) const SEED_HOST: &str = "seed.example";
/// How often views are looked at.
pub(crate) const STEP: Duration = Duration::from_millis(50);

type Slot = Rc<RefCell<Option<Membership>>>;

/// A place where a node runs, or does not.
pub(crate) struct Place {
    node: Option<Node>,
    slot: Slot,
    pub(crate) is_stopped: bool,
}

pub(crate) struct Cluster {
    pub(crate) simulation: Simulation,
    pub(crate) places: Vec<Place>,
}

pub(crate) fn ip(place: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, place as u8 + 1])
}

pub(crate) fn settings(place: usize) -> Settings {
    joining(place, vec![format!("dns+{SEED_HOST}:7946")])
}

pub(crate) fn joining(place: usize, join_members: Vec<String>) -> Settings {
    let join = JoinSettings { join_members, ..JoinSettings::default() };
    Settings { bind_addr: vec![ip(place)], join, ..Settings::default() }
}

pub(crate) fn vitals(place: usize, runtime: &SimRuntime) -> Vitals {
    Vitals {
        roles: Roles::NONE.with(Role::Ingester).with(Role::Querier),
        started_unix_ms: (runtime.unix_nanos() / 1_000_000) as u64,
        writer_epoch: Some(place as u32 * 10),
        zone: format!("zone-{}", place % 3),
        transport: Some(SocketAddr::new(ip(place), 9095)),
        http: Some(SocketAddr::new(ip(place), 3100)),
        ..Vitals::joining(format!("node-{place}"), 1..=1)
    }
}

impl Cluster {
    pub(crate) fn new(seed: u64, count: usize) -> Cluster {
        let simulation = Simulation::new(seed);
        simulation.set_max_polls(u64::MAX);
        simulation.set_host(SEED_HOST, Ok(vec![ip(0)]), Duration::from_millis(5));
        let place = |_| Place { node: None, slot: Slot::default(), is_stopped: false };
        Cluster { simulation, places: (0..count).map(place).collect() }
    }

    /// A cluster whose nodes all agree.
    pub(crate) fn joined(seed: u64, count: usize) -> Cluster {
        let mut cluster = Cluster::new(seed, count);
        (0..count).for_each(|place| cluster.start(place));
        cluster.await_agreement(Duration::from_secs(30));
        cluster
    }

    pub(crate) fn start(&mut self, place: usize) {
        self.start_with(place, settings(place));
    }

    pub(crate) fn start_with(&mut self, place: usize, settings: Settings) {
        self.start_by(place, settings, async |runtime, settings, vitals| {
            start(&runtime, settings, vitals)
        });
    }

    /// Starts a node in a way of its own.
    pub(crate) fn start_by(
        &mut self,
        place: usize,
        settings: Settings,
        start: impl AsyncFn(SimRuntime, Settings, Vitals) -> Result<Membership, StartError>
        + Copy
        + 'static,
    ) {
        let slot = Slot::default();
        let kept = Rc::clone(&slot);
        let node = self.simulation.start_node(1, move |runtime| {
            let (kept, settings) = (Rc::clone(&kept), settings.clone());
            async move {
                let vitals = vitals(place, &runtime);
                let membership = start(runtime, settings, vitals).await;
                *kept.borrow_mut() = Some(membership.expect("the settings are good"));
                std::future::pending::<()>().await;
            }
        });
        self.simulation.run_until(|| slot.borrow().is_some()).expect("it starts");
        let place = &mut self.places[place];
        (place.slot, place.node, place.is_stopped) = (slot, Some(node), false);
    }

    pub(crate) fn kill(&mut self, place: usize) {
        let place = &mut self.places[place];
        if let Some(node) = place.node.take() {
            node.crash();
        }
        place.slot = Slot::default();
    }

    pub(crate) fn stop(&mut self, place: usize) {
        self.node(place).stop();
        self.places[place].is_stopped = true;
    }

    pub(crate) fn go_on(&mut self, place: usize) {
        self.node(place).go_on();
        self.places[place].is_stopped = false;
    }

    pub(crate) fn node(&self, place: usize) -> &Node {
        self.places[place].node.as_ref().expect("a node runs there")
    }

    pub(crate) fn runs(&self, place: usize) -> bool {
        self.places[place].node.is_some()
    }

    pub(crate) fn membership(&self, place: usize) -> Membership {
        self.places[place].slot.borrow().clone().expect("a node runs there")
    }

    pub(crate) fn members(&self, place: usize) -> std::sync::Arc<Members> {
        self.membership(place).members()
    }

    /// Runs something on a node, in a task of its own.
    pub(crate) fn on<F>(&self, place: usize, work: impl FnOnce(Membership) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let runtime = self.node(place).runtime(CoreId(0));
        drop(runtime.spawn(work(self.membership(place))));
    }

    /// Lets a node leave in order, and end.
    pub(crate) fn leave(&mut self, place: usize) {
        let has_left = Rc::new(std::cell::Cell::new(false));
        let says_so = Rc::clone(&has_left);
        self.on(place, |membership| async move {
            membership.leave().await;
            says_so.set(true);
        });
        self.simulation.run_until(|| has_left.get()).expect("leaving ends");
        self.kill(place);
    }

    /// Cuts all links between two groups.
    pub(crate) fn cut(&self, one: &[usize], other: &[usize]) {
        for (from, to) in one.iter().flat_map(|from| other.iter().map(move |to| (*from, *to))) {
            if self.runs(from) && self.runs(to) {
                self.simulation.cut(self.node(from), self.node(to));
                self.simulation.cut(self.node(to), self.node(from));
            }
        }
    }

    pub(crate) fn running(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|place| self.runs(*place)).collect()
    }

    /// Whether a node sees these alive and nobody else.
    pub(crate) fn sees(&self, place: usize, others: &[usize]) -> bool {
        let expected: BTreeMap<SocketAddr, Identity> = others
            .iter()
            .map(|other| self.members(*other).me)
            .map(|identity| (identity.address, identity))
            .collect();
        let members = self.members(place);
        let seen = members.alive().map(|member| (member.identity.address, member.identity));
        seen.collect::<BTreeMap<_, _>>() == expected
    }

    /// How a node sees the member at a place.
    pub(crate) fn standing(&self, place: usize, of: usize) -> Option<Standing> {
        let members = self.members(place);
        let mut all = members.list.iter();
        all.find(|member| member.identity.address.ip() == ip(of)).map(|member| member.standing)
    }

    /// Whether all nodes that run see each other, none suspects any, and what they tell is known.
    pub(crate) fn agrees(&self) -> bool {
        let running = self.running();
        let told: Vec<Vitals> = running
            .iter()
            .map(|place| {
                let members = self.members(*place);
                let me = members.list.iter().find(|member| member.identity == members.me);
                me.expect("a node sees itself").vitals.clone()
            })
            .collect();
        running.iter().all(|place| {
            let members = self.members(*place);
            let alive = members.alive().filter(|member| member.standing == Standing::Alive);
            self.sees(*place, &running)
                && alive.count() == running.len()
                && members.alive().zip(&told).all(|(seen, told)| seen.vitals == *told)
        })
    }

    /// Runs until something holds. How long that took.
    ///
    /// # Panics
    /// If it takes longer than `limit`.
    pub(crate) fn await_that(
        &self,
        limit: Duration,
        what: &str,
        holds: impl Fn(&Cluster) -> bool,
    ) -> Duration {
        let began = self.simulation.now();
        while !holds(self) {
            let took = self.simulation.now().since(began);
            assert!(took < limit, "not within {limit:?}: {what}\n{}", self.describe());
            self.simulation.run_for(STEP);
        }
        self.simulation.now().since(began)
    }

    pub(crate) fn await_agreement(&self, limit: Duration) -> Duration {
        self.await_that(limit, "all agree", Cluster::agrees)
    }

    pub(crate) fn run_for(&self, seconds: u64) {
        self.simulation.run_for(Duration::from_secs(seconds));
    }

    fn now(&self) -> Monotonic {
        self.simulation.now()
    }

    /// What all nodes see.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for place in self.running() {
            let members = self.members(place);
            text += &format!("node {place} ({:?}) sees\n", members.me);
            for member in &members.list {
                let (standing, age) = (member.standing, member.age(self.now()));
                let vitals = &member.vitals;
                text += &format!(
                    "  {:?} {standing:?} {age:?} {:?} map {}\n",
                    member.identity, vitals.state, vitals.map_number
                );
            }
            text += &format!("  {:?}\n", members.traffic);
        }
        text
    }
}

/// Figures over many seeds.
#[derive(Default)]
pub(crate) struct Figures {
    all: Vec<Duration>,
}

impl Figures {
    pub(crate) fn add(&mut self, took: Duration) {
        self.all.push(took);
    }

    pub(crate) fn print(&mut self, what: &str) {
        self.all.sort_unstable();
        let at = |share: usize| self.all[(self.all.len() - 1) * share / 100];
        println!("{what}: median {:?}, p90 {:?}, longest {:?}", at(50), at(90), at(100));
    }
}

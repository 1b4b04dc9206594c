//! A random world: nodes die, start, leave, are stopped and go on; links break; the network loses and
//! doubles datagrams. After it has healed, all agree. On the way nobody loses sight of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_membership::engine::Change;
use logsvc_membership::vitals::State;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::nodes::{Cluster, Figures};

const SECOND: Duration = Duration::from_secs(1);

struct World {
    cluster: Cluster,
    rng: Rng,
    versions: BTreeMap<usize, u64>,
    happened: BTreeMap<&'static str, u64>,
}

impl World {
    fn count(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    /// A place where a node runs and is not stopped.
    fn active(&mut self) -> Option<usize> {
        let running = self.cluster.running();
        let active: Vec<usize> =
            running.into_iter().filter(|place| !self.cluster.places[*place].is_stopped).collect();
        (active.len() > 1).then(|| *self.rng.pick(&active))
    }

    fn start(&mut self, place: usize) {
        self.cluster.start(place);
        self.versions.remove(&place);
    }

    fn act(&mut self) {
        let place = self.rng.index(self.cluster.places.len());
        match self.rng.below(12) {
            0 | 1 => {
                if let Some(place) = self.active() {
                    self.cluster.kill(place);
                    self.count("kill");
                }
            }
            2..=4 if !self.cluster.runs(place) => {
                self.start(place);
                self.count("start");
            }
            5 => {
                if let Some(place) = self.active() {
                    self.cluster.leave(place);
                    self.count("leave");
                }
            }
            6 => {
                if let Some(place) = self.active() {
                    self.cluster.stop(place);
                    self.count("stop");
                }
            }
            7 => {
                let places = 0..self.cluster.places.len();
                let stopped: Vec<usize> = places
                    .filter(|place| {
                        self.cluster.runs(*place) && self.cluster.places[*place].is_stopped
                    })
                    .collect();
                if !stopped.is_empty() {
                    let place = *self.rng.pick(&stopped);
                    self.cluster.go_on(place);
                    self.count("go on");
                }
            }
            8 => {
                let is_one = self.rng.next_u64();
                let (one, other): (Vec<usize>, Vec<usize>) =
                    self.cluster.running().iter().partition(|place| is_one >> **place & 1 == 1);
                self.cluster.cut(&one, &other);
                self.count("cut");
            }
            9 => {
                if let (Some(from), Some(to)) = (self.active(), self.active())
                    && from != to
                {
                    self.cluster.simulation.cut(self.cluster.node(from), self.cluster.node(to));
                    self.count("cut one way");
                }
            }
            10 => {
                self.cluster.simulation.heal();
                let loss = *self.rng.pick(&[0, 0, 50_000, 200_000]);
                self.cluster.simulation.set_datagram_loss_per_million(loss);
                self.count("heal");
            }
            _ => {
                if let Some(place) = self.active() {
                    let number = self.rng.below(1_000);
                    self.cluster.on(place, |membership| async move {
                        membership.change(Change::State(State::Active)).await;
                        membership.change(Change::MapNumber(number)).await;
                    });
                    self.count("change");
                }
            }
        }
    }

    /// What holds at every moment.
    fn look(&mut self) {
        for place in self.cluster.running() {
            let members = self.cluster.members(place);
            assert!(
                members.alive().any(|member| member.identity == members.me),
                "a node sees itself\n{}",
                self.cluster.describe()
            );
            let seen = self.versions.entry(place).or_default();
            assert!(*seen <= members.version, "versions go forward");
            *seen = members.version;
        }
    }

    /// Everything is made whole; how long it takes until all agree.
    fn heal(&mut self) -> Duration {
        self.cluster.simulation.heal();
        self.cluster.simulation.set_datagram_loss_per_million(0);
        for place in 0..self.cluster.places.len() {
            if !self.cluster.runs(place) {
                self.start(place);
            } else if self.cluster.places[place].is_stopped {
                self.cluster.go_on(place);
            }
        }
        self.cluster.await_agreement(SECOND * 75)
    }
}

fn run(seed: u64) -> (World, Duration) {
    let mut rng = Rng::new(seed);
    let count = 5 + rng.index(3);
    let mut cluster = Cluster::new(seed, count);
    cluster.simulation.set_datagram_doubles_per_million(*rng.pick(&[0, 50_000]));
    (0..count).for_each(|place| cluster.start(place));
    let mut world = World { cluster, rng, versions: BTreeMap::new(), happened: BTreeMap::new() };
    for _ in 0..world.rng.between(5, 20) {
        world.act();
        let pause = *world.rng.pick(&[10, 300, 1_000, 4_000, 8_000]);
        world.cluster.simulation.run_for(Duration::from_millis(pause));
        world.look();
    }
    let took = world.heal();
    (world, took)
}

#[test]
fn all_agree_after_whatever_happens() {
    let mut figures = Figures::default();
    let mut happened: BTreeMap<&str, u64> = BTreeMap::new();
    let seeds = seeds(200);
    let is_long = seeds.end - seeds.start >= 100;
    for seed in seeds {
        let _guard = SeedGuard(seed);
        let (world, took) = run(seed);
        figures.add(took);
        for (what, count) in world.happened {
            *happened.entry(what).or_default() += count;
        }
    }
    figures.print("a random world heals, all agree");
    println!("{happened:?}");
    if is_long {
        assert!(happened.len() == 9 && happened.values().all(|count| *count >= 20));
    }
}

#[test]
fn a_seed_repeats() {
    let hash = |seed| run(seed).0.cluster.simulation.trace_hash();
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}

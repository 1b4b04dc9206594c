//! What a start asks of a bucket: a number of its own, and whether the store is honest. On the
//! double and on a folder.

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_store::Store;
use logsvc_store::double::{Faults, World};
use logsvc_store::epoch::take_epoch;
use logsvc_store::self_test::{Honesty, self_test};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use support::{Kind, Place};

const PATIENCE: Duration = Duration::from_secs(3_600);

#[test]
fn no_two_starts_have_one_epoch() {
    let kinds = [Kind::Double, Kind::Tearing, Kind::Folder];
    for (seed, kind) in seeds(50).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let place = Place::new(&simulation, kind);
        let mut rng = Rng::new(seed);
        match &place {
            Place::Double(world) => world.set_faults(Faults {
                lost_answers_per_million: rng.below(300_000),
                conflicts_per_million: rng.below(300_000),
                failures_per_million: rng.below(300_000),
                listing_lag_ns: rng.below(2) * 30_000_000_000,
                ..Faults::default()
            }),
            Place::Tearing(_) | Place::Folder(_) => place.set_random_faults(&mut rng, 300_000),
        }
        let starts = rng.between(1, 8) as usize;
        let given: Rc<RefCell<Vec<u32>>> = Rc::default();
        let mut nodes = Vec::new();
        for _ in 0..starts {
            let node = simulation.start_node(1, |_| std::future::pending());
            let runtime = node.runtime(CoreId(0)).clone();
            let (own, place, given) = (runtime.clone(), place.clone(), Rc::clone(&given));
            drop(runtime.spawn(async move {
                let store = place.store(&own).await;
                let until = own.now().after(PATIENCE);
                let epoch = take_epoch(&own, &store, None, "a test", until).await;
                given.borrow_mut().push(epoch.expect("the bucket is there").epoch);
            }));
            nodes.push(node);
            simulation.run_for(Duration::from_millis(rng.below(500)));
        }
        let run = simulation.run_until(|| given.borrow().len() == starts);
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        let distinct: BTreeSet<u32> = given.borrow().iter().copied().collect();
        assert_eq!(distinct.len(), starts, "{given:?}");
    }
}

#[test]
fn a_folder_is_honest() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let place = Place::new(&simulation, Kind::Folder);
        place.set_random_faults(&mut Rng::new(seed), 300_000);
        let bucket = place.clone();
        let honesty = simulation.block_on(|runtime| async move {
            let store = bucket.store(&runtime).await;
            self_test(&runtime, &store, runtime.now().after(PATIENCE)).await
        });
        assert_eq!(honesty, Ok(Honesty::Honest));
        assert!(place.objects().is_empty(), "the test leaves an object");
    }
}

/// The finding about a bucket on the double, which has to be empty behind it.
fn finding(seed: u64, faults: Faults) -> Honesty {
    let (simulation, world) = (Simulation::new(seed), World::default());
    world.set_faults(faults);
    let bucket = world.clone();
    let found = simulation.block_on(|runtime| async move {
        let store = Store::new(runtime.clone(), Box::new(bucket.bucket(runtime.clone())));
        self_test(&runtime, &store, runtime.now().after(PATIENCE)).await
    });
    assert!(world.objects().is_empty(), "the test leaves an object");
    found.expect("the bucket is there")
}

/// Faults of a store that keeps creates apart. No request takes as long as an attempt may.
fn honest_faults(rng: &mut Rng) -> Faults {
    let slowest_ns = rng.between(1_000_000, 200_000_000);
    Faults {
        latency_ns: slowest_ns / rng.between(1, 100)..=slowest_ns,
        slow_factor: rng.between(1, 100),
        failures_per_million: rng.below(200_000),
        lost_answers_per_million: rng.below(200_000),
        conflicts_per_million: rng.below(200_000),
        busy_per_million: rng.below(200_000),
        ..Faults::default()
    }
}

#[test]
fn a_store_that_keeps_creates_apart_passes() {
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let found = finding(seed, honest_faults(&mut Rng::new(seed)));
        assert_eq!(found, Honesty::Honest);
    }
}

#[test]
fn a_store_that_ignores_conditions_is_found_out() {
    for seed in seeds(50) {
        let _guard = SeedGuard(seed);
        let faults = honest_faults(&mut Rng::new(seed));
        let found = finding(seed, Faults { ignores_conditions: true, ..faults });
        assert_ne!(found, Honesty::Honest);
    }
}

/// Each create looks at the name some time before it takes effect, so many a round has one winner.
#[test]
fn a_store_that_looks_too_early_is_found_out() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let faults = honest_faults(&mut Rng::new(seed));
        let early_look_ns = faults.latency_ns.end() / 2;
        let looks = Faults { early_looks_per_million: 1_000_000, early_look_ns, ..faults };
        assert_ne!(finding(seed, looks), Honesty::Honest);
    }
}

/// One create in four looks at the name as soon as it is sent.
#[test]
fn a_store_that_looks_too_early_now_and_then_is_found_out() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let faults = honest_faults(&mut Rng::new(seed));
        let early_look_ns = 3_600_000_000_000;
        let looks = Faults { early_looks_per_million: 250_000, early_look_ns, ..faults };
        assert_ne!(finding(seed, looks), Honesty::Honest);
    }
}

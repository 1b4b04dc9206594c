//! Leaving in order.

use std::time::Duration;

use logsvc_membership::members::Standing;
use logsvc_testkit::{SeedGuard, seeds};

use crate::nodes::{Cluster, Figures, STEP};

const SECOND: Duration = Duration::from_secs(1);

/// Whether a node has the place in its list, dead or alive.
fn lists(cluster: &Cluster, place: usize, of: usize) -> bool {
    cluster.standing(place, of).is_some()
}

#[test]
fn who_leaves_is_gone_at_once_and_never_dead() {
    let mut figures = Figures::default();
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 6);
        let began = cluster.simulation.now();
        cluster.leave(4);
        let running = cluster.running();
        cluster.await_that(SECOND * 3, "it is gone everywhere", |cluster| {
            let seen = running.iter().map(|place| cluster.standing(*place, 4));
            assert!(seen.clone().all(|standing| standing != Some(Standing::Dead)));
            seen.flatten().count() == 0
        });
        figures.add(cluster.simulation.now().since(began));
        for _ in 0..30 {
            cluster.simulation.run_for(SECOND);
            assert!(running.iter().all(|place| !lists(&cluster, *place, 4)));
        }
        assert!(cluster.agrees());
        cluster.start(4);
        cluster.await_agreement(SECOND * 10);
    }
    figures.print("one of 6 nodes leaves, all know");
}

#[test]
fn leaving_ends_though_nobody_hears_it() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 4);
        cluster.cut(&[1], &[0, 2, 3]);
        let began = cluster.simulation.now();
        cluster.leave(1);
        let took = cluster.simulation.now().since(began);
        assert!(took <= SECOND * 20 + STEP, "{took:?}");
        cluster.simulation.heal();
        // Nobody was told, so it is taken for dead.
        cluster.await_that(SECOND * 20, "it is dead", |cluster| {
            [0, 2, 3].iter().all(|place| cluster.standing(*place, 1) == Some(Standing::Dead))
        });
    }
}

#[test]
fn all_may_leave_and_come_back() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 4);
        for place in [0, 2, 1, 3] {
            cluster.leave(place);
            cluster.run_for(2);
            assert!(cluster.agrees(), "{}", cluster.describe());
        }
        (0..4).for_each(|place| cluster.start(place));
        cluster.await_agreement(SECOND * 10);
    }
}

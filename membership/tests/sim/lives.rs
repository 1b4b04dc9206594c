//! Deaths, returns and what is forgotten.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use logsvc_membership::engine::ForgetError;
use logsvc_membership::members::Standing;
use logsvc_testkit::{SeedGuard, seeds};

use crate::nodes::{Cluster, Figures, STEP};

const SECOND: Duration = Duration::from_secs(1);

/// Until all know that one of so many is dead, by the document.
pub(crate) fn detection_limit(count: usize) -> Duration {
    // Each member is probed within 2 (n - 1) - 1 intervals by whoever probes it last, and the
    // verdict on a probe comes with the next one. Then the suspicion, and two seconds for the news.
    SECOND * (2 * (count as u32 - 1)) + SECOND * 3 + SECOND * 2
}

#[test]
fn a_death_comes_to_all() {
    let mut figures = Figures::default();
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let count = 5 + seed as usize % 3;
        let mut cluster = Cluster::joined(seed, count);
        cluster.simulation.run_for(STEP * (seed % 40) as u32);
        let victim = seed as usize % count;
        cluster.kill(victim);
        let was_suspected = Cell::new(false);
        let all_know = |cluster: &Cluster| {
            let standings =
                cluster.running().into_iter().map(|place| cluster.standing(place, victim));
            let standings: Vec<_> = standings.collect();
            was_suspected
                .set(was_suspected.get() || standings.contains(&Some(Standing::Suspected)));
            standings.iter().all(|standing| *standing == Some(Standing::Dead))
        };
        figures.add(cluster.await_that(detection_limit(count), "all know", all_know));
        assert!(was_suspected.get(), "a suspected member stays in the list");
        let running = cluster.running();
        assert!(running.iter().all(|place| cluster.sees(*place, &running)));
    }
    figures.print("one of 5 to 7 nodes dies, all know");
}

#[test]
fn a_death_among_thirty_takes_no_longer() {
    for seed in seeds(2) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 30);
        cluster.kill(7);
        // The more there are, the sooner somebody asks.
        cluster.await_that(SECOND * 15, "all know", |cluster| {
            let mut running = cluster.running().into_iter();
            running.all(|place| cluster.standing(place, 7) == Some(Standing::Dead))
        });
        assert!(
            cluster.running().iter().all(|place| cluster.members(*place).alive().count() == 29)
        );
    }
}

#[test]
fn the_dead_are_forgotten_by_themselves() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 5);
        cluster.kill(3);
        cluster.run_for(150);
        assert_eq!(cluster.standing(0, 3), Some(Standing::Dead));
        // The last news are up to a heartbeat older than the death.
        let forgotten = |cluster: &Cluster| {
            cluster.running().iter().all(|place| cluster.standing(*place, 3).is_none())
        };
        cluster.await_that(SECOND * 32, "all have forgotten it", forgotten);
        cluster.run_for(300);
        assert!(forgotten(&cluster), "nobody brings it back");
    }
}

fn forget(cluster: &Cluster, place: usize, instance: &'static str) -> Result<(), ForgetError> {
    let outcome = Rc::new(Cell::new(None));
    let told = Rc::clone(&outcome);
    cluster.on(place, |membership| async move {
        told.set(Some(membership.forget(instance).await));
    });
    cluster.simulation.run_until(|| outcome.get().is_some()).expect("it is answered");
    outcome.get().expect("it was answered")
}

#[test]
fn an_operator_may_have_one_forgotten() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 6);
        assert_eq!(forget(&cluster, 0, "node-3"), Err(ForgetError::Alive));
        assert_eq!(forget(&cluster, 0, "node-9"), Err(ForgetError::Unknown));
        cluster.kill(3);
        cluster.await_that(detection_limit(6), "all know", |cluster| {
            let running = cluster.running();
            running.iter().all(|place| cluster.standing(*place, 3) == Some(Standing::Dead))
        });
        assert_eq!(forget(&cluster, 0, "node-3"), Ok(()));
        let forgotten = |cluster: &Cluster| {
            cluster.running().iter().all(|place| cluster.standing(*place, 3).is_none())
        };
        cluster.await_that(SECOND * 5, "all have forgotten it", forgotten);
        cluster.run_for(60);
        assert!(forgotten(&cluster), "nobody brings it back");
        cluster.start(3);
        cluster.await_agreement(SECOND * 10);
    }
}

#[test]
fn a_restart_under_the_same_address_is_another_life() {
    let mut figures = Figures::default();
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 5);
        let former = cluster.members(2).me;
        cluster.kill(2);
        // At once, while it is suspected, and while it is dead.
        cluster.simulation.run_for(Duration::from_millis(5) + SECOND * (seed % 20) as u32);
        cluster.start(2);
        assert!(cluster.members(2).me.is_newer_than(&former));
        figures.add(cluster.await_agreement(SECOND * 10));
        cluster.run_for(30);
        assert!(cluster.agrees(), "the former life ends nobody");
    }
    figures.print("one of 5 nodes starts again, all agree");
}

#[test]
fn a_clock_that_went_back_is_made_up_for() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 5);
        let former = cluster.members(2).me;
        cluster.kill(2);
        cluster.simulation.set_unix_nanos(1_000_000_000_000_000_000);
        cluster.simulation.run_for(SECOND * (seed % 20) as u32);
        cluster.start(2);
        assert!(former.is_newer_than(&cluster.members(2).me), "by the clock it is older");
        cluster.await_agreement(SECOND * 10);
        assert!(cluster.members(2).me.is_newer_than(&former));
    }
}

#[test]
fn who_was_stopped_for_minutes_is_there_again() {
    let mut figures = Figures::default();
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 5);
        let others = [0, 1, 3, 4];
        let former = cluster.members(2).me;
        // For some seeds it is forgotten meanwhile.
        cluster.stop(2);
        let seconds = 30 + 20 * (seed % 10);
        cluster.run_for(seconds);
        assert!(others.iter().all(|place| cluster.sees(*place, &others)));
        cluster.go_on(2);
        // It tells of itself at once, also where it was forgotten.
        let took = cluster.await_that(SECOND, "all agree", |cluster| {
            assert!(
                cluster.members(2).alive().count() == 5,
                "it takes nobody for dead\n{}",
                cluster.describe()
            );
            cluster.agrees()
        });
        figures.add(took);
        assert!(cluster.members(2).me.is_newer_than(&former), "it has another identity");
        assert!(cluster.members(2).traffic.renewed > 0);
    }
    figures.print("one of 5 nodes goes on after minutes, all agree");
}

#[test]
fn a_short_stop_harms_nobody() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 5);
        let former = cluster.members(2).me;
        cluster.stop(2);
        cluster.simulation.run_for(SECOND * 2);
        cluster.go_on(2);
        let never_dead = |cluster: &Cluster| {
            let all = cluster.running();
            assert!(all.iter().all(|place| cluster.sees(*place, &all)), "{}", cluster.describe());
            cluster.agrees()
        };
        cluster.await_that(SECOND * 10, "all agree", never_dead);
        // A suspicion that was contradicted has no late effect.
        cluster.run_for(10);
        assert_eq!(cluster.members(2).me, former, "two seconds are no reason for another life");
    }
}

#[test]
fn a_suspicion_does_not_end_while_its_owner_is_stopped() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 4);
        // Node 3 is silent until node 2 suspects it, and then node 2 is.
        cluster.stop(3);
        cluster.await_that(detection_limit(4), "node 2 suspects node 3", |cluster| {
            cluster.standing(2, 3) == Some(Standing::Suspected)
        });
        cluster.stop(2);
        cluster.go_on(3);
        cluster.run_for(60);
        let others = [0, 1, 3];
        assert!(others.iter().all(|place| cluster.sees(*place, &others)));
        cluster.go_on(2);
        let unfair = |cluster: &Cluster| {
            (0..4).any(|place| cluster.standing(2, place) == Some(Standing::Dead))
        };
        cluster.await_that(SECOND * 10, "all agree", |cluster| {
            assert!(!unfair(cluster), "node 3 has contradicted\n{}", cluster.describe());
            cluster.agrees()
        });
    }
}

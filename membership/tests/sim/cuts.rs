//! Links that are cut, and networks that lose, double and reorder.

use std::time::Duration;

use logsvc_membership::members::Standing;
use logsvc_testkit::{SeedGuard, seeds};

use crate::lives::detection_limit;
use crate::nodes::{Cluster, Figures};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_cut_network_is_two_clusters_and_then_one() {
    let mut figures = Figures::default();
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 7);
        let (one, other) = ([0, 2, 4], [1, 3, 5, 6]);
        cluster.cut(&one, &other);
        // Members probe those that they cannot reach, so each finds out by itself; the last of
        // four deaths takes longer than a single one.
        cluster.await_that(detection_limit(7) * 2, "two clusters", |cluster| {
            one.iter().all(|place| cluster.sees(*place, &one))
                && other.iter().all(|place| cluster.sees(*place, &other))
        });
        cluster.run_for(10 + 20 * (seed % 10));
        cluster.simulation.heal();
        figures.add(cluster.await_agreement(SECOND * 30));
    }
    figures.print("7 nodes are cut in two and healed, all agree");
}

#[test]
fn a_cut_of_hours_heals_by_the_join_addresses() {
    for seed in seeds(2) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 4);
        let (one, other) = ([0, 1], [2, 3]);
        cluster.cut(&one, &other);
        cluster.run_for(2 * 60 * 60 + 60);
        assert!(cluster.sees(0, &one) && cluster.sees(3, &other));
        cluster.simulation.heal();
        cluster.await_agreement(SECOND * 63);
    }
}

#[test]
fn one_direction_is_as_good_as_dead_or_alive_but_ends_well() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 5);
        // Others hear node 3, and it does not hear them, or the other way round.
        for other in [0, 1, 2, 4] {
            let (from, to) = if seed % 2 == 0 { (other, 3) } else { (3, other) };
            cluster.simulation.cut(cluster.node(from), cluster.node(to));
        }
        cluster.run_for(40);
        assert!(!cluster.agrees());
        cluster.simulation.heal();
        cluster.await_agreement(SECOND * 30);
    }
}

#[test]
fn a_single_link_may_break() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 5);
        cluster.cut(&[1], &[2]);
        for _ in 0..60 {
            cluster.run_for(1);
            assert!(
                (0..5).all(|place| cluster.sees(place, &[0, 1, 2, 3, 4])),
                "others reach both\n{}",
                cluster.describe()
            );
        }
    }
}

#[test]
fn a_bad_network_kills_nobody_for_long() {
    let mut dead = 0_u64;
    let mut looks = 0_u64;
    let mut renewed = 0_u64;
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 6);
        cluster.simulation.set_datagram_loss_per_million(150_000);
        cluster.simulation.set_datagram_doubles_per_million(150_000);
        (0..6).for_each(|place| cluster.start(place));
        cluster.await_agreement(SECOND * 20);
        for _ in 0..60 {
            cluster.run_for(1);
            let all = (0..6).flat_map(|place| (0..6).map(move |of| (place, of)));
            let count = all.filter(|(place, of)| {
                cluster.standing(*place, *of).is_none_or(|standing| standing == Standing::Dead)
            });
            (dead, looks) = (dead + count.count() as u64, looks + 36);
        }
        cluster.simulation.set_datagram_loss_per_million(0);
        renewed += (0..6).map(|place| cluster.members(place).traffic.renewed).sum::<u64>();
        cluster.await_agreement(SECOND * 20);
    }
    println!("taken for dead with 15 % loss: {dead} of {looks} looks, {renewed} other identities");
    assert!(dead * 1_000 <= looks && renewed <= 5, "{dead} of {looks}, {renewed}");
}

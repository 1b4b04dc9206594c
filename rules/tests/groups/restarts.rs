//! Kills at any moment, outages, failing disks.

use std::time::Duration;

use logsvc_rules::messages::AlertState;
use logsvc_runtime::sim::{DiskOperation, FaultRates, Simulation, for_each_seed};
use logsvc_testkit::Rng;

use crate::rig::*;

#[test]
fn an_alert_that_fires_has_one_start_over_all_kills() {
    for_each_seed(0..40, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 30)]));
        world.answers(Ok(vec![(vec![("pod", "p")], 1.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Firing);
        rig.evaluations(1);
        let start_ns = world.sent()[0].1.starts_at_ns;
        let mut rig = Some(rig);
        for _ in 0..6 {
            let running = rig.take().expect("runs");
            if rng.one_in(3) {
                running.stop();
            } else {
                running.node.crash();
            }
            world.wait(rng.below(60) as f64);
            let next = world.start();
            world.wait(rng.below(40_000) as f64 / 1000.0);
            assert_eq!(next.only_alert(), Some((AlertState::Firing, active_at_ns)));
            rig = Some(next);
        }
        let rig = rig.expect("runs");
        world.answers(Ok(vec![]));
        rig.evaluations(2);
        rig.node.crash();
        let rig = world.start();
        rig.evaluations(1);
        for (_, one) in world.sent() {
            assert_eq!(one.starts_at_ns, start_ns);
        }
        let (at_ns, last) = world.sent().last().cloned().expect("was sent");
        assert!(last.ends_at_ns < at_ns, "the start tells of the end again");
    });
}

#[test]
fn pending_time_before_kills_counts_and_downtime_does_not() {
    for_each_seed(0..30, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 120)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let mut rig = world.start();
        let active_at_ns = rig.until(AlertState::Pending);
        let mut down_s = 0;
        for _ in 0..3 {
            world.wait(rng.between(1, 25) as f64);
            rig.node.crash();
            let pause_s = rng.below(200);
            world.wait(pause_s as f64);
            down_s += pause_s as i64;
            rig = world.start();
        }
        rig.until(AlertState::Firing);
        let fired_at_ns = world.sent()[0].1.starts_at_ns;
        let earliest_ns = active_at_ns + 120 * SECOND_NS;
        assert!(fired_at_ns >= earliest_ns);
        let latest_ns = earliest_ns + (down_s + 3 * 10 + 10) * SECOND_NS;
        assert!(fired_at_ns <= latest_ns, "{} s late", (fired_at_ns - latest_ns) / SECOND_NS);
    });
}

#[test]
fn a_long_outage_and_the_grace_period() {
    let simulation = Simulation::new(1);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 3600)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.until(AlertState::Pending);
    world.wait(3300.0);
    rig.node.crash();
    world.wait(60.0);
    let rig = world.start();
    rig.evaluations(1);
    // Five minutes are left, but it stays pending for the grace period of ten.
    let started_ns = world.now_ns();
    rig.until(AlertState::Firing);
    let waited_s = (world.now_ns() - started_ns) / SECOND_NS;
    assert!((585..=615).contains(&waited_s), "{waited_s}");
    rig.node.crash();
    world.wait(3700.0);
    let rig = world.start();
    rig.evaluations(1);
    let (state, active_at_ns) = rig.only_alert().expect("is there");
    assert_eq!(state, AlertState::Pending, "after more than the tolerance it begins anew");
    assert!(world.now_ns() - active_at_ns < 20 * SECOND_NS);
}

#[test]
fn failing_disks_stop_no_alert() {
    for_each_seed(0..25, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 20)]));
        // On for a minute, off for a minute.
        world.script(|_, at_ns| {
            let is_on = at_ns / (60 * SECOND_NS) % 2 == 0;
            Ok(if is_on { vec![(vec![], 1.0)] } else { vec![] })
        });
        let rates = FaultRates {
            writes_per_million: 200_000,
            syncs_per_million: 200_000,
            others_per_million: 100_000,
            ..FaultRates::default()
        };
        simulation.disk().set_fault_rates(rates);
        let rig = world.start();
        world.wait(1200.0);
        let starts: std::collections::BTreeSet<i64> =
            world.sent().iter().map(|(_, one)| one.starts_at_ns).collect();
        assert!(starts.len() >= 9, "{}", starts.len());
        simulation.disk().clear_faults();
        world.answers(Ok(vec![(vec![], 1.0)]));
        rig.until(AlertState::Firing);
        world.wait(150.0);
        let before = rig.only_alert();
        rig.node.crash();
        let rig = world.start();
        world.wait(1.0);
        assert_eq!(rig.only_alert(), before, "the log works again");
    });
}

#[test]
fn a_disk_without_folders_and_a_damaged_file_start_all_the_same() {
    let simulation = Simulation::new(3);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 0)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    simulation.disk().write(STATE, b"this is no state of alerts");
    simulation.disk().fail_next(DiskOperation::Write, STATE, 1);
    let rig = world.start();
    rig.until(AlertState::Firing);
    world.wait(Duration::from_secs(120).as_secs_f64());
    let before = rig.only_alert();
    rig.node.crash();
    let rig = world.start();
    world.wait(1.0);
    assert_eq!(rig.only_alert(), before);
}

#[test]
fn rules_are_known_after_other_rules_were_edited() {
    let simulation = Simulation::new(4);
    let world = World::new(&simulation);
    let one = with_label(alert("A", QUERY, 0), "team", "x");
    let two = with_label(alert("A", QUERY, 0), "team", "y");
    world.define(group("g", vec![one.clone(), two.clone()]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.evaluations(2);
    let active_at = |rig: &Rig<'_, '_>, rule: usize| {
        let alerting = rig.status()[0].rules[rule].alerting.clone().expect("alerts");
        alerting.alerts.first().map(|alert| alert.active_at_ns)
    };
    let before = active_at(&rig, 1).expect("is there");
    rig.node.crash();
    // Edited while the node was down.
    world.wait(5.0);
    world.define(group("g", vec![record("m", QUERY), two, alert("New", QUERY, 0)]));
    let rig = world.start();
    world.wait(1.0);
    assert_eq!(active_at(&rig, 1), Some(before));
    assert_eq!(active_at(&rig, 2), None);
}

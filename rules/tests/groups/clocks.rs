//! Wall clocks that are set while groups are evaluated.

use std::collections::BTreeSet;

use logsvc_rules::messages::AlertState;
use logsvc_runtime::sim::{Simulation, for_each_seed};
use logsvc_testkit::Rng;

use crate::rig::*;

#[test]
fn clocks_that_jump_repeat_no_time_and_stall_nothing() {
    for_each_seed(0..30, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 20), record("m", QUERY)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let rig = world.start();
        for _ in 0..8 {
            let before = rig.numbers().iterations;
            world.wait(100.0);
            let passed = rig.numbers().iterations - before;
            assert!((5..=13).contains(&passed), "{passed} iterations in 100 s");
            let by_ns = rng.below(40_000) as i64 * SECOND_NS;
            let by_ns = if rng.one_in(2) { by_ns } else { -by_ns };
            simulation.set_unix_nanos(world.now_ns() + by_ns);
        }
        let times: Vec<i64> =
            world.series(r#"__name__="m""#).iter().map(|(at_ms, _)| *at_ms).collect();
        let distinct: BTreeSet<i64> = times.iter().copied().collect();
        assert_eq!(distinct.len(), times.len(), "no time has two samples");
        assert_eq!(rig.numbers().iterations_missed, 0);
    });
}

#[test]
fn a_clock_that_is_set_back_keeps_the_age_of_alerts() {
    let simulation = Simulation::new(2);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 60)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.until(AlertState::Pending);
    world.wait(35.0);
    simulation.set_unix_nanos(world.now_ns() - 86_400 * SECOND_NS);
    let before = simulation.now();
    rig.until(AlertState::Firing);
    let waited_s = simulation.now().since(before).as_secs();
    assert!(waited_s <= 70, "it would wait for a day: {waited_s}");
    // It is resolved for 15 minutes, in the new time.
    world.answers(Ok(vec![]));
    rig.evaluations(1);
    simulation.set_unix_nanos(world.now_ns() - 86_400 * SECOND_NS);
    world.clear();
    world.wait(1500.0);
    assert!((12..=17).contains(&world.sent().len()), "{}", world.sent().len());
}

#[test]
fn a_start_with_an_earlier_clock_keeps_the_age_of_alerts() {
    let simulation = Simulation::new(3);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 60)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.until(AlertState::Pending);
    world.wait(35.0);
    rig.node.crash();
    simulation.set_unix_nanos(world.now_ns() - 86_400 * SECOND_NS);
    let before = simulation.now();
    let rig = world.start();
    rig.until(AlertState::Firing);
    let waited_s = simulation.now().since(before).as_secs();
    assert!((20..=70).contains(&waited_s), "{waited_s}");
}

//! Groups that come, change and go, slow and failing parts, many groups and many alerts.

use std::collections::BTreeSet;
use std::time::Duration;

use logsvc_rules::messages::{AlertState, Health};
use logsvc_rules::model::RuleKind;
use logsvc_rules::sink::STALE;
use logsvc_runtime::sim::{Simulation, for_each_seed};

use crate::rig::*;

fn stale_count(world: &World<'_>, part: &str) -> usize {
    let is_stale = |value: f64| value.to_bits() == STALE.to_bits();
    world.series(part).iter().filter(|(_, value)| is_stale(*value)).count()
}

#[test]
fn a_group_that_is_replaced_keeps_the_state_of_its_rules() {
    for_each_seed(0..6, |simulation| {
        let world = World::new(simulation);
        let old = alert("A", QUERY, 30);
        world.define(group("g", vec![old.clone(), alert("Gone", QUERY, 0), record("m", QUERY)]));
        world.answers(Ok(vec![(vec![("pod", "p")], 1.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Pending);
        world.wait(7.0);
        // Another query, another place in the group; the name and labels are the same.
        let changed = alert("A", "sum(count_over_time({app=\"b\"}[5m]))", 30);
        let twin = with_label(alert("A", QUERY, 30), "x", "y");
        world.define(group("g", vec![changed.clone(), twin.clone(), record("m", QUERY)]));
        rig.tell();
        assert_eq!(rig.only_alert(), Some((AlertState::Pending, active_at_ns)), "at once");
        assert_eq!(rig.until(AlertState::Firing), active_at_ns);
        assert!(stale_count(&world, r#"alertname="Gone""#) == 2, "its two series have ended");
        assert_eq!(stale_count(&world, r#"__name__="m""#), 0);
        // The state of the changed rule is what a start finds.
        rig.node.crash();
        let rig = world.start();
        world.wait(1.0);
        assert_eq!(rig.only_alert(), Some((AlertState::Firing, active_at_ns)));
        // Shorter for: a firing alert fires on.
        let longer = alert("A", QUERY, 3000);
        world.define(group("g", vec![longer]));
        rig.tell();
        rig.evaluations(2);
        assert_eq!(rig.only_alert(), Some((AlertState::Firing, active_at_ns)));
    });
}

#[test]
fn a_group_that_is_replaced_while_it_runs_gives_the_evaluation_up() {
    for_each_seed(0..6, |simulation| {
        let world = World::new(simulation);
        world.play.takes.set(Duration::from_secs(4));
        world.define(group("g", vec![alert("A", QUERY, 0), alert("Late", QUERY, 0)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let rig = world.start();
        let queries = || world.play.queries.borrow().len();
        world.simulation.run_until(|| queries() == 1).unwrap();
        world.wait(1.0);
        world.define(group("g", vec![with_label(alert("A", QUERY, 0), "v", "2")]));
        rig.tell();
        assert_eq!(world.play.running.get(), 1);
        world.wait(2.0);
        assert_eq!(world.play.running.get(), 0, "the query is dropped");
        rig.evaluations(1);
        assert_eq!(rig.alerts()[0].labels.get("v"), Some("2"));
        let names: BTreeSet<_> =
            world.sent().iter().map(|(_, one)| one.labels.canonical()).collect();
        assert_eq!(names, BTreeSet::from([r#"{alertname="A", v="2"}"#.to_owned()]));
        assert_eq!(rig.status()[0].rules.len(), 1);
    });
}

#[test]
fn a_group_that_is_removed_ends_its_series_and_sends_nothing() {
    for_each_seed(0..4, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 0), record("m", QUERY)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let rig = world.start();
        rig.evaluations(4);
        world.clear();
        world.undefine("g");
        rig.tell();
        world.wait(60.0);
        assert_eq!(rig.status(), []);
        assert_eq!(world.sent(), []);
        assert_eq!((stale_count(&world, ""), world.series("").len()), (3, 3));
        // Its state is gone from the disk, too.
        rig.node.crash();
        world.define(group("g", vec![alert("A", QUERY, 600)]));
        let rig = world.start();
        rig.evaluations(1);
        assert_eq!(rig.only_alert().map(|(state, _)| state), Some(AlertState::Pending));
    });
}

#[test]
fn a_group_that_is_renamed_does_not_end_its_series() {
    let simulation = Simulation::new(3);
    let world = World::new(&simulation);
    world.define(group("old", vec![record("m", QUERY)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.evaluations(2);
    world.define(group("new", vec![record("m", QUERY)]));
    rig.tell();
    world.wait(25.0);
    world.undefine("old");
    rig.tell();
    world.wait(25.0);
    assert_eq!(stale_count(&world, ""), 0);
}

#[test]
fn too_many_alerts_cost_all_of_them() {
    let simulation = Simulation::new(4);
    let world = World::new(&simulation);
    let mut limited = group("g", vec![alert("A", QUERY, 0)]);
    limited.limit = 1;
    world.define(limited);
    world.answers(Ok(vec![(vec![("p", "1")], 1.0)]));
    let rig = world.start();
    rig.evaluations(2);
    assert_eq!(rig.alerts().len(), 1);
    world.answers(Ok(vec![(vec![("p", "1")], 1.0), (vec![("p", "2")], 1.0)]));
    rig.evaluations(1);
    assert_eq!(rig.health(), Health::Err("exceeded limit of 1 with 2 alerts".to_owned()));
    assert_eq!(rig.alerts().len(), 0);
    world.clear();
    world.answers(Ok(vec![]));
    rig.evaluations(1);
    assert_eq!(stale_count(&world, ""), 2, "its series end with the next good evaluation");
    assert_eq!(world.sent(), []);
}

#[test]
fn slow_queries_make_evaluations_miss_and_nothing_else() {
    let simulation = Simulation::new(5);
    let world = World::new(&simulation);
    world.play.takes.set(Duration::from_secs(25));
    world.define(group("g", vec![record("m", QUERY)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    world.wait(3600.0);
    let numbers = rig.numbers();
    assert!(numbers.iterations_missed > 150, "{numbers:?}");
    assert!(numbers.iterations.abs_diff(360) <= 3, "{numbers:?}");
    let times: Vec<i64> = world.series("").iter().map(|(at_ms, _)| *at_ms).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "each time once");
    assert!(times.iter().all(|at_ms| (at_ms - times[0]) % 10_000 == 0), "on the grid");
    assert!(numbers.last_duration >= Duration::from_secs(25));
}

#[test]
fn a_receiver_that_refuses_makes_the_rule_fail_and_loses_no_stale_marker() {
    let simulation = Simulation::new(6);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 0)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.evaluations(2);
    world.play.refuses.set(true);
    world.answers(Ok(vec![]));
    rig.evaluations(1);
    assert_eq!(rig.health(), Health::Err("WAL storage closed".to_owned()));
    assert_eq!(rig.alerts(), [], "the alert has ended all the same");
    world.play.refuses.set(false);
    rig.evaluations(2);
    assert_eq!(rig.health(), Health::Ok);
    assert_eq!(stale_count(&world, ""), 2);
}

#[test]
fn a_thousand_groups_run_spread_and_few_at_a_time() {
    let simulation = Simulation::new(7);
    let world = World::new(&simulation);
    simulation.set_max_polls(50_000_000);
    world.config.borrow_mut().max_concurrent = 3;
    for number in 0..1000 {
        let mut one = group(&format!("g{number}"), vec![record("m", QUERY), alert("A", QUERY, 0)]);
        one.interval = Some(Duration::from_secs(60));
        world.define(one);
    }
    world.answers(Ok(vec![]));
    let rig = world.start();
    world.wait(180.0);
    assert!(world.play.most_running.get() <= 3);
    let numbers = rig.groups_numbers();
    assert!(numbers.iter().all(|one| one.iterations >= 2 && one.iterations_missed == 0));
    let mut by_second = vec![0; 60];
    for (_, at_ns) in world.play.queries.borrow().iter() {
        by_second[(at_ns / SECOND_NS % 60) as usize] += 1;
    }
    assert!(by_second.iter().all(|&count| count < 300), "{by_second:?}");
}

#[test]
fn many_alerts_are_worked_on_aside_and_are_small() {
    let simulation = Simulation::new(8);
    let world = World::new(&simulation);
    simulation.set_max_polls(50_000_000);
    let rule = with_annotation(alert("A", QUERY, 0), "summary", "{{ $labels.pod }} is down");
    world.define(group("g", vec![rule]));
    world.play.takes_samples.set(false);
    let pods: Vec<&'static str> =
        (0..5000).map(|pod| &*Box::leak(format!("pod-{pod}").into_boxed_str())).collect();
    world.script(move |_, _| Ok(pods.iter().map(|pod| (vec![("pod", *pod)], 1.0)).collect()));
    let rig = world.start();
    rig.evaluations(2);
    assert_eq!(rig.alerts().len(), 5000);
    assert_eq!(world.sent().len(), 5000, "each once");
    assert_eq!(world.series(""), [], "nobody takes samples");
    rig.node.crash();
    world.clear();
    let rig = world.start();
    world.wait(0.5);
    assert_eq!(rig.alerts().len(), 5000);
    world.answers(Ok(vec![]));
    rig.evaluations(1);
    assert_eq!(world.sent().len(), 5000, "all have ended");
    assert_eq!(rig.alerts(), []);
}

#[test]
fn alerts_fire_on_for_as_long_as_the_rule_says() {
    let simulation = Simulation::new(9);
    let world = World::new(&simulation);
    let mut rule = alert("A", QUERY, 0);
    if let RuleKind::Alert(alert) = &mut rule.kind {
        alert.keep_firing = Duration::from_secs(45);
    }
    world.define(group("g", vec![rule]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.evaluations(2);
    world.answers(Ok(vec![]));
    rig.evaluations(1);
    let since_ns = rig.alerts()[0].keep_firing_since_ns.expect("fires on");
    rig.node.crash();
    let rig = world.start();
    rig.evaluations(1);
    assert_eq!(rig.alerts()[0].keep_firing_since_ns, Some(since_ns), "survives a kill");
    world.clear();
    rig.evaluations(5);
    assert_eq!(rig.alerts(), []);
    let ended = world.sent().iter().map(|(_, one)| one.ends_at_ns).min();
    assert_eq!(ended, Some(since_ns + 50 * SECOND_NS));
}

#[test]
fn days_of_evaluations() {
    let simulation = Simulation::new(10);
    simulation.set_max_polls(200_000_000);
    let world = World::new(&simulation);
    world.define(group("g", vec![alert("A", QUERY, 120), record("m", QUERY)]));
    // Each hour the condition holds for 10 minutes.
    world.script(|_, at_ns| {
        let is_on = at_ns / SECOND_NS % 3600 < 600;
        Ok(if is_on { vec![(vec![], 1.0)] } else { vec![] })
    });
    let rig = world.start();
    world.wait(3.0 * 86_400.0);
    let starts: BTreeSet<i64> = world.sent().iter().map(|(_, one)| one.starts_at_ns).collect();
    assert!((71..=73).contains(&starts.len()), "{}", starts.len());
    let numbers = rig.numbers();
    assert!(numbers.iterations.abs_diff(3 * 8640) <= 2, "{numbers:?}");
    assert_eq!(numbers.iterations_missed, 0);
    assert!(rig.state().file_bytes < 2 << 20, "{:?}", rig.state());
}

#[test]
fn jitter_delays_rules_and_changes_no_time() {
    let simulation = Simulation::new(11);
    let world = World::new(&simulation);
    world.config.borrow_mut().max_jitter = Duration::from_secs(5);
    world.define(group("g", vec![record("m", QUERY)]));
    world.answers(Ok(vec![(vec![], 1.0)]));
    let rig = world.start();
    rig.evaluations(3);
    let times: Vec<i64> = world.series("").iter().map(|(at_ms, _)| *at_ms).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 10_000), "{times:?}");
    assert!(rig.numbers().last_duration > Duration::from_millis(100), "{:?}", rig.numbers());
}

//! What others met: rows of the list of pitfalls.

use logsvc_rules::messages::{AlertState, Health};
use logsvc_rules::sink::STALE;
use logsvc_runtime::sim::for_each_seed;

use crate::rig::*;

#[test]
fn pitfall_1_a_firing_alert_survives_a_kill_and_a_stop() {
    for_each_seed(0..12, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 60)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Pending);
        assert_eq!(rig.until(AlertState::Firing), active_at_ns);
        world.wait(15.0);
        let started_ns = world.sent()[0].1.starts_at_ns;
        assert_eq!(started_ns, active_at_ns + 60 * SECOND_NS);
        world.clear();
        if simulation.seed() % 2 == 0 {
            rig.node.crash()
        } else {
            rig.stop()
        }
        world.wait(15.0);
        let rig = world.start();
        let first = loop {
            if let Some(first) = rig.only_alert() {
                break first;
            }
            world.wait(0.1);
        };
        assert_eq!(first, (AlertState::Firing, active_at_ns));
        rig.evaluations(1);
        assert_eq!(rig.only_alert(), Some((AlertState::Firing, active_at_ns)));
        let sent = world.sent();
        assert!(!sent.is_empty(), "it is sent again after a start");
        for (at_ns, one) in sent {
            assert_eq!(one.starts_at_ns, started_ns);
            assert!(one.ends_at_ns > at_ns, "it has not ended");
        }
    });
}

#[test]
fn pitfall_1_a_pending_alert_goes_on_after_a_kill() {
    for_each_seed(0..12, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 60)]));
        world.answers(Ok(vec![(vec![], 1.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Pending);
        rig.evaluations(4);
        let down = 15.0 + simulation.seed() as f64;
        rig.node.crash();
        world.wait(down);
        let rig = world.start();
        rig.until(AlertState::Firing);
        let bound_ns = active_at_ns + 70 * SECOND_NS + (down * 1e9) as i64;
        assert!(world.sent()[0].1.starts_at_ns <= bound_ns);
        assert!(world.sent()[0].1.starts_at_ns >= active_at_ns + 60 * SECOND_NS);
    });
}

#[test]
fn pitfall_2_a_failure_is_not_an_empty_result() {
    for_each_seed(0..3, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 0), record("m", QUERY)]));
        world.answers(Ok(vec![(vec![("lvl", "error")], 1.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Firing);
        rig.evaluations(2);
        world.clear();
        world.answers(Err("pipeline error: 'JSONParserErr' for series: '{}'".to_owned()));
        for _ in 0..30 {
            rig.evaluations(2);
            let Health::Err(error) = rig.health() else { panic!("it fails") };
            assert!(error.contains("JSONParserErr"), "{error}");
            assert_eq!(rig.only_alert(), Some((AlertState::Firing, active_at_ns)));
        }
        assert_eq!(world.sent(), []);
        assert_eq!(world.series(""), [], "no stale markers");
        world.answers(Ok(vec![(vec![("lvl", "error")], 1.0)]));
        rig.evaluations(2);
        assert_eq!(rig.only_alert(), Some((AlertState::Firing, active_at_ns)));
        assert_eq!(rig.health(), Health::Ok);
        assert_eq!(rig.numbers().evaluation_failures, 60);
    });
}

#[test]
fn pitfall_3_empty_is_not_zero() {
    for_each_seed(0..2, |simulation| {
        let world = World::new(simulation);
        let absent = r#"absent_over_time({app="db"} |= "q" [5m])"#;
        let zero = r#"(sum(count_over_time({app="db"} |= "q" [5m])) or vector(0)) == 0"#;
        let empty = r#"count_over_time({app="db"} |= "q" [5m]) == 0"#;
        let rules = [empty, absent, zero].map(|expr| alert("A", expr, 0)).to_vec();
        world.define(group("g", rules));
        world.script(move |text, _| {
            Ok(match text {
                text if text == absent => vec![(vec![("app", "db")], 1.0)],
                text if text == zero => vec![(vec![], 0.0)],
                _ => vec![],
            })
        });
        let rig = world.start();
        rig.evaluations(3);
        let status = rig.status();
        let alerts = |rule: usize| {
            assert_eq!(status[0].rules[rule].health, Health::Ok);
            let alerts = &status[0].rules[rule].alerting.as_ref().unwrap().alerts;
            alerts.iter().map(|one| (one.labels.canonical(), one.value)).collect::<Vec<_>>()
        };
        assert_eq!(alerts(0), []);
        assert_eq!(alerts(1), [(r#"{alertname="A", app="db"}"#.to_owned(), 1.0)]);
        assert_eq!(alerts(2), [(r#"{alertname="A"}"#.to_owned(), 0.0)]);
    });
}

#[test]
fn pitfall_4_equal_labels_after_the_rules_are_an_error() {
    for_each_seed(0..2, |simulation| {
        let world = World::new(simulation);
        world.define(group(
            "g",
            vec![
                with_label(alert("A", QUERY, 0), "pod", "all"),
                with_label(alert("B", QUERY, 0), "team", "x"),
                with_label(record("m", QUERY), "pod", "all"),
            ],
        ));
        world.answers(Ok(vec![(vec![("pod", "p1")], 3.0), (vec![("pod", "p2")], 5.0)]));
        let rig = world.start();
        rig.evaluations(3);
        let status = rig.status();
        let rules = &status[0].rules;
        let text = "vector contains metrics with the same labelset after applying";
        assert_eq!(rules[0].health, Health::Err(format!("{text} alert labels")));
        assert_eq!(rules[0].alerting.as_ref().unwrap().alerts.len(), 0);
        assert_eq!(rules[1].health, Health::Ok);
        assert_eq!(rules[1].alerting.as_ref().unwrap().alerts.len(), 2);
        assert_eq!(rules[2].health, Health::Err(format!("{text} rule labels")));
        assert!(world.sent().iter().all(|(_, one)| one.labels.get("alertname") == Some("B")));
        assert_eq!(world.series(r#"__name__="m""#), []);
    });
}

#[test]
fn pitfall_5_templates_read_the_labels_of_the_result() {
    for_each_seed(0..2, |simulation| {
        let world = World::new(simulation);
        let text = "{{ $labels.job }}/{{ $labels.pod }}/{{ $labels.nope }}/{{ $value }}";
        let rule = with_annotation(with_label(alert("A", QUERY, 0), "job", "x"), "text", text);
        let broken = with_annotation(alert("B", QUERY, 0), "text", "{{ nope }}");
        let value = r#"{{ query "vector(7)" | first | value }} {{ $value }}"#;
        let queries = with_annotation(alert("C", QUERY, 0), "text", value);
        let bad = with_annotation(alert("D", QUERY, 0), "text", r#"{{ query "{" }}"#);
        let lines = r#"{{ range logLines 3 }}{{ . }}{{ end }}"#;
        // The sample has the label from its entries.
        let by_pod = r#"sum by (pod) (count_over_time({app="a"}[5m])) > 0"#;
        let lines = with_annotation(alert("E", by_pod, 0), "text", lines);
        world.define(group("g", vec![rule, broken, queries, bad, lines]));
        world.script(|text, _| {
            let value = if text == "vector(7)" { 7.0 } else { 3.0 };
            Ok(vec![(vec![("pod", "p1")], value)])
        });
        let rig = world.start();
        rig.evaluations(5);
        let status = rig.status();
        let text = |rule: usize| {
            let alerts = &status[0].rules[rule].alerting.as_ref().unwrap().alerts;
            alerts[0].annotations.get("text").unwrap().to_owned()
        };
        assert_eq!(rig.alerts()[0].labels.canonical(), r#"{alertname="A", job="x", pod="p1"}"#);
        assert_eq!(text(0), "/p1//3");
        assert!(text(1).starts_with("<error expanding template: "), "{}", text(1));
        assert!(text(1).contains("nope"), "{}", text(1));
        assert_eq!(text(2), "7 3");
        assert!(text(3).starts_with("<error expanding template: "), "{}", text(3));
        assert!(text(3).contains("parse error"), "{}", text(3));
        // Of the window (T - 5m, T].
        assert_eq!(text(4), format!("3 of {{app=\"a\"}} | pod=\"p1\" {}", 300 * SECOND_NS - 1));
    });
}

#[test]
fn pitfall_6_samples_have_the_time_up_to_which_the_query_looked() {
    for_each_seed(0..2, |simulation| {
        let world = World::new(simulation);
        let mut late = group("g", vec![alert("A", QUERY, 0), record("m", QUERY)]);
        late.query_offset = Some(std::time::Duration::from_secs(60));
        world.define(late);
        world.answers(Ok(vec![(vec![], 6.0)]));
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Firing);
        rig.evaluations(1);
        let queried_ns = world.play.queries.borrow()[0].1;
        assert_eq!(queried_ns, active_at_ns - 60 * SECOND_NS);
        assert_eq!(world.series(r#"__name__="m""#)[0], (queried_ns / 1_000_000, 6.0));
        let for_state = world.series("ALERTS_FOR_STATE")[0];
        assert_eq!(for_state, (queried_ns / 1_000_000, (active_at_ns / SECOND_NS) as f64));
        assert_eq!(world.sent()[0].1.starts_at_ns, active_at_ns);
        // A tenant's delay counts where the group says nothing.
        world.play.query_offset.set(std::time::Duration::from_secs(30));
        world.define(group("g", vec![alert("A", QUERY, 0)]));
        rig.tell();
        world.clear();
        rig.evaluations(1);
        let sample_ms = world.series("ALERTS_FOR_STATE")[0].0;
        let queried_ns = world.play.queries.borrow()[0].1;
        assert_eq!(sample_ms, queried_ns / 1_000_000);
        assert!((world.now_ns() - queried_ns) / SECOND_NS >= 30);
    });
}

#[test]
fn pitfall_7_times_of_notifications_are_times() {
    for_each_seed(0..4, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![alert("A", QUERY, 0)]));
        let rig = world.start();
        rig.evaluations(1);
        world.answers(Ok(vec![(vec![], 1.0)]));
        rig.evaluations(1);
        world.answers(Ok(vec![]));
        let fired_at_ns = world.sent()[0].1.starts_at_ns;
        rig.evaluations(1);
        world.wait(100.0);
        world.define(group("g", vec![alert("A", QUERY, 20 * 60)]));
        rig.tell();
        world.wait(2000.0);
        // The sink checks each notification's times.
        let sent = world.sent();
        assert_eq!(sent[0].1.ends_at_ns, fired_at_ns + 240 * SECOND_NS);
        assert!(sent.len() >= 10, "re-sent for 15 minutes: {}", sent.len());
        for (at_ns, one) in &sent[1..] {
            assert_eq!(one.ends_at_ns, fired_at_ns + 10 * SECOND_NS);
            assert_eq!(one.starts_at_ns, fired_at_ns);
            assert!(at_ns - one.ends_at_ns <= 15 * 60 * SECOND_NS + 11 * SECOND_NS);
        }
    });
}

#[test]
fn pitfall_10_a_series_ends_with_one_stale_marker() {
    for_each_seed(0..3, |simulation| {
        let world = World::new(simulation);
        world.define(group("g", vec![record("m", QUERY), alert("A", QUERY, 20)]));
        let both = vec![(vec![("pod", "p1")], 1.0), (vec![("pod", "p2")], 2.0)];
        world.answers(Ok(both));
        let rig = world.start();
        rig.evaluations(6);
        world.answers(Ok(vec![(vec![("pod", "p1")], 1.0)]));
        rig.evaluations(8);
        let is_stale = |value: f64| value.to_bits() == STALE.to_bits();
        let ended = world.series(r#"{__name__="m", pod="p2"}"#);
        let values: Vec<bool> = ended.iter().map(|(_, value)| is_stale(*value)).collect();
        assert_eq!(values, [false, false, false, true]);
        assert_eq!(ended[3].0, ended[2].0 + 10_000);
        let goes_on = world.series(r#"{__name__="m", pod="p1"}"#);
        assert_eq!(goes_on.len(), 7);
        assert!(goes_on.iter().all(|(_, value)| *value == 1.0));
        let pending = world.series(r#"alertname="A", alertstate="pending", pod="p1"}"#);
        let values: Vec<bool> = pending.iter().map(|(_, value)| is_stale(*value)).collect();
        assert_eq!(values, [false, false, true], "it ends when the alert fires");
        let firing = world.series(r#"alertname="A", alertstate="firing", pod="p2"}"#);
        let values: Vec<bool> = firing.iter().map(|(_, value)| is_stale(*value)).collect();
        assert_eq!(values, [false, true]);
    });
}

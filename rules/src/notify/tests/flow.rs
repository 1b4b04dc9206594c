//! What an Alertmanager gets, when, and how often.

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_proto::Labels;
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::Simulation;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::rig::{AM, Manner, OTHER, Rig, names, tenant, to};
use crate::sink::{AlertSink, Notification};

#[test]
fn every_alertmanager_gets_every_alert_with_its_tenant() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM, OTHER]));
        rig.send("t1", names(0..600));
        rig.send("t2", ["x"]);
        rig.sleep(1).await;
        for url in [AM, OTHER] {
            let sizes: Vec<_> =
                rig.seen(url).iter().map(|seen| (seen.tenant.clone(), seen.alerts.len())).collect();
            let of_first: Vec<_> = sizes.iter().filter(|(name, _)| name == "t1").collect();
            assert_eq!(of_first.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [256, 256, 88]);
            assert!(sizes.contains(&("t2".to_owned(), 1)));
            let numbers = rig.of("t1", url);
            assert_eq!((numbers.given, numbers.sent, numbers.requests), (600, 600, 3));
            assert_eq!(numbers.latency.as_millis(), 15);
        }
        let seen = rig.seen(AM);
        let of_second = seen.iter().find(|seen| seen.tenant == "t2").expect("it was sent");
        // The external label `app` gives way to the alert's own.
        let expected = serde_json::json!({"alertname": "x", "app": "shop", "cluster": "lab"});
        assert_eq!(of_second.alerts[0]["labels"], expected);
        assert_eq!(rig.notifier.held_bytes(), (0, 0));
        // Both tenants have the same settings, so they share a transport.
        assert!(rig.world.connects.get() <= 2);
    });
}

#[test]
fn a_slow_alertmanager_holds_up_no_other_and_no_other_tenant() {
    for manner in [Manner::TimeOut, Manner::Hang, Manner::Answer(200, Duration::from_secs(9))] {
        Simulation::new(1).block_on(move |runtime| async move {
            let rig = Rig::new(runtime, to(&[AM, OTHER]));
            rig.manner(AM, &[manner]);
            for round in 0..20 {
                rig.send("t1", [round]);
                rig.send("t2", [round]);
                rig.sleep(1).await;
                let taken = rig.taken(OTHER).len() as u64;
                assert_eq!(taken, 2 * (round + 1), "each is there within a second");
            }
            rig.of("t1", AM);
            assert!(rig.of("t1", AM).queue_length > 0);
        });
    }
}

#[test]
fn passing_failures_are_tried_again_and_final_ones_are_not() {
    let cases: Vec<(Vec<Manner>, Vec<u64>, bool)> = vec![
        (vec![Manner::Answer(500, Duration::ZERO), Manner::ok()], vec![0, 1005], true),
        (vec![Manner::Refuse, Manner::Refuse, Manner::ok()], vec![3005], true),
        (vec![Manner::TakeAndClose, Manner::ok()], vec![1, 1006], true),
        (vec![Manner::Answer(503, Duration::ZERO)], vec![0, 1000, 3000], false),
        (vec![Manner::Busy(5), Manner::ok()], vec![0, 5005], true),
        (vec![Manner::Busy(3600), Manner::ok()], vec![0, 10005], true),
        (vec![Manner::Answer(400, Duration::ZERO)], vec![0], false),
        (vec![Manner::Answer(301, Duration::ZERO)], vec![0], false),
        (vec![Manner::Answer(204, Duration::ZERO)], vec![0], true),
    ];
    for (manners, times, is_sent) in cases {
        Simulation::new(1).block_on(move |runtime| async move {
            let rig = Rig::new(runtime, to(&[AM]));
            rig.manner(AM, &manners);
            let begin_ms = rig.runtime.now().0 / 1_000_000;
            rig.send("t", ["a"]);
            rig.sleep(30).await;
            let found: Vec<_> = rig.seen(AM).iter().map(|seen| seen.at_ms - begin_ms).collect();
            assert_eq!(found, times, "{manners:?}");
            let numbers = rig.of("t", AM);
            assert_eq!((numbers.sent, numbers.errors), (u64::from(is_sent), u64::from(!is_sent)));
            assert_eq!(rig.notifier.held_bytes(), (0, 0));
            // What comes behind is sent all the same.
            rig.manner(AM, &[Manner::ok()]);
            rig.send("t", ["b"]);
            rig.sleep(1).await;
            assert_eq!(rig.taken(AM).last().map(String::as_str), Some("b"));
        });
    }
}

#[test]
fn alerts_arrive_after_an_outage_that_is_shorter_than_their_resends() {
    // As the state machine sends: a firing alert each minute, a resolved one for 15 minutes.
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.manner(AM, &[Manner::TimeOut]);
        for minute in 0..30 {
            if minute == 10 {
                rig.manner(AM, &[Manner::ok()]);
            }
            let name = if minute < 5 { "firing" } else { "resolved" };
            if minute < 20 {
                rig.send("t", [name]);
            }
            rig.sleep(60).await;
        }
        let taken = rig.taken(AM);
        assert_eq!(taken, vec!["resolved"; 10], "the last state and nothing older behind it");
        rig.of("t", AM);
    });
}

/// The number of a change of an alert, as its annotation has it.
fn change(name: &str, number: u64, now_ns: i64) -> Notification {
    let number = number.to_string();
    Notification {
        labels: Labels::from_pairs([("alertname", name)]).expect("valid"),
        annotations: Labels::from_pairs([("change", number.as_str())]).expect("valid"),
        starts_at_ns: now_ns,
        ends_at_ns: now_ns,
        generator_url: "http://g".to_owned(),
    }
}

#[test]
fn counts_add_up_and_no_change_of_an_alert_is_overtaken() {
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let capacity = *rng.pick(&[5, 50, 10_000]);
            let rig = Rig::new(
                runtime,
                crate::config::AlertmanagerConfig {
                    queue_capacity: capacity,
                    timeout: Duration::from_secs(rng.between(1, 10)),
                    ..to(&[AM, OTHER])
                },
            );
            rig.world.rng.replace(Some(Rng::new(seed + 1)));
            let mut is_well = BTreeMap::new();
            for url in [AM, OTHER] {
                let all = [
                    Manner::ok(),
                    Manner::ok(),
                    Manner::Answer(202, Duration::from_millis(700)),
                    Manner::Answer(500, Duration::from_millis(3)),
                    Manner::Answer(429, Duration::ZERO),
                    Manner::Answer(400, Duration::ZERO),
                    Manner::Busy(2),
                    Manner::Refuse,
                    Manner::TimeOut,
                    Manner::Hang,
                    Manner::TakeAndClose,
                ];
                let count = rng.between(1, all.len() as u64) as usize;
                rig.manner(url, &all[..count]);
                is_well.insert(url, count <= 3);
            }
            let (mut given, mut last_change) = (0, 0);
            for number in 0..rng.between(20, 200) {
                let alerts: Vec<_> = (0..rng.below(8))
                    .map(|_| {
                        given += 1;
                        last_change = 1000 * number + given;
                        let name = format!("a{}", rng.below(5));
                        change(&name, last_change, rig.runtime.unix_nanos())
                    })
                    .collect();
                rig.notifier.send(&tenant("t"), alerts);
                if rng.one_in(2) {
                    rig.sleep_ms(rng.below(1500)).await;
                }
                if given > 0 {
                    for url in [AM, OTHER] {
                        assert_eq!(rig.of("t", url).given, given);
                    }
                    assert!(rig.numbers("t").queue_length <= capacity as u64);
                }
            }
            rig.sleep(3600).await;
            for url in [AM, OTHER] {
                let numbers = rig.of("t", url);
                assert_eq!((numbers.queue_length, numbers.in_flight), (0, 0), "{numbers:?}");
                if capacity == 10_000 {
                    assert_eq!(numbers.dropped, 0, "there was room");
                }
                let mut newest: BTreeMap<String, u64> = BTreeMap::new();
                // A batch may come again, but nothing older than what an earlier one had.
                let mut last_batch = 0;
                for seen in rig.seen(url) {
                    let numbers = seen.alerts.iter().map(|alert| {
                        let number = alert["annotations"]["change"].as_str().expect("a text");
                        let name = alert["labels"]["alertname"].as_str().expect("a text");
                        (name.to_owned(), number.parse::<u64>().expect("a number"))
                    });
                    let numbers: Vec<_> = numbers.collect();
                    assert!(numbers.is_sorted_by_key(|(_, number)| *number));
                    let first = numbers[0].1;
                    assert!(first >= last_batch, "seed {seed}: {first} after {last_batch}");
                    last_batch = first;
                    newest.extend(numbers);
                }
                if is_well[url] && given > 0 {
                    assert_eq!(numbers.errors, 0, "it answers with success in time");
                    assert_eq!(rig.taken(url).len() as u64, numbers.sent);
                    assert_eq!(newest.values().max(), Some(&last_change), "the newest is there");
                }
            }
            assert_eq!(rig.notifier.held_bytes(), (0, 0));
        });
    }
}

#[test]
fn a_stop_sends_what_waits_within_its_patience() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM, OTHER]));
        rig.manner(AM, &[Manner::Answer(200, Duration::from_millis(300))]);
        rig.manner(OTHER, &[Manner::Hang]);
        rig.send("t", names(0..1000));
        rig.sleep_ms(10).await;
        let begun = rig.runtime.now();
        rig.notifier.stop(Duration::from_secs(3)).await;
        assert_eq!(rig.runtime.now().since(begun).as_millis(), 3000);
        assert_eq!(rig.taken(AM).len(), 1000);
        let (good, bad) = (rig.of("t", AM), rig.of("t", OTHER));
        assert_eq!((good.sent, good.dropped), (1000, 0));
        assert_eq!((bad.errors, bad.dropped), (256, 744));
        assert_eq!(rig.numbers("t").dropped, 744);
        assert_eq!(rig.notifier.held_bytes(), (0, 0));
        // Alerts that come later are dropped and counted.
        rig.send("t", ["late"]);
        rig.sleep(60).await;
        assert_eq!(rig.of("t", AM).dropped, 1);
        rig.notifier.stop(Duration::from_secs(3)).await;
    });
}

#[test]
fn a_stop_of_an_idle_notifier_is_immediate() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.send("t", ["a"]);
        rig.sleep(1).await;
        let begun = rig.runtime.now();
        rig.notifier.stop(Duration::from_secs(5)).await;
        assert_eq!(rig.runtime.now().since(begun).as_millis(), 0);
    });
}

#[test]
fn a_stop_tries_a_failed_request_again_at_once() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, to(&[AM]));
        rig.manner(AM, &[Manner::Busy(10), Manner::ok()]);
        rig.send("t", ["a"]);
        rig.sleep(1).await;
        rig.notifier.stop(Duration::from_secs(2)).await;
        assert_eq!(rig.taken(AM), ["a"]);
    });
}

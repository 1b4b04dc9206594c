//! Room: what is dropped when there is none, and that no more memory is held.

use logsvc_runtime::sim::Simulation;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::rig::{AM, Manner, OTHER, Rig, names, to};
use crate::config::AlertmanagerConfig;

#[test]
fn the_oldest_alerts_go_first() {
    Simulation::new(1).block_on(|runtime| async move {
        let config = AlertmanagerConfig { queue_capacity: 100, ..to(&[AM, OTHER]) };
        let rig = Rig::new(runtime, config);
        rig.manner(AM, &[Manner::TimeOut, Manner::ok()]);
        rig.send("t", ["first"]);
        rig.sleep(1).await;
        for part in 0..10 {
            rig.send("t", names(30 * part..30 * part + 30));
            rig.sleep_ms(100).await;
        }
        assert_eq!(rig.of("t", AM).queue_length, 100);
        assert_eq!(rig.numbers("t").dropped, 200);
        rig.sleep(60).await;
        let mut expected = vec!["first".to_owned()];
        expected.extend(names(200..300));
        assert_eq!(rig.taken(AM), expected);
        assert_eq!(rig.of("t", AM).dropped, 200);
        // The other one had room all the time.
        assert_eq!((rig.of("t", OTHER).sent, rig.of("t", OTHER).dropped), (301, 0));
    });
}

#[test]
fn more_alerts_than_the_queue_takes_leave_the_newest() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::new(runtime, AlertmanagerConfig { queue_capacity: 10, ..to(&[AM]) });
        rig.send("t", names(0..25));
        rig.sleep(1).await;
        assert_eq!(rig.taken(AM), names(15..25));
        assert_eq!((rig.of("t", AM).given, rig.of("t", AM).dropped), (25, 15));
        assert_eq!(rig.numbers("t").queue_capacity, 10);
    });
}

#[test]
fn the_bound_of_the_node_holds_and_takes_from_the_largest_queue() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let max_bytes = 20_000;
            let rig = Rig::bounded(runtime, to(&[AM]), max_bytes);
            rig.manner(AM, &[Manner::Hang]);
            rig.send("small", ["quiet"]);
            rig.sleep_ms(1).await;
            rig.send("small", ["kept"]);
            for number in 0..300u64 {
                let name = *rng.pick(&["loud", "louder"]);
                let long = "x".repeat(rng.below(3000) as usize);
                rig.send(name, [format!("{number}{long}")]);
                let (queued, in_requests) = rig.notifier.held_bytes();
                assert!(queued <= max_bytes, "{queued}");
                // Two copies of one alert for each of three requests beside a quarter.
                assert!(in_requests <= max_bytes / 4 + 3 * 2 * 4000, "{in_requests}");
                if rng.one_in(20) {
                    rig.sleep(20).await;
                    rig.send("small", ["kept"]);
                }
            }
            assert_eq!(rig.numbers("small").dropped, 0);
            assert!(rig.numbers("loud").dropped > 0 && rig.numbers("louder").dropped > 0);
            for name in ["small", "loud", "louder"] {
                rig.of(name, AM);
            }
        });
    }
}

#[test]
fn an_alert_that_cannot_fit_is_dropped_alone() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::bounded(runtime, to(&[AM]), 10_000);
        rig.send("t", ["a".to_owned(), "b".repeat(20_000), "c".to_owned()]);
        rig.sleep(1).await;
        assert_eq!(rig.taken(AM), ["a", "c"]);
        assert_eq!((rig.of("t", AM).given, rig.of("t", AM).dropped), (3, 1));
    });
}

#[test]
fn long_alerts_go_in_small_requests() {
    Simulation::new(1).block_on(|runtime| async move {
        let rig = Rig::bounded(runtime, to(&[AM]), 64 << 20);
        let long = |number: u64| format!("{number}{}", "x".repeat(300_000));
        rig.send("t", (0..8).map(long));
        rig.sleep(1).await;
        // The transport of the rig checks the size of each request.
        assert_eq!(
            rig.seen(AM).iter().map(|seen| seen.alerts.len()).collect::<Vec<_>>(),
            [3, 3, 2]
        );
        assert_eq!(rig.taken(AM), (0..8).map(long).collect::<Vec<_>>());
    });
}

use std::time::Duration;

use logsvc_runtime::sim::for_each_seed;

use super::receiver::Mode;
use super::rig::{A, B, World, assert_balanced, numbers, sample, sleep, unix_ms};

#[test]
fn beyond_its_bytes_the_log_drops_the_oldest_samples_and_counts_exactly() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A, B]);
        world.log.set((1 << 15, Duration::from_secs(4 * 3600)));
        let mode = if simulation.seed() % 2 == 0 { Mode::Dead } else { Mode::Hangs };
        world.set_mode(A, mode);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            for _ in 0..300 {
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..20).await.unwrap();
                sleep(&runtime, 1.0).await;
                assert!(remote.numbers().logs[0].disk_bytes <= 1 << 15);
            }
            sleep(&runtime, 5.0).await;
            world.assert_complete(B);
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 120.0).await;
            let numbers = numbers(&remote, 0);
            let taken = world.with(A, |receiver| receiver.count());
            assert_eq!((numbers.samples_taken, numbers.samples_pending), (taken, 0));
            assert_eq!(numbers.dropped_for_room, 6000 - taken, "{numbers:?}");
            assert!(taken > 500 && taken < 5500, "{taken}");
            // The newest ones are there.
            let newest: Vec<_> = world.accepted.borrow()[6000 - taken as usize..].to_vec();
            let mut newest = newest;
            newest.sort();
            assert_eq!(world.with(A, |receiver| receiver.samples()), newest);
            assert_balanced(&remote);
        });
    });
}

#[test]
fn beyond_their_age_samples_are_dropped_and_counted_exactly() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.log.set((1 << 30, Duration::from_secs(600)));
        world.set_mode(A, Mode::Status(503, Vec::new()));
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            // Hours without a receiver.
            for _ in 0..400 {
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..3).await.unwrap();
                sleep(&runtime, 30.0).await;
            }
            let before = unix_ms(&runtime);
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 60.0).await;
            let numbers = numbers(&remote, 0);
            let taken = world.with(A, |receiver| receiver.count());
            assert_eq!(numbers.dropped_for_age + taken, 1200, "{numbers:?}");
            world.with(A, |receiver| {
                let oldest = receiver.series.values().next().unwrap().keys().next().unwrap();
                // A segment spans an eighth of the age.
                let age = before - oldest;
                assert!((570_000..=700_000).contains(&age), "{age}");
            });
            assert_balanced(&remote);
            // A tenant whose samples are all old has no file of samples left.
            sleep(&runtime, 1000.0).await;
            assert_eq!(remote.numbers().logs[0].disk_bytes, 0);
        });
        assert!(
            simulation
                .disk()
                .files("/samples/t1")
                .iter()
                .all(|file| { file.extension().is_some_and(|ending| ending == "position") })
        );
    });
}

#[test]
fn older_and_equal_times_and_huge_labels_are_left_out() {
    for_each_seed(0..5, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let mut huge = sample(1, 5000, 1.0);
            let value = "x".repeat(200 << 10);
            huge.labels =
                logsvc_proto::Labels::from_result_pairs([("__name__", "m"), ("x", &value)])
                    .unwrap();
            let samples = vec![
                sample(1, 2000, 1.0),
                sample(1, 2000, 2.0),
                sample(1, 1000, 3.0),
                huge,
                sample(2, 1000, 4.0),
            ];
            use crate::sink::SampleSink;
            remote.append(&super::rig::tenant(), samples).await.unwrap();
            sleep(&runtime, 5.0).await;
            world.with(A, |receiver| assert_eq!(receiver.count(), 2));
            let log = &remote.numbers().logs[0];
            assert_eq!((log.samples_out_of_order, log.samples_too_large), (2, 1));
            assert_eq!((log.samples_appended, log.active_series), (2, 2));
            assert_eq!(log.highest_timestamp_ms, Some(2000));
        });
    });
}

#[test]
fn many_tenants_share_few_files() {
    use crate::sink::SampleSink;
    use logsvc_proto::TenantId;
    let simulation = logsvc_runtime::sim::Simulation::new(3);
    let world = World::new(3, &[A]);
    simulation.block_on(|runtime| async move {
        let remote = world.start(&runtime).await;
        for round in 0..3 {
            for number in 0..200 {
                let tenant = TenantId::new(&format!("t{number}")).unwrap();
                let samples = vec![sample(number, 1000 + round, 1.0)];
                remote.append(&tenant, samples).await.unwrap();
            }
        }
        sleep(&runtime, 10.0).await;
        world.with(A, |receiver| assert_eq!(receiver.count(), 600));
    });
}

#[test]
fn old_series_are_forgotten_and_new_segments_name_series_again() {
    for_each_seed(0..5, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.log.set((1 << 20, Duration::from_secs(8 * 3600)));
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..100).await.unwrap();
            for _ in 0..100 {
                sleep(&runtime, 60.0).await;
                let now = unix_ms(&runtime);
                world.append(&remote, now, 0..10).await.unwrap();
            }
            sleep(&runtime, 10.0).await;
            world.assert_complete(A);
            let log = &remote.numbers().logs[0];
            assert_eq!((log.active_series, log.removed_series), (10, 90));
            assert_balanced(&remote);
        });
    });
}

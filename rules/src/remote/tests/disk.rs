use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, for_each_seed};

use super::receiver::Mode;
use super::rig::{A, World, assert_balanced, numbers, sleep, unix_ms};

#[test]
fn a_full_disk_fails_appends_and_they_go_on_when_it_has_room() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        let disk = simulation.disk().clone();
        world.set_mode(A, Mode::Dead);
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let (mut good, mut bad) = (0, 0);
            for round in 0..30 {
                let capacity =
                    if (10..20).contains(&round) { disk.used_bytes() + 5 } else { 1 << 30 };
                disk.set_capacity_bytes(capacity);
                let now = unix_ms(&runtime);
                match world.append(&remote, now, 0..20).await {
                    Ok(()) => good += 1,
                    Err(error) => {
                        assert!(error.to_string().starts_with("cannot write samples: "), "{error}");
                        bad += 1;
                    }
                }
                sleep(&runtime, 1.0).await;
            }
            assert_eq!((good, bad), (20, 10));
            assert_eq!(remote.numbers().logs[0].samples_not_written, 200);
            world.set_mode(A, Mode::Takes);
            sleep(&runtime, 30.0).await;
            world.assert_complete(A);
            assert_balanced(&remote);
        });
    });
}

#[test]
fn a_segment_that_cannot_be_read_is_read_again() {
    for_each_seed(0..20, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        let disk = simulation.disk().clone();
        simulation.block_on(|runtime| async move {
            let remote = world.start(&runtime).await;
            let now = unix_ms(&runtime);
            disk.fail_next(DiskOperation::Read, "/samples/t1", 5);
            world.append(&remote, now, 0..20).await.unwrap();
            sleep(&runtime, 60.0).await;
            world.assert_complete(A);
            // One that is lost for good is counted.
            disk.fail_next(DiskOperation::Read, "/samples/t1", 1000);
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..20).await.unwrap();
            sleep(&runtime, 120.0).await;
            assert_eq!(numbers(&remote, 0).dropped_as_damaged, 20);
            disk.clear_faults();
            let now = unix_ms(&runtime);
            world.append(&remote, now, 0..20).await.unwrap();
            sleep(&runtime, 120.0).await;
            world.with(A, |receiver| assert_eq!(receiver.count(), 40));
            assert_balanced(&remote);
        });
    });
}

#[test]
fn damage_in_the_middle_is_skipped_and_counted() {
    for_each_seed(0..60, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Dead);
        let first = world.clone();
        simulation.block_on(|runtime| async move {
            let remote = first.start(&runtime).await;
            for _ in 0..20 {
                let now = unix_ms(&runtime);
                first.append(&remote, now, 0..10).await.unwrap();
                sleep(&runtime, 1.0).await;
            }
            remote.close().await;
        });
        // A payload in the middle; the first frame has the label sets.
        let path = simulation
            .disk()
            .files("/samples/t1")
            .into_iter()
            .find(|file| file.extension().is_some_and(|ending| ending == "samples"));
        let path = path.unwrap();
        let len = simulation.disk().read(&path).unwrap().len() as u64;
        let at = len / 2 + simulation.seed() * 3;
        assert!(simulation.disk().corrupt(&path, at, 0x10));
        world.set_mode(A, Mode::Takes);
        let second = world.clone();
        simulation.block_on(|runtime| async move {
            let remote = second.start(&runtime).await;
            sleep(&runtime, 30.0).await;
            let numbers = numbers(&remote, 0);
            let taken = second.with(A, |receiver| receiver.count());
            assert_eq!(taken, 190);
            assert_eq!(numbers.samples_pending, 0);
            let log = &remote.numbers().logs[0];
            assert_eq!((log.corruptions, log.repairs), (1, 1));
            assert!(log.replay_time.is_some_and(|time| time < Duration::from_secs(1)));
        });
    });
}

#[test]
fn a_damaged_position_sends_all_again() {
    for_each_seed(0..10, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        let run = |rounds: i64, world: World| {
            simulation.block_on(|runtime| async move {
                let remote = world.start(&runtime).await;
                for _ in 0..rounds {
                    let now = unix_ms(&runtime);
                    world.append(&remote, now, 0..10).await.unwrap();
                    sleep(&runtime, 2.0).await;
                }
                sleep(&runtime, 10.0).await;
                remote.close().await;
            });
        };
        run(5, world.clone());
        let position = simulation
            .disk()
            .files("/samples/t1")
            .into_iter()
            .find(|file| file.extension().is_some_and(|ending| ending == "position"));
        simulation.disk().write(position.unwrap(), b"nonsense");
        let before = world.with(A, |receiver| receiver.requests.len());
        run(1, world.clone());
        world.assert_complete(A);
        world.with(A, |receiver| {
            let again: usize =
                receiver.requests[before..].iter().map(|request| request.samples.len()).sum();
            assert_eq!(again, 60);
        });
    });
}

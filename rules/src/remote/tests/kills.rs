use std::cell::Cell;
use std::time::Duration;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{FaultRates, Node, Simulation, for_each_seed};
use logsvc_testkit::Rng;

use super::receiver::Mode;
use super::rig::{A, B, World, sample, sleep, unix_ms};

/// A process that evaluates a rule each `interval_s`, aligned, as the ruler does.
fn evaluates(simulation: &Simulation, world: &World, interval_s: f64, seed: u64) -> Node {
    let world = world.clone();
    let seed = Cell::new(seed);
    simulation.start_node(1, move |runtime| {
        let world = world.clone();
        let mut rng = Rng::new(seed.replace(seed.get() + 1));
        async move {
            let remote = world.start(&runtime).await;
            let interval_ms = (interval_s * 1000.0) as i64;
            loop {
                let now = unix_ms(&runtime);
                // The same evaluation may be made by two processes, with other results.
                let at = now - now.rem_euclid(interval_ms);
                let series = rng.between(1, 8);
                let samples =
                    (0..series).map(|number| sample(number, at, rng.below(1000) as f64)).collect();
                if let Err(error) = append_new(&world, &remote, samples).await {
                    assert!(error.to_string().contains("cannot write samples"), "{error}");
                }
                let rest_ms = interval_ms - unix_ms(&runtime).rem_euclid(interval_ms);
                sleep(&runtime, rest_ms as f64 / 1000.0).await;
            }
        }
    })
}

/// Appends, and notes those samples that are the first ones of their time as accepted: the value
/// that counts for others is the first one's.
async fn append_new(
    world: &World,
    remote: &super::rig::Remote,
    samples: Vec<crate::sink::RecordedSample>,
) -> Result<(), crate::sink::AppendError> {
    let before = world.accepted.borrow().len();
    world.append_samples(remote, samples).await?;
    let mut accepted = world.accepted.borrow_mut();
    let new = accepted.split_off(before);
    for sample in new {
        let has_time =
            |(series, at, _): &&super::receiver::Seen| (series, *at) == (&sample.0, sample.1);
        if accepted.iter().rev().take(100).find(has_time).is_none() {
            accepted.push(sample);
        }
    }
    Ok(())
}

/// All samples that were accepted are there, with any value: an append whose process was killed
/// before it returned may have been the first one of its time.
fn assert_no_gap(world: &World, url: &str) {
    world.with(url, |receiver| {
        for (series, at, _) in &*world.accepted.borrow() {
            let there = receiver.series.get(series).is_some_and(|times| times.contains_key(at));
            assert!(there, "{series} at {at} is missing at {url}");
        }
    });
}

/// Pitfall 9: unsent samples and crashes.
#[test]
fn a_kill_while_the_receiver_is_down_loses_nothing_and_repeats_unchanged() {
    for_each_seed(0..60, |simulation| {
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Dead);
        let node = evaluates(simulation, &world, 5.0, 1);
        simulation.run_for(Duration::from_secs(30));
        node.crash();
        let node = evaluates(simulation, &world, 5.0, 2);
        simulation.run_for(Duration::from_secs(30));
        world.set_mode(A, Mode::Takes);
        simulation.run_for(Duration::from_secs(15));
        let count = world.accepted.borrow().len();
        assert!(count > 12, "{count}");
        let known = world.accepted.borrow().clone();
        node.crash();
        // The evaluation that was made last may still be on its way.
        let newest = known.iter().map(|(_, at, _)| *at).max().unwrap();
        world.accepted.borrow_mut().retain(|(_, at, _)| *at < newest);
        assert_no_gap(&world, A);
    });
}

#[test]
fn kills_at_any_moment_with_moody_receivers_lose_nothing() {
    for_each_seed(0..60, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation.seed(), &[A, B]);
        world.set_mode(A, Mode::Moody);
        world.set_mode(B, Mode::Moody);
        world.change_settings(|settings| {
            settings.clients[0].prefers_v2 = true;
            settings.clients[1].queue.max_samples_per_send = 3;
            settings.clients[0].remote_timeout = Duration::from_secs(5);
            settings.clients[1].remote_timeout = Duration::from_secs(5);
        });
        // Segments of 4 KiB.
        world.log.set((1 << 15, Duration::from_secs(4 * 3600)));
        for round in 0..rng.between(2, 8) {
            let node = evaluates(simulation, &world, 1.0, round);
            simulation.run_for(Duration::from_millis(rng.between(1, 20_000)));
            node.crash();
        }
        world.set_mode(A, Mode::Takes);
        world.set_mode(B, Mode::Takes);
        let last = world.clone();
        simulation.block_on(|runtime| async move {
            let remote = last.start(&runtime).await;
            sleep(&runtime, 400.0).await;
            for receiver in remote.numbers().receivers {
                assert_eq!(receiver.samples_pending, 0, "{receiver:?}");
                assert_eq!(receiver.dropped_for_room + receiver.dropped_as_damaged, 0);
            }
        });
        assert_no_gap(&world, A);
        assert_no_gap(&world, B);
    });
}

/// Pitfall 9: unsent samples and crashes.
#[test]
fn a_receiver_that_refuses_repetitions_loses_nothing_by_kills() {
    for_each_seed(0..60, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Strict);
        world.with(A, |receiver| receiver.latency = Duration::from_millis(200));
        world.change_settings(|settings| settings.clients[0].queue.max_samples_per_send = 7);
        for round in 0..rng.between(5, 20) {
            let node = evaluates(simulation, &world, 1.0, round);
            simulation.run_for(Duration::from_millis(rng.between(1000, 10_000)));
            node.crash();
        }
        world.set_mode(A, Mode::Strict);
        let last = world.clone();
        simulation.block_on(|runtime| async move {
            let remote = last.start(&runtime).await;
            sleep(&runtime, 600.0).await;
            assert_eq!(remote.numbers().receivers[0].samples_pending, 0);
        });
        assert_no_gap(&world, A);
    });
}

#[test]
fn a_loss_of_power_gives_no_second_value() {
    for_each_seed(0..60, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Mute);
        let node = evaluates(simulation, &world, 1.0, 1);
        simulation.run_for(Duration::from_millis(rng.between(1, 20_000)));
        node.crash();
        simulation.disk().power_loss();
        // The clock goes on while the machine is down.
        simulation.run_for(Duration::from_secs(5));
        world.set_mode(A, Mode::Takes);
        let node = evaluates(simulation, &world, 1.0, 2);
        simulation.run_for(Duration::from_secs(30));
        node.crash();
        // What was synced is there: all but that of the last seconds.
        let newest = world.accepted.borrow().iter().map(|(_, at, _)| *at).max().unwrap();
        let there = world.with(A, |receiver| receiver.count());
        assert!(there > 0);
        world.with(A, |receiver| {
            let seen = receiver.series.values().filter_map(|times| times.keys().max());
            assert!(*seen.max().unwrap() >= newest - 10_000);
        });
    });
}

#[test]
fn failing_disks_give_no_second_value() {
    for_each_seed(0..60, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation.seed(), &[A]);
        world.set_mode(A, Mode::Moody);
        world.log.set((1 << 15, Duration::from_secs(4 * 3600)));
        let rates = FaultRates {
            reads_per_million: 20_000,
            writes_per_million: 20_000,
            syncs_per_million: 20_000,
            others_per_million: 20_000,
        };
        for round in 0..6 {
            simulation.disk().set_fault_rates(rates);
            let node = evaluates(simulation, &world, 1.0, round);
            simulation.run_for(Duration::from_millis(rng.between(1, 40_000)));
            node.crash();
            simulation.disk().clear_faults();
            // A sync that has failed may have taken the last evaluation away, which must not be
            // made again then.
            simulation.run_for(Duration::from_secs(2));
        }
        world.set_mode(A, Mode::Takes);
        let node = evaluates(simulation, &world, 1.0, 7);
        simulation.run_for(Duration::from_secs(20));
        node.crash();
        assert!(world.with(A, |receiver| receiver.count()) > 10);
    });
}

#[test]
fn steps_of_the_clock_give_no_second_value_and_no_older_time() {
    for_each_seed(0..60, |simulation| {
        let mut rng = Rng::new(simulation.seed());
        let world = World::new(simulation.seed(), &[A]);
        for round in 0..6 {
            let node = evaluates(simulation, &world, 1.0, round);
            for _ in 0..3 {
                simulation.run_for(Duration::from_millis(rng.between(1, 20_000)));
                let step_s = rng.below(60) as i64 - 30;
                let now = simulation.block_on(|runtime| async move { runtime.unix_nanos() });
                simulation.set_unix_nanos(now + step_s * 1_000_000_000);
            }
            node.crash();
        }
        assert!(world.with(A, |receiver| receiver.count()) > 0);
    });
}

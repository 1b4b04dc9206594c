//! Files that a bucket keeps: requests for deletion and rule groups outlive kills, power losses and
//! disks, and what was removed does not come back.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::time::Duration;

use logsvc_runtime::sim::Simulation;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::SinkConfig;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::ObjectName;
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, InBucket, Upkeep};
use crate::kept_rig::{Ended, Key, Outcome, Owned, Possible, Value};
use crate::ledger::Ledger;
use crate::upkeep::{NOON_NS, push};

/// The folder of a disk.
fn folder(number: u32) -> &'static str {
    Box::leak(format!("/srv/kept-{number}").into_boxed_str())
}

fn upkeep(world: &World, is_stored: bool) -> Upkeep {
    let followed = InBucket {
        world: world.clone(),
        sink: is_stored.then(SinkConfig::default),
        // Files do not wait for segments.
        max_age: Duration::from_secs(100_000),
        cache_max_bytes: None,
    };
    Upkeep { partitions: Some(8), followed: Some(followed), ..SealPolicy::ON_REQUEST.into() }
}

fn launch<'s>(
    simulation: &'s Simulation,
    world: &World,
    disk: &'static str,
    is_stored: bool,
) -> Cluster<'s> {
    let upkeep = upkeep(world, is_stored);
    Cluster::launch_at(disk, simulation, 2, WalConfig::default(), upkeep)
}

fn start<'s>(
    simulation: &'s Simulation,
    world: &World,
    disk: &'static str,
    is_stored: bool,
) -> Owned<'s> {
    let cluster = launch(simulation, world, disk, is_stored);
    cluster.await_start().unwrap_or_else(|failure| panic!("{failure}"));
    Owned::new(cluster, disk)
}

fn faults(rng: &mut Rng) -> Faults {
    Faults {
        latency_ns: 1_000_000..=rng.between(2_000_000, 300_000_000),
        failures_per_million: rng.below(100_000),
        lost_answers_per_million: rng.below(200_000),
        conflicts_per_million: rng.below(100_000),
        busy_per_million: rng.below(100_000),
        listing_lag_ns: if rng.one_in(3) { rng.below(3_000_000_000) } else { 0 },
        ..Faults::default()
    }
}

fn objects(world: &World) -> Vec<ObjectName> {
    let names = world.objects().into_iter().map(|(name, _)| name);
    names.filter(|name| name.as_str().starts_with("files/")).collect()
}

/// Waits until the bucket has everything.
fn reach(node: &Owned<'_>) {
    let cluster = &node.cluster;
    let wanted = cluster.bucket_status().want();
    let deadline = cluster.simulation.now().after(Duration::from_secs(3_600));
    while !cluster.bucket_status().has_reached(wanted) {
        assert!(cluster.simulation.now() < deadline, "the bucket never has everything");
        cluster.simulation.run_for(Duration::from_millis(100));
    }
}

fn await_end(simulation: &Simulation, outcome: &Outcome) -> Ended {
    let run = simulation.run_until(|| outcome.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    outcome.borrow().expect("it has ended")
}

/// A change that a test makes.
fn random_change(rng: &mut Rng, next_request: &mut u32) -> (Key, Value) {
    match rng.below(4) {
        0 => {
            *next_request += 1;
            (Key::Request(*next_request), Some(1))
        }
        1 => (Key::Request(rng.between(1, u64::from(*next_request).max(1)) as u32), None),
        _ => {
            let value = (!rng.one_in(4)).then(|| rng.below(10_000) as u32);
            (Key::Group(rng.below(4) as u32), value)
        }
    }
}

fn begin(node: &Owned<'_>, key: Key, value: Value) -> Outcome {
    match (key, value) {
        (Key::Group(number), value) => node.begin_group(number, value),
        (Key::Request(number), Some(_)) => node.begin_create(number),
        (Key::Request(number), None) => node.begin_cancel(number),
    }
}

/// What has happened over all seeds.
#[derive(Debug, Default)]
struct Tally {
    done: u32,
    not_kept: u32,
    killed: u32,
    killed_starts: u32,
    replaced: u32,
}

fn live(seed: u64, is_stored: bool, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let (simulation, world) = (Simulation::new(seed), World::default());
    let (mut on_disk, mut in_bucket) = (Possible::default(), Possible::default());
    let (mut disk, mut disks, mut next_request) = (0, 1, 0);
    // Whether the disk has what was done last.
    let mut is_right = true;
    for round in 0..rng.between(3, 7) {
        world.set_faults(faults(&mut rng));
        if rng.one_in(3) {
            let cluster = launch(&simulation, &world, folder(disk), is_stored);
            simulation.run_for(Duration::from_millis(rng.below(2_000)));
            if rng.one_in(2) {
                cluster.node.crash()
            } else {
                cluster.node.power_off()
            }
            tally.killed_starts += 1;
            simulation.run_for(Duration::from_millis(rng.below(500)));
        }
        let node = start(&simulation, &world, folder(disk), is_stored);
        let found = node.content();
        if is_right {
            on_disk.found(&found, &format!("round {round}, the same disk"));
        } else {
            in_bucket.found(&found, &format!("round {round}, another disk"));
            on_disk = in_bucket.clone();
            tally.replaced += 1;
        }
        let mut is_killed = false;
        for _ in 0..rng.between(1, 12) {
            let (key, value) = random_change(&mut rng, &mut next_request);
            on_disk.may(key, value);
            in_bucket.may(key, value);
            let is_down = rng.one_in(12);
            if is_down {
                world.set_faults(Faults { is_down: true, ..Faults::default() });
            }
            let outcome = begin(&node, key, value);
            if rng.one_in(12) {
                simulation.run_for(Duration::from_millis(rng.below(400)));
                if outcome.borrow().is_none() {
                    is_killed = true;
                    tally.killed += 1;
                    break;
                }
            }
            match await_end(&simulation, &outcome) {
                Ended::Done => {
                    tally.done += 1;
                    on_disk.is(key, value);
                    if is_stored {
                        in_bucket.is(key, value);
                    }
                }
                Ended::NotKept => {
                    tally.not_kept += 1;
                    on_disk.is(key, value);
                }
            }
            if is_down {
                world.set_faults(faults(&mut rng));
            }
            if rng.one_in(8) {
                reach(&node);
                in_bucket = on_disk.clone();
            }
            simulation.run_for(Duration::from_millis(rng.below(3_000)));
        }
        if !is_killed && rng.one_in(4) {
            node.cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
        } else if rng.one_in(2) {
            node.cluster.node.power_off();
        } else {
            node.cluster.node.crash();
        }
        // Requests on their way may still take effect.
        simulation.run_for(Duration::from_millis(rng.below(500)));
        let before = disk;
        match rng.below(4) {
            0 | 1 => {}
            // A disk that comes back after others have gone on; without the log in the bucket it may
            // be refused.
            2 if is_stored => disk = rng.below(u64::from(disks)) as u32,
            _ => {
                disk = disks;
                disks += 1;
            }
        }
        is_right = disk == before;
    }
    world.set_faults(Faults::default());
    let node = start(&simulation, &world, folder(disks), is_stored);
    in_bucket.found(&node.content(), "the last disk but one");
    reach(&node);
    let found = node.content();
    node.cluster.node.power_off();
    let node = start(&simulation, &world, folder(disks + 1), is_stored);
    assert_eq!(node.content(), found, "the last disk");
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_removed_comes_back() {
    let mut tally = Tally::default();
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        live(seed, true, &mut tally);
    }
    println!("{tally:?}");
    let Tally { done, not_kept, killed, killed_starts, replaced } = tally;
    assert!(done > 500 && not_kept > 20 && killed > 20 && killed_starts > 20 && replaced > 50);
}

#[test]
fn files_follow_where_nobody_waits_for_the_bucket() {
    let mut tally = Tally::default();
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        live(seed, false, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.done > 300 && tally.not_kept == 0 && tally.replaced > 20);
}

#[test]
fn objects_go_when_their_files_have_others() {
    let (simulation, world) = (Simulation::new(1), World::default());
    let node = start(&simulation, &world, folder(0), false);
    let change = |value| {
        assert_eq!(await_end(&simulation, &node.begin_group(1, value)), Ended::Done);
        reach(&node);
        objects(&world).len()
    };
    // So many that another log begins.
    for value in 0..300 {
        assert_eq!(change(Some(value)), 1);
    }
    assert_eq!(await_end(&simulation, &node.begin_create(1)), Ended::Done);
    assert_eq!(change(Some(7)), 2);
    assert_eq!(change(None), 1);
    let found = node.content();
    node.cluster.node.crash();
    let node = start(&simulation, &world, folder(1), false);
    assert_eq!(node.content(), found);
    // A process that dies behind the entry and in front of the removal leaves its object to the next
    // start.
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(5))), Ended::Done);
    let run = simulation.run_until(|| objects(&world).len() == 2);
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(6))), Ended::Done);
    let run = simulation.run_until(|| objects(&world).len() == 3);
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    node.cluster.node.crash();
    let node = start(&simulation, &world, folder(2), false);
    reach(&node);
    assert!(objects(&world).len() <= 3);
}

#[test]
fn an_object_that_is_missing_or_damaged_keeps_the_node_down() {
    for is_missing in [true, false] {
        let (simulation, world) = (Simulation::new(1), World::default());
        let node = start(&simulation, &world, folder(0), false);
        assert_eq!(await_end(&simulation, &node.begin_create(1)), Ended::Done);
        reach(&node);
        node.cluster.node.crash();
        let name = objects(&world).pop().expect("an object");
        assert!(if is_missing { world.lose(&name) } else { world.corrupt(&name, 80, 1) });
        let failure = launch(&simulation, &world, folder(1), false).await_start();
        let failure = failure.expect_err("it cannot know what is hidden");
        assert!(failure.contains(&format!("the object {name}")), "{failure}");
        // The folder that has the file needs no object.
        let node = start(&simulation, &world, folder(0), false);
        assert_eq!(node.content(), [(Key::Request(1), 1)].into());
    }
}

#[test]
fn a_folder_with_changes_that_the_bucket_lacks_is_refused_when_another_has_come() {
    let (simulation, world) = (Simulation::new(1), World::default());
    let node = start(&simulation, &world, folder(0), false);
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(1))), Ended::Done);
    reach(&node);
    world.set_faults(Faults { is_down: true, ..Faults::default() });
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(2))), Ended::Done);
    node.cluster.node.crash();
    world.set_faults(Faults::default());
    let heir = start(&simulation, &world, folder(1), false);
    assert_eq!(heir.content(), [(Key::Group(1), 1)].into());
    reach(&heir);
    heir.cluster.stop().expect("in order");
    let failure = launch(&simulation, &world, folder(0), false).await_start();
    let failure = failure.expect_err("its change would be lost");
    assert!(failure.contains("1 files of rule groups or delete requests"), "{failure}");
    // The other one has nothing else.
    let heir = start(&simulation, &world, folder(1), false);
    assert_eq!(heir.content(), [(Key::Group(1), 1)].into());
}

#[test]
fn answers_do_not_wait_for_segments_that_are_on_their_way() {
    let (simulation, world) = (Simulation::new(1), World::default());
    let node = start(&simulation, &world, folder(0), true);
    let ledger = Ledger::new(&["acme"], 1);
    let mut rng = Rng::new(1);
    // Lines that compress badly make a segment of many parts.
    for number in 0..100 {
        let line: String = (0..1_000).map(|_| (b'!' + rng.below(90) as u8) as char).collect();
        push(&node.cluster, &ledger, 0, &[(NOON_NS + number, line, None)]);
    }
    for reply in node.cluster.ask_all(|| ShardRequest::Flush) {
        assert!(matches!(reply, ShardReply::Flushed(Ok(()))), "{reply:?}");
    }
    let second = 1_000_000_000;
    world.set_faults(Faults { latency_ns: second..=second, ..Faults::default() });
    let begun = simulation.now();
    let wanted = node.cluster.bucket_status().want();
    simulation.run_for(Duration::from_secs(2));
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(1))), Ended::Done);
    assert!(!node.cluster.bucket_status().has_reached(wanted));
    assert_eq!(await_end(&simulation, &node.begin_group(1, Some(2))), Ended::Done);
    assert!(!node.cluster.bucket_status().has_reached(wanted));
    assert!(simulation.now().since(begun) < Duration::from_secs(20));
    reach(&node);
    assert_eq!(objects(&world).len(), 1);
}

#[test]
fn a_bucket_that_goes_away_while_another_log_begins_ends_nothing() {
    for delay_ms in (0..600).step_by(50) {
        let (simulation, world) = (Simulation::new(delay_ms), World::default());
        let node = start(&simulation, &world, folder(0), false);
        let writers = || {
            let objects = world.objects();
            objects.iter().filter(|(name, _)| name.as_str().starts_with("writers/")).count()
        };
        let mut value = 0;
        while writers() < 2 {
            value += 1;
            assert_eq!(await_end(&simulation, &node.begin_group(1, Some(value))), Ended::Done);
            let is_there = node.cluster.bucket_status().want();
            let status = node.cluster.bucket_status();
            let run = simulation.run_until(|| status.has_reached(is_there) || writers() == 2);
            run.unwrap_or_else(|stuck| panic!("{stuck}"));
            let latency_ns = if value < 250 { 1_000_000 } else { 100_000_000 };
            world.set_faults(Faults { latency_ns: latency_ns..=latency_ns, ..Faults::default() });
        }
        assert!(value > 250, "{value}");
        simulation.run_for(Duration::from_millis(delay_ms));
        world.set_faults(Faults { is_down: true, ..Faults::default() });
        simulation.run_for(Duration::from_secs(200));
        // It comes while the pause lasts.
        assert_eq!(await_end(&simulation, &node.begin_group(2, Some(1))), Ended::Done);
        world.set_faults(Faults::default());
        reach(&node);
        assert!(!node.cluster.bucket_status().is_lost());
        node.cluster.node.crash();
        let node = start(&simulation, &world, folder(1), false);
        assert_eq!(node.content(), [(Key::Group(1), value), (Key::Group(2), 1)].into());
    }
}

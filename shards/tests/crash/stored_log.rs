//! Entries that are acknowledged when the bucket has them: nothing is lost when a node goes with its
//! disk, and a node that was taken over acknowledges nothing.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::check::{CheckError, CheckReport, Severity, check_bucket};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::{PATIENCE, SinkConfig};
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::{Faults, World};
use logsvc_store::object::{Header, ObjectError};
use logsvc_store::{ObjectName, Store};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, InBucket, Upkeep};
use crate::ledger::Ledger;
use crate::load::Load;

const PARTITIONS: u16 = 8;

/// The folder of a disk.
fn folder(number: u32) -> &'static str {
    Box::leak(format!("/srv/disk-{number}").into_boxed_str())
}

fn wal(rng: &mut Rng) -> WalConfig {
    WalConfig { file_max_bytes: rng.between(5_000, 60_000), ..WalConfig::default() }
}

fn in_bucket(world: &World, rng: &mut Rng) -> InBucket {
    let sink = SinkConfig {
        max_delay: Duration::from_millis(rng.between(1, 250)),
        max_bytes: rng.between(4_500, 60_000) as usize,
        in_flight: rng.between(1, 8) as usize,
        waiting_max_bytes: rng.between(10_000, 1 << 20),
    };
    let max_age = Duration::from_millis(rng.between(1, 8_000));
    InBucket { world: world.clone(), sink: Some(sink), max_age, cache_max_bytes: None }
}

pub(crate) fn random_upkeep(world: &World, rng: &mut Rng) -> Upkeep {
    let seal = SealPolicy {
        head_max_bytes: rng.between(2_000, 40_000),
        wal_max_bytes: rng.between(10_000, 100_000),
        max_age: Duration::from_millis(rng.between(500, 5_000)),
        on_stop: rng.one_in(2),
    };
    let compaction =
        if rng.one_in(2) { CompactionPolicy::default() } else { CompactionPolicy::OFF };
    Upkeep {
        compaction,
        partitions: Some(PARTITIONS),
        followed: Some(in_bucket(world, rng)),
        // Some seeds store more than a small budget has room for in one answer.
        queries_max_bytes: 8 << 20,
        ..seal.into()
    }
}

pub(crate) fn random_faults(rng: &mut Rng) -> Faults {
    let rate = |rng: &mut Rng| if rng.one_in(2) { rng.below(100_000) } else { 0 };
    // In such a time objects overtake each other.
    let slowest_ns = if rng.one_in(2) { 100_000_000 } else { 600_000_000 };
    Faults {
        latency_ns: 1_000_000..=rng.between(2_000_000, slowest_ns),
        slow_factor: rng.between(1, 50),
        failures_per_million: rate(rng),
        lost_answers_per_million: rate(rng),
        conflicts_per_million: rate(rng),
        busy_per_million: rate(rng),
        torn_per_million: rate(rng),
        listing_lag_ns: if rng.one_in(3) { rng.below(3_000_000_000) } else { 0 },
        ..Faults::default()
    }
}

fn keeping(world: &World) -> Upkeep {
    let sink = SinkConfig::default();
    let max_age = Duration::from_secs(2);
    let bucket =
        InBucket { world: world.clone(), sink: Some(sink), max_age, cache_max_bytes: None };
    let seal = SealPolicy::ON_REQUEST;
    Upkeep { partitions: Some(PARTITIONS), followed: Some(bucket), ..seal.into() }
}

fn start<'s>(
    simulation: &'s Simulation,
    folder: &'static str,
    shards: u16,
    wal: WalConfig,
    upkeep: Upkeep,
) -> Cluster<'s> {
    let cluster = Cluster::launch_at(folder, simulation, shards, wal, upkeep);
    cluster.await_start().unwrap_or_else(|failure| panic!("{failure}"));
    cluster
}

/// Objects of write-ahead logs of which the bucket has only the beginning.
fn torn_objects(world: &World) -> usize {
    let objects = world.objects();
    let logs = objects.iter().filter(|(name, _)| name.as_str().starts_with("wal/"));
    logs.filter(|(_, object)| is_torn(object)).count()
}

fn is_torn(object: &Bytes) -> bool {
    matches!(Header::decode(object), Err(ObjectError::Torn { .. }))
}

fn log_objects(world: &World) -> usize {
    let objects = world.objects();
    objects.iter().filter(|(name, _)| name.as_str().starts_with("wal/")).count()
}

#[test]
fn nothing_acknowledged_is_lost_with_the_disk() {
    let (mut acknowledged, mut replayed, mut kept, mut torn) = (0, 0, 0, 0);
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        let load = Load::new(Ledger::new(&["a", "b"], 6), seed);
        let (mut disk, mut disks) = (0, 1);
        for _ in 0..rng.between(2, 5) {
            world.set_faults(random_faults(&mut rng));
            let shards = rng.between(1, 4) as u16;
            let upkeep = random_upkeep(&world, &mut rng);
            let cluster = start(&simulation, folder(disk), shards, wal(&mut rng), upkeep);
            load.check(&cluster);
            replayed += cluster.recovery().entries;
            load.begin(&cluster, rng.between(1, 12));
            simulation.run_for(Duration::from_millis(rng.below(12_000)));
            if rng.one_in(5) {
                load.end(&cluster);
                load.check(&cluster);
            }
            if rng.one_in(6) {
                load.end(&cluster);
                cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
            } else {
                cluster.node.crash();
                load.killed();
            }
            load.ledger.borrow_mut().node_ended(|_| false);
            torn += torn_objects(&world);
            // Requests on their way may still take effect.
            simulation.run_for(Duration::from_millis(rng.below(200)));
            match rng.below(6) {
                0 | 1 => kept += 1,
                // A disk that comes back after others have gone on.
                2 => disk = rng.below(disks) as u32,
                _ => {
                    disk = disks as u32;
                    disks += 1;
                }
            }
        }
        world.set_faults(Faults::default());
        let cluster = start(&simulation, folder(99), 2, WalConfig::default(), keeping(&world));
        load.check(&cluster);
        replayed += cluster.recovery().entries;
        load.prove_writable(&cluster);
        load.check(&cluster);
        acknowledged += load.acknowledged_pushes.get();
    }
    println!(
        "{acknowledged} pushes acknowledged, {replayed} entries replayed, {kept} folders kept, \
         {torn} torn objects of logs"
    );
    assert!(acknowledged > 1_000 && replayed > 500 && kept > 10 && torn > 100);
}

#[test]
fn a_node_that_was_taken_over_acknowledges_nothing() {
    let mut refused = 0;
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        world.set_faults(Faults { listing_lag_ns: 0, ..random_faults(&mut rng) });
        let load = Load::new(Ledger::new(&["a"], 6), seed);
        let upkeep =
            |rng: &mut Rng| Upkeep { followed: Some(in_bucket(&world, rng)), ..keeping(&world) };
        let disk = folder(0);
        let zombie = start(&simulation, disk, 2, wal(&mut rng), upkeep(&mut rng));
        load.begin(&zombie, 10);
        simulation.run_for(Duration::from_millis(rng.below(6_000)));
        let disk = folder(1);
        let heir = start(&simulation, disk, 3, wal(&mut rng), upkeep(&mut rng));
        // What it acknowledges until it knows was in the bucket before the heir had fenced the log:
        // answers of the bucket get lost. The heir has it, as is checked below.
        let is_lost = || zombie.sinks().status().numbers().is_lost;
        // It looks every half minute, and a slow request takes as long.
        for _ in 0..600 {
            if !is_lost() {
                simulation.run_for(Duration::from_millis(500));
            }
        }
        assert!(is_lost(), "it has not noticed");
        simulation.run_for(Duration::from_millis(5));
        let (stored, failed) = (load.acknowledged_pushes.get(), load.failed_pushes.get());
        simulation.run_for(Duration::from_secs(2));
        assert_eq!(load.acknowledged_pushes.get(), stored, "it goes on");
        refused += load.failed_pushes.get() - failed;
        zombie.node.crash();
        load.killed();
        load.ledger.borrow_mut().node_ended(|_| false);
        load.check(&heir);
        // A slow request takes half a minute.
        world.set_faults(Faults::default());
        simulation.run_for(Duration::from_secs(60));
        load.prove_writable(&heir);
    }
    assert!(refused > 100, "{refused} refusals");
}

#[test]
fn a_bucket_that_is_away_is_told_and_all_goes_on_afterwards() {
    for seed in seeds(3) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let load = Load::new(Ledger::new(&["a"], 6), seed);
        let mut upkeep = keeping(&world);
        if let Some(sink) = upkeep.followed.as_mut().and_then(|bucket| bucket.sink.as_mut()) {
            sink.waiting_max_bytes = 64 << 10;
        }
        let disk = folder(0);
        let cluster = start(&simulation, disk, 2, WalConfig::default(), upkeep);
        load.begin(&cluster, 8);
        simulation.run_for(Duration::from_secs(5));
        assert!(load.acknowledged_pushes.get() > 10);
        world.set_faults(Faults { is_down: true, ..Faults::default() });
        let begun = simulation.now();
        // What was on its way.
        simulation.run_for(Duration::from_secs(1));
        let (stored, failed) = (load.acknowledged_pushes.get(), load.failed_pushes.get());
        let refused = simulation.run_until(|| load.failed_pushes.get() > failed);
        refused.unwrap_or_else(|stuck| panic!("{stuck}"));
        let waited = simulation.now().since(begun);
        let expected = PATIENCE - Duration::from_secs(1)..PATIENCE + Duration::from_secs(1);
        assert!(expected.contains(&waited), "{waited:?}");
        simulation.run_for(Duration::from_secs(5));
        assert_eq!(load.acknowledged_pushes.get(), stored);
        assert!(load.failed_pushes.get() > failed + 100, "the others are refused at once");
        let status = cluster.sinks().status();
        assert!(status.memory().peak_bytes() <= 64 << 10);
        world.set_faults(Faults::default());
        simulation.run_for(Duration::from_secs(45));
        let stored = load.acknowledged_pushes.get();
        simulation.run_for(Duration::from_secs(10));
        assert!(load.acknowledged_pushes.get() > stored + 50, "it goes on by itself");
        load.end(&cluster);
        load.check(&cluster);
        cluster.node.crash();
        load.killed();
        load.ledger.borrow_mut().node_ended(|_| false);
        let disk = folder(1);
        let heir = start(&simulation, disk, 3, WalConfig::default(), keeping(&world));
        load.check(&heir);
    }
}

#[test]
fn objects_of_the_log_go_when_segments_hold_their_entries() {
    let (simulation, world) = (Simulation::new(1), World::default());
    let load = Load::new(Ledger::new(&["a"], 6), 1);
    let disk = folder(0);
    let cluster = start(&simulation, disk, 2, WalConfig::default(), keeping(&world));
    load.begin(&cluster, 4);
    simulation.run_for(Duration::from_secs(10));
    load.end(&cluster);
    let written = log_objects(&world);
    assert!(written > 10, "{written} objects");
    let idle = cluster.sinks().status().numbers();
    simulation.run_for(Duration::from_secs(30));
    assert_eq!(cluster.sinks().status().numbers().objects, idle.objects, "an idle node is quiet");
    assert!(idle.last_delay < Duration::from_secs(1) && idle.waiting_bytes == 0);
    let flush = |cluster: &Cluster<'_>| {
        for reply in cluster.ask_all(|| ShardRequest::Flush) {
            assert!(matches!(reply, ShardReply::Flushed(Ok(()))), "{reply:?}");
        }
    };
    flush(&cluster);
    simulation.run_for(Duration::from_secs(10));
    assert_eq!(log_objects(&world), 1, "the newest one stays");
    // The same for the log of a node that is gone.
    load.begin(&cluster, 4);
    simulation.run_for(Duration::from_secs(5));
    cluster.node.crash();
    load.killed();
    load.ledger.borrow_mut().node_ended(|_| false);
    let disk = folder(1);
    let heir = start(&simulation, disk, 3, WalConfig::default(), keeping(&world));
    assert!(heir.recovery().entries > 0);
    load.check(&heir);
    let before = log_objects(&world);
    flush(&heir);
    simulation.run_for(Duration::from_secs(10));
    let left = log_objects(&world);
    assert!(before > 10 && left <= 2, "{before} objects, and {left} are left");
    heir.stop().unwrap_or_else(|failure| panic!("{failure}"));
}

/// A stop waits for the bucket, and the next start of the folder asks nothing of the log there.
#[test]
fn a_folder_that_was_the_last_writer_goes_on_without_the_bucket_s_log() {
    let (simulation, world) = (Simulation::new(3), World::default());
    let load = Load::new(Ledger::new(&["a"], 6), 3);
    let disk = folder(0);
    for round in 0..3 {
        let cluster = start(&simulation, disk, 2, WalConfig::default(), keeping(&world));
        load.check(&cluster);
        assert_eq!(cluster.recovery().entries > 0, round > 0);
        load.begin(&cluster, 4);
        simulation.run_for(Duration::from_secs(3));
        load.end(&cluster);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
        load.ledger.borrow_mut().node_ended(|_| false);
    }
    let disk = folder(1);
    let heir = start(&simulation, disk, 3, WalConfig::default(), keeping(&world));
    load.check(&heir);
}

/// A check of the bucket, beside whoever works with it.
fn checked(simulation: &Simulation, world: &World) -> Result<CheckReport, CheckError> {
    let world = world.clone();
    simulation.block_on(|runtime| async move {
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        check_bucket(&runtime, &store).await
    })
}

fn damage(report: &CheckReport) -> Vec<String> {
    let findings = report.findings.iter();
    findings.filter(|one| one.severity != Severity::Note).map(ToString::to_string).collect()
}

#[test]
fn a_check_finds_nothing_wrong_beside_a_node_or_after_it_and_names_what_is() {
    let (mut checks, mut segments, mut frames, mut found, mut unneeded) = (0, 0, 0, 0, 0);
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        let load = Load::new(Ledger::new(&["a", "b"], 6), seed);
        for life in 0..2 {
            world.set_faults(Faults { listing_lag_ns: 0, ..random_faults(&mut rng) });
            let upkeep = random_upkeep(&world, &mut rng);
            let cluster = start(&simulation, folder(life), 2, wal(&mut rng), upkeep);
            load.begin(&cluster, rng.between(1, 4));
            for _ in 0..3 {
                simulation.run_for(Duration::from_millis(rng.below(4_000)));
                // A bucket may be too slow for it.
                let Ok(report) = checked(&simulation, &world) else { continue };
                assert_eq!(damage(&report), [""; 0], "beside the node");
                checks += 1;
                (segments, frames) = (segments + report.segments, frames + report.wal_frames);
            }
            cluster.node.crash();
            load.killed();
            load.ledger.borrow_mut().node_ended(|_| false);
        }
        world.set_faults(Faults::default());
        simulation.run_for(Duration::from_secs(60));
        let report = checked(&simulation, &world).expect("a store");
        assert_eq!(damage(&report), [""; 0], "after the node");
        let objects = world.objects();
        for _ in 0..10 {
            let (name, bytes) = &objects[rng.below(objects.len() as u64) as usize];
            // Of a writer, and of a torn object, only the name counts.
            if is_torn(bytes) || name.as_str().starts_with("writers/") {
                continue;
            }
            let (at, mask) = (rng.below(bytes.len() as u64) as usize, 1 << rng.below(8));
            if !world.corrupt(name, at, mask) {
                // It was lost before.
                continue;
            }
            let is_found = match checked(&simulation, &world) {
                Ok(report) => !damage(&report).is_empty(),
                // The version of the object `cluster`.
                Err(error) => name.as_str() == "cluster" && matches!(error, CheckError::Bucket(_)),
            };
            assert!(world.corrupt(name, at, mask));
            if is_found {
                found += 1;
                continue;
            }
            assert_ne!(name.as_str(), "cluster", "byte {at}");
            // Nobody needs it, or it would have been read.
            unneeded += 1;
            world.lose(name);
            let report = checked(&simulation, &world).expect("a store");
            assert_eq!(damage(&report), [""; 0], "{name} was not checked, byte {at}");
        }
        let logs = objects.iter().filter_map(|(name, _)| name.as_str().strip_prefix("log/"));
        let newest = logs.filter_map(|log| log.split_once('/')).map(|(log, _)| log).max();
        let writer = format!("writers/{}", newest.expect("a log"));
        assert!(world.lose(&ObjectName::new(&writer).expect("a name")));
        let found_lost = damage(&checked(&simulation, &world).expect("a store"));
        assert!(found_lost.iter().any(|one| one.contains(&writer)), "{found_lost:?}");
    }
    println!(
        "{checks} checks of {segments} segments, {frames} frames; {found} found, {unneeded} not"
    );
    assert!(checks > 50 && segments > 20 && frames > 1_000 && found > 100 && unneeded > 5);
}

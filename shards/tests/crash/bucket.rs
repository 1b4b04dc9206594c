//! A node with a bucket: what the bucket has after kills, with a bucket that fails and lies, and
//! what a start makes of it.

use std::collections::BTreeSet;
use std::time::Duration;

use logsvc_runtime::sim::Simulation;
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, InBucket, Upkeep};
use crate::ledger::Ledger;
use crate::upkeep::{NOON_NS, eager, flush, push, upkeep};

/// How long a bucket may take for what it is asked.
const PATIENCE: Duration = Duration::from_secs(3_600);

fn in_bucket(world: &World, cache_max_bytes: Option<u64>) -> InBucket {
    let max_age = Duration::from_secs(2);
    InBucket { world: world.clone(), sink: None, max_age, cache_max_bytes }
}

fn with_bucket(world: &World, compaction: CompactionPolicy) -> Upkeep {
    let upkeep = upkeep(compaction, RetentionPolicy::default());
    Upkeep { followed: Some(in_bucket(world, None)), ..upkeep }
}

/// A bucket that does all that a real one may do.
fn faults(rng: &mut Rng) -> Faults {
    Faults {
        latency_ns: 1_000_000..=rng.between(2_000_000, 300_000_000),
        failures_per_million: rng.below(200_000),
        lost_answers_per_million: rng.below(200_000),
        conflicts_per_million: rng.below(100_000),
        busy_per_million: rng.below(200_000),
        ..Faults::default()
    }
}

/// Waits until the bucket has everything.
fn reach(cluster: &Cluster<'_>) {
    let wanted = cluster.bucket_status().want();
    let deadline = cluster.simulation.now().after(PATIENCE);
    while !cluster.bucket_status().has_reached(wanted) {
        let numbers = cluster.bucket_status().numbers(cluster.simulation.now());
        assert!(
            cluster.simulation.now() < deadline,
            "the bucket never has everything: {numbers:?}"
        );
        cluster.simulation.run_for(Duration::from_millis(100));
    }
}

fn lines(cluster: &Cluster<'_>, ledger: &Ledger) -> Vec<String> {
    let streams = cluster.everything(&ledger.streams[0].tenant);
    let entries = streams.iter().flat_map(|stream| &stream.entries);
    let mut lines: Vec<String> =
        entries.map(|entry| String::from_utf8_lossy(&entry.line).into_owned()).collect();
    lines.sort();
    lines
}

/// Starts some shards with some room for copies of what the bucket has.
fn start_with_some_cache<'s>(
    simulation: &'s Simulation,
    world: &World,
    rng: &mut Rng,
) -> Cluster<'s> {
    let shards = rng.between(1, 3) as u16;
    let cache_max_bytes = (rng.below(3) > 0).then(|| rng.below(6_000));
    let followed = Some(in_bucket(world, cache_max_bytes));
    let upkeep = Upkeep { followed, ..with_bucket(world, eager()) };
    let cluster = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    cluster.unwrap_or_else(|error| panic!("{error}"))
}

/// Pushes a line to one of three streams.
fn push_somewhere(cluster: &Cluster<'_>, ledger: &Ledger, rng: &mut Rng, line: &str) {
    let at_ns = NOON_NS + rng.below(1_000_000) as i64;
    push(cluster, ledger, rng.below(3) as usize, &[(at_ns, line.to_owned(), None)]);
}

#[test]
fn a_folder_and_its_bucket_go_on_together_after_kills() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        world.set_faults(faults(&mut rng));
        let ledger = Ledger::new(&["acme"], 3);
        let mut expected = BTreeSet::new();
        for round in 0..6 {
            let cluster = start_with_some_cache(&simulation, &world, &mut rng);
            let shown: Vec<String> = expected.iter().cloned().collect();
            assert_eq!(lines(&cluster, &ledger), shown, "round {round}");
            for push_number in 0..rng.between(1, 6) {
                let line = format!("round {round} push {push_number} {}", "x".repeat(200));
                push_somewhere(&cluster, &ledger, &mut rng, &line);
                expected.insert(line);
                if rng.below(2) == 0 {
                    flush(&cluster);
                }
                simulation.run_for(Duration::from_millis(rng.below(90_000)));
            }
            match rng.below(3) {
                0 => cluster.node.crash(),
                1 => cluster.node.power_off(),
                _ => cluster.stop().expect("in order"),
            }
        }
        let upkeep = with_bucket(&world, eager());
        let cluster = Cluster::start_sealing(&simulation, 2, WalConfig::default(), upkeep);
        let cluster = cluster.expect("a healthy disk");
        flush(&cluster);
        reach(&cluster);
        let shown: Vec<String> = expected.iter().cloned().collect();
        assert_eq!(lines(&cluster, &ledger), shown);
    }
}

#[test]
fn a_disk_that_goes_takes_nothing_that_the_bucket_has() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        world.set_faults(faults(&mut rng));
        let ledger = Ledger::new(&["acme"], 3);
        // Entries that the bucket has, those that have to be there, and those that may be.
        let (mut stored, mut owed, mut sent) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for round in 0..6 {
            let cluster = start_with_some_cache(&simulation, &world, &mut rng);
            let shown: BTreeSet<String> = check_unique(lines(&cluster, &ledger));
            assert!(owed.is_subset(&shown), "round {round}: {owed:?} {shown:?}");
            assert!(shown.is_subset(&sent), "round {round}");
            // What is lost stays lost.
            sent = shown;
            for push_number in 0..rng.between(1, 6) {
                let line = format!("round {round} push {push_number} {}", "x".repeat(200));
                push_somewhere(&cluster, &ledger, &mut rng, &line);
                sent.insert(line);
                if rng.below(2) == 0 {
                    flush(&cluster);
                }
                if rng.below(4) == 0 {
                    flush(&cluster);
                    reach(&cluster);
                    stored.clone_from(&sent);
                }
                simulation.run_for(Duration::from_millis(rng.below(90_000)));
            }
            if rng.below(3) == 0 {
                cluster.stop().expect("in order");
            } else {
                cluster.node.crash();
            }
            if rng.below(3) == 0 {
                owed.clone_from(&sent);
            } else {
                lose_disk(&simulation);
                owed.clone_from(&stored);
            }
        }
    }
}

/// The lines, none of which is there twice.
fn check_unique(lines: Vec<String>) -> BTreeSet<String> {
    let count = lines.len();
    let unique: BTreeSet<String> = lines.into_iter().collect();
    assert_eq!(unique.len(), count, "an entry is there twice");
    unique
}

fn lose_disk(simulation: &Simulation) {
    for path in simulation.disk().files("/srv") {
        simulation.disk().remove(&path);
    }
}

#[test]
fn a_node_that_was_replaced_stops() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        world.set_faults(faults(&mut rng));
        let ledger = Ledger::new(&["acme"], 3);
        let launch = |data_dir| {
            let upkeep = with_bucket(&world, eager());
            let cluster =
                Cluster::launch_at(data_dir, &simulation, 2, WalConfig::default(), upkeep);
            cluster.await_start().map(|()| cluster)
        };
        let first = launch("/srv/data").expect("a healthy bucket");
        let line = |text: &str| (NOON_NS, format!("{text} {}", "x".repeat(100)), None);
        push(&first, &ledger, 0, &[line("one")]);
        flush(&first);
        reach(&first);
        let second = launch("/other/data").expect("it takes over");
        assert_eq!(lines(&second, &ledger), [line("one").1]);
        push(&second, &ledger, 1, &[line("two")]);
        // What the first one makes now never counts.
        push(&first, &ledger, 2, &[line("three")]);
        if rng.below(2) == 0 {
            flush(&first);
        }
        simulation.run_for(Duration::from_secs(600));
        assert!(first.bucket_status().is_lost());
        first.node.crash();
        flush(&second);
        reach(&second);
        second.stop().expect("in order");
        let third = launch("/third/data").expect("a healthy bucket");
        assert_eq!(lines(&third, &ledger), [line("one").1, line("two").1]);
        third.stop().expect("in order");
        // Its entries are its own, and it says so.
        let again = launch("/srv/data").err().expect("another has come since");
        assert!(again.contains("has entries that are not in the bucket"), "{again}");
        // A folder that has nothing of its own goes on.
        let second = launch("/other/data").expect("everything of it is in the bucket");
        assert_eq!(lines(&second, &ledger), [line("one").1, line("two").1]);
    }
}

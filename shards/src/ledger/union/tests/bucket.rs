//! Logs in a bucket that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::time::Duration;

use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::Store;
use logsvc_store::double::{Faults, World};
use logsvc_store::log::{LogError, LogWriter, fence};
use logsvc_store::object::{Header, Nonce, PROOF};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::segment;
use crate::ledger::open::log_of;
use crate::ledger::{LogEntry, Logs, LogsError};
use crate::manifest::{ManifestEdit, SegmentName};
use crate::types::Part;

/// A log that somebody writes.
struct Written {
    epoch: u32,
    writer: LogWriter<SimRuntime>,
    next: u64,
}

impl Written {
    fn new(runtime: &SimRuntime, store: &Store<SimRuntime>, epoch: u32) -> Written {
        let log = log_of(epoch).expect("a name");
        let writer = LogWriter::new(runtime.clone(), store.clone(), log);
        Written { epoch, writer, next: 0 }
    }

    async fn add(&mut self, seq: u32, until: Monotonic) -> SegmentName {
        let live = segment(seq, Part::one(1, 0));
        let edit = ManifestEdit { added: vec![live], ..ManifestEdit::default() };
        let entry = LogEntry { edit, ..LogEntry::default() };
        let mut begun = self.writer.begin(&entry.encode().expect("it is small"));
        loop {
            match self.writer.write(&begun, until).await {
                Ok(()) => break,
                Err(LogError::Torn { .. }) => self.writer.resume(slice::from_mut(&mut begun)),
                Err(LogError::Store(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.next = begun.number + 1;
        live.name
    }
}

#[test]
fn logs_of_a_bucket_that_fails_are_read_on_where_they_were() {
    let (mut failures, mut voids) = (0, 0);
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let (failed, void) = simulation.block_on(|runtime| read_on_and_on(runtime, world, seed));
        (failures, voids) = (failures + failed, voids + void);
    }
    println!("{failures} failures, {voids} void numbers");
    assert!(failures > 20 && voids > 100);
}

async fn read_on_and_on(runtime: SimRuntime, world: World, seed: u64) -> (u64, u64) {
    let mut rng = Rng::new(seed);
    let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
    let soon = || runtime.now().after(Duration::from_secs(2));
    let late = || runtime.now().after(Duration::from_secs(3_600));
    let mut writers: Vec<Written> =
        (1..=12).map(|epoch| Written::new(&runtime, &store, epoch)).collect();
    let (mut logs, mut expected, mut failures, mut entries) =
        (Logs::default(), BTreeSet::new(), 0, 0);
    for round in 0..4 {
        world.set_faults(Faults {
            torn_per_million: rng.below(100_000),
            failures_per_million: rng.below(200_000),
            slow_factor: rng.between(1, 50),
            ..Faults::default()
        });
        for _ in 0..20 {
            let writer = rng.index(writers.len());
            entries += 1;
            expected.insert(writers[writer].add(entries, late()).await);
        }
        let mut positions: BTreeMap<u32, u64> = BTreeMap::new();
        for writer in &writers {
            // Nobody has to know all of it, and everybody reads all.
            positions.insert(writer.epoch, rng.below(writer.next + 1));
        }
        // A bucket that is slow or away leaves what is known as it is.
        for attempt in 0.. {
            let known: BTreeSet<SegmentName> = logs.union().stored.live.into_keys().collect();
            world.set_faults(Faults {
                is_down: attempt == 0 && rng.one_in(3),
                failures_per_million: 600_000 >> (2 * attempt).min(20),
                ..Faults::default()
            });
            let result = logs.read_on(&store, &positions, soon()).await;
            let now: BTreeSet<SegmentName> = logs.union().stored.live.into_keys().collect();
            assert!(known.is_subset(&now));
            if result.is_ok() {
                assert_eq!(now, expected, "round {round}");
                break;
            }
            failures += 1;
        }
    }
    world.set_faults(Faults::default());
    let positions: BTreeMap<u32, u64> = writers.iter().map(|one| (one.epoch, one.next)).collect();
    assert!(!logs.read_on(&store, &positions, late()).await.expect("all is there"), "nothing new");
    for writer in &writers {
        assert!(logs.position(writer.epoch) >= Some(writer.next));
    }
    let voids = writers.iter().map(|writer| writer.next).sum::<u64>() - u64::from(entries);
    damage(&runtime, &world, &store, &mut logs, writers, late()).await;
    (failures, voids)
}

/// A log that is too short, one with a damaged entry, and what stands behind a fence.
async fn damage(
    runtime: &SimRuntime,
    world: &World,
    store: &Store<SimRuntime>,
    logs: &mut Logs,
    mut writers: Vec<Written>,
    until: Monotonic,
) {
    let mut positions: BTreeMap<u32, u64> =
        writers.iter().map(|one| (one.epoch, one.next)).collect();
    let short = BTreeMap::from([(1, 900)]);
    let error = logs.read_on(store, &short, until).await.expect_err("it is short");
    assert!(matches!(&error, LogsError::Short { expected: 900, .. }), "{error}");
    assert!(error.to_string().contains("log/00000001"), "{error}");
    assert_eq!(logs.logs.len(), writers.len(), "nothing is forgotten before all is known");
    // Two logs go on, and one of them is damaged.
    let (one, two) = (writers[0].add(5_001, until).await, writers[1].add(5_002, until).await);
    let name = log_of(1).expect("a name").entry(writers[0].next - 1).expect("a name");
    assert!(world.corrupt(&name, 80, 1));
    logs.read_on(store, &positions, until).await.expect_err("it is damaged");
    let live = logs.union().stored.live;
    assert!(live.contains_key(&two) && !live.contains_key(&one));
    assert!(world.corrupt(&name, 80, 1));
    assert!(logs.read_on(store, &positions, until).await.expect("it is whole"));
    assert!(logs.union().stored.live.contains_key(&one));
    // Whatever stands behind a fence, and however the object names its predecessor.
    let log = log_of(2).expect("a name");
    let content = fence(runtime, store, &log, 0, 77, until).await.expect("it is fenced");
    let edit = ManifestEdit { removed: vec![one], ..ManifestEdit::default() };
    let entry = LogEntry { edit, ..LogEntry::default() }.encode().expect("it is small");
    for behind in 1..4 {
        let header = Header { kind: 1, nonce: Nonce::random(runtime), previous: Nonce::NONE };
        let name = log.entry(content.next + behind).expect("a name");
        store.create(&name, header.encode(&entry), PROOF, until).await.expect("created");
    }
    positions.insert(2, content.next);
    assert!(logs.read_on(store, &positions, until).await.expect("it ends there"), "it has ended");
    assert!(logs.union().stored.live.contains_key(&one));
    positions.insert(2, content.next + 1);
    logs.read_on(store, &positions, until).await.expect_err("nothing counts behind the fence");
    // Nobody has to know it any more.
    positions.remove(&2);
    assert!(logs.read_on(store, &positions, until).await.expect("the others"));
    assert_eq!(logs.position(2), None);
    assert!(!logs.union().stored.live.contains_key(&two));
}

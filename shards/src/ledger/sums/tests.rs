//! Logs that are summed up and shortened while others read them and take them over.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;
use crate::ledger::open::{fence_log, join_ledger, log_of};
use crate::ledger::{Ledger, LedgerOptions, Logs};
use crate::manifest::{Day, LiveSegment, ManifestEdit, SegmentName};

/// So many segments are live, the newest ones.
const LIVE: u32 = 5;

fn store_of(runtime: &SimRuntime, world: &World) -> Store<SimRuntime> {
    Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())))
}

fn segment(epoch: u32, seq: u32) -> LiveSegment {
    let name = SegmentName { epoch, shards: 1, shard: 0, seq };
    LiveSegment {
        name,
        day: Day(7),
        file_len: 10,
        min_ns: 0,
        max_ns: 1,
        entries: 1,
        line_bytes: 1,
        level: 0,
        order: name.sealed_order(),
    }
}

/// Adds one segment, and removes the one that is too many.
fn entry(epoch: u32, seq: u32) -> LogEntry {
    let old = seq.checked_sub(LIVE).map(|old| segment(epoch, old).name);
    let added = vec![segment(epoch, seq)];
    let edit =
        ManifestEdit { added, removed: old.into_iter().collect(), ..ManifestEdit::default() };
    LogEntry { wal: [(epoch, u64::from(seq))].into(), edit, ..LogEntry::default() }
}

/// How many entries a reader of the log of a writer has, which has them without a gap.
fn entries_of(logs: &Logs) -> u32 {
    let live: Vec<u32> = logs.union().stored.live.keys().map(|name| name.seq).collect();
    let Some(last) = live.last() else { return 0 };
    let expected: Vec<u32> = (last.saturating_sub(LIVE - 1)..=*last).collect();
    assert_eq!(live, expected, "a removal or an addition is missing");
    last + 1
}

async fn ledger(
    runtime: &SimRuntime,
    store: &Store<SimRuntime>,
    sums: SumsConfig,
) -> Ledger<SimRuntime> {
    let options =
        LedgerOptions { who: "a test".to_owned(), partitions: 4, is_log_stored: true, sums };
    let mut ledger = join_ledger(runtime, store, options, None).await.expect("a healthy bucket");
    let sum = ledger.state.sum();
    ledger.append(sum, Monotonic::NEVER).await.expect("a healthy bucket");
    ledger
}

fn in_log(world: &World) -> usize {
    world.objects().iter().filter(|(name, _)| name.as_str().starts_with("log/")).count()
}

#[test]
fn sums_come_at_their_numbers_and_what_is_before_them_goes_later() {
    let config = SumsConfig { interval: 20, grace: Duration::from_secs(10) };
    let at = |s| Monotonic(0).after(Duration::from_secs(s));
    let mut sums = Sums::new(config);
    let due: Vec<u64> = (1..100).filter(|number| sums.is_due(*number)).collect();
    assert_eq!(due, [24, 32, 40, 48, 56, 64, 72, 80, 88, 96], "the first of them is taken");
    sums.note(0, at(0));
    sums.note(32, at(5));
    // Nobody finds this one.
    sums.note(60, at(1));
    assert!(!sums.is_due(48) && sums.is_due(56));
    assert!(sums.needless(at(14)).is_empty());
    assert_eq!(sums.needless(at(15)), 0..32);
    sums.note(64, at(16));
    (0..10).for_each(|number| sums.note_removed(number));
    assert_eq!(sums.needless(at(25)), 10..32);
    assert_eq!(sums.needless(at(26)), 10..64);
    (10..64).for_each(|number| sums.note_removed(number));
    assert!(sums.needless(at(900)).is_empty() && sums.made.is_empty());
}

/// Who comes late makes few requests, and knows all.
#[test]
fn who_joins_late_reads_the_newest_sum_and_what_follows() {
    Simulation::new(1).block_on(async |runtime| {
        let world = World::default();
        let store = store_of(&runtime, &world);
        let config = SumsConfig { interval: 64, grace: Duration::ZERO };
        let mut ledger = ledger(&runtime, &store, config).await;
        for seq in 0..500 {
            ledger.append(entry(ledger.epoch, seq), Monotonic::NEVER).await.unwrap();
            ledger.trim(8, Monotonic::NEVER).await.unwrap();
        }
        assert!(in_log(&world) <= 64, "{}", in_log(&world));
        let counted = store_of(&runtime, &world);
        let positions = BTreeMap::from([(ledger.epoch, ledger.position())]);
        let mut logs = Logs::default();
        assert!(logs.read_on(&counted, &positions, Monotonic::NEVER).await.unwrap());
        assert_eq!((entries_of(&logs), logs.union().wal[&ledger.epoch]), (500, 499));
        assert_eq!(logs.position(ledger.epoch), Some(ledger.position()));
        // A sum of a log in which nothing is live says nothing of what is gone.
        let (next, needed) =
            fence_log(&runtime, &store, ledger.epoch, 99, Monotonic::NEVER).await.unwrap();
        assert_eq!((next, needed), (ledger.position(), Some(499)));
        assert!(
            logs.read_on(&counted, &positions, Monotonic::NEVER).await.unwrap(),
            "it has ended"
        );
        assert!(!logs.read_on(&counted, &positions, Monotonic::NEVER).await.unwrap());
        ledger.append(entry(ledger.epoch, 500), Monotonic::NEVER).await.unwrap_err();
    });
}

/// What many saw of a log.
#[derive(Clone, Copy, Default)]
struct Tally {
    reads: u64,
    holes: u64,
    fences: u64,
    entries: u64,
}

/// A log is shortened as fast as it can be, while a reader reads on, another one begins anew each time, and
/// heirs take it over. Whoever reads has all entries of an instant of its reading. Whoever takes it over has
/// all that was ever acknowledged.
#[test]
fn nobody_misses_an_entry_of_a_log_that_is_shortened() {
    let mut tally = Tally::default();
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let one = simulation.block_on(|runtime| shorten(runtime, world, seed));
        tally.reads += one.reads;
        tally.holes += one.holes;
        tally.fences += one.fences;
        tally.entries += one.entries;
    }
    let Tally { reads, holes, fences, entries } = tally;
    println!("{entries} entries, {reads} reads, {holes} of them met holes, {fences} fences");
    assert!(reads > 300 && holes > 60 && fences >= 100 && entries > 3_000);
}

async fn shorten(runtime: SimRuntime, world: World, seed: u64) -> Tally {
    let rng = Rc::new(RefCell::new(Rng::new(seed)));
    let is_behind = rng.borrow_mut().one_in(2);
    // With a grace that is shorter than a listing is behind, sums would not be found.
    let grace = Duration::from_millis(if is_behind { 2_000 } else { 0 });
    let sums = SumsConfig { interval: SUM_STEP, grace };
    let mut ledger = ledger(&runtime, &store_of(&runtime, &world), sums).await;
    let epoch = ledger.epoch;
    let faults = {
        let mut rng = rng.borrow_mut();
        Faults {
            latency_ns: 1_000_000..=rng.between(2_000_000, 20_000_000),
            slow_factor: rng.between(1, 200),
            failures_per_million: rng.below(40_000),
            lost_answers_per_million: rng.below(40_000),
            torn_per_million: if rng.one_in(3) { rng.below(60_000) } else { 0 },
            listing_lag_ns: if is_behind { rng.below(1_500_000_000) } else { 0 },
            ..Faults::default()
        }
    };
    world.set_faults(faults);
    let (begun, written, position) =
        (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (of_begun, of_written, of_position) =
        (Rc::clone(&begun), Rc::clone(&written), Rc::clone(&position));
    let clock = runtime.clone();
    drop(runtime.spawn(async move {
        for seq in 0.. {
            of_begun.set(seq + 1);
            loop {
                let until = clock.now().after(Duration::from_secs(5));
                match ledger.append(entry(epoch, seq), until).await {
                    Ok(()) => break,
                    Err(LedgerError::Log(logsvc_store::log::LogError::Fenced { .. })) => return,
                    Err(LedgerError::Log(logsvc_store::log::LogError::Forked { .. })) => return,
                    Err(_) => {}
                }
            }
            of_written.set(seq + 1);
            of_position.set(ledger.position());
            let until = clock.now().after(Duration::from_secs(5));
            drop(ledger.trim(64, until).await);
        }
    }));
    let store = store_of(&runtime, &world);
    let mut tally = Tally::default();
    let mut known = Logs::default();
    let rounds = rng.borrow_mut().between(4, 12);
    for _ in 0..rounds {
        let pause = rng.borrow_mut().below(3_000);
        runtime.sleep_until(runtime.now().after(Duration::from_millis(pause))).await;
        let (before, at) = (written.get(), position.get());
        let mut fresh = Logs::default();
        for logs in [&mut known, &mut fresh] {
            let first = first_number(&world, epoch);
            tally.holes += u64::from(logs.position(epoch).is_some_and(|at| at < first));
            let positions = BTreeMap::from([(epoch, at)]);
            for _ in 0..200 {
                let until = runtime.now().after(Duration::from_secs(20));
                if logs.read_on(&store, &positions, until).await.is_ok() {
                    break;
                }
            }
            let entries = entries_of(logs);
            assert!((before..=begun.get()).contains(&entries), "{entries} of {before}");
            tally.reads += 1;
        }
    }
    let heirs = [91, 92].map(|heir| {
        let (runtime, store, rng) = (runtime.clone(), store_of(&runtime, &world), Rc::clone(&rng));
        async move {
            let pause = Duration::from_millis(rng.borrow_mut().below(200));
            runtime.sleep_until(runtime.now().after(pause)).await;
            loop {
                let until = runtime.now().after(Duration::from_secs(20));
                if let Ok(end) = fence_log(&runtime, &store, epoch, heir, until).await {
                    return end;
                }
            }
        }
    });
    let ends = join_all(heirs).await;
    assert_eq!(ends[0], ends[1], "two heirs end it at one place");
    tally.fences += 2;
    world.set_faults(Faults::default());
    // Whatever the writer still believes comes to light.
    runtime.sleep_until(runtime.now().after(Duration::from_secs(30))).await;
    for mut logs in [known, Logs::default()] {
        let positions = BTreeMap::from([(epoch, ends[0].0)]);
        let until = runtime.now().after(Duration::from_secs(60));
        logs.read_on(&store, &positions, until).await.expect("it is whole");
        let entries = entries_of(&logs);
        assert!(entries >= written.get(), "{} were acknowledged, {entries} count", written.get());
        assert_eq!(logs.position(epoch), Some(ends[0].0), "nothing counts behind the fence");
        tally.entries += u64::from(entries);
    }
    tally
}

/// The first number of a writer's log that is there.
fn first_number(world: &World, epoch: u32) -> u64 {
    let log = log_of(epoch).unwrap();
    let folder = log.entry(0).unwrap();
    let folder = folder.as_str().rsplit_once('/').unwrap().0.to_owned();
    let mut numbers: Vec<u64> = world
        .objects()
        .iter()
        .filter(|(name, _)| name.as_str().starts_with(&folder))
        .filter_map(|(name, _)| LogPlace::parse("log", name))
        .map(|place| place.number)
        .collect();
    numbers.sort_unstable();
    numbers.first().copied().unwrap_or(0)
}

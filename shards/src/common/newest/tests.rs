//! Logs whose old entries were removed, and keepers that stood still meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;
use crate::ledger::Outcome;

/// Who keeps the files.
const KEEPER: u32 = 7;
/// Who has kept them before.
const STALE: u32 = 3;

fn store_of(runtime: &SimRuntime, world: &World) -> Store<SimRuntime> {
    Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())))
}

/// Creates an entry as its author would.
async fn create(
    runtime: &SimRuntime,
    store: &Store<SimRuntime>,
    (number, author): (u64, u32),
    previous: Nonce,
) -> (Outcome, Nonce) {
    let nonce = Nonce::random(runtime);
    let state = CommonState { number, author, ..CommonState::default() };
    let object = Header { kind: LOG.kind, nonce, previous }.encode(&state.encode());
    (LOG.create(runtime, store, number, object).await, nonce)
}

async fn remove(store: &Store<SimRuntime>, number: u64) {
    let name = LOG.name_of(number, 0).unwrap();
    store.remove(&name, Monotonic::NEVER).await.unwrap();
}

/// A log with a hundred entries, of which the first were removed; gives their random numbers.
async fn trimmed(runtime: &SimRuntime, store: &Store<SimRuntime>, removed: u64) -> Vec<Nonce> {
    let mut nonces = vec![Nonce::NONE];
    for number in 1..=100 {
        let previous = nonces[nonces.len() - 1];
        let (outcome, nonce) = create(runtime, store, (number, KEEPER), previous).await;
        assert_eq!(outcome, Outcome::Created);
        nonces.push(nonce);
    }
    for number in 1..=removed {
        remove(store, number).await;
    }
    nonces
}

fn found(newest: Option<Option<(CommonState, Nonce)>>) -> (u64, u32) {
    let (state, _) = newest.expect("the store answers").expect("there is one");
    (state.number, state.author)
}

/// A keeper that stood still creates its entry at a number that was freed, behind the one that it knows.
/// Nobody believes it: neither who knows the entry before it, nor who knows none.
#[test]
fn an_entry_at_a_freed_number_is_none() {
    Simulation::new(1).block_on(async |runtime| {
        let store = store_of(&runtime, &World::default());
        let nonces = trimmed(&runtime, &store, 36).await;
        let known = |number: u64| (number, nonces[number as usize]);
        let (outcome, own) = create(&runtime, &store, (20, STALE), nonces[19]).await;
        assert_eq!(outcome, Outcome::Created, "a free name excludes nobody");
        for number in [1, 18, 19, 36, 37, 99] {
            let is_newest = is_newest(&runtime, &store, known(number)).await;
            assert_eq!(is_newest, Some(false), "{number}");
        }
        assert_eq!(is_newest(&runtime, &store, (20, nonces[20])).await, Some(false));
        assert_eq!(is_newest(&runtime, &store, known(100)).await, Some(true));
        assert_eq!(found(newest(&runtime, &store).await), (100, KEEPER));
        // It is not the keeper any more, so it never takes its own entry for one that counts.
        assert_ne!(own, nonces[20]);
    });
}

#[test]
fn an_entry_of_which_only_the_beginning_is_there_is_none() {
    Simulation::new(1).block_on(async |runtime| {
        let store = store_of(&runtime, &World::default());
        let nonces = trimmed(&runtime, &store, 36).await;
        let state = CommonState { number: 101, author: STALE, ..CommonState::default() };
        let header =
            Header { kind: LOG.kind, nonce: Nonce::random(&runtime), previous: nonces[100] };
        let object = header.encode(&state.encode());
        for attempt in 0..2 {
            let name = LOG.name_of(101, attempt).unwrap();
            let begun = object.slice(..object.len() - 1);
            store.create(&name, begun, 0..1, Monotonic::NEVER).await.unwrap();
            assert_eq!(found(newest(&runtime, &store).await), (100, KEEPER));
            assert_eq!(is_newest(&runtime, &store, (100, nonces[100])).await, Some(true));
        }
        let (outcome, _) = create(&runtime, &store, (101, KEEPER), nonces[100]).await;
        assert_eq!(outcome, Outcome::Created);
        assert_eq!(found(newest(&runtime, &store).await), (101, KEEPER));
    });
}

#[test]
fn a_log_without_entries_has_no_newest_one() {
    Simulation::new(1).block_on(async |runtime| {
        let store = store_of(&runtime, &World::default());
        assert!(matches!(newest(&runtime, &store).await, Some(None)));
        let (_, nonce) = create(&runtime, &store, (1, KEEPER), Nonce::NONE).await;
        assert_eq!(found(newest(&runtime, &store).await), (1, KEEPER));
        assert_eq!(is_newest(&runtime, &store, (1, nonce)).await, Some(true));
        // An object whose name has a number that no entry has.
        let name = ObjectName::new("common/ffffffffffffffff").unwrap();
        store.create(&name, Bytes::from_static(b"?"), 0..1, Monotonic::NEVER).await.unwrap();
        assert_eq!(found(newest(&runtime, &store).await), (1, KEEPER));
    });
}

/// Whoever asks while entries come, go, and are created anew at freed numbers gets an entry of the keeper,
/// and none that is older than the newest one when it was asked.
#[test]
fn who_reads_while_entries_come_and_go_believes_none_at_a_freed_number() {
    let (mut anew, mut answers) = (0, 0);
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let world = World::default();
        // What was listed is gone when it is read.
        let latency_ns = 1_000_000..=4_000_000;
        world.set_faults(Faults { latency_ns, slow_factor: 500, ..Faults::default() });
        let (newest_number, created_anew) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0_u64)));
        let rng = Rc::new(RefCell::new(Rng::new(seed)));
        let (simulation, counted) = (Simulation::new(seed), Rc::clone(&created_anew));
        let asked = simulation.block_on(async move |runtime| {
            let (of_keeper, of_stale) = (store_of(&runtime, &world), store_of(&runtime, &world));
            let store = store_of(&runtime, &world);
            let (clock, number) = (runtime.clone(), Rc::clone(&newest_number));
            drop(runtime.spawn(async move {
                let mut previous = Nonce::NONE;
                let mut removed = 0;
                loop {
                    let next = number.get() + 1;
                    let (_, nonce) = create(&clock, &of_keeper, (next, KEEPER), previous).await;
                    previous = nonce;
                    number.set(next);
                    // As fast as a sweep may be: one comes, and one goes.
                    while removed + 1 + KEPT_ENTRIES < next {
                        removed += 1;
                        remove(&of_keeper, removed).await;
                    }
                }
            }));
            let (clock, number) = (runtime.clone(), Rc::clone(&newest_number));
            let chance = Rc::clone(&rng);
            drop(runtime.spawn(async move {
                loop {
                    clock.sleep_until(clock.now().after(Duration::from_millis(3))).await;
                    let removed = number.get().saturating_sub(KEPT_ENTRIES + 1);
                    let at = removed.saturating_sub(chance.borrow_mut().below(8));
                    if at > 0 {
                        let made = create(&clock, &of_stale, (at, STALE), Nonce::NONE).await;
                        counted.set(counted.get() + u64::from(made.0 == Outcome::Created));
                    }
                }
            }));
            let mut asked = 0;
            for _ in 0..40 {
                let pause = Duration::from_millis(rng.borrow_mut().between(1, 4_000));
                runtime.sleep_until(runtime.now().after(pause)).await;
                let before = newest_number.get();
                if let Some(found) = newest(&runtime, &store).await {
                    let (number, author) =
                        found.map_or((0, KEEPER), |(it, _)| (it.number, it.author));
                    assert_eq!(
                        author, KEEPER,
                        "{number} is that of another, and {before} was there"
                    );
                    assert!(number >= before, "{number} is older than {before}");
                    asked += 1;
                }
            }
            asked
        });
        answers += asked;
        anew += created_anew.get();
    }
    println!("{answers} answers, {anew} entries at freed numbers");
    assert!(answers > 500 && anew > 500, "{answers} {anew}");
}

//! Creates on a bucket that fails, lies and is raced for: one winner for each name, and every writer
//! knows who it is. On the double, and where it makes sense on a folder.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_store::bucket::{BucketError, PartPlace, Span};
use logsvc_store::double::{Faults, World};
use logsvc_store::{Created, Folder, ObjectName, PART_BYTES, Request, Store, StoreError};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use support::{Kind, Place};

const PROOF: std::ops::Range<usize> = 0..16;

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

/// What a writer created, and what it was told.
type Attempt = (ObjectName, Bytes, Result<Created, StoreError>);

/// Runs `work` on one core of a node of its own, to its end.
fn run<T: 'static>(
    simulation: &Simulation,
    work: impl AsyncFnOnce(SimRuntime) -> T + 'static,
) -> T {
    let node = simulation.start_node(1, |_| std::future::pending());
    let (runtime, output) = (node.runtime(CoreId(0)).clone(), Rc::new(RefCell::new(None)));
    let slot = Rc::clone(&output);
    let own = runtime.clone();
    drop(runtime.spawn(async move {
        let result = work(own).await;
        *slot.borrow_mut() = Some(result);
    }));
    let run = simulation.run_until(|| output.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    output.take().expect("it has ended")
}

fn until(runtime: &SimRuntime, seconds: u64) -> Monotonic {
    runtime.now().after(Duration::from_secs(seconds))
}

#[test]
fn each_name_has_one_winner_and_everybody_knows_it() {
    names_have_one_winner(Kind::Double);
}

#[test]
fn a_name_has_the_whole_of_its_winner_or_none_wins() {
    names_have_one_winner(Kind::Tearing);
}

#[test]
fn each_name_of_a_folder_has_one_winner_even_when_the_power_goes() {
    names_have_one_winner(Kind::Folder);
}

fn names_have_one_winner(kind: Kind) {
    let (mut known, mut unknown, mut torn) = (0, 0, 0);
    for seed in seeds(100) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let place = Place::new(&simulation, kind);
        let mut rng = Rng::new(seed);
        place.set_random_faults(&mut rng, 300_000);
        let writers = rng.between(1, 4);
        let patience = Duration::from_millis(*rng.pick(&[30, 1_000, 60_000]));
        let results: Rc<RefCell<Vec<Attempt>>> = Rc::default();
        let mut running = Vec::new();
        for writer in 0..writers {
            let node = simulation.start_node(1, |_| std::future::pending());
            let runtime = node.runtime(CoreId(0)).clone();
            let place = place.clone();
            let results = Rc::clone(&results);
            let done = Rc::new(RefCell::new(false));
            running.push((node, Rc::clone(&done)));
            let own = runtime.clone();
            drop(runtime.spawn(async move {
                let store = place.store(&own).await;
                for number in 0..10 {
                    let object = name(&format!("log/{number}"));
                    let body = Bytes::from(format!("{writer:08}{number:08} and what follows"));
                    let deadline = own.now().after(patience);
                    let created = store.create(&object, body.clone(), PROOF, deadline).await;
                    results.borrow_mut().push((object, body, created));
                }
                *done.borrow_mut() = true;
            }));
        }
        let run = simulation.run_until(|| running.iter().all(|(_, done)| *done.borrow()));
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        // What is on the way arrives.
        place.heal();
        run_for(&simulation, 60);
        drop(run_list(&simulation, place.clone()));
        if let Place::Folder(disk) = &place {
            running.iter().for_each(|(node, _)| node.crash());
            disk.power_loss();
        }
        let objects = place.objects();
        for (object, body, created) in results.borrow().iter() {
            let is_there = objects.get(object);
            match created {
                Ok(Created::New | Created::Retried) => {
                    assert_eq!(is_there, Some(body), "{object} is not the winner's")
                }
                Ok(Created::Torn) => {
                    assert!(is_there.is_some_and(|there| there.len() < body.len()), "{object}");
                    torn += 1;
                }
                Ok(Created::Existing(found)) => {
                    let there = is_there.expect("it was read");
                    assert!(there != body && there.slice(PROOF) == *found, "{object}");
                }
                Err(StoreError::Failed { error, .. }) => panic!("{object}: {error}"),
                Err(StoreError::Unknown { .. }) => unknown += 1,
            }
            known += u64::from(created.is_ok());
        }
        for object in objects.keys() {
            let winners = results.borrow();
            let winners = winners
                .iter()
                .filter(|(n, _, r)| n == object && r.as_ref().is_ok_and(Created::is_own));
            assert!(winners.count() <= 1, "{object} has two winners");
        }
    }
    assert!(known > 100 && unknown > 0, "{known} known, {unknown} unknown");
    assert!((torn > 10) == (kind == Kind::Tearing), "{torn} torn");
}

fn run_for(simulation: &Simulation, seconds: u64) {
    simulation.run_for(Duration::from_secs(seconds));
}

fn run_list(simulation: &Simulation, place: Place) -> Vec<ObjectName> {
    run(simulation, async move |runtime| {
        let store = place.store(&runtime).await;
        let listed = store.list(&Folder::ALL, None, until(&runtime, 60)).await.expect("a listing");
        listed.into_iter().map(|info| info.name).collect()
    })
}

#[test]
fn a_conflict_on_a_free_name_is_not_believed() {
    let (simulation, world) = (Simulation::new(1), World::default());
    world.set_faults(Faults { conflicts_per_million: 900_000, ..Faults::default() });
    let bucket = world.clone();
    let created = run(&simulation, async move |runtime| {
        let store = Store::new(runtime.clone(), Box::new(bucket.bucket(runtime.clone())));
        let body = Bytes::from_static(b"0123456789abcdef!");
        let created = store.create(&name("a"), body, PROOF, until(&runtime, 600)).await;
        (created, store.counters().of(Request::Create).count)
    });
    assert_eq!(created.0, Ok(Created::Retried));
    assert!(created.1 > 1, "the store has lied at least once");
}

#[test]
fn a_bucket_that_is_away_is_waited_for_until_the_deadline() {
    let (simulation, world) = (Simulation::new(2), World::default());
    world.set_faults(Faults { is_down: true, ..Faults::default() });
    let bucket = world.clone();
    let (read, created, taken) = run(&simulation, async move |runtime| {
        let store = Store::new(runtime.clone(), Box::new(bucket.bucket(runtime.clone())));
        let begun = runtime.now();
        let span = Span::Whole { max_bytes: 10 };
        let read = store.read(&name("a"), span, until(&runtime, 100)).await;
        let taken = runtime.now().since(begun);
        let later = runtime.clone();
        let healed = bucket.clone();
        drop(runtime.spawn(async move {
            later.sleep_until(until(&later, 200)).await;
            healed.set_faults(Faults::default());
        }));
        let body = Bytes::from_static(b"0123456789abcdef");
        let created = store.create(&name("a"), body, PROOF, until(&runtime, 600)).await;
        (read, created, taken)
    });
    assert!(matches!(read, Err(StoreError::Failed { error: BucketError::Failed(_), .. })));
    assert!(taken > Duration::from_secs(90) && taken <= Duration::from_secs(100), "{taken:?}");
    assert_eq!(created, Ok(Created::Retried));
}

#[test]
fn large_objects_come_in_parts() {
    for (seed, kind) in seeds(10)
        .flat_map(|seed| [Kind::Double, Kind::Tearing, Kind::Folder].map(|kind| (seed, kind)))
    {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let place = Place::new(&simulation, kind);
        let mut rng = Rng::new(seed);
        place.set_random_faults(&mut rng, 300_000);
        let parts = rng.between(1, 3) as usize;
        let last = rng.between(1, 1000) as usize;
        let bucket = place.clone();
        let bodies: Vec<Bytes> = (0..parts)
            .map(|n| vec![n as u8; if n + 1 == parts { last } else { PART_BYTES }].into())
            .collect();
        let whole: Vec<u8> = bodies.concat();
        let len_bytes = whole.len() as u64;
        run(&simulation, async move |runtime| {
            let store = bucket.store(&runtime).await;
            let (object, deadline) = (name("seg/1"), until(&runtime, 100_000));
            'upload: loop {
                let upload = store.begin(&object, deadline).await.expect("it begins");
                let mut parts = Vec::new();
                for (number, body) in bodies.iter().enumerate() {
                    let part = store.put_part(
                        &object,
                        &upload,
                        PartPlace::of(number, PART_BYTES as u64),
                        body.clone(),
                        deadline,
                    );
                    match part.await {
                        Ok(part) => parts.push(part),
                        Err(error) if error.is_not_found() => continue 'upload,
                        Err(error) => panic!("{error}"),
                    }
                }
                match store.complete(&object, &upload, &parts, len_bytes, deadline).await {
                    Ok(()) => break,
                    Err(StoreError::Failed { error: BucketError::Exists(_), .. })
                        if kind == Kind::Tearing =>
                    {
                        store.remove(&object, deadline).await.expect("removed");
                    }
                    Err(error) => assert!(error.is_not_found(), "{error}"),
                }
            }
        });
        let objects: Vec<Bytes> = place.objects().into_values().collect();
        assert!(objects.len() == 1 && objects[0] == whole, "the object has all parts");
    }
}

#[test]
fn slow_reads_are_asked_for_twice() {
    let (simulation, world) = (Simulation::new(3), World::default());
    world.set_faults(Faults {
        latency_ns: 20_000_000..=25_000_000,
        slow_factor: 1_000,
        ..Faults::default()
    });
    let bucket = world.clone();
    let (slowest, seconds, reads) = run(&simulation, async move |runtime| {
        let store = Store::new(runtime.clone(), Box::new(bucket.bucket(runtime.clone())));
        let body = Bytes::from_static(b"0123456789abcdef");
        let created = store.create(&name("a"), body, PROOF, until(&runtime, 6_000)).await;
        assert_eq!(created, Ok(Created::New));
        let mut slowest = Duration::ZERO;
        for number in 0..2_000 {
            let begun = runtime.now();
            let read = store.read(&name("a"), Span::Range(3..5), until(&runtime, 6_000)).await;
            assert_eq!(read.expect("it is there"), b"34".as_slice());
            if number > 200 {
                slowest = slowest.max(runtime.now().since(begun));
            }
        }
        (slowest, store.counters().second_reads(), store.counters().of(Request::Read).count)
    });
    assert!(slowest < Duration::from_secs(20), "{slowest:?}: as slow as one request in 100");
    assert!(seconds > 5 && seconds * 20 < reads, "{seconds} of {reads}");
}

#[test]
fn listings_go_on_behind_a_name() {
    listings_go_on(Kind::Double);
    listings_go_on(Kind::Folder);
}

fn listings_go_on(kind: Kind) {
    let simulation = Simulation::new(4);
    let place = Place::new(&simulation, kind);
    let (all, behind) = run(&simulation, async move |runtime| {
        let store = place.store(&runtime).await;
        let deadline = until(&runtime, 6_000);
        for number in 0..250 {
            for folder in ["a", "b"] {
                let object = name(&format!("{folder}/{number:04}"));
                let body = Bytes::from(format!("{folder}{number:020}"));
                let created = store.create(&object, body, PROOF, deadline).await;
                assert_eq!(created, Ok(Created::New));
            }
        }
        let folder = Folder::new("a").expect("a folder");
        let all = store.list(&folder, None, deadline).await.expect("a listing");
        let after = name("a/0100");
        let behind = store.list(&folder, Some(&after), deadline).await.expect("a listing");
        store.remove(&after, deadline).await.expect("removed");
        store.remove(&after, deadline).await.expect("removed before");
        let gone = store.info(&after, deadline).await.expect_err("it is gone");
        assert!(gone.is_not_found());
        (all, behind)
    });
    assert_eq!((all.len(), behind.len()), (250, 149));
    assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert_eq!(behind[0].name, name("a/0101"));
}

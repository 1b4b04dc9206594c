//! Logs that are taken over while their writers live on, on a bucket that fails: what was
//! acknowledged counts for ever, and nothing else comes to count. On the double and on a folder.

mod support;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Monotonic, Runtime};
use logsvc_store::Store;
use logsvc_store::double::{Faults, World};
use logsvc_store::log::{
    Entry, IN_FLIGHT_MAX, LogContent, LogEnd, LogError, LogName, LogWriter, fence, may_exclude,
    read_log, read_on,
};
use logsvc_store::object::HEADER_LEN;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use support::{Kind, Place};

const PATIENCE: Duration = Duration::from_secs(3_600);

type ReadResult = Result<LogContent, LogError>;

fn log() -> LogName {
    LogName::new("log/0000002a").expect("a name")
}

/// What a writer has come to.
#[derive(Default)]
struct Written {
    acknowledged: RefCell<Vec<Vec<u8>>>,
    end: RefCell<Option<LogError>>,
    is_done: Cell<bool>,
    resumed: Cell<u32>,
}

/// Writes entries, several at a time, and acknowledges them in order.
async fn write(
    runtime: SimRuntime,
    place: Place,
    written: Rc<Written>,
    entries: u32,
    window: usize,
) {
    let store = place.store(&runtime).await;
    let mut writer = LogWriter::new(runtime.clone(), store.clone(), log());
    let mut waiting: VecDeque<(Vec<u8>, Entry)> = VecDeque::new();
    let mut left = (0..entries).map(|number| format!("entry {number}").into_bytes());
    // Memory of entries that are written serves again, where nothing else has it.
    let mut spares: Vec<Vec<u8>> = Vec::new();
    // The writer numbers entries, and others send them.
    let sender = Rc::new(LogWriter::new(runtime.clone(), store, log()));
    let send = |entry: Entry| -> LocalBoxFuture<'static, Result<(), LogError>> {
        let (sender, runtime) = (Rc::clone(&sender), runtime.clone());
        Box::pin(async move {
            loop {
                match sender.write(&entry, runtime.now().after(Duration::from_millis(500))).await {
                    // Nobody knows, so it is written again.
                    Err(LogError::Store(_)) => {}
                    other => return other,
                }
            }
        })
    };
    let mut sent = FuturesOrdered::new();
    loop {
        while sent.len() < window
            && let Some(payload) = left.next()
        {
            let mut object = spares.pop().unwrap_or_default();
            assert!(object.is_empty());
            object.resize(HEADER_LEN, 0);
            object.extend_from_slice(&payload);
            let entry = writer.begin_in_place(object);
            sent.push_back(send(entry.clone()));
            waiting.push_back((payload, entry));
        }
        match sent.next().await {
            None => break,
            Some(Ok(())) => {
                let (payload, entry) = waiting.pop_front().expect("it was sent");
                spares.extend(entry.into_memory());
                written.acknowledged.borrow_mut().push(payload);
            }
            Some(Err(LogError::Torn { number, .. })) => {
                assert_eq!(number, waiting[0].1.number);
                sent.clear();
                let (payloads, mut entries): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
                writer.resume(&mut entries);
                entries.iter().for_each(|entry| sent.push_back(send(entry.clone())));
                waiting.extend(payloads.into_iter().zip(entries));
                written.resumed.set(written.resumed.get() + 1);
            }
            Some(Err(error)) => {
                *written.end.borrow_mut() = Some(error);
                break;
            }
        }
    }
    written.is_done.set(true);
}

async fn take_over(runtime: SimRuntime, place: Place, by: u32) -> LogContent {
    let store = place.store(&runtime).await;
    loop {
        let until = runtime.now().after(Duration::from_secs(600));
        match fence(&runtime, &store, &log(), 0, by, until).await {
            Ok(content) => return content,
            Err(LogError::Store(_) | LogError::Torn { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Removes the entries of a log that was taken over, as their owner may.
async fn free(runtime: &SimRuntime, place: &Place) {
    let store = place.store(runtime).await;
    for (name, body) in place.objects() {
        if !may_exclude(body.len() as u64) {
            store.remove(&name, runtime.now().after(PATIENCE)).await.expect("removed");
        }
    }
}

fn payloads(content: &LogContent) -> Vec<Vec<u8>> {
    content.entries.iter().map(|entry| entry.to_vec()).collect()
}

#[test]
fn what_was_acknowledged_counts_and_nothing_comes_to_count_later() {
    logs_keep_what_counts(Kind::Double);
}

#[test]
fn what_was_acknowledged_counts_where_beginnings_of_objects_stay() {
    logs_keep_what_counts(Kind::Tearing);
}

#[test]
fn what_was_acknowledged_counts_in_a_folder_even_when_the_power_goes() {
    logs_keep_what_counts(Kind::Folder);
}

fn logs_keep_what_counts(kind: Kind) {
    let (mut fenced, mut crashed, mut whole, mut beaten) = (0, 0, 0, 0);
    let (mut resumed, mut freed) = (0, 0);
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let place = Place::new(&simulation, kind);
        let mut rng = Rng::new(seed);
        place.set_random_faults(&mut rng, 200_000);
        let written = Rc::new(Written::default());
        let writer = simulation.start_node(1, |_| std::future::pending());
        let runtime = writer.runtime(CoreId(0)).clone();
        let (entries, window) =
            (rng.between(1, 300) as u32, rng.between(1, IN_FLIGHT_MAX) as usize);
        let job = write(runtime.clone(), place.clone(), Rc::clone(&written), entries, window);
        drop(runtime.spawn(job));
        simulation.run_for(Duration::from_millis(rng.below(3_000)));
        if rng.one_in(3) {
            writer.crash();
            crashed += 1;
            if let Place::Folder(disk) = &place
                && rng.one_in(2)
            {
                disk.power_loss();
            }
        }
        let heirs = rng.between(1, 2) as u32;
        let frees = kind == Kind::Tearing && rng.one_in(2);
        let found: Rc<RefCell<Vec<LogContent>>> = Rc::default();
        let mut nodes = Vec::new();
        for heir in 0..heirs {
            let node = simulation.start_node(1, |_| std::future::pending());
            let runtime = node.runtime(CoreId(0)).clone();
            let (place, found) = (place.clone(), Rc::clone(&found));
            let own = runtime.clone();
            drop(runtime.spawn(async move {
                let content = take_over(own, place, 100 + heir).await;
                found.borrow_mut().push(content);
            }));
            nodes.push(node);
        }
        let run = simulation.run_until(|| found.borrow().len() == heirs as usize);
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        if frees {
            let (runtime, place) = (nodes[0].runtime(CoreId(0)).clone(), place.clone());
            let is_free = Rc::new(Cell::new(false));
            let done = Rc::clone(&is_free);
            drop(runtime.clone().spawn(async move {
                free(&runtime, &place).await;
                done.set(true);
            }));
            simulation.run_until(|| is_free.get()).unwrap_or_else(|stuck| panic!("{stuck}"));
            freed += 1;
        }
        let acknowledged_before = written.acknowledged.borrow().len();
        // The writer goes on as long as it likes.
        if writer.is_running() {
            let run = simulation.run_until(|| written.is_done.get());
            run.unwrap_or_else(|stuck| panic!("{stuck}"));
        }
        place.heal();
        let later: Rc<RefCell<Option<LogContent>>> = Rc::default();
        let (runtime, slot) = (nodes[0].runtime(CoreId(0)).clone(), Rc::clone(&later));
        // Nobody reads a log again whose entries were removed. Its writer may have made some of them
        // anew before it found the fence.
        let known = frees.then(|| found.borrow()[0].clone());
        let own = runtime.clone();
        drop(runtime.spawn(async move {
            own.sleep_until(own.now().after(Duration::from_secs(60))).await;
            let store = place.store(&own).await;
            let content = match known {
                Some(known) => Ok(known),
                None => read_log(&store, &log(), 0, own.now().after(PATIENCE)).await,
            };
            *slot.borrow_mut() = Some(content.expect("a healthy bucket"));
        }));
        resumed += written.resumed.get();
        let run = simulation.run_until(|| later.borrow().is_some());
        run.unwrap_or_else(|stuck| panic!("{stuck}"));
        let later = later.take().expect("it was read");
        for content in found.borrow().iter() {
            assert_eq!(content.fenced_by, later.fenced_by, "the heirs do not agree");
            assert_eq!(payloads(content), payloads(&later), "an entry has come to count");
        }
        let acknowledged = written.acknowledged.borrow();
        let counted = payloads(&later);
        assert!(counted.starts_with(&acknowledged), "an acknowledged entry does not count");
        match written.end.take() {
            None => whole += u32::from(acknowledged.len() == entries as usize),
            Some(LogError::Fenced { by, .. }) => {
                assert_eq!(Some(by), later.fenced_by);
                fenced += 1;
            }
            Some(error) => panic!("{error}"),
        }
        beaten += u32::from(heirs == 2);
        assert!(acknowledged.len() >= acknowledged_before);
    }
    println!("{fenced} fenced, {crashed} crashed, {whole} whole, {beaten} with two heirs");
    assert!(fenced > 20 && crashed > 20 && whole > 20 && beaten > 20);
    let is_tearing = kind == Kind::Tearing;
    assert!((resumed > 20, freed > 20) == (is_tearing, is_tearing), "{resumed}, {freed} freed");
}

#[test]
fn two_writers_on_a_store_that_ignores_conditions_are_noticed() {
    let simulation = Simulation::new(1);
    let world = World::default();
    world.set_faults(Faults { ignores_conditions: true, ..Faults::default() });
    let node = simulation.start_node(1, |_| std::future::pending());
    let runtime = node.runtime(CoreId(0)).clone();
    let result: Rc<RefCell<Option<Result<LogContent, LogError>>>> = Rc::default();
    let (own, slot) = (runtime.clone(), Rc::clone(&result));
    drop(runtime.spawn(async move {
        let store = Store::new(own.clone(), Box::new(world.bucket(own.clone())));
        let until = own.now().after(PATIENCE);
        let mut one = LogWriter::new(own.clone(), store.clone(), log());
        let mut two = LogWriter::new(own.clone(), store.clone(), log());
        for _ in 0..2 {
            let entry = one.begin(b"one");
            one.write(&entry, until).await.expect("it believes so");
        }
        let entry = two.begin(b"two");
        two.write(&entry, until).await.expect("it believes so, too");
        *slot.borrow_mut() = Some(read_log(&store, &log(), 0, until).await);
    }));
    let run = simulation.run_until(|| result.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    let result = result.take().expect("it was read");
    assert!(matches!(result, Err(LogError::Forked { number: 1, .. })), "{result:?}");
}

#[test]
fn a_damaged_entry_ends_a_log_with_an_error() {
    damage_is_noticed(Kind::Double);
    damage_is_noticed(Kind::Folder);
}

fn damage_is_noticed(kind: Kind) {
    let simulation = Simulation::new(2);
    let place = Place::new(&simulation, kind);
    let node = simulation.start_node(1, |_| std::future::pending());
    let runtime = node.runtime(CoreId(0)).clone();
    let results: Rc<RefCell<Option<Vec<ReadResult>>>> = Rc::default();
    let (own, slot, bucket) = (runtime.clone(), Rc::clone(&results), place);
    drop(runtime.spawn(async move {
        let store = bucket.store(&own).await;
        let until = own.now().after(PATIENCE);
        let mut writer = LogWriter::new(own.clone(), store.clone(), log());
        for payload in [b"a", b"b", b"c"] {
            let entry = writer.begin(payload);
            writer.write(&entry, until).await.expect("written");
        }
        let mut results = vec![read_log(&store, &log(), 0, until).await];
        results.push(read_log(&store, &log(), 2, until).await);
        goes_on_where_it_was(&mut writer, &store, until).await;
        let name = bucket.objects().into_keys().nth(1).expect("some entries");
        bucket.corrupt(&name, 70, 1);
        bucket.corrupt(&name, 20, 1);
        results.push(read_log(&store, &log(), 0, until).await);
        bucket.lose(&name);
        results.push(read_log(&store, &log(), 0, until).await);
        *slot.borrow_mut() = Some(results);
    }));
    let run = simulation.run_until(|| results.borrow().is_some());
    run.unwrap_or_else(|stuck| panic!("{stuck}"));
    let results = results.take().expect("it was read");
    let counts: Vec<Option<usize>> =
        results.iter().map(|result| result.as_ref().ok().map(|log| log.entries.len())).collect();
    assert_eq!(counts, [Some(3), Some(1), None, Some(1)]);
    assert!(matches!(results[2], Err(LogError::Damaged { number: 1, .. })), "{:?}", results[2]);
}

/// Reads a log of three entries in parts, the last of which is written meanwhile. What does not take
/// an entry gets it again.
async fn goes_on_where_it_was(
    writer: &mut LogWriter<SimRuntime>,
    store: &Store<SimRuntime>,
    until: Monotonic,
) {
    let (mut end, mut read) = (LogEnd::before(0), Vec::new());
    let visit = async |number, _| match number {
        1 => Err(LogError::Fenced { log: String::new(), number, by: 0 }),
        _ => Ok(()),
    };
    let refused = read_on(store, &log(), &mut end, until, visit).await;
    assert!(matches!(refused, Err(LogError::Fenced { number: 1, .. })), "{refused:?}");
    for numbers in [vec![1, 2], vec![], vec![3]] {
        read.clear();
        let visit = async |number, _| {
            read.push(number);
            Ok::<(), LogError>(())
        };
        read_on(store, &log(), &mut end, until, visit).await.expect("it is whole");
        assert_eq!(read, numbers);
        if read.is_empty() {
            let entry = writer.begin(b"d");
            writer.write(&entry, until).await.expect("written");
        }
    }
    assert_eq!((end.next, end.fenced_by), (4, None));
}

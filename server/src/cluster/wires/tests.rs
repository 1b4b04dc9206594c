use std::cell::Cell;

use logsvc_cluster::map::{MemberInfo, State};
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{Listener, PlainDialer};

use super::*;

fn ms(at: u64) -> Monotonic {
    Monotonic(0).after(Duration::from_millis(at))
}

#[test]
fn two_refusals_say_that_who_has_listened_is_gone() {
    let mut wire = Wire::default();
    assert_eq!(wire.note_refused(ms(1_000)), Refused::Again(PAUSE));
    assert_eq!(wire.note_refused(ms(2_000)), Refused::Again(PAUSE), "it has never listened");
    wire.note_connected();
    assert_eq!(wire.note_refused(ms(3_000)), Refused::Again(APART));
    assert_eq!(wire.note_refused(ms(3_200)), Refused::Again(Duration::from_millis(100)));
    wire.note_silent();
    assert_eq!(wire.note_refused(ms(3_300)), Refused::Again(APART));
    wire.note_connected();
    assert_eq!(wire.note_refused(ms(3_600)), Refused::Again(APART));
    assert_eq!(wire.note_refused(ms(3_900)), Refused::Gone);
}

fn map(members: &[(u32, &str)]) -> Map {
    let mut map = Map::empty(4);
    for (epoch, address) in members {
        let info = MemberInfo {
            name: String::new(),
            address: (*address).to_owned(),
            zone: String::new(),
            state: State::Active,
            position: 0,
        };
        map.members.insert(Epoch(*epoch), info);
    }
    map
}

#[test]
fn at_least_half_of_the_members_remain() {
    let mut losses = Losses::default();
    let two = map(&[(1, "a"), (2, "b")]);
    assert!(losses.may_tell(Epoch(2), ms(0), &two));
    // The one that is gone still counts when the map has forgotten it.
    let others = map(&[(1, "a"), (3, "c")]);
    assert!(!losses.may_tell(Epoch(3), ms(19_000), &others));
    assert!(losses.may_tell(Epoch(2), ms(19_000), &two), "it was told before");
    assert!(losses.may_tell(Epoch(3), ms(40_000), &others));
    let five = map(&[(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]);
    let mut losses = Losses::default();
    let told = [5, 4, 3].map(|epoch| losses.may_tell(Epoch(epoch), ms(0), &five));
    assert_eq!(told, [true, true, false]);
}

#[test]
fn who_has_the_address_of_an_older_one_has_replaced_it() {
    let map = map(&[(1, "a"), (2, "b"), (4, "a"), (5, "c"), (6, "a")]);
    assert_eq!(replaced(&map).collect::<Vec<_>>(), [Epoch(1), Epoch(4)]);
}

/// Takes connections and keeps them, until it is dropped.
fn listen(runtime: &SimRuntime, address: SocketAddr) -> Latch {
    let (stop, listener) = (Latch::new(), runtime.listen(address).expect("it listens"));
    let stopping = stop.clone();
    drop(runtime.clone().spawn(async move {
        let mut kept = Vec::new();
        let mut stopped = pin!(stopping.wait());
        while let Either::Right((connection, _)) =
            select(&mut stopped, pin!(listener.accept())).await
        {
            kept.push(connection);
        }
    }));
    stop
}

#[test]
fn a_process_that_ends_is_noticed_and_one_that_begins_anew_is_not() {
    for seed in 0..20 {
        Simulation::new(seed).block_on(|runtime| async move {
            let address = SocketAddr::from(([127, 0, 0, 1], 9095));
            let told = Rc::new(Cell::new(None));
            let (clock, telling) = (runtime.clone(), Rc::clone(&told));
            drop(runtime.spawn(async move {
                let tell = || telling.replace(Some(clock.now())).is_some();
                let dialer = PlainDialer::new(clock.clone());
                let reach = Reach { dialer, is_secure: false };
                until_gone(&clock, &reach, address, tell).await;
            }));
            let pause = async |ms| {
                runtime.sleep_until(runtime.now().after(Duration::from_millis(ms))).await;
            };
            pause(5_000).await;
            assert_eq!(told.get(), None, "nobody has ever listened");
            let first = listen(&runtime, address);
            pause(5_000).await;
            first.trigger();
            pause(200).await;
            let second = listen(&runtime, address);
            pause(200_000).await;
            assert_eq!(told.get(), None, "somebody listens again");
            second.trigger();
            let ended = runtime.now();
            pause(1_000).await;
            let after = told.get().expect("it was noticed").since(ended);
            assert!(after >= APART && after < Duration::from_millis(400), "{after:?}");
            // Who is not heard says it again.
            let first = told.get();
            pause(2_000).await;
            assert!(told.get() > first);
        });
    }
}

//! Maps whose objects have no end.

use bytes::Bytes;
use logsvc_cluster::map::codec::Nonce as MapNonce;
use logsvc_cluster::map::{Epoch, Map, MemberInfo, State};
use logsvc_runtime::Monotonic;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_store::Created;
use logsvc_store::double::World;
use logsvc_store::object::HEADER_LEN;

use super::*;

/// The first map as a member would write it.
fn first_map(author: u32) -> Vec<u8> {
    let mut map = Map::empty(4);
    let info = MemberInfo {
        name: format!("node-{author}"),
        address: String::new(),
        zone: String::new(),
        state: State::Active,
        position: 0,
    };
    map.members.insert(Epoch(author), info);
    map.slots.iter_mut().for_each(|slot| slot.owner = Some(Epoch(author)));
    let nonce = MapNonce([author as u8 + 1; 16]);
    let entry = Entry { number: 1, nonce, previous: MapNonce::NONE, author: Epoch(author), map };
    entry.encode().unwrap()
}

/// The object that [`create`] makes of a map.
fn object_of(bytes: &[u8]) -> Bytes {
    let entry = Entry::decode(bytes).unwrap();
    let (nonce, previous) = (Nonce(entry.nonce.0), Nonce(entry.previous.0));
    Header { kind: KIND_MAP, nonce, previous }.encode(bytes)
}

async fn put(store: &Store<SimRuntime>, attempt: u32, object: Bytes) {
    let name = LOG.name_of(1, attempt).unwrap();
    let created = store.create(&name, object, 0..1, Monotonic::NEVER).await;
    assert_eq!(created, Ok(Created::New));
}

fn store_of(runtime: &SimRuntime) -> Store<SimRuntime> {
    Store::new(runtime.clone(), Box::new(World::default().bucket(runtime.clone())))
}

/// However much there is of what a writer had sent when it died, another one's map takes its place: as
/// soon as nobody can read it, everybody can create behind it.
#[test]
fn what_was_begun_by_the_dead_stops_nobody() {
    let (dead, live) = (first_map(0), first_map(1));
    let object = object_of(&dead);
    for len in 1..object.len() {
        let (object, live) = (object.slice(..len), live.clone());
        Simulation::new(1).block_on(async move |runtime| {
            let store = store_of(&runtime);
            put(&store, 0, object).await;
            assert_eq!(read(&runtime, &store, 1).await, ReadOutcome::Absent, "{len}");
            let created = create(&runtime, &store, 1, &live).await;
            assert_eq!(created, CreateOutcome::Created, "{len}");
            assert_eq!(read(&runtime, &store, 1).await, ReadOutcome::Entry(live), "{len}");
        });
    }
}

/// The same of several, with a whole one behind them.
#[test]
fn a_whole_map_behind_begun_ones_counts() {
    let (dead, first, second) = (first_map(0), first_map(1), first_map(2));
    Simulation::new(1).block_on(async move |runtime| {
        let store = store_of(&runtime);
        let begun = object_of(&dead);
        put(&store, 0, begun.slice(..begun.len() - 1)).await;
        put(&store, 1, begun.slice(..HEADER_LEN)).await;
        assert_eq!(create(&runtime, &store, 1, &first).await, CreateOutcome::Created);
        assert_eq!(create(&runtime, &store, 1, &second).await, CreateOutcome::Taken);
        assert_eq!(create(&runtime, &store, 1, &first).await, CreateOutcome::Taken);
        assert_eq!(read(&runtime, &store, 1).await, ReadOutcome::Entry(first));
    });
}

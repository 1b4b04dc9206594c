//! The bytes of maps: pinned, given back as they were, and harmless whatever they are.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_cluster::map::codec::{Entry, Nonce};
use logsvc_cluster::map::{Ends, Epoch, HERITAGE_MAX, Map, MapError, MemberInfo, Slot, State};
use logsvc_fuzz_bodies::cluster::map_entry;
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn info(name: &str, state: State, position: u64) -> MemberInfo {
    let address = format!("{name}:9095");
    MemberInfo { name: name.to_owned(), address, zone: "z".to_owned(), state, position }
}

fn random_map(rng: &mut Rng) -> Map {
    let mut map = Map::empty(rng.between(1, 40) as u16);
    let mut epoch = 0;
    let mut next_epoch = |rng: &mut Rng| {
        epoch += rng.between(1, 1_000) as u32;
        Epoch(epoch)
    };
    for number in 0..rng.below(6) {
        let state = *rng.pick(&[State::Active, State::Leaving, State::Guest]);
        let info = info(&format!("näme-{number}"), state, rng.next_u64());
        map.members.insert(next_epoch(rng), info);
    }
    for _ in 0..rng.below(6) {
        let ends = Ends { log: rng.next_u64(), wal: rng.next_u64() };
        map.ended.insert(next_epoch(rng), ends);
    }
    let members: Vec<Epoch> =
        map.members.keys().copied().filter(|epoch| !map.is_guest(*epoch)).collect();
    let ended: Vec<Epoch> = map.ended.keys().copied().collect();
    let all: Vec<Epoch> = members.iter().chain(&ended).copied().collect();
    let mut slot = Slot::default();
    for place in &mut map.slots {
        if rng.one_in(3) && !all.is_empty() {
            let next = (!members.is_empty() && rng.one_in(3)).then(|| *rng.pick(&members));
            let heritage = ended.iter().copied().filter(|_| rng.one_in(3)).collect();
            slot = Slot { owner: Some(*rng.pick(&all)), next, heritage };
        }
        *place = slot.clone();
    }
    map
}

fn random_entry(rng: &mut Rng) -> Entry {
    let nonce = |rng: &mut Rng| {
        let mut nonce = [1; 16];
        nonce[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
        Nonce(nonce)
    };
    Entry {
        number: rng.between(1, u64::MAX - 1),
        nonce: nonce(rng),
        previous: if rng.one_in(4) { Nonce::NONE } else { nonce(rng) },
        author: Epoch(rng.below(1 << 32) as u32 & !1),
        map: random_map(rng),
    }
}

#[test]
fn entries_come_back_as_they_were() {
    for seed in seeds(2_000) {
        let _guard = SeedGuard(seed);
        let entry = random_entry(&mut Rng::new(seed));
        let bytes = entry.encode().expect("a map within its limits");
        assert_eq!(Entry::decode(&bytes), Ok(entry));
    }
}

#[test]
fn damaged_bytes_are_refused_or_are_another_entry() {
    let mut refused = 0;
    for seed in seeds(5_000) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let mut bytes = random_entry(rng).encode().expect("a map within its limits");
        rng.damage(&mut bytes);
        map_entry(&bytes);
        refused += u64::from(Entry::decode(&bytes).is_err());
        let len = rng.index(300);
        let mut noise = rng.bytes(len);
        if let Some(version) = noise.first_chunk_mut::<4>() {
            *version = 1u32.to_le_bytes();
        }
        map_entry(&noise);
    }
    assert!(refused > 0);
}

/// The bytes that `docs/format.md` describes.
#[test]
fn bytes_are_pinned() {
    let mut map = Map::empty(4);
    map.members.insert(Epoch(5), info("a", State::Active, 7));
    map.ended.insert(Epoch(3), Ends { log: 2, wal: 9 });
    for slot in &mut map.slots[1..] {
        let heritage = BTreeSet::from([Epoch(3)]);
        *slot = Slot { owner: Some(Epoch(5)), next: None, heritage };
    }
    map.slots[0] = Slot { owner: Some(Epoch(3)), next: Some(Epoch(5)), heritage: BTreeSet::new() };
    let (nonce, previous) = (Nonce([0xaa; 16]), Nonce([0xbb; 16]));
    let entry = Entry { number: 6, nonce, previous, author: Epoch(5), map };
    let mut expected = Vec::new();
    expected.extend(b"\x01\0\0\0\x06\0\0\0\0\0\0\0");
    expected.extend([0xaa; 16]);
    expected.extend([0xbb; 16]);
    // The author; partitions, members, ended writers.
    expected.extend(b"\x05\0\0\0\x04\0\0\0\x01\0\0\0\x01\0\0\0");
    expected.extend(b"\x05\0\0\0\0\x07\0\0\0\0\0\0\0\x01a\x06a:9095\x01z");
    expected.extend(b"\x03\0\0\0\x02\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0");
    expected.extend(b"\x01\0\0\0\x03\0\0\0\x05\0\0\0\0\0\0\0");
    expected.extend(b"\x03\0\0\0\x05\0\0\0\xff\xff\xff\xff\x01\0\0\0\x03\0\0\0");
    assert_eq!(entry.encode(), Ok(expected));
}

/// Some hundred kilobytes claim heritages of 65,535 partitions.
#[test]
fn a_small_entry_cannot_claim_much_memory() {
    let ended: BTreeMap<Epoch, Ends> =
        (0..20_000).map(|epoch| (Epoch(epoch), Ends { log: 0, wal: 0 })).collect();
    let heritage: BTreeSet<Epoch> = ended.keys().copied().collect();
    let fits = HERITAGE_MAX / heritage.len();
    let mut map = Map { members: BTreeMap::new(), ended, slots: Vec::new() };
    map.slots.resize(fits, Slot { owner: Some(Epoch(0)), next: None, heritage });
    let (nonce, previous) = (Nonce([1; 16]), Nonce::NONE);
    let entry = Entry { number: 1, nonce, previous, author: Epoch(1), map };
    let mut bytes = entry.encode().expect("a map within its limits");
    assert!(Entry::decode(&bytes).is_ok());
    // The run is the last thing; its length and the number of partitions are claimed.
    let run = bytes.len() - 16 - 4 * 20_000;
    bytes[run..run + 4].copy_from_slice(&65_535u32.to_le_bytes());
    bytes[48..52].copy_from_slice(&65_535u32.to_le_bytes());
    assert_eq!(Entry::decode(&bytes), Err(MapError::TooMany("names in heritages")));
}

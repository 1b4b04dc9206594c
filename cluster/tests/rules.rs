//! Which map may follow which: each rule has a map that keeps it and one that breaks it.

use std::collections::BTreeSet;

use logsvc_cluster::map::{Ends, Epoch, Map, MapError, MemberInfo, Slot, State};

const A: Epoch = Epoch(1);
const B: Epoch = Epoch(2);
const C: Epoch = Epoch(3);
const DEAD: Epoch = Epoch(9);

fn info() -> MemberInfo {
    let (name, address, zone) = ("n".to_owned(), "n:1".to_owned(), String::new());
    MemberInfo { name, address, zone, state: State::Active, position: 5 }
}

/// A owns partition 0 and is to hand it to B. B owns 1 with a heritage. The dead one owns 2.
fn before() -> Map {
    let mut map = Map::empty(3);
    map.members.insert(A, info());
    map.members.insert(B, info());
    map.ended.insert(DEAD, Ends { log: 4, wal: 4 });
    map.slots[0] = Slot { owner: Some(A), next: Some(B), heritage: BTreeSet::new() };
    map.slots[1] = Slot { owner: Some(B), next: None, heritage: BTreeSet::from([DEAD]) };
    map.slots[2] = Slot { owner: Some(DEAD), next: None, heritage: BTreeSet::new() };
    map
}

fn follow(author: Epoch, change: impl FnOnce(&mut Map)) -> Result<(), MapError> {
    let mut next = before();
    change(&mut next);
    before().follow(author, &next)
}

fn keeps(author: Epoch, change: impl FnOnce(&mut Map)) {
    assert_eq!(follow(author, change), Ok(()));
}

fn breaks(author: Epoch, rule: &str, change: impl FnOnce(&mut Map)) {
    let error = follow(author, change).expect_err(rule).to_string();
    assert!(error.contains(rule), "{error} is not {rule}");
}

fn hand_over(map: &mut Map) {
    map.slots[0] = Slot { owner: Some(B), ..Slot::default() };
}

fn claim(map: &mut Map, by: Epoch, heritage: &[Epoch]) {
    let heritage = heritage.iter().copied().collect();
    map.slots[2] = Slot { owner: Some(by), next: None, heritage };
}

#[test]
fn members_write_for_themselves() {
    keeps(C, |map| drop(map.members.insert(C, info())));
    breaks(A, "joins by its own hand", |map| drop(map.members.insert(C, info())));
    breaks(DEAD, "only live members", |_| {});
    breaks(C, "only live members", |_| {});
    let change = |map: &mut Map, who: Epoch, change: fn(&mut MemberInfo)| {
        change(map.members.get_mut(&who).expect("a member"));
    };
    keeps(A, |map| change(map, A, |info| info.state = State::Leaving));
    keeps(A, |map| change(map, A, |info| info.position = 6));
    breaks(B, "changes by its own hand", |map| change(map, A, |info| info.position = 6));
    breaks(A, "never falls", |map| change(map, A, |info| info.position = 4));
    breaks(A, "unknown", |map| drop(map.members.remove(&A)));
    breaks(C, "goes only as an ended one", |map| {
        map.members.insert(C, info());
        map.slots[0] = Slot { owner: Some(C), ..Slot::default() };
        map.members.remove(&A);
    });
    breaks(A, "nobody else becomes one", |map| {
        change(map, A, |info| info.state = State::Guest);
        // One that has nothing.
        map.slots[0].owner = None;
        map.slots[0].next = None;
    });
    let mut leaving = before();
    change(&mut leaving, A, |info| info.state = State::Leaving);
    assert!(leaving.follow(A, &before()).is_err());
}

#[test]
fn ended_writers_stay_known() {
    let ends = Ends { log: 5, wal: 0 };
    keeps(B, |map| map.end(A, ends));
    keeps(A, |map| map.end(A, ends));
    breaks(B, "ends behind", |map| map.end(A, Ends { log: 4, wal: 0 }));
    breaks(B, "only members end", |map| {
        map.ended.insert(C, ends);
    });
    breaks(B, "never change", |map| {
        map.ended.insert(DEAD, ends);
    });
    breaks(B, "has not ended", |map| {
        map.ended.remove(&DEAD);
    });
    let mut unneeded = before();
    unneeded.slots[1].heritage.clear();
    claim(&mut unneeded, A, &[]);
    let mut forgotten = unneeded.clone();
    forgotten.ended.remove(&DEAD);
    assert_eq!(unneeded.follow(B, &forgotten), Ok(()));
    forgotten.end(B, ends);
    assert!(unneeded.follow(B, &forgotten).is_err(), "nobody has adopted it");
}

#[test]
fn partitions_are_handed_over_or_claimed() {
    keeps(A, hand_over);
    breaks(B, "hands over itself", hand_over);
    breaks(A, "whom the map has named", |map| {
        map.slots[1].owner = Some(B);
        map.slots[0].owner = None;
        map.slots[0].next = None;
    });
    breaks(A, "a settled partition", |map| {
        hand_over(map);
        map.slots[0].heritage = BTreeSet::from([DEAD]);
    });
    keeps(B, |map| claim(map, B, &[DEAD]));
    breaks(A, "own hand", |map| claim(map, B, &[DEAD]));
    breaks(B, "inherits everything", |map| claim(map, B, &[]));
    // Whoever has fenced the owner may claim from it in the same map.
    keeps(B, |map| {
        map.end(A, Ends { log: 5, wal: 0 });
        map.slots[0] = Slot { owner: Some(B), next: None, heritage: BTreeSet::from([A]) };
    });
    breaks(B, "inherits everything", |map| {
        map.end(A, Ends { log: 5, wal: 0 });
        hand_over(map);
    });
}

#[test]
fn heritages_and_proposals() {
    keeps(B, |map| map.slots[1].heritage.clear());
    breaks(A, "by the owner's hand", |map| map.slots[1].heritage.clear());
    breaks(A, "by the owner's hand", |map| {
        map.slots[0].heritage.insert(DEAD);
    });
    keeps(A, |map| map.slots[1].next = Some(A));
    keeps(B, |map| map.slots[0].next = None);
    breaks(A, "no member", |map| map.slots[1].next = Some(DEAD));
    breaks(A, "never changes", |map| drop(map.slots.pop()));
}

/// C is a guest.
fn with_guest() -> Map {
    let mut map = before();
    map.members.insert(C, MemberInfo { state: State::Guest, ..info() });
    map
}

#[test]
fn a_guest_gets_nothing() {
    assert_eq!(before().follow(C, &with_guest()), Ok(()));
    let refused = |author: Epoch, change: &dyn Fn(&mut Map), rule: &str| {
        let mut next = with_guest();
        change(&mut next);
        let error = with_guest().follow(author, &next).expect_err(rule).to_string();
        assert!(error.contains(rule), "{error} is not {rule}");
    };
    let has_partition = "a guest has a partition";
    refused(C, &|map| claim(map, C, &[DEAD]), has_partition);
    refused(A, &|map| map.slots[0].next = Some(C), has_partition);
    refused(A, &|map| map.slots[0].owner = Some(C), has_partition);
    for state in [State::Active, State::Leaving] {
        let change = |map: &mut Map| map.members.get_mut(&C).expect("a member").state = state;
        refused(C, &change, "a guest is one to its end");
    }
    let forget = |map: &mut Map| {
        map.members.get_mut(&C).expect("a member").position = 9;
        map.ended.remove(&Epoch(8));
    };
    let mut before = with_guest();
    before.ended.insert(Epoch(8), Ends { log: 0, wal: 0 });
    let mut next = before.clone();
    forget(&mut next);
    let error = before.follow(C, &next).expect_err("a guest adopts nothing").to_string();
    assert!(error.contains("published its adoption"), "{error}");
    // It goes like everybody.
    let mut next = with_guest();
    next.end(C, Ends { log: 5, wal: 0 });
    assert_eq!(with_guest().follow(C, &next), Ok(()));
}

//! Plans: equal shares, one range each, and no partition moves without need.

use std::collections::BTreeSet;

use logsvc_cluster::map::{Epoch, Map, MemberInfo, Partition, State};
use logsvc_cluster::plan::plan;
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn add(map: &mut Map, epoch: Epoch, state: State) {
    let (name, address, zone) = (String::new(), String::new(), String::new());
    map.members.insert(epoch, MemberInfo { name, address, zone, state, position: 0 });
}

fn moved(map: &Map, owners: &[Option<Epoch>]) -> usize {
    map.slots.iter().zip(owners).filter(|(slot, to)| slot.owner != **to).count()
}

fn take(map: &mut Map, owners: &[Option<Epoch>]) {
    for (slot, to) in map.slots.iter_mut().zip(owners) {
        slot.owner = *to;
        slot.next = None;
    }
}

/// The fewest moves of all orders of members and all equal shares.
fn fewest(map: &Map, members: &[Epoch], from: usize) -> usize {
    if members.is_empty() {
        return if from == map.slots.len() { 0 } else { usize::MAX };
    }
    let left = map.slots.len() - from;
    let (small, rest) = (left / members.len(), left % members.len());
    let sizes = if rest == 0 { small..=small } else { small..=small + 1 };
    let mut best = usize::MAX;
    for (index, epoch) in members.iter().enumerate() {
        let mut others = members.to_vec();
        others.remove(index);
        for size in sizes.clone() {
            let here = map.slots[from..from + size].iter();
            let here = here.filter(|slot| slot.owner != Some(*epoch)).count();
            best = best.min(fewest(map, &others, from + size).saturating_add(here));
        }
    }
    best
}

#[test]
fn plans_are_ranges_of_equal_shares_that_move_little() {
    for seed in seeds(2_000) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let mut map = Map::empty(rng.between(1, 40) as u16);
        let mut alive = BTreeSet::new();
        for epoch in 0..rng.between(1, 4) as u32 {
            add(&mut map, Epoch(epoch), State::Active);
            alive.insert(Epoch(epoch));
        }
        let mut settled = false;
        for round in 0..8u32 {
            let owners = plan(&map, &alive);
            let living: Vec<Epoch> = alive.iter().copied().collect();
            let shares = living.iter().map(|epoch| {
                let has = |(_, to): &(usize, &Option<Epoch>)| **to == Some(*epoch);
                let places: Vec<usize> =
                    owners.iter().enumerate().filter(has).map(|(index, _)| index).collect();
                let is_range = places.windows(2).all(|two| two[0] + 1 == two[1]);
                assert!(is_range, "{owners:?}");
                places.len()
            });
            let shares: Vec<usize> = shares.collect();
            assert_eq!(shares.iter().sum::<usize>(), owners.len());
            assert!(shares.iter().max() <= shares.iter().min().map(|least| least + 1).as_ref());
            if settled && living.len() <= 5 {
                let has: Vec<_> = map.slots.iter().map(|slot| slot.owner.map(|it| it.0)).collect();
                let (is, best) = (moved(&map, &owners), fewest(&map, &living, 0));
                assert_eq!(is, best, "{alive:?} of {has:?}: {owners:?}");
            }
            // Half of the way the plan is the same.
            for (slot, to) in map.slots.iter_mut().zip(&owners) {
                if slot.owner.is_some() && rng.one_in(2) {
                    slot.next = *to;
                }
            }
            assert_eq!(plan(&map, &alive), owners);
            take(&mut map, &owners);
            assert_eq!(plan(&map, &alive), owners);
            settled = true;
            // One comes or goes.
            if rng.one_in(2) || alive.len() < 2 {
                let epoch = Epoch(100 + round);
                add(&mut map, epoch, State::Active);
                alive.insert(epoch);
            } else {
                let gone = *rng.pick(&living);
                alive.remove(&gone);
            }
        }
    }
}

#[test]
fn who_leaves_or_is_a_guest_or_is_unknown_gets_nothing() {
    let mut map = Map::empty(8);
    add(&mut map, Epoch(0), State::Guest);
    add(&mut map, Epoch(1), State::Leaving);
    let alive = BTreeSet::from([Epoch(0), Epoch(1), Epoch(2)]);
    assert_eq!(plan(&map, &alive), vec![None; 8]);
    add(&mut map, Epoch(3), State::Active);
    assert_eq!(
        plan(&map, &BTreeSet::from([Epoch(0), Epoch(1), Epoch(3)])),
        vec![Some(Epoch(3)); 8]
    );
}

#[test]
fn the_largest_cluster_is_planned_at_once() {
    let mut map = Map::empty(u16::MAX);
    let mut alive = BTreeSet::new();
    for epoch in 0..64u32 {
        add(&mut map, Epoch(epoch), State::Active);
        alive.insert(Epoch(epoch));
    }
    for index in 0..Partition::MAX {
        map.slots[usize::from(index)].owner = Some(Epoch(u32::from(index) % 63));
    }
    let owners = plan(&map, &alive);
    assert_eq!(owners.len(), usize::from(u16::MAX));
}

//! Who should own what: ranges of partitions over the members that take some.
//!
//! Guarantees: the plan depends on its arguments alone. All shares differ by at most one partition,
//! each is one range, and a map that is as planned already is its own plan, so that no partition
//! moves for nothing. Few partitions move: the order of the ranges is that of what members have, in
//! small clusters with members in other places where that is better, and the bounds between them are
//! the best ones for this order.
//!
//! A plan moves nothing. If nodes plan by different ideas of who is alive, they make different
//! proposals, and the order of maps decides.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::{Epoch, Map, State};

/// In larger clusters newcomers stand at the end: each place that is tried takes time.
const TRIED_MEMBERS_MAX: usize = 64;

/// In larger clusters nobody is moved to another place.
const MOVED_MEMBERS_MAX: usize = 16;

/// The owner that each partition should have, if `alive` are the members that live. All are `None`
/// if no member takes partitions; guests and those that leave take none.
#[must_use]
pub fn plan(map: &Map, alive: &BTreeSet<Epoch>) -> Vec<Option<Epoch>> {
    let takes = |epoch: &Epoch| {
        alive.contains(epoch)
            && map.members.get(epoch).is_some_and(|info| info.state == State::Active)
    };
    let partitions = map.slots.len();
    let mut has: BTreeMap<Epoch, Vec<usize>> =
        map.members.keys().filter(|epoch| takes(epoch)).map(|epoch| (*epoch, vec![])).collect();
    if has.is_empty() {
        return vec![None; partitions];
    }
    for (partition, slot) in map.slots.iter().enumerate() {
        // What is on its way to somebody counts as there, or plans would change midway.
        let to = slot.next.filter(|next| takes(next)).or(slot.owner);
        if let Some(list) = to.and_then(|to| has.get_mut(&to)) {
            list.push(partition);
        }
    }
    let order = order(&has, partitions);
    let (_, sizes) = bounds(&order, &has, partitions);
    let owners = order.iter().zip(sizes);
    owners.flat_map(|(epoch, size)| std::iter::repeat_n(Some(*epoch), size)).collect()
}

/// Members in the order of what they have; those who have nothing where they cost least.
fn order(has: &BTreeMap<Epoch, Vec<usize>>, partitions: usize) -> Vec<Epoch> {
    let middle = |list: &[usize]| list.get(list.len() / 2).copied().unwrap_or_default();
    let mut order: Vec<Epoch> =
        has.iter().filter(|(_, list)| !list.is_empty()).map(|(epoch, _)| *epoch).collect();
    order.sort_by_key(|epoch| (has.get(epoch).map(|list| middle(list)), *epoch));
    for epoch in has.iter().filter(|(_, list)| list.is_empty()).map(|(epoch, _)| *epoch) {
        order = insert(&order, epoch, has, partitions).1;
    }
    // What a dead member had at one end is better given to one other than moved on by all.
    let mut kept = bounds(&order, has, partitions).0;
    while order.len() <= MOVED_MEMBERS_MAX {
        let moved = |epoch: &Epoch| {
            let others: Vec<Epoch> = order.iter().copied().filter(|it| it != epoch).collect();
            insert(&others, *epoch, has, partitions)
        };
        match order.iter().map(moved).max_by_key(|(kept, _)| *kept) {
            Some((more, better)) if more > kept => (kept, order) = (more, better),
            _ => break,
        }
    }
    order
}

/// The order with one more member, at the last of the best places, and how many partitions stay.
fn insert(
    order: &[Epoch],
    epoch: Epoch,
    has: &BTreeMap<Epoch, Vec<usize>>,
    partitions: usize,
) -> (usize, Vec<Epoch>) {
    let first = if has.len() <= TRIED_MEMBERS_MAX { 0 } else { order.len() };
    let tries = (first..=order.len()).map(|place| {
        let mut tried = order.to_vec();
        tried.insert(place, epoch);
        (bounds(&tried, has, partitions).0, tried)
    });
    // There is at least one.
    tries.max_by_key(|(kept, _)| *kept).unwrap_or_default()
}

/// The sizes of the ranges of members in this order by which most partitions stay, and how many
/// stay.
fn bounds(
    order: &[Epoch],
    has: &BTreeMap<Epoch, Vec<usize>>,
    partitions: usize,
) -> (usize, Vec<usize>) {
    let (small, larger) = (partitions / order.len(), partitions % order.len());
    // best[c]: most that stay, of the members so far, if c of them have a larger share.
    let mut best: Vec<Option<usize>> = vec![None; larger + 1];
    best[0] = Some(0);
    let mut choices: Vec<Vec<bool>> = Vec::with_capacity(order.len());
    for (index, epoch) in order.iter().enumerate() {
        let list = has.get(epoch).map_or(&[][..], Vec::as_slice);
        let stays = |start: usize, size: usize| {
            let below = |bound: usize| list.partition_point(|partition| *partition < bound);
            below(start + size) - below(start)
        };
        let mut is_larger = vec![false; larger + 1];
        let mut now = vec![None; larger + 1];
        for count in 0..=larger {
            let start = |count: usize| index * small + count;
            let plain = best[count].map(|kept| kept + stays(start(count), small));
            let more = count
                .checked_sub(1)
                .and_then(|less| best[less].map(|kept| kept + stays(start(less), small + 1)));
            is_larger[count] = more > plain;
            now[count] = more.max(plain);
        }
        choices.push(is_larger);
        best = now;
    }
    let mut count = larger;
    let mut sizes = vec![small; order.len()];
    for (size, is_larger) in sizes.iter_mut().zip(&choices).rev() {
        if is_larger[count] {
            *size += 1;
            count -= 1;
        }
    }
    (best[larger].unwrap_or_default(), sizes)
}

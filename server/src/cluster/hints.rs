//! Who of the members of the map lives, by what membership says: a hint for the member.
//!
//! A hint may lie. Then nodes are taken over that live, which costs them a start, or partitions wait for
//! an owner. So a member counts as dead only for a reason:
//!
//! - membership has found it dead, or has heard that it has left;
//! - it says that it does not reach the bucket or cannot write its log, and this node is well all the time;
//! - another process has its name, or this node has it: then it was started again;
//! - membership has not seen it for [`UNSEEN_PATIENCE`] since this node has found others, or has tried to,
//!   and while it could hear of others.
//!
//! Of two nodes that do not hear each other, each takes the other for dead. If both ended each other, nobody
//! would be left. So who hears of less than half of the members that may own partitions is probably cut off,
//! and waits for [`CUT_OFF_PATIENCE`] before it believes what it sees; meanwhile the others take over from it.
//! Of two halves the one with the oldest member goes first, the other waits for [`HALF_PATIENCE`]. A member
//! that has not answered lately is not heard of, even if it is not dead yet: who is cut off does not notice
//! that of all others at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logsvc_cluster::map::{Epoch, Map};
use logsvc_membership::members::{Members, Standing};
use logsvc_runtime::Monotonic;

/// How long a member of the map may be missing whom membership has never seen.
pub(super) const UNSEEN_PATIENCE: Duration = Duration::from_secs(15);

/// How long a node waits that hears of less than half of the members.
pub(super) const CUT_OFF_PATIENCE: Duration = Duration::from_secs(20);

/// How long a node waits that hears of just half of the members, without the oldest one; and how far the ends
/// are apart of the times for which parts wait that are smaller. Two nodes suspect each other within two
/// seconds, the suspicion lasts three, and a takeover may take some.
const HALF_PATIENCE: Duration = Duration::from_secs(8);

/// The node that judges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Me<'n> {
    pub(super) epoch: Epoch,
    pub(super) name: &'n str,
    /// Whether it has what it needs to store entries, for long enough to believe others that lack it.
    pub(super) is_well: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// When the first attempts to find others were over.
    joined: Option<Monotonic>,
    /// Members of the map that membership does not know, and since when.
    unseen: BTreeMap<Epoch, Monotonic>,
    /// Those whom it has seen.
    seen: BTreeSet<Epoch>,
    /// Since when no more than half of the members are heard of.
    cut_off: Option<Monotonic>,
    /// Whether what is seen is not believed for now.
    is_waiting: bool,
}

impl Hints {
    /// The first attempts to find others are over.
    pub(super) fn note_joined(&mut self, now: Monotonic) {
        self.joined.get_or_insert(now);
    }

    /// Nothing can be heard of others: that a member was not seen says nothing until that is over.
    pub(super) fn note_blind(&mut self, now: Monotonic) {
        if let Some(joined) = &mut self.joined {
            *joined = now;
        }
    }

    /// Those members of the map that seem to live.
    pub(super) fn alive(
        &mut self,
        now: Monotonic,
        Me { epoch: me, name, is_well }: Me<'_>,
        map: &Map,
        members: &Members,
    ) -> BTreeSet<Epoch> {
        let mut writers: BTreeSet<Epoch> = members.writers().into_iter().map(Epoch).collect();
        if is_well {
            let cut_off = members.alive().filter(|member| member.vitals.is_cut_off);
            for epoch in cut_off.filter_map(|member| member.vitals.writer_epoch) {
                writers.remove(&Epoch(epoch));
                self.seen.insert(Epoch(epoch));
            }
        }
        let dead: BTreeSet<Epoch> = members
            .list
            .iter()
            .filter(|member| !member.is_alive())
            .filter_map(|member| member.vitals.writer_epoch.map(Epoch))
            .collect();
        self.seen.extend(writers.iter().filter(|one| map.members.contains_key(one)));
        self.seen.retain(|one| map.members.contains_key(one));
        let is_gone = |epoch: &Epoch| {
            let restarted = map.members.get(epoch).is_some_and(|info| {
                info.name == name
                    || members.named(&info.name).any(|member| {
                        let other = member.vitals.writer_epoch.map(Epoch);
                        member.is_alive() && other.is_some_and(|other| other > *epoch)
                    })
            });
            restarted || dead.contains(epoch) || self.seen.contains(epoch)
        };
        let mut alive = BTreeSet::from([me]);
        let mut unseen = BTreeMap::new();
        for epoch in map.members.keys().filter(|epoch| **epoch != me) {
            if writers.contains(epoch) {
                alive.insert(*epoch);
            } else if !is_gone(epoch) {
                let begun = self.joined.unwrap_or(now);
                let since = self.unseen.get(epoch).copied().unwrap_or(now).max(begun);
                unseen.insert(*epoch, since);
                if self.joined.is_none() || now < since.after(UNSEEN_PATIENCE) {
                    alive.insert(*epoch);
                }
            }
        }
        self.unseen = unseen;
        let patience = self.patience(me, map, members, &alive);
        self.is_waiting =
            patience.is_some_and(|patience| now < self.cut_off.get_or_insert(now).after(patience));
        if patience.is_none() {
            self.cut_off = None;
        }
        if self.is_waiting {
            alive.extend(map.members.keys());
        }
        alive
    }

    /// Whether the node is probably cut off, and waits for others to take over from it.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// How long a node has to wait that has heard of so few others; `None` if there are enough.
    fn patience(
        &self,
        me: Epoch,
        map: &Map,
        members: &Members,
        alive: &BTreeSet<Epoch>,
    ) -> Option<Duration> {
        let is_doubtful = |epoch: &Epoch| {
            members.list.iter().any(|member| {
                member.standing == Standing::Suspected
                    && member.vitals.writer_epoch.map(Epoch) == Some(*epoch)
            })
        };
        // It may be cut off from the bucket, or be another process by now. This node is not cut off from it.
        let speaks = |epoch: &Epoch| {
            map.members.get(epoch).is_some_and(|info| {
                members.named(&info.name).any(|member| member.standing == Standing::Alive)
            })
        };
        // Those that can take over from each other count.
        let all: Vec<Epoch> =
            map.members.keys().copied().filter(|epoch| !map.is_guest(*epoch)).collect();
        let is_heard = |epoch: &&Epoch| {
            **epoch == me || speaks(epoch) || (alive.contains(epoch) && !is_doubtful(epoch))
        };
        let heard = all.iter().filter(is_heard).count();
        let oldest = all.iter().position(|epoch| is_heard(&epoch)).unwrap_or(all.len());
        let rank = u32::try_from(oldest).unwrap_or(u32::MAX);
        match (heard * 2).cmp(&all.len()) {
            Ordering::Greater => None,
            Ordering::Equal if rank == 0 => None,
            Ordering::Equal => Some(HALF_PATIENCE),
            Ordering::Less => Some(CUT_OFF_PATIENCE + HALF_PATIENCE.saturating_mul(rank)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use logsvc_cluster::map::{MemberInfo, State};
    use logsvc_membership::identity::Identity;
    use logsvc_membership::members::{MemberInfo as Listed, Traffic};
    use logsvc_membership::vitals::Vitals;

    use super::*;

    fn second(at: u64) -> Monotonic {
        Monotonic(0).after(Duration::from_secs(at))
    }

    fn map(members: &[(u32, &str)]) -> Map {
        let mut map = Map::empty(4);
        for (epoch, name) in members {
            let info = MemberInfo {
                name: (*name).to_owned(),
                address: String::new(),
                zone: String::new(),
                state: State::Active,
                position: 0,
            };
            map.members.insert(Epoch(*epoch), info);
        }
        map
    }

    fn members(list: &[(u32, &str, Standing)]) -> Members {
        let of = |(place, (epoch, name, standing)): (usize, &(u32, &str, Standing))| {
            let address = SocketAddr::from(([10, 0, 0, place as u8 + 1], 7946));
            Listed {
                identity: Identity::at_start(address, 0, 1),
                incarnation: 0,
                standing: *standing,
                since: Monotonic(0),
                last_news: Monotonic(0),
                vitals: Vitals { writer_epoch: Some(*epoch), ..Vitals::joining(*name, 1..=1) },
            }
        };
        let list: Vec<Listed> = list.iter().enumerate().map(of).collect();
        let me = list[0].identity;
        Members { version: 1, me, list, traffic: Traffic::default() }
    }

    fn numbers(alive: BTreeSet<Epoch>) -> Vec<u32> {
        alive.into_iter().map(|epoch| epoch.0).collect()
    }

    const ALIVE: Standing = Standing::Alive;

    fn me(epoch: u32) -> Me<'static> {
        Me { epoch: Epoch(epoch), name: "a", is_well: true }
    }

    #[test]
    fn who_was_never_seen_lives_until_others_were_found_and_for_a_while() {
        let map = map(&[(1, "a"), (2, "b")]);
        let mine = members(&[(1, "a", ALIVE)]);
        let mut hints = Hints::default();
        let at = |at, hints: &mut Hints| numbers(hints.alive(second(at), me(1), &map, &mine));
        assert_eq!(at(0, &mut hints), [1, 2]);
        assert_eq!(at(100, &mut hints), [1, 2]);
        hints.note_joined(second(100));
        assert_eq!(at(114, &mut hints), [1, 2]);
        assert_eq!(at(116, &mut hints), [1]);
    }

    #[test]
    fn who_was_not_seen_is_waited_for_while_nothing_can_be_heard() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        let two = members(&[(1, "a", ALIVE), (2, "b", ALIVE)]);
        let mut hints = Hints::default();
        hints.note_blind(second(0));
        assert_eq!(hints.joined, None, "it has not looked for others yet");
        hints.note_joined(second(0));
        for at in 0..100 {
            hints.note_blind(second(at));
            assert_eq!(numbers(hints.alive(second(at), me(1), &map, &two)), [1, 2, 3]);
        }
        assert_eq!(numbers(hints.alive(second(113), me(1), &map, &two)), [1, 2, 3]);
        assert_eq!(numbers(hints.alive(second(114), me(1), &map, &two)), [1, 2]);
    }

    #[test]
    fn who_was_found_dead_or_has_left_is_gone_at_once() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        let mut hints = Hints::default();
        let all = members(&[(1, "a", ALIVE), (2, "b", ALIVE), (3, "c", Standing::Suspected)]);
        assert_eq!(numbers(hints.alive(second(1), me(1), &map, &all)), [1, 2, 3]);
        let one_dead = members(&[(1, "a", ALIVE), (2, "b", Standing::Dead), (3, "c", ALIVE)]);
        assert_eq!(numbers(hints.alive(second(2), me(1), &map, &one_dead)), [1, 3]);
        let one_left = members(&[(1, "a", ALIVE), (2, "b", ALIVE)]);
        assert_eq!(numbers(hints.alive(second(3), me(1), &map, &one_left)), [1, 2]);
    }

    #[test]
    fn who_was_started_again_is_gone_at_once() {
        let map = map(&[(1, "a"), (2, "b"), (4, "a"), (5, "b")]);
        let now = members(&[(4, "a", ALIVE), (5, "b", ALIVE)]);
        let mut hints = Hints::default();
        assert_eq!(numbers(hints.alive(second(0), me(4), &map, &now)), [4, 5]);
    }

    #[test]
    fn who_sees_less_than_half_waits() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        let all = members(&[(1, "a", ALIVE), (2, "b", ALIVE), (3, "c", ALIVE)]);
        let alone = members(&[(1, "a", ALIVE), (2, "b", Standing::Dead), (3, "c", Standing::Dead)]);
        let mut hints = Hints::default();
        let mut at = |at, members: &Members| numbers(hints.alive(second(at), me(1), &map, members));
        assert_eq!(at(0, &all), [1, 2, 3]);
        assert_eq!(at(1, &alone), [1, 2, 3]);
        assert_eq!(at(20, &alone), [1, 2, 3]);
        assert_eq!(at(22, &alone), [1]);
        assert_eq!(at(23, &all), [1, 2, 3]);
        assert_eq!(at(24, &alone), [1, 2, 3]);
    }

    #[test]
    fn of_two_halves_the_one_with_the_oldest_member_goes_first() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
        let standing = |alive: &[u32]| {
            let of = |(epoch, name)| {
                let is_alive = alive.contains(&epoch);
                (epoch, name, if is_alive { ALIVE } else { Standing::Dead })
            };
            members(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")].map(of))
        };
        let mut first = Hints::default();
        let seen = standing(&[1, 4]);
        assert_eq!(numbers(first.alive(second(0), me(1), &map, &seen)), [1, 4]);
        let mut last = Hints::default();
        let seen = standing(&[2, 3]);
        let me = Me { name: "b", ..me(2) };
        let mut at = |at| (numbers(last.alive(second(at), me, &map, &seen)), last.is_waiting());
        assert_eq!(at(0), (vec![1, 2, 3, 4], true));
        assert_eq!(at(7), (vec![1, 2, 3, 4], true));
        assert_eq!(at(8), (vec![2, 3], false));
    }

    #[test]
    fn nodes_that_are_all_cut_off_go_one_after_another() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        for (own, name, wait_s) in [(1, "a", 20), (2, "b", 28), (3, "c", 36)] {
            let of =
                |(epoch, name)| (epoch, name, if epoch == own { ALIVE } else { Standing::Dead });
            let seen = members(&[(1, "a"), (2, "b"), (3, "c")].map(of));
            let (mut hints, me) = (Hints::default(), Me { name, ..me(own) });
            let mut at = |at| numbers(hints.alive(second(at), me, &map, &seen)).len();
            assert_eq!([at(0), at(wait_s - 1), at(wait_s)], [3, 3, 1]);
        }
    }

    #[test]
    fn who_does_not_hear_from_one_either_does_not_believe_that_another_is_dead() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        let others = |b, c| members(&[(1, "a", ALIVE), (2, "b", b), (3, "c", c)]);
        let mut hints = Hints::default();
        let mut at = |at, seen| numbers(hints.alive(second(at), me(1), &map, &seen));
        assert_eq!(at(0, others(Standing::Suspected, Standing::Suspected)), [1, 2, 3]);
        assert_eq!(at(2, others(Standing::Suspected, Standing::Dead)), [1, 2, 3]);
        assert_eq!(at(4, others(Standing::Dead, Standing::Dead)), [1, 2, 3]);
        // It has heard from one again.
        assert_eq!(at(6, others(ALIVE, Standing::Dead)), [1, 2]);
    }

    #[test]
    fn who_says_that_it_is_cut_off_is_gone_if_this_node_is_not() {
        let map = map(&[(1, "a"), (2, "b"), (3, "c")]);
        let mut all = members(&[(1, "a", ALIVE), (2, "b", ALIVE), (3, "c", ALIVE)]);
        all.list[1].vitals.is_cut_off = true;
        let mut hints = Hints::default();
        let cut_off = Me { is_well: false, ..me(1) };
        assert_eq!(numbers(hints.alive(second(1), cut_off, &map, &all)), [1, 2, 3]);
        assert_eq!(numbers(hints.alive(second(2), me(1), &map, &all)), [1, 3]);
        // Who says so is heard of, so two nodes are enough, and the younger one does not wait.
        let (two, me_c) = (self::map(&[(2, "b"), (3, "c")]), Me { name: "c", ..me(3) });
        assert_eq!(numbers(Hints::default().alive(second(2), me_c, &two, &all)), [3]);
        all.list[1].vitals.is_cut_off = false;
        assert_eq!(numbers(hints.alive(second(3), me(1), &map, &all)), [1, 2, 3]);
    }
}

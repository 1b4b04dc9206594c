//! The list of members, from what etcd has said: without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logsvc_runtime::Monotonic;

use super::api::Listed;
use super::{GRACE, LEASE};
use crate::engine::ForgetError;
use crate::identity::Identity;
use crate::members::{MemberInfo, Members, Standing, Traffic};
use crate::settings::MEMBERS_MAX;
use crate::vitals::{Report, State};

/// See the module.
pub(super) struct Roster {
    pub(super) me: Identity,
    pub(super) report: Report,
    pub(super) traffic: Traffic,
    others: BTreeMap<Identity, MemberInfo>,
    started: Monotonic,
    /// The last answer.
    heard: Option<Monotonic>,
    /// Nobody is taken for dead before.
    patient_until: Monotonic,
    forget_after: Duration,
    version: u64,
}

impl Roster {
    pub(super) fn new(
        me: Identity,
        report: Report,
        heartbeat_timeout: Duration,
        now: Monotonic,
    ) -> Roster {
        Roster {
            me,
            report,
            traffic: Traffic::default(),
            others: BTreeMap::new(),
            started: now,
            heard: None,
            patient_until: now,
            forget_after: heartbeat_timeout.saturating_mul(3),
            version: 1,
        }
    }

    /// Takes an answer that names all keys. Returns whether the list has changed.
    pub(super) fn take(&mut self, now: Monotonic, listed: Listed) -> bool {
        let before: Vec<_> = self.others.values().cloned().collect();
        if self.heard.is_none_or(|heard| now.since(heard) > LEASE / 2) {
            self.patient_until = now.after(GRACE);
        }
        self.heard = Some(now);
        self.traffic.damaged += listed.damaged;
        let mut present = BTreeSet::new();
        for (identity, report) in listed.members {
            if identity == self.me {
                continue;
            }
            if report.vitals.state == State::Left {
                self.others.remove(&identity);
                continue;
            }
            self.see(now, identity, report);
            present.insert(identity);
        }
        let is_patient = now < self.patient_until;
        let forget_after = self.forget_after;
        let forgotten: BTreeSet<Identity> = listed.forgotten.into_iter().collect();
        for (identity, member) in &mut self.others {
            if member.is_alive() && !present.contains(identity) && !is_patient {
                (member.standing, member.since) = (Standing::Dead, now);
            }
        }
        self.others.retain(|identity, member| {
            let is_old = now.since(member.last_news) > forget_after || forgotten.contains(identity);
            member.is_alive() || !is_old
        });
        let is_same = |(old, new): (&MemberInfo, &MemberInfo)| {
            (old.identity, old.standing, &old.vitals) == (new.identity, new.standing, &new.vitals)
        };
        let has_changed = before.len() != self.others.len()
            || !before.iter().zip(self.others.values()).all(is_same);
        self.version += u64::from(has_changed);
        has_changed
    }

    fn see(&mut self, now: Monotonic, identity: Identity, report: Report) {
        // One key has one process: a later one has replaced the former.
        self.others.retain(|other, member| {
            member.vitals.instance != report.vitals.instance || *other == identity
        });
        let is_full = self.others.len() >= MEMBERS_MAX;
        match self.others.get_mut(&identity) {
            Some(member) => {
                if !member.is_alive() {
                    (member.standing, member.since) = (Standing::Alive, now);
                }
                (member.last_news, member.vitals) = (now, report.vitals);
            }
            None if is_full => self.traffic.crowded += 1,
            None => {
                let member = MemberInfo {
                    identity,
                    incarnation: 0,
                    standing: Standing::Alive,
                    since: now,
                    last_news: now,
                    vitals: report.vitals,
                };
                self.others.insert(identity, member);
            }
        }
    }

    /// The list has to show what this node says of itself.
    pub(super) fn note_change(&mut self) {
        self.version += 1;
    }

    /// The dead members with a name, which are not in the list any more.
    pub(super) fn forget(&mut self, instance: &str) -> Result<Vec<Identity>, ForgetError> {
        let is_named = |member: &MemberInfo| member.vitals.instance == instance;
        let is_me = self.report.vitals.instance == instance;
        if is_me || self.others.values().any(|member| is_named(member) && member.is_alive()) {
            return Err(ForgetError::Alive);
        }
        let named = self.others.values().filter(|member| is_named(member));
        let named: Vec<Identity> = named.map(|member| member.identity).collect();
        if named.is_empty() {
            return Err(ForgetError::Unknown);
        }
        named.iter().for_each(|identity| drop(self.others.remove(identity)));
        self.version += 1;
        Ok(named)
    }

    /// The list.
    pub(super) fn members(&self, now: Monotonic) -> Members {
        let me = MemberInfo {
            identity: self.me,
            incarnation: 0,
            standing: Standing::Alive,
            since: self.started,
            last_news: now,
            vitals: self.report.vitals.clone(),
        };
        let has_left = me.vitals.state == State::Left;
        let mut list: Vec<MemberInfo> = self.others.values().cloned().collect();
        list.extend((!has_left).then_some(me));
        list.sort_by_key(|member| member.identity);
        Members { version: self.version, me: self.me, list, traffic: self.traffic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vitals::Vitals;

    fn at(second: u64) -> Monotonic {
        Monotonic(0).after(Duration::from_secs(second))
    }

    fn identity(node: u8, generation: u64) -> Identity {
        Identity { address: ([10, 0, 0, node], 9095).into(), generation, chance: 1 }
    }

    fn report(name: &str) -> Report {
        Report { number: 1, vitals: Vitals::joining(name, 1..=1) }
    }

    fn listed(names: &[(u8, u64, &str)]) -> Listed {
        let members = names.iter();
        let members = members.map(|(node, life, name)| (identity(*node, *life), report(name)));
        Listed { members: members.collect(), ..Listed::default() }
    }

    fn standings(roster: &Roster) -> Vec<(String, Standing)> {
        let list = roster.members(at(1_000)).list.into_iter();
        list.map(|member| (member.vitals.instance, member.standing)).collect()
    }

    fn roster() -> Roster {
        Roster::new(identity(1, 1), report("a"), Duration::from_secs(60), at(0))
    }

    #[test]
    fn whose_key_is_gone_is_dead_and_forgotten_by_itself() {
        let mut roster = roster();
        let all = [(1, 1, "a"), (2, 1, "b"), (3, 1, "c")];
        for second in 0..12 {
            assert_eq!(roster.take(at(second), listed(&all)), second == 0);
        }
        let version = roster.members(at(12)).version;
        assert!(roster.take(at(12), listed(&all[..2])));
        assert!(roster.members(at(12)).version > version);
        let (a, b) = (("a".to_owned(), Standing::Alive), ("b".to_owned(), Standing::Alive));
        let dead = ("c".to_owned(), Standing::Dead);
        assert_eq!(standings(&roster), [a.clone(), b.clone(), dead]);
        for second in 13..191 {
            roster.take(at(second), listed(&all[..2]));
            assert_eq!(standings(&roster).len(), 3, "{second}");
        }
        roster.take(at(192), listed(&all[..2]));
        assert_eq!(standings(&roster), [a.clone(), b.clone()]);
        // It is there again.
        roster.take(at(193), listed(&all));
        assert_eq!(standings(&roster), [a, b, ("c".to_owned(), Standing::Alive)]);
    }

    #[test]
    fn nobody_is_dead_because_etcd_was_away() {
        let mut roster = roster();
        let all = [(2, 1, "b")];
        for second in 0..20 {
            roster.take(at(second), listed(&all));
        }
        // It answers again, without the keys.
        for second in 40..50 {
            assert!(!roster.take(at(second), listed(&[])), "{second}");
        }
        assert!(roster.take(at(50), listed(&[])));
        assert_eq!(standings(&roster)[1].1, Standing::Dead);
    }

    #[test]
    fn a_later_process_replaces_the_former_and_who_leaves_is_gone() {
        let mut roster = roster();
        roster.take(at(0), listed(&[(2, 1, "b")]));
        roster.take(at(1), listed(&[(2, 2, "b")]));
        let seen: Vec<Identity> = roster.others.keys().copied().collect();
        assert_eq!(seen, [identity(2, 2)]);
        let mut left = listed(&[(2, 2, "b")]);
        left.members[0].1.vitals.state = State::Left;
        assert!(roster.take(at(2), left));
        assert_eq!(standings(&roster).len(), 1);
    }

    #[test]
    fn the_dead_are_forgotten_where_somebody_asks_and_everywhere() {
        let (mut first, mut second) = (roster(), roster());
        for at_second in 0..=11 {
            let all: &[_] = if at_second < 11 { &[(2, 1, "b")] } else { &[] };
            first.take(at(at_second), listed(all));
            second.take(at(at_second), listed(all));
            let expected = if at_second < 11 { ForgetError::Alive } else { ForgetError::Unknown };
            let name = if at_second < 11 { "b" } else { "c" };
            assert_eq!(first.forget(name), Err(expected));
        }
        assert_eq!(first.forget("a"), Err(ForgetError::Alive));
        let forgotten = first.forget("b").expect("it is dead");
        assert_eq!(standings(&first).len(), 1);
        assert!(second.take(at(12), Listed { forgotten, ..Listed::default() }));
        assert_eq!(standings(&second).len(), 1);
    }

    #[test]
    fn no_more_members_are_kept_than_a_node_knows() {
        let mut roster = roster();
        let members = (0..2_000_u64).map(|number| {
            let identity = Identity { chance: number, ..identity(2, 1) };
            (identity, report(&format!("n{number}")))
        });
        roster.take(at(0), Listed { members: members.collect(), ..Listed::default() });
        assert_eq!(roster.others.len(), MEMBERS_MAX);
        assert_eq!(roster.traffic.crowded, 2_000 - MEMBERS_MAX as u64);
    }
}

//! The end of a run: the healed world comes to rest, and then everything is there.

use logsvc_cluster::map::{Epoch, Map, Partition};
use logsvc_cluster::member::{Accept, Input};

use super::env::{Event, Message, SECOND};
use super::process::Process;
use super::run::World;

impl World {
    pub(crate) fn unrest(&self) -> String {
        use std::fmt::Write as _;
        let mut text = format!("{} pushes are open;", self.env.ledger.open());
        for (epoch, process) in &self.processes {
            let _ = write!(
                text,
                " {epoch}: map {}, {} edits, wants {:?}, recovers {:?}, {:?};",
                process.member.number(),
                process.edits.len(),
                process.wanted_seals,
                process.recovering,
                process.unsettled,
            );
        }
        let _ = write!(text, " {:?}", self.env.ledger.newest().map(|entry| &entry.map));
        text
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        let Some(newest) = self.env.ledger.newest() else { return false };
        let map = &newest.map;
        self.env.ledger.open() == 0
            && map.members.keys().eq(self.processes.keys())
            && self.is_balanced(map)
            && map.slots.iter().all(|slot| {
                slot.next.is_none()
                    && slot.heritage.is_empty()
                    && slot.owner.is_some_and(|owner| map.members.contains_key(&owner))
            })
            && self.processes.values().all(|it| self.is_ready(it))
            // Who was told that somebody is gone who is not will fence it, unless it is a guest.
            && self.processes.values().filter(|it| !it.is_guest).all(|it| {
                !it.told_gone.iter().any(|gone| self.processes.contains_key(gone))
            })
            // Whoever has fenced it may have ended before it has said so.
            && !self.processes.keys().any(|me| self.env.store.is_fenced(*me))
            && self.processes.values().all(|it| {
                it.member.number() == newest.number
                    && it.asks.is_empty()
                    && it.pushes.is_empty()
                    && it.wal_flight.is_none()
                    && it.wal_queue.is_empty()
            })
    }

    /// Has those who are fenced and do not know write something.
    pub(crate) fn meet_fences(&mut self) {
        let fenced = self.processes.keys().filter(|me| self.env.store.is_fenced(**me));
        for me in fenced.copied().collect::<Vec<Epoch>>() {
            if let Some(process) = self.processes.get_mut(&me) {
                process.step(&mut self.env, Input::Fenced);
            }
            self.bury(me);
        }
    }

    /// Whether it stays, and the lease of all that it owns is over.
    fn is_ready(&self, process: &Process) -> bool {
        let now = process.local(&self.env);
        let mut partitions = 0..self.env.partitions;
        !process.is_leaving
            && partitions
                .all(|partition| process.member.may_accept(partition, now) != Accept::NotYet)
    }

    /// Whether shares of those that are no guests differ by at most one partition.
    pub(crate) fn is_balanced(&self, map: &Map) -> bool {
        let shares = self
            .processes
            .values()
            .filter(|process| !process.is_guest)
            .map(|process| process.me)
            .map(|epoch| map.slots.iter().filter(|slot| slot.owner == Some(epoch)).count());
        let (most, least) = (shares.clone().max(), shares.min());
        most.unwrap_or(0) <= least.unwrap_or(0) + 1
    }

    /// A query of everything, from each node, without the ordinary events beside it.
    pub(crate) fn last_look(&mut self) -> Result<(), String> {
        let everything: Vec<Partition> = (0..self.env.partitions).collect();
        let before = self.env.tally.answers;
        let asked = self.processes.len() as u64;
        self.env.is_at_rest = true;
        let begun = self.env.now + 1;
        let all: Vec<Epoch> = self.processes.keys().copied().collect();
        for to in all {
            let partitions = everything.clone();
            self.env
                .at(begun + 1, Event::To(to, Message::ClientQuery { query: begun, partitions }));
        }
        let until = self.env.now + 20 * SECOND;
        while self.env.now < until && self.env.tally.answers < before + asked {
            let Some(event) = self.env.next() else { break };
            if matches!(event, Event::Query) {
                continue;
            }
            self.take(event);
            if let Some(fault) = self.env.fault.take() {
                return Err(format!("at rest: {fault}"));
            }
        }
        if self.env.tally.answers < before + asked {
            return Err(format!("a query at rest has no answer: {}", self.unrest()));
        }
        Ok(())
    }
}

//! What goes wrong in a world, and the end of it.

use logsvc_cluster::map::Epoch;

use super::env::{Event, MS, Message, SECOND};
use super::run::World;

impl World {
    pub(crate) fn fault(&mut self) {
        if !self.env.is_faulty() {
            return self.heal();
        }
        self.env.after(300 * MS, 9 * SECOND, Event::Fault);
        let now = self.env.now;
        let until = now + self.env.rng.between(500 * MS, 15 * SECOND);
        match self.env.rng.below(13) {
            0..=2 => {
                let Some(epoch) = self.somebody() else { return };
                let Some(machine) = self.env.homes.get(&epoch).copied() else { return };
                self.env.tally.kills += 1;
                self.end(epoch);
                self.env.after(200 * MS, 20 * SECOND, Event::Start(machine));
            }
            3..=5 => {
                let Some(epoch) = self.somebody() else { return };
                self.env.tally.pauses += 1;
                self.env.paused.insert(epoch);
                let longest = *self.env.rng.pick(&[2, 5, 20, 60]);
                self.env.after(200 * MS, longest * SECOND, Event::Resume(epoch));
            }
            6 | 7 => {
                self.env.tally.cuts += 1;
                let count = self.env.machines.len();
                let (a, b) = (self.env.rng.index(count), self.env.rng.index(count));
                self.env.cuts.insert((a, b), until);
                if self.env.rng.one_in(2) {
                    self.env.cuts.insert((b, a), until);
                }
                let cut = self.env.rng.index(count);
                if let Some(machine) = self.env.machines.get_mut(cut).filter(|_| a != b) {
                    machine.no_clients_until = until;
                }
            }
            8 => {
                self.env.tally.outages += 1;
                let is_for_all = self.env.rng.one_in(3);
                let one = self.env.rng.index(self.env.machines.len());
                for (index, machine) in self.env.machines.iter_mut().enumerate() {
                    if is_for_all || index == one {
                        machine.no_store_until = until;
                    }
                }
            }
            9 | 10 => {
                self.env.tally.lies += 1;
                self.env.lies_until = until;
                self.env.victim = self.somebody().filter(|_| self.env.rng.one_in(2));
            }
            _ => {
                // A machine comes, or one goes in order.
                let idle = self.env.machines.iter().position(|it| !it.is_wanted);
                match (idle, self.somebody()) {
                    (Some(machine), _) if self.env.rng.one_in(2) => self.start(machine),
                    (_, Some(epoch)) if self.processes.len() > 1 => {
                        self.env.send(epoch, epoch, Message::Leave);
                    }
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.env.cuts.clear();
        self.env.lies_until = 0;
        for machine in &mut self.env.machines {
            machine.no_store_until = 0;
            machine.no_clients_until = 0;
        }
        let paused: Vec<Epoch> = self.env.paused.iter().copied().collect();
        for epoch in paused {
            self.resume(epoch);
        }
        for machine in 0..self.env.machines.len() {
            self.start(machine);
        }
    }

    pub(crate) fn resume(&mut self, epoch: Epoch) {
        if !self.env.paused.remove(&epoch) {
            return;
        }
        let Some(process) = self.processes.get_mut(&epoch) else { return };
        // What has come meanwhile is taken in any order.
        let mut messages = std::mem::take(&mut process.frozen);
        let newest = self.env.ledger.newest();
        let believes = (0..self.env.partitions)
            .any(|partition| process.member.map().owner(partition) == Some(epoch));
        let has_ended = newest.is_some_and(|entry| !entry.map.members.contains_key(&epoch));
        self.env.tally.zombie_owners += u64::from(believes && has_ended);
        while !messages.is_empty() {
            let index = self.env.rng.index(messages.len());
            self.deliver(epoch, messages.swap_remove(index));
        }
    }
}

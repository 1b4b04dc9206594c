//! One world: machines, processes, clients and faults, from a seed.

use std::collections::BTreeMap;

use logsvc_cluster::map::{Epoch, Partition};
use logsvc_cluster::member::{Input, Stop};

use super::Mutant;
use super::env::{Env, Event, MS, Machine, Message, SECOND};
use super::ledger::Tally;
use super::process::{Accepted, Process};

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) processes: BTreeMap<Epoch, Process>,
    epochs: u32,
}

/// How long a world may take to come to rest.
const REST: u64 = 400 * SECOND;
/// More events than any run has.
const EVENTS_MAX: u64 = 2_000_000;

/// Runs a world. `Err` says what nobody may see.
pub(crate) fn run(seed: u64, mutant: Option<Mutant>) -> Result<Tally, String> {
    let mut world = World::new(seed, mutant);
    for _ in 0..EVENTS_MAX {
        let Some(event) = world.env.next() else { return Err("nothing happens".to_owned()) };
        world.take(event);
        if let Some(fault) = world.env.fault.take() {
            return Err(format!("at {} ms: {fault}", world.env.now / MS));
        }
        if !world.env.is_faulty() {
            if world.env.now > world.env.heal_at + REST / 2 {
                world.meet_fences();
            }
            if world.is_at_rest() {
                world.last_look()?;
                return Ok(world.env.tally);
            }
            if world.env.now > world.env.heal_at + REST {
                return Err(format!("it does not come to rest: {}", world.unrest()));
            }
        }
    }
    Err(format!("too many events, at {} ms: {}", world.env.now / MS, world.unrest()))
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>) -> World {
        let mut env = Env::new(seed, 0, mutant);
        env.partitions = env.rng.between(1, 8) as Partition;
        env.is_quick = env.rng.one_in(3);
        env.notices_ends = env.rng.one_in(2);
        let count = env.rng.between(2, 5);
        let has_guests = env.rng.one_in(2);
        for machine in 0..count as usize {
            let offset = env.rng.below(1 << 50);
            let rate = match mutant {
                Some(Mutant::BrokenClocks) => *env.rng.pick(&[100, 1_000, 5_000]),
                Some(Mutant::BrokenClocksAtRest) => *env.rng.pick(&[300, 1_000, 3_000]),
                _ => env.rng.between(900, 1_100),
            };
            let is_wanted = machine < 2 || env.rng.one_in(2);
            env.machines.push(Machine {
                offset,
                rate,
                process: None,
                no_store_until: 0,
                no_clients_until: 0,
                is_wanted,
                has_guests: has_guests && machine > 0,
            });
            if is_wanted {
                env.after(0, 4 * SECOND, Event::Start(machine));
            }
        }
        let heal_at = env.now + env.rng.between(20, 90) * SECOND;
        env.heal_at = heal_at;
        env.after(SECOND, 8 * SECOND, Event::Fault);
        env.at(heal_at, Event::Fault);
        let most = if env.is_quick { 300 } else { 150 };
        for id in 0..env.rng.between(20, most) {
            let partition = env.rng.below(u64::from(env.partitions)) as Partition;
            let time = env.rng.between(SECOND, heal_at);
            env.ledger.pushed(id, partition);
            env.at(time, Event::ClientPush { id });
        }
        env.after(0, SECOND, Event::Query);
        World { env, processes: BTreeMap::new(), epochs: 0 }
    }

    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::To(to, message) => self.deliver(to, message),
            Event::AtStore { from, request, is_lost } => self.env.arrive(from, request, is_lost),
            Event::Resume(epoch) => self.resume(epoch),
            Event::Start(machine) => self.start(machine),
            Event::ClientPush { id } => self.client_pushes(id),
            Event::Query => self.client_asks(),
            Event::Fault => self.fault(),
        }
    }

    pub(crate) fn deliver(&mut self, to: Epoch, message: Message) {
        let Some(mut process) = self.processes.remove(&to) else { return };
        if self.env.paused.contains(&to) {
            process.frozen.push(message);
        } else {
            process.take(&mut self.env, message);
        }
        self.processes.insert(to, process);
        self.bury(to);
    }

    /// Ends a process that has stopped, and starts its machine again.
    pub(crate) fn bury(&mut self, epoch: Epoch) {
        let Some(process) = self.processes.get(&epoch) else { return };
        let Some(reason) = &process.stopped else { return };
        let machine = process.machine;
        let has_left = match reason {
            Stop::Ended => false,
            Stop::Left => true,
            Stop::Forked { .. } | Stop::Broken { .. } => {
                self.env.wrong(format!("{epoch} stops: {reason}"));
                false
            }
        };
        self.end(epoch);
        let Some(machine_now) = self.env.machines.get_mut(machine) else { return };
        if has_left {
            machine_now.is_wanted = false;
            self.env.tally.leaves += 1;
        }
        // In a world that is healed somebody has to take partitions: the first machine has no guests.
        if !self.env.is_faulty() && self.processes.values().all(|it| it.is_guest) {
            self.env.after(20 * MS, 100 * MS, Event::Start(0));
        }
        if !has_left || self.env.rng.one_in(2) {
            let slowest = if self.env.is_quick { 150 } else { 3_000 };
            self.env.after(20 * MS, slowest * MS, Event::Start(machine));
        }
    }

    pub(crate) fn end(&mut self, epoch: Epoch) {
        self.processes.remove(&epoch);
        self.env.paused.remove(&epoch);
        if let Some(home) = self.env.homes.remove(&epoch)
            && let Some(machine) = self.env.machines.get_mut(home)
        {
            machine.process = None;
        }
    }

    pub(crate) fn start(&mut self, machine: usize) {
        let Some(it) = self.env.machines.get_mut(machine) else { return };
        if it.process.is_some() {
            return;
        }
        self.epochs += 1;
        let epoch = Epoch(self.epochs);
        it.process = Some(epoch);
        it.is_wanted = true;
        self.env.homes.insert(epoch, machine);
        self.env.tally.joins += 1;
        let mut process = Process::new(epoch, machine, &mut self.env);
        process.step(&mut self.env, Input::Tick);
        self.processes.insert(epoch, process);
        self.env.after(MS, 500 * MS, Event::To(epoch, Message::Hint));
        self.env.after(MS, 500 * MS, Event::To(epoch, Message::Work));
    }

    pub(crate) fn somebody(&mut self) -> Option<Epoch> {
        let running: Vec<Epoch> = self.processes.keys().copied().collect();
        if running.is_empty() { None } else { Some(*self.env.rng.pick(&running)) }
    }

    pub(crate) fn client_pushes(&mut self, id: u64) {
        if self.env.ledger.done.contains(&id) {
            return;
        }
        self.env.tally.push_attempts += 1;
        let partition = self.env.ledger.partition(id);
        if let Some(to) = self.somebody().filter(|to| self.env.has_clients(*to)) {
            self.env.send(to, to, Message::ClientPush { id, partition });
        }
        self.env.after(3 * SECOND, 6 * SECOND, Event::ClientPush { id });
    }

    pub(crate) fn client_asks(&mut self) {
        let partitions: Vec<Partition> =
            (0..self.env.partitions).filter(|_| self.env.rng.one_in(2)).collect();
        let to = self.somebody().filter(|to| self.env.has_clients(*to));
        if let Some(to) = to.filter(|_| !partitions.is_empty()) {
            let query = self.env.now;
            self.env.send(to, to, Message::ClientQuery { query, partitions });
        }
        let busy = if self.env.is_quick { 200 } else { 600 };
        let slowest = if self.env.is_faulty() { busy } else { 8_000 };
        self.env.after(20 * MS, slowest * MS, Event::Query);
    }
}

impl Process {
    pub(crate) fn take(&mut self, env: &mut Env, message: Message) {
        match message {
            Message::Tick => self.step(env, Input::Tick),
            Message::Hint => self.hint(env),
            Message::Work => self.work(env),
            Message::Leave => {
                self.is_leaving = true;
                self.step(env, Input::Leave);
            }
            Message::MapRead { number, outcome } => self.step(env, Input::Read { number, outcome }),
            Message::MapCreated { number, outcome } => {
                self.step(env, Input::Created { number, outcome });
            }
            Message::FenceDone { epoch, ends } => self.step(env, Input::FenceDone { epoch, ends }),
            Message::FlushWal => self.flush_wal(env),
            Message::WalDone { put } => self.wal_done(env, put),
            Message::EditDone { put } => self.edit_done(env, put),
            Message::Recover { partition, since, from } => {
                self.recover(env, partition, since, from);
            }
            Message::ClientPush { id, partition } => self.client_pushes(env, id, partition),
            Message::ClientQuery { query, partitions } => self.client_asks(env, query, partitions),
            Message::Push { from, task, attempt, id, partition, number } => {
                self.pushed(env, Accepted { id, partition, from, task, attempt }, number);
            }
            Message::PushReply { task, attempt, reply } => {
                self.push_replied(env, task, attempt, reply);
            }
            Message::PushTimer { task } => self.go_on_push(env, task, None),
            Message::Ask { from, task, partitions, number } => {
                self.asked(env, from, task, partitions, number);
            }
            Message::AskReply { task, from, by, reply } => {
                self.go_on_ask(env, task, Some((from, by, reply)));
            }
            Message::AskTimer { task } => self.go_on_ask(env, task, None),
        }
    }
}

//! A process: a member and a model of the storage engine below it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use logsvc_cluster::map::{Epoch, MemberInfo, Partition, State};
use logsvc_cluster::member::{Effect, Input, Member, Stop};
use logsvc_cluster::settings::Settings;
use logsvc_runtime::Monotonic;

use super::Mutant;
use super::env::{Env, Event, MS, Message, Request};
use super::serve::{AskTask, Parked, PushTask};
use super::store::{Copy, Edit};

/// An accepted entry on its way to the write-ahead log, and who waits for it.
pub(crate) struct Accepted {
    pub(crate) id: u64,
    pub(crate) partition: Partition,
    pub(crate) from: Epoch,
    pub(crate) task: u64,
    pub(crate) attempt: u64,
}

pub(crate) struct Process {
    pub(crate) me: Epoch,
    pub(crate) machine: usize,
    pub(crate) is_guest: bool,
    pub(crate) settings: Settings,
    pub(crate) member: Member,
    pub(crate) frozen: Vec<Message>,
    pub(crate) stopped: Option<Stop>,
    // The engine.
    pub(crate) heads: BTreeMap<Partition, Vec<Copy>>,
    /// In the heads' place while the edit that takes them is under way.
    pub(crate) sealing: BTreeMap<Partition, Vec<Copy>>,
    /// Durable, and not to be seen before the replay.
    pub(crate) held: BTreeMap<Partition, Vec<Copy>>,
    pub(crate) recovering: BTreeMap<Partition, u64>,
    /// Heritages that are in the heads, and not settled.
    pub(crate) unsettled: BTreeMap<Partition, (u64, BTreeSet<Epoch>)>,
    pub(crate) wanted_seals: BTreeMap<Partition, u64>,
    /// Edits that are in the log.
    pub(crate) position: u64,
    pub(crate) edits: VecDeque<Rc<Edit>>,
    pub(crate) edit_on_way: bool,
    pub(crate) wal_next: u64,
    pub(crate) wal_queue: Vec<Accepted>,
    pub(crate) wal_flight: Option<(Vec<Accepted>, Rc<Vec<Copy>>, Monotonic)>,
    pub(crate) wal_timer: bool,
    // What it does for clients.
    pub(crate) pushes: BTreeMap<u64, PushTask>,
    pub(crate) asks: BTreeMap<u64, AskTask>,
    pub(crate) parked: Vec<Parked>,
    pub(crate) is_leaving: bool,
    /// Others whose processes have ended, as it was told.
    pub(crate) told_gone: BTreeSet<Epoch>,
    next_tick: u64,
}

impl Process {
    pub(crate) fn new(me: Epoch, machine: usize, env: &mut Env) -> Process {
        let mut settings = Settings {
            suspicion: std::time::Duration::from_millis(env.rng.between(1_500, 10_000)),
            orphan_patience: std::time::Duration::from_secs(8),
            ended_kept: env.rng.index(3),
            ..Settings::default()
        };
        if env.is_quick {
            settings.suspicion = std::time::Duration::from_millis(env.rng.between(50, 1_500));
            settings.propose_pause = std::time::Duration::from_millis(10);
        }
        if env.is(Mutant::NoLease) {
            settings.lease = std::time::Duration::ZERO;
        }
        if env.is(Mutant::NoProof) {
            settings.proof_max = std::time::Duration::from_secs(3_600);
        }
        let may_be = env.machines.get(machine).is_some_and(|it| it.has_guests);
        let is_guest = may_be && env.rng.one_in(2);
        env.tally.guests += u64::from(is_guest);
        let info = MemberInfo {
            name: format!("node-{machine}"),
            address: format!("node-{machine}:9095"),
            zone: String::new(),
            state: if is_guest { State::Guest } else { State::Active },
            position: 0,
        };
        // Some start from the newest map that a listing shows.
        let newest = env.ledger.newest().cloned();
        let known = newest.filter(|_| env.rng.one_in(2));
        let chance = env.rng.next_u64();
        let member = Member::new(settings.clone(), me, info, env.partitions, known, chance);
        Process {
            me,
            machine,
            is_guest,
            settings,
            member,
            frozen: Vec::new(),
            stopped: None,
            heads: BTreeMap::new(),
            sealing: BTreeMap::new(),
            held: BTreeMap::new(),
            recovering: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            wanted_seals: BTreeMap::new(),
            position: 0,
            edits: VecDeque::new(),
            edit_on_way: false,
            wal_next: 0,
            wal_queue: Vec::new(),
            wal_flight: None,
            wal_timer: false,
            pushes: BTreeMap::new(),
            asks: BTreeMap::new(),
            parked: Vec::new(),
            is_leaving: false,
            told_gone: BTreeSet::new(),
            next_tick: u64::MAX,
        }
    }

    pub(crate) fn local(&self, env: &Env) -> Monotonic {
        Monotonic(env.machines.get(self.machine).map_or(0, |machine| machine.local(env.now)))
    }

    pub(crate) fn step(&mut self, env: &mut Env, input: Input) {
        let now = self.local(env);
        let number = self.member.number();
        let mut effects = VecDeque::from(self.member.step(now, input));
        while let Some(effect) = effects.pop_front() {
            self.perform(env, effect);
        }
        if self.stopped.is_some() {
            return;
        }
        self.set_alarm(env);
        self.pump(env);
        self.ask_parked(env);
        if self.member.number() != number {
            self.wake_tasks(env);
        }
    }

    fn set_alarm(&mut self, env: &mut Env) {
        let wake = self.member.wake();
        if wake == Monotonic::NEVER {
            return;
        }
        let time = env.machines.get(self.machine).map_or(0, |machine| machine.world(wake.0));
        if time < self.next_tick || self.next_tick <= env.now {
            self.next_tick = time;
            env.at(time, Event::To(self.me, Message::Tick));
        }
    }

    fn perform(&mut self, env: &mut Env, effect: Effect) {
        match effect {
            Effect::ReadMap { number } => env.request(self.me, Request::ReadMap(number)),
            Effect::CreateMap { number, bytes } => {
                env.request(self.me, Request::CreateMap(number, Rc::new(bytes)));
            }
            Effect::Fence { epoch } => env.request(self.me, Request::Fence(epoch)),
            Effect::Recover { partition, since, from } => {
                self.recovering.insert(partition, since);
                env.tally.replays += 1;
                let slowest = match (env.is_quick, env.is_faulty()) {
                    (true, _) => 50,
                    (false, true) => 4_000,
                    (false, false) => 200,
                };
                let message = Message::Recover { partition, since, from };
                env.after(20 * MS, slowest * MS, Event::To(self.me, message));
            }
            Effect::Seal { partition, ticket } => {
                self.wanted_seals.insert(partition, ticket);
            }
            Effect::Adopt { epochs } => {
                let ended = &self.member.map().ended;
                let ends = ended.iter().filter(|(epoch, _)| epochs.contains(epoch));
                let ends = ends.map(|(epoch, ends)| (*epoch, *ends)).collect();
                let mut edit = env.store.adoption(&ends);
                if env.is(Mutant::ForgetWithoutAdoption) {
                    edit.adds.clear();
                }
                env.tally.adoptions += 1;
                self.append(env, edit);
            }
            Effect::Stop(reason) => self.stopped = Some(reason),
        }
    }

    /// Puts an edit behind those that are on their way.
    pub(crate) fn append(&mut self, env: &mut Env, mut edit: Edit) {
        edit.tag = env.unique();
        let copies = self.heads.values().chain(self.held.values()).flatten();
        let own = copies.filter(|copy| copy.at.0 == self.me).map(|copy| copy.at.1);
        edit.wal_from = own.min().unwrap_or(self.wal_next).min(self.wal_next);
        self.edits.push_back(Rc::new(edit));
        self.send_edit(env);
    }

    pub(crate) fn send_edit(&mut self, env: &mut Env) {
        if let Some(edit) = self.edits.front().filter(|_| !self.edit_on_way) {
            self.edit_on_way = true;
            env.request(self.me, Request::Edit(self.position, Rc::clone(edit)));
        }
    }

    /// Somebody whose process has ended; or any, if hints lie.
    fn gone(&mut self, env: &mut Env) -> Option<Epoch> {
        let is_lie = env.now < env.lies_until && env.rng.one_in(8);
        let members = self.member.map().members.keys().copied();
        let is_told = |peer: &Epoch| is_lie || env.notices_ends && !env.homes.contains_key(peer);
        let members: Vec<Epoch> = members.filter(is_told).collect();
        if members.is_empty() || env.rng.one_in(2) {
            return None;
        }
        let gone = *env.rng.pick(&members);
        if gone != self.me {
            self.told_gone.insert(gone);
        }
        env.tally.gone += 1;
        env.tally.gone_lies += u64::from(env.homes.contains_key(&gone));
        Some(gone)
    }

    pub(crate) fn hint(&mut self, env: &mut Env) {
        let mut alive: BTreeSet<Epoch> = env
            .homes
            .keys()
            .copied()
            .filter(|peer| env.is_reachable(self.me, *peer) && !env.paused.contains(peer))
            .collect();
        if env.now < env.lies_until && env.victim.is_some() {
            alive.retain(|peer| env.victim != Some(*peer));
        } else if env.now < env.lies_until {
            for peer in self.member.map().members.keys() {
                if env.rng.one_in(2) && !alive.remove(peer) {
                    alive.insert(*peer);
                }
            }
        }
        env.after(400 * MS, 900 * MS, Event::To(self.me, Message::Hint));
        self.step(env, Input::Alive(alive));
        if let Some(gone) = self.gone(env) {
            self.step(env, Input::Gone(gone));
        }
    }
}

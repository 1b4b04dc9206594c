//! A node among others: reads and writes maps, takes over from members that seem dead, hands over
//! what others should have, and knows what it may do as an owner.
//!
//! It is a machine without I/O: [`Member::step`] takes what has happened and gives what is to be done.
//!
//! Guarantees, if each effect is done as described and each input is true:
//! - It says that entries may be accepted, or a query answered, only while no other node says so of
//!   the same partition. For answers this needs that clocks go at the right rate, within a tenth.
//! - It never believes that it has or has not written a map before it has read whose map is there.
//! - It stops, and says why, when it was fenced, or when maps break the rules.
//! - A guest owns nothing, ends nobody but itself, and adopts nothing. It joins, reads on, and leaves.
//!
//! What can go wrong: hints of who is alive may lie. Then members are fenced that live, which costs
//! them a start as another writer.

mod change;
mod io;
mod own_log;
mod questions;
mod suspects;
mod tenure;

use std::collections::{BTreeMap, BTreeSet};

use logsvc_runtime::Monotonic;

pub use io::{CreateOutcome, Effect, Input, ReadOutcome, Stop};
pub use questions::{Accept, Answer, Hold};

use crate::map::codec::Entry;
use crate::map::{Ends, Epoch, Map, MemberInfo, Partition, State};
use crate::pause::Pause;
use crate::plan::plan;
use crate::proof::Proof;
use crate::settings::Settings;
use own_log::OwnLog;
use suspects::Suspects;
use tenure::{Handing, Tenure};

/// A node among others. See the module.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    me: Epoch,
    info: MemberInfo,
    own: OwnLog,
    proof: Proof,
    suspects: Suspects,
    tenures: BTreeMap<Partition, Tenure>,
    tickets: u64,
    /// Since when neither the map nor the living have changed.
    quiet_since: Monotonic,
    /// Ended owners, and since when they are known.
    ended_since: BTreeMap<Epoch, Monotonic>,
    planned: Planned,
    /// Writers that are fenced, of whom the map does not say so yet.
    fenced: BTreeMap<Epoch, Ends>,
    fencing: Option<Epoch>,
    fence_due: Monotonic,
    fence_pause: Pause,
    is_adopting: bool,
    adopted: Option<(BTreeSet<Epoch>, u64)>,
    is_leaving: bool,
    stopped: Option<Stop>,
    wake: Monotonic,
}

/// The plan for a map and those who live.
#[derive(Default, Debug)]
struct Planned {
    number: Option<u64>,
    alive: BTreeSet<Epoch>,
    owners: Vec<Option<Epoch>>,
}

impl Member {
    /// A node that has just taken the epoch `me`, in a cluster with so many partitions. `known` is
    /// some map that was read; reading goes on behind it. `info` tells the name and address of the
    /// node, and by its state whether it takes partitions. `chance` is a random number: two processes that are given one epoch, because the store
    /// does not keep creates apart, notice each other by it.
    #[must_use]
    pub fn new(
        settings: Settings,
        me: Epoch,
        info: MemberInfo,
        partitions: u16,
        known: Option<Entry>,
        chance: u64,
    ) -> Member {
        Member {
            own: OwnLog::new(me, partitions, known, chance),
            fence_pause: Pause::new(chance.rotate_left(21)),
            settings,
            me,
            info,
            proof: Proof::default(),
            suspects: Suspects::default(),
            tenures: BTreeMap::new(),
            tickets: 0,
            quiet_since: Monotonic(0),
            ended_since: BTreeMap::new(),
            planned: Planned::default(),
            fenced: BTreeMap::new(),
            fencing: None,
            fence_due: Monotonic(0),
            is_adopting: false,
            adopted: None,
            is_leaving: false,
            stopped: None,
            wake: Monotonic(0),
        }
    }

    /// The newest map that it knows.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.own.map
    }

    /// The writer that the node is.
    #[must_use]
    pub fn me(&self) -> Epoch {
        self.me
    }

    /// The number of [`Member::map`].
    #[must_use]
    pub fn number(&self) -> u64 {
        self.own.number
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&Stop> {
        self.stopped.as_ref()
    }

    /// When it wants [`Input::Tick`], at the latest.
    #[must_use]
    pub fn wake(&self) -> Monotonic {
        self.wake
    }

    /// Takes what has happened at `now`, and gives what is to be done, in this order. What is sent is
    /// taken to be sent at `now`.
    pub fn step(&mut self, now: Monotonic, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.stopped.is_some() {
            return effects;
        }
        // Pushes and queries say these often, and they give this node nothing to write.
        let is_light =
            matches!(input, Input::WalCreated { .. } | Input::ProofWanted | Input::Heard(_))
                && now < self.wake;
        let done = self.take(now, input, &mut effects).and_then(|()| {
            if is_light {
                self.go_on(now, &mut effects);
                return Ok(());
            }
            self.wake = Monotonic::NEVER;
            self.write_or_read(now, &mut effects)?;
            self.fence_and_adopt(now, &mut effects);
            Ok(())
        });
        if let Err(reason) = done {
            self.stopped = Some(reason.clone());
            self.tenures.clear();
            self.wake = Monotonic::NEVER;
            effects.push(Effect::Stop(reason));
        }
        effects
    }

    fn take(&mut self, now: Monotonic, input: Input, out: &mut Vec<Effect>) -> Result<(), Stop> {
        match input {
            Input::Tick => {}
            Input::Alive(alive) => self.suspects.hint(alive),
            Input::Gone(epoch) => self.suspects.note_gone(epoch, now),
            Input::Heard(number) => self.own.heard(number),
            Input::ProofWanted => {
                let holds = self.proof.holds(now, self.settings.proof_max);
                self.own.wants_proof(!holds);
            }
            Input::WalCreated { sent } => self.proof.shown(sent),
            Input::Fenced => return Err(Stop::Ended),
            Input::Read { number, outcome } => {
                let entry = self.own.read_done(now, number, outcome, &self.settings)?;
                if let Some(sent) = entry.absent_since {
                    self.proof.shown(sent);
                }
                if let Some(entry) = entry.entry {
                    self.follow(now, entry, out)?;
                }
            }
            Input::Created { number, outcome } => {
                if let Some((entry, sent)) = self.own.create_done(now, number, outcome)? {
                    self.proof.shown(sent);
                    self.follow(now, entry, out)?;
                }
            }
            Input::FenceDone { epoch, ends } => self.fence_done(now, epoch, ends),
            Input::Recovered { partition, since } => {
                if let Some(tenure) = self.tenure_since(partition, since) {
                    tenure.is_recovered = true;
                }
            }
            Input::Settled { partition, since } => {
                if let Some(tenure) = self.tenure_since(partition, since) {
                    tenure.is_settled = true;
                }
            }
            Input::Sealed { partition, ticket, position } => {
                if let Some(tenure) = self.tenures.get_mut(&partition)
                    && tenure.handing == (Handing::Sealing { ticket })
                {
                    tenure.handing = Handing::Sealed { position };
                }
            }
            Input::Adopted { epochs, position } => {
                self.is_adopting = false;
                self.adopted = Some((epochs, position));
            }
            Input::Leave => self.is_leaving = true,
        }
        Ok(())
    }

    fn tenure_since(&mut self, partition: Partition, since: u64) -> Option<&mut Tenure> {
        self.tenures.get_mut(&partition).filter(|tenure| tenure.since == since)
    }

    fn fence_done(&mut self, now: Monotonic, epoch: Epoch, ends: Option<Ends>) {
        self.fencing = None;
        match ends {
            Some(ends) => {
                self.fence_pause.reset();
                self.fenced.insert(epoch, ends);
            }
            None => self.fence_due = now.after(self.fence_pause.next(&self.settings)),
        }
    }

    /// Goes on to the next map.
    fn follow(&mut self, now: Monotonic, entry: Entry, out: &mut Vec<Effect>) -> Result<(), Stop> {
        let author = entry.author;
        self.own.follow(entry)?;
        self.quiet_since = now;
        let map = &self.own.map;
        if map.ended.contains_key(&self.me) {
            return Err(if author == self.me { Stop::Left } else { Stop::Ended });
        }
        self.fenced.retain(|epoch, _| map.members.contains_key(epoch));
        self.ended_since.retain(|epoch, _| map.ended.contains_key(epoch));
        for epoch in map.ended.keys() {
            self.ended_since.entry(*epoch).or_insert(now);
        }
        for (partition, slot) in map.partitions() {
            if slot.owner != Some(self.me) {
                self.tenures.remove(&partition);
                continue;
            }
            if self.tenures.contains_key(&partition) {
                continue;
            }
            // Who hands over has stopped answering before. After a claim nobody knows when the
            // earlier owner has stopped.
            let lease = if author == self.me { self.settings.lease } else { Default::default() };
            let has_heritage = !slot.heritage.is_empty();
            let tenure = Tenure::new(self.own.number, now.after(lease), has_heritage);
            self.tenures.insert(partition, tenure);
            if has_heritage {
                let from = slot.heritage.clone();
                out.push(Effect::Recover { partition, since: self.own.number, from });
            }
        }
        Ok(())
    }

    /// Whether a map that this node has sent, and that may be the next one, takes a partition from it.
    fn gives_away(&self, partition: Partition) -> bool {
        self.own.sent_map().is_some_and(|map| map.owner(partition) != Some(self.me))
    }

    /// Those who live, as far as this node knows, and the plan for them.
    fn look_around(&mut self, now: Monotonic) {
        self.suspects.look(self.me, &self.own.map, now);
        self.alarm(self.suspects.next(now, self.settings.suspicion));
        let mut alive: BTreeSet<Epoch> = self.own.map.members.keys().copied().collect();
        for (epoch, _) in self.suspects.dead(now, self.settings.suspicion) {
            alive.remove(&epoch);
        }
        alive.retain(|epoch| !self.fenced.contains_key(epoch));
        if alive != self.planned.alive {
            self.quiet_since = now;
        }
        let number = Some(self.own.number);
        if number != self.planned.number || alive != self.planned.alive {
            let owners = plan(&self.own.map, &alive);
            self.planned = Planned { number, alive, owners };
        }
    }

    /// How many live members that take partitions come before this one.
    fn rank(&self) -> u32 {
        let members = self.own.map.members.iter();
        let before = members.filter(|(epoch, info)| {
            **epoch < self.me && info.state == State::Active && self.planned.alive.contains(epoch)
        });
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    fn alarm(&mut self, time: Monotonic) {
        self.wake = self.wake.min(time);
    }

    /// Whether a time has come. If not, the node wants to be woken then.
    fn is_due(&mut self, now: Monotonic, time: Monotonic) -> bool {
        if time > now {
            self.alarm(time);
        }
        time <= now
    }

    /// Seals, then writes a map, if there is something to write, or reads the next one.
    fn write_or_read(&mut self, now: Monotonic, out: &mut Vec<Effect>) -> Result<(), Stop> {
        self.look_around(now);
        self.seal(now, out);
        if self.own.is_idle() && self.own.is_caught_up {
            if let Some(map) = self.change(now) {
                self.own.propose(self.me, map)?;
            } else if self.is_leaving && !self.own.map.members.contains_key(&self.me) {
                // It has never been there.
                return Err(Stop::Left);
            }
        }
        self.go_on(now, out);
        Ok(())
    }

    /// Sends what is due to the log of maps.
    fn go_on(&mut self, now: Monotonic, out: &mut Vec<Effect>) {
        let poll = if self.is_busy() { self.settings.busy_poll } else { self.settings.idle_poll };
        self.own.go_on(now, poll, out);
        self.alarm(self.own.next(poll));
    }

    /// Whether the next map is to be expected soon.
    fn is_busy(&self) -> bool {
        let map = &self.own.map;
        let owned = |slot: &crate::map::Slot| {
            slot.next.is_none() && slot.owner.is_some_and(|owner| map.members.contains_key(&owner))
        };
        self.is_leaving
            || !map.members.contains_key(&self.me)
            || self.planned.alive.len() < map.members.len()
            || !map.slots.iter().all(owned)
    }
}

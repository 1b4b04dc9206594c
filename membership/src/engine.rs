//! The machine: takes what has come and what time it is, and gives what is to be sent.
//!
//! The gossip engine `foca` (SWIM with suspicion) decides who is alive. This module gives it an
//! identity, bytes and vitals, and keeps the list of members.
//!
//! Guarantees:
//! - It does no I/O, and reads no clock. Chance comes from one number at the start.
//! - Whatever bytes come, it does not panic, and its memory has a bound.
//! - A node that was taken for dead takes a new identity as soon as it hears of that.
//!
//! What can go wrong: messages of the right label are believed. Who can send them can make a node
//! believe that others live or do not.

mod news;
mod requests;
mod roster;
mod sink;
mod states;
mod tuning;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use foca::Foca;
use logsvc_runtime::Monotonic;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use self::news::News;
pub use self::requests::{Change, ForgetError, Refused};
use self::roster::Roster;
use self::sink::Sink;
use self::tuning::tuning;
use crate::identity::Identity;
use crate::members::{MemberInfo, Members, Standing, Traffic};
use crate::settings::{MEMBERS_MAX, Settings};
use crate::vitals::{Report, State, Vitals, VitalsError};
use crate::wire::envelope::{self, Kind, Opened};
use crate::wire::{Damaged, Item, WireCodec, gossip};

/// How often an identity is given up at most because others tell of a newer one at the address.
const RIVAL_PAUSE: Duration = Duration::from_secs(1);

/// See the module.
pub struct Engine {
    settings: Settings,
    foca: Foca<Identity, WireCodec, SmallRng, News>,
    sink: Sink,
    roster: Rc<RefCell<Roster>>,
    random: SmallRng,
    incarnation: Rc<Cell<u16>>,
    own: Report,
    /// The identity under which the own vitals were told.
    told_as: Identity,
    started: Monotonic,
    has_left: bool,
    own_version: u64,
    heartbeat_due: Monotonic,
    exchange_due: Monotonic,
    prune_due: Monotonic,
    rival_due: Monotonic,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("identity", self.foca.identity()).finish_non_exhaustive()
    }
}

impl Engine {
    /// A node that starts at `now` and knows nobody. The settings are checked. `chance` is a random
    /// number.
    ///
    /// # Errors
    /// The vitals cannot be told.
    pub fn new(
        settings: Settings,
        identity: Identity,
        vitals: Vitals,
        chance: u64,
        now: Monotonic,
    ) -> Result<Engine, VitalsError> {
        vitals.check()?;
        let own_address = identity.address;
        let roster = Rc::new(RefCell::new(Roster::new(
            now,
            own_address,
            settings.forget_after(),
            settings.left_ingesters_timeout,
        )));
        let codec = WireCodec::default();
        let incarnation = Rc::clone(&codec.incarnation);
        let mut random = SmallRng::seed_from_u64(chance);
        let foca_random = SmallRng::from_rng(&mut random);
        let news = News { roster: Rc::clone(&roster) };
        let mut engine = Engine {
            foca: Foca::with_custom_broadcast(
                identity,
                tuning(&settings),
                foca_random,
                codec,
                news,
            ),
            sink: Sink::new(now, own_address, settings.cluster_label.clone()),
            roster,
            random,
            incarnation,
            own: Report { number: 0, vitals },
            told_as: identity,
            started: now,
            has_left: false,
            own_version: 0,
            heartbeat_due: now,
            exchange_due: now.after(settings.pull_push_interval),
            prune_due: Monotonic::NEVER,
            rival_due: now,
            settings,
        };
        engine.tick(now);
        Ok(engine)
    }

    /// This node.
    #[must_use]
    pub fn identity(&self) -> Identity {
        *self.foca.identity()
    }

    /// When it wants [`Engine::tick`], at the latest.
    #[must_use]
    pub fn wake(&self) -> Monotonic {
        let heartbeat_due = if self.has_left { Monotonic::NEVER } else { self.heartbeat_due };
        self.sink.next_due().min(heartbeat_due).min(self.prune_due)
    }

    /// The datagrams that are to be sent, and where to.
    pub fn outbox(&mut self) -> &mut VecDeque<(SocketAddr, Vec<u8>)> {
        &mut self.sink.outbox
    }

    /// What it has counted. The driver counts there, too.
    pub fn traffic(&mut self) -> &mut Traffic {
        &mut self.sink.traffic
    }

    fn at(&mut self, now: Monotonic) {
        self.sink.now = now;
        self.roster.borrow_mut().now = now;
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Monotonic) {
        self.at(now);
        while let Some(timer) = self.sink.pop_due() {
            if self.is_over(&timer) {
                continue;
            }
            if let Err(error) = self.foca.handle_timer(timer, &mut self.sink) {
                tracing::debug!(%error, "a timer of the gossip engine failed");
            }
        }
        if now >= self.heartbeat_due && !self.has_left {
            self.tell();
        }
        self.settle();
    }

    /// Whether a timer is the end of a suspicion that was contradicted. The engine does not take the
    /// member for dead then, and yet tells it so, which costs the member its identity.
    fn is_over(&self, timer: &foca::Timer<Identity>) -> bool {
        let foca::Timer::ChangeSuspectToDown { member_id, incarnation, .. } = timer else {
            return false;
        };
        let is_meant = |member: &foca::Member<Identity>| {
            member.id() == member_id
                && member.incarnation() == *incarnation
                && member.state() == foca::State::Suspect
        };
        !self.foca.iter_members().any(is_meant)
    }

    /// Takes a datagram.
    ///
    /// # Errors
    /// It was refused, and has changed nothing.
    pub fn datagram(&mut self, now: Monotonic, message: &[u8]) -> Result<(), Refused> {
        self.at(now);
        let taken = self.take_datagram(message);
        self.count(&taken);
        taken
    }

    fn take_datagram(&mut self, message: &[u8]) -> Result<(), Refused> {
        let opened = self.open(message)?;
        if opened.kind != Kind::Gossip {
            return Err(Damaged::Number.into());
        }
        let checked = gossip::check(opened.body)?;
        let (me, header) = (self.identity(), &checked.header);
        let is_for_any_life = header.message == foca::Message::Announce;
        if header.dst != me && !(is_for_any_life && header.dst.address == me.address) {
            return Err(Refused::Misdirected);
        }
        let named = checked.named.iter().chain([&header.src]);
        self.make_room(named.clone())?;
        {
            let mut roster = self.roster.borrow_mut();
            named.for_each(|identity| roster.see(*identity));
            roster.news_from(header.src);
        }
        self.sink.traffic.received += 1;
        if let Err(error) = self.foca.handle_data(opened.body, &mut self.sink) {
            tracing::debug!(%error, "the gossip engine refuses a datagram");
        }
        self.settle();
        Ok(())
    }

    fn open<'a>(&self, message: &'a [u8]) -> Result<Opened<'a>, Refused> {
        let opened = envelope::open(message)?;
        // Else it would take another identity as soon as it heard that it is gone.
        if self.has_left {
            return Err(Refused::Misdirected);
        }
        let is_ours = opened.label == self.settings.cluster_label
            || self.settings.cluster_label_verification_disabled;
        if is_ours { Ok(opened) } else { Err(Refused::Label) }
    }

    fn count<T>(&mut self, taken: &Result<T, Refused>) {
        let traffic = &mut self.sink.traffic;
        match taken {
            Ok(_) => {}
            Err(Refused::Damaged(_)) => traffic.damaged += 1,
            Err(Refused::Label) => traffic.foreign += 1,
            Err(Refused::Misdirected) => traffic.misdirected += 1,
            Err(Refused::Crowded) => traffic.crowded += 1,
        }
    }

    /// Checks that a message does not bring too many members.
    fn make_room<'a>(
        &self,
        named: impl Iterator<Item = &'a Identity> + Clone,
    ) -> Result<(), Refused> {
        // Nearly always there is room for all of them.
        if self.foca.iter_membership_state().len() + named.clone().count() <= MEMBERS_MAX {
            return Ok(());
        }
        let known: BTreeSet<SocketAddr> =
            self.foca.iter_membership_state().map(|member| member.id().address).collect();
        let strangers: BTreeSet<SocketAddr> = named
            .map(|identity| identity.address)
            .filter(|address| !known.contains(address))
            .collect();
        let has_room = known.len() + strangers.len() <= MEMBERS_MAX;
        if has_room { Ok(()) } else { Err(Refused::Crowded) }
    }

    /// Tells the own vitals, with a new number.
    fn tell(&mut self) {
        self.own.number += 1;
        self.heartbeat_due = self.sink.now.after(self.settings.heartbeat_period);
        self.told_as = self.identity();
        let item = Item::Vitals(self.told_as, self.own.clone());
        if let Err(error) = self.foca.add_broadcast(&item.encode()) {
            tracing::debug!(%error, "the own vitals cannot be told");
        }
    }

    /// Brings the list in line with the engine, and the own identity in line with what others say.
    fn settle(&mut self) {
        self.outlive_rival();
        if self.told_as != self.identity() {
            self.own_version += 1;
            if !self.has_left {
                self.tell();
            }
        }
        let mut roster = self.roster.borrow_mut();
        for member in self.foca.iter_membership_state() {
            roster.confirm(member);
        }
        self.prune_due = roster.prune();
    }

    /// Takes a newer identity than a rival at the own address: a former life, after the clock has
    /// gone back.
    fn outlive_rival(&mut self) {
        let (me, now) = (self.identity(), self.sink.now);
        let rival = self.roster.borrow_mut().rival.take_if(|_| now >= self.rival_due);
        let Some(rival) = rival.filter(|rival| rival.is_newer_than(&me) && !self.has_left) else {
            return;
        };
        self.rival_due = now.after(RIVAL_PAUSE);
        if let Some(newer) = me.above(&rival) {
            self.sink.traffic.renewed += 1;
            if let Err(error) = self.foca.change_identity(newer, &mut self.sink) {
                tracing::debug!(%error, "the identity cannot be changed");
            }
        }
    }

    /// Changes the own vitals, and tells others. A node that has left has nothing to say.
    pub fn change(&mut self, now: Monotonic, change: Change) {
        self.at(now);
        if self.has_left {
            return;
        }
        let before = self.own.vitals.clone();
        change.apply(&mut self.own.vitals);
        if self.own.vitals != before {
            self.own_version += 1;
            self.tell();
        }
        self.settle();
    }

    /// Forgets dead members with this instance ID, here and elsewhere.
    ///
    /// # Errors
    /// There is none, or one with the name is alive and none is dead.
    pub fn forget(&mut self, now: Monotonic, instance: &str) -> Result<(), ForgetError> {
        self.at(now);
        let named: Vec<MemberInfo> = self.members().named(instance).cloned().collect();
        let dead = named.iter().filter(|member| member.standing == Standing::Dead);
        let mut result =
            Err(if named.is_empty() { ForgetError::Unknown } else { ForgetError::Alive });
        for member in dead {
            if self.foca.add_broadcast(&Item::Forget(member.identity).encode()).is_ok() {
                result = Ok(());
            }
        }
        self.settle();
        result
    }

    /// Tells others that this node leaves for good. Afterwards it neither probes nor answers.
    pub fn leave(&mut self, now: Monotonic) {
        self.at(now);
        if self.has_left {
            return;
        }
        self.own.vitals.state = State::Left;
        self.own_version += 1;
        self.tell();
        self.has_left = true;
        if let Err(error) = self.foca.leave_cluster(&mut self.sink) {
            tracing::debug!(%error, "leaving cannot be told");
        }
        self.settle();
    }

    /// The version of [`Engine::members`].
    #[must_use]
    pub fn version(&self) -> u64 {
        self.roster.borrow().version + self.own_version
    }

    /// The list for others.
    #[must_use]
    pub fn members(&self) -> Members {
        let roster = self.roster.borrow();
        let mut list = roster.list();
        let me = self.identity();
        if !self.has_left {
            let place = list.partition_point(|member| member.identity.address < me.address);
            let own = MemberInfo {
                identity: me,
                incarnation: self.incarnation.get(),
                standing: Standing::Alive,
                since: self.started,
                last_news: self.sink.now,
                vitals: self.own.vitals.clone(),
            };
            list.insert(place, own);
        }
        Members { version: self.version(), me, list, traffic: self.sink.traffic }
    }

    fn random_below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }
}

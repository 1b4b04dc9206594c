//! Exchanges of whole states: with whom and when, what is said, and what is believed of it.
//!
//! A death is believed only of a member that this node took for alive, so nobody learns of old
//! deaths, and they do not go round for ever.

use std::net::SocketAddr;
use std::time::Duration;

use foca::Member;
use logsvc_runtime::Monotonic;

use super::{Engine, Refused};
use crate::identity::Identity;
use crate::vitals::Report;
use crate::wire::envelope::{Kind, seal};
use crate::wire::{Damaged, Item, state};

/// How long a member may be known without its vitals until it is asked for them, and how often.
const VITALS_PATIENCE: Duration = Duration::from_secs(1);
const VITALS_PAUSE: Duration = Duration::from_secs(5);

impl Engine {
    /// A member with which a state is to be exchanged now, if there is one.
    pub fn exchange_partner(&mut self, now: Monotonic) -> Option<SocketAddr> {
        self.at(now);
        let is_due = |record: &&mut super::roster::Record| {
            record.is_alive()
                && record.report.is_none()
                && now.since(record.since) >= VITALS_PATIENCE
                && record.asked.is_none_or(|asked| now.since(asked) >= VITALS_PAUSE)
        };
        let silent = self.roster.borrow_mut().records.values_mut().find(is_due).map(|record| {
            record.asked = Some(now);
            record.identity.address
        });
        if silent.is_some() || now < self.exchange_due || self.settings.pull_push_interval.is_zero()
        {
            return silent;
        }
        self.exchange_due = now.after(self.settings.pull_push_interval);
        self.random_member()
    }

    /// A member that counts as alive, by chance.
    pub fn random_member(&mut self) -> Option<SocketAddr> {
        let active: Vec<SocketAddr> =
            self.foca.iter_members().map(|member| member.id().address).collect();
        if active.is_empty() {
            return None;
        }
        let place = self.random_below(active.len());
        Some(active[place])
    }

    /// Whether this node or a member that counts as alive is at the address.
    #[must_use]
    pub fn knows(&self, address: SocketAddr) -> bool {
        self.identity().address == address
            || self.foca.iter_members().any(|member| member.id().address == address)
    }

    /// Whether any other member counts as alive.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.foca.num_members() > 0
    }

    /// A message with the own state that asks for that of the receiver.
    #[must_use]
    pub fn ask(&self) -> Vec<u8> {
        self.own_state(Kind::Ask)
    }

    fn own_state(&self, kind: Kind) -> Vec<u8> {
        let state = if self.has_left { foca::State::Down } else { foca::State::Alive };
        let me = Member::new(self.identity(), self.incarnation.get(), state);
        let roster = self.roster.borrow();
        let others = self
            .foca
            .iter_membership_state()
            .filter(|member| member.id().address != me.id().address)
            .map(|member| {
                let record = roster.records.get(&member.id().address);
                let record = record.filter(|record| record.identity == *member.id());
                (member, record.and_then(|record| record.report.as_ref()))
            });
        let body = state::encode([(&me, Some(&self.own))].into_iter().chain(others));
        seal(kind, &self.settings.cluster_label, &body)
    }

    /// Takes a state. Gives the answer, if the sender asks for one.
    ///
    /// # Errors
    /// It was refused, and has changed nothing.
    pub fn state(&mut self, now: Monotonic, message: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        self.at(now);
        let taken = self.take_state(message);
        self.count(&taken);
        let is_question = taken? == Kind::Ask;
        self.sink.traffic.answered += u64::from(is_question);
        Ok(is_question.then(|| self.own_state(Kind::Answer)))
    }

    fn take_state(&mut self, message: &[u8]) -> Result<Kind, Refused> {
        let opened = self.open(message)?;
        if opened.kind == Kind::Gossip {
            return Err(Damaged::Number.into());
        }
        let entries = state::decode(opened.body)?;
        self.make_room(entries.iter().map(|entry| entry.member.id()))?;
        {
            let mut roster = self.roster.borrow_mut();
            entries.iter().for_each(|entry| roster.see(*entry.member.id()));
        }
        // A newer identity has to be there before others are believed: taking it forgets them.
        self.outlive_rival();
        let me = self.identity();
        let (mut members, mut reports) = (Vec::new(), Vec::new());
        for entry in entries {
            let id = *entry.member.id();
            if id.address == me.address && id != me {
                continue;
            }
            let is_death = entry.member.state() == foca::State::Down;
            let is_news_of_death = || {
                let roster = self.roster.borrow();
                let known = roster.records.get(&id.address);
                let is_over = |known: &super::roster::Record| {
                    known.is_alive() && !known.identity.is_newer_than(&id)
                };
                id == me || known.is_some_and(is_over)
            };
            if is_death && !is_news_of_death() {
                continue;
            }
            reports.extend(entry.report.map(|report| (id, report)));
            members.push(entry.member);
        }
        // Vitals first: they tell a death from a departure.
        self.hear(reports);
        if let Err(error) = self.foca.apply_many(members.into_iter(), true, &mut self.sink) {
            tracing::debug!(%error, "the gossip engine refuses a state");
        }
        self.settle();
        Ok(opened.kind)
    }

    fn hear(&mut self, reports: Vec<(Identity, Report)>) {
        for (id, report) in reports {
            if id != self.identity()
                && let Err(error) = self.foca.add_broadcast(&Item::Vitals(id, report).encode())
            {
                tracing::debug!(%error, "vitals cannot be passed on");
            }
        }
    }
}

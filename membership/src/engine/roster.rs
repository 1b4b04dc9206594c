//! What is known of each address: which life, what is believed of it, what it has told.
//!
//! Guarantees: there are at most [`MEMBERS_MAX`] records of members, and as many of others of whom
//! only vitals have come. The dead, those that have left, and those of whom only others have told are
//! forgotten in time. A member is listed as soon as it has told of itself and the engine has confirmed
//! it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use foca::Member;
use logsvc_runtime::Monotonic;

use crate::identity::Identity;
use crate::members::{MemberInfo, Standing};
use crate::settings::MEMBERS_MAX;
use crate::vitals::{Report, State};

/// How long vitals of somebody are kept of whom the engine knows nothing.
const RUMOUR_KEPT: Duration = Duration::from_secs(60);

/// What is believed of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Belief {
    /// There are vitals, and the engine has not confirmed the member.
    Rumour,
    Listed(Standing),
    /// It has told that it leaves.
    Left,
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) identity: Identity,
    incarnation: u16,
    pub(super) belief: Belief,
    pub(super) since: Monotonic,
    last_news: Monotonic,
    pub(super) report: Option<Report>,
    /// When it was asked for its vitals.
    pub(super) asked: Option<Monotonic>,
}

impl Record {
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.belief, Belief::Listed(Standing::Alive | Standing::Suspected))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Roster {
    pub(super) now: Monotonic,
    own_address: SocketAddr,
    pub(super) records: BTreeMap<SocketAddr, Record>,
    /// The newest identity at the own address that others have told of.
    pub(super) rival: Option<Identity>,
    /// Grows when the list changes.
    pub(super) version: u64,
    forget_after: Duration,
    left_kept: Duration,
}

impl Roster {
    pub(super) fn new(
        now: Monotonic,
        own_address: SocketAddr,
        forget_after: Duration,
        left_kept: Duration,
    ) -> Roster {
        Roster {
            now,
            own_address,
            records: BTreeMap::new(),
            rival: None,
            version: 1,
            forget_after,
            left_kept,
        }
    }

    fn record(&self, identity: Identity, belief: Belief, report: Option<Report>) -> Record {
        let (since, last_news) = (self.now, self.now);
        Record { identity, incarnation: 0, belief, since, last_news, report, asked: None }
    }

    /// Notes an identity at the own address.
    pub(super) fn see(&mut self, identity: Identity) {
        if identity.address == self.own_address
            && self.rival.is_none_or(|rival| identity.is_newer_than(&rival))
        {
            self.rival = Some(identity);
        }
    }

    pub(super) fn is_own(&self, address: SocketAddr) -> bool {
        address == self.own_address
    }

    /// A message has come from this member.
    pub(super) fn news_from(&mut self, identity: Identity) {
        let now = self.now;
        if let Some(record) = self.records.get_mut(&identity.address)
            && record.identity == identity
            && record.is_alive()
        {
            record.last_news = now;
        }
    }

    /// Takes vitals of another member. Whether they are news.
    pub(super) fn hear(&mut self, identity: Identity, report: Report) -> bool {
        let has_left = report.vitals.state == State::Left;
        let count = self.records.len();
        let now = self.now;
        match self.records.get_mut(&identity.address) {
            _ if identity.address == self.own_address => false,
            Some(record) if record.identity == identity => {
                if record.report.as_ref().is_some_and(|known| known.number >= report.number) {
                    return false;
                }
                let is_same =
                    record.report.as_ref().is_some_and(|known| known.vitals == report.vitals);
                record.last_news = now;
                record.report = Some(report);
                if has_left && record.belief != Belief::Left {
                    (record.belief, record.since) = (Belief::Left, now);
                }
                self.version += u64::from(!is_same);
                true
            }
            Some(record) if !identity.is_newer_than(&record.identity) => false,
            None if count >= MEMBERS_MAX => false,
            known => {
                self.version += u64::from(known.is_some());
                let belief = if has_left { Belief::Left } else { Belief::Rumour };
                let record = self.record(identity, belief, Some(report));
                self.records.insert(identity.address, record);
                true
            }
        }
    }

    /// Forgets a dead member. Whether there was one.
    pub(super) fn forget(&mut self, identity: Identity) -> bool {
        let is_dead = self.records.get(&identity.address).is_some_and(|record| {
            record.identity == identity && record.belief == Belief::Listed(Standing::Dead)
        });
        if is_dead {
            self.records.remove(&identity.address);
            self.version += 1;
        }
        is_dead
    }

    /// Takes over what the engine believes.
    pub(super) fn confirm(&mut self, member: &Member<Identity>) {
        let identity = *member.id();
        if identity.address == self.own_address {
            return;
        }
        let standing = match member.state() {
            foca::State::Alive => Standing::Alive,
            foca::State::Suspect => Standing::Suspected,
            foca::State::Down => Standing::Dead,
        };
        let now = self.now;
        match self.records.get_mut(&identity.address) {
            Some(record) if record.identity == identity => {
                record.incarnation = member.incarnation();
                let believed = match (record.belief, standing) {
                    (Belief::Left, _) => Belief::Left,
                    (Belief::Rumour, Standing::Dead) => Belief::Rumour,
                    (_, standing) => Belief::Listed(standing),
                };
                if believed != record.belief {
                    (record.belief, record.since) = (believed, now);
                    self.version += 1;
                }
            }
            Some(record) if !identity.is_newer_than(&record.identity) => {}
            None if standing == Standing::Dead => {}
            // A later life has come and gone meanwhile.
            Some(record) if standing == Standing::Dead => {
                if record.is_alive() {
                    (record.belief, record.since) = (Belief::Listed(Standing::Dead), now);
                    self.version += 1;
                }
            }
            known => {
                self.version += u64::from(known.is_some());
                // The same process, which had to take another identity: what it has told holds.
                let report = known
                    .filter(|former| former.identity.chance == identity.chance)
                    .and_then(|former| former.report.take());
                let mut record = self.record(identity, Belief::Listed(standing), report);
                record.incarnation = member.incarnation();
                self.records.insert(identity.address, record);
            }
        }
    }

    /// Until when a record is kept.
    fn kept_until(&self, record: &Record) -> Monotonic {
        match record.belief {
            Belief::Rumour => record.since.after(RUMOUR_KEPT),
            Belief::Left => record.since.after(self.left_kept),
            // Nobody can do anything with a dead member that has told nothing.
            Belief::Listed(Standing::Dead) if record.report.is_none() => record.since,
            Belief::Listed(Standing::Dead) => record.last_news.after(self.forget_after),
            Belief::Listed(_) => Monotonic::NEVER,
        }
    }

    /// Forgets what has been kept long enough. Gives when that is so of the next record.
    pub(super) fn prune(&mut self) -> Monotonic {
        let until: Vec<(SocketAddr, Monotonic)> = self
            .records
            .iter()
            .map(|(address, record)| (*address, self.kept_until(record)))
            .collect();
        let mut next = Monotonic::NEVER;
        for (address, until) in until {
            if until <= self.now {
                self.records.remove(&address);
                self.version += 1;
            } else {
                next = next.min(until);
            }
        }
        next
    }

    /// The list for others, without this node.
    pub(super) fn list(&self) -> Vec<MemberInfo> {
        let listed = self.records.values().filter_map(|record| match record.belief {
            Belief::Listed(standing) => Some(MemberInfo {
                identity: record.identity,
                incarnation: record.incarnation,
                standing,
                since: record.since,
                last_news: record.last_news,
                vitals: record.report.as_ref()?.vitals.clone(),
            }),
            Belief::Rumour | Belief::Left => None,
        });
        listed.collect()
    }
}

//! The list of members that all cores of a node see.
//!
//! Guarantees: a list never changes; a newer one takes its place. Who waits for a change misses none.
//!
//! What can go wrong: the list is a hint. It may lack members that live, and have some that do not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Published};

use crate::identity::Identity;
use crate::vitals::Vitals;

/// What is believed of a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Standing {
    /// It lives.
    Alive,
    /// It has not answered. It counts as alive until the suspicion ends.
    Suspected,
    /// It is taken for dead, and not yet forgotten.
    Dead,
}

/// A member as this node knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// Which life of which node.
    pub identity: Identity,
    /// How often it has contradicted suspicions.
    pub incarnation: u16,
    /// What is believed of it.
    pub standing: Standing,
    /// Since when, by the clock of this node.
    pub since: Monotonic,
    /// Its last sign of life: a message from it, or new vitals that others passed on.
    pub last_news: Monotonic,
    /// What it has told last.
    pub vitals: Vitals,
}

impl MemberInfo {
    /// Whether it counts as alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.standing != Standing::Dead
    }

    /// The age of the last sign of life.
    #[must_use]
    pub fn age(&self, now: Monotonic) -> Duration {
        now.since(self.last_news)
    }
}

/// What a node has counted of its messages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that could not be sent, or that nobody was there to send.
    pub unsent: u64,
    /// Datagrams that were taken.
    pub received: u64,
    /// Messages that were damaged, or of an unknown version or kind.
    pub damaged: u64,
    /// Messages with the label of another cluster.
    pub foreign: u64,
    /// Datagrams for another life of this node, or for another node.
    pub misdirected: u64,
    /// Messages that would have brought more members than a node keeps.
    pub crowded: u64,
    /// Datagrams that came while too many others waited.
    pub overrun: u64,
    /// States that were exchanged because this node asked.
    pub asked: u64,
    /// Attempts to do so that have failed.
    pub ask_failed: u64,
    /// States that were exchanged because another node asked.
    pub answered: u64,
    /// How often this node took a new identity, because it was taken for dead.
    pub renewed: u64,
}

/// All members that a node knows and that have told of themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    /// Grows with each change of who is there, of what is believed of it, and of what it tells.
    pub version: u64,
    /// This node. It is in the list.
    pub me: Identity,
    /// The members, by address.
    pub list: Vec<MemberInfo>,
    /// What this node has counted.
    pub traffic: Traffic,
}

impl Members {
    /// Those that count as alive.
    pub fn alive(&self) -> impl Iterator<Item = &MemberInfo> {
        self.list.iter().filter(|member| member.is_alive())
    }

    /// The epochs of the writers that count as alive.
    #[must_use]
    pub fn writers(&self) -> BTreeSet<u32> {
        self.alive().filter_map(|member| member.vitals.writer_epoch).collect()
    }

    /// The members with this instance ID.
    pub fn named<'a>(&'a self, instance: &'a str) -> impl Iterator<Item = &'a MemberInfo> {
        self.list.iter().filter(move |member| member.vitals.instance == instance)
    }
}

/// The newest [`Members`], on all cores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct View(Published<Members>);

impl View {
    pub(crate) fn new(members: Members) -> View {
        View(Published::new(members))
    }

    /// The newest list.
    #[must_use]
    pub fn members(&self) -> Arc<Members> {
        self.0.get()
    }

    /// Ends as soon as the newest list is of a later version than `seen`, and gives it.
    pub async fn changed(&self, seen: u64) -> Arc<Members> {
        self.0.when(|members| members.version > seen).await
    }

    /// Changes the list.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Members)) {
        self.0.update(|members| {
            change(members);
            members.version += 1;
        });
    }

    /// Puts a list in the place of the former one.
    pub(crate) fn publish(&self, members: Members) {
        self.0.replace(members);
    }
}

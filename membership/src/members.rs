//! The list of members that all cores of a node see.
//!
//! Guarantees: a list never changes; a newer one takes its place. Who waits for a change misses none.
//!
//! A mutex guards the pointer to the list (ARCHITECTURE.md, *Locks*). It is held for a copy of the
//! pointer, or for a change of the one member of a node without others; never while a waker runs.
//!
//! What can go wrong: the list is a hint. It may lack members that live, and have some that do not.

use std::collections::BTreeSet;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use logsvc_runtime::{Latch, Monotonic};

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
pub struct View {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    members: Arc<Members>,
    /// Triggered when another version takes the place of this one.
    replaced: Latch,
}

impl View {
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    pub(crate) fn new(members: Members) -> View {
        let current = Current { members: Arc::new(members), replaced: Latch::new() };
        View { shared: Arc::new(Shared { current: Mutex::new(current) }) }
    }

    fn with<T>(&self, with: impl FnOnce(&mut Current) -> T) -> T {
        // A panic ends the process, so poison says nothing here.
        with(&mut self.shared.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest list.
    #[must_use]
    pub fn members(&self) -> Arc<Members> {
        self.with(|current| Arc::clone(&current.members))
    }

    /// Ends as soon as the newest list is of a later version than `seen`, and gives it.
    pub async fn changed(&self, seen: u64) -> Arc<Members> {
        loop {
            let (members, replaced) =
                self.with(|current| (Arc::clone(&current.members), current.replaced.clone()));
            if members.version > seen {
                return members;
            }
            replaced.wait().await;
        }
    }

    /// Changes the list.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Members)) {
        let replaced = self.with(|current| {
            let members = Arc::make_mut(&mut current.members);
            change(members);
            members.version += 1;
            std::mem::take(&mut current.replaced)
        });
        replaced.trigger();
    }

    /// Puts a list in the place of the former one.
    pub(crate) fn publish(&self, members: Members) {
        let members = Arc::new(members);
        let replaced = self.with(|current| {
            let is_change = members.version != current.members.version;
            current.members = members;
            is_change.then(|| std::mem::take(&mut current.replaced))
        });
        if let Some(latch) = replaced {
            latch.trigger();
        }
    }
}

//! The map: who is there, who owns which partition, and what ended writers have left behind.
//!
//! A map is a value. Maps have numbers; number 0 is [`Map::empty`], and each later one is an object
//! of the log `own`, which whoever creates it has written for all. So everybody who knows the map of a
//! number knows the same one.
//!
//! Guarantee: a map that [`Map::check`] accepts is consistent in itself. Which map may follow which
//! is told in [`rules`], the bytes in [`codec`].

pub mod codec;
pub mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most partitions of a cluster.
pub const PARTITIONS_MAX: usize = 65_535;
/// Most live writers.
pub const MEMBERS_MAX: usize = 4_096;
/// Most ended writers that are not forgotten yet.
pub const ENDED_MAX: usize = 65_536;
/// Most bytes of a name, an address or a zone.
pub const TEXT_MAX_BYTES: usize = 255;
/// Most names of ended writers in the heritages of all partitions together. It bounds what a
/// decoder may be made to allocate.
pub const HERITAGE_MAX: usize = 1 << 20;

/// The number of a writer: no two processes in the world ever have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Stands for "nobody" in bytes, so it is nobody's number.
    pub const NOBODY: Epoch = Epoch(u32::MAX);
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The number of a partition, from 0.
pub type Partition = u16;

/// Whether a member takes partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Active,
    /// It hands its partitions over, and is going to stop.
    Leaving,
    /// It never takes any. It writes no entries, and asks owners for those of others.
    Guest,
}

/// A live writer. One that has died is a member, too, until somebody has fenced it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberInfo {
    /// The name of the node, for people. A node has the same one after a restart, under another epoch.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The failure domain that it is in; may be empty.
    pub zone: String,
    /// Whether it takes partitions.
    pub state: State,
    /// How many edits of its log everybody has to know who answers by this map: those of partitions
    /// that it has handed over, and of logs that it has adopted. Never falls.
    pub position: u64,
}

/// Where the logs of a writer end for ever: the numbers of its fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Of its log of edits, which is as many as count.
    pub log: u64,
    /// Of its write-ahead log.
    pub wal: u64,
}

/// What a map says of one partition.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The only writer that acknowledges and answers. Once there is one, there always is: it may
    /// have ended, and then anybody may claim the partition.
    pub owner: Option<Epoch>,
    /// Who is going to own it, by the hand of the owner. A proposal.
    pub next: Option<Epoch>,
    /// Ended writers whose write-ahead logs may have entries of this partition that are in no live
    /// segment.
    pub heritage: BTreeSet<Epoch>,
}

/// Who is there and owns what. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Writers that are not fenced.
    pub members: BTreeMap<Epoch, MemberInfo>,
    /// Writers that are fenced, and that somebody still has to know of.
    pub ended: BTreeMap<Epoch, Ends>,
    /// One per partition.
    pub slots: Vec<Slot>,
}

/// Why a map is none, or may not follow another.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The bytes are not those of a map.
    #[error("the bytes are no map: {0}")]
    Damaged(&'static str),
    /// The bytes are of another version.
    #[error("the map has version {0}, which this program does not know")]
    Version(u32),
    /// More than a map may have.
    #[error("the map has too many {0}")]
    TooMany(&'static str),
    /// It contradicts itself.
    #[error("the map contradicts itself: {0}")]
    Inconsistent(&'static str),
    /// It breaks a rule about what may follow.
    #[error("the writer {author} broke a rule: {rule}")]
    Rule {
        /// Who has written the map.
        author: Epoch,
        /// What is not allowed.
        rule: &'static str,
    },
}

impl Map {
    /// The map number 0 of a cluster with so many partitions: nobody is there.
    #[must_use]
    pub fn empty(partitions: u16) -> Map {
        Map {
            members: BTreeMap::new(),
            ended: BTreeMap::new(),
            slots: vec![Slot::default(); usize::from(partitions)],
        }
    }

    /// What it says of a partition; `None` if there is no such partition.
    #[must_use]
    pub fn slot(&self, partition: Partition) -> Option<&Slot> {
        self.slots.get(usize::from(partition))
    }

    /// Who owns a partition, ended or not.
    #[must_use]
    pub fn owner(&self, partition: Partition) -> Option<Epoch> {
        self.slot(partition)?.owner
    }

    /// The owner of a partition, unless it has ended.
    #[must_use]
    pub fn live_owner(&self, partition: Partition) -> Option<Epoch> {
        self.owner(partition).filter(|owner| self.members.contains_key(owner))
    }

    /// All partitions with their slots.
    pub fn partitions(&self) -> impl Iterator<Item = (Partition, &Slot)> {
        (0..=Partition::MAX).zip(&self.slots)
    }

    /// Whether a writer is a member that never takes partitions.
    #[must_use]
    pub fn is_guest(&self, epoch: Epoch) -> bool {
        self.members.get(&epoch).is_some_and(|info| info.state == State::Guest)
    }

    /// Whether some slot has to do with a writer.
    #[must_use]
    pub fn is_needed(&self, epoch: Epoch) -> bool {
        self.slots.iter().any(|slot| slot.owner == Some(epoch) || slot.heritage.contains(&epoch))
    }

    /// Ended writers that own nothing and are in no heritage. That stays so for ever: their
    /// write-ahead logs may be removed, up to the fences. Their logs of edits still count.
    #[must_use]
    pub fn unneeded(&self) -> BTreeSet<Epoch> {
        let mut ended: BTreeSet<Epoch> = self.ended.keys().copied().collect();
        for slot in &self.slots {
            if let Some(owner) = slot.owner {
                ended.remove(&owner);
            }
            for epoch in &slot.heritage {
                ended.remove(epoch);
            }
        }
        ended
    }

    /// Makes an ended writer of a member. Proposals that name it go.
    pub fn end(&mut self, epoch: Epoch, ends: Ends) {
        self.members.remove(&epoch);
        self.ended.insert(epoch, ends);
        for slot in &mut self.slots {
            if slot.next == Some(epoch) {
                slot.next = None;
            }
        }
    }

    /// The least positions that the logs of this map count up to: what members have published, and
    /// where ended logs end.
    #[must_use]
    pub fn positions(&self) -> BTreeMap<Epoch, u64> {
        let members = self.members.iter().map(|(epoch, info)| (*epoch, info.position));
        let ended = self.ended.iter().map(|(epoch, ends)| (*epoch, ends.log));
        members.chain(ended).collect()
    }

    /// Whether it is consistent and within its limits.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> Result<(), MapError> {
        if self.slots.is_empty() {
            return Err(MapError::Inconsistent("it has no partition"));
        }
        if self.slots.len() > PARTITIONS_MAX {
            return Err(MapError::TooMany("partitions"));
        }
        if self.members.len() > MEMBERS_MAX {
            return Err(MapError::TooMany("members"));
        }
        if self.ended.len() > ENDED_MAX {
            return Err(MapError::TooMany("ended writers"));
        }
        if self.slots.iter().map(|slot| slot.heritage.len()).sum::<usize>() > HERITAGE_MAX {
            return Err(MapError::TooMany("names in heritages"));
        }
        self.check_writers()?;
        self.slots.iter().try_for_each(|slot| self.check_slot(slot))
    }

    fn check_writers(&self) -> Result<(), MapError> {
        for (epoch, info) in &self.members {
            if *epoch == Epoch::NOBODY || self.ended.contains_key(epoch) {
                return Err(MapError::Inconsistent("a member has ended or has no number"));
            }
            let longest = info.name.len().max(info.address.len()).max(info.zone.len());
            if longest > TEXT_MAX_BYTES {
                return Err(MapError::TooMany("bytes in a text"));
            }
        }
        if self.ended.contains_key(&Epoch::NOBODY) {
            return Err(MapError::Inconsistent("an ended writer has no number"));
        }
        Ok(())
    }

    fn check_slot(&self, slot: &Slot) -> Result<(), MapError> {
        let Some(owner) = slot.owner else {
            let is_blank = slot.next.is_none() && slot.heritage.is_empty();
            return is_blank
                .then_some(())
                .ok_or(MapError::Inconsistent("a partition without an owner has a past"));
        };
        if !self.members.contains_key(&owner) && !self.ended.contains_key(&owner) {
            return Err(MapError::Inconsistent("an owner is unknown"));
        }
        if slot.next.is_some_and(|next| !self.members.contains_key(&next)) {
            return Err(MapError::Inconsistent("a next owner is no member"));
        }
        if self.is_guest(owner) || slot.next.is_some_and(|next| self.is_guest(next)) {
            return Err(MapError::Inconsistent("a guest has a partition, or is to get one"));
        }
        if slot.heritage.iter().any(|epoch| !self.ended.contains_key(epoch)) {
            return Err(MapError::Inconsistent("a heritage is of a writer that has not ended"));
        }
        Ok(())
    }
}

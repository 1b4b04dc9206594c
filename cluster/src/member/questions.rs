//! What a node may do as the owner of partitions, at one instant.

use logsvc_runtime::Monotonic;

use super::Member;
use super::tenure::{Handing, Tenure};
use crate::map::{Epoch, Partition};

/// Whether entries of a partition may be accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// They may: written to the own write-ahead log, and acknowledged when their object is created.
    Yes,
    /// This node owns the partition, and an earlier owner may still answer queries. Try again.
    NotYet,
    /// The partition is being handed over. Try again, there and here.
    Moving(Option<Epoch>),
    /// By this node's map another one owns the partition, or nobody does.
    NotOwner,
}

/// Whether a query may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It may, at this very instant: with the heads as they are, and the position of the log that
    /// belongs to them.
    Yes,
    /// The asker knows a newer map, and this node has to read it first.
    ReadOn,
    /// This node knows a newer map: its number.
    Newer(u64),
    /// By this map it does not own all of the partitions.
    NotOwner,
    /// No proof holds: say [`Input::ProofWanted`](super::Input::ProofWanted), and ask again.
    Unproven,
    /// It is not recovered yet, or it is about to hand over, or an earlier owner may still answer.
    Wait,
}

/// Whether a node is the owner of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// It is, at this very instant, since the map of this number.
    Yes(u64),
    /// The same, but no proof holds: say [`Input::ProofWanted`](super::Input::ProofWanted), and ask
    /// again.
    Unproven(u64),
    /// It owns the partition, and an earlier owner may still act as one until then.
    From(Monotonic),
    /// It is not, or it has sent a map that gives the partition away.
    No,
}

impl Member {
    /// Whether this node is the owner of a partition, whatever it has of its entries.
    #[must_use]
    pub fn holds(&self, partition: Partition, now: Monotonic) -> Hold {
        match self.tenure(partition) {
            None => Hold::No,
            Some(_) if self.gives_away(partition) => Hold::No,
            Some(tenure) if tenure.ready > now => Hold::From(tenure.ready),
            Some(tenure) if self.proof.holds(now, self.settings.proof_max) => {
                Hold::Yes(tenure.since)
            }
            Some(tenure) => Hold::Unproven(tenure.since),
        }
    }

    /// Whether entries of a partition may be accepted now.
    #[must_use]
    pub fn may_accept(&self, partition: Partition, now: Monotonic) -> Accept {
        let Some(tenure) = self.tenure(partition) else { return Accept::NotOwner };
        if tenure.handing != Handing::No || self.gives_away(partition) {
            return Accept::Moving(self.map().slot(partition).and_then(|slot| slot.next));
        }
        if tenure.ready <= now { Accept::Yes } else { Accept::NotYet }
    }

    /// From when on entries of a partition may be accepted, as far as this node knows; `None`: it does
    /// not own the partition, or it is handing it over.
    #[must_use]
    pub fn accepts_from(&self, partition: Partition) -> Option<Monotonic> {
        let tenure = self.tenure(partition)?;
        let stays = tenure.handing == Handing::No && !self.gives_away(partition);
        stays.then_some(tenure.ready)
    }

    /// Whether a query of these partitions, by the map of this number, may be answered now.
    #[must_use]
    pub fn may_answer(&self, partitions: &[Partition], number: u64, now: Monotonic) -> Answer {
        if self.stopped.is_some() {
            return Answer::NotOwner;
        }
        if number > self.number() {
            return Answer::ReadOn;
        }
        if number < self.number() {
            return Answer::Newer(self.number());
        }
        let tenures = partitions.iter().map(|partition| self.tenure(*partition));
        let Some(tenures) = tenures.collect::<Option<Vec<&Tenure>>>() else {
            return Answer::NotOwner;
        };
        // Whoever has sent a hand-over does not know whether it is the owner still.
        if partitions.iter().any(|partition| self.gives_away(*partition))
            || tenures.iter().any(|tenure| !tenure.is_recovered || tenure.ready > now)
        {
            return Answer::Wait;
        }
        if self.proof.holds(now, self.settings.proof_max) { Answer::Yes } else { Answer::Unproven }
    }

    /// The partitions that it owns, each with the number of the map that has begun the ownership.
    pub fn owned(&self) -> impl Iterator<Item = (Partition, u64)> {
        let tenures = self.tenures.iter().filter(|_| self.stopped.is_none());
        tenures.map(|(partition, tenure)| (*partition, tenure.since))
    }

    fn tenure(&self, partition: Partition) -> Option<&Tenure> {
        if self.stopped.is_some() { None } else { self.tenures.get(&partition) }
    }
}

//! What a member is told, and what it wants done.

use std::collections::BTreeSet;

use logsvc_runtime::Monotonic;

use crate::map::{Ends, Epoch, MapError, Partition};

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// The time of [`Member::wake`](super::Member::wake) has come, or nothing has happened.
    Tick,
    /// Who seems to live. A hint; it replaces the one before.
    Alive(BTreeSet<Epoch>),
    /// The process of this member seems to have ended: it counts as dead at once. A hint, too, which
    /// may lie; it holds until the member is fenced.
    Gone(Epoch),
    /// Somebody knows the map of this number.
    Heard(u64),
    /// A query waits for a proof of ownership.
    ProofWanted,
    /// An object of the own write-ahead log was created.
    WalCreated {
        /// When the **first** attempt to create the object was sent. A later one may have found the
        /// name free because the object was created by the first, replayed by an heir, and removed.
        sent: Monotonic,
    },
    /// A write to an own log has met a fence.
    Fenced,
    /// What became of [`Effect::ReadMap`].
    Read {
        /// The number of the map.
        number: u64,
        /// What was there.
        outcome: ReadOutcome,
    },
    /// What became of [`Effect::CreateMap`].
    Created {
        /// The number of the map.
        number: u64,
        /// What the store said.
        outcome: CreateOutcome,
    },
    /// What became of [`Effect::Fence`].
    FenceDone {
        /// Whose logs.
        epoch: Epoch,
        /// Where they end, if all of them are fenced now.
        ends: Option<Ends>,
    },
    /// What [`Effect::Recover`] asked for can be answered. Entries that were accepted meanwhile are in
    /// order behind it.
    Recovered {
        /// The partition.
        partition: Partition,
        /// As in the effect.
        since: u64,
    },
    /// All entries of the partition's heritage are in live segments, by edits that are created.
    Settled {
        /// The partition.
        partition: Partition,
        /// As in the effect [`Effect::Recover`].
        since: u64,
    },
    /// What [`Effect::Seal`] asked for is done.
    Sealed {
        /// The partition.
        partition: Partition,
        /// As in the effect.
        ticket: u64,
        /// How many edits the own log has, with all of this partition among them.
        position: u64,
    },
    /// What [`Effect::Adopt`] asked for is done.
    Adopted {
        /// Whose logs.
        epochs: BTreeSet<Epoch>,
        /// How many edits the own log has, with the adoption among them.
        position: u64,
    },
    /// The node is going to stop: it hands its partitions over.
    Leave,
}

/// What reading a map has shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The object was not there, at some time after the request was sent.
    Absent,
    /// Its bytes.
    Entry(Vec<u8>),
    /// The store did not say.
    Failed,
}

/// What a store has said of a create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateOutcome {
    /// The object was created by this very request.
    Created,
    /// There is an object of that name: perhaps this one.
    Taken,
    /// It did not say, or it failed. The request may still be on its way.
    Unknown,
}

/// What is to be done. At most one each of reads, creates, fences and adoptions is on its way. Each
/// is answered by one input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Read `own/<number>`.
    ReadMap {
        /// The number of the map.
        number: u64,
    },
    /// Create `own/<number>` if it is absent.
    CreateMap {
        /// The number of the map.
        number: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Fence the log of edits of a writer, and then its write-ahead log. In this order: the log of
    /// edits tells which objects of the other one were removed, and a fence in a hole ends nothing.
    /// A fence that somebody else has created is as good.
    Fence {
        /// Whose logs.
        epoch: Epoch,
    },
    /// This node owns a partition from the map `since` on, and the write-ahead logs of these writers
    /// may have entries of it that are in no live segment. The engine brings them into its heads, says
    /// [`Input::Recovered`], seals them, and says [`Input::Settled`]. It repeats what fails. An object
    /// that is missing there is damage only if the newest map still has the heritage: perhaps this
    /// node has an heir that was faster.
    Recover {
        /// The partition.
        partition: Partition,
        /// The number of the map that has begun the ownership.
        since: u64,
        /// Whose logs.
        from: BTreeSet<Epoch>,
    },
    /// Bring everything of a partition that was accepted so far into live segments, also what is on
    /// its way to the write-ahead log; and make no edit of the partition behind that, until
    /// [`Member::may_accept`](super::Member::may_accept) says yes again.
    Seal {
        /// The partition.
        partition: Partition,
        /// Tells this wish from others.
        ticket: u64,
    },
    /// Append to the own log of edits what the ended logs of these writers say, up to their ends:
    /// additions and removals.
    Adopt {
        /// Whose logs.
        epochs: BTreeSet<Epoch>,
    },
    /// The node must not act as this writer any more. Nothing follows.
    Stop(Stop),
}

/// Why a member has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// Somebody has fenced this writer, since it seemed dead. The node may start again as another one.
    #[error("another node has taken over from this one")]
    Ended,
    /// It has handed everything over, as was wanted.
    #[error("this node has left the cluster")]
    Left,
    /// There are two maps of one number, or two writers of one epoch.
    #[error(
        "the map {number} does not follow the one before it: the store does not keep creates apart"
    )]
    Forked {
        /// The number of the map.
        number: u64,
    },
    /// A map cannot be read, or breaks a rule.
    #[error("the map {number}: {error}")]
    Broken {
        /// The number of the map.
        number: u64,
        /// What is wrong with it.
        error: MapError,
    },
}

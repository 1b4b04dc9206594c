//! What a node asks of the machine, and why it may be refused.

use crate::vitals::{State, Vitals};
use crate::wire::Damaged;

/// Why a message was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// It is no message.
    #[error("{0}")]
    Damaged(#[from] Damaged),
    /// It is of another cluster.
    #[error("the label is of another cluster")]
    Label,
    /// It is for another life of this node, or for another node, or this node has left.
    #[error("it is for another member")]
    Misdirected,
    /// It would bring more members than a node keeps.
    #[error("there are too many members")]
    Crowded,
}

/// A change of the own vitals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The state.
    State(State),
    /// The epoch under which the node writes.
    WriterEpoch(Option<u32>),
    /// The number of the newest map that the node knows.
    MapNumber(u64),
    /// See [`Vitals::is_cut_off`].
    CutOff(bool),
}

impl Change {
    pub(crate) fn apply(self, vitals: &mut Vitals) {
        match self {
            // A member says that it has left by leaving.
            Change::State(State::Left) => {}
            Change::State(state) => vitals.state = state,
            Change::WriterEpoch(epoch) => {
                vitals.writer_epoch = epoch.filter(|epoch| *epoch != u32::MAX);
            }
            Change::MapNumber(number) => vitals.map_number = number,
            Change::CutOff(is_cut_off) => vitals.is_cut_off = is_cut_off,
        }
    }
}

/// Why a member cannot be forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ForgetError {
    /// There is no such member.
    #[error("no member has this instance ID")]
    Unknown,
    /// It counts as alive.
    #[error("the member is alive")]
    Alive,
    /// This node has left, or has no others.
    #[error("this node does not take part any more")]
    Stopped,
}

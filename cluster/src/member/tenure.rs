//! What a member knows of a partition that it owns.

use logsvc_runtime::Monotonic;

/// One ownership, from the map that has begun it to the one that ends it.
#[derive(Debug)]
pub(super) struct Tenure {
    /// The number of the map that has begun it.
    pub(super) since: u64,
    /// From when on the member acts as the owner: no proof of an earlier owner holds any more.
    pub(super) ready: Monotonic,
    /// Whether the heads have everything of the heritage.
    pub(super) is_recovered: bool,
    /// Whether live segments have everything of the heritage.
    pub(super) is_settled: bool,
    /// How far a hand-over has come.
    pub(super) handing: Handing,
}

/// The steps of a hand-over. Nothing is accepted from the second one on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handing {
    /// None is under way.
    No,
    /// The engine brings what it has into segments.
    Sealing {
        /// Of the wish.
        ticket: u64,
    },
    /// Live segments have everything.
    Sealed {
        /// How many edits the own log had then.
        position: u64,
    },
}

impl Tenure {
    /// Begins one.
    pub(super) fn new(since: u64, ready: Monotonic, has_heritage: bool) -> Tenure {
        Tenure {
            since,
            ready,
            is_recovered: !has_heritage,
            is_settled: !has_heritage,
            handing: Handing::No,
        }
    }
}

//! Blocks that are evaluated together, and the memory that is reserved for their columns.
//!
//! A batch holds its reservation, so that the memory is given back when the batch goes. Its last
//! owner is the scan, or a side thread if the scan has ended meanwhile.

use std::sync::Arc;

use logsvc_runtime::{Budget, Reservation};

use super::columns::{OpenBlock, RunColumns};
use crate::scan::error::ReadError;
use crate::sealed::{Cached, ColumnKey, HeldDirectory};
use logsvc_segment::RunInfo;

/// A batch that holds so many bytes gets no further block: columns to be decoded take a megabyte or
/// two, see `BatchSize`, and larger batches are of columns in the cache.
const FULL_BYTES: u64 = 2 << 20;

/// A run that a unit reads.
#[derive(Debug)]
pub(in crate::scan) struct StreamRun {
    /// The run.
    pub(in crate::scan) run: RunInfo,
    /// The stream's index in the job.
    pub(in crate::scan) stream: u32,
    /// Whether it may repeat entries of earlier segments.
    pub(in crate::scan) is_late: bool,
}

/// A run of a block that is to be evaluated.
#[derive(Debug)]
pub(in crate::scan) struct RunWork {
    pub(in crate::scan) stream_run: StreamRun,
    /// The run's number in the order of arrival.
    pub(in crate::scan) number: u64,
    /// The rest of its entries, if an earlier generation holds some of them, too.
    pub(in crate::scan) kept: Option<RunColumns>,
    /// The requests for deletion that may hide some of its entries, by their numbers among those of
    /// the stream.
    pub(in crate::scan) hidden_by: Box<[u32]>,
}

/// A sealed block that is to be evaluated.
#[derive(Debug)]
pub(in crate::scan) struct BlockWork {
    /// Its segment's index in the job.
    pub(in crate::scan) segment: u32,
    pub(in crate::scan) opened: OpenBlock,
    /// The runs that are wanted and not done, the last one first.
    pub(in crate::scan) runs: Vec<RunWork>,
    /// The memory that was reserved for it.
    pub(in crate::scan) held_bytes: u64,
}

/// Something to evaluate.
#[derive(Debug)]
pub(in crate::scan) enum Item {
    /// A block of a head, by its indices in the job.
    Head { stream: u32, block: u32, hidden_by: Box<[u32]> },
    /// The rest of a run or block of which an earlier generation holds some entries.
    Kept { stream: u32, number: u64, columns: RunColumns, hidden_by: Box<[u32]> },
    /// A sealed block.
    Block(Box<BlockWork>),
}

impl Item {
    /// The sealed block that it is.
    pub(in crate::scan) fn block(&self) -> Option<&BlockWork> {
        match self {
            Item::Block(work) => Some(work),
            Item::Head { .. } | Item::Kept { .. } => None,
        }
    }
}

/// A block that cannot be read.
#[derive(Debug)]
pub(in crate::scan) struct Damage {
    /// Its segment's index in the job.
    pub(in crate::scan) segment: u32,
    pub(in crate::scan) directory: Arc<HeldDirectory>,
    pub(in crate::scan) error: ReadError,
}

/// Items that are worked on together.
#[derive(Debug, Default)]
pub(in crate::scan) struct Batch {
    /// The items that are not done.
    pub(in crate::scan) items: Vec<Item>,
    /// Bytes of the columns that they need.
    pub(in crate::scan) bytes: usize,
    /// Entries that are looked at.
    pub(in crate::scan) entries: usize,
    /// Columns that were decoded.
    pub(in crate::scan) fresh: Vec<(ColumnKey, Cached)>,
    /// Blocks that were given up.
    pub(in crate::scan) damages: Vec<Damage>,
    /// The memory that is reserved for columns.
    pub(in crate::scan) memory: BatchMemory,
}

/// The memory that a batch holds of the budget for queries.
#[derive(Debug, Default)]
pub(in crate::scan) struct BatchMemory {
    reservation: Option<Reservation>,
    /// The part of the reservation that its blocks use.
    held_bytes: u64,
}

impl BatchMemory {
    /// Memory of its blocks, in bytes.
    pub(in crate::scan) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Whether there should be no more in the batch.
    pub(in crate::scan) fn is_full(&self) -> bool {
        self.held_bytes >= FULL_BYTES
    }

    /// Has so many bytes more reserved than are held, if that leaves something to results;
    /// says whether it could.
    pub(in crate::scan) fn reserve(&mut self, budget: &Budget, more_bytes: u64) -> bool {
        let missing_bytes = self.missing_bytes(more_bytes);
        let max_bytes = budget.max_bytes() - budget.max_bytes() / 8;
        let leaves_some = budget.used_bytes().saturating_add(missing_bytes) <= max_bytes;
        missing_bytes == 0 || (leaves_some && self.grow(budget, missing_bytes))
    }

    /// Reserves more bytes if the budget has them, the last eighth included. The next reservation
    /// makes up for bytes that the budget did not have.
    pub(in crate::scan) fn reserve_if_possible(&mut self, budget: &Budget, more_bytes: u64) {
        if !self.reserve(budget, more_bytes) {
            self.reserve_last(budget, more_bytes);
        }
    }

    /// Has so many bytes more reserved than are held, the last eighth included; says whether
    /// it could.
    pub(in crate::scan) fn reserve_last(&mut self, budget: &Budget, more_bytes: u64) -> bool {
        let missing_bytes = self.missing_bytes(more_bytes);
        self.grow(budget, missing_bytes)
    }

    fn missing_bytes(&self, more_bytes: u64) -> u64 {
        let reserved_bytes = self.reservation.as_ref().map_or(0, Reservation::bytes);
        self.held_bytes.saturating_add(more_bytes).saturating_sub(reserved_bytes)
    }

    fn grow(&mut self, budget: &Budget, missing_bytes: u64) -> bool {
        if let Some(reservation) = &mut self.reservation {
            return reservation.try_grow(missing_bytes);
        }
        self.reservation = budget.try_reserve(missing_bytes);
        self.reservation.is_some()
    }

    /// Notes that a block takes so many of the bytes that were reserved for it.
    pub(in crate::scan) fn hold(&mut self, bytes: u64) {
        self.held_bytes += bytes;
    }

    /// Notes that no more than so many bytes are held, and gives back the others.
    pub(in crate::scan) fn hold_only(&mut self, bytes: u64) {
        self.held_bytes = bytes;
        self.give_back_surplus();
    }

    /// Gives back memory that is reserved and not held.
    pub(in crate::scan) fn give_back_surplus(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink_to(self.held_bytes);
        }
    }
}

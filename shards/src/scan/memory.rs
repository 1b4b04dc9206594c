//! Memory for the columns of blocks that a scan works on.
//!
//! A batch reserves it from the budget for queries, block by block and before anything is
//! read, and gives it back when it goes, whoever has it then: the scan, or a side thread if
//! the scan has ended meanwhile.
//!
//! Guarantees: a scan that finds no memory for a further block works on those before it
//! first; it waits only if it holds no block, so no two wait for each other, and not for ever.
//! An eighth of the budget is left to results as long as there is another way. What is not
//! counted: what one block of a batch turns out to need when there is no room for it; the
//! directories of segments, and columns that are in the cache, which have budgets of their
//! own; and columns of earlier generations that late entries are compared with, which are
//! those of one block at a time.

use std::any::Any;
use std::time::Duration;

use logsvc_logql::engine::{Allowance, Stop};
use logsvc_runtime::{Budget, Denied, Grant, Reservation, Runtime, give_way};

use super::leaf::{Batch, Leaf};
use super::{Scan, ScanError};
use crate::types::Cancellation;

/// How long a scan waits for memory. Batches of others take milliseconds; what is held for
/// longer are results.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A batch that holds so much gets no further block: what has to be decoded is a megabyte
/// or two, see [`super::leaf::BatchSize`], and larger batches are of columns in the cache.
const FULL_BYTES: u64 = 2 << 20;

/// What the engine may take for a part of a query: memory of the query's account, and time until
/// nobody waits for it.
#[derive(Debug)]
pub struct PartAllowance {
    /// The memory.
    pub grant: Grant,
    /// Says that nobody waits.
    pub cancellation: Cancellation,
}

impl PartAllowance {
    /// What was taken of one of these.
    pub(super) fn into_grant(allowance: Box<dyn Allowance>) -> Grant {
        let own: Box<dyn Any> = allowance;
        own.downcast::<PartAllowance>().expect("parts have these").grant
    }
}

/// What memory that is denied means to a part.
pub fn stop_of(denied: Denied) -> Stop {
    match denied {
        Denied::TooLarge { max_bytes } => Stop::TooLarge { max_bytes },
        Denied::Busy => Stop::Busy,
    }
}

impl Allowance for PartAllowance {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        self.grant.grow(bytes).map_err(stop_of)
    }

    fn give_back(&mut self, bytes: u64) {
        self.grant.shrink_to(self.grant.bytes().saturating_sub(bytes));
    }

    fn look(&mut self) -> Result<(), Stop> {
        give_way();
        if self.cancellation.is_cancelled() { Err(Stop::Ended) } else { Ok(()) }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        let (grant, cancellation) = (self.grant.sibling(), self.cancellation.clone());
        Box::new(PartAllowance { grant, cancellation })
    }
}

/// What a batch holds of the budget.
#[derive(Debug, Default)]
pub(super) struct BatchMemory {
    reservation: Option<Reservation>,
    /// What its blocks take, of what is reserved.
    held_bytes: u64,
}

impl BatchMemory {
    /// What its blocks take, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Whether there should be no more in the batch.
    pub(super) fn is_full(&self) -> bool {
        self.held_bytes >= FULL_BYTES
    }

    /// Has so many bytes more reserved than are held, if that leaves something to results;
    /// says whether it could.
    pub(super) fn reserve(&mut self, budget: &Budget, more_bytes: u64) -> bool {
        let missing_bytes = self.missing_bytes(more_bytes);
        let max_bytes = budget.max_bytes() - budget.max_bytes() / 8;
        let leaves_some = budget.used_bytes().saturating_add(missing_bytes) <= max_bytes;
        missing_bytes == 0 || (leaves_some && self.grow(budget, missing_bytes))
    }

    /// Has so many bytes more reserved if there are so many, the last eighth included. The
    /// next reservation makes up for what could not be had.
    pub(super) fn reserve_if_possible(&mut self, budget: &Budget, more_bytes: u64) {
        if !self.reserve(budget, more_bytes) {
            self.grow(budget, self.missing_bytes(more_bytes));
        }
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
    pub(super) fn hold(&mut self, bytes: u64) {
        self.held_bytes += bytes;
    }

    /// Notes that no more than so many bytes are held, and gives back the others.
    pub(super) fn hold_only(&mut self, bytes: u64) {
        self.held_bytes = bytes;
        self.give_back_surplus();
    }

    /// Gives back what is reserved and not held.
    pub(super) fn give_back_surplus(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink_to(self.held_bytes);
        }
    }
}

impl<R: Runtime> Scan<'_, R> {
    /// Reserves memory for another block of a batch, or, if it is the first, waits for it.
    /// False if what is in the batch has to be worked on before.
    ///
    /// # Errors
    /// As for [`Scan::wait_for`].
    pub(super) async fn memory_for(
        &mut self,
        leaf: &Leaf,
        batch: &mut Batch,
        bytes: u64,
    ) -> Result<bool, ScanError> {
        if !batch.items.is_empty() {
            return Ok(batch.memory.reserve(&self.env.queries, bytes));
        }
        self.wait_for(leaf, &mut batch.memory, bytes).await?;
        Ok(true)
    }

    /// Waits until there is so much memory.
    ///
    /// # Errors
    /// There is none for a long time, or never; or the query ends.
    async fn wait_for(
        &mut self,
        leaf: &Leaf,
        memory: &mut BatchMemory,
        bytes: u64,
    ) -> Result<(), ScanError> {
        let budget = &self.env.queries;
        if bytes > budget.max_bytes() {
            return Err(ScanError::Memory { max_bytes: budget.max_bytes() });
        }
        let give_up = self.env.runtime.now().after(WAIT_MAX);
        while !memory.reserve(budget, bytes) {
            if self.env.runtime.now() >= give_up {
                // The last eighth is better used than not, and who gets none is counted.
                let missing_bytes = memory.missing_bytes(bytes);
                return if memory.grow(budget, missing_bytes) {
                    Ok(())
                } else {
                    Err(ScanError::Busy)
                };
            }
            self.pause(leaf).await?;
            self.env.runtime.sleep_until(self.env.runtime.now().after(LOOK_INTERVAL)).await;
        }
        Ok(())
    }
}

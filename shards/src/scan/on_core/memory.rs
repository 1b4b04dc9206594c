//! Reserves memory for the columns of the blocks that a scan works on.
//!
//! A batch reserves memory from the budget for queries, block by block, before anything is read. A
//! class of queries with a budget of its own takes it from there, so that it never waits for others.
//! It gives the memory back when it is dropped: by the scan, or by a side thread if the scan has
//! ended meanwhile.
//!
//! Guarantees: a scan that finds no memory for a further block first works on the blocks that it
//! has. It waits only while it holds no block, so no two scans wait for each other, and it does
//! not wait for ever. An eighth of the budget is left to results as long as there is another
//! way. Three things are not counted: columns that one block of a batch turns out to need when
//! there is no room for them; directories of segments and columns in the cache, which have
//! budgets of their own; and the columns of one block of an earlier generation that late entries
//! are compared with.

use std::time::Duration;

use logsvc_runtime::{Budget, Runtime};

use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::{Batch, BatchMemory, Leaf};

/// How long a scan waits for memory. Batches of other scans take milliseconds; memory that is held
/// for longer holds results.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl<R: Runtime> Scan<'_, R> {
    /// The budget of a block's columns: the budget for queries, or that of the query's class, if
    /// it has one and the columns fit.
    pub(super) fn columns_budget(&self, bytes: u64) -> &Budget {
        let fits = |budget: &&Budget| bytes <= budget.max_bytes() / 2;
        self.job.request.account.apart_budget().filter(fits).unwrap_or(&self.env.queries)
    }

    /// Reserves memory for another block of a batch, or, if it is the first, waits for it. False if
    /// the items of the batch have to be worked on first.
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
            return Ok(batch.memory.reserve(self.columns_budget(bytes), bytes));
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
        let budget = &self.columns_budget(bytes).clone();
        if bytes > budget.max_bytes() {
            return Err(ScanError::Memory { max_bytes: budget.max_bytes() });
        }
        let give_up = self.env.runtime.now().after(WAIT_MAX);
        while !memory.reserve(budget, bytes) {
            if self.env.runtime.now() >= give_up {
                // Using the last eighth is better than leaving it, and a batch without memory is
                // counted.
                let has_memory = memory.reserve_last(budget, bytes);
                return if has_memory { Ok(()) } else { Err(ScanError::Busy) };
            }
            self.pause(leaf).await?;
            self.env.runtime.sleep_until(self.env.runtime.now().after(LOOK_INTERVAL)).await;
        }
        Ok(())
    }
}

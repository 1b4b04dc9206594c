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

use std::time::Duration;

use logsvc_runtime::Runtime;

use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::{Batch, BatchMemory, Leaf};

/// How long a scan waits for memory. Batches of others take milliseconds; what is held for
/// longer are results.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

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
                let has_memory = memory.reserve_last(budget, bytes);
                return if has_memory { Ok(()) } else { Err(ScanError::Busy) };
            }
            self.pause(leaf).await?;
            self.env.runtime.sleep_until(self.env.runtime.now().after(LOOK_INTERVAL)).await;
        }
        Ok(())
    }
}

//! Says which entries of a block a log query returns.
//!
//! The stages run as for the query itself, with the same shortcuts. So an entry matches if, and
//! only if, the query would return it alone. Entries of equal time, line and labels each count,
//! because neither a limit nor the removal of duplicates plays a part.

use logsvc_proto::Labels;

use super::super::block::EntryBlock;
use super::super::error::PlanError;
use super::super::meter::{Allowance, Stop};
use super::super::params::Direction;
use super::super::plan::{LeafKind, LeafPlan};
use super::{LeafExecutor, Needs, StreamState};

/// See the module.
#[derive(Debug)]
pub struct EntryMatcher {
    executor: LeafExecutor,
}

impl EntryMatcher {
    /// Compiles the leaf of a log query. Its times and its limit do not count.
    ///
    /// # Errors
    /// It is no log query, or it cannot be evaluated, or the allowance stops it.
    pub fn with_allowance(
        plan: &LeafPlan,
        allowance: Box<dyn Allowance>,
    ) -> Result<EntryMatcher, PlanError> {
        if !matches!(plan.kind, LeafKind::Log { .. }) {
            return Err(PlanError::Unsupported("entries of a query that is no log query"));
        }
        let kind = LeafKind::Log {
            direction: Direction::Forward,
            limit: usize::MAX,
            interval_ns: 0,
            after: None,
            places: false,
        };
        let plan = LeafPlan { kind, ..plan.clone() };
        let executor = LeafExecutor::compile(&plan, allowance, true)?;
        executor.stop().map_or(Ok(()), |stop| Err(PlanError::Stopped(stop)))?;
        Ok(EntryMatcher { executor })
    }

    /// The same without shortcuts. For tests; the outcomes are the same.
    #[must_use]
    pub fn without_shortcuts(self) -> EntryMatcher {
        EntryMatcher { executor: self.executor.without_shortcuts() }
    }

    /// The columns to read of the blocks of any stream. Other columns are ignored.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.executor.match_needs()
    }

    /// Whether the labels of streams make no difference, so that one state serves for all.
    #[must_use]
    pub fn streams_are_alike(&self) -> bool {
        self.executor.streams_are_alike()
    }

    /// The state of a stream.
    pub fn stream(&mut self, labels: &Labels) -> StreamState {
        self.executor.stream(labels)
    }

    /// Drops the state of a stream, and gives its memory back.
    pub fn forget(&mut self, stream: StreamState) {
        self.executor.forget(stream);
    }

    /// Sets `is_match[i]` for each entry of the block that the query returns, and clears it for
    /// the others; `is_match` has as many elements as the block has entries. Entries beyond
    /// `bounds_ns`, the oldest and the newest time, do not match.
    ///
    /// # Errors
    /// The allowance stops it; `is_match` means nothing then.
    pub fn matches(
        &mut self,
        stream: &mut StreamState,
        block: &EntryBlock<'_>,
        bounds_ns: (i64, i64),
        is_match: &mut [bool],
    ) -> Result<(), Stop> {
        is_match.fill(false);
        for &index in self.executor.matches_of(stream, block, bounds_ns)? {
            is_match[index as usize] = true;
        }
        Ok(())
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.executor.held_bytes()
    }
}

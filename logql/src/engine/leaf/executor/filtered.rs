//! Blocks whose lines the store has filtered, because it can do so without putting the
//! lines together.

use super::{Collector, EntryValue, LeafExecutor};
use crate::engine::abridge::Abridger;
use crate::engine::block::EntryBlock;
use crate::engine::leaf::StreamState;

impl LeafExecutor {
    /// Whether the line filters are the only readers of lines, so that
    /// [`LeafExecutor::filtered_block`] may be used.
    #[must_use]
    pub fn only_filters_lines(&self) -> bool {
        self.labels_are_stored
            && matches!(&self.collector, Collector::Range(range) if range.value() != EntryValue::StoredSize)
    }

    /// What makes lines shorter for the leaf's parser, if that is all that reads lines.
    #[must_use]
    pub fn abridger(&self) -> Option<Abridger> {
        Abridger::new(&self.plan, &self.labels)
    }

    /// Whether a stored line passes the line filters that come before all other stages.
    #[must_use]
    pub fn keeps_line(&self, line: &[u8]) -> bool {
        self.pipeline.front().keeps(line)
    }

    /// Takes a block without lines, of which the entries `passes` have passed
    /// [`LeafExecutor::keeps_line`]. Line ends must be there if the leaf adds up lengths
    /// ([`LeafExecutor::adds_lengths`]). `line_bytes` is the length of the lines that
    /// the filters have read, for the statistics.
    pub fn filtered_block(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        line_bytes: u64,
        passes: impl Fn(usize) -> bool,
    ) {
        debug_assert!(self.only_filters_lines(), "lines matter by more than filters");
        if self.is_done() {
            return;
        }
        self.stats.blocks += 1;
        let (first, end) = self.bounds_of(block);
        if first >= end {
            return;
        }
        if !self.select(block, first, end) {
            return;
        }
        self.stats.line_bytes += line_bytes;
        self.selection.retain(passes);
        self.take_selected(stream, block);
        self.count_series();
        self.reconcile();
    }

    /// Whether lengths of lines are added up.
    #[must_use]
    pub fn adds_lengths(&self) -> bool {
        match &self.collector {
            Collector::Range(range) => range.value() != EntryValue::One,
            Collector::Log(_)
            | Collector::Samples { .. }
            | Collector::Patterns(_)
            | Collector::Matches(_) => false,
        }
    }

    /// Counts entries that the store has left out, because they cannot pass.
    pub fn left_out(&mut self, entries: u64, line_bytes: u64) {
        self.stats.entries += entries;
        self.stats.line_bytes += line_bytes;
    }
}

//! A leaf that notes which entries its pipeline keeps, see [`crate::engine::EntryMatcher`].

use super::{Collector, LeafExecutor};
use crate::engine::block::EntryBlock;
use crate::engine::leaf::{Needs, StreamState};
use crate::engine::meter::Stop;

impl LeafExecutor {
    /// The columns that decide whether the pipeline keeps an entry of any stream.
    pub(in crate::engine::leaf) fn match_needs(&self) -> Needs {
        let reads_line = self.pipeline.reads_line();
        let metadata = !self.labels_are_stored;
        Needs { line_lengths: reads_line, lines: reads_line, metadata }
    }

    /// Notes that the pipeline keeps an entry of the block; not if there is no memory.
    pub(super) fn note_match(&mut self, i: usize) {
        if let Collector::Matches(matches) = &mut self.collector {
            self.stats.entries_kept += 1;
            let index = u32::try_from(i).expect("line ends are 32-bit, so entries are");
            let _is_noted = self.labels.meter().push(matches, index);
        }
    }

    /// The indices of the entries of a block that the pipeline keeps, rising, among those
    /// between two times, both included.
    ///
    /// # Errors
    /// The leaf was stopped.
    pub(in crate::engine::leaf) fn matches_of(
        &mut self,
        stream: &mut StreamState,
        block: &EntryBlock<'_>,
        (min_ns, max_ns): (i64, i64),
    ) -> Result<&[u32], Stop> {
        if let Collector::Matches(matches) = &mut self.collector {
            matches.clear();
        }
        (self.plan.start_ns, self.plan.end_ns) = (min_ns, max_ns.saturating_add(1));
        self.block(stream, block);
        if let Some(stop) = self.stop() {
            return Err(stop);
        }
        match &self.collector {
            Collector::Matches(matches) => Ok(matches),
            _ => Ok(&[]),
        }
    }

    /// Drops the state of a stream, and gives its memory back with the next block.
    pub(in crate::engine::leaf) fn forget(&mut self, stream: StreamState) {
        self.states_bytes = self.states_bytes.saturating_sub(stream.held_bytes());
        self.labels.meter().release(stream.held_bytes());
    }
}

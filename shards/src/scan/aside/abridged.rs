//! Gives the engine abridged lines of sealed blocks: those fields that the query looks at.
//!
//! A leaf whose only reader of lines is one parser gets the same answer from lines that have
//! nothing but the fields that it wants. A block that stores its lines in parts gives such lines
//! without putting whole lines together, see [`logsvc_segment::AbridgedLines`].
//!
//! Guarantees: the result, and the numbers of entries and bytes that count as processed, are the
//! same as in a scan that reads all lines. A block of which many lines cannot be abridged is read
//! as a whole.

use std::sync::Arc;

use logsvc_logql::engine::{Abridger, EntryBlock, Needs, rows_within};
use logsvc_segment::{AbridgedLines, Decoder, RunInfo};

use super::columns::{OpenBlock, Unready};
use super::leaf::Leaf;
use super::search::length_of;
use crate::types::ScanStats;

impl OpenBlock {
    /// The block's abridged lines, which are made once. `None` if the block is to be read as a
    /// whole.
    fn abridged(
        &mut self,
        abridger: &mut Abridger,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Option<Arc<AbridgedLines>>, Unready> {
        if let Some(abridged) = &self.abridged {
            return Ok(abridged.clone());
        }
        let Some(parts) = self.parts(decoder, stats)? else { return Ok(None) };
        let times = match parts.has_times() {
            true => Some(self.timestamps(decoder, stats)?),
            false => None,
        };
        let times = times.as_ref().map_or(&[][..], |column| column);
        let made = parts.abridged(abridger, &mut self.slot_lines, times);
        let abridged = made.map_err(|_| self.damaged_lines())?.map(Arc::new);
        self.abridged = Some(abridged.clone());
        Ok(abridged)
    }
}

impl Leaf {
    /// Gives the executor a run with abridged lines; false if that cannot be done.
    pub(super) fn abridged_run(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
        number: u64,
    ) -> Result<bool, Unready> {
        let index = self.state_index(stream);
        let (Some(abridger), Some(state)) = (&mut self.abridger, &mut self.states[index]) else {
            return Ok(false);
        };
        let (executor, decoder, stats) = (&mut self.executor, &mut self.decoder, &mut self.stats);
        if !state.needs().lines || !opened.is_searched {
            return Ok(false);
        }
        let (start_ns, end_ns) = self.bounds_ns;
        let is_whole = run.min_ns >= start_ns && run.max_ns < end_ns;
        let needs =
            Needs { line_lengths: !is_whole, lines: false, metadata: state.needs().metadata };
        // Before the lines, so that all columns that are missing are loaded together.
        let columns = opened.run(run, needs, decoder, stats)?;
        let Some(abridged) = opened.abridged(abridger, decoder, stats)? else { return Ok(false) };
        opened.count_as_searched(stats);
        let entries = columns.entries.clone();
        let start = entries.start.checked_sub(1).map_or(0, |before| abridged.ends[before]);
        let of_run = &abridged.ends[entries.clone()];
        let ends: Vec<u32> = of_run.iter().map(|end| end - start).collect();
        let end = of_run.last().map_or(start, |&end| end);
        let block = EntryBlock {
            line_ends: &ends,
            lines: &abridged.lines[start as usize..end as usize],
            ..columns.block(number)
        };
        // Runs of sealed blocks are in order of time.
        let seen = rows_within(block.timestamps_ns, self.bounds_ns);
        let line_bytes = match &columns.ends {
            Some(ends) if !is_whole => length_of(&ends[entries], &seen),
            _ => run.summary().line_bytes,
        };
        executor.left_out(0, line_bytes.saturating_sub(length_of(&ends, &seen)));
        executor.block(state, &block);
        Ok(true)
    }
}

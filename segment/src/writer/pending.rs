//! The open block: entries that are not encoded yet.

use std::ops::Range;

use super::entries::{Entries, EntriesMetadata};
use super::pending_metadata::{PendingMetadata, set_len};
use crate::columns::compress::Appendable;
use crate::directory::rows::{RUN_HAS_METADATA, RunRow};
use crate::error::WriteError;
use crate::format::{BLOCK_MAX_LINE_BYTES, BLOCK_MAX_METADATA_BYTES};

/// A block takes no further entry that would give it more line bytes than this.
pub const BLOCK_TARGET_LINE_BYTES: usize = 256 << 10;
/// A stream of so many line bytes gets blocks of its own, see
/// [`super::SegmentWriter::expect_line_bytes`].
pub const OWN_BLOCK_LINE_BYTES: usize = 48 << 10;
/// A block takes no more entries than this.
pub const BLOCK_TARGET_ENTRIES: usize = 32 << 10;
/// A block takes no further entry that would give it more bytes of metadata, in the encoding of
/// a batch.
pub const BLOCK_TARGET_METADATA_BYTES: usize = 256 << 10;

/// Columns of a block that are not encoded yet. The lines are in a buffer of the writer.
#[derive(Debug, Default)]
pub(super) struct PendingBlock {
    pub(super) timestamps_ns: Vec<i64>,
    /// Bytes of the block's lines.
    pub(super) line_bytes: usize,
    /// Exclusive ends of the lines, counted from the beginning of the block.
    pub(super) line_ends: Vec<u32>,
    pub(super) metadata: PendingMetadata,
    pub(super) runs: Vec<RunRow>,
    /// Bytes of names and values of each run's metadata.
    pub(super) runs_metadata: Vec<u32>,
    /// Number of the stream of the first run.
    pub(super) first_stream: u32,
    /// Whether the block gets no other stream.
    pub(super) is_own: bool,
}

impl PendingBlock {
    pub(super) fn is_empty(&self) -> bool {
        self.timestamps_ns.is_empty()
    }

    /// Number of the stream of the last run; `None` if the block is empty.
    pub(super) fn last_stream(&self) -> Option<u32> {
        let runs = self.runs.len() as u32;
        (runs > 0).then(|| self.first_stream + runs - 1)
    }

    /// The number of first entries that fit into a block of so many line bytes: at least one if
    /// the block is empty. The entries must be checked.
    pub(super) fn room_for(
        &self,
        entries: &Entries<'_>,
        target_line_bytes: usize,
    ) -> Result<usize, WriteError> {
        let line_room = target_line_bytes.saturating_sub(self.line_bytes);
        let line_limit = entries.lines_start as usize + line_room;
        let mut count = entries.line_ends.partition_point(|&end| end as usize <= line_limit);
        count = count.min(BLOCK_TARGET_ENTRIES - self.timestamps_ns.len());
        count = self.metadata.room_for(entries, count);
        if count > 0 || !self.is_empty() || entries.is_empty() {
            return Ok(count);
        }
        // An entry that is larger than the target gets a block of its own.
        let first = entries.slice(0..1);
        let line_len = (first.line_ends[0] - first.lines_start) as usize;
        let metadata_len = match first.metadata {
            EntriesMetadata::None => 0,
            EntriesMetadata::Pairs(column) => column.get(0).encoded_len(),
            EntriesMetadata::Plain { entry_sets, sets } => sets.get(entry_sets[0]).len(),
            EntriesMetadata::Sets { set_ids, sets } => set_len(sets, set_ids[0]),
        };
        if line_len > BLOCK_MAX_LINE_BYTES {
            return Err(WriteError::EntryTooLarge { max_bytes: BLOCK_MAX_LINE_BYTES });
        }
        if metadata_len > BLOCK_MAX_METADATA_BYTES {
            return Err(WriteError::EntryTooLarge { max_bytes: BLOCK_MAX_METADATA_BYTES });
        }
        Ok(1)
    }

    /// Begins a run of the stream with this number, unless the last run is its.
    pub(super) fn begin_run(&mut self, stream: u32) {
        let next = self.first_stream + self.runs.len() as u32;
        if self.runs.is_empty() {
            self.first_stream = stream;
        } else if stream != next {
            debug_assert_eq!(stream + 1, next, "streams come one after another");
            return;
        }
        self.runs.push(RunRow {
            min_ns: i64::MAX,
            max_ns: i64::MIN,
            first_entry: self.timestamps_ns.len() as u32,
            first_line_byte: self.line_bytes as u32,
            flags: 0,
        });
        self.runs_metadata.push(0);
    }

    /// Appends entries to the last run, and their lines to the lines of the block. The entries
    /// must be checked, and must fit.
    pub(super) fn push(&mut self, entries: &Entries<'_>, block_lines: &mut impl Appendable) {
        let (Some(&first_ns), Some(&last_ns), Some(&lines_end)) =
            (entries.timestamps_ns.first(), entries.timestamps_ns.last(), entries.line_ends.last())
        else {
            return;
        };
        let before = self.timestamps_ns.len();
        self.timestamps_ns.extend_from_slice(entries.timestamps_ns);
        let base = self.line_bytes as u32;
        let start = entries.lines_start;
        self.line_ends.extend(entries.line_ends.iter().map(|&end| end - start + base));
        let lines = start as usize..lines_end as usize;
        self.line_bytes += lines.len();
        block_lines.append_bytes(&entries.lines[lines]);
        let (len_before, text_before) = (self.metadata.pairs_len(), self.metadata.text_bytes());
        self.metadata.push(before, entries);
        let has_metadata = self.metadata.pairs_len() > len_before;
        if let Some(bytes) = self.runs_metadata.last_mut() {
            // A block has at most 64 MiB of it.
            *bytes += (self.metadata.text_bytes() - text_before) as u32;
        }
        if let Some(run) = self.runs.last_mut() {
            run.min_ns = run.min_ns.min(first_ns);
            run.max_ns = run.max_ns.max(last_ns);
            run.flags |= if has_metadata { RUN_HAS_METADATA } else { 0 };
        }
    }

    /// Lengths of the runs in entries.
    pub(super) fn run_lens(&self) -> impl Iterator<Item = usize> + '_ {
        self.run_entries().map(|range| range.len())
    }

    /// Entries of the runs.
    fn run_entries(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = self.runs.iter().map(|run| run.first_entry as usize);
        let ends = starts.clone().skip(1).chain(std::iter::once(self.timestamps_ns.len()));
        starts.zip(ends).map(|(start, end)| start..end)
    }

    /// Empties the block and keeps its buffers.
    pub(super) fn clear(&mut self) {
        self.timestamps_ns.clear();
        self.line_bytes = 0;
        self.line_ends.clear();
        self.metadata.clear();
        self.runs.clear();
        self.runs_metadata.clear();
        self.is_own = false;
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.timestamps_ns.capacity() * 8
            + self.line_ends.capacity() * 4
            + self.metadata.held_bytes()
            + self.runs.capacity() * size_of::<RunRow>()
            + self.runs_metadata.capacity() * 4
    }
}

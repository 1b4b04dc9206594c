//! A block of an input: as it is stored, and decoded.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::ahead::Piece;
use super::aside::WorkError;
use crate::retention::{EntryView, ViewedMetadata};
use crate::sealed::HeldDirectory;
use logsvc_segment::batch::MetadataPairs;
use logsvc_segment::{
    BlockInfo, BlockMetadata, ColumnKind, Decoder, Directory, Entries, EntriesMetadata,
    PlainMetadata, RunInfo, SegmentError, StoredMetadata,
};

/// A block as an input stores it.
#[derive(Debug)]
pub(super) struct StoredBlock {
    /// Number of the input.
    pub(super) input: usize,
    pub(super) directory: Arc<HeldDirectory>,
    pub(super) block: u32,
    pub(super) columns: StoredColumns,
}

impl StoredBlock {
    pub(super) fn decode(self, decoder: &mut Decoder) -> Result<Block, WorkError> {
        let StoredBlock { input, directory, block, columns } = self;
        let decoded = Block::decode(decoder, &directory, block, columns);
        decoded.map_err(|error| WorkError::Damaged { input, error })
    }
}

/// The stored bytes of the columns of a block.
#[derive(Debug)]
pub(super) enum StoredColumns {
    /// Read one by one.
    Apart([Vec<u8>; 4]),
    /// Read at once, and where in that they are.
    Together(Piece, [Range<usize>; 4]),
}

impl StoredColumns {
    pub(super) fn get(&self, kind: ColumnKind) -> &[u8] {
        match self {
            StoredColumns::Apart(columns) => &columns[kind as usize],
            StoredColumns::Together(piece, ranges) => &piece[ranges[kind as usize].clone()],
        }
    }

    /// Whether the columns were read at once, as the columns of drafts are, because their lines are
    /// not encoded.
    pub(super) fn is_piece(&self) -> bool {
        matches!(self, StoredColumns::Together(..))
    }

    /// Bytes of all columns.
    pub(super) fn len_bytes(&self) -> usize {
        ColumnKind::ALL.iter().map(|&kind| self.get(kind).len()).sum()
    }

    /// The stored bytes of the lines, without a copy.
    fn into_lines(self) -> Lines {
        match self {
            StoredColumns::Apart([lines, ..]) => Lines::Own(lines),
            StoredColumns::Together(piece, [lines, ..]) => Lines::Within(piece, lines),
        }
    }
}

/// Where the columns of a block are if they stand one behind the other, as in drafts, and where
/// each is within that.
pub(super) fn together(info: &BlockInfo) -> Option<(Range<u64>, [Range<usize>; 4])> {
    let ranges = ColumnKind::ALL.map(|kind| info.column(kind).range());
    let stored = || ranges.iter().filter(|range| !range.is_empty());
    let all = stored().map(|range| range.start).min()?..stored().map(|range| range.end).max()?;
    let sum: u64 = stored().map(|range| range.end - range.start).sum();
    if all.end - all.start != sum {
        return None;
    }
    let within = ranges.map(|range| match range.is_empty() {
        true => 0..0,
        false => (range.start - all.start) as usize..(range.end - all.start) as usize,
    });
    Some((all, within))
}

#[derive(Debug)]
enum Lines {
    Own(Vec<u8>),
    Within(Piece, Range<usize>),
}

impl Deref for Lines {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Lines::Own(lines) => lines,
            Lines::Within(piece, range) => &piece[range.clone()],
        }
    }
}

/// The columns of a block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Lines,
    metadata: Option<StoredMetadata>,
}

impl Block {
    fn decode(
        decoder: &mut Decoder,
        directory: &Directory,
        block: u32,
        columns: StoredColumns,
    ) -> Result<Block, SegmentError> {
        let stored = |kind| columns.get(kind);
        let timestamps_ns = decoder.timestamps(directory, block, stored(ColumnKind::Timestamps))?;
        let line_ends = decoder.line_ends(directory, block, stored(ColumnKind::Lengths))?;
        let metadata = decoder.stored_metadata(directory, block, stored(ColumnKind::Metadata))?;
        let lines = stored(ColumnKind::Lines);
        let lines = match decoder.unless_raw(directory, block, lines, &timestamps_ns)? {
            Some(lines) => Lines::Own(lines),
            None => columns.into_lines(),
        };
        Ok(Block { timestamps_ns, line_ends, lines, metadata })
    }

    /// Some entries of a run, counted within the block.
    pub(super) fn entries(&self, run: &RunInfo, range: Range<usize>) -> Entries<'_> {
        let lines_start = self.line_start(run, range.start);
        let metadata = match self.metadata_of(run) {
            None => EntriesMetadata::None,
            Some(StoredMetadata::Plain(column)) => EntriesMetadata::Plain {
                entry_sets: &column.entry_sets[range.clone()],
                sets: &column.sets,
            },
            Some(StoredMetadata::Sets(column)) => EntriesMetadata::Sets {
                set_ids: &column.set_ids[range.clone()],
                sets: &column.sets,
            },
        };
        Entries {
            timestamps_ns: &self.timestamps_ns[range.clone()],
            lines_start,
            line_ends: &self.line_ends[range],
            lines: run.of_lines(&self.lines),
            metadata,
        }
    }

    /// Bytes of the lines of some entries of a run, counted within the block.
    pub(super) fn line_bytes(&self, run: &RunInfo, range: Range<usize>) -> usize {
        let Some(last) = range.end.checked_sub(1).filter(|last| *last >= range.start) else {
            return 0;
        };
        (self.line_ends[last] - self.line_start(run, range.start)) as usize
    }

    /// An entry of a run, counted within the block.
    pub(super) fn entry(&self, run: &RunInfo, index: usize) -> EntryView<'_> {
        let line = self.line_start(run, index) as usize..self.line_ends[index] as usize;
        EntryView {
            timestamp_ns: self.timestamps_ns[index],
            line: &run.of_lines(&self.lines)[line],
            metadata: match self.metadata_of(run) {
                None => ViewedMetadata::None,
                Some(StoredMetadata::Plain(PlainMetadata { sets, entry_sets })) => {
                    let set = sets.get(entry_sets[index]);
                    ViewedMetadata::Pairs(MetadataPairs::from_checked(set, &[]))
                }
                Some(StoredMetadata::Sets(BlockMetadata { sets, set_ids, .. })) => {
                    ViewedMetadata::Set(sets, set_ids[index])
                }
            },
        }
    }

    /// The block's metadata, if the run has any.
    fn metadata_of(&self, run: &RunInfo) -> Option<&StoredMetadata> {
        self.metadata.as_ref().filter(|_| run.has_metadata)
    }

    /// The offset of a line in the lines of its run.
    fn line_start(&self, run: &RunInfo, index: usize) -> u32 {
        if index == run.entries.start as usize { 0 } else { self.line_ends[index - 1] }
    }
}

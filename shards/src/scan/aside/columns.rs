//! Columns of sealed blocks on their way to the engine: supplied by the core, decoded here.
//!
//! The core supplies the stored bytes of a column, or the decoded column from its cache
//! ([`OpenBlock::supply`]). The thread that evaluates the block decodes the columns
//! ([`OpenBlock::run`]) and reports the ones that it misses. The core puts decoded columns into
//! its cache ([`OpenBlock::take_fresh`]).
//!
//! Guarantees: every byte that reaches the engine has passed its checksum. A column is decoded
//! at most once per block and scan.

use std::ops::Range;
use std::sync::Arc;

use logsvc_logql::engine::{EntryBlock, ListedNames, MetadataColumn, Needs};

use super::search::Found;
use crate::deletion::DeleteId;
use crate::scan::error::ReadError;
use crate::sealed::{Cached, ColumnForm, ColumnKey, HeldDirectory, SealedSegment, hasher};
use crate::types::ScanStats;
use logsvc_segment::{
    AbridgedLines, BlockInfo, BlockMetadata, ColumnKind, Decoder, LineOutcomes, LineParts, Part,
    RunInfo, SegmentError, SlotLines,
};

/// Why a column cannot be evaluated yet.
#[derive(Debug)]
pub(in crate::scan) enum Unready {
    /// The column was not loaded. The core loads the columns for which [`OpenBlock::is_missed`]
    /// holds.
    Missing,
    /// The column cannot be read.
    Failed(ReadError),
}

impl From<SegmentError> for Unready {
    fn from(error: SegmentError) -> Unready {
        Unready::Failed(error.into())
    }
}

/// A column of a block, or its lines in another form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::scan) enum Column {
    Timestamps,
    Ends,
    Lines,
    Metadata,
    /// The lines in their parts.
    Parts,
}

impl Column {
    pub(in crate::scan) const ALL: [Column; 5] =
        [Column::Timestamps, Column::Ends, Column::Lines, Column::Metadata, Column::Parts];

    fn kind(self) -> ColumnKind {
        match self {
            Column::Timestamps => ColumnKind::Timestamps,
            Column::Ends => ColumnKind::Lengths,
            Column::Lines | Column::Parts => ColumnKind::Lines,
            Column::Metadata => ColumnKind::Metadata,
        }
    }
}

/// A column on its way.
#[derive(Debug, Default)]
enum ColumnState {
    #[default]
    Absent,
    /// The evaluation of an item needs the column.
    Missing,
    /// It is about to be read.
    Wanted,
    Stored(Vec<u8>),
    Decoded(Cached),
    Failed(ReadError),
}

/// A column as the core supplies it.
#[derive(Debug)]
pub(in crate::scan) enum Loaded {
    /// Its bytes as they are stored.
    Stored(Vec<u8>),
    /// The column, from the cache.
    Decoded(Cached),
    /// Nothing.
    Failed(ReadError),
}

/// The columns of a block that a run needs.
pub(in crate::scan) fn columns_of(run: &RunInfo, needs: Needs) -> impl Iterator<Item = Column> {
    let wanted = [
        (true, Column::Timestamps),
        (needs.line_lengths || needs.lines, Column::Ends),
        (needs.lines, Column::Lines),
        (needs.metadata && run.has_metadata, Column::Metadata),
    ];
    wanted.into_iter().filter_map(|(is_needed, column)| is_needed.then_some(column))
}

/// A block of which some columns are in memory. May go from thread to thread.
#[derive(Debug)]
pub(in crate::scan) struct OpenBlock {
    directory: Arc<HeldDirectory>,
    /// The key of the block's lines.
    key: ColumnKey,
    info: BlockInfo,
    states: [ColumnState; Column::ALL.len()],
    /// Columns that are decoded and not in the cache.
    fresh: Vec<(ColumnKey, Cached)>,
    /// The names of metadata that are enough, if not all are needed. Set before columns are loaded.
    pub(in crate::scan) listed: Option<ListedNames>,
    /// Whether lines are looked for in their parts.
    pub(in crate::scan) is_searched: bool,
    /// Which of the leaf's pairs no entry has, once the metadata was looked at.
    pub(super) lacking: Option<Vec<bool>>,
    /// The lines that a search has found, once it was made.
    pub(in crate::scan) found: Option<Option<Arc<Found>>>,
    /// Whether the parts may tell that requests for deletion hide nothing.
    pub(in crate::scan) is_tested: bool,
    /// The lines that requests for deletion may hide, by request, of searches that were made.
    pub(in crate::scan) hidden_lines: Vec<(DeleteId, Vec<u64>)>,
    /// The abridged lines, once they were made.
    pub(super) abridged: Option<Option<Arc<AbridgedLines>>>,
    /// Which lines use the parts of lines.
    pub(super) slot_lines: SlotLines,
    /// The outcomes of a search whose next column was missing.
    pub(in crate::scan) outcomes: Option<LineOutcomes>,
    /// Whether it was counted, and as searched, and its metadata.
    is_counted: bool,
    is_counted_as_searched: bool,
    is_metadata_counted: bool,
}

impl OpenBlock {
    pub(in crate::scan) fn new(
        segment: &SealedSegment,
        directory: &Arc<HeldDirectory>,
        block: u32,
    ) -> Self {
        let kind = ColumnKind::Lines;
        OpenBlock {
            directory: Arc::clone(directory),
            key: ColumnKey { segment: segment.live.name, block, kind, form: ColumnForm::Whole },
            info: directory.block(block),
            states: Default::default(),
            fresh: Vec::new(),
            listed: None,
            is_searched: false,
            lacking: None,
            found: None,
            is_tested: false,
            hidden_lines: Vec::new(),
            abridged: None,
            slot_lines: SlotLines::default(),
            outcomes: None,
            is_counted: false,
            is_counted_as_searched: false,
            is_metadata_counted: false,
        }
    }

    /// The directory of its segment.
    pub(in crate::scan) fn directory(&self) -> &Arc<HeldDirectory> {
        &self.directory
    }

    /// The key of a column in the cache.
    pub(in crate::scan) fn key(&self, column: Column) -> ColumnKey {
        let form = match (column, &self.listed) {
            (Column::Parts, _) => ColumnForm::Parts,
            (Column::Metadata, Some(listed)) => ColumnForm::Listed(hasher().hash_one(listed)),
            _ => ColumnForm::Whole,
        };
        ColumnKey { kind: column.kind(), form, ..self.key }
    }

    /// The key of a column that serves as well, if it is in the cache.
    pub(in crate::scan) fn other_key(&self, column: Column) -> Option<ColumnKey> {
        let is_listed = column == Column::Metadata && self.listed.is_some();
        let form = ColumnForm::Whole;
        is_listed.then_some(ColumnKey { kind: column.kind(), form, ..self.key })
    }

    /// Whether a column from the cache serves: names may have the hash of other names.
    pub(in crate::scan) fn takes(&self, cached: &Cached) -> bool {
        match cached {
            Cached::Metadata(Some(metadata)) => {
                metadata.listed.is_none() || metadata.listed == self.listed
            }
            _ => true,
        }
    }

    /// Where a column is stored in the segment, and its length in bytes when it is decoded.
    pub(in crate::scan) fn place(&self, column: Column) -> (Range<u64>, usize) {
        let place = self.info.column(column.kind());
        (place.range(), place.raw_len as usize)
    }

    /// Whether the lines are stored in parts.
    pub(in crate::scan) fn has_parts(&self) -> bool {
        self.info.column(ColumnKind::Lines).codec.is_for_lines()
    }

    /// Whether nothing was supplied for a column.
    pub(in crate::scan) fn is_unloaded(&self, column: Column) -> bool {
        matches!(self.states[column as usize], ColumnState::Absent | ColumnState::Missing)
    }

    /// Whether a column is needed for which nothing was supplied.
    pub(in crate::scan) fn is_missed(&self, column: Column) -> bool {
        matches!(self.states[column as usize], ColumnState::Missing)
    }

    /// Notes that a column is about to be read.
    pub(in crate::scan) fn want(&mut self, column: Column) {
        self.states[column as usize] = ColumnState::Wanted;
    }

    /// The columns that are about to be read.
    pub(in crate::scan) fn wanted(&self) -> impl Iterator<Item = Column> {
        let columns = Column::ALL.into_iter();
        columns.filter(|column| matches!(self.states[*column as usize], ColumnState::Wanted))
    }

    /// Makes a column ready, or notes why it cannot be.
    pub(in crate::scan) fn supply(&mut self, column: Column, loaded: Loaded) {
        self.states[column as usize] = match loaded {
            Loaded::Stored(bytes) => ColumnState::Stored(bytes),
            Loaded::Decoded(cached) => ColumnState::Decoded(cached),
            Loaded::Failed(error) => ColumnState::Failed(error),
        };
    }

    /// Memory that a column takes, as it is stored and decoded.
    fn column_bytes(&self, column: Column) -> u64 {
        let place = self.info.column(column.kind());
        let entries = u64::from(self.info.entries);
        let decoded_bytes = match column {
            Column::Timestamps => entries * size_of::<i64>() as u64,
            Column::Ends => entries * size_of::<u32>() as u64,
            Column::Lines => u64::from(self.info.line_bytes),
            Column::Metadata => {
                u64::from(self.info.metadata_bytes) + entries * size_of::<u32>() as u64
            }
            Column::Parts => u64::from(place.raw_len),
        };
        u64::from(place.stored_len) + decoded_bytes
    }

    /// Memory that all columns take that may be loaded at first.
    pub(in crate::scan) fn max_bytes(&self) -> u64 {
        let has_parts = self.is_searched || self.is_tested;
        let columns = Column::ALL.into_iter();
        let columns = columns.filter(|column| has_parts || *column != Column::Parts);
        columns.map(|column| self.column_bytes(column)).sum()
    }

    /// The memory of the columns that were or are about to be read; the other columns are the
    /// cache's.
    pub(in crate::scan) fn stored_bytes(&self) -> u64 {
        self.bytes_where(|slot| matches!(slot, ColumnState::Stored(_) | ColumnState::Wanted))
    }

    /// The memory that the missing columns will take.
    pub(in crate::scan) fn missing_bytes(&self) -> u64 {
        self.bytes_where(|slot| matches!(slot, ColumnState::Missing))
    }

    fn bytes_where(&self, counts: impl Fn(&ColumnState) -> bool) -> u64 {
        let columns = Column::ALL.into_iter();
        let columns = columns.filter(|column| counts(&self.states[*column as usize]));
        columns.map(|column| self.column_bytes(column)).sum()
    }

    /// Takes the columns that were decoded since the last call, for the cache.
    pub(in crate::scan) fn take_fresh(&mut self) -> Vec<(ColumnKey, Cached)> {
        std::mem::take(&mut self.fresh)
    }

    /// The columns of a run of this block.
    pub(in crate::scan) fn run(
        &mut self,
        run: &RunInfo,
        needs: Needs,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<RunColumns, Unready> {
        let mut is_missing = false;
        for column in columns_of(run, needs) {
            is_missing |= self.is_missing(column);
        }
        if is_missing {
            return Err(Unready::Missing);
        }
        let timestamps = self.timestamps(decoder, stats)?;
        let mut columns = RunColumns {
            timestamps,
            ends: None,
            lines: None,
            metadata: None,
            entries: run.entries.start as usize..run.entries.end as usize,
            line_bytes: run.line_bytes.start as usize..run.line_bytes.end as usize,
            sorted: true,
        };
        for column in columns_of(run, needs).skip(1) {
            match self.column(column, decoder, stats)? {
                Cached::Ends(column) => columns.ends = Some(column),
                Cached::Lines(column) => columns.lines = Some(column),
                Cached::Metadata(column) => {
                    columns.metadata = column;
                    self.count_metadata(stats);
                }
                other => unreachable!("{other:?} under the key of {column:?}"),
            }
        }
        self.count(stats);
        Ok(columns)
    }

    fn count_metadata(&mut self, stats: &mut ScanStats) {
        if !std::mem::replace(&mut self.is_metadata_counted, true) {
            stats.sealed_metadata_bytes += u64::from(self.info.metadata_bytes);
        }
    }

    fn count(&mut self, stats: &mut ScanStats) {
        stats.sealed_blocks += u64::from(!std::mem::replace(&mut self.is_counted, true));
    }

    /// Counts it as one whose lines are not all put together.
    pub(in crate::scan) fn count_as_searched(&mut self, stats: &mut ScanStats) {
        let was_counted = std::mem::replace(&mut self.is_counted_as_searched, true);
        stats.blocks_searched += u64::from(!was_counted);
    }

    /// The block's lines in their parts, if they are stored so.
    pub(in crate::scan) fn parts(
        &mut self,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Option<Arc<LineParts>>, Unready> {
        if !self.has_parts() {
            return Ok(None);
        }
        self.count(stats);
        if self.is_missing(Column::Parts) {
            return Err(Unready::Missing);
        }
        match self.column(Column::Parts, decoder, stats)? {
            Cached::Parts(parts) => Ok(Some(parts)),
            other => unreachable!("{other:?} under the key of parts"),
        }
    }

    /// The block's metadata, whether or not a run was asked for.
    pub(super) fn metadata(
        &mut self,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Option<Arc<BlockMetadata>>, Unready> {
        if self.is_missing(Column::Metadata) {
            return Err(Unready::Missing);
        }
        match self.column(Column::Metadata, decoder, stats)? {
            Cached::Metadata(column) => {
                self.count(stats);
                self.count_metadata(stats);
                Ok(column)
            }
            other => unreachable!("{other:?} under the key of metadata"),
        }
    }

    /// The block's timestamps, whether or not a run was asked for.
    pub(in crate::scan) fn timestamps(
        &mut self,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Arc<Vec<i64>>, Unready> {
        if self.is_missing(Column::Timestamps) {
            return Err(Unready::Missing);
        }
        match self.column(Column::Timestamps, decoder, stats)? {
            Cached::Timestamps(column) => Ok(column),
            other => unreachable!("{other:?} under the key of timestamps"),
        }
    }

    /// The error that the lines are damaged.
    pub(in crate::scan) fn damaged_lines(&self) -> Unready {
        let part = Part::Column { block: self.key.block, kind: ColumnKind::Lines };
        SegmentError::new(part, "its templates do not fit").into()
    }

    /// Whether a column was not loaded; notes that it should be.
    fn is_missing(&mut self, column: Column) -> bool {
        let slot = &mut self.states[column as usize];
        let is_missing =
            matches!(slot, ColumnState::Absent | ColumnState::Missing | ColumnState::Wanted);
        if is_missing {
            *slot = ColumnState::Missing;
        }
        is_missing
    }

    /// A column that was loaded.
    fn column(
        &mut self,
        column: Column,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Cached, Unready> {
        let needs_times = self.info.column(ColumnKind::Lines).codec.needs_timestamps();
        let is_stored = matches!(self.states[column as usize], ColumnState::Stored(_));
        // Runs load timestamps with all else that they need.
        let timestamps = match column == Column::Lines && is_stored && needs_times {
            true => Some(self.timestamps(decoder, stats)?),
            false => None,
        };
        let slot = &mut self.states[column as usize];
        let bytes = match slot {
            ColumnState::Absent | ColumnState::Missing | ColumnState::Wanted => {
                return Err(Unready::Missing);
            }
            ColumnState::Decoded(cached) => return Ok(cached.clone()),
            ColumnState::Failed(_) => {
                let ColumnState::Failed(error) = std::mem::take(slot) else {
                    unreachable!("it was")
                };
                return Err(Unready::Failed(error));
            }
            ColumnState::Stored(bytes) => std::mem::take(bytes),
        };
        let (directory, block) = (&self.directory, self.key.block);
        let cached = match column {
            Column::Timestamps => {
                Cached::Timestamps(Arc::new(decoder.timestamps(directory, block, &bytes)?))
            }
            Column::Ends => Cached::Ends(Arc::new(decoder.line_ends(directory, block, &bytes)?)),
            Column::Lines => {
                let times = timestamps.as_ref().map_or(&[][..], |column| column);
                Cached::Lines(Arc::new(decoder.lines(directory, block, &bytes, times)?))
            }
            Column::Metadata => {
                let metadata = match &self.listed {
                    Some(listed) => decoder.listed_metadata(directory, block, &bytes, listed)?,
                    None => decoder.metadata(directory, block, &bytes)?,
                };
                Cached::Metadata(metadata.map(Arc::new))
            }
            Column::Parts => match decoder.line_parts(directory, block, &bytes)? {
                Some(parts) => Cached::Parts(Arc::new(parts)),
                // The directory says that they are stored so.
                None => return Err(self.damaged_lines()),
            },
        };
        stats.decoded_bytes += cached.held_bytes() as u64;
        self.states[column as usize] = ColumnState::Decoded(cached.clone());
        self.fresh.push((self.key(column), cached.clone()));
        Ok(cached)
    }
}

/// The columns of a run, as far as they are needed.
#[derive(Debug)]
pub(in crate::scan) struct RunColumns {
    pub(in crate::scan) timestamps: Arc<Vec<i64>>,
    /// Ends within the run's lines.
    pub(in crate::scan) ends: Option<Arc<Vec<u32>>>,
    pub(in crate::scan) lines: Option<Arc<Vec<u8>>>,
    pub(in crate::scan) metadata: Option<Arc<BlockMetadata>>,
    /// The run's place in the first two columns and in the set ids.
    pub(in crate::scan) entries: Range<usize>,
    /// The run's place in the lines.
    pub(in crate::scan) line_bytes: Range<usize>,
    /// Whether timestamps never fall.
    pub(in crate::scan) sorted: bool,
}

impl RunColumns {
    /// The run as the engine takes it.
    pub(in crate::scan) fn block(&self, arrival: u64) -> EntryBlock<'_> {
        let entries = self.entries.clone();
        EntryBlock {
            timestamps_ns: &self.timestamps[entries.clone()],
            line_ends: self.ends.as_ref().map_or(&[], |ends| &ends[entries.clone()]),
            lines: self.lines.as_ref().map_or(&[], |lines| &lines[self.line_bytes.clone()]),
            metadata: match &self.metadata {
                Some(column) => {
                    MetadataColumn::Sets { set_ids: &column.set_ids[entries], sets: &column.sets }
                }
                None => MetadataColumn::None,
            },
            arrival,
            sorted: self.sorted,
        }
    }
}

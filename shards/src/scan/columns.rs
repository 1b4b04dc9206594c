//! Columns of sealed blocks: read, checked, decoded, kept in the cache.
//!
//! Guarantees: a column is read only when a run needs it, and at most once per
//! block and scan; every byte that is served has passed its checksum.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use logsvc_logql::engine::{EntryBlock, MetadataColumn, Needs};
use logsvc_runtime::{File, Runtime};

use super::ScanEnv;
use super::search::Found;
use crate::filter::FilterError;
use crate::messages::ScanStats;
use crate::sealed::{Cached, ColumnKey, DirectoryError, SealedSegment};
use crate::segment::{
    BlockMetadata, Codec, ColumnKind, Directory, LineParts, Part, RunInfo, SegmentError,
};

/// Why a part of a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The disk refuses.
    #[error("cannot read: {error}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// The bytes are not what was written.
    #[error(transparent)]
    Damaged(#[from] SegmentError),
    /// The directory is not there.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A filter's bytes are not what was written.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// Reads `len` bytes of a segment.
pub(super) async fn read<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    range: Range<u64>,
    stats: &mut ScanStats,
) -> Result<Vec<u8>, ReadError> {
    let begun = env.runtime.now();
    let offset = range.start;
    let refused = |error| ReadError::Io { offset, error };
    let file = env.directories.files.get(&env.runtime, segment).await.map_err(refused)?;
    let len = (range.end - range.start) as usize;
    let (result, bytes) = file.read_exact_at(Vec::new(), range.start, len).await;
    stats.read_time_ns += env.runtime.now().since(begun).as_nanos() as u64;
    result.map_err(refused)?;
    stats.read_bytes += len as u64;
    Ok(bytes)
}

/// A block of which some columns are in memory.
pub(super) struct OpenBlock<'a, R: Runtime> {
    env: &'a ScanEnv<R>,
    segment: &'a SealedSegment,
    directory: &'a Directory,
    block: u32,
    timestamps: Option<Rc<Vec<i64>>>,
    ends: Option<Rc<Vec<u32>>>,
    lines: Option<Rc<Vec<u8>>>,
    metadata: Option<Rc<BlockMetadata>>,
    parts: Option<Rc<LineParts>>,
    /// The lines that a search has found, once it was made.
    pub(super) found: Option<Option<Rc<Found>>>,
    /// Whether it was counted.
    touched: bool,
}

impl<'a, R: Runtime> OpenBlock<'a, R> {
    pub(super) fn new(
        env: &'a ScanEnv<R>,
        segment: &'a SealedSegment,
        directory: &'a Directory,
        block: u32,
    ) -> Self {
        OpenBlock {
            env,
            segment,
            directory,
            block,
            timestamps: None,
            ends: None,
            lines: None,
            metadata: None,
            parts: None,
            found: None,
            touched: false,
        }
    }

    /// The columns of a run of this block.
    pub(super) async fn run(
        &mut self,
        run: &RunInfo,
        needs: Needs,
        stats: &mut ScanStats,
    ) -> Result<RunColumns, ReadError> {
        let timestamps = self.timestamps(stats).await?;
        let mut columns = RunColumns {
            timestamps,
            ends: None,
            lines: None,
            metadata: None,
            entries: run.entries.start as usize..run.entries.end as usize,
            line_bytes: run.line_bytes.start as usize..run.line_bytes.end as usize,
            sorted: true,
        };
        if needs.line_lengths || needs.lines {
            columns.ends = Some(self.ends(stats).await?);
        }
        if needs.lines {
            columns.lines = Some(self.lines(stats).await?);
        }
        if needs.metadata && run.has_metadata {
            columns.metadata = self.metadata(stats).await?;
        }
        self.touch(stats);
        Ok(columns)
    }

    fn touch(&mut self, stats: &mut ScanStats) {
        stats.sealed_blocks += u64::from(!std::mem::replace(&mut self.touched, true));
    }

    /// The block's lines in their parts, if they are stored so.
    pub(super) async fn parts(
        &mut self,
        stats: &mut ScanStats,
    ) -> Result<Option<Rc<LineParts>>, ReadError> {
        if let Some(parts) = &self.parts {
            return Ok(Some(Rc::clone(parts)));
        }
        let place = self.directory.block(self.block).column(ColumnKind::Lines);
        if place.codec != Codec::Templates {
            return Ok(None);
        }
        self.touch(stats);
        let key = ColumnKey { in_parts: true, ..self.key(ColumnKind::Lines) };
        stats.cache_lookups += 1;
        if let Some(Cached::Parts(parts)) = self.env.cache.get(key) {
            stats.cache_hits += 1;
            stats.cached_bytes += parts.held_bytes() as u64;
            self.parts = Some(Rc::clone(&parts));
            return Ok(Some(parts));
        }
        let bytes = read(self.env, self.segment, place.range(), stats).await?;
        let parts = {
            let decoder = &mut *self.env.decoder.borrow_mut();
            decoder.line_parts(self.directory, self.block, &bytes)?.map(Rc::new)
        };
        if let Some(parts) = &parts {
            stats.decoded_bytes += parts.held_bytes() as u64;
            self.env.cache.put(key, Cached::Parts(Rc::clone(parts)));
        }
        self.parts.clone_from(&parts);
        Ok(parts)
    }

    /// Whether the block's lines are better looked at as a whole: they are decoded, or they
    /// can be kept for all queries to come without anything else having to go. Otherwise
    /// parts are less work, and three times as many of them fit.
    pub(super) fn prefers_lines(&self) -> bool {
        let cache = &self.env.cache;
        let key = self.key(ColumnKind::Lines);
        if self.lines.is_some() || cache.holds(key) {
            return true;
        }
        let place = self.directory.block(self.block).column(ColumnKind::Lines);
        let has_room = || cache.has_room_for(place.raw_len as usize);
        !cache.holds(ColumnKey { in_parts: true, ..key }) && has_room()
    }

    /// That the lines are not what was written.
    pub(super) fn damaged_lines(&self) -> ReadError {
        let part = Part::Column { block: self.block, kind: ColumnKind::Lines };
        SegmentError::new(part, "its templates do not fit").into()
    }

    fn key(&self, kind: ColumnKind) -> ColumnKey {
        ColumnKey { segment: self.segment.live.name, block: self.block, kind, in_parts: false }
    }

    /// The timestamps of all entries of the block.
    pub(super) async fn timestamps(
        &mut self,
        stats: &mut ScanStats,
    ) -> Result<Rc<Vec<i64>>, ReadError> {
        if let Some(column) = &self.timestamps {
            return Ok(Rc::clone(column));
        }
        let column = match self.column(ColumnKind::Timestamps, stats).await? {
            Cached::Timestamps(column) => column,
            other => unreachable!("{other:?} under the key of timestamps"),
        };
        self.timestamps = Some(Rc::clone(&column));
        Ok(column)
    }

    async fn ends(&mut self, stats: &mut ScanStats) -> Result<Rc<Vec<u32>>, ReadError> {
        if let Some(column) = &self.ends {
            return Ok(Rc::clone(column));
        }
        let column = match self.column(ColumnKind::Lengths, stats).await? {
            Cached::Ends(column) => column,
            other => unreachable!("{other:?} under the key of line ends"),
        };
        self.ends = Some(Rc::clone(&column));
        Ok(column)
    }

    async fn lines(&mut self, stats: &mut ScanStats) -> Result<Rc<Vec<u8>>, ReadError> {
        if let Some(column) = &self.lines {
            return Ok(Rc::clone(column));
        }
        let column = match self.column(ColumnKind::Lines, stats).await? {
            Cached::Lines(column) => column,
            other => unreachable!("{other:?} under the key of lines"),
        };
        self.lines = Some(Rc::clone(&column));
        Ok(column)
    }

    async fn metadata(
        &mut self,
        stats: &mut ScanStats,
    ) -> Result<Option<Rc<BlockMetadata>>, ReadError> {
        if let Some(column) = &self.metadata {
            return Ok(Some(Rc::clone(column)));
        }
        match self.column(ColumnKind::Metadata, stats).await? {
            Cached::Metadata(column) => {
                let info = self.directory.block(self.block);
                stats.sealed_metadata_bytes += u64::from(info.metadata_bytes);
                self.metadata = column;
            }
            other => unreachable!("{other:?} under the key of metadata"),
        }
        Ok(self.metadata.clone())
    }

    async fn column(&self, kind: ColumnKind, stats: &mut ScanStats) -> Result<Cached, ReadError> {
        let key = self.key(kind);
        stats.cache_lookups += 1;
        if let Some(column) = self.env.cache.get(key) {
            stats.cache_hits += 1;
            stats.cached_bytes += column.held_bytes() as u64;
            return Ok(column);
        }
        let directory = self.directory;
        let place = directory.block(self.block).column(kind);
        let bytes = read(self.env, self.segment, place.range(), stats).await?;
        let decoder = &mut *self.env.decoder.borrow_mut();
        let column = match kind {
            ColumnKind::Timestamps => {
                Cached::Timestamps(Rc::new(decoder.timestamps(directory, self.block, &bytes)?))
            }
            ColumnKind::Lengths => {
                Cached::Ends(Rc::new(decoder.line_ends(directory, self.block, &bytes)?))
            }
            ColumnKind::Lines => {
                Cached::Lines(Rc::new(decoder.lines(directory, self.block, &bytes)?))
            }
            ColumnKind::Metadata => {
                Cached::Metadata(decoder.metadata(directory, self.block, &bytes)?.map(Rc::new))
            }
        };
        stats.decoded_bytes += column.held_bytes() as u64;
        self.env.cache.put(key, column.clone());
        Ok(column)
    }
}

/// The columns of a run, as far as they are needed.
#[derive(Debug)]
pub(super) struct RunColumns {
    pub(super) timestamps: Rc<Vec<i64>>,
    /// Ends within the run's lines.
    pub(super) ends: Option<Rc<Vec<u32>>>,
    pub(super) lines: Option<Rc<Vec<u8>>>,
    pub(super) metadata: Option<Rc<BlockMetadata>>,
    /// The run's place in the first two columns and in the set ids.
    pub(super) entries: Range<usize>,
    /// The run's place in the lines.
    pub(super) line_bytes: Range<usize>,
    /// Whether timestamps never fall.
    pub(super) sorted: bool,
}

impl RunColumns {
    /// The run as the engine takes it.
    pub(super) fn block(&self, arrival: u64) -> EntryBlock<'_> {
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

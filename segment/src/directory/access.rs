//! Accessors of a directory: streams, runs, blocks and chunks of the stream table.

use std::ops::Range;

use logsvc_logql::engine::BlockSummary;
use logsvc_proto::StreamId;

use super::Directory;
use super::rows::{
    ArchivedBlockRow, ArchivedColumnRow, ArchivedRoot, RUN_HAS_METADATA, UNKNOWN_METADATA,
};
use crate::column_kind::ColumnKind;
use crate::columns::compress::{Codec, ColumnPlace};
use crate::columns::lengths::RunLines;
use crate::columns::timestamps::RunTimes;
use crate::error::Part;
use crate::filter::BlockSet;
use crate::format::FOOTER_LEN;
use crate::row_set::RowSet;

/// A run: the entries of one stream in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Its number in the segment. The runs of a stream ascend by time, then by arrival.
    pub run: u32,
    /// The stream's number in the segment.
    pub stream: u32,
    /// The block's number in the segment.
    pub block: u32,
    /// Its entries within the block.
    pub entries: Range<u32>,
    /// Its bytes within the lines of the block.
    pub line_bytes: Range<u32>,
    /// Timestamp of the first entry, in nanoseconds.
    pub min_ns: i64,
    /// Timestamp of the last entry, in nanoseconds.
    pub max_ns: i64,
    /// Whether an entry has metadata.
    pub has_metadata: bool,
    /// Bytes of the names and values of its entries' metadata; `None` if the segment does not tell.
    pub metadata_text_bytes: Option<u32>,
}

impl RunInfo {
    /// The figures from which the engine may answer without reading columns.
    pub fn summary(&self) -> BlockSummary {
        BlockSummary {
            blocks: 1,
            min_timestamp_ns: self.min_ns,
            max_timestamp_ns: self.max_ns,
            entries: u64::from(self.entries.end - self.entries.start),
            line_bytes: u64::from(self.line_bytes.end - self.line_bytes.start),
            metadata_bytes: self.metadata_text_bytes.map(u64::from),
        }
    }

    /// The run's part of a column that has an element for each entry of the block.
    #[inline]
    pub fn of_entries<'a, T>(&self, column: &'a [T]) -> &'a [T] {
        &column[self.entries.start as usize..self.entries.end as usize]
    }

    /// The run's part of the lines of the block.
    #[inline]
    pub fn of_lines<'a>(&self, lines: &'a [u8]) -> &'a [u8] {
        &lines[self.line_bytes.start as usize..self.line_bytes.end as usize]
    }
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its number in the segment.
    pub block: u32,
    /// Numbers of its runs.
    pub runs: Range<u32>,
    /// The stream of its first run; each further run belongs to the next stream.
    pub first_stream: u32,
    /// Number of entries.
    pub entries: u32,
    /// Bytes of its lines.
    pub line_bytes: u32,
    /// Bytes of its metadata in the encoding of a batch; 0 if no entry has metadata.
    pub metadata_bytes: u32,
    /// Smallest timestamp in nanoseconds.
    pub min_ns: i64,
    /// Largest timestamp in nanoseconds.
    pub max_ns: i64,
    columns: [ColumnPlace; 4],
}

impl BlockInfo {
    /// The place of a column of the block.
    #[inline]
    pub fn column(&self, kind: ColumnKind) -> ColumnPlace {
        self.columns[kind as usize]
    }
}

/// A piece of the stream table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelChunk {
    /// Its number.
    pub chunk: u32,
    /// The streams whose labels it has.
    pub streams: Range<u32>,
    /// Its place in the file.
    pub place: ColumnPlace,
}

impl Directory {
    /// Number of streams.
    #[inline]
    pub fn stream_count(&self) -> u32 {
        self.root().streams.len() as u32
    }

    /// Number of runs.
    #[inline]
    pub fn run_count(&self) -> u32 {
        self.root().runs.len() as u32
    }

    /// Number of blocks.
    #[inline]
    pub fn block_count(&self) -> u32 {
        self.root().blocks.len() as u32
    }

    /// The offset of a part of the file by the footer and the directory; 0 if the segment has no
    /// such block, or no label index.
    pub fn offset_of(&self, part: Part) -> u64 {
        let footer = self.footer();
        match part {
            Part::Header => 0,
            Part::Column { block, kind } if block < self.block_count() => {
                self.block(block).column(kind).offset
            }
            Part::Column { .. } => 0,
            Part::Filters => footer.filters_offset,
            Part::StreamTable => footer.stream_table_offset,
            Part::LabelIndex => footer.label_index.map_or(0, |place| place.offset),
            Part::Directory => footer.directory_offset,
            Part::Footer => footer.file_len.saturating_sub(FOOTER_LEN as u64),
        }
    }

    /// The id of a stream, which is below [`Self::stream_count`].
    #[inline]
    pub fn stream_id(&self, stream: u32) -> StreamId {
        StreamId::from_bytes(self.root().streams[stream as usize].id)
    }

    /// The number of a stream; `None` if the segment has no entry of it.
    pub fn find_stream(&self, id: StreamId) -> Option<u32> {
        let root = self.root();
        let wanted = id.to_bytes();
        let id_of = |stream: u32| &root.streams[stream as usize].id;
        let place = root.by_id.partition_point(|stream| *id_of(stream.to_native()) < wanted);
        let stream = root.by_id.get(place)?.to_native();
        (*id_of(stream) == wanted).then_some(stream)
    }

    /// Names of the tenants and the streams of each, in order.
    pub fn tenants(&self) -> impl ExactSizeIterator<Item = (&str, Range<u32>)> {
        let root = self.root();
        root.tenants.iter().enumerate().map(|(index, tenant)| {
            let end = root.tenants.get(index + 1).map(|next| next.first_stream.to_native());
            let end = end.unwrap_or(root.streams.len() as u32);
            (tenant.name.as_str(), tenant.first_stream.to_native()..end)
        })
    }

    /// The tenant of a stream, which is below [`Self::stream_count`].
    pub fn tenant_of(&self, stream: u32) -> &str {
        let tenants = &self.root().tenants;
        let after = tenants.partition_point(|tenant| tenant.first_stream.to_native() <= stream);
        tenants[after - 1].name.as_str()
    }

    /// Numbers of the runs of a stream, which is below [`Self::stream_count`].
    pub fn run_numbers(&self, stream: u32) -> Range<u32> {
        let root = self.root();
        let end = root.streams.get(stream as usize + 1).map(|next| next.first_run.to_native());
        root.streams[stream as usize].first_run.to_native()..end.unwrap_or(root.runs.len() as u32)
    }

    /// Smallest and largest timestamp of a stream, which is below
    /// [`Self::stream_count`].
    pub fn stream_bounds_ns(&self, stream: u32) -> (i64, i64) {
        let runs = self.run_numbers(stream);
        let rows = &self.root().runs;
        // A stream's entries are in time order, and it has at least one run.
        (
            rows[runs.start as usize].min_ns.to_native(),
            rows[runs.end as usize - 1].max_ns.to_native(),
        )
    }

    /// What the engine may count of a stream without reading columns; the stream is below
    /// [`Self::stream_count`].
    pub fn stream_totals(&self, stream: u32) -> BlockSummary {
        let (min_timestamp_ns, max_timestamp_ns) = self.stream_bounds_ns(stream);
        let (mut blocks, mut entries, mut line_bytes) = (0, 0, 0);
        let mut metadata_bytes = Some(0);
        for run in self.runs_of_stream(stream) {
            blocks += 1;
            entries += u64::from(run.entries.end - run.entries.start);
            line_bytes += u64::from(run.line_bytes.end - run.line_bytes.start);
            metadata_bytes = sum(metadata_bytes, run.metadata_text_bytes);
        }
        BlockSummary {
            blocks,
            min_timestamp_ns,
            max_timestamp_ns,
            entries,
            line_bytes,
            metadata_bytes,
        }
    }

    /// The same of many streams together, which are below [`Self::stream_count`]. The bounds are
    /// those of all blocks that have some of them.
    pub fn totals_of_streams(&self, streams: &RowSet) -> BlockSummary {
        let root = self.root();
        let mut totals = BlockSummary {
            blocks: 0,
            min_timestamp_ns: i64::MAX,
            max_timestamp_ns: i64::MIN,
            entries: 0,
            line_bytes: 0,
            metadata_bytes: Some(0),
        };
        let mut block = 0;
        for range in streams.ranges() {
            let runs = self.run_numbers(range.start).start..self.run_numbers(range.end - 1).end;
            totals.blocks += u64::from(runs.end - runs.start);
            for run in runs.clone() {
                let bytes = self.metadata_text_bytes(root, run);
                totals.metadata_bytes = sum(totals.metadata_bytes, bytes);
            }
            if runs_of(root, block).end <= runs.start {
                block = block_of(root, runs.start);
            }
            loop {
                let row = &root.blocks[block as usize];
                let of_block = runs_of(root, block);
                let begins = |run: u32| match run < of_block.end {
                    true => {
                        let row = &root.runs[run as usize];
                        (row.first_entry.to_native(), row.first_line_byte.to_native())
                    }
                    false => (row.entries.to_native(), row.line_bytes.to_native()),
                };
                let first = begins(runs.start.max(of_block.start));
                let end = begins(runs.end.min(of_block.end));
                totals.entries += u64::from(end.0 - first.0);
                totals.line_bytes += u64::from(end.1 - first.1);
                totals.min_timestamp_ns = totals.min_timestamp_ns.min(row.min_ns.to_native());
                totals.max_timestamp_ns = totals.max_timestamp_ns.max(row.max_ns.to_native());
                if runs.end <= of_block.end {
                    break;
                }
                block += 1;
            }
        }
        totals
    }

    /// The runs of a stream, which is below [`Self::stream_count`], in time order.
    pub fn runs_of_stream(&self, stream: u32) -> impl ExactSizeIterator<Item = RunInfo> + '_ {
        let root = self.root();
        let runs = self.run_numbers(stream);
        // A stream has one run in each of some successive blocks.
        let first_block = block_of(root, runs.start);
        let first_run = runs.start;
        runs.map(move |run| self.run_info(root, run, stream, first_block + (run - first_run)))
    }

    /// The run of a stream in a block, each of which is below its count; `None` if the
    /// stream has none there.
    pub fn run_of_stream_in(&self, stream: u32, block: u32) -> Option<RunInfo> {
        let root = self.root();
        let runs = runs_of(root, block);
        let first_stream = root.blocks[block as usize].first_stream.to_native();
        let run = runs.start.checked_add(stream.checked_sub(first_stream)?)?;
        runs.contains(&run).then(|| self.run_info(root, run, stream, block))
    }

    /// The block with this number, which is below [`Self::block_count`].
    pub fn block(&self, block: u32) -> BlockInfo {
        let root = self.root();
        let row = &root.blocks[block as usize];
        BlockInfo {
            block,
            runs: runs_of(root, block),
            first_stream: row.first_stream.to_native(),
            entries: row.entries.to_native(),
            line_bytes: row.line_bytes.to_native(),
            metadata_bytes: row.metadata_bytes.to_native(),
            min_ns: row.min_ns.to_native(),
            max_ns: row.max_ns.to_native(),
            columns: row.columns.each_ref().map(place),
        }
    }

    /// Smallest and largest timestamp of a block, which is below [`Self::block_count`].
    #[inline]
    pub fn block_bounds_ns(&self, block: u32) -> (i64, i64) {
        let row = &self.root().blocks[block as usize];
        (row.min_ns.to_native(), row.max_ns.to_native())
    }

    /// The runs of a block, which is below [`Self::block_count`], in the order of
    /// its columns.
    pub fn runs_of_block(&self, block: u32) -> impl ExactSizeIterator<Item = RunInfo> + '_ {
        let root = self.root();
        let runs = runs_of(root, block);
        let first_run = runs.start;
        let first_stream = root.blocks[block as usize].first_stream.to_native();
        runs.map(move |run| self.run_info(root, run, first_stream + (run - first_run), block))
    }

    /// The streams with entries in some blocks, which are below [`Self::block_count`].
    pub fn streams_of_blocks(&self, blocks: &BlockSet) -> RowSet {
        let streams = blocks.iter().map(|block| {
            let first_stream = self.root().blocks[block].first_stream.to_native();
            first_stream..first_stream + runs_of(self.root(), block as u32).len() as u32
        });
        streams.collect()
    }

    /// Number of chunks of the stream table.
    pub fn label_chunk_count(&self) -> u32 {
        self.root().label_chunks.len() as u32
    }

    /// A chunk of the stream table, which is below [`Self::label_chunk_count`].
    pub fn label_chunk(&self, chunk: u32) -> LabelChunk {
        let root = self.root();
        let row = &root.label_chunks[chunk as usize];
        let end = root.label_chunks.get(chunk as usize + 1);
        let end = end.map_or(root.streams.len() as u32, |next| next.first_stream.to_native());
        LabelChunk { chunk, streams: row.first_stream.to_native()..end, place: place(&row.column) }
    }

    /// The chunk with the labels of a stream, which is below
    /// [`Self::stream_count`].
    pub fn label_chunk_of(&self, stream: u32) -> u32 {
        let chunks = &self.root().label_chunks;
        chunks.partition_point(|chunk| chunk.first_stream.to_native() <= stream) as u32 - 1
    }

    fn run_info(&self, root: &ArchivedRoot, run: u32, stream: u32, block: u32) -> RunInfo {
        let row = &root.runs[run as usize];
        let block_row = &root.blocks[block as usize];
        let (entries_end, line_bytes_end) = if run + 1 < runs_of(root, block).end {
            let next = &root.runs[run as usize + 1];
            (next.first_entry, next.first_line_byte)
        } else {
            (block_row.entries, block_row.line_bytes)
        };
        RunInfo {
            run,
            stream,
            block,
            entries: row.first_entry.to_native()..entries_end.to_native(),
            line_bytes: row.first_line_byte.to_native()..line_bytes_end.to_native(),
            min_ns: row.min_ns.to_native(),
            max_ns: row.max_ns.to_native(),
            has_metadata: row.flags & RUN_HAS_METADATA != 0,
            metadata_text_bytes: self.metadata_text_bytes(root, run),
        }
    }

    fn metadata_text_bytes(&self, root: &ArchivedRoot, run: u32) -> Option<u32> {
        if root.runs[run as usize].flags & RUN_HAS_METADATA == 0 {
            return Some(0);
        }
        self.stored_metadata_bytes(run).filter(|bytes| *bytes != UNKNOWN_METADATA)
    }

    pub(crate) fn run_times(&self, block: u32) -> impl ExactSizeIterator<Item = RunTimes> + '_ {
        self.runs_of_block(block).map(|run| RunTimes {
            entries: run.entries.end - run.entries.start,
            min_ns: run.min_ns,
            max_ns: run.max_ns,
        })
    }

    pub(crate) fn run_lines(&self, block: u32) -> impl ExactSizeIterator<Item = RunLines> + '_ {
        self.runs_of_block(block).map(|run| RunLines {
            entries: run.entries.end - run.entries.start,
            line_bytes: run.line_bytes.end - run.line_bytes.start,
        })
    }
}

/// A sum of which every part must be known.
fn sum(sum: Option<u64>, part: Option<u32>) -> Option<u64> {
    Some(sum? + u64::from(part?))
}

fn runs_of(root: &ArchivedRoot, block: u32) -> Range<u32> {
    let first = |row: &ArchivedBlockRow| row.first_run.to_native();
    let end = root.blocks.get(block as usize + 1).map_or(root.runs.len() as u32, first);
    first(&root.blocks[block as usize])..end
}

fn block_of(root: &ArchivedRoot, run: u32) -> u32 {
    root.blocks.partition_point(|block| block.first_run.to_native() <= run) as u32 - 1
}

/// The place in a row. [`Directory::open`] has checked the codec.
pub(super) fn place(row: &ArchivedColumnRow) -> ColumnPlace {
    ColumnPlace {
        offset: row.offset.to_native(),
        stored_len: row.stored_len.to_native(),
        raw_len: row.raw_len.to_native(),
        crc: row.crc.to_native(),
        codec: Codec::from_byte(row.codec).unwrap_or(Codec::Raw),
    }
}

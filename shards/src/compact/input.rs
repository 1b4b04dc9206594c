//! Reads a segment that is being rewritten, from its first block to its last.
//!
//! Memory: the directory, a chunk of labels, [`CACHED_BLOCKS`] decoded blocks, and the range that
//! is read ahead of a draft, or ranges of a segment that is in a bucket. If many blocks may be copied, all filters are in memory from the first
//! of these blocks on. Every byte is checked. Side threads do this, except for blocks that are
//! stored without encoding: decompressing a chunk of labels takes half a millisecond, and the
//! filters of a large segment take longer. Inputs have their own reads and blocks, apart from the
//! reads and blocks of scans: bytes that are read once must not evict columns that queries use
//! again.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::CompactError;
use super::ahead::ReadAhead;
use super::aside::QUEUE;
use super::block::{Block, StoredBlock, StoredColumns, together};
use super::stored::StoredAhead;
use crate::sealed::{DirectoryError, HeldDirectory, SealedSegment, SegmentFolder, SegmentSource};
use crate::types::{OwnedPartitions, StreamDefinition};
use logsvc_segment::filter::{FilterError, FilterIndex, RegionFilters};
use logsvc_segment::{
    BLOCK_TARGET_ENTRIES, BLOCK_TARGET_METADATA_BYTES, BlockInfo, ChunkLabels, Codec, ColumnKind,
    Decoder, Directory, OWN_BLOCK_LINE_BYTES, SegmentError,
};

/// Decoded blocks that are kept: runs that overlap are looked at in turns.
const CACHED_BLOCKS: usize = 2;

/// A segment that is read.
pub(super) struct Input<R: Runtime> {
    pub(super) segment: Arc<SealedSegment>,
    /// Held to the end.
    pub(super) directory: Arc<HeldDirectory>,
    file: InputFile<R>,
    /// The next stream with its row.
    stream: Option<(u32, StreamDefinition)>,
    /// The labels of the chunk behind it.
    labels: Option<ChunkLabels>,
    next_chunk: u32,
    /// Used last at the back.
    blocks: VecDeque<(u32, Arc<Block>)>,
    /// Whose streams are read.
    reader: OwnedPartitions,
    /// There from the first on that was asked for; none are in it if they are damaged.
    filters: Option<Arc<RegionFilters>>,
    /// Whether one block in [`FILTERS_SHARE`] may be copied.
    copies_many: bool,
}

/// How an input is read.
enum InputFile<R: Runtime> {
    /// Through the page cache: it was written through it, and others may read it, too.
    Cached(Rc<R::File>),
    /// Around it, as it was written: a draft.
    Ahead(ReadAhead<R>),
    /// From a bucket.
    Stored(StoredAhead<R>),
}

impl<R: Runtime> InputFile<R> {
    async fn open(
        folder: &SegmentFolder<R>,
        segment: &SealedSegment,
        directory: &Directory,
    ) -> io::Result<InputFile<R>> {
        let (runtime, files) = (&folder.runtime, &folder.directories.files);
        // A segment that became a draft later on has encoded blocks first.
        let is_plain = segment.footer.is_draft && !is_encoded(&directory.block(0));
        let mode = if is_plain { OpenMode::ReadDirect } else { OpenMode::Read };
        Ok(match files.open(runtime, segment, mode).await? {
            SegmentSource::File(file) if is_plain => {
                InputFile::Ahead(ReadAhead::new(runtime, file.file))
            }
            SegmentSource::File(file) => InputFile::Cached(file.file),
            SegmentSource::Stored(stored) => InputFile::Stored(StoredAhead::new(stored)),
        })
    }

    async fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        match self {
            InputFile::Cached(file) => {
                let len = (range.end - range.start) as usize;
                let (result, bytes) = file.read_exact_at(Vec::new(), range.start, len).await;
                result.map(|()| bytes)
            }
            InputFile::Ahead(file) => file.read_alone(range).await.map(|piece| piece.to_vec()),
            InputFile::Stored(stored) => stored.read_alone(range).await,
        }
    }

    /// A chunk of the stream table.
    async fn labels(&mut self, directory: &Directory, chunk: u32) -> io::Result<Vec<u8>> {
        match self {
            InputFile::Stored(stored) => stored.labels(directory, chunk).await,
            file => file.read(directory.label_chunk(chunk).place.range()).await,
        }
    }

    /// The columns of a block; the block behind it is asked for soon.
    async fn columns(&mut self, directory: &Directory, block: u32) -> io::Result<StoredColumns> {
        if let InputFile::Stored(stored) = self {
            let columns = stored.columns(directory, block, &ColumnKind::ALL).await?;
            return Ok(StoredColumns::Apart(columns));
        }
        let info = directory.block(block);
        if let InputFile::Ahead(file) = self
            && let Some((range, within)) = together(&info)
        {
            let behind = Some(block + 1).filter(|&next| next < directory.block_count());
            let behind = behind.and_then(|next| together(&directory.block(next)));
            let piece = file.read(range, behind.map(|(range, _)| range)).await?;
            return Ok(StoredColumns::Together(piece, within));
        }
        let mut columns = [const { Vec::new() }; 4];
        for (column, kind) in columns.iter_mut().zip(ColumnKind::ALL) {
            *column = self.read(info.column(kind).range()).await?;
        }
        Ok(StoredColumns::Apart(columns))
    }
}

/// Whether a block's lines are stored in another form than they have.
fn is_encoded(info: &BlockInfo) -> bool {
    info.column(ColumnKind::Lines).codec != Codec::Raw
}

/// The filters of an input are loaded if one in so many of its blocks may be copied. They
/// take 3 % of its lines, and making the filter of a block anew takes less than encoding it.
const FILTERS_SHARE: usize = 8;

impl<R: Runtime> Input<R> {
    pub(super) async fn open(
        folder: &SegmentFolder<R>,
        segment: Arc<SealedSegment>,
    ) -> Result<Input<R>, CompactError> {
        let directory = match folder.directories.get(&segment).await {
            Ok(directory) => directory,
            Err(DirectoryError::Io(error)) => return Err(error.into()),
            Err(DirectoryError::Damaged(error)) => {
                return Err(CompactError::Damaged { segment: segment.live.name, error });
            }
        };
        let file = InputFile::open(folder, &segment, &directory).await?;
        let blocks = VecDeque::new();
        let blocks_len = directory.block_count();
        let mut input = Input {
            segment,
            directory,
            file,
            stream: None,
            labels: None,
            next_chunk: 0,
            blocks,
            reader: folder.owned(),
            filters: None,
            copies_many: false,
        };
        let copied = (0..blocks_len).filter(|&block| input.may_copy(block)).count();
        input.copies_many = copied * FILTERS_SHARE >= blocks_len as usize;
        Ok(input)
    }

    /// Divides the memory for reading ahead among the inputs of a job.
    pub(super) fn share_memory(&mut self, inputs: usize) {
        if let InputFile::Stored(stored) = &mut self.file {
            stored.share_among(inputs);
        }
    }

    /// Whether a block may be copied as it is stored. A draft has encoded blocks, too, if it was
    /// made one when it was partly written.
    pub(super) fn may_copy(&self, block: u32) -> bool {
        let info = self.directory.block(block);
        is_full(&info) && (!self.segment.footer.is_draft || is_encoded(&info))
    }

    pub(super) fn damaged(&self, error: SegmentError) -> CompactError {
        damaged(&self.segment, error)
    }

    /// Whether the entries of a stream in the segment are the shard's.
    pub(super) fn owns(&self, id: StreamId) -> bool {
        self.reader.has(id) && self.segment.has_live(id)
    }

    /// Makes [`Self::stream`] the next one that is the shard's.
    pub(super) async fn load_stream(&mut self, runtime: &R) -> Result<(), CompactError> {
        let (reader, segment) = (self.reader.clone(), Arc::clone(&self.segment));
        let has = |id: StreamId| reader.has(id) && segment.has_live(id);
        while self.stream.is_none() {
            let directory = &self.directory;
            if let Some(labels) = &mut self.labels {
                let next = labels.next(directory).map_err(|error| damaged(&segment, error))?;
                if let Some((row, tenant, id, labels)) = next {
                    if has(id) {
                        let (tenant, labels) = (tenant.clone(), Arc::new(labels));
                        self.stream = Some((row, StreamDefinition { id, tenant, labels }));
                    }
                    continue;
                }
                self.labels = None;
            }
            if self.next_chunk == directory.label_chunk_count() {
                break;
            }
            let chunk = directory.label_chunk(self.next_chunk);
            let mut ids = chunk.streams.clone().map(|row| directory.stream_id(row));
            if ids.any(has) {
                let bytes = self.file.labels(directory, self.next_chunk).await?;
                let (directory, chunk) = (Arc::clone(directory), self.next_chunk);
                let open = move || Decoder::new().open_labels(&directory, chunk, &bytes);
                let labels = runtime.offload_to(QUEUE, open).await;
                self.labels = Some(labels.map_err(|error| self.damaged(error))?);
            }
            self.next_chunk += 1;
        }
        Ok(())
    }

    /// The first stream that was not taken yet.
    pub(super) fn stream(&self) -> Option<&StreamDefinition> {
        self.stream.as_ref().map(|(_, stream)| stream)
    }

    /// Takes that stream; gives its row.
    pub(super) fn take_stream(&mut self) -> Option<u32> {
        self.stream.take().map(|(row, _)| row)
    }

    /// A block as it is stored; `input` is the number of this one.
    pub(super) async fn stored(&mut self, input: usize, block: u32) -> io::Result<StoredBlock> {
        let columns = self.file.columns(&self.directory, block).await?;
        Ok(StoredBlock { input, directory: Arc::clone(&self.directory), block, columns })
    }

    /// The timestamps and the lengths of the lines of a block as they are stored; other columns may
    /// be empty.
    pub(super) async fn stored_times(&mut self, info: &BlockInfo) -> io::Result<StoredBlock> {
        let kinds = [ColumnKind::Timestamps, ColumnKind::Lengths];
        let mut columns = [const { Vec::new() }; 4];
        match &mut self.file {
            // They are read at once.
            InputFile::Ahead(_) => return self.stored(0, info.block).await,
            InputFile::Stored(stored) => {
                columns = stored.columns(&self.directory, info.block, &kinds).await?;
            }
            InputFile::Cached(_) => {
                for kind in kinds {
                    columns[kind as usize] = self.file.read(info.column(kind).range()).await?;
                }
            }
        }
        let (columns, block) = (StoredColumns::Apart(columns), info.block);
        Ok(StoredBlock { input: 0, directory: Arc::clone(&self.directory), block, columns })
    }

    /// Bytes of the file.
    pub(super) async fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.file.read(range).await
    }

    /// The filters of all blocks, or none if they are damaged. `None` if only few blocks need their
    /// filters: the filters of all blocks would be in memory for their sake.
    pub(super) async fn filters(
        &mut self,
        runtime: &R,
    ) -> Result<Option<Arc<RegionFilters>>, CompactError> {
        if self.copies_many && self.filters.is_none() {
            self.filters = Some(Arc::new(self.load_filters(runtime).await?));
        }
        Ok(self.filters.clone())
    }

    async fn load_filters(&self, runtime: &R) -> Result<RegionFilters, CompactError> {
        let region = self.file.read(self.directory.footer().filters_range()).await?;
        let directory = Arc::clone(&self.directory);
        let load = move || load_filters(directory.filters(), region);
        let loaded = runtime.offload_to(QUEUE, load).await;
        Ok(loaded.unwrap_or_else(|error| {
            tracing::error!(
                file = %self.segment.path.display(), %error,
                offset = self.directory.footer().filters_offset,
                "the filters of a segment are damaged; they are made anew"
            );
            RegionFilters::default()
        }))
    }

    /// A decoded block that is kept.
    pub(super) fn kept(&mut self, block: u32) -> Option<Arc<Block>> {
        let index = self.blocks.iter().position(|(number, _)| *number == block)?;
        let found = self.blocks.remove(index)?;
        let decoded = Arc::clone(&found.1);
        self.blocks.push_back(found);
        Some(decoded)
    }

    /// Lets go of kept blocks that stand before this one.
    pub(super) fn forget_before(&mut self, block: u32) {
        self.blocks.retain(|(number, _)| *number >= block);
    }

    /// Keeps a decoded block, instead of that which was used longest ago.
    pub(super) fn keep(&mut self, block: u32, decoded: Block) -> Arc<Block> {
        if self.blocks.len() >= CACHED_BLOCKS {
            self.blocks.pop_front();
        }
        let decoded = Arc::new(decoded);
        self.blocks.push_back((block, Arc::clone(&decoded)));
        decoded
    }
}

fn load_filters(index: &FilterIndex, region: Vec<u8>) -> Result<RegionFilters, FilterError> {
    let mut loader = index.load(region)?;
    while loader.advance()? {}
    Ok(loader.finish())
}

fn damaged(segment: &SealedSegment, error: SegmentError) -> CompactError {
    CompactError::Damaged { segment: segment.live.name, error }
}

/// Whether a block is of one stream, and so full that filling it up gains little.
fn is_full(block: &BlockInfo) -> bool {
    let near = |have: usize, target: usize| have >= target / 4 * 3;
    block.runs.len() == 1
        && (block.line_bytes as usize >= OWN_BLOCK_LINE_BYTES
            || near(block.entries as usize, BLOCK_TARGET_ENTRIES)
            || near(block.metadata_bytes as usize, BLOCK_TARGET_METADATA_BYTES))
}

//! The part of a merge that runs on a side thread.
//!
//! The merge decides on the core about the next entries and blocks, and gathers them as [`Step`]s.
//! Encoding a block takes one to two milliseconds, and so does decoding one. A [`MergeWorker`] does
//! both on a side thread. It owns everything that it needs, and comes back with the results.
//!
//! Guarantees: steps are done in their order, and the bytes of the segment are the same however
//! many steps are done at once. Memory: the writer's; the merge owns the steps. It fails if an
//! input is damaged, or if [`SegmentWriter`] refuses an entry.

use std::ops::Range;
use std::sync::Arc;

use logsvc_runtime::{AlignedBuffer, SideQueue};

use super::block::{Block, StoredBlock};
use crate::sealed::WRITE_BYTES;
use crate::types::StreamDefinition;
use logsvc_segment::filter::RegionFilters;
use logsvc_segment::{
    BLOCK_TARGET_LINE_BYTES, ColumnKind, Decoder, EncodedBlock, Finished, MergedPlace, RunInfo,
    SegmentEnd, SegmentError, SegmentIdentity, SegmentWriter, StreamKey, WriteError, WriterBuffers,
};

/// Where merges compute.
pub(super) const QUEUE: SideQueue = SideQueue::Merging;

/// Taking a block over ends the one that is being filled. That is worth it if the
/// latter has at least a quarter of its size, or if so many blocks follow that its
/// poor filling makes no odds.
pub(super) const BLOCKS_IN_A_ROW: usize = 4;

/// The next piece of the segment.
#[derive(Debug)]
pub(super) enum Step {
    /// The stream of the steps that follow, and about how many of its line bytes are not copied.
    Stream {
        stream: StreamDefinition,
        line_bytes: u64,
        /// Whether it may repeat entries of segments before the inputs.
        is_late: bool,
    },
    /// Entries of a run of the stream, counted within the block.
    Entries { block: Arc<Block>, run: RunInfo, range: Range<usize> },
    /// A block that is taken over as it is, if that is worth it.
    Whole(Box<WholeBlock>),
}

/// A block that has one run, of the current stream.
#[derive(Debug)]
pub(super) struct WholeBlock {
    pub(super) stored: StoredBlock,
    pub(super) run: RunInfo,
    /// The filters of all blocks; `None` if that of the block is to be made anew.
    pub(super) filters: Option<Arc<RegionFilters>>,
    /// How many blocks from this one on could be taken over, at most [`BLOCKS_IN_A_ROW`].
    pub(super) in_a_row: usize,
}

/// Why a merge cannot go on.
#[derive(Debug)]
pub(super) enum WorkError {
    /// An input, given by its number, has damaged bytes.
    Damaged { input: usize, error: SegmentError },
    /// The writer does not take a step.
    Write(WriteError),
}

impl From<WriteError> for WorkError {
    fn from(error: WriteError) -> WorkError {
        WorkError::Write(error)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct MergeWorker {
    decoder: Decoder,
    pub(super) writer: SegmentWriter,
    /// The current stream, and whether it is late.
    stream: Option<(StreamDefinition, bool)>,
}

/// The results of a batch of steps on the side thread.
#[derive(Debug)]
pub(super) struct StepResults {
    pub(super) worker: Box<MergeWorker>,
    /// The memory of the steps.
    pub(super) steps: Vec<Step>,
    /// The block that was to be decoded.
    pub(super) decoded: Option<Block>,
}

/// How far the end of a segment has come.
#[derive(Debug)]
pub(super) enum EndChunk {
    /// The next bytes of the file, and the rest of the end.
    Some(AlignedBuffer, Box<SegmentEnd>),
    /// The end of the file.
    Last(Box<Finished>),
}

impl MergeWorker {
    pub(super) fn new(
        identity: SegmentIdentity,
        merged: MergedPlace,
        buffers: WriterBuffers,
    ) -> Box<MergeWorker> {
        let mut writer = SegmentWriter::with_buffers(identity, buffers);
        writer.set_merged(merged);
        writer.set_late_known();
        Box::new(MergeWorker { decoder: Decoder::new(), writer, stream: None })
    }

    /// Does the steps, and decodes a block that is wanted besides.
    pub(super) fn run(
        mut self: Box<Self>,
        mut steps: Vec<Step>,
        wanted: Option<StoredBlock>,
    ) -> Result<StepResults, WorkError> {
        for step in steps.drain(..) {
            match step {
                Step::Stream { stream, line_bytes, is_late } => {
                    self.writer.begin_stream(&stream.tenant, &stream.labels, stream.id)?;
                    self.writer.expect_line_bytes(line_bytes);
                    if is_late {
                        self.writer.note_late();
                    }
                    self.stream = Some((stream, is_late));
                }
                Step::Entries { block, run, range } => self.append(&block, &run, range)?,
                Step::Whole(whole) if self.is_worth_copying(whole.in_a_row) => self.copy(&whole)?,
                Step::Whole(whole) => {
                    let block = whole.stored.decode(&mut self.decoder)?;
                    let entries = &whole.run.entries;
                    let range = entries.start as usize..entries.end as usize;
                    self.append(&block, &whole.run, range)?;
                }
            }
        }
        let decoded = wanted.map(|stored| stored.decode(&mut self.decoder)).transpose()?;
        Ok(StepResults { worker: self, steps, decoded })
    }

    fn append(
        &mut self,
        block: &Block,
        run: &RunInfo,
        range: Range<usize>,
    ) -> Result<(), WriteError> {
        let mut entries = block.entries(run, range);
        while !entries.is_empty() {
            entries = entries.behind(self.writer.append(&entries)?.entries);
        }
        Ok(())
    }

    /// Whether the first of so many blocks had better be taken over as it is stored.
    fn is_worth_copying(&self, in_a_row: usize) -> bool {
        let pending_bytes = self.writer.pending_bytes();
        let is_end_of_block = pending_bytes == 0 || pending_bytes >= BLOCK_TARGET_LINE_BYTES / 4;
        in_a_row >= if is_end_of_block { 1 } else { BLOCKS_IN_A_ROW }
    }

    fn copy(&mut self, whole: &WholeBlock) -> Result<(), WorkError> {
        let StoredBlock { input, directory, block, columns } = &whole.stored;
        let filter = whole.filters.as_ref().and_then(|filters| filters.get(*block as usize));
        let encoded = EncodedBlock {
            directory,
            block: *block,
            columns: ColumnKind::ALL.map(|kind| columns.get(kind)),
        };
        let (stream, is_late) = self.stream.as_ref().ok_or(WriteError::NoStream)?;
        let (tenant, labels, id) = (&stream.tenant, &stream.labels, stream.id);
        let key = StreamKey { tenant, labels, id, is_late: *is_late };
        let copied = self.writer.append_encoded_block(&mut self.decoder, &encoded, filter, &[key]);
        copied.map_err(|error| match error {
            WriteError::Damaged(error) => WorkError::Damaged { input: *input, error },
            other => WorkError::Write(other),
        })
    }

    /// Ends the last block.
    pub(super) fn end(self) -> Result<EndChunk, WriteError> {
        next_end_chunk(Box::new(self.writer.end()?))
    }
}

/// Goes on to write the end of a segment: the filters of all blocks, about
/// [`WRITE_BYTES`] at a time, then the directory.
pub(super) fn next_end_chunk(mut end: Box<SegmentEnd>) -> Result<EndChunk, WriteError> {
    if let Some(bytes) = end.next_bytes(WRITE_BYTES) {
        return Ok(EndChunk::Some(bytes, end));
    }
    Ok(EndChunk::Last(Box::new(end.finish()?)))
}

//! Encodes the entries of some days of a generation as a segment, a chunk of blocks at a time.
//!
//! Guarantees: the encoder owns everything that it needs, so any thread can compute a chunk.
//! Streams and entries are the same however long chunks are. So are the bytes, unless a draft is
//! asked for meanwhile. It fails if [`SegmentWriter`] refuses an entry, which does not happen
//! with entries of heads.

use std::sync::Arc;

use logsvc_runtime::AlignedBuffer;

use super::arrange::{Piece, arrange};
use super::job::{DraftFlag, SealStream};
use crate::types::TimeRange;
use logsvc_segment::{
    Entries, Finished, SegmentIdentity, SegmentWriter, WriteError, WriterBuffers,
};

/// How far a chunk has come.
#[derive(Debug)]
pub(super) enum EncodedChunk {
    /// The next bytes of the file, and the rest of the segment.
    Some(AlignedBuffer, Box<SegmentEncoding>),
    /// The end of the file; `None` if there are no entries.
    Last(Option<Box<Finished>>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct SegmentEncoding {
    streams: Arc<Vec<SealStream>>,
    range: TimeRange,
    draft: Arc<DraftFlag>,
    writer: SegmentWriter,
    /// The stream that comes behind the pieces.
    next_stream: usize,
    /// The rest of the current stream, the last piece first.
    pieces: Vec<Piece>,
}

impl SegmentEncoding {
    /// Begins the segment of the entries of `streams`, which are in the order of
    /// segments, with times in `range`.
    pub(super) fn new(
        identity: SegmentIdentity,
        streams: Arc<Vec<SealStream>>,
        range: TimeRange,
        draft: Arc<DraftFlag>,
        buffers: WriterBuffers,
    ) -> SegmentEncoding {
        let mut writer = SegmentWriter::with_buffers(identity, buffers);
        writer.set_late_known();
        SegmentEncoding { streams, range, draft, writer, next_stream: 0, pieces: Vec::new() }
    }

    /// Gives the memory of a chunk back once it was written.
    pub(super) fn reuse_output(&mut self, buffer: AlignedBuffer) {
        self.writer.reuse_output(buffer);
    }

    /// Encodes until there are `chunk_bytes` of output, or to the end.
    ///
    /// # Errors
    /// See [`WriteError`]; the segment is of no use then.
    pub(super) fn encode(
        mut self: Box<Self>,
        chunk_bytes: usize,
    ) -> Result<EncodedChunk, WriteError> {
        while self.writer.output_len() < chunk_bytes {
            if self.draft.is_set() {
                self.writer.make_draft();
            }
            let Some(piece) = self.pieces.last_mut() else {
                if self.begin_stream()? {
                    continue;
                }
                if self.writer.entry_count() == 0 {
                    return Ok(EncodedChunk::Last(None));
                }
                let finished = self.writer.finish()?;
                return Ok(EncodedChunk::Last(Some(Box::new(finished))));
            };
            let entries = Entries::of_head(&piece.block).slice(piece.entries.clone());
            piece.entries.start += self.writer.append(&entries)?.entries;
            if piece.entries.is_empty() {
                self.pieces.pop();
            }
        }
        let bytes = self.writer.take_output();
        Ok(EncodedChunk::Some(bytes, self))
    }

    /// Goes on to the next stream, which may have no entries in the range; false if
    /// there is none.
    fn begin_stream(&mut self) -> Result<bool, WriteError> {
        let Some(stream) = self.streams.get(self.next_stream) else { return Ok(false) };
        self.next_stream += 1;
        self.pieces = arrange(&stream.blocks, self.range);
        if !self.pieces.is_empty() {
            self.pieces.reverse();
            self.writer.begin_stream(&stream.tenant, &stream.labels, stream.id)?;
            let line_bytes = self.pieces.iter().map(Piece::line_bytes).sum();
            self.writer.expect_line_bytes(line_bytes);
            if stream.is_late {
                self.writer.note_late();
            }
        }
        Ok(true)
    }
}

//! Memory and compression contexts that one writer hands to the next one.
//!
//! A writer grows to some megabytes. If each writer released them, the system would clear each
//! page again for the next one.

use logsvc_runtime::AlignedBuffer;

use super::pending::PendingBlock;
use super::stripe::Stripe;
use super::{SegmentWriter, ZSTD_LEVEL};
use crate::columns::compress::Compressor;
use crate::error::WriteError;
use crate::filter::BlockFilterBuilder;

/// Larger buffers are released: a huge entry has passed through them.
const KEPT_MAX_BYTES: usize = 24 << 20;

/// The memory of a finished writer, without the content of its segment.
#[derive(Debug)]
pub struct WriterBuffers {
    pub(super) compressor: Compressor,
    pub(super) pending: PendingBlock,
    pub(super) stripe: Stripe,
    pub(super) filter: BlockFilterBuilder,
    /// Lines of a block.
    pub(super) lines: Vec<u8>,
    pub(super) out: AlignedBuffer,
    pub(super) numbers: Vec<u64>,
    pub(super) raw: Vec<u8>,
}

impl WriterBuffers {
    /// Buffers without memory.
    ///
    /// # Errors
    /// If there is no memory for a compressor.
    pub fn new() -> Result<WriterBuffers, WriteError> {
        Ok(WriterBuffers {
            compressor: Compressor::new(ZSTD_LEVEL)?,
            pending: PendingBlock::default(),
            stripe: Stripe::default(),
            filter: BlockFilterBuilder::new(),
            lines: Vec::new(),
            out: AlignedBuffer::new(),
            numbers: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// The buffers of a finished writer, except the memory of its output; `None` if they are too
    /// large to keep.
    pub(super) fn left_by(writer: SegmentWriter) -> Option<WriterBuffers> {
        let SegmentWriter {
            mut compressor,
            mut pending,
            mut stripe,
            filter,
            mut lines,
            numbers,
            raw,
            ..
        } = writer;
        debug_assert!(pending.is_empty() && stripe.len() == 0);
        compressor.forget();
        pending.clear();
        stripe.forget();
        lines.clear();
        let out = AlignedBuffer::new();
        let left = WriterBuffers { compressor, pending, stripe, filter, lines, out, numbers, raw };
        (left.held_bytes() <= KEPT_MAX_BYTES).then_some(left)
    }

    /// Adds the memory of an output that is on storage.
    pub fn reuse_output(&mut self, mut buffer: AlignedBuffer) {
        if buffer.capacity() + self.held_bytes() <= KEPT_MAX_BYTES {
            buffer.clear();
            self.out = buffer;
        }
    }

    /// Bytes that the buffers occupy.
    fn held_bytes(&self) -> usize {
        self.compressor.held_bytes()
            + self.pending.held_bytes()
            + self.stripe.held_bytes()
            + self.lines.capacity()
            + self.out.capacity()
            + self.numbers.capacity() * 8
            + self.raw.capacity()
    }
}

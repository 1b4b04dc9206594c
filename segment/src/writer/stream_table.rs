//! The labels of the streams, chunk by chunk.

use logsvc_proto::{Labels, varint};
use logsvc_runtime::AlignedBuffer;

use super::blocks::column_row;
use crate::columns::compress::Compressor;
use crate::directory::rows::LabelChunkRow;
use crate::error::WriteError;

/// A chunk is closed when it has this many raw bytes.
const CHUNK_TARGET_BYTES: usize = 256 << 10;

/// The stream table of the streams so far.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    /// Labels of the open chunk.
    raw: Vec<u8>,
    first_stream: u32,
    next_stream: u32,
    stored: Vec<u8>,
    /// Offsets count from the beginning of the table.
    rows: Vec<LabelChunkRow>,
}

impl StreamTable {
    /// Adds the labels of the next stream.
    pub(super) fn push(
        &mut self,
        labels: &Labels,
        compressor: &mut Compressor,
    ) -> Result<(), WriteError> {
        let labels = labels.as_bytes();
        varint::write(&mut self.raw, labels.len() as u64);
        self.raw.extend_from_slice(labels);
        self.next_stream += 1;
        if self.raw.len() >= CHUNK_TARGET_BYTES { self.close(compressor) } else { Ok(()) }
    }

    fn close(&mut self, compressor: &mut Compressor) -> Result<(), WriteError> {
        let place = compressor.store(&self.raw, &mut self.stored)?;
        self.raw.clear();
        let column = column_row(&place);
        self.rows.push(LabelChunkRow { first_stream: self.first_stream, column });
        self.first_stream = self.next_stream;
        Ok(())
    }

    /// Appends the table to `out`, which begins at `out_offset` in the file.
    pub(super) fn finish(
        mut self,
        compressor: &mut Compressor,
        out: &mut AlignedBuffer,
        out_offset: u64,
    ) -> Result<Vec<LabelChunkRow>, WriteError> {
        if !self.raw.is_empty() {
            self.close(compressor)?;
        }
        let offset = out_offset + out.len() as u64;
        for row in &mut self.rows {
            row.column.offset += offset;
        }
        out.extend_from_slice(&self.stored);
        Ok(self.rows)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.raw.capacity() + self.stored.capacity()
    }
}

//! Gathers the small columns of several blocks, so that one read gets the columns of many.

use logsvc_runtime::AlignedBuffer;

use crate::column_kind::ColumnKind;
use crate::directory::rows::{BlockRow, ColumnRow};

/// Small columns are written when they have this many bytes.
pub(super) const STRIPE_TARGET_BYTES: usize = 4 << 20;

/// The kinds of columns that are gathered, in the order in which they are written.
pub(super) const GATHERED: [ColumnKind; 3] =
    [ColumnKind::Timestamps, ColumnKind::Lengths, ColumnKind::Metadata];

/// Stored bytes of the small columns of all blocks since the last stripe. Until the stripe is
/// written, the offsets in their rows count from the beginning of the column's buffer.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    pub(super) buffers: [Vec<u8>; GATHERED.len()],
    /// The first block of the stripe.
    first_block: usize,
}

impl Stripe {
    pub(super) fn len(&self) -> usize {
        self.buffers.iter().map(Vec::len).sum()
    }

    /// Forgets the last segment, whose columns were written.
    pub(super) fn forget(&mut self) {
        self.buffers.iter_mut().for_each(Vec::clear);
        self.first_block = 0;
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.buffers.iter().map(Vec::capacity).sum()
    }

    /// Appends all columns to `out`, which begins at `out_offset` in the file, and sets the final
    /// offsets in their rows.
    pub(super) fn flush(
        &mut self,
        blocks: &mut [BlockRow],
        out: &mut AlignedBuffer,
        out_offset: u64,
    ) {
        for (buffer, kind) in self.buffers.iter_mut().zip(GATHERED) {
            let offset = out_offset + out.len() as u64;
            for block in &mut blocks[self.first_block..] {
                block.columns[kind as usize].offset += offset;
            }
            out.extend_from_slice(buffer);
            buffer.clear();
        }
        self.first_block = blocks.len();
    }

    /// Appends stored bytes of another segment; sets the offset in their row to that in the buffer.
    pub(super) fn push_stored(&mut self, index: usize, stored: &[u8], row: &mut ColumnRow) {
        row.offset = self.buffers[index].len() as u64;
        self.buffers[index].extend_from_slice(stored);
    }
}

//! Writes a segment, front to back, into buffers that the caller takes.
//!
//! Guarantees: all appended entries read back. A call does at most about the work of one block.
//! Memory depends on the number of blocks only through their rows and filters. The writer holds
//! one block (about 0.6 MiB of columns, plus the largest entry), a stripe of small columns
//! (4 MiB, plus one block's), the output that the caller has not taken, the filters of all
//! blocks (about 3 % of the raw lines), and rows: about 45 bytes and compressed labels per
//! stream, 25 bytes per run, 120 per block, and a label index (`label_index`). [`SegmentWriter::finish`] holds filters and rows
//! twice.
//!
//! What can go wrong: entries or streams are malformed or out of order ([`WriteError`]). A call
//! that fails writes nothing.

mod blocks;
mod buffers;
mod copy;
mod entries;
mod finish;
mod label_index;
mod pairs;
mod pending;
mod pending_metadata;
mod rows;
mod stream_table;
mod streams;
mod stripe;

pub use buffers::WriterBuffers;
pub use copy::{EncodedBlock, StreamKey};
pub use entries::{Entries, EntriesMetadata};
pub use finish::{Finished, SegmentEnd};
pub use pairs::PairsColumn;
pub use pending::{
    BLOCK_TARGET_ENTRIES, BLOCK_TARGET_LINE_BYTES, BLOCK_TARGET_METADATA_BYTES,
    OWN_BLOCK_LINE_BYTES,
};
pub use streams::stream_order;

use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES};

use crate::batch::MetadataPairs;
use crate::columns::compress::Compressor;
use crate::error::WriteError;
use crate::filter::{BlockFilterBuilder, RegionWriter};
use crate::format::{MAX_BLOCKS, MAX_RUNS, MergedPlace, SegmentIdentity};
use label_index::LabelIndexBuilder;
use pending::PendingBlock;
use rows::Rows;
use stream_table::StreamTable;
use streams::CurrentStream;
use stripe::Stripe;

/// The zstd level of all compressed data. For lines as templates level 6 gives 6 % fewer bytes
/// in twice the time of encoding a block. For other lines level 3 gives no fewer bytes than
/// level 1.
const ZSTD_LEVEL: i32 = 1;

/// The result of a call of [`SegmentWriter::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Number of the first entries that were appended. The caller appends the others with another
    /// call.
    pub entries: usize,
    /// Whether a block was finished and compressed: then the caller writes the output and yields.
    pub finished_block: bool,
}

/// Builds one segment.
#[derive(Debug)]
pub struct SegmentWriter {
    identity: SegmentIdentity,
    compressor: Compressor,
    current: Option<CurrentStream>,
    pending: PendingBlock,
    stripe: Stripe,
    table: StreamTable,
    /// `None` for a draft.
    labels: Option<LabelIndexBuilder>,
    rows: Rows,
    filter: BlockFilterBuilder,
    filters: RegionWriter,
    /// Lines of the open block; the lines of a draft are at the end of `out`.
    lines: Vec<u8>,
    /// Output that the caller has not taken, and its offset in the file.
    out: AlignedBuffer,
    out_offset: u64,
    numbers: Vec<u64>,
    raw: Vec<u8>,
    is_draft: bool,
    merged: Option<MergedPlace>,
}

impl SegmentWriter {
    /// A writer of the segment with this identity.
    ///
    /// # Errors
    /// If there is no memory for a compressor.
    pub fn new(identity: SegmentIdentity) -> Result<SegmentWriter, WriteError> {
        Ok(SegmentWriter::with_buffers(identity, WriterBuffers::new()?))
    }

    /// A writer that uses the buffers of another writer. The bytes of the segment do not depend on
    /// them.
    #[must_use]
    pub fn with_buffers(identity: SegmentIdentity, buffers: WriterBuffers) -> SegmentWriter {
        let WriterBuffers { compressor, pending, stripe, filter, lines, mut out, numbers, raw } =
            buffers;
        out.extend_from_slice(&identity.encode_header());
        SegmentWriter {
            identity,
            compressor,
            current: None,
            pending,
            stripe,
            table: StreamTable::default(),
            labels: Some(LabelIndexBuilder::new()),
            rows: Rows::default(),
            filter,
            filters: RegionWriter::new(),
            lines,
            out,
            out_offset: 0,
            numbers,
            raw,
            is_draft: false,
            merged: None,
        }
    }

    /// Notes in the footer that the segment is merged, and its place in the live set.
    pub fn set_merged(&mut self, merged: MergedPlace) {
        self.merged = Some(merged);
    }

    /// Makes the segment a draft, see [`Footer`](super::Footer): all blocks from here on are stored
    /// raw, which takes a fraction of the time, and as many bytes as their entries have.
    pub fn make_draft(&mut self) {
        if !self.is_draft {
            self.flush_stripe(0);
            self.is_draft = true;
            self.labels = None;
            self.out.extend_from_slice(&self.lines);
            self.lines.clear();
        }
    }

    /// Whether the open block has to be finished before the current stream's next entry.
    fn is_others_block(&self) -> bool {
        let Some(current) = &self.current else { return false };
        let other = self.pending.last_stream().is_some_and(|last| current.number != Some(last));
        other && (self.pending.is_own || current.own_line_bytes.is_some())
    }

    /// Appends entries of the current stream, up to the end of the block. It may append only some
    /// of them, and none if the block had to be finished first.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn append(&mut self, entries: &Entries<'_>) -> Result<Appended, WriteError> {
        let current = self.current.as_ref().ok_or(WriteError::NoStream)?;
        // More entries do not fit, so that the others are not checked twice.
        let some = entries.checked_first(BLOCK_TARGET_ENTRIES, current.last_ns)?;
        if self.is_others_block() {
            self.finish_block()?;
            return Ok(Appended { entries: 0, finished_block: true });
        }
        let own_line_bytes = current.own_line_bytes;
        let target_line_bytes = own_line_bytes.unwrap_or(BLOCK_TARGET_LINE_BYTES);
        let fit = self.pending.room_for(&some, target_line_bytes)?;
        if fit > 0 {
            self.begin_run()?;
            let fitting = some.slice(0..fit);
            match self.is_draft {
                true => self.pending.push(&fitting, &mut self.out),
                false => self.pending.push(&fitting, &mut self.lines),
            }
            self.pending.is_own = own_line_bytes.is_some();
            if let (Some(current), Some(&last_ns)) =
                (&mut self.current, fitting.timestamps_ns.last())
            {
                current.last_ns = last_ns;
            }
        }
        let finished_block = fit < entries.len();
        if finished_block {
            self.finish_block()?;
        }
        Ok(Appended { entries: fit, finished_block })
    }

    /// Appends one entry of the current stream; returns whether a block was finished for it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn push(
        &mut self,
        timestamp_ns: i64,
        line: &[u8],
        metadata: MetadataPairs<'_>,
    ) -> Result<bool, WriteError> {
        let too_large = |_| WriteError::EntryTooLarge { max_bytes: u32::MAX as usize };
        let line_end = u32::try_from(line.len()).map_err(too_large)?;
        let mut pairs = Vec::new();
        metadata.write_to(&mut pairs);
        let pairs_end = u32::try_from(pairs.len()).map_err(too_large)?;
        let pair_ends = [pairs_end];
        let entry = Entries {
            timestamps_ns: &[timestamp_ns],
            lines_start: 0,
            line_ends: &[line_end],
            lines: line,
            metadata: match pairs.is_empty() {
                true => EntriesMetadata::None,
                false => EntriesMetadata::Pairs(PairsColumn::of_own(&pairs, 0, &pair_ends)),
            },
        };
        let first = self.append(&entry)?;
        if first.entries == 0 {
            // The open block is empty.
            self.append(&entry)?;
        }
        Ok(first.finished_block)
    }

    /// The bytes of the file since the last call. For a draft these are whole blocks of
    /// [`DIRECT_BLOCK_BYTES`], counted from the beginning of the file.
    pub fn take_output(&mut self) -> AlignedBuffer {
        if !self.is_draft {
            return self.take_all();
        }
        let block = DIRECT_BLOCK_BYTES as u64;
        let end = self.written_bytes() / block * block;
        let taken = end.saturating_sub(self.out_offset) as usize;
        let rest = AlignedBuffer::from(&self.out[taken..]);
        self.out.truncate(taken);
        self.out_offset += taken as u64;
        std::mem::replace(&mut self.out, rest)
    }

    /// All bytes since the last call.
    fn take_all(&mut self) -> AlignedBuffer {
        self.out_offset += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }

    /// Returns the memory of bytes from [`Self::take_output`], for the next bytes.
    pub fn reuse_output(&mut self, mut buffer: AlignedBuffer) {
        if buffer.capacity() > self.out.capacity() {
            buffer.clear();
            buffer.extend_from_slice(&self.out);
            self.out = buffer;
        }
    }

    /// About how many bytes [`Self::take_output`] would return.
    pub fn output_len(&self) -> usize {
        self.out.len() - self.open_lines()
    }

    /// Bytes at the end of the output that are lines of the open block.
    fn open_lines(&self) -> usize {
        if self.is_draft { self.pending.line_bytes } else { 0 }
    }

    /// Bytes of the file so far, without the open block and the small columns of the open stripe.
    pub fn written_bytes(&self) -> u64 {
        self.out_offset + self.output_len() as u64
    }

    /// Bytes of the lines or of the metadata of the open block, the larger number; 0 if the block
    /// ends before the current stream's next entry.
    pub fn pending_bytes(&self) -> usize {
        if self.is_others_block() {
            return 0;
        }
        self.pending.line_bytes.max(self.pending.metadata.pairs_len())
    }

    /// Entries appended so far.
    pub fn entry_count(&self) -> u64 {
        self.rows.entries + self.pending.timestamps_ns.len() as u64
    }

    /// Bytes that the writer occupies.
    pub fn held_bytes(&self) -> usize {
        self.pending.held_bytes()
            + self.compressor.held_bytes()
            + self.stripe.len()
            + self.table.held_bytes()
            + self.labels.as_ref().map_or(0, LabelIndexBuilder::held_bytes)
            + self.rows.held_bytes()
            + self.lines.capacity()
            + self.out.capacity()
    }

    /// Makes a run of the current stream the last run of the open block.
    fn begin_run(&mut self) -> Result<(), WriteError> {
        let number = self.current_number()?;
        if self.rows.runs.len() + self.pending.runs.len() >= MAX_RUNS
            || self.rows.blocks.len() >= MAX_BLOCKS
        {
            return Err(WriteError::Full);
        }
        self.pending.begin_run(number);
        Ok(())
    }
}

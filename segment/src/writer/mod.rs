//! Writes a segment, front to back, into buffers that the caller takes away.
//!
//! Guarantees: what was appended reads back; every call does at most about one
//! block's worth of work; memory does not depend on the number of blocks except
//! through their rows. Held at any time: one block (about 0.6 MiB of columns, plus
//! the largest entry), a stripe of small columns (4 MiB and one block's), what the
//! caller has not taken, the filters of all blocks (about 3 % of the raw lines), and
//! per stream about 45 bytes and its compressed labels, per run 25, per block 120.
//! [`SegmentWriter::finish`] needs filters and rows once more, as they are stored.
//!
//! What can go wrong: entries or streams that are out of order or malformed
//! ([`WriteError`]); nothing is written of a call that fails so.

mod blocks;
mod buffers;
mod copy;
mod entries;
mod finish;
mod pairs;
mod pending;
mod pending_metadata;
mod stream_table;
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

use std::cmp::Ordering;

use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES};

use crate::batch::MetadataPairs;
use crate::columns::compress::Compressor;
use crate::directory::rows::{BlockRow, RunRow, StreamRow, TenantRow};
use crate::error::WriteError;
use crate::filter::{BlockFilterBuilder, RegionWriter};
use crate::format::{MAX_BLOCKS, MAX_RUNS, MAX_STREAMS, MergedPlace, SegmentIdentity};
use pending::PendingBlock;
use stream_table::StreamTable;
use stripe::Stripe;

/// The zstd level of everything that is compressed. Where lines are stored as templates,
/// level 6 takes 6 % fewer bytes for twice the time of encoding a block; on lines that
/// have none, level 3 takes no fewer bytes than level 1.
const ZSTD_LEVEL: i32 = 1;

/// Most bytes of the labels of a stream.
const LABELS_MAX_BYTES: usize = 32 << 20;

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Appended {
    /// Entries that were taken, from the first on. The caller gives the others
    /// again.
    pub entries: usize,
    /// Whether a block was finished and compressed: the time to write the output
    /// and to let others have the core.
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
    tenants: Vec<TenantRow>,
    streams: Vec<StreamRow>,
    runs: Vec<RunRow>,
    blocks: Vec<BlockRow>,
    filter: BlockFilterBuilder,
    filters: RegionWriter,
    entries: u64,
    line_bytes: u64,
    /// Lines of the block that is being filled; those of a draft are at the end of `out`.
    lines: Vec<u8>,
    /// Bytes that the caller has not taken, and where in the file they begin.
    out: AlignedBuffer,
    out_offset: u64,
    numbers: Vec<u64>,
    raw: Vec<u8>,
    is_draft: bool,
    merged: Option<MergedPlace>,
}

#[derive(Debug)]
struct CurrentStream {
    tenant: TenantId,
    labels: Labels,
    id: StreamId,
    /// Its number, once it has an entry.
    number: Option<u32>,
    last_ns: i64,
    /// The size of its blocks if they are its own.
    own_line_bytes: Option<usize>,
}

/// How much the lines of blocks of one stream may vary in size before the stream gets one
/// more.
const OWN_BLOCK_SLACK_BYTES: usize = 4 << 10;

/// The order of streams in a segment.
pub fn stream_order(
    (a_tenant, a_labels, a_id): (&TenantId, &Labels, StreamId),
    (b_tenant, b_labels, b_id): (&TenantId, &Labels, StreamId),
) -> Ordering {
    let by_name = a_tenant.as_str().cmp(b_tenant.as_str());
    by_name.then_with(|| a_labels.cmp_pairs(b_labels)).then_with(|| a_id.cmp(&b_id))
}

impl SegmentWriter {
    /// A writer of the segment with this identity.
    ///
    /// # Errors
    /// If there is no memory for a compressor.
    pub fn new(identity: SegmentIdentity) -> Result<SegmentWriter, WriteError> {
        Ok(SegmentWriter::with_buffers(identity, WriterBuffers::new()?))
    }

    /// The same with what another writer has left. The segment's bytes are the same.
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
            tenants: Vec::new(),
            streams: Vec::new(),
            runs: Vec::new(),
            blocks: Vec::new(),
            filter,
            filters: RegionWriter::new(),
            entries: 0,
            line_bytes: 0,
            lines,
            out,
            out_offset: 0,
            numbers,
            raw,
            is_draft: false,
            merged: None,
        }
    }

    /// Notes that the segment is merged, and where it stands in the live set.
    pub fn set_merged(&mut self, merged: MergedPlace) {
        self.merged = Some(merged);
    }

    /// Makes a draft of the segment, see [`Footer`](super::Footer): what is not encoded yet takes
    /// a fraction of the time, and as many bytes as its entries have.
    pub fn make_draft(&mut self) {
        if !self.is_draft {
            self.flush_stripe(0);
            self.is_draft = true;
            self.out.extend_from_slice(&self.lines);
            self.lines.clear();
        }
    }

    /// Begins a stream: what is appended from now on is its. A stream that gets no
    /// entry leaves no trace. `id` is the hash of tenant and labels.
    ///
    /// # Errors
    /// If the stream does not come behind the one before in [`stream_order`].
    pub fn begin_stream(
        &mut self,
        tenant: &TenantId,
        labels: &Labels,
        id: StreamId,
    ) -> Result<(), WriteError> {
        if let Some(last) = &self.current
            && stream_order((&last.tenant, &last.labels, last.id), (tenant, labels, id)).is_ge()
        {
            return Err(WriteError::StreamOrder);
        }
        if labels.as_bytes().len() > LABELS_MAX_BYTES {
            return Err(WriteError::Malformed("the labels are too long"));
        }
        self.current = Some(CurrentStream {
            tenant: tenant.clone(),
            labels: labels.clone(),
            id,
            number: None,
            last_ns: i64::MIN,
            own_line_bytes: None,
        });
        Ok(())
    }

    /// Tells that the current stream will have about so many line bytes. If they are many,
    /// they get blocks of their own, all of about the same size, so that merging can take
    /// them over as they are, unless they are not encoded anyway.
    pub fn expect_line_bytes(&mut self, line_bytes: u64) {
        let Some(current) = &mut self.current else { return };
        if !self.is_draft && line_bytes >= OWN_BLOCK_LINE_BYTES as u64 {
            let target = BLOCK_TARGET_LINE_BYTES as u64;
            let blocks = ((line_bytes + target / 2) / target).max(1);
            let of_each = line_bytes.div_ceil(blocks) as usize;
            current.own_line_bytes = Some(of_each + OWN_BLOCK_SLACK_BYTES);
        }
    }

    /// Whether the block that is being filled has to end before the current stream's next
    /// entry.
    fn is_others_block(&self) -> bool {
        let Some(current) = &self.current else { return false };
        let other = self.pending.last_stream().is_some_and(|last| current.number != Some(last));
        other && (self.pending.is_own || current.own_line_bytes.is_some())
    }

    /// Appends entries of the current stream, up to the end of the block: not all of
    /// them may be taken, and none if the block had to be finished first.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn append(&mut self, entries: &Entries<'_>) -> Result<Appended, WriteError> {
        let current = self.current.as_ref().ok_or(WriteError::NoStream)?;
        // More than this does not fit: do not check it twice.
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

    /// Appends one entry of the current stream, and says whether a block was finished
    /// for it.
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
            // The block is empty now.
            self.append(&entry)?;
        }
        Ok(first.finished_block)
    }

    /// The bytes since the last call, which continue the file. Of a draft these are
    /// whole blocks of [`DIRECT_BLOCK_BYTES`], counted from the beginning of the file.
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

    /// Gives memory back that [`Self::take_output`] gave away, for the bytes to come.
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

    /// How many bytes at the end of the output are lines of the block that is being filled.
    fn open_lines(&self) -> usize {
        if self.is_draft { self.pending.line_bytes } else { 0 }
    }

    /// Bytes of the file so far, without what is still gathered.
    pub fn written_bytes(&self) -> u64 {
        self.out_offset + self.output_len() as u64
    }

    /// Bytes of the block that is being filled: of its lines or its metadata, whatever
    /// is more; 0 if it ends before the current stream's next entry.
    pub fn pending_bytes(&self) -> usize {
        if self.is_others_block() {
            return 0;
        }
        self.pending.line_bytes.max(self.pending.metadata.pairs_len())
    }

    /// Entries appended so far.
    pub fn entry_count(&self) -> u64 {
        self.entries + self.pending.timestamps_ns.len() as u64
    }

    /// Bytes that the writer occupies.
    pub fn held_bytes(&self) -> usize {
        self.pending.held_bytes()
            + self.compressor.held_bytes()
            + self.stripe.len()
            + self.table.held_bytes()
            + self.streams.capacity() * size_of::<StreamRow>()
            + self.runs.capacity() * size_of::<RunRow>()
            + self.blocks.capacity() * size_of::<BlockRow>()
            + self.lines.capacity()
            + self.out.capacity()
    }

    /// Makes the current stream's run the last one of the block.
    fn begin_run(&mut self) -> Result<(), WriteError> {
        let number = self.current_number()?;
        if self.runs.len() + self.pending.runs.len() >= MAX_RUNS || self.blocks.len() >= MAX_BLOCKS
        {
            return Err(WriteError::Full);
        }
        self.pending.begin_run(number);
        Ok(())
    }

    /// The number of the current stream, which gets one with its first entry.
    fn current_number(&mut self) -> Result<u32, WriteError> {
        let current = self.current.as_mut().ok_or(WriteError::NoStream)?;
        if let Some(number) = current.number {
            return Ok(number);
        }
        if self.streams.len() >= MAX_STREAMS {
            return Err(WriteError::Full);
        }
        let number = self.streams.len() as u32;
        self.table.push(&current.labels, &mut self.compressor)?;
        if self.tenants.last().is_none_or(|last| last.name != current.tenant.as_str()) {
            let name = current.tenant.as_str().to_owned();
            self.tenants.push(TenantRow { name, first_stream: number });
        }
        let first_run = (self.runs.len() + self.pending.runs.len()) as u32;
        self.streams.push(StreamRow { id: current.id.to_bytes(), first_run });
        current.number = Some(number);
        Ok(number)
    }
}

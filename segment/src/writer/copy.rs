//! Copies a block of another segment without decoding it.

use logsvc_proto::{Labels, StreamId, TenantId};

use super::blocks::column_row;
use super::stripe::{GATHERED, STRIPE_TARGET_BYTES};
use super::{SegmentWriter, stream_order};
use crate::column_kind::ColumnKind;
use crate::columns::metadata::BlockMetadata;
use crate::directory::Directory;
use crate::directory::rows::{BlockRow, ColumnRow, RUN_HAS_METADATA, RunRow, UNKNOWN_METADATA};
use crate::error::{Part, SegmentError, WriteError};
use crate::filter::BlockFilter;
use crate::format::{MAX_BLOCKS, MAX_RUNS, MAX_STREAMS};
use crate::reader::Decoder;

/// A block of a segment with the stored bytes of its columns.
#[derive(Clone, Copy, Debug)]
pub struct EncodedBlock<'a> {
    /// The directory of its segment.
    pub directory: &'a Directory,
    /// Its number in that segment.
    pub block: u32,
    /// Stored bytes in the order of [`ColumnKind::ALL`].
    pub columns: [&'a [u8]; 4],
}

/// The arguments of [`SegmentWriter::begin_stream`], and what is noted of the stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamKey<'a> {
    /// Its tenant.
    pub tenant: &'a TenantId,
    /// Its labels.
    pub labels: &'a Labels,
    /// The hash of both.
    pub id: StreamId,
    /// Whether [`SegmentWriter::note_late`] is called for it.
    pub is_late: bool,
}

impl SegmentWriter {
    /// Appends a block of another segment with its stored columns and its filter. Without a
    /// filter, `decoder` decodes the block and a filter is made. `streams` has the stream of
    /// each run. The first one may be the current stream, whose last entry must not be later
    /// than the run's first entry; all others are new streams, and the last one becomes the
    /// current stream. The open block is finished first, so copying never merges small blocks.
    ///
    /// # Errors
    /// If the stored bytes are damaged, if the streams are not those of the runs or
    /// not in order, or as [`Self::append`].
    pub fn append_encoded_block(
        &mut self,
        decoder: &mut Decoder,
        encoded: &EncodedBlock<'_>,
        filter: Option<BlockFilter>,
        streams: &[StreamKey<'_>],
    ) -> Result<(), WriteError> {
        let info = encoded.directory.block(encoded.block);
        let continues = self.check_order(encoded, streams)?;
        let filter = match filter {
            Some(filter) => {
                check_stored(encoded)?;
                filter
            }
            None => self.filter_of(decoder, encoded)?,
        };
        self.finish_block()?;
        self.filters.push(filter);

        let first_run = self.rows.runs.len() as u32;
        let mut first_stream = None;
        let runs = encoded.directory.runs_of_block(encoded.block);
        for (index, (run, key)) in runs.zip(streams).enumerate() {
            if index > 0 || !continues {
                self.begin_stream(key.tenant, key.labels, key.id)?;
            }
            if key.is_late {
                self.note_late();
            }
            let number = self.current_number()?;
            first_stream.get_or_insert(number);
            if let Some(current) = &mut self.current {
                current.last_ns = run.max_ns;
            }
            self.rows.runs.push(RunRow {
                min_ns: run.min_ns,
                max_ns: run.max_ns,
                first_entry: run.entries.start,
                first_line_byte: run.line_bytes.start,
                flags: if run.has_metadata { RUN_HAS_METADATA } else { 0 },
            });
            let metadata_bytes = run.metadata_text_bytes.unwrap_or(UNKNOWN_METADATA);
            self.rows.runs_metadata.push(metadata_bytes);
        }
        let mut columns: [ColumnRow; 4] =
            ColumnKind::ALL.map(|kind| column_row(&info.column(kind)));
        columns[ColumnKind::Lines as usize].offset = self.written_bytes();
        self.out.extend_from_slice(encoded.columns[ColumnKind::Lines as usize]);
        for (index, kind) in GATHERED.into_iter().enumerate() {
            let stored = encoded.columns[kind as usize];
            self.stripe.push_stored(index, stored, &mut columns[kind as usize]);
        }
        self.rows.blocks.push(BlockRow {
            min_ns: info.min_ns,
            max_ns: info.max_ns,
            first_run,
            first_stream: first_stream.unwrap_or_default(),
            entries: info.entries,
            line_bytes: info.line_bytes,
            metadata_bytes: info.metadata_bytes,
            columns,
        });
        self.rows.entries += u64::from(info.entries);
        self.rows.line_bytes += u64::from(info.line_bytes);
        self.flush_stripe(STRIPE_TARGET_BYTES);
        Ok(())
    }

    /// Decodes the block and makes its filter.
    fn filter_of(
        &mut self,
        decoder: &mut Decoder,
        encoded: &EncodedBlock<'_>,
    ) -> Result<BlockFilter, WriteError> {
        let EncodedBlock { directory, block, columns: [lines, timestamps, lengths, metadata] } =
            *encoded;
        let timestamps_ns = decoder.timestamps(directory, block, timestamps)?;
        let lines = decoder.lines(directory, block, lines, &timestamps_ns)?;
        let ends = decoder.line_ends(directory, block, lengths)?;
        let metadata = decoder.metadata(directory, block, metadata)?;
        for run in directory.runs_of_block(block) {
            self.filter.add_lines(run.of_lines(&lines), run.of_entries(&ends));
        }
        if let Some(BlockMetadata { sets, .. }) = metadata {
            for (name, value) in (0..sets.len() as u32).flat_map(|id| sets.get(id)) {
                self.filter.add_metadata(name.as_bytes(), value.as_bytes());
            }
        }
        Ok(self.filter.finish())
    }

    /// Checks that the runs may follow; returns whether the first one continues the current
    /// stream.
    fn check_order(
        &self,
        encoded: &EncodedBlock<'_>,
        streams: &[StreamKey<'_>],
    ) -> Result<bool, WriteError> {
        let info = encoded.directory.block(encoded.block);
        if streams.len() != info.runs.len() {
            return Err(WriteError::Malformed("not every run has a stream"));
        }
        let ids = (info.first_stream..).map(|stream| encoded.directory.stream_id(stream));
        if !streams.iter().map(|key| key.id).eq(ids.take(streams.len())) {
            return Err(WriteError::Malformed("a run is another stream's"));
        }
        if self.rows.runs.len() + self.pending.runs.len() + streams.len() > MAX_RUNS
            || self.rows.streams.len() + streams.len() > MAX_STREAMS
            || self.rows.blocks.len() + 2 > MAX_BLOCKS
        {
            return Err(WriteError::Full);
        }
        let mut before = self.current.as_ref().map(|last| (&last.tenant, &last.labels, last.id));
        let mut continues = false;
        for (index, key) in streams.iter().enumerate() {
            let this = (key.tenant, key.labels, key.id);
            if let Some(last) = before {
                let order = stream_order(last, this);
                continues |= index == 0 && order.is_eq();
                if order.is_gt() || (order.is_eq() && index > 0) {
                    return Err(WriteError::StreamOrder);
                }
            }
            before = Some(this);
        }
        let first_ns = encoded.directory.runs_of_block(encoded.block).next().map(|run| run.min_ns);
        let last_ns = self.current.as_ref().map(|current| current.last_ns);
        if continues && first_ns < last_ns {
            return Err(WriteError::TimeOrder);
        }
        Ok(continues)
    }
}

/// Checks the stored bytes by their checksums.
fn check_stored(encoded: &EncodedBlock<'_>) -> Result<(), WriteError> {
    let info = encoded.directory.block(encoded.block);
    for (kind, stored) in ColumnKind::ALL.into_iter().zip(encoded.columns) {
        let part = Part::Column { block: encoded.block, kind };
        info.column(kind).check(stored).map_err(|what| SegmentError::new(part, what))?;
    }
    Ok(())
}

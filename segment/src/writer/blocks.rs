//! Finishes blocks: encodes their columns and makes their filters.
//!
//! Guarantees: encoded columns decode to the entries of the block. The columns of a draft are
//! stored raw, without filters. That takes a sixth of the time of encoding, and a query has to
//! read each block in its range.

use super::stripe::{GATHERED, STRIPE_TARGET_BYTES};
use super::{BLOCK_TARGET_LINE_BYTES, SegmentWriter};
use crate::column_kind::ColumnKind;
use crate::columns::compress::{ColumnPlace, Compressor};
use crate::columns::{lengths, metadata, timestamps};
use crate::directory::rows::{BlockRow, ColumnRow};
use crate::error::WriteError;
use crate::filter::BlockFilter;

impl SegmentWriter {
    /// Encodes the block that is being filled, if it has entries.
    pub(super) fn finish_block(&mut self) -> Result<(), WriteError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let columns = self.store_columns()?;
        let filter = if self.is_draft {
            BlockFilter::unknown()
        } else {
            self.filter.add_lines(&self.lines, &self.pending.line_ends);
            self.filter.finish()
        };
        self.filters.push(filter);
        let block = &self.pending;
        let bounds = block.runs.iter().fold((i64::MAX, i64::MIN), |(min_ns, max_ns), run| {
            (min_ns.min(run.min_ns), max_ns.max(run.max_ns))
        });
        self.rows.blocks.push(BlockRow {
            min_ns: bounds.0,
            max_ns: bounds.1,
            first_run: self.rows.runs.len() as u32,
            first_stream: block.first_stream,
            entries: block.timestamps_ns.len() as u32,
            line_bytes: block.line_bytes as u32,
            metadata_bytes: block.metadata.pairs_len() as u32,
            columns: columns.map(|place| column_row(&place)),
        });
        self.rows.entries += block.timestamps_ns.len() as u64;
        self.rows.line_bytes += block.line_bytes as u64;
        self.rows.runs.extend_from_slice(&block.runs);
        self.rows.runs_metadata.extend_from_slice(&block.runs_metadata);
        self.pending.clear();
        self.lines.clear();
        // Releases the memory of one huge entry.
        self.lines.shrink_to(4 * BLOCK_TARGET_LINE_BYTES);
        // Compaction reads a draft once, block by block, so small columns are not gathered.
        self.flush_stripe(if self.is_draft { 0 } else { STRIPE_TARGET_BYTES });
        Ok(())
    }

    /// Stores the columns of the block, in the order of [`ColumnKind::ALL`], and adds its
    /// metadata to its filter.
    fn store_columns(&mut self) -> Result<[ColumnPlace; 4], WriteError> {
        let is_draft = self.is_draft;
        let block = &self.pending;
        let mut lines = if is_draft {
            let start = self.out.len() - block.line_bytes;
            Compressor::stored_raw(&self.out[start..], start as u64)?
        } else {
            let (ends, times) = (&block.line_ends, &block.timestamps_ns);
            self.compressor.store_lines(&self.lines, ends, times, &mut self.out)?
        };
        lines.offset += self.out_offset;

        let [to_timestamps, to_lengths, to_metadata] = &mut self.stripe.buffers;
        self.raw.clear();
        timestamps::encode(
            &block.timestamps_ns,
            block.run_lens(),
            &mut self.numbers,
            &mut self.raw,
        );
        let timestamps = Compressor::store_raw(&self.raw, to_timestamps)?;
        self.raw.clear();
        lengths::encode(&block.line_ends, &mut self.numbers, &mut self.raw);
        let lengths = Compressor::store_raw(&self.raw, to_lengths)?;
        self.raw.clear();
        let metadata = match block.metadata.entry_sets() {
            Some(sets) if is_draft => {
                metadata::encode_plain(&sets, &mut self.raw);
                Compressor::store_raw(&self.raw, to_metadata)?
            }
            sets => {
                let filter = &mut self.filter;
                if let Some(sets) = sets {
                    let add = |name: &[u8], value: &[u8]| filter.add_metadata(name, value);
                    metadata::encode(&sets, &mut self.raw, add);
                }
                self.compressor.store(&self.raw, to_metadata)?
            }
        };
        Ok([lines, timestamps, lengths, metadata])
    }

    /// Writes the small columns if they have at least this many bytes.
    pub(super) fn flush_stripe(&mut self, from_bytes: usize) {
        if self.stripe.len() >= from_bytes {
            self.stripe.flush(&mut self.rows.blocks, &mut self.out, self.out_offset);
        }
    }
}

pub(super) fn column_row(place: &ColumnPlace) -> ColumnRow {
    ColumnRow {
        offset: place.offset,
        stored_len: place.stored_len,
        raw_len: place.raw_len,
        crc: place.crc,
        codec: place.codec.to_byte(),
    }
}

/// The order of the rows is the order in which the columns are told apart.
const _: () = assert!(
    ColumnKind::Lines as usize == 0
        && GATHERED[0] as usize == 1
        && GATHERED[1] as usize == 2
        && GATHERED[2] as usize == 3
);

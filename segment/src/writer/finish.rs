//! Finishes a segment: filters, stream table, label index, directory and footer.

use logsvc_runtime::AlignedBuffer;

use super::{SegmentWriter, WriterBuffers};
use crate::directory::Directory;
use crate::directory::rows::Root;
use crate::error::WriteError;
use crate::filter::{FilterIndex, RegionEnd};
use crate::format::{DIRECTORY_MAX_BYTES, FOOTER_LEN, Footer, LabelIndexPlace};

/// A complete segment.
#[derive(Debug)]
pub struct Finished {
    /// The last bytes of the file.
    pub bytes: AlignedBuffer,
    /// The segment's footer.
    pub footer: Footer,
    /// The bytes of its directory in the file, for [`Directory::open`].
    pub directory: Vec<u8>,
    /// The root of its label index, for [`LabelIndex::open`](crate::LabelIndex::open); `None` if it
    /// has none.
    pub label_index_root: Option<Vec<u8>>,
    /// Blocks whose templates did not decode to their lines. These and all later blocks are
    /// stored without templates. A number above 0 is a fault of the program or of the machine.
    pub refused_blocks: u32,
    /// Memory for the next writer.
    pub buffers: Option<Box<WriterBuffers>>,
}

/// A segment that gets no more entries. The filters of all its blocks are not written yet;
/// they are large, so the caller takes them piece by piece.
#[derive(Debug)]
pub struct SegmentEnd {
    writer: SegmentWriter,
    filters: RegionEnd,
    filters_offset: u64,
}

impl SegmentWriter {
    /// Finishes the last block. The segment gets no more entries.
    ///
    /// # Errors
    /// If there is no entry, or the last block does not compress.
    pub fn end(mut self) -> Result<SegmentEnd, WriteError> {
        self.finish_block()?;
        if self.rows.blocks.is_empty() {
            return Err(WriteError::Empty);
        }
        self.flush_stripe(0);
        let filters = std::mem::take(&mut self.filters).end();
        let filters_offset = self.out_offset + self.out.len() as u64;
        Ok(SegmentEnd { writer: self, filters, filters_offset })
    }

    /// Finishes the segment.
    ///
    /// # Errors
    /// If it has no entry, or the last block does not compress.
    pub fn finish(self) -> Result<Finished, WriteError> {
        self.end()?.finish()
    }
}

impl SegmentEnd {
    /// The next bytes of the file, about `len_bytes`; `None` if only the bytes of
    /// [`Self::finish`] are left.
    pub fn next_bytes(&mut self, len_bytes: usize) -> Option<AlignedBuffer> {
        while self.writer.out.len() < len_bytes {
            if !self.write_unit() {
                return None;
            }
        }
        Some(self.writer.take_output())
    }

    /// Returns the memory of bytes from [`Self::next_bytes`], for the next bytes.
    pub fn reuse_output(&mut self, buffer: AlignedBuffer) {
        self.writer.reuse_output(buffer);
    }

    /// Appends the next filters; false if there are no more.
    fn write_unit(&mut self) -> bool {
        let SegmentWriter { raw, out, .. } = &mut self.writer;
        raw.clear();
        let is_more = self.filters.write_unit(raw);
        out.extend_from_slice(raw);
        is_more
    }

    /// Finishes the segment. [`Finished::bytes`] are the bytes that were not taken.
    ///
    /// # Errors
    /// If the labels do not compress, or the directory is too large.
    pub fn finish(mut self) -> Result<Finished, WriteError> {
        while self.write_unit() {}
        // Releases the filters.
        let (filter_index, filters_crc) = self.filters.finish();
        self.writer.finish_directory(self.filters_offset, &filter_index, filters_crc)
    }
}

impl SegmentWriter {
    fn finish_directory(
        mut self,
        filters_offset: u64,
        filter_index: &FilterIndex,
        filters_crc: u32,
    ) -> Result<Finished, WriteError> {
        let mut out = self.take_all();
        let start = self.out_offset - out.len() as u64;
        let offset = |out: &AlignedBuffer| start + out.len() as u64;
        let stream_table_offset = offset(&out);
        let table = std::mem::take(&mut self.table);
        let label_chunks = table.finish(&mut self.compressor, &mut out, start)?;
        let label_index = match self.labels.take() {
            Some(labels) => labels.finish(&mut self.compressor)?,
            None => None,
        };
        let label_index_place = label_index.as_ref().map(|written| {
            let offset = offset(&out);
            out.extend_from_slice(&written.pages.stored);
            out.extend_from_slice(&written.root);
            let (root_len, root_crc) = (written.root.len() as u32, crc32c::crc32c(&written.root));
            LabelIndexPlace { offset, root_len, root_crc }
        });
        let label_index_root = label_index.map(|written| written.root);
        let directory_offset = offset(&out);

        let rows = std::mem::take(&mut self.rows);
        let totals = rows.totals();
        let mut by_id: Vec<u32> = (0..totals.streams).collect();
        by_id.sort_unstable_by_key(|&stream| rows.streams[stream as usize].id);
        let root = Root {
            tenants: rows.tenants,
            streams: rows.streams,
            by_id,
            runs: rows.runs,
            blocks: rows.blocks,
            label_chunks,
            filter_index: filter_index.encode(),
        };
        let directory = Directory::serialize(&root, &rows.runs_metadata)
            .filter(|bytes| bytes.len() as u64 <= DIRECTORY_MAX_BYTES)
            .ok_or(WriteError::Full)?;
        out.extend_from_slice(&directory);
        let footer = Footer {
            version: Footer::VERSION,
            identity: self.identity,
            file_len: offset(&out) + FOOTER_LEN as u64,
            filters_offset,
            stream_table_offset,
            label_index: label_index_place,
            directory_offset,
            filters_crc,
            directory_crc: crc32c::crc32c(&directory),
            totals,
            is_draft: self.is_draft,
            merged: self.merged,
        };
        out.extend_from_slice(&footer.encode());
        let refused_blocks = self.compressor.refused_blocks();
        let buffers = WriterBuffers::left_by(self).map(Box::new);
        Ok(Finished { bytes: out, footer, directory, label_index_root, refused_blocks, buffers })
    }
}

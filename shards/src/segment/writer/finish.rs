//! The end of a segment.

use super::super::directory::Directory;
use super::super::directory::rows::Root;
use super::super::error::WriteError;
use super::super::format::{DIRECTORY_MAX_BYTES, FOOTER_LEN, Footer, Totals};
use super::{SegmentWriter, WriterBuffers};

/// A segment that is complete.
#[derive(Debug)]
pub struct Finished {
    /// The last bytes of the file.
    pub bytes: Vec<u8>,
    /// What the segment holds, and where its parts are.
    pub footer: Footer,
    /// Its directory as it stands in the file: [`Directory::open`] takes it.
    pub directory: Vec<u8>,
    /// Blocks of lines that did not decode to what they had been made from when that was
    /// tried. They, and those behind them, are stored in a simpler way; there should be
    /// none, ever.
    pub refused_blocks: u32,
    /// What the next writer can use again.
    pub buffers: Option<Box<WriterBuffers>>,
}

impl SegmentWriter {
    /// Ends the segment.
    ///
    /// # Errors
    /// If it has no entry, or the last block does not compress.
    pub fn finish(mut self) -> Result<Finished, WriteError> {
        self.finish_block()?;
        if self.blocks.is_empty() {
            return Err(WriteError::Empty);
        }
        self.flush_stripe(0);
        let mut out = self.take_output();
        let start = self.out_offset - out.len() as u64;
        let offset = |out: &Vec<u8>| start + out.len() as u64;

        let filters_offset = offset(&out);
        let (region, filter_index) = std::mem::take(&mut self.filters).finish();
        let filters_crc = crc32c::crc32c(&region);
        out.extend_from_slice(&region);
        drop(region);
        let stream_table_offset = offset(&out);
        let table = std::mem::take(&mut self.table);
        let label_chunks = table.finish(&mut self.compressor, &mut out, start)?;
        let directory_offset = offset(&out);

        let totals = Totals {
            streams: self.streams.len() as u32,
            runs: self.runs.len() as u32,
            blocks: self.blocks.len() as u32,
            entries: self.entries,
            line_bytes: self.line_bytes,
            min_ns: self.blocks.iter().map(|block| block.min_ns).fold(i64::MAX, i64::min),
            max_ns: self.blocks.iter().map(|block| block.max_ns).fold(i64::MIN, i64::max),
        };
        let mut by_id: Vec<u32> = (0..totals.streams).collect();
        by_id.sort_unstable_by_key(|&stream| self.streams[stream as usize].id);
        let root = Root {
            tenants: std::mem::take(&mut self.tenants),
            streams: std::mem::take(&mut self.streams),
            by_id,
            runs: std::mem::take(&mut self.runs),
            blocks: std::mem::take(&mut self.blocks),
            label_chunks,
            filter_index: filter_index.encode(),
        };
        let directory = Directory::serialize(&root)
            .filter(|bytes| bytes.len() as u64 <= DIRECTORY_MAX_BYTES)
            .ok_or(WriteError::Full)?;
        out.extend_from_slice(&directory);
        let footer = Footer {
            identity: self.identity,
            file_len: offset(&out) + FOOTER_LEN as u64,
            filters_offset,
            stream_table_offset,
            directory_offset,
            filters_crc,
            directory_crc: crc32c::crc32c(&directory),
            totals,
        };
        out.extend_from_slice(&footer.encode());
        let refused_blocks = self.compressor.refused_blocks();
        let buffers = WriterBuffers::left_by(self).map(Box::new);
        Ok(Finished { bytes: out, footer, directory, refused_blocks, buffers })
    }
}

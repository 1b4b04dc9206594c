//! Decodes the columns of blocks and the labels of streams.
//!
//! Guarantees: the checksum of stored bytes is checked before they are decoded. The sizes in the
//! directory bound the memory of a column, and the format bounds the sizes. Arbitrary bytes
//! give an error or a column that fits the directory, never a panic. A [`Decoder`] keeps its
//! decompression context, so it is worth reusing.

use std::borrow::Cow;
use std::ops::Range;

use logsvc_logql::engine::ListedNames;
use logsvc_proto::{Labels, StreamId, TenantId, varint};

use crate::column_kind::ColumnKind;
use crate::columns::compress::{ColumnPlace, Decompressor};
use crate::columns::metadata::{self, BlockMetadata, StoredMetadata};
use crate::columns::packed::Malformed;
use crate::columns::templates::LineParts;
use crate::columns::{lengths, timestamps};
use crate::directory::Directory;
use crate::error::{Part, SegmentError};

/// Decodes columns. One decoder per thread is enough.
#[derive(Debug)]
pub struct Decoder {
    decompressor: Decompressor,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder.
    pub fn new() -> Decoder {
        Decoder { decompressor: Decompressor::new() }
    }

    /// The timestamps of a block in nanoseconds, from the stored bytes of its
    /// [`ColumnKind::Timestamps`]. Those of each run are in time order.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn timestamps(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Vec<i64>, SegmentError> {
        let raw = self.load(directory, block, ColumnKind::Timestamps, stored)?;
        let entries = directory.block(block).entries as usize;
        timestamps::decode(&raw, directory.run_times(block), entries)
            .map_err(|error| malformed(block, ColumnKind::Timestamps, error))
    }

    /// The exclusive line ends of a block, from the stored bytes of its
    /// [`ColumnKind::Lengths`]. Those of each run count from the run's first byte.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn line_ends(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Vec<u32>, SegmentError> {
        let raw = self.load(directory, block, ColumnKind::Lengths, stored)?;
        let entries = directory.block(block).entries as usize;
        lengths::decode(&raw, directory.run_lines(block), entries)
            .map_err(|error| malformed(block, ColumnKind::Lengths, error))
    }

    /// The lines of a block, from the stored bytes of its [`ColumnKind::Lines`]:
    /// [`super::BlockInfo::line_bytes`] bytes. `timestamps_ns` are those of the block; they may be
    /// empty if the column's codec does not need them.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn lines(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
        timestamps_ns: &[i64],
    ) -> Result<Vec<u8>, SegmentError> {
        self.borrowed_lines(directory, block, stored, timestamps_ns).map(Cow::into_owned)
    }

    /// Like [`Self::lines`]; `None` if the stored bytes are the lines.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn unless_raw(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
        timestamps_ns: &[i64],
    ) -> Result<Option<Vec<u8>>, SegmentError> {
        match self.borrowed_lines(directory, block, stored, timestamps_ns)? {
            Cow::Owned(lines) => Ok(Some(lines)),
            Cow::Borrowed(_) => Ok(None),
        }
    }

    fn borrowed_lines<'a>(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &'a [u8],
        timestamps_ns: &[i64],
    ) -> Result<Cow<'a, [u8]>, SegmentError> {
        let kind = ColumnKind::Lines;
        let place = directory.block(block).column(kind);
        self.decompressor
            .load_timed(&place, stored, timestamps_ns)
            .map_err(|what| SegmentError::new(Part::Column { block, kind }, what))
    }

    /// The parts of the lines of a block, from the stored bytes of its [`ColumnKind::Lines`];
    /// `None` if they are not stored as templates.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn line_parts(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Option<LineParts>, SegmentError> {
        let fail = |what| SegmentError::new(Part::Column { block, kind: ColumnKind::Lines }, what);
        let info = directory.block(block);
        let place = info.column(ColumnKind::Lines);
        match self.decompressor.load_parts(&place, stored).map_err(fail)? {
            Some(parts) if parts.line_count() != info.entries as usize => {
                Err(fail("it has another number of lines"))
            }
            parts => Ok(parts),
        }
    }

    /// The metadata of a block, from the stored bytes of its [`ColumnKind::Metadata`]; `None` if no
    /// entry has metadata.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn metadata(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Option<BlockMetadata>, SegmentError> {
        self.metadata_by(metadata::decode, directory, block, stored)
    }

    /// Like [`Self::metadata`], but entries have metadata with listed names alone, if these are
    /// enough ([`ListedNames::needs_all`]).
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn listed_metadata(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
        listed: &ListedNames,
    ) -> Result<Option<BlockMetadata>, SegmentError> {
        let decode = |raw: &[u8], entries: usize, pairs_bytes: usize| {
            metadata::decode_listed(raw, entries, pairs_bytes, listed)
        };
        self.metadata_by(decode, directory, block, stored)
    }

    /// Like [`Self::metadata`], in the stored form, which a writer takes without a conversion.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn stored_metadata(
        &mut self,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Option<StoredMetadata>, SegmentError> {
        self.metadata_by(metadata::decode_as_stored, directory, block, stored)
    }

    fn metadata_by<T>(
        &mut self,
        decode: impl FnOnce(&[u8], usize, usize) -> Result<T, Malformed>,
        directory: &Directory,
        block: u32,
        stored: &[u8],
    ) -> Result<Option<T>, SegmentError> {
        let raw = self.load(directory, block, ColumnKind::Metadata, stored)?;
        if raw.is_empty() {
            return Ok(None);
        }
        let info = directory.block(block);
        decode(&raw, info.entries as usize, info.metadata_bytes as usize)
            .map(Some)
            .map_err(|error| malformed(block, ColumnKind::Metadata, error))
    }

    /// Calls `each` with number, tenant, id and labels of every stream of a chunk of the stream
    /// table, from its stored bytes.
    ///
    /// # Errors
    /// If the bytes are damaged, or labels do not hash to their stream's id.
    pub fn labels(
        &mut self,
        directory: &Directory,
        chunk: u32,
        stored: &[u8],
        mut each: impl FnMut(u32, &TenantId, StreamId, Labels),
    ) -> Result<(), SegmentError> {
        let mut labels = self.open_labels(directory, chunk, stored)?;
        while let Some((row, tenant, id, labels)) = labels.next(directory)? {
            each(row, tenant, id, labels);
        }
        Ok(())
    }

    /// The same of some rows of the chunk, which ascend. The labels of others are not looked at.
    ///
    /// # Errors
    /// As for [`Self::labels`].
    pub fn labels_of(
        &mut self,
        directory: &Directory,
        chunk: u32,
        stored: &[u8],
        rows: &[u32],
        mut each: impl FnMut(u32, &TenantId, StreamId, Labels),
    ) -> Result<(), SegmentError> {
        let mut labels = self.open_labels(directory, chunk, stored)?;
        for &row in rows {
            labels.skip_to(row)?;
            if let Some((row, tenant, id, labels)) = labels.next(directory)? {
                each(row, tenant, id, labels);
            }
        }
        Ok(())
    }

    /// Like [`Self::labels`], one stream per call of [`ChunkLabels::next`].
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn open_labels(
        &mut self,
        directory: &Directory,
        chunk: u32,
        stored: &[u8],
    ) -> Result<ChunkLabels, SegmentError> {
        let chunk = directory.label_chunk(chunk);
        let fail = |what| SegmentError::new(Part::StreamTable, what);
        let raw = self.decompressor.load(&chunk.place, stored).map_err(fail)?.into_owned();
        Ok(ChunkLabels { raw, position: 0, streams: chunk.streams, tenant: None })
    }

    /// The raw bytes of a page of a label index.
    pub(crate) fn label_page(
        &mut self,
        place: &ColumnPlace,
        stored: &[u8],
    ) -> Result<Vec<u8>, SegmentError> {
        let raw = self.decompressor.load(place, stored);
        raw.map(Cow::into_owned).map_err(|what| SegmentError::new(Part::LabelIndex, what))
    }

    /// The raw bytes of a column.
    fn load<'a>(
        &mut self,
        directory: &Directory,
        block: u32,
        kind: ColumnKind,
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, SegmentError> {
        let place = directory.block(block).column(kind);
        self.decompressor
            .load(&place, stored)
            .map_err(|what| SegmentError::new(Part::Column { block, kind }, what))
    }
}

fn malformed(block: u32, kind: ColumnKind, Malformed: Malformed) -> SegmentError {
    SegmentError::new(Part::Column { block, kind }, "its numbers do not fit the directory")
}

/// Reads the streams of a chunk of the stream table.
#[derive(Debug)]
pub struct ChunkLabels {
    raw: Vec<u8>,
    position: usize,
    streams: Range<u32>,
    tenant: Option<TenantId>,
}

impl ChunkLabels {
    /// Passes over the streams before a row.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn skip_to(&mut self, row: u32) -> Result<(), SegmentError> {
        while self.streams.start < row.min(self.streams.end) {
            self.next_bytes()?;
        }
        Ok(())
    }

    /// The bytes of the labels of the next stream.
    fn next_bytes(&mut self) -> Result<Range<usize>, SegmentError> {
        let cut = || SegmentError::new(Part::StreamTable, "it is cut short");
        let len = varint::read(&self.raw, &mut self.position).map_err(|_| cut())?;
        let end = usize::try_from(len).ok().and_then(|len| self.position.checked_add(len));
        let end = end.filter(|end| *end <= self.raw.len()).ok_or_else(cut)?;
        self.streams.start += 1;
        Ok(std::mem::replace(&mut self.position, end)..end)
    }

    /// Number, tenant, id and labels of the next stream. `directory` is the directory of the
    /// segment.
    ///
    /// # Errors
    /// If the bytes are damaged, or labels do not hash to their stream's id.
    pub fn next(
        &mut self,
        directory: &Directory,
    ) -> Result<Option<(u32, &TenantId, StreamId, Labels)>, SegmentError> {
        let fail = |what| SegmentError::new(Part::StreamTable, what);
        if self.streams.is_empty() {
            let is_at_end = self.position == self.raw.len();
            return if is_at_end { Ok(None) } else { Err(fail("it is followed by stray bytes")) };
        }
        let stream = self.streams.start;
        let bytes = self.next_bytes()?;
        let labels =
            Labels::from_bytes(&self.raw[bytes]).map_err(|_| fail("labels are malformed"))?;
        let name = directory.tenant_of(stream);
        let same = self.tenant.take().filter(|tenant| tenant.as_str() == name);
        let tenant = match same {
            Some(tenant) => tenant,
            None => TenantId::new(name).map_err(|_| fail("a tenant is invalid"))?,
        };
        let tenant = self.tenant.insert(tenant);
        let id = directory.stream_id(stream);
        if StreamId::new(tenant, &labels) != id {
            return Err(fail("labels do not belong to their stream"));
        }
        Ok(Some((stream, tenant, id, labels)))
    }
}

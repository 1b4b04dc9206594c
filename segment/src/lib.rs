//! How entries are represented: in a [`batch`] on their way to a shard, in the [`head`] of a
//! stream in memory, and in segments, which are immutable files with the entries of many
//! streams.
//!
//! All of it is sans I/O. A [`SegmentWriter`] turns entries into bytes. A [`Directory`] and a
//! [`Decoder`] turn bytes that the caller has read into columns. Block filters ([`filter`])
//! prove that a block of a segment lacks a text. A [`LabelIndex`] finds streams by their labels. `docs/format.md` describes the bytes.
//!
//! This crate knows nothing of files, of the write-ahead log, of the manifest or of queries:
//! `logsvc-shards` decides which segments exist, and reads and writes them.
//!
//! Guarantees: every byte of a segment is covered by a checksum that is checked
//! before the byte means anything; all sizes are bounded by the format; arbitrary
//! bytes give a [`SegmentError`], never a panic or a wrong line.
//!
//! # Writing
//!
//! ```
//! use logsvc_proto::{Labels, StreamId, TenantId};
//! use logsvc_segment::{
//!     ColumnKind, Decoder, Directory, Entries, EntriesMetadata, FOOTER_LEN, Footer,
//!     SegmentIdentity, SegmentWriter,
//! };
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tenant = TenantId::new("acme")?;
//! let labels = Labels::from_pairs([("app", "web")])?;
//! let id = StreamId::new(&tenant, &labels);
//!
//! let mut file = Vec::new();
//! let mut writer = SegmentWriter::new(SegmentIdentity::default())?;
//! writer.begin_stream(&tenant, &labels, id)?; // in `stream_order`
//! let mut entries = Entries {
//!     timestamps_ns: &[10, 20],
//!     lines_start: 0,
//!     line_ends: &[5, 11],
//!     lines: b"firstsecond",
//!     metadata: EntriesMetadata::None,
//! };
//! while !entries.is_empty() {
//!     let appended = writer.append(&entries)?; // up to the end of a block
//!     entries = entries.behind(appended.entries);
//!     if appended.finished_block {
//!         file.extend_from_slice(&writer.take_output()); // write it, let others have the core
//!     }
//! }
//! let finished = writer.finish()?;
//! file.extend_from_slice(&finished.bytes);
//!
//! // Reading: the footer, the directory, then single columns of single blocks.
//! let read = |range: std::ops::Range<u64>| &file[range.start as usize..range.end as usize];
//! let footer = Footer::parse(&file[file.len() - FOOTER_LEN..], file.len() as u64)?;
//! let directory = Directory::open(footer, read(footer.directory_range()).to_vec())?;
//! let mut decoder = Decoder::new();
//! let stream = directory.find_stream(id).expect("it was written");
//! for run in directory.runs_of_stream(stream) {
//!     let block = directory.block(run.block);
//!     let stored = |kind| read(block.column(kind).range());
//!     let times = decoder.timestamps(&directory, run.block, stored(ColumnKind::Timestamps))?;
//!     let ends = decoder.line_ends(&directory, run.block, stored(ColumnKind::Lengths))?;
//!     let lines = decoder.lines(&directory, run.block, stored(ColumnKind::Lines), &times)?;
//!     let metadata = decoder.metadata(&directory, run.block, stored(ColumnKind::Metadata))?;
//!     // Columns of the whole block, of which the run's parts go into an `EntryBlock`.
//!     assert_eq!(run.of_entries(&times), [10, 20]);
//!     assert_eq!(run.of_entries(&ends), [5, 11]);
//!     assert_eq!(run.of_lines(&lines), b"firstsecond");
//!     assert!(metadata.is_none() && !run.has_metadata);
//! }
//! # Ok(())
//! # }
//! ```

pub mod batch;
mod column_kind;
mod columns;
mod directory;
mod error;
pub mod filter;
mod format;
#[doc(hidden)]
pub mod fuzz;
pub mod head;
mod label_index;
mod reader;
mod row_set;
#[cfg(test)]
mod tests;
pub mod version;
mod writer;

pub use column_kind::ColumnKind;
pub use columns::compress::{Codec, ColumnPlace};
pub use columns::metadata::{BlockMetadata, PlainMetadata, PlainSets, StoredMetadata};
pub use columns::packed::Malformed;
pub use columns::templates::{AbridgedLines, LineOutcomes, LineParts, LineSearch, SlotLines};
pub use directory::{BlockInfo, Directory, LabelChunk, RunInfo};
pub use error::{Part, SegmentError, WriteError};
pub use format::{
    BLOCK_MAX_ENTRIES, BLOCK_MAX_LINE_BYTES, BLOCK_MAX_METADATA_BYTES, FOOTER_LEN, Footer,
    HEADER_LEN, LabelIndexPlace, MergedPlace, SegmentIdentity, Totals,
};
pub use label_index::{LabelIndex, Listing, STEP_MAX_BYTES, Select, StoredRows};
pub use reader::{ChunkLabels, Decoder};
pub use row_set::RowSet;
pub use writer::{
    Appended, BLOCK_TARGET_ENTRIES, BLOCK_TARGET_LINE_BYTES, BLOCK_TARGET_METADATA_BYTES,
    EncodedBlock, Entries, EntriesMetadata, Finished, OWN_BLOCK_LINE_BYTES, PairsColumn,
    SegmentEnd, SegmentWriter, StreamKey, WriterBuffers, stream_order,
};

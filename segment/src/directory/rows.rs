//! The rows of the directory in the file, an rkyv archive. From version 4 of the format on, a list
//! of numbers follows it: the bytes of the names and values of each run's metadata.
//!
//! All numbers are little-endian and unaligned, so that the archive is read in place at any
//! address.

use rkyv::{Archive, Serialize};

/// The root of the archive.
#[derive(Archive, Serialize, Debug, Default)]
pub(crate) struct Root {
    pub(crate) tenants: Vec<TenantRow>,
    pub(crate) streams: Vec<StreamRow>,
    /// Numbers of the streams in the order of their ids.
    pub(crate) by_id: Vec<u32>,
    pub(crate) runs: Vec<RunRow>,
    pub(crate) blocks: Vec<BlockRow>,
    pub(crate) label_chunks: Vec<LabelChunkRow>,
    pub(crate) filter_index: Vec<u8>,
}

/// A tenant, and where its streams begin.
#[derive(Archive, Serialize, Debug)]
pub(crate) struct TenantRow {
    pub(crate) name: String,
    pub(crate) first_stream: u32,
}

/// A stream, and where its runs begin.
#[derive(Archive, Serialize, Debug, Clone, Copy)]
pub(crate) struct StreamRow {
    pub(crate) id: [u8; 16],
    pub(crate) first_run: u32,
}

/// The entries of one stream in one block. They end where the next run of the block begins, or
/// at the end of the block.
#[derive(Archive, Serialize, Debug, Clone, Copy)]
pub(crate) struct RunRow {
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
    pub(crate) first_entry: u32,
    pub(crate) first_line_byte: u32,
    pub(crate) flags: u8,
}

/// An entry of the run has metadata.
pub(crate) const RUN_HAS_METADATA: u8 = 1;

/// The bytes of a run's metadata, in the list behind the archive, if the run was copied from a
/// segment that does not tell them.
pub(crate) const UNKNOWN_METADATA: u32 = u32::MAX;

/// A block.
#[derive(Archive, Serialize, Debug, Clone, Copy)]
pub(crate) struct BlockRow {
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
    pub(crate) first_run: u32,
    pub(crate) first_stream: u32,
    pub(crate) entries: u32,
    pub(crate) line_bytes: u32,
    pub(crate) metadata_bytes: u32,
    /// In the order of `ColumnKind::ALL`.
    pub(crate) columns: [ColumnRow; 4],
}

/// The place and codec of stored bytes.
#[derive(Archive, Serialize, Debug, Clone, Copy)]
pub(crate) struct ColumnRow {
    pub(crate) offset: u64,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
    pub(crate) crc: u32,
    pub(crate) codec: u8,
}

/// A piece of the stream table.
#[derive(Archive, Serialize, Debug, Clone, Copy)]
pub(crate) struct LabelChunkRow {
    pub(crate) first_stream: u32,
    pub(crate) column: ColumnRow,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files hold these: a change here is a change of the format.
    #[test]
    fn rows_have_the_sizes_that_the_format_gives() {
        assert_eq!(size_of::<ArchivedTenantRow>(), 12);
        assert_eq!(size_of::<ArchivedStreamRow>(), 20);
        assert_eq!(size_of::<ArchivedRunRow>(), 25);
        assert_eq!(size_of::<ArchivedColumnRow>(), 21);
        assert_eq!(size_of::<ArchivedBlockRow>(), 16 + 5 * 4 + 4 * 21);
        assert_eq!(size_of::<ArchivedLabelChunkRow>(), 25);
        assert_eq!(size_of::<ArchivedRoot>(), 7 * 8);
        assert_eq!(align_of::<ArchivedRoot>(), 1);
    }
}

//! The rows that the directory of a segment gets, and the sums that its footer gets.
//!
//! Guarantees: rows are in the order of the directory. The rows of the open block's runs are not
//! among them, see [`PendingBlock`](super::pending::PendingBlock).

use crate::directory::rows::{BlockRow, RunRow, StreamRow, TenantRow};
use crate::format::Totals;

#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) tenants: Vec<TenantRow>,
    pub(super) streams: Vec<StreamRow>,
    pub(super) runs: Vec<RunRow>,
    /// Bytes of names and values of each run's metadata, or
    /// [`UNKNOWN_METADATA`](crate::directory::rows::UNKNOWN_METADATA).
    pub(super) runs_metadata: Vec<u32>,
    pub(super) blocks: Vec<BlockRow>,
    /// Entries of all blocks.
    pub(super) entries: u64,
    /// Bytes of the lines of all blocks.
    pub(super) line_bytes: u64,
}

impl Rows {
    /// The sums for the footer.
    pub(super) fn totals(&self) -> Totals {
        Totals {
            streams: self.streams.len() as u32,
            runs: self.runs.len() as u32,
            blocks: self.blocks.len() as u32,
            entries: self.entries,
            line_bytes: self.line_bytes,
            min_ns: self.blocks.iter().map(|block| block.min_ns).fold(i64::MAX, i64::min),
            max_ns: self.blocks.iter().map(|block| block.max_ns).fold(i64::MIN, i64::max),
        }
    }

    /// Bytes that the rows occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<StreamRow>()
            + self.runs.capacity() * size_of::<RunRow>()
            + self.runs_metadata.capacity() * 4
            + self.blocks.capacity() * size_of::<BlockRow>()
    }
}

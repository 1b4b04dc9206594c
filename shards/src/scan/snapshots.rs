//! The streams of a scan, which may be very many.

use std::ops::Deref;
use std::sync::Arc;

use logsvc_proto::{Labels, StreamId};

use super::HeadBlocks;
use crate::deletion::StreamDeletions;

/// One stream of a scan.
#[derive(Debug)]
pub struct StreamSnapshot {
    /// Its id.
    pub id: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Blocks of its head that overlap the query's time range.
    pub blocks: HeadBlocks,
    /// Whether a block of its head overlaps, in time, entries that were sealed or frozen
    /// before, so that it may repeat entries.
    pub head_is_late: bool,
    /// The requests for deletion that may hide some of its entries.
    pub deletions: Option<Box<StreamDeletions>>,
}

/// References are counted for so many streams in a row after their memory was fetched.
pub(crate) const FETCHED_AT_ONCE: usize = 32;

/// The streams of a scan. Dropping it is faster than dropping a vector: to count a reference down
/// waits for the memory of the count, which has mostly left the cache of the CPU. So the drop first
/// fetches the counts of many streams at once.
#[derive(Debug, Default)]
pub struct StreamSnapshots(Vec<StreamSnapshot>);

impl From<Vec<StreamSnapshot>> for StreamSnapshots {
    fn from(streams: Vec<StreamSnapshot>) -> StreamSnapshots {
        StreamSnapshots(streams)
    }
}

impl Deref for StreamSnapshots {
    type Target = [StreamSnapshot];

    fn deref(&self) -> &[StreamSnapshot] {
        &self.0
    }
}

impl Drop for StreamSnapshots {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            let left = self.0.len().saturating_sub(FETCHED_AT_ONCE);
            for stream in &self.0[left..] {
                std::hint::black_box(Arc::strong_count(&stream.labels));
                if let Some(part) = stream.blocks.first() {
                    std::hint::black_box(Arc::strong_count(&part.block));
                }
            }
            self.0.truncate(left);
        }
    }
}

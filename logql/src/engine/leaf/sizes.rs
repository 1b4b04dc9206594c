//! Bytes of structured metadata for volumes.
//!
//! Most blocks come with the bytes of their metadata. Where the store does not know these, reading
//! every metadata column for a volume would make a lookup as expensive as a query. So of these
//! blocks of a stream the first, second, fourth, eighth ... one is read. The other ones are taken to
//! hold as much metadata per entry as the blocks that were read.
//!
//! Exact are streams of few blocks, blocks that a bucket or the range cuts, and blocks that come
//! with the bytes of their metadata.

use crate::engine::block::{BlockSummary, EntryBlock, MetadataColumn};
use crate::engine::meter::Meter;

/// The known bytes of one stream's metadata.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Blocks that were offered by their directory entries.
    offered: u64,
    /// Entries whose metadata was read, and its bytes.
    entries: u64,
    bytes: u64,
}

/// The known bytes of metadata of all streams of a leaf.
#[derive(Debug, Default)]
pub(crate) struct MetadataShares {
    streams: Vec<Share>,
}

impl MetadataShares {
    /// Adds a stream, and returns the number by which the other functions know it. Returns the
    /// number of another stream if there is no memory.
    pub(crate) fn stream(&mut self, meter: &Meter) -> u32 {
        let number = u32::try_from(self.streams.len());
        if !meter.push(&mut self.streams, Share::default()) {
            return 0;
        }
        number.expect("streams of a shard have 32-bit numbers")
    }

    /// The bytes of metadata that a block of the stream is taken to hold; `None` if it
    /// is to be read instead.
    pub(crate) fn estimate(&mut self, stream: u32, block: &BlockSummary) -> Option<u64> {
        // There is none only where the leaf is stopped.
        let share = self.streams.get_mut(stream as usize)?;
        share.offered += 1;
        if share.offered.is_power_of_two() || share.entries == 0 {
            return None;
        }
        let bytes = u128::from(share.bytes) * u128::from(block.entries) / u128::from(share.entries);
        u64::try_from(bytes).ok()
    }

    /// Notes the metadata of a block that is known without reading it.
    pub(crate) fn note(&mut self, stream: u32, entries: u64, bytes: u64) {
        // There is none only where the leaf is stopped.
        let Some(share) = self.streams.get_mut(stream as usize) else { return };
        share.entries += entries;
        share.bytes += bytes;
    }

    /// The bytes of metadata of the entries `first..end` of a block that was read.
    pub(crate) fn read(
        &mut self,
        stream: u32,
        block: &EntryBlock<'_>,
        first: usize,
        end: usize,
    ) -> u64 {
        let bytes = metadata_bytes(block, first, end);
        self.note(stream, (end - first) as u64, bytes);
        bytes
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Share>()
    }
}

/// Names and values of the entries `first..end`.
fn metadata_bytes(block: &EntryBlock<'_>, first: usize, end: usize) -> u64 {
    let MetadataColumn::Sets { set_ids, sets } = block.metadata else { return 0 };
    // Entries in a row mostly have the same, such as their level.
    let runs = set_ids[first..end].chunk_by(|a, b| a == b);
    runs.map(|run| sets.text_bytes(run[0]) * run.len() as u64).sum()
}

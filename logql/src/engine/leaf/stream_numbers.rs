//! Numbers of streams for samples whose order counts.
//!
//! Samples of equal time are ordered by their streams. A leaf numbers its streams as they come. The
//! numbers that it hands over are in the order of the streams' keys.

use std::collections::BTreeMap;

use super::super::meter::Meter;
use super::log::StreamKey;

/// The work of sorting a stream, see [`crate::engine::meter`].
const STREAM_WORK: usize = 128;

/// The source streams of a partial result, as in [`StreamKey`] and in their order.
pub(crate) type SourceStreams = Vec<(u64, Box<str>)>;

/// The streams of a leaf by number.
#[derive(Debug, Default)]
pub(super) struct StreamNumbers {
    keys: Vec<StreamKey>,
    /// Memory of the texts of the keys.
    text_bytes: usize,
}

impl StreamNumbers {
    /// The number of a new stream; any number if there is no memory for it.
    pub(super) fn add(&mut self, key: StreamKey, meter: &Meter) -> u32 {
        let text_bytes = key.held_bytes();
        if !meter.push(&mut self.keys, key) {
            return 0;
        }
        self.text_bytes += text_bytes;
        u32::try_from(self.keys.len() - 1).expect("the memory budget bounds the streams")
    }

    /// The key of a stream, by which it is ordered. `None` only where the leaf is stopped.
    pub(super) fn key(&self, stream: u32) -> Option<&StreamKey> {
        self.keys.get(stream as usize)
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.text_bytes + self.keys.capacity() * size_of::<StreamKey>()
    }

    /// The streams in order, and for each number its place among them. `None` if there is no
    /// memory for them.
    pub(super) fn ranked(&self, meter: &Meter) -> Option<(SourceStreams, Vec<u32>)> {
        // Sorted, ranked, and copied to be sent.
        let ranked_bytes = self.keys.len() * (size_of::<StreamKey>() + size_of::<u32>());
        let parts_bytes = self.keys.len() * size_of::<(u64, Box<str>)>() + self.text_bytes;
        meter.work(self.keys.len() * STREAM_WORK + parts_bytes);
        if !meter.admit(ranked_bytes + parts_bytes) {
            return None;
        }
        let mut sorted = self.keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let rank = |key| sorted.binary_search(key).expect("all of them are there") as u32;
        let ranks = self.keys.iter().map(rank).collect();
        Some((sorted.iter().map(StreamKey::to_parts).collect(), ranks))
    }
}

/// Numbers for the streams of several partial results, which are in the order of their keys over
/// all of them: for each result those of its streams.
pub(crate) fn aligned<'s>(lists: impl Iterator<Item = &'s SourceStreams> + Clone) -> Vec<Vec<u32>> {
    let mut ranks: BTreeMap<&(u64, Box<str>), u32> = BTreeMap::new();
    for key in lists.clone().flatten() {
        ranks.entry(key).or_default();
    }
    for (rank, number) in (0u32..).zip(ranks.values_mut()) {
        *number = rank;
    }
    lists.map(|streams| streams.iter().map(|key| ranks[key]).collect()).collect()
}

//! What the shards of a node have to know of each other's segments.
//!
//! Atomic numbers that nobody waits for. They may be a moment old; then a little more
//! is removed than had to be, never a segment of a later day before one of an earlier.

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering};

use crate::manifest::{Day, LiveSegment, SegmentName};

/// A shard that has not said yet what it has.
const UNKNOWN: u64 = u64::MAX;

/// No segment.
const NO_DAY: i64 = i64::MAX;

/// Shared by the shards of a start.
#[derive(Debug, Default)]
pub struct NodeSegments {
    shards: u16,
    /// Segments that were made with another number of shards, and how many shards of
    /// today still use each; by name.
    foreign: Vec<(SegmentName, AtomicU16)>,
    use_of_shards: Vec<ShardUse>,
}

#[derive(Debug)]
struct ShardUse {
    file_bytes: AtomicU64,
    oldest_day: AtomicI64,
}

impl NodeSegments {
    /// The state of a start with this many shards and live segments.
    pub(crate) fn new(live: &[LiveSegment], shards: u16) -> NodeSegments {
        let is_foreign = |live: &&LiveSegment| live.name.shards != u32::from(shards);
        let foreign = live.iter().filter(is_foreign);
        let mut foreign: Vec<_> = foreign.map(|live| (live.name, AtomicU16::new(shards))).collect();
        foreign.sort_unstable_by_key(|(name, _)| *name);
        let unknown = |_| ShardUse {
            file_bytes: AtomicU64::new(UNKNOWN),
            oldest_day: AtomicI64::new(NO_DAY),
        };
        NodeSegments { shards, foreign, use_of_shards: (0..shards).map(unknown).collect() }
    }

    /// What of a segment's file counts as a shard's: all of it, or an equal part if all
    /// shards use it.
    pub(crate) fn share_bytes(&self, live: &LiveSegment) -> u64 {
        if live.name.shards == u32::from(self.shards) {
            live.file_len
        } else {
            live.file_len / u64::from(self.shards.max(1))
        }
    }

    /// Notes that a shard does not use a segment of another number of shards any more.
    /// True for the last shard. To be called once by each.
    pub(crate) fn release(&self, name: SegmentName) -> bool {
        let found = self.foreign.binary_search_by_key(&name, |(name, _)| *name);
        found.is_ok_and(|place| self.foreign[place].1.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Tells what a shard has.
    pub(crate) fn publish(&self, shard: u16, file_bytes: u64, oldest: Option<Day>) {
        let Some(shard) = self.use_of_shards.get(usize::from(shard)) else { return };
        let oldest = oldest.map_or(NO_DAY, |day| i64::from(day.0));
        shard.oldest_day.store(oldest, Ordering::Relaxed);
        shard.file_bytes.store(file_bytes.min(UNKNOWN - 1), Ordering::Release);
    }

    /// Bytes of all shards, and the oldest day that one of them has; `None` while a
    /// shard has not said yet.
    pub(crate) fn total(&self) -> Option<(u64, Option<Day>)> {
        let mut sum = 0u64;
        let mut oldest = NO_DAY;
        for shard in &self.use_of_shards {
            let file_bytes = shard.file_bytes.load(Ordering::Acquire);
            if file_bytes == UNKNOWN {
                return None;
            }
            sum = sum.saturating_add(file_bytes);
            oldest = oldest.min(shard.oldest_day.load(Ordering::Relaxed));
        }
        Some((sum, i32::try_from(oldest).ok().map(Day)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(shards: u32, seq: u32, file_len: u64) -> LiveSegment {
        let name = SegmentName { epoch: 1, shards, shard: 0, seq };
        LiveSegment {
            name,
            day: Day(10),
            file_len,
            min_ns: 0,
            max_ns: 0,
            entries: 1,
            line_bytes: 1,
            level: 0,
            order: name.sealed_order(),
        }
    }

    #[test]
    fn a_segment_of_all_is_released_by_the_last() {
        let (own, foreign) = (live(2, 0, 100), live(3, 1, 101));
        let node = NodeSegments::new(&[own, foreign], 2);
        assert!(!node.release(own.name), "nobody shares it");
        assert!(!node.release(foreign.name));
        assert!(node.release(foreign.name));
        assert_eq!(node.share_bytes(&own), 100);
        assert_eq!(node.share_bytes(&foreign), 50);
    }

    #[test]
    fn totals_are_known_when_all_shards_have_told() {
        let node = NodeSegments::new(&[], 2);
        node.publish(0, 5, Some(Day(3)));
        assert_eq!(node.total(), None);
        node.publish(1, 6, None);
        assert_eq!(node.total(), Some((11, Some(Day(3)))));
        node.publish(1, 7, Some(Day(-2)));
        assert_eq!(node.total(), Some((12, Some(Day(-2)))));
    }
}

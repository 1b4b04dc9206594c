//! The knowledge that the shards of a node share about each other's segments.
//!
//! It consists of atomic numbers, and no shard waits for another one. The numbers may be a moment
//! old. Then a shard removes a little more than necessary, but never a segment of a later day
//! before one of an earlier day.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU64, Ordering};

use crate::manifest::{Day, LeftPart, LiveSegment, SegmentName};
use crate::types::{Layout, StreamPartitions};

/// A shard that has not published its segments yet.
const UNKNOWN: u64 = u64::MAX;

/// No segment.
const NO_DAY: i64 = i64::MAX;

/// Shared by the shards of a start.
#[derive(Debug, Default)]
pub struct NodeSegments {
    layout: Layout,
    /// Streams that had left segments before the start.
    left: BTreeMap<SegmentName, StreamPartitions>,
    /// Segments that were made with another number of shards, so that several of this node's use
    /// them.
    shared: BTreeMap<SegmentName, SharedSegment>,
    use_of_shards: Vec<ShardUse>,
}

#[derive(Debug)]
struct SharedSegment {
    /// How many shards used it at the start.
    users: u16,
    /// The number of shards that use it.
    remaining: AtomicU16,
}

#[derive(Debug)]
struct ShardUse {
    file_bytes: AtomicU64,
    oldest_day: AtomicI64,
}

impl NodeSegments {
    /// The state of a start with this layout, live segments, and streams that have left some of
    /// them.
    pub(crate) fn new(live: &[LiveSegment], left: &[LeftPart], layout: Layout) -> NodeSegments {
        let left = left.chunk_by(|a, b| a.segment == b.segment).map(|of_segment| {
            let parts = of_segment.iter().map(|part| part.part);
            (of_segment[0].segment, parts.collect())
        });
        let unknown = |_| ShardUse {
            file_bytes: AtomicU64::new(UNKNOWN),
            oldest_day: AtomicI64::new(NO_DAY),
        };
        let use_of_shards = (0..layout.cores()).map(unknown).collect();
        let shared = BTreeMap::new();
        let mut node = NodeSegments { layout, left: left.collect(), shared, use_of_shards };
        for live in live {
            let uses = |shard: &u16| node.concerns(live.name, *shard);
            let users = (0..layout.cores()).filter(uses).count() as u16;
            if users > 1 {
                let remaining = AtomicU16::new(users);
                node.shared.insert(live.name, SharedSegment { users, remaining });
            }
        }
        node
    }

    /// Which core owns which streams.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The streams that had left a segment before the start.
    pub fn left(&self, name: SegmentName) -> StreamPartitions {
        self.left.get(&name).cloned().unwrap_or_default()
    }

    /// Whether a live segment of the start may hold streams of a shard.
    pub(crate) fn concerns(&self, name: SegmentName, shard: u16) -> bool {
        let none = StreamPartitions::default();
        let left = self.left.get(&name).unwrap_or(&none);
        !left.contains_part_of_file(name.writer(), self.layout.part_of(shard))
    }

    /// Whether several shards use a segment, so that none of them may remove it alone.
    pub(crate) fn is_shared(&self, name: SegmentName) -> bool {
        self.shared.contains_key(&name)
    }

    /// How many shards used a segment at the start; 1 for one that was made since.
    pub(crate) fn users(&self, name: SegmentName) -> u16 {
        self.shared.get(&name).map_or(1, |shared| shared.users)
    }

    /// The bytes of a segment's file that count as a shard's: all of them, or an equal part if
    /// several shards use it. The part of a shard that does not use the segment any more goes to no
    /// other shard. Otherwise a shard that moves its streams to other segments sooner than the
    /// others would make the disk look fuller than it is about to be.
    pub(crate) fn share_bytes(&self, live: &LiveSegment) -> u64 {
        let users = self.shared.get(&live.name).map_or(1, |shared| shared.users);
        live.file_len / u64::from(users)
    }

    /// Notes that a shard does not use a shared segment any more. True for the last shard.
    /// To be called once by each.
    pub(crate) fn release(&self, name: SegmentName) -> bool {
        let shared = self.shared.get(&name);
        shared.is_some_and(|shared| shared.remaining.fetch_sub(1, Ordering::AcqRel) == 1)
    }

    /// Tells the size of a shard's segments, and their oldest day.
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
    use crate::types::Part;

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
        let (own, shared) = (live(2, 0, 100), live(1, 1, 101));
        let node = NodeSegments::new(&[own, shared], &[], Layout::of_cores(2));
        assert!(!node.release(own.name), "nobody shares it");
        assert!(!node.release(shared.name));
        assert!(node.release(shared.name));
        assert_eq!(node.share_bytes(&own), 100);
        assert_eq!(node.share_bytes(&shared), 50);
    }

    #[test]
    fn a_segment_concerns_those_who_may_have_streams_in_it() {
        // Shard 0 of all these numbers of shards wrote them.
        let segments = [live(1, 0, 100), live(2, 1, 100), live(3, 2, 100), live(4, 3, 100)];
        let left = |seq: usize, by_shards, by_shard| LeftPart {
            segment: segments[seq].name,
            part: Part::one(by_shards, by_shard),
        };
        let users = |left: &[LeftPart], shards| {
            let node = NodeSegments::new(&segments, left, Layout::of_cores(shards));
            let users = |live: &LiveSegment| -> Vec<u16> {
                let users = (0..shards).filter(|shard| node.concerns(live.name, *shard));
                let users: Vec<u16> = users.collect();
                assert_eq!(node.is_shared(live.name), users.len() > 1);
                assert_eq!(node.share_bytes(live), 100 / users.len() as u64);
                users
            };
            segments.iter().map(users).collect::<Vec<_>>()
        };
        assert_eq!(users(&[], 1), [[0], [0], [0], [0]]);
        assert_eq!(users(&[], 2), [vec![0, 1], vec![0], vec![0], vec![0]]);
        assert_eq!(users(&[], 4), [vec![0, 1, 2, 3], vec![0, 1], vec![0, 1], vec![0]]);
        let some = [left(0, 2, 0), left(1, 4, 1), left(2, 4, 0)];
        assert_eq!(users(&some, 2), [[1], [0], [0], [0]]);
        assert_eq!(users(&some, 4), [vec![2, 3], vec![0], vec![1], vec![0]]);
        assert_eq!(users(&some, 3), [vec![1, 2], vec![0], vec![0], vec![0]]);
        let node = NodeSegments::new(&segments, &some, Layout::of_cores(4));
        assert!(node.left(segments[3].name).is_empty());
        assert!(node.left(segments[1].name).contains_part(Part::one(4, 1)));
    }

    #[test]
    fn totals_are_known_when_all_shards_have_told() {
        let node = NodeSegments::new(&[], &[], Layout::of_cores(2));
        node.publish(0, 5, Some(Day(3)));
        assert_eq!(node.total(), None);
        node.publish(1, 6, None);
        assert_eq!(node.total(), Some((11, Some(Day(3)))));
        node.publish(1, 7, Some(Day(-2)));
        assert_eq!(node.total(), Some((12, Some(Day(-2)))));
    }
}

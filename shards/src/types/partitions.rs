//! Sets of streams, given by partitions: the number of shards, and one of these shards.
//!
//! Shards of different partitions may overlap, and add up: [`StreamId::shard`] gives each shard a
//! contiguous range of ids, so a set is a union of ranges.

use logsvc_proto::StreamId;

/// The streams that one shard of so many owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardPart {
    /// Number of shards, at least 1.
    pub(crate) shards: u16,
    /// Below it.
    pub(crate) shard: u16,
}

impl ShardPart {
    /// Whether the shard owns a stream.
    pub(crate) fn has(self, stream: StreamId) -> bool {
        stream.shard(self.shards) == self.shard
    }
}

/// The streams of some shards, each of a partition of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPartitions {
    /// Number of shards, at least 1; shard.
    parts: Vec<(u16, u16)>,
}

impl FromIterator<(u16, u16)> for StreamPartitions {
    /// From pairs of a number of shards, which is not zero, and one of these shards.
    fn from_iter<I: IntoIterator<Item = (u16, u16)>>(parts: I) -> StreamPartitions {
        StreamPartitions { parts: parts.into_iter().collect() }
    }
}

impl StreamPartitions {
    /// Numbers of shards, each with a shard.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16)> {
        self.parts.iter().copied()
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether a stream is in one of them.
    pub fn contains(&self, stream: StreamId) -> bool {
        self.parts.iter().any(|&(shards, shard)| stream.shard(shards) == shard)
    }

    /// Whether all streams are in them that a shard owns when there are `shards`, which is
    /// not zero.
    pub(crate) fn contains_shard(&self, shards: u16, shard: u16) -> bool {
        self.contains_ids(ids_of(shards, shard))
    }

    /// Whether all streams are in them that a file may hold which `shard` of so many has
    /// written, as its name says.
    pub fn contains_file(&self, shards: u32, shard: u32) -> bool {
        self.contains_ids(ids_of_file(shards, shard))
    }

    /// Whether the partitions contain all streams that the file may hold and that shard `by_shard`
    /// of `by_shards` owns. This is also so if the shard owns none.
    pub fn contains_part_of_file(&self, file: (u32, u32), by_shards: u16, by_shard: u16) -> bool {
        let (of_file, of_shard) = (ids_of_file(file.0, file.1), ids_of(by_shards, by_shard));
        self.contains_ids((of_file.0.max(of_shard.0), of_file.1.min(of_shard.1)))
    }

    fn contains_ids(&self, (mut start, end): (u128, u128)) -> bool {
        let mut parts: Vec<(u128, u128)> =
            self.parts.iter().map(|&(shards, shard)| ids_of(shards, shard)).collect();
        parts.sort_unstable();
        for (part_start, part_end) in parts {
            if part_start <= start {
                start = start.max(part_end);
            }
        }
        start >= end
    }
}

/// Whether two files, each given by the number of shards and the shard in its name, may
/// hold the same stream.
pub(crate) fn may_share_streams(one: (u32, u32), other: (u32, u32)) -> bool {
    let (one, other) = (ids_of_file(one.0, one.1), ids_of_file(other.0, other.1));
    one.0 < other.1 && other.0 < one.1
}

/// The upper halves of the ids that a shard owns.
fn ids_of(shards: u16, shard: u16) -> (u128, u128) {
    let start = |shard: u128| (shard << 64).div_ceil(u128::from(shards));
    (start(u128::from(shard)), start(u128::from(shard) + 1))
}

/// The upper halves of the ids that a file may hold.
fn ids_of_file(shards: u32, shard: u32) -> (u128, u128) {
    match (u16::try_from(shards), u16::try_from(shard)) {
        (Ok(shards), Ok(shard)) if shard < shards => ids_of(shards, shard),
        // A name that no start has given.
        _ => (0, 1 << 64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ids_are_those_of_the_shards() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            let mut expected = 0;
            for shard in 0..shards {
                let (start, end) = ids_of(shards, shard);
                assert_eq!(start, expected);
                assert_eq!(StreamId(start << 64).shard(shards), shard);
                assert_eq!(StreamId((end << 64).wrapping_sub(1)).shard(shards), shard);
                expected = end;
            }
            assert_eq!(expected, 1 << 64);
        }
    }

    /// Ids at both sides of all borders of up to twelve shards.
    fn borders() -> impl Iterator<Item = StreamId> {
        let borders = (1..=12_u128).flat_map(|of| (0..=of).map(move |n| (n << 64).div_ceil(of)));
        let sides = borders.flat_map(|border| [border.saturating_sub(1), border]);
        sides.filter(|high| *high < 1 << 64).map(|high| StreamId(high << 64))
    }

    #[test]
    fn parts_of_different_partitions_add_up() {
        // The file has the upper half of all ids.
        let contained = |parts: &[(u16, u16)]| {
            let parts: StreamPartitions = parts.iter().copied().collect();
            // The ranges say the same as the ids at both sides of every border.
            let mut of_file = borders().filter(|id| id.shard(2) == 1);
            let expected = of_file.all(|id| parts.contains(id));
            assert_eq!(parts.contains_shard(2, 1), expected, "{parts:?}");
            assert_eq!(parts.contains_file(2, 1), expected, "{parts:?}");
            expected
        };
        assert!(contained(&[(4, 3), (4, 2)]));
        assert!(contained(&[(3, 1), (3, 2)]));
        assert!(contained(&[(3, 2), (2, 0), (12, 7), (12, 6)]));
        assert!(contained(&[(4, 2), (3, 2), (12, 9), (2, 1)]));
        assert!(!contained(&[(3, 2), (12, 7)]));
        assert!(!contained(&[(4, 3), (4, 1), (4, 0)]));
        assert!(!contained(&[]));
    }

    #[test]
    fn what_a_shard_has_of_a_file_is_what_both_have() {
        let some = [(1, 0), (2, 1), (3, 1), (4, 2), (7, 3), (12, 11)];
        for file in some {
            for (shards, shard) in some {
                for parts in [&some[..0], &some[1..3], &some[3..4], &some[4..], &some[..]] {
                    let parts: StreamPartitions = parts.iter().copied().collect();
                    let mut both = borders()
                        .filter(|id| id.shard(file.0) == file.1 && id.shard(shards) == shard);
                    let expected = both.all(|id| parts.contains(id));
                    let file = (u32::from(file.0), u32::from(file.1));
                    let found = parts.contains_part_of_file(file, shards, shard);
                    assert_eq!(found, expected, "{shard} of {shards}, {file:?}, {parts:?}");
                }
                let mut both =
                    borders().filter(|id| id.shard(file.0) == file.1 && id.shard(shards) == shard);
                let file = (u32::from(file.0), u32::from(file.1));
                let other = (u32::from(shards), u32::from(shard));
                assert_eq!(may_share_streams(file, other), both.next().is_some());
            }
        }
    }

    #[test]
    fn a_name_that_no_start_gave_is_contained_by_everything_only() {
        let odd = (1 << 20, 7);
        let parts = |parts: &[(u16, u16)]| parts.iter().copied().collect::<StreamPartitions>();
        assert!(parts(&[(2, 0), (2, 1)]).contains_file(odd.0, odd.1));
        assert!(!parts(&[(2, 1)]).contains_file(odd.0, odd.1));
        assert!(parts(&[(2, 1)]).contains_part_of_file(odd, 2, 1));
        assert!(!parts(&[(2, 1)]).contains_part_of_file(odd, 2, 0));
        assert!(may_share_streams(odd, (64, 3)));
    }
}

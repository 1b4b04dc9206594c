//! Which entries of the write-ahead log need no replay.

use logsvc_proto::StreamId;

use crate::wal::format::WalName;

use super::edit::Cover;

/// What is covered of one log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCovers {
    /// Parts whose streams are covered: number of shards, shard.
    parts: Vec<(u16, u16)>,
}

impl FileCovers {
    /// The covers that apply to a file.
    pub fn of(covers: &[Cover], file: WalName) -> FileCovers {
        let applies = |cover: &&Cover| {
            (cover.wal_epoch, cover.wal_shards, cover.wal_shard)
                == (file.epoch, file.shards, file.shard)
                && file.index <= cover.up_to_index
        };
        let covers = covers.iter().filter(applies);
        FileCovers { parts: covers.map(|cover| (cover.by_shards, cover.by_shard)).collect() }
    }

    /// Whether the entries of a stream are covered.
    pub fn covers_stream(&self, stream: StreamId) -> bool {
        self.parts.iter().any(|&(shards, shard)| stream.shard(shards) == shard)
    }

    /// Whether all streams are covered that a shard owns when there are `shards`, which
    /// is not zero.
    pub fn covers_shard(&self, shards: u16, shard: u16) -> bool {
        self.covers_ids(ids_of(shards, shard))
    }

    /// Whether every stream is covered that can be in this file.
    pub fn covers_file(&self, file: WalName) -> bool {
        let part = (u16::try_from(file.shards), u16::try_from(file.shard));
        match part {
            (Ok(shards), Ok(shard)) if shard < shards => self.covers_shard(shards, shard),
            // A name that no start has given.
            _ => self.covers_ids((0, 1 << 64)),
        }
    }

    fn covers_ids(&self, (mut start, end): (u128, u128)) -> bool {
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

/// The upper halves of the ids that a shard owns: [`StreamId::shard`] gives each shard
/// a contiguous range.
fn ids_of(shards: u16, shard: u16) -> (u128, u128) {
    let start = |shard: u128| (shard << 64).div_ceil(u128::from(shards));
    (start(u128::from(shard)), start(u128::from(shard) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: WalName = WalName { epoch: 3, shards: 2, shard: 1, index: 5 };

    fn cover(up_to_index: u32, by_shards: u16, by_shard: u16) -> Cover {
        Cover { wal_epoch: 3, wal_shards: 2, wal_shard: 1, up_to_index, by_shards, by_shard }
    }

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

    #[test]
    fn a_cover_applies_to_one_writer_up_to_an_index() {
        let applies = |cover: Cover| FileCovers::of(&[cover], FILE).covers_file(FILE);
        assert!(applies(cover(5, 2, 1)));
        assert!(applies(cover(6, 1, 0)));
        assert!(!applies(cover(4, 1, 0)));
        assert!(!applies(cover(6, 2, 0)));
        assert!(!applies(Cover { wal_epoch: 2, ..cover(5, 1, 0) }));
        assert!(!applies(Cover { wal_shards: 1, ..cover(5, 1, 0) }));
        assert!(!applies(Cover { wal_shard: 0, ..cover(5, 1, 0) }));
        assert!(!FileCovers::default().covers_file(FILE));
    }

    #[test]
    fn parts_of_different_partitions_add_up() {
        // The file has the upper half of all ids.
        let covered = |parts: &[(u16, u16)]| {
            let covers: Vec<_> = parts.iter().map(|&(of, part)| cover(9, of, part)).collect();
            let covers = FileCovers::of(&covers, FILE);
            // The ranges say the same as the ids at both sides of every border.
            let borders =
                (1..=12_u128).flat_map(|of| (0..=of).map(move |n| (n << 64).div_ceil(of)));
            let owned = borders.flat_map(|border| [border.saturating_sub(1), border]);
            let mut owned = owned.filter(|high| (1 << 63..1 << 64).contains(high));
            let expected = owned.all(|high| covers.covers_stream(StreamId(high << 64)));
            assert_eq!(covers.covers_file(FILE), expected, "{parts:?}");
            expected
        };
        assert!(covered(&[(4, 3), (4, 2)]));
        assert!(covered(&[(3, 1), (3, 2)]));
        assert!(covered(&[(3, 2), (2, 0), (12, 7), (12, 6)]));
        assert!(covered(&[(4, 2), (3, 2), (12, 9), (2, 1)]));
        assert!(!covered(&[(3, 2), (12, 7)]));
        assert!(!covered(&[(4, 3), (4, 1), (4, 0)]));
        assert!(!covered(&[]));
    }

    #[test]
    fn a_name_that_no_start_gave_is_covered_by_everything_only() {
        let odd = WalName { shards: 1 << 20, shard: 7, ..FILE };
        let cover = |by_shard| Cover { wal_shards: 1 << 20, wal_shard: 7, ..cover(9, 2, by_shard) };
        assert!(FileCovers::of(&[cover(0), cover(1)], odd).covers_file(odd));
        assert!(!FileCovers::of(&[cover(1)], odd).covers_file(odd));
    }
}

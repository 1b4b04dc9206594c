//! Covers: the parts of the write-ahead log whose entries live segments hold.

use logsvc_proto::StreamId;

use super::format::WalName;
use crate::types::{Part, StreamPartitions};

/// A part of the write-ahead log whose entries are in live segments: of the streams of some
/// partitions, everything in files of one writer up to an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cover {
    /// Epoch of the files.
    pub wal_epoch: u32,
    /// The first number of their writer.
    pub wal_shards: u32,
    /// The second one.
    pub wal_shard: u32,
    /// Last file that is covered.
    pub up_to_index: u32,
    /// Whose streams are covered.
    pub part: Part,
}

/// Of covers that differ in nothing but how far they reach, the one that reaches furthest.
pub(crate) fn strongest(mut covers: Vec<Cover>) -> Vec<Cover> {
    let key = |cover: &Cover| (cover.wal_epoch, cover.wal_shards, cover.wal_shard, cover.part);
    covers.sort_unstable_by_key(|cover| (key(cover), std::cmp::Reverse(cover.up_to_index)));
    covers.dedup_by_key(|cover| key(cover));
    covers
}

/// The covers of one log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCovers {
    /// Whose streams are covered.
    parts: StreamPartitions,
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
        FileCovers { parts: covers.map(|cover| cover.part).collect() }
    }

    /// Whether the entries of a stream are covered.
    pub fn covers_stream(&self, stream: StreamId) -> bool {
        self.parts.contains(stream)
    }

    /// Whether all streams of a part are covered.
    pub(crate) fn covers_part(&self, part: Part) -> bool {
        self.parts.contains_part(part)
    }

    /// Whether every stream of some partitions is covered that can be in this file. This is also so
    /// if there are none.
    pub(crate) fn covers_all_of(&self, wanted: &StreamPartitions, file: WalName) -> bool {
        wanted.iter().all(|part| self.parts.contains_part_of_file(file.writer(), part))
    }

    /// Whether every stream is covered that can be in this file.
    pub(crate) fn covers_file(&self, file: WalName) -> bool {
        self.parts.contains_file(file.writer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: WalName = WalName { epoch: 3, shards: 2, shard: 1, index: 5 };

    fn cover(up_to_index: u32, by_shards: u16, by_shard: u16) -> Cover {
        let part = Part::one(by_shards, by_shard);
        Cover { wal_epoch: 3, wal_shards: 2, wal_shard: 1, up_to_index, part }
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
        let wanted = |shard| [Part::one(4, shard)].into_iter().collect();
        let covers = FileCovers::of(&[cover(5, 4, 2)], FILE);
        assert!(covers.covers_all_of(&wanted(2), FILE) && !covers.covers_all_of(&wanted(3), FILE));
        assert!(covers.covers_all_of(&wanted(0), FILE), "none of these is in the file");
    }

    #[test]
    fn covers_of_different_partitions_add_up() {
        let covers = FileCovers::of(&[cover(9, 4, 2), cover(5, 3, 2)], FILE);
        assert!(covers.covers_file(FILE) && covers.covers_part(Part::one(2, 1)));
        assert!(covers.covers_stream(StreamId(u128::MAX)) && !covers.covers_stream(StreamId(0)));
    }
}

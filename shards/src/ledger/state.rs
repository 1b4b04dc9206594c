//! The sum of a writer's log.
//!
//! Guarantees: the order in which edits of different shards come does not matter. A removal beats an
//! addition. What has left a segment counts even if the segment is added later, or by another log.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::LogEntry;
use super::files::FileRecord;
use crate::kept::{FileObject, KeptFile, KeptPath};
use crate::manifest::{FooterRecord, LeftPart, LiveSegment, ManifestEdit, SegmentName, StoredSet};
use crate::types::StreamPartitions;
use crate::wal::covers::{Cover, strongest};

/// What the bucket holds of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerState {
    /// Segments whose objects are there and count.
    pub(crate) live: BTreeMap<SegmentName, LiveSegment>,
    /// Their footers.
    pub(crate) footers: BTreeMap<SegmentName, FooterRecord>,
    /// Streams that have left segments, live ones or some that no entry has added.
    pub(crate) left: BTreeSet<LeftPart>,
    /// Parts of the write-ahead logs in the bucket that live segments hold.
    pub(crate) covers: Vec<Cover>,
    /// See [`LogEntry::wal`].
    pub(crate) wal: BTreeMap<u32, u64>,
    /// Segments that have left the live set, as they were; their objects may be there. `None` for
    /// one that no entry has added.
    pub(crate) removed: BTreeMap<SegmentName, Option<LiveSegment>>,
    /// Files of the data folder that the bucket has, too.
    pub(crate) files: BTreeMap<KeptPath, KeptFile>,
    /// Objects of files that no file has any more; they may be there.
    pub(crate) gone_files: BTreeSet<FileObject>,
}

impl LedgerState {
    /// Takes an entry over of the only log that counts.
    pub(crate) fn apply(&mut self, entry: LogEntry) {
        self.apply_one_of_many(entry);
        // Of logs that are not in the bucket nobody asks.
        self.covers.retain(|cover| self.wal.contains_key(&cover.wal_epoch));
    }

    /// Takes an entry over of one log of many. It may be about segments that other logs have added,
    /// and cover write-ahead logs that only these call needed.
    pub(crate) fn apply_one_of_many(&mut self, entry: LogEntry) {
        if entry.is_sum {
            *self = LedgerState::default();
        }
        self.wal = entry.wal;
        entry.files.into_iter().for_each(|record| self.apply_file(record));
        let ManifestEdit { added, removed, covers, left, footers } = entry.edit;
        for segment in added {
            match self.removed.get_mut(&segment.name) {
                Some(removed) => *removed = removed.or(Some(segment)),
                None => drop(self.live.insert(segment.name, segment)),
            }
        }
        for footer in footers {
            if self.live.contains_key(&footer.segment) {
                self.footers.insert(footer.segment, footer);
            }
        }
        let touched: BTreeSet<SegmentName> = left.iter().map(|part| part.segment).collect();
        self.left.extend(left.into_iter().filter(|part| !self.removed.contains_key(&part.segment)));
        for name in removed {
            self.remove(name);
        }
        for name in touched {
            if self.have_all_left(name) {
                self.remove(name);
            }
        }
        self.covers.extend(covers);
        self.covers = strongest(std::mem::take(&mut self.covers));
    }

    /// Everything as one entry.
    pub(crate) fn sum(&self) -> LogEntry {
        // Who reads it has to find the objects of those that were removed.
        let removed = self.removed.values().flatten();
        let edit = ManifestEdit {
            added: self.live.values().chain(removed).copied().collect(),
            removed: self.removed.keys().copied().collect(),
            covers: self.covers.clone(),
            left: self.left.iter().copied().collect(),
            footers: self.footers.values().copied().collect(),
        };
        let kept = self.files.iter().map(|(path, file)| FileRecord::Kept(path.clone(), *file));
        let gone = self.gone_files.iter().map(|&object| FileRecord::Gone(object));
        LogEntry { is_sum: true, wal: self.wal.clone(), files: kept.chain(gone).collect(), edit }
    }

    fn apply_file(&mut self, record: FileRecord) {
        let before = match record {
            FileRecord::Kept(path, file) => {
                self.gone_files.remove(&file.object);
                let before = self.files.insert(path, file);
                before.filter(|before| before.object != file.object)
            }
            FileRecord::Removed(path) => self.files.remove(&path),
            FileRecord::Gone(object) => {
                self.gone_files.insert(object);
                None
            }
        };
        self.gone_files.extend(before.map(|before| before.object));
    }

    /// What a start needs to know of it.
    pub(crate) fn stored(&self) -> StoredSet {
        let is_of_live = |part: &&LeftPart| self.live.contains_key(&part.segment);
        StoredSet {
            live: self.live.clone(),
            footers: self.footers.clone(),
            left: self.left.iter().filter(is_of_live).copied().collect(),
            covers: self.covers.clone(),
        }
    }

    /// The parts of a segment that have left it.
    pub(crate) fn left_of(&self, name: SegmentName) -> impl Iterator<Item = &LeftPart> {
        self.left.iter().filter(move |part| part.segment == name)
    }

    /// Forgets a segment whose object is gone. Of many logs this one may only do so if no other one
    /// adds the segment, which would be live again.
    pub(crate) fn forget_removed(&mut self, name: SegmentName) {
        self.removed.remove(&name);
    }

    fn have_all_left(&self, name: SegmentName) -> bool {
        let parts: StreamPartitions = self.left_of(name).map(|part| part.part).collect();
        parts.contains_file(name.writer())
    }

    fn remove(&mut self, name: SegmentName) {
        let live = self.live.remove(&name);
        let removed = self.removed.entry(name).or_insert(None);
        *removed = removed.or(live);
        self.footers.remove(&name);
        self.left.retain(|part| part.segment != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Day;
    use crate::types::Part;

    fn segment(seq: u32) -> LiveSegment {
        let name = SegmentName { epoch: 1, shards: 1, shard: 0, seq };
        LiveSegment {
            name,
            day: Day(7),
            file_len: 10,
            min_ns: 0,
            max_ns: 1,
            entries: 1,
            line_bytes: 1,
            level: 0,
            order: name.sealed_order(),
        }
    }

    fn edit(edit: ManifestEdit) -> LogEntry {
        LogEntry { edit, ..LogEntry::default() }
    }

    #[test]
    fn covers_stay_as_long_as_their_log_does() {
        let cover = |wal_epoch| Cover {
            wal_epoch,
            wal_shards: 1,
            wal_shard: 0,
            up_to_index: 3,
            part: Part::one(1, 0),
        };
        let mut state = LedgerState::default();
        let covers = vec![cover(1), cover(2), cover(3)];
        let first = edit(ManifestEdit { covers, ..ManifestEdit::default() });
        state.apply(LogEntry { wal: [(1, 0), (2, 5)].into(), ..first });
        assert_eq!(state.covers, [cover(1), cover(2)]);
        state.apply(LogEntry { wal: [(2, 7)].into(), ..edit(ManifestEdit::default()) });
        assert_eq!((state.covers.as_slice(), state.wal[&2]), ([cover(2)].as_slice(), 7));
    }

    #[test]
    fn files_are_replaced_and_their_objects_are_to_go() {
        let object = |number| FileObject { epoch: 3, number };
        let kept = |number| {
            let content = crate::kept::Content { len_bytes: 5, crc: number };
            FileRecord::Kept(KeptPath::requests(), KeptFile { object: object(number), content })
        };
        let mut state = LedgerState::default();
        let mut apply = |files| {
            state.apply(LogEntry { files, ..LogEntry::default() });
            let mut again = LedgerState::default();
            again.apply(state.sum());
            assert_eq!(again, state, "a sum tells all");
            let named = state.files.get(&KeptPath::requests()).map(|file| file.object.number);
            (named, state.gone_files.iter().map(|object| object.number).collect::<Vec<_>>())
        };
        assert_eq!(apply(vec![kept(1)]), (Some(1), vec![]));
        assert_eq!(apply(vec![kept(2)]), (Some(2), vec![1]));
        assert_eq!(apply(vec![kept(2)]), (Some(2), vec![1]));
        assert_eq!(apply(vec![FileRecord::Removed(KeptPath::requests())]), (None, vec![1, 2]));
        assert_eq!(apply(vec![FileRecord::Gone(object(7))]), (None, vec![1, 2, 7]));
    }

    #[test]
    fn what_another_log_has_added_may_be_removed_or_left_and_a_sum_says_so() {
        let left = |seq, part| LeftPart { segment: segment(seq).name, part: Part::one(2, part) };
        let cover = Cover {
            wal_epoch: 7,
            wal_shards: 1,
            wal_shard: 0,
            up_to_index: 3,
            part: Part::one(1, 0),
        };
        let mut state = LedgerState::default();
        state.apply_one_of_many(edit(ManifestEdit {
            removed: vec![segment(1).name],
            left: vec![left(1, 0), left(2, 0), left(3, 0), left(3, 1)],
            covers: vec![cover],
            ..ManifestEdit::default()
        }));
        assert_eq!(state.left, [left(2, 0)].into());
        assert_eq!(state.removed, [(segment(1).name, None), (segment(3).name, None)].into());
        assert!(state.stored().left.is_empty(), "nothing is live");
        let mut again = LedgerState::default();
        again.apply_one_of_many(state.sum());
        assert_eq!(again, state);
        assert_eq!(again.covers, [cover]);
        let added = vec![segment(1), segment(2), segment(3)];
        again.apply_one_of_many(edit(ManifestEdit { added, ..ManifestEdit::default() }));
        assert_eq!(again.live.keys().map(|name| name.seq).collect::<Vec<_>>(), [2]);
        assert_eq!(again.stored().left, [left(2, 0)]);
        again.apply_one_of_many(edit(ManifestEdit {
            left: vec![left(2, 1)],
            ..ManifestEdit::default()
        }));
        assert!(again.live.is_empty() && again.left.is_empty());
        assert!(again.removed.values().all(Option::is_some));
    }

    #[test]
    fn a_segment_goes_when_it_is_removed_or_when_all_have_left_it() {
        let mut state = LedgerState::default();
        let added = vec![segment(1), segment(2), segment(3)];
        state.apply(edit(ManifestEdit { added, ..ManifestEdit::default() }));
        let left = |part| LeftPart { segment: segment(1).name, part: Part::one(2, part) };
        let removed = vec![segment(2).name, segment(9).name];
        let first = ManifestEdit { removed, left: vec![left(0)], ..ManifestEdit::default() };
        state.apply(edit(first));
        let live: Vec<u32> = state.live.keys().map(|name| name.seq).collect();
        assert_eq!(live, [1, 3]);
        assert_eq!(state.left.len(), 1);
        // A removal that was read first counts for an addition that comes later.
        let late = ManifestEdit { added: vec![segment(9)], ..ManifestEdit::default() };
        state.apply(edit(late));
        assert!(!state.live.contains_key(&segment(9).name));
        assert_eq!(state.removed[&segment(9).name], Some(segment(9)), "its object may be there");
        state.apply(edit(ManifestEdit { left: vec![left(1)], ..ManifestEdit::default() }));
        let live: Vec<u32> = state.live.keys().map(|name| name.seq).collect();
        assert_eq!(live, [3]);
        assert!(state.left.is_empty());
        assert_eq!(state.removed[&segment(1).name], Some(segment(1)));
        let mut again = LedgerState::default();
        again.apply(state.sum());
        assert_eq!(again.live, state.live);
        assert_eq!(again.removed, state.removed);
    }
}

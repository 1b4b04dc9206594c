//! Which segments have their files on the local disk, and which of these files go.
//!
//! The disk is a cache of the bucket. A segment that the bucket has may lose its file; its end stays
//! (filters, labels, directory), and its columns are read from the bucket. The files go first that
//! were read longest ago. A file that was never read since the start counts as read when its newest
//! entry was made.
//!
//! Guarantees: a file goes only if the bucket has the segment. What is chosen and does not go is
//! chosen again later.

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{LiveSegment, SegmentName};

/// Segments that are evicted at once.
const EVICTED_AT_ONCE: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Local {
    len_bytes: u64,
    /// When it was read last, ns since the Unix epoch.
    used_ns: i64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    /// Segments that the bucket has, too.
    files: BTreeMap<SegmentName, Local>,
    bytes: u64,
    /// Segments of which nothing is here.
    without_tails: BTreeSet<SegmentName>,
}

impl Cache {
    /// Notes the file of a segment that the bucket has.
    pub(super) fn add(&mut self, live: &LiveSegment) {
        let local = Local { len_bytes: live.file_len, used_ns: live.max_ns };
        if self.files.insert(live.name, local).is_none() {
            self.bytes += live.file_len;
        }
    }

    /// Notes a segment of which nothing is here, unless it has a file.
    pub(super) fn add_absent(&mut self, name: SegmentName) {
        if !self.files.contains_key(&name) {
            self.without_tails.insert(name);
        }
    }

    /// Notes that a segment was read.
    pub(super) fn note_used(&mut self, name: SegmentName, now_ns: i64) {
        if let Some(local) = self.files.get_mut(&name) {
            local.used_ns = local.used_ns.max(now_ns);
        }
    }

    /// Forgets a segment: its file is gone, or it is live no more.
    pub(super) fn remove(&mut self, name: SegmentName) {
        self.without_tails.remove(&name);
        if let Some(local) = self.files.remove(&name) {
            self.bytes -= local.len_bytes;
        }
    }

    /// Bytes of files of segments that the bucket has, too.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many segments there are of which nothing is here.
    pub(super) fn absent_count(&self) -> usize {
        self.without_tails.len()
    }

    /// Segments whose files are to go so that so many bytes are freed, or whose ends are to come.
    pub(super) fn choose(&self, excess_bytes: u64) -> Vec<SegmentName> {
        let mut files: Vec<(&SegmentName, &Local)> = self.files.iter().collect();
        files.sort_unstable_by_key(|(name, local)| (local.used_ns, **name));
        let mut freed = 0;
        let mut chosen = Vec::new();
        for (name, local) in files {
            if freed >= excess_bytes || chosen.len() >= EVICTED_AT_ONCE {
                break;
            }
            freed += local.len_bytes;
            chosen.push(*name);
        }
        if chosen.is_empty() {
            // New ones first: queries ask for these most.
            chosen.extend(self.without_tails.iter().rev().take(EVICTED_AT_ONCE));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Day;

    fn segment(seq: u32, len_bytes: u64, max_ns: i64) -> LiveSegment {
        let name = SegmentName { epoch: 1, shards: 1, shard: 0, seq };
        LiveSegment {
            name,
            day: Day(1),
            file_len: len_bytes,
            min_ns: 0,
            max_ns,
            entries: 1,
            line_bytes: 1,
            level: 0,
            order: name.sealed_order(),
        }
    }

    #[test]
    fn files_go_that_were_read_longest_ago() {
        let mut cache = Cache::default();
        for (seq, max_ns) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
            cache.add(&segment(seq, 100, max_ns));
            cache.add(&segment(seq, 100, max_ns));
        }
        assert_eq!(cache.bytes(), 400);
        let seqs = |names: Vec<SegmentName>| names.iter().map(|n| n.seq).collect::<Vec<_>>();
        assert_eq!(seqs(cache.choose(0)), [0; 0]);
        assert_eq!(seqs(cache.choose(101)), [2, 3]);
        cache.note_used(segment(2, 0, 0).name, 35);
        assert_eq!(seqs(cache.choose(300)), [3, 1, 2]);
        cache.remove(segment(3, 0, 0).name);
        cache.remove(segment(9, 0, 0).name);
        assert_eq!((cache.bytes(), seqs(cache.choose(1))), (300, vec![1]));
        cache.add_absent(segment(7, 0, 0).name);
        cache.add_absent(segment(8, 0, 0).name);
        assert_eq!(seqs(cache.choose(0)), [8, 7]);
    }
}

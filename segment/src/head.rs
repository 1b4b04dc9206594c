//! The head of a stream: its entries in memory, in blocks.
//!
//! Guarantees: entries keep the order of arrival. An entry is dropped if the head has an entry
//! with the same timestamp, line and metadata. A block that a reader holds never changes: the
//! first append after a snapshot copies the last block, which costs at most
//! [`BLOCK_TARGET_BYTES`]. Appending never fails.
//!
//! Lines never move within memory: a full block is closed, and the next block gets between a
//! quarter and half of the bytes that the stream holds. So at most a third of a head's memory
//! is empty, apart from heads of the smallest blocks, and from the rest of each closed block
//! that was too short for the next line.

mod metadata;
mod pool;

use std::ops::Range;
use std::sync::Arc;

use ahash::{AHashSet, RandomState};

use crate::batch::{MetadataPairs, Section, SharedSets};
use metadata::HeadMetadata;
pub use pool::BlockPool;

/// A block is closed when its lines would become more bytes than this.
pub const BLOCK_TARGET_BYTES: usize = 256 << 10;

/// A block is closed when it would get more entries than this.
pub const BLOCK_TARGET_ENTRIES: usize = 32 << 10;

/// If so many entries have the newest timestamp, duplicates are looked up in a set of hashes;
/// an entry is compared with each of fewer ones.
const TIES_HASHED_FROM: usize = 32;

/// Entries of one stream in order of arrival, in columns.
#[derive(Debug)]
pub struct HeadBlock {
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Vec<u8>,
    metadata: HeadMetadata,
    min_ns: i64,
    max_ns: i64,
    /// Whether timestamps never fall.
    sorted: bool,
}

impl Default for HeadBlock {
    fn default() -> HeadBlock {
        HeadBlock {
            timestamps_ns: Vec::new(),
            line_ends: Vec::new(),
            lines: Vec::new(),
            metadata: HeadMetadata::default(),
            min_ns: i64::MAX,
            max_ns: i64::MIN,
            sorted: true,
        }
    }
}

impl HeadBlock {
    /// An empty block with room for this many entries and bytes of lines.
    pub fn with_capacity(entries: usize, line_bytes: usize) -> HeadBlock {
        HeadBlock {
            timestamps_ns: Vec::with_capacity(entries),
            line_ends: Vec::with_capacity(entries),
            lines: Vec::with_capacity(line_bytes),
            ..HeadBlock::default()
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.timestamps_ns.len()
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.timestamps_ns.is_empty()
    }

    /// Timestamps in ns since the Unix epoch.
    #[inline]
    pub fn timestamps_ns(&self) -> &[i64] {
        &self.timestamps_ns
    }

    /// Exclusive ends of the lines.
    #[inline]
    pub fn line_ends(&self) -> &[u32] {
        &self.line_ends
    }

    /// All lines, one after another.
    #[inline]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Whether timestamps never fall.
    #[inline]
    pub fn is_sorted(&self) -> bool {
        self.sorted
    }

    /// Smallest and largest timestamp; meaningless in an empty block.
    #[inline]
    pub fn time_bounds_ns(&self) -> (i64, i64) {
        (self.min_ns, self.max_ns)
    }

    /// Line of the entry at `index`.
    #[inline]
    pub fn line(&self, index: usize) -> &[u8] {
        &self.lines[range_of(&self.line_ends, index)]
    }

    /// Whether any entry has metadata.
    #[inline]
    pub fn has_metadata(&self) -> bool {
        !self.metadata.is_empty()
    }

    /// Metadata of the entry at `index`.
    #[inline]
    pub fn metadata(&self, index: usize) -> MetadataPairs<'_> {
        self.metadata.get(index)
    }

    /// Bytes of the names and values of the metadata of all entries.
    pub fn metadata_text_bytes(&self) -> u64 {
        self.metadata.text_bytes()
    }

    /// For each entry the number of its shared set of metadata, and the sets; no numbers if no
    /// entry has a set.
    #[inline]
    pub fn shared_metadata(&self) -> (&[u8], SharedSets<'_>) {
        self.metadata.shared_columns()
    }

    /// The own pairs of all entries, as in a batch but without counts, and the exclusive end of
    /// each entry's pairs; both are empty if no entry has own pairs.
    #[inline]
    pub fn own_metadata(&self) -> (&[u8], &[u32]) {
        self.metadata.own_columns()
    }

    /// Bytes that the block's columns occupy.
    pub fn held_bytes(&self) -> usize {
        self.timestamps_ns.capacity() * 8
            + self.line_ends.capacity() * 4
            + self.lines.capacity()
            + self.metadata.held_bytes()
    }

    /// Appends an entry. All lines of a block together must stay below 4 GiB.
    #[inline]
    pub fn push(&mut self, timestamp_ns: i64, line: &[u8], metadata: MetadataPairs<'_>) {
        self.note_time(timestamp_ns, timestamp_ns, true);
        self.metadata.push(self.len(), metadata);
        self.timestamps_ns.push(timestamp_ns);
        self.lines.extend_from_slice(line);
        self.line_ends.push(self.lines.len() as u32);
    }

    /// Appends a section column by column.
    fn push_section(&mut self, section: &Section<'_>) {
        self.note_time(section.min_ns, section.max_ns, true);
        self.metadata.push_section(self.len(), section);
        let base = self.lines.len() as u32;
        self.timestamps_ns.extend(section.timestamps());
        self.line_ends.extend(section.ends().map(|end| base + end));
        self.lines.extend_from_slice(section.lines);
    }

    /// Forgets all entries and keeps the memory.
    fn clear(&mut self) {
        self.timestamps_ns.clear();
        self.line_ends.clear();
        self.lines.clear();
        self.metadata.clear();
        (self.min_ns, self.max_ns, self.sorted) = (i64::MAX, i64::MIN, true);
    }

    fn note_time(&mut self, min_ns: i64, max_ns: i64, sorted: bool) {
        self.sorted &= sorted && min_ns >= self.max_ns;
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }

    /// Indexes at which an entry with this timestamp may be.
    fn candidates(&self, timestamp_ns: i64) -> Range<usize> {
        if timestamp_ns < self.min_ns || timestamp_ns > self.max_ns {
            return 0..0;
        }
        if !self.sorted {
            return 0..self.len();
        }
        let start = self.timestamps_ns.partition_point(|&ts| ts < timestamp_ns);
        let len = self.timestamps_ns[start..].partition_point(|&ts| ts == timestamp_ns);
        start..start + len
    }

    fn contains(&self, timestamp_ns: i64, line: &[u8], metadata: MetadataPairs<'_>) -> bool {
        self.candidates(timestamp_ns).any(|index| {
            self.timestamps_ns[index] == timestamp_ns
                && self.line(index) == line
                && self.metadata(index) == metadata
        })
    }
}

#[inline]
fn range_of(ends: &[u32], index: usize) -> Range<usize> {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    start..ends[index] as usize
}

/// The result of an append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Entries that were added.
    pub entries: u64,
    /// Bytes of their lines.
    pub line_bytes: u64,
    /// Entries that were dropped because the head holds equal ones.
    pub duplicates: u64,
}

/// All entries of a stream that are in memory.
///
/// An empty head holds no memory besides itself.
#[derive(Debug)]
pub struct StreamHead {
    full: Vec<Arc<HeadBlock>>,
    tail: Option<Arc<HeadBlock>>,
    /// Capacity of the full blocks in bytes of lines.
    full_bytes: usize,
    newest_ns: i64,
    oldest_ns: i64,
    /// Entries whose timestamp is `newest_ns`.
    newest_ties: usize,
    /// Hashes of the entries at `newest_ns`, from [`TIES_HASHED_FROM`] entries on.
    tie_hashes: Option<Box<AHashSet<u64>>>,
}

impl Default for StreamHead {
    fn default() -> StreamHead {
        StreamHead {
            full: Vec::new(),
            tail: None,
            full_bytes: 0,
            newest_ns: i64::MIN,
            oldest_ns: i64::MAX,
            newest_ties: 0,
            tie_hashes: None,
        }
    }
}

impl StreamHead {
    /// Whether the head holds no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.tail.is_none()
    }

    /// Smallest and largest timestamp; `None` if there are no entries.
    #[inline]
    pub fn time_bounds_ns(&self) -> Option<(i64, i64)> {
        (!self.is_empty()).then_some((self.oldest_ns, self.newest_ns))
    }

    /// The blocks in order of arrival, to be shared with readers.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = &Arc<HeadBlock>> {
        self.full.iter().chain(&self.tail)
    }

    /// The blocks in order of arrival, with the smallest and largest timestamp of each. The
    /// bounds of an only block come from the head, without a load from the block's memory.
    #[inline]
    pub fn bounded_blocks(&self) -> impl Iterator<Item = (&Arc<HeadBlock>, (i64, i64))> {
        let is_only = self.full.is_empty();
        let bounds_ns = (self.oldest_ns, self.newest_ns);
        self.blocks().map(move |block| match is_only {
            true => (block, bounds_ns),
            false => (block, block.time_bounds_ns()),
        })
    }

    /// Loads the block for the next append, if there is one, into the cache of the CPU.
    #[inline]
    pub fn fetch(&self) {
        std::hint::black_box(self.tail.as_ref().map(Arc::strong_count));
    }

    /// Appends the entries of a section that the head does not have.
    pub fn append(&mut self, section: &Section<'_>, pool: &mut BlockPool) -> Appended {
        let rising = section.min_ns > self.newest_ns && {
            let mut last = i64::MIN;
            section.timestamps().all(|ts| std::mem::replace(&mut last, ts) < ts)
        };
        if rising {
            // The common case: no entry can be a duplicate, so that whole columns are appended.
            self.tail_with_room(pool, section.entry_count(), section.lines.len())
                .push_section(section);
            self.note_newest(section.max_ns, section.min_ns);
            return Appended {
                entries: section.entry_count() as u64,
                line_bytes: section.lines.len() as u64,
                duplicates: 0,
            };
        }
        let mut appended = Appended::default();
        for entry in section.entries() {
            if self.append_entry(entry.timestamp_ns, entry.line, entry.metadata, pool) {
                appended.entries += 1;
                appended.line_bytes += entry.line.len() as u64;
            } else {
                appended.duplicates += 1;
            }
        }
        appended
    }

    /// Appends one entry unless the head has an equal one.
    fn append_entry(
        &mut self,
        timestamp_ns: i64,
        line: &[u8],
        metadata: MetadataPairs<'_>,
        pool: &mut BlockPool,
    ) -> bool {
        if timestamp_ns <= self.newest_ns && self.contains(timestamp_ns, line, metadata) {
            return false;
        }
        self.tail_with_room(pool, 1, line.len()).push(timestamp_ns, line, metadata);
        self.note_newest(timestamp_ns, timestamp_ns);
        if let Some(hashes) = &mut self.tie_hashes
            && timestamp_ns == self.newest_ns
        {
            hashes.insert(tie_hash(line, metadata));
        }
        true
    }

    fn contains(&mut self, timestamp_ns: i64, line: &[u8], metadata: MetadataPairs<'_>) -> bool {
        if timestamp_ns == self.newest_ns {
            if self.tie_hashes.is_none() && self.newest_ties >= TIES_HASHED_FROM {
                self.tie_hashes = Some(Box::new(self.hash_ties()));
            }
            if let Some(hashes) = &self.tie_hashes
                && !hashes.contains(&tie_hash(line, metadata))
            {
                return false;
            }
        }
        self.blocks().any(|block| block.contains(timestamp_ns, line, metadata))
    }

    fn hash_ties(&self) -> AHashSet<u64> {
        let mut hashes = AHashSet::with_hasher(tie_hasher());
        for block in self.blocks() {
            for index in block.candidates(self.newest_ns) {
                if block.timestamps_ns[index] == self.newest_ns {
                    hashes.insert(tie_hash(block.line(index), block.metadata(index)));
                }
            }
        }
        hashes
    }

    fn note_newest(&mut self, newest_ns: i64, oldest_ns: i64) {
        self.oldest_ns = self.oldest_ns.min(oldest_ns);
        if newest_ns > self.newest_ns {
            self.newest_ns = newest_ns;
            self.newest_ties = 1;
            self.tie_hashes = None;
        } else if newest_ns == self.newest_ns {
            self.newest_ties += 1;
        }
    }

    /// The last block, which no reader holds, with room for this many entries and bytes.
    fn tail_with_room(
        &mut self,
        pool: &mut BlockPool,
        entries: usize,
        line_bytes: usize,
    ) -> &mut HeadBlock {
        if let Some(tail) = &self.tail {
            let fits = tail.lines.len() + line_bytes <= tail.lines.capacity()
                && tail.len() + entries <= BLOCK_TARGET_ENTRIES;
            if !fits {
                self.full_bytes += tail.lines.capacity();
                self.full.extend(self.tail.take());
            }
        }
        let held_bytes = self.full_bytes;
        let tail = self.tail.get_or_insert_with(|| pool.take(line_bytes, held_bytes / 2));
        if Arc::get_mut(tail).is_none() {
            // A reader holds it.
            *tail = pool.copy(tail);
        }
        Arc::get_mut(tail).expect("the block is new, or was found to be ours alone")
    }

    /// Returns the memory of all blocks that no reader holds to `pool`.
    pub fn recycle(self, pool: &mut BlockPool) {
        self.full.into_iter().chain(self.tail).for_each(|block| pool.give_back(block));
    }
}

fn tie_hasher() -> RandomState {
    RandomState::with_seeds(0x6c6f_6773, 0x7663_2d74, 0x6965_732d, 0x6861_7368)
}

fn tie_hash(line: &[u8], metadata: MetadataPairs<'_>) -> u64 {
    tie_hasher().hash_one((line, metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchBuilder, sections};
    use logsvc_proto::StreamId;

    type Entry = (i64, &'static str, &'static [(&'static str, &'static str)]);

    fn append(head: &mut StreamHead, entries: &[Entry]) -> Appended {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(StreamId(1));
        for (ts, line, metadata) in entries {
            builder.push(*ts, line.as_bytes(), metadata.iter().copied());
        }
        builder.end();
        let batch = builder.finish();
        let section = sections(&batch).next().unwrap().unwrap();
        head.append(&section, &mut BlockPool::default())
    }

    fn held(head: &StreamHead) -> Vec<(i64, String, usize)> {
        let entry = |block: &HeadBlock, index| {
            let line = String::from_utf8(block.line(index).to_vec()).unwrap();
            (block.timestamps_ns()[index], line, block.metadata(index).count())
        };
        head.blocks().flat_map(|b| (0..b.len()).map(|i| entry(b, i)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn equal_entries_are_dropped_and_different_ones_kept() {
        let mut head = StreamHead::default();
        append(&mut head, &[(1, "a", &[]), (2, "b", &[]), (2, "b", &[]), (2, "c", &[])]);
        let again = append(&mut head, &[(2, "b", &[("k", "v")]), (1, "a", &[]), (0, "late", &[])]);
        assert_eq!(again, Appended { entries: 2, line_bytes: 5, duplicates: 1 });
        assert_eq!(
            held(&head),
            vec![
                (1, "a".into(), 0),
                (2, "b".into(), 0),
                (2, "c".into(), 0),
                (2, "b".into(), 1),
                (0, "late".into(), 0)
            ]
        );
        assert_eq!(head.time_bounds_ns(), Some((0, 2)));
        assert!(head.blocks().any(|block| !block.is_sorted()));
    }

    #[test]
    fn duplicates_among_many_equal_timestamps_are_found_by_hash() {
        let mut head = StreamHead::default();
        let lines: Vec<&'static str> = (0..500).map(|i| &*format!("line {i}").leak()).collect();
        let entries: Vec<Entry> = lines.iter().map(|line| (5, *line, &[] as &[_])).collect();
        assert_eq!(append(&mut head, &entries).entries, 500);
        assert!(head.tie_hashes.is_some());
        assert_eq!(append(&mut head, &entries).duplicates, 500);
        append(&mut head, &[(6, "newer", &[])]);
        assert_eq!(append(&mut head, &entries).duplicates, 500, "also behind a newer entry");
        assert_eq!(held(&head).len(), 501);
    }

    #[test]
    fn entries_are_equal_whether_they_share_their_metadata_or_not() {
        let level: &[(&[u8], &[u8])] = &[(b"detected_level", b"info")];
        let trace = [("trace_id", "00ff")];
        let all = [("detected_level", "info"), ("trace_id", "00ff")];
        let batch = |shares: bool, lines: Range<i64>| {
            let mut builder = BatchBuilder::new(Vec::new());
            builder.begin(StreamId(1));
            for number in lines {
                let line = number.to_string();
                match shares {
                    true => builder.push_sharing(5, line.as_bytes(), level, trace.into_iter()),
                    false => builder.push(5, line.as_bytes(), all.into_iter()),
                }
            }
            builder.finish()
        };
        // Few entries are compared, and many are looked up by hash.
        for count in [3, 100] {
            for shares_first in [true, false] {
                let (mut head, mut pool) = (StreamHead::default(), BlockPool::default());
                let mut append = |batch: &[u8]| {
                    head.append(&sections(batch).next().unwrap().unwrap(), &mut pool)
                };
                assert_eq!(append(&batch(shares_first, 0..count)).entries, count as u64);
                let again = append(&batch(!shares_first, 0..count + 1));
                assert_eq!((again.entries, again.duplicates), (1, count as u64));
            }
        }
    }

    #[test]
    fn the_bytes_of_metadata_are_those_of_all_entries() {
        let level: &[(&[u8], &[u8])] = &[(b"level", b"info")];
        let none: [(&str, &str); 0] = [];
        let shared = |builder: &mut BatchBuilder, own: &[(&str, &str)]| {
            builder.push_sharing(1, b"shares", level, own.iter().copied());
        };
        let (mut head, mut pool) = (StreamHead::default(), BlockPool::default());
        let mut check = |fill: &dyn Fn(&mut BatchBuilder), added: u64| {
            let mut builder = BatchBuilder::new(Vec::new());
            builder.begin(StreamId(1));
            fill(&mut builder);
            builder.end();
            let batch = builder.finish();
            let before: u64 = head.blocks().map(|block| block.metadata_text_bytes()).sum();
            head.append(&sections(&batch).next().unwrap().unwrap(), &mut pool);
            let after: u64 = head.blocks().map(|block| block.metadata_text_bytes()).sum();
            assert_eq!(after - before, added);
            let texts = |block: &HeadBlock| {
                let pairs = (0..block.len()).flat_map(|index| block.metadata(index));
                pairs.map(|(name, value)| (name.len() + value.len()) as u64).sum::<u64>()
            };
            assert_eq!(after, head.blocks().map(|block| texts(block)).sum::<u64>());
        };
        check(&|builder| builder.push(1, b"none", none.into_iter()), 0);
        check(&|builder| shared(builder, &[]), 9);
        check(&|builder| builder.push(1, b"own", [("a", "xyz")].into_iter()), 4);
        // If both parts have a name, the own pair is the entry's.
        check(&|builder| shared(builder, &[("level", "error"), ("z", "")]), 11);
        check(&|builder| builder.push(1, b"none again", none.into_iter()), 0);
    }

    #[test]
    fn a_held_block_never_changes() {
        let mut head = StreamHead::default();
        append(&mut head, &[(1, "a", &[])]);
        let snapshot: Vec<_> = head.blocks().cloned().collect();
        append(&mut head, &[(2, "b", &[("k", "v")])]);
        assert_eq!(snapshot[0].len(), 1);
        assert_eq!(held(&head), vec![(1, "a".into(), 0), (2, "b".into(), 1)]);
        append(&mut head, &[(3, "c", &[])]);
        assert_eq!(held(&head)[2], (3, "c".into(), 0), "bulk append after metadata");
    }

    #[test]
    fn blocks_grow_with_the_head_and_leave_little_room_empty() {
        let mut head = StreamHead::default();
        let line: &'static str = "x".repeat(1000).leak();
        let (mut used_bytes, mut ts) = (0, 0);
        while used_bytes < 4 << 20 {
            append(&mut head, &[(ts, line, &[])]);
            (used_bytes, ts) = (used_bytes + line.len(), ts + 1);
            let room: usize = head.blocks().map(|block| block.lines.capacity()).sum();
            let empty = room - used_bytes;
            // And less than a line at the end of each block.
            let most = (used_bytes / 2).max(1024) + head.blocks().count() * line.len();
            assert!(empty <= most, "{empty} of {room} are empty");
        }
        let sizes: Vec<usize> = head.blocks().map(|block| block.lines.capacity()).collect();
        assert!(sizes.is_sorted(), "{sizes:?}");
        assert!(sizes.len() < 60, "{sizes:?}");
        assert_eq!(sizes.last(), Some(&BLOCK_TARGET_BYTES));
        assert_eq!(held(&head).len() as i64, ts);
    }

    #[test]
    fn a_line_longer_than_a_block_gets_one_of_its_own() {
        let mut head = StreamHead::default();
        let line: &'static str = "x".repeat(BLOCK_TARGET_BYTES + 1).leak();
        append(&mut head, &[(1, line, &[]), (2, "short", &[]), (3, line, &[])]);
        assert_eq!(held(&head).iter().map(|(_, line, _)| line.len()).max(), Some(line.len()));
        assert_eq!(held(&head).len(), 3);
    }
}

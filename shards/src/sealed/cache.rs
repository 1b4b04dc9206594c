//! Decoded columns of sealed blocks, kept for the next query.
//!
//! Guarantees: holds at most its share of the cache's memory; what a scan holds
//! stays valid after it was evicted. Eviction is by second chance: what was used
//! since the hand last passed stays one round longer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ahash::HashMap;

use super::hasher;
use crate::manifest::SegmentName;
use crate::segment::{BlockMetadata, ColumnKind};

/// Which column of which block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ColumnKey {
    pub(crate) segment: SegmentName,
    pub(crate) block: u32,
    pub(crate) kind: ColumnKind,
}

/// A decoded column of a block.
#[derive(Clone, Debug)]
pub(crate) enum Cached {
    /// Timestamps in ns.
    Timestamps(Rc<Vec<i64>>),
    /// Line ends, within each run.
    Ends(Rc<Vec<u32>>),
    /// Line bytes.
    Lines(Rc<Vec<u8>>),
    /// Metadata; `None` if no entry has any.
    Metadata(Option<Rc<BlockMetadata>>),
}

impl Cached {
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Cached::Timestamps(column) => column.capacity() * 8,
            Cached::Ends(column) => column.capacity() * 4,
            Cached::Lines(column) => column.capacity(),
            Cached::Metadata(column) => column.as_ref().map_or(0, |column| column.held_bytes()),
        }
    }
}

/// How often the cache had what was wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Columns found.
    pub hits: u64,
    /// Columns that had to be read.
    pub misses: u64,
    /// Columns that had to go for others.
    pub evictions: u64,
    /// Bytes held now.
    pub held_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    column: Cached,
    bytes: usize,
    used: bool,
}

#[derive(Debug)]
struct State {
    entries: HashMap<ColumnKey, Entry>,
    hand: VecDeque<ColumnKey>,
    held_bytes: usize,
    counters: CacheCounters,
}

/// See the module. One per core.
#[derive(Debug)]
pub struct BlockCache {
    max_bytes: usize,
    state: RefCell<State>,
}

impl BlockCache {
    /// A cache that holds at most `max_bytes` of columns.
    pub fn new(max_bytes: usize) -> BlockCache {
        BlockCache {
            max_bytes,
            state: RefCell::new(State {
                entries: HashMap::with_hasher(hasher()),
                hand: VecDeque::new(),
                held_bytes: 0,
                counters: CacheCounters::default(),
            }),
        }
    }

    /// Totals since the start, and what is held now.
    pub fn counters(&self) -> CacheCounters {
        let state = self.state.borrow();
        CacheCounters { held_bytes: state.held_bytes as u64, ..state.counters }
    }

    pub(crate) fn get(&self, key: ColumnKey) -> Option<Cached> {
        let mut state = self.state.borrow_mut();
        let found = state.entries.get_mut(&key).map(|entry| {
            entry.used = true;
            entry.column.clone()
        });
        match found {
            Some(_) => state.counters.hits += 1,
            None => state.counters.misses += 1,
        }
        found
    }

    pub(crate) fn put(&self, key: ColumnKey, column: Cached) {
        let bytes = column.held_bytes() + size_of::<Entry>() + 2 * size_of::<ColumnKey>();
        if bytes > self.max_bytes / 8 {
            // One that would push out a good part of the rest is not worth it.
            return;
        }
        let mut state = self.state.borrow_mut();
        let entry = Entry { column, bytes, used: false };
        if let Some(previous) = state.entries.insert(key, entry) {
            // Two scans have read the same.
            state.held_bytes -= previous.bytes;
        } else {
            state.hand.push_back(key);
        }
        state.held_bytes += bytes;
        while state.held_bytes > self.max_bytes {
            state.evict();
        }
    }
}

impl State {
    fn evict(&mut self) {
        let Some(key) = self.hand.pop_front() else { return };
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if std::mem::take(&mut entry.used) {
            self.hand.push_back(key);
            return;
        }
        self.held_bytes -= entry.bytes;
        self.counters.evictions += 1;
        self.entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u32) -> ColumnKey {
        let segment = SegmentName { epoch: 1, shards: 1, shard: 0, seq: 1 };
        ColumnKey { segment, block, kind: ColumnKind::Lines }
    }

    fn lines(len: usize) -> Cached {
        Cached::Lines(Rc::new(vec![b'x'; len]))
    }

    #[test]
    fn the_cache_stays_within_its_bytes_and_keeps_what_is_used() {
        let cache = BlockCache::new(10_000);
        for block in 0..100 {
            cache.put(key(block), lines(800));
            assert!(cache.get(key(0)).is_some(), "used all the time");
            assert!(cache.counters().held_bytes <= 10_000);
        }
        assert!(cache.get(key(99)).is_some());
        assert!(cache.get(key(50)).is_none());
        cache.put(key(200), lines(5_000));
        assert!(cache.get(key(200)).is_none(), "too large a share");
    }

    #[test]
    fn putting_a_column_twice_counts_it_once() {
        let cache = BlockCache::new(10_000);
        cache.put(key(1), lines(800));
        let once = cache.counters().held_bytes;
        cache.put(key(1), lines(800));
        assert_eq!(cache.counters().held_bytes, once);
    }
}

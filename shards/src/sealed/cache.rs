//! Decoded columns of sealed blocks, kept for the next query.
//!
//! Guarantees: holds at most its share of the cache's memory, which is reserved from the
//! node's budget for it; what a scan holds stays valid after it was evicted.
//!
//! A scan of more than fits must not push out, block by block, what its repetition would
//! have found: so once the cache is full, a new column gets in only where the hand stands
//! on one that was not used since the hand's last visit, and of [`INSPECT_EVERY`] new
//! columns only one may look. What is used once per scan stays as long as scans are no
//! longer than about that many times the cache, plus one; what is not used any more goes
//! after about twice that many. A column that comes again soon after it was turned away,
//! before others of half the cache's bytes were, belongs to something that fits: it may
//! always look, at two places, so that the cache turns to another set of columns within a
//! few repetitions.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ahash::HashMap;
use logsvc_runtime::{Budget, Reservation};

use super::hasher;
use crate::manifest::SegmentName;
use crate::segment::{BlockMetadata, ColumnKind};

/// Of so many columns that come to a full cache one moves the hand.
const INSPECT_EVERY: u64 = 4;

/// So many columns that were turned away are remembered at most.
const TURNED_AWAY_MAX: usize = 1 << 14;

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
    /// Accounts for `held_bytes`; `None` if the budget allows nothing.
    memory: Option<Reservation>,
    /// Columns that came when the cache was full.
    came_to_full: u64,
    /// Those that were turned away last, with their bytes, oldest first, and the sum of the
    /// bytes. A column may stand there twice.
    turned_away: VecDeque<(ColumnKey, usize)>,
    turned_away_bytes: usize,
    /// How often each stands there.
    turned_away_times: HashMap<ColumnKey, u32>,
    counters: CacheCounters,
}

/// See the module. One per core.
#[derive(Debug)]
pub struct BlockCache {
    max_bytes: usize,
    state: RefCell<State>,
}

impl BlockCache {
    /// A cache that holds at most `max_bytes` of columns, as far as there is room in
    /// `budget`.
    pub fn new(budget: &Budget, max_bytes: usize) -> BlockCache {
        BlockCache {
            max_bytes,
            state: RefCell::new(State {
                entries: HashMap::with_hasher(hasher()),
                hand: VecDeque::new(),
                held_bytes: 0,
                memory: budget.try_reserve(0),
                came_to_full: 0,
                turned_away: VecDeque::new(),
                turned_away_bytes: 0,
                turned_away_times: HashMap::with_hasher(hasher()),
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
        let state = &mut *self.state.borrow_mut();
        // Two scans may have read the same.
        if state.entries.contains_key(&key) || !state.make_room(key, bytes, self.max_bytes) {
            return;
        }
        state.held_bytes += bytes;
        // A round of grace: a scan comes back to it when it is repeated.
        state.entries.insert(key, Entry { column, bytes, used: true });
        state.hand.push_back(key);
    }
}

impl State {
    /// Reserves memory for a column, as far as the module's rules give it any.
    fn make_room(&mut self, key: ColumnKey, bytes: usize, max_bytes: usize) -> bool {
        if self.held_bytes + bytes > max_bytes {
            self.came_to_full += 1;
            let mut looks = if self.turned_away_times.contains_key(&key) {
                2
            } else {
                u32::from(self.came_to_full.is_multiple_of(INSPECT_EVERY))
            };
            while looks > 0 && self.held_bytes + bytes > max_bytes {
                if !self.evict_if_unused() {
                    looks -= 1;
                }
            }
            if self.held_bytes + bytes > max_bytes {
                self.turn_away(key, bytes, max_bytes / 2);
                return false;
            }
        }
        self.memory.as_mut().is_some_and(|memory| memory.try_grow(bytes as u64))
    }

    /// Remembers a column that finds no room, among those of so many bytes.
    fn turn_away(&mut self, key: ColumnKey, bytes: usize, max_bytes: usize) {
        self.turned_away.push_back((key, bytes));
        self.turned_away_bytes += bytes;
        *self.turned_away_times.entry(key).or_default() += 1;
        while self.turned_away_bytes > max_bytes || self.turned_away.len() > TURNED_AWAY_MAX {
            let Some((key, bytes)) = self.turned_away.pop_front() else { break };
            self.turned_away_bytes -= bytes;
            if let Some(times) = self.turned_away_times.get_mut(&key) {
                *times -= 1;
                if *times == 0 {
                    self.turned_away_times.remove(&key);
                }
            }
        }
    }

    /// Moves the hand on by one. Returns whether that one went.
    fn evict_if_unused(&mut self) -> bool {
        let Some(key) = self.hand.pop_front() else { return false };
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        if std::mem::take(&mut entry.used) {
            self.hand.push_back(key);
            return false;
        }
        let bytes = entry.bytes;
        self.held_bytes -= bytes;
        self.counters.evictions += 1;
        self.entries.remove(&key);
        if let Some(memory) = &mut self.memory {
            memory.shrink_to(memory.bytes().saturating_sub(bytes as u64));
        }
        true
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

    /// A cache for 100 columns of [`scan`].
    fn cache_of_100() -> (Budget, BlockCache) {
        let each_bytes = 800 + size_of::<Entry>() + 2 * size_of::<ColumnKey>();
        let budget = Budget::new("cache", 100 * each_bytes as u64);
        let cache = BlockCache::new(&budget, 100 * each_bytes);
        (budget, cache)
    }

    /// Asks for columns as a scan does; returns how many were there.
    fn scan(cache: &BlockCache, blocks: std::ops::Range<u32>) -> usize {
        let mut hits = 0;
        for block in blocks {
            match cache.get(key(block)) {
                Some(_) => hits += 1,
                None => cache.put(key(block), lines(800)),
            }
        }
        hits
    }

    #[test]
    fn the_cache_stays_within_its_bytes() {
        let (budget, cache) = cache_of_100();
        for round in 0..20 {
            scan(&cache, 0..50 + 37 * round);
            assert_eq!(cache.counters().held_bytes, budget.used_bytes());
            assert!(budget.used_bytes() <= budget.max_bytes());
        }
        cache.put(key(5000), lines(80 * 800));
        assert!(cache.get(key(5000)).is_none(), "too large a share");
        drop(cache);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_repeated_scan_finds_the_share_that_fits() {
        for blocks in [105, 110, 125, 140, 160, 200, 270, 400] {
            let (_budget, cache) = cache_of_100();
            assert_eq!(scan(&cache, 0..blocks), 0);
            for round in 1..10 {
                let hits = scan(&cache, 0..blocks);
                assert!(hits >= 95, "{hits} of 100 in round {round} of {blocks} blocks");
            }
        }
    }

    #[test]
    fn one_long_scan_leaves_what_is_in_use() {
        let (_budget, cache) = cache_of_100();
        scan(&cache, 0..90);
        scan(&cache, 0..90);
        scan(&cache, 1000..1400);
        assert!(scan(&cache, 0..90) >= 85);
    }

    #[test]
    fn what_is_not_used_any_more_gives_way() {
        let (_budget, cache) = cache_of_100();
        for _ in 0..50 {
            scan(&cache, 0..100);
        }
        let rounds = (0..100).position(|_| scan(&cache, 200..300) >= 95);
        assert!(rounds.is_some_and(|rounds| rounds < 30), "{rounds:?}");
        // A set of columns of which the repetition comes soon gets in at once.
        let rounds = (0..100).position(|_| scan(&cache, 1000..1045) >= 40);
        assert!(rounds.is_some_and(|rounds| rounds <= 5), "{rounds:?}");
    }

    #[test]
    fn putting_a_column_twice_counts_it_once() {
        let cache = BlockCache::new(&Budget::new("cache", 10_000), 10_000);
        cache.put(key(1), lines(800));
        let once = cache.counters().held_bytes;
        cache.put(key(1), lines(800));
        assert_eq!(cache.counters().held_bytes, once);
    }
}

//! Decoded columns of sealed blocks, kept for the next query.
//!
//! Guarantees: the cache holds at most its share of the memory, which it reserves from the node's
//! budget. A column that a scan holds stays valid after it was evicted.
//!
//! A scan of more columns than fit must not evict, one by one, the columns that its repetition
//! would find; and columns that are used often must survive columns that are used once. So in a
//! full cache a column that was never there evicts the least recently used ones only up to
//! [`NEW_SHARE`], and is *new* until it is used again. Beyond this share it evicts other new
//! columns, which no scan has used for a whole cache's worth of columns. A column that was there
//! before evicts a column that has been unused for longer than it has been away. This time is
//! counted in bytes of columns that came when there was no room. In a repeated scan it is the same
//! for all columns, so the columns that are in the cache stay, and the columns of another query
//! make room for the ones that are asked for a second time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use ahash::HashMap;
use logsvc_runtime::{Budget, Reservation};

use super::hasher;
use crate::manifest::SegmentName;
use logsvc_segment::{BlockMetadata, ColumnKind, LineParts};

/// One part in so many of the cache is for columns that were used once, at the expense of columns
/// that were used again.
const NEW_SHARE: usize = 4;

/// So many columns that are not in are remembered at most.
const AWAY_MAX: usize = 1 << 14;

/// So many columns are looked at in search of one that may go.
const LOOKS: usize = 4;

/// Which column of which block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ColumnKey {
    pub(crate) segment: SegmentName,
    pub(crate) block: u32,
    pub(crate) kind: ColumnKind,
    pub(crate) form: ColumnForm,
}

/// What of a column a decoded column holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ColumnForm {
    /// All of it.
    Whole,
    /// The parts of lines.
    Parts,
    /// Metadata with listed names, which have this hash.
    Listed(u64),
}

/// A decoded column of a block.
#[derive(Clone, Debug)]
pub(crate) enum Cached {
    /// Timestamps in ns.
    Timestamps(Arc<Vec<i64>>),
    /// Line ends, within each run.
    Ends(Arc<Vec<u32>>),
    /// Line bytes.
    Lines(Arc<Vec<u8>>),
    /// Lines in their parts.
    Parts(Arc<LineParts>),
    /// Metadata; `None` if no entry has any.
    Metadata(Option<Arc<BlockMetadata>>),
}

impl Cached {
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Cached::Timestamps(column) => column.capacity() * 8,
            Cached::Ends(column) => column.capacity() * 4,
            Cached::Lines(column) => column.capacity(),
            Cached::Parts(column) => column.held_bytes(),
            Cached::Metadata(column) => column.as_ref().map_or(0, |column| column.held_bytes()),
        }
    }
}

/// Hits and misses of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Columns found.
    pub hits: u64,
    /// Columns that had to be read.
    pub misses: u64,
    /// Columns that had to go for others.
    pub evictions: u64,
    /// Bytes that are held.
    pub held_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    column: Cached,
    bytes: usize,
    /// [`State::clock_bytes`] when it was used last.
    used_at: u64,
    /// [`State::uses`] when it was used last.
    last_use: u64,
    /// Whether it was not used since it came.
    is_new: bool,
}

#[derive(Debug)]
struct State {
    entries: HashMap<ColumnKey, Entry>,
    /// The columns that are not new, in the order in which they are looked at.
    hand: VecDeque<ColumnKey>,
    /// The new columns, oldest first, and some that are not new any more.
    new: VecDeque<ColumnKey>,
    /// Bytes of the new columns.
    new_bytes: usize,
    held_bytes: usize,
    /// Counts the uses.
    uses: u64,
    /// Owners for `held_bytes`; `None` if the budget allows nothing.
    memory: Option<Reservation>,
    /// Bytes of all columns that came when the cache was full.
    clock_bytes: u64,
    /// When columns that are not in were used last, and in which order they went, oldest
    /// first, with the same times.
    away: HashMap<ColumnKey, u64>,
    away_order: VecDeque<(ColumnKey, u64)>,
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
                new: VecDeque::new(),
                new_bytes: 0,
                held_bytes: 0,
                uses: 0,
                memory: budget.try_reserve(0),
                clock_bytes: 0,
                away: HashMap::with_hasher(hasher()),
                away_order: VecDeque::new(),
                counters: CacheCounters::default(),
            }),
        }
    }

    /// The totals since the start, and the columns in the cache.
    pub fn counters(&self) -> CacheCounters {
        let state = self.state.borrow();
        CacheCounters { held_bytes: state.held_bytes as u64, ..state.counters }
    }

    pub(crate) fn get(&self, key: ColumnKey) -> Option<Cached> {
        let state = &mut *self.state.borrow_mut();
        state.uses += 1;
        let found = state.entries.get_mut(&key).map(|entry| {
            (entry.used_at, entry.last_use) = (state.clock_bytes, state.uses);
            if std::mem::take(&mut entry.is_new) {
                state.new_bytes -= entry.bytes;
                state.hand.push_back(key);
            }
            entry.column.clone()
        });
        match found {
            Some(_) => state.counters.hits += 1,
            None => state.counters.misses += 1,
        }
        found
    }

    /// Whether a column is there; does not count as a use of it.
    pub(crate) fn holds(&self, key: ColumnKey) -> bool {
        self.state.borrow().entries.contains_key(&key)
    }

    pub(crate) fn put(&self, key: ColumnKey, column: Cached) {
        let bytes = column.held_bytes() + size_of::<Entry>() + 2 * size_of::<ColumnKey>();
        if bytes > self.max_bytes / 8 {
            // A column that would push out a good part of the rest is not worth it.
            return;
        }
        let state = &mut *self.state.borrow_mut();
        // Two scans may have read the same.
        if state.entries.contains_key(&key) || !state.make_room(key, bytes, self.max_bytes) {
            return;
        }
        state.held_bytes += bytes;
        state.new_bytes += bytes;
        let (used_at, last_use) = (state.clock_bytes, state.uses);
        state.entries.insert(key, Entry { column, bytes, used_at, last_use, is_new: true });
        state.new.push_back(key);
    }
}

impl State {
    /// Reserves memory for a column, as far as the module's rules give it any.
    fn make_room(&mut self, key: ColumnKey, bytes: usize, max_bytes: usize) -> bool {
        if self.held_bytes + bytes > max_bytes {
            match self.away.get(&key) {
                Some(used_at) => self.replace_unused(self.clock_bytes - used_at, bytes, max_bytes),
                None => self.replace_for_new(bytes, max_bytes),
            }
            let has_room = self.held_bytes + bytes <= max_bytes;
            if !has_room {
                self.remember(key, self.clock_bytes);
            }
            self.clock_bytes += bytes as u64;
            if !has_room {
                return false;
            }
        }
        self.memory.as_mut().is_some_and(|memory| memory.try_grow(bytes as u64))
    }

    /// Makes room for a column that has been away for so many bytes.
    fn replace_unused(&mut self, away_bytes: u64, bytes: usize, max_bytes: usize) {
        // Scans that share cores do not repeat themselves to the byte.
        let unused_bytes = away_bytes + away_bytes / 16;
        let mut looks = LOOKS;
        while looks > 0 && self.held_bytes + bytes > max_bytes {
            if self.evict_new_unused_for(unused_bytes) {
                continue;
            }
            if !self.evict_if_unused_for(unused_bytes) {
                looks -= 1;
            }
        }
    }

    /// Makes room for a column that was never here.
    fn replace_for_new(&mut self, bytes: usize, max_bytes: usize) {
        while self.held_bytes + bytes > max_bytes {
            let fits = self.new_bytes + bytes <= max_bytes / NEW_SHARE;
            let has_evicted =
                self.evict_new_unused_for(max_bytes as u64) || fits && self.evict_least_used();
            if !has_evicted {
                return;
            }
        }
    }

    /// Remembers when a column that is not in was used last.
    fn remember(&mut self, key: ColumnKey, used_at: u64) {
        self.away.insert(key, used_at);
        self.away_order.push_back((key, used_at));
        if self.away_order.len() > AWAY_MAX
            && let Some((key, used_at)) = self.away_order.pop_front()
            && self.away.get(&key) == Some(&used_at)
        {
            self.away.remove(&key);
        }
    }

    /// Evicts the oldest column that is new, if it has not been used for more than so many
    /// bytes.
    fn evict_new_unused_for(&mut self, bytes: u64) -> bool {
        while let Some(&key) = self.new.front() {
            match self.entries.get(&key) {
                Some(entry) if entry.is_new => {
                    let goes = self.clock_bytes - entry.used_at > bytes;
                    if goes {
                        self.new.pop_front();
                        self.evict(key);
                    }
                    return goes;
                }
                _ => self.new.pop_front(),
            };
        }
        false
    }

    /// Moves the hand on by one. Returns whether that one went: it does if it has not been
    /// used for more than so many bytes.
    fn evict_if_unused_for(&mut self, bytes: u64) -> bool {
        let Some(key) = self.hand.pop_front() else { return false };
        let goes = self.clock_bytes - self.entries[&key].used_at > bytes;
        if goes {
            self.evict(key);
        } else {
            self.hand.push_back(key);
        }
        goes
    }

    /// Moves the hand on by a few, of which the one goes that was used longest ago; returns
    /// whether there was any.
    fn evict_least_used(&mut self) -> bool {
        let looks = self.hand.len().min(LOOKS);
        let last_use = |key: &ColumnKey| self.entries[key].last_use;
        let Some(index) = (0..looks).min_by_key(|&index| last_use(&self.hand[index])) else {
            return false;
        };
        self.hand.swap(0, index);
        let Some(least) = self.hand.pop_front() else { return false };
        self.hand.rotate_left(looks - 1);
        self.evict(least);
        true
    }

    fn evict(&mut self, key: ColumnKey) {
        let Some(entry) = self.entries.remove(&key) else { return };
        self.held_bytes -= entry.bytes;
        self.counters.evictions += 1;
        if entry.is_new {
            self.new_bytes -= entry.bytes;
        }
        self.remember(key, entry.used_at);
        if let Some(memory) = &mut self.memory {
            memory.shrink_to(memory.bytes().saturating_sub(entry.bytes as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u32) -> ColumnKey {
        let segment = SegmentName { epoch: 1, shards: 1, shard: 0, seq: 1 };
        ColumnKey { segment, block, kind: ColumnKind::Lines, form: ColumnForm::Whole }
    }

    fn lines(len: usize) -> Cached {
        Cached::Lines(Arc::new(vec![b'x'; len]))
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
        for blocks in [105, 110, 125, 140, 160, 200, 270, 400, 800] {
            let (_budget, cache) = cache_of_100();
            assert_eq!(scan(&cache, 0..blocks), 0);
            for round in 1..10 {
                let hits = scan(&cache, 0..blocks);
                assert!(hits >= 99, "{hits} of 100 in round {round} of {blocks} blocks");
            }
        }
    }

    #[test]
    fn one_long_scan_leaves_what_is_in_use() {
        let (_budget, cache) = cache_of_100();
        scan(&cache, 0..90);
        scan(&cache, 0..90);
        scan(&cache, 1000..1700);
        assert!(scan(&cache, 0..90) >= 75);
    }

    #[test]
    fn what_fits_beside_what_is_in_use_is_found_the_second_time() {
        let (_budget, cache) = cache_of_100();
        scan(&cache, 0..100);
        scan(&cache, 0..100);
        for query in 1..20 {
            let blocks = 1000 * query..1000 * query + 25;
            assert_eq!(scan(&cache, blocks.clone()), 0);
            assert_eq!(scan(&cache, blocks), 25, "query {query}");
        }
    }

    #[test]
    fn what_was_used_last_stays_when_others_come() {
        let (_budget, cache) = cache_of_100();
        scan(&cache, 0..100);
        scan(&cache, 0..100);
        for query in 1..20 {
            scan(&cache, 0..50);
            scan(&cache, 1000 * query..1000 * query + 25);
        }
        assert!(scan(&cache, 0..50) >= 45);
    }

    #[test]
    fn scans_that_are_never_repeated_leave_three_quarters() {
        let (_budget, cache) = cache_of_100();
        scan(&cache, 0..100);
        scan(&cache, 0..100);
        for query in 1..50 {
            scan(&cache, 1000 * query..1000 * query + 90);
            let state = cache.state.borrow();
            assert!(state.new.len() <= 200, "{}", state.new.len());
        }
        assert!(scan(&cache, 0..100) >= 75);
    }

    #[test]
    fn what_is_asked_for_again_takes_the_place_of_what_is_not() {
        for blocks in [20, 45, 95, 120, 300] {
            let (_budget, cache) = cache_of_100();
            for _ in 0..50 {
                scan(&cache, 0..150);
            }
            let fits = blocks.min(100) as usize;
            let rounds = (0..4).map(|_| scan(&cache, 1000..1000 + blocks)).collect::<Vec<_>>();
            assert!(rounds[3] >= fits * 9 / 10, "{rounds:?} of {blocks}");
            assert!(rounds[2] >= fits * 8 / 10, "{rounds:?} of {blocks}");
        }
    }

    #[test]
    fn what_is_used_by_turns_shares_the_cache() {
        let (_budget, cache) = cache_of_100();
        let mut hits = (0, 0);
        for round in 0..40 {
            let (often, rarely) = (scan(&cache, 0..60), scan(&cache, 1000..1100));
            if round >= 10 {
                hits = (hits.0 + often, hits.1 + rarely);
            }
        }
        assert!(hits.0 + hits.1 >= 30 * 95, "{hits:?}");
    }

    #[test]
    fn no_more_is_remembered_than_the_limit() {
        let (_budget, cache) = cache_of_100();
        for round in 0..3 {
            scan(&cache, round..AWAY_MAX as u32 + 500);
            let state = cache.state.borrow();
            assert!(state.away.len() <= AWAY_MAX && state.away_order.len() <= AWAY_MAX);
        }
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

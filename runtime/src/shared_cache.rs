//! A cache that all cores share, within a budget.
//!
//! Guarantees: the values take no more memory than the budget, by the sizes that callers report,
//! besides removed values that a reader still holds. The least recently used value is removed
//! first. A lost value costs only the work to make it again, so the cache refuses nothing: a
//! value without room is not kept.
//!
//! A mutex guards the values (ARCHITECTURE.md, *Locks*). A core holds it for a few operations on
//! maps, never while a value is made, copied or dropped.

use std::collections::BTreeMap;
use std::fmt;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use crate::{Budget, Reservation};

/// The cache, see the module's header. Clones share it.
pub struct SharedCache<K, V> {
    budget: Budget,
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    state: Arc<Mutex<State<K, V>>>,
}

impl<K, V> Clone for SharedCache<K, V> {
    fn clone(&self) -> SharedCache<K, V> {
        SharedCache { budget: self.budget.clone(), state: Arc::clone(&self.state) }
    }
}

struct State<K, V> {
    values: BTreeMap<K, Kept<V>>,
    /// Keys by their last use.
    uses: BTreeMap<u64, K>,
    last_use: u64,
}

struct Kept<V> {
    value: Arc<V>,
    used: u64,
    memory: Reservation,
}

impl<K: Ord + Clone, V> State<K, V> {
    /// Takes a value out.
    fn take(&mut self, key: &K) -> Option<Kept<V>> {
        let kept = self.values.remove(key)?;
        self.uses.remove(&kept.used);
        Some(kept)
    }
}

impl<K: Ord + Clone, V> SharedCache<K, V> {
    /// A cache that is the only user of a budget.
    pub fn new(budget: Budget) -> SharedCache<K, V> {
        let state = State { values: BTreeMap::new(), uses: BTreeMap::new(), last_use: 0 };
        SharedCache { budget, state: Arc::new(state.into()) }
    }

    /// The memory that values may take.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The value that was put there last under a key, if it is still there.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.with_state(|state| {
            let kept = state.values.get_mut(key)?;
            state.last_use += 1;
            let key = state.uses.remove(&kept.used)?;
            kept.used = state.last_use;
            state.uses.insert(kept.used, key);
            Some(Arc::clone(&kept.value))
        })
    }

    /// Keeps a value of `bytes` bytes, and drops an older value of its key. Returns whether the
    /// value is kept: a value larger than the whole budget is not.
    pub fn put(&self, key: K, value: V, bytes: u64) -> bool {
        let value = Arc::new(value);
        // Dropped after the lock.
        let mut gone = Vec::new();
        self.with_state(|state| {
            let mut freed = state.take(&key);
            if bytes > self.budget.max_bytes() {
                gone.extend(freed.map(|kept| kept.value));
                return false;
            }
            loop {
                // Its memory returns to the budget at once, even if a reader still holds the value.
                gone.extend(freed.map(|kept| kept.value));
                if let Some(memory) = self.budget.try_reserve(bytes) {
                    state.last_use += 1;
                    let used = state.last_use;
                    state.uses.insert(used, key.clone());
                    state.values.insert(key, Kept { value, used, memory });
                    return true;
                }
                let Some((_, oldest)) = state.uses.pop_first() else { return false };
                freed = state.values.remove(&oldest);
            }
        })
    }

    /// Forgets all values.
    pub fn clear(&self) {
        let gone = self.with_state(|state| {
            state.uses.clear();
            std::mem::take(&mut state.values)
        });
        drop(gone);
    }

    /// Bytes that the values take.
    pub fn held_bytes(&self) -> u64 {
        self.with_state(|state| state.values.values().map(|kept| kept.memory.bytes()).sum())
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.with_state(|state| state.values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut State<K, V>) -> T) -> T {
        // Nothing in a change can panic half way, so poison says nothing here.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K, V> fmt::Debug for SharedCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(max_bytes: u64) -> SharedCache<&'static str, u32> {
        SharedCache::new(Budget::new("kept", max_bytes))
    }

    fn get(cache: &SharedCache<&'static str, u32>, key: &'static str) -> Option<u32> {
        cache.get(&key).map(|value| *value)
    }

    #[test]
    fn what_was_used_longest_ago_goes_for_what_is_new() {
        let cache = cache(100);
        assert!(cache.put("a", 1, 40) && cache.put("b", 2, 40));
        assert_eq!(get(&cache, "a"), Some(1));
        assert!(cache.put("c", 3, 40));
        assert_eq!(["a", "b", "c"].map(|key| get(&cache, key)), [Some(1), None, Some(3)]);
        // Two have to go for one.
        assert!(cache.put("d", 4, 70));
        assert_eq!((cache.len(), cache.held_bytes(), cache.budget().used_bytes()), (1, 70, 70));
        assert_eq!(get(&cache, "d"), Some(4));
        cache.clear();
        assert!(cache.is_empty());
        assert_eq!((get(&cache, "d"), cache.budget().used_bytes()), (None, 0));
    }

    #[test]
    fn a_value_takes_the_place_of_the_one_before() {
        let cache = cache(100);
        let other = cache.clone();
        assert!(cache.put("a", 1, 60) && cache.put("b", 2, 40) && cache.put("a", 3, 60));
        assert_eq!((get(&other, "a"), get(&other, "b")), (Some(3), Some(2)));
        // One that cannot have room leaves nothing, not something old.
        assert!(!cache.put("a", 4, 101));
        assert_eq!((get(&other, "a"), get(&other, "b")), (None, Some(2)));
        assert_eq!(cache.budget().used_bytes(), 40);
    }
}

//! Byte strings that are stored once and named by a dense number.
//!
//! Looking up a known string allocates nothing. Ids are given out in order of
//! first sight, so they must never decide the order of a result.

use super::hash::{HashedMap, fixed_state};
use super::meter::{Meter, map_bytes};

/// End of a chain of strings with equal hashes.
const NO_NEXT: u32 = u32::MAX;

/// Whether two byte strings are equal, without comparing empty ones in memory: their
/// address need not be mapped, and vectorised comparisons then take hundreds of
/// cycles to find out that they must not look.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// A set of byte strings with dense ids `0..len`.
#[derive(Debug)]
pub(crate) struct BytesInterner {
    bytes: Vec<u8>,
    /// Exclusive end of each string in `bytes`.
    ends: Vec<usize>,
    /// Hash of a string to the newest id with that hash.
    index: HashedMap<u32>,
    /// The next older id with the same hash.
    next: Vec<u32>,
    state: ahash::RandomState,
}

impl BytesInterner {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            index: HashedMap::default(),
            next: Vec::new(),
            state: fixed_state(),
        }
    }

    fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let mut id = *self.index.get(&hash)?;
        while id != NO_NEXT {
            if equal(self.get(id), key) {
                return Some(id);
            }
            id = self.next[id as usize];
        }
        None
    }

    /// How many strings are stored.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The id of `key` when it is stored.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_hashed(self.state.hash_one(key), key)
    }

    /// The id of `key`, which is stored when it is new. `None` if it is new and there is no
    /// memory for it.
    ///
    /// # Panics
    /// After 2^32 - 1 strings; the query's memory budget ends it long before.
    pub(crate) fn intern(&mut self, key: &[u8], meter: &Meter) -> Option<u32> {
        let hash = self.state.hash_one(key);
        if let Some(id) = self.find_hashed(hash, key) {
            return Some(id);
        }
        let has_room = meter.make_room(&mut self.bytes, key.len())
            && meter.make_room(&mut self.ends, 1)
            && meter.make_room(&mut self.next, 1)
            && meter.make_room_in_map(&mut self.index);
        if !has_room {
            return None;
        }
        let id = u32::try_from(self.ends.len()).expect("the memory budget bounds the strings");
        assert_ne!(id, NO_NEXT, "the memory budget bounds the strings");
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let older = self.index.insert(hash, id);
        self.next.push(older.unwrap_or(NO_NEXT));
        Some(id)
    }

    /// The string named `id`.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..self.ends[id]]
    }

    /// Heap memory in bytes, by capacity.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.next.capacity() * size_of::<u32>()
            + map_bytes(&self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id_and_read_back() {
        let mut interner = BytesInterner::new();
        let words: Vec<Vec<u8>> = (0..1000u32).map(|n| (n % 300).to_le_bytes().to_vec()).collect();
        let meter = Meter::default();
        let mut intern = |word: &[u8]| interner.intern(word, &meter).expect("there is memory");
        let ids: Vec<u32> = words.iter().map(|word| intern(word)).collect();
        let again: Vec<u32> = words.iter().map(|word| intern(word)).collect();
        let empty = intern(b"");
        assert_eq!((&ids, interner.ends.len()), (&again, 301));
        for (word, id) in words.iter().zip(&ids) {
            assert_eq!(interner.get(*id), word.as_slice());
        }
        assert_eq!(interner.get(empty), b"");
        assert!(interner.held_bytes() > 300 * 4);
    }
}

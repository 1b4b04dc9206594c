//! Remembers the label of each key of a field.
//!
//! The lines of a service repeat the same few keys. The label of a key, and whether the query looks
//! at that label, do not change while the query runs. So a key is sanitised and looked up once, and
//! found again by comparing two words.

use super::NameId;

const SLOTS: usize = 128;
/// Longest key that is remembered.
const MAX_LEN_BYTES: usize = 16;

/// A key of up to [`MAX_LEN_BYTES`] bytes; equal only for equal keys, because the
/// two words together hold every byte, some of them twice.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Packed {
    head: u64,
    tail: u64,
    /// 0 for no key.
    len: u32,
}

impl Packed {
    /// `None` for keys that are empty or too long.
    #[inline(always)]
    fn new(key: &[u8]) -> Option<Self> {
        let (head, tail) = match key.len() {
            8..=MAX_LEN_BYTES => {
                (u64::from_le_bytes(*key.first_chunk()?), u64::from_le_bytes(*key.last_chunk()?))
            }
            4..8 => (
                u64::from(u32::from_le_bytes(*key.first_chunk()?)),
                u64::from(u32::from_le_bytes(*key.last_chunk()?)),
            ),
            1..4 => {
                let (first, last) = (u64::from(key[0]), u64::from(key[key.len() - 1]));
                (first << 8 | u64::from(key[key.len() / 2]), last)
            }
            _ => return None,
        };
        Some(Self { head, tail, len: key.len() as u32 })
    }

    fn slot(&self) -> usize {
        let mixed = (self.head ^ self.tail.rotate_left(23)).wrapping_add(u64::from(self.len));
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57) as usize
    }
}

/// A direct-mapped cache from key to label.
#[derive(Debug)]
pub(crate) struct KeyCache {
    slots: Box<[(Packed, Option<NameId>); SLOTS]>,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self { slots: Box::new([(Packed::default(), None); SLOTS]) }
    }
}

impl KeyCache {
    /// Heap memory of each.
    pub(crate) const BYTES: usize = size_of::<[(Packed, Option<NameId>); SLOTS]>();

    /// The answer of `find` for the key, remembered or new: its label, or `None` when
    /// the query does not look at that label. `find` always says the same of a key.
    #[inline(always)]
    pub(crate) fn get(
        &mut self,
        key: &[u8],
        find: impl FnOnce(&[u8]) -> Option<NameId>,
    ) -> Option<NameId> {
        let Some(packed) = Packed::new(key) else { return find(key) };
        let slot = packed.slot();
        if self.slots[slot].0 != packed {
            self.slots[slot] = (packed, find(key));
        }
        self.slots[slot].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn keys_are_packed_alike_only_when_they_are_equal() {
        let mut rng = Rng::new(5);
        let mut cache = KeyCache::default();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..300 {
            let len = rng.below(20);
            keys.push((0..len).map(|_| *rng.pick(b"ab\0")).collect());
        }
        for a in &keys {
            for b in &keys {
                let (x, y) = (Packed::new(a), Packed::new(b));
                assert!(x.is_none() || (x == y) == (a == b), "{a:?} {b:?}");
            }
        }
        for _ in 0..20_000 {
            let number = rng.below(keys.len());
            let number = keys.iter().position(|key| *key == keys[number]).expect("one of them");
            let id = (number % 3 > 0).then_some(NameId(number as u32));
            assert_eq!(cache.get(&keys[number], |_| id), id);
        }
    }
}

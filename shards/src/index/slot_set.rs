//! Sets of streams, for the time of one answer.

use super::Slot;

/// A set of slots, one bit each.
#[derive(Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// The set of these slots, which must be in rising order.
    pub(crate) fn of(slots: &[Slot]) -> SlotSet {
        let mut set = SlotSet::default();
        set.insert_all(slots);
        set
    }

    /// Whether the slot is in the set.
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }

    /// Whether any of the slots is in the set.
    pub(crate) fn contains_any(&self, slots: &[Slot]) -> bool {
        slots.iter().any(|&slot| self.contains(slot))
    }

    /// Whether no slot is in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds slots, which must be in rising order.
    pub(crate) fn insert_all(&mut self, slots: &[Slot]) {
        let Some(&last) = slots.last() else { return };
        let words = last as usize / 64 + 1;
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        for &slot in slots {
            self.words[slot as usize / 64] |= 1 << (slot % 64);
        }
    }

    /// Keeps the slots that the other set has, too.
    pub(super) fn intersect(&mut self, other: &SlotSet) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Takes out the slots that the other set has.
    pub(super) fn subtract(&mut self, other: &SlotSet) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// The slots in rising order.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots =
            Vec::with_capacity(self.words.iter().map(|w| w.count_ones() as usize).sum());
        for (index, &word) in self.words.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                slots.push(index as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        slots
    }
}

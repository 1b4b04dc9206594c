//! Remembers which label set a metadata set leads to, within one block.

/// Slots; runs of equal metadata and a handful of alternating sets are the common
/// cases, unique sets per entry gain nothing from a larger cache.
const SLOTS: usize = 64;
/// Marks an empty slot: metadata set 0 is the empty one and never looked up.
const EMPTY: u32 = 0;

/// A direct-mapped cache from metadata set to label set.
#[derive(Debug)]
pub(crate) struct SetCache {
    slots: [(u32, u32); SLOTS],
}

impl SetCache {
    pub(crate) fn new() -> Self {
        Self { slots: [(EMPTY, 0); SLOTS] }
    }

    /// Forgets everything, because the next block may be of another stream or use
    /// another dictionary.
    pub(crate) fn clear(&mut self) {
        self.slots = [(EMPTY, 0); SLOTS];
    }

    /// `metadata_set` is not 0.
    pub(crate) fn get(&self, metadata_set: u32) -> Option<u32> {
        let (key, set) = self.slots[metadata_set as usize % SLOTS];
        (key == metadata_set).then_some(set)
    }

    /// `metadata_set` is not 0.
    pub(crate) fn put(&mut self, metadata_set: u32, label_set: u32) {
        self.slots[metadata_set as usize % SLOTS] = (metadata_set, label_set);
    }
}

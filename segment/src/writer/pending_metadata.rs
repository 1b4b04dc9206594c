//! The metadata of the open block: sets of pairs, and the number of each entry's set.
//!
//! Guarantees: a set that entries of one call share is stored about once per call; an entry
//! with own pairs has a set of its own. Encoding finds equal sets. So memory is at most that of
//! the pairs of all entries.

use logsvc_logql::engine::MetadataSets;

use super::entries::{Entries, EntriesMetadata};
use super::pending::BLOCK_TARGET_METADATA_BYTES;
use crate::batch::{MetadataPairs, write_pair};
use crate::columns::metadata::EntrySets;

/// The metadata of the open block.
#[derive(Debug, Default)]
pub(super) struct PendingMetadata {
    /// The pairs of all sets, as in a batch but without counts.
    texts: Vec<u8>,
    /// Exclusive ends of the sets within `texts`.
    set_ends: Vec<u32>,
    /// Bytes of the names and values of each set.
    set_text_bytes: Vec<u32>,
    /// For each entry 0, or one more than the index of its set; empty if no entry has a set.
    entry_sets: Vec<u32>,
    pairs_len: usize,
    text_bytes: u64,
}

impl PendingMetadata {
    /// Bytes of the pairs of all entries if each entry had its own copy.
    pub(super) fn pairs_len(&self) -> usize {
        self.pairs_len
    }

    /// Bytes of the names and values of all entries.
    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// The sets for the encoder; `None` if no entry has metadata.
    pub(super) fn entry_sets(&self) -> Option<EntrySets<'_>> {
        (self.pairs_len > 0).then_some(EntrySets {
            texts: &self.texts,
            set_ends: &self.set_ends,
            entry_sets: &self.entry_sets,
        })
    }

    /// How many of the first `count` entries have metadata that fits into the block.
    pub(super) fn room_for(&self, entries: &Entries<'_>, count: usize) -> usize {
        let mut room = BLOCK_TARGET_METADATA_BYTES.saturating_sub(self.pairs_len);
        let mut fits = |len: usize| room.checked_sub(len).map(|left| room = left).is_some();
        match entries.metadata {
            EntriesMetadata::None => count,
            EntriesMetadata::Pairs(column) if fits(column.most_len_of_first(count)) => count,
            EntriesMetadata::Pairs(column) => {
                (0..count).take_while(|&index| fits(column.get(index).encoded_len())).count()
            }
            EntriesMetadata::Plain { entry_sets, sets } => {
                let entry_sets = entry_sets[..count].iter();
                entry_sets.take_while(|&&number| fits(sets.get(number).len())).count()
            }
            EntriesMetadata::Sets { set_ids, sets } => {
                let set_ids = set_ids[..count].iter();
                set_ids.take_while(|&&id| fits(set_len(sets, id))).count()
            }
        }
    }

    /// Appends the metadata of entries that follow the first `before` entries of the block.
    pub(super) fn push(&mut self, before: usize, entries: &Entries<'_>) {
        let mut written = Written::default();
        match entries.metadata {
            EntriesMetadata::None => {}
            EntriesMetadata::Pairs(column) => {
                self.entry_sets.resize(before, 0);
                let has_own = column.has_own();
                for (index, &number) in column.set_numbers(entries.len()).enumerate() {
                    let with_own = has_own.then(|| column.get(index));
                    let with_own = with_own.filter(|all| !all.own_bytes().is_empty());
                    let place = match (with_own, number) {
                        (Some(all), _) => self.write_set(|texts| all.write_to(texts)),
                        (None, 0) => 0,
                        (None, _) => written.place(u32::from(number), || {
                            self.write_set(|texts| column.get(index).write_to(texts))
                        }),
                    };
                    self.push_entry(place);
                }
            }
            EntriesMetadata::Plain { entry_sets, sets } => {
                self.entry_sets.resize(before, 0);
                for &number in entry_sets {
                    let write =
                        || self.write_set(|texts| texts.extend_from_slice(sets.get(number)));
                    let place = if number == 0 { 0 } else { written.place(number, write) };
                    self.push_entry(place);
                }
            }
            EntriesMetadata::Sets { set_ids, sets } => {
                self.entry_sets.resize(before, 0);
                for &id in set_ids {
                    let write = || {
                        self.write_set(|texts| {
                            for (name, value) in sets.get(id) {
                                write_pair(name.as_bytes(), value.as_bytes(), texts);
                            }
                        })
                    };
                    let place = if id == 0 { 0 } else { written.place(id, write) };
                    self.push_entry(place);
                }
            }
        }
        if !self.entry_sets.is_empty() {
            self.entry_sets.resize(before + entries.len(), 0);
        }
    }

    /// Appends a set, and returns its number in `entry_sets`.
    fn write_set(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let start = self.texts.len();
        write(&mut self.texts);
        if self.texts.len() == start {
            return 0;
        }
        self.set_ends.push(self.texts.len() as u32);
        let pairs = MetadataPairs::from_checked(&[], &self.texts[start..]);
        self.set_text_bytes.push(pairs.text_bytes() as u32);
        self.set_ends.len() as u32
    }

    fn push_entry(&mut self, set: u32) {
        self.entry_sets.push(set);
        if let Some(last) = (set as usize).checked_sub(1) {
            let start = last.checked_sub(1).map_or(0, |before| self.set_ends[before]);
            self.pairs_len += (self.set_ends[last] - start) as usize;
            self.text_bytes += u64::from(self.set_text_bytes[last]);
        }
    }

    /// Removes all entries. Keeps the buffers, except those that a huge entry has grown.
    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.set_ends.clear();
        self.set_text_bytes.clear();
        self.entry_sets.clear();
        (self.pairs_len, self.text_bytes) = (0, 0);
        self.texts.shrink_to(4 * BLOCK_TARGET_METADATA_BYTES);
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        let numbers = [&self.set_ends, &self.set_text_bytes, &self.entry_sets];
        self.texts.capacity() + numbers.map(Vec::capacity).iter().sum::<usize>() * 4
    }
}

/// The last appended sets of a call, by the low bits of their numbers in the caller's column:
/// that number, and the number in `entry_sets`.
#[derive(Default)]
struct Written([(u32, u32); WRITTEN_LEN]);

/// More than the number of levels.
const WRITTEN_LEN: usize = 16;

impl Written {
    /// The number in `entry_sets` of the set with this number, which is not 0. `write` appends the
    /// set if it is not among the last ones.
    #[inline]
    fn place(&mut self, number: u32, write: impl FnOnce() -> u32) -> u32 {
        let known = &mut self.0[number as usize % WRITTEN_LEN];
        if known.0 != number {
            *known = (number, write());
        }
        known.1
    }
}

/// Bytes of a set in the encoding of a batch.
pub(super) fn set_len(sets: &MetadataSets, id: u32) -> usize {
    let text_len = |text: &str| varint_len(text.len()) + text.len();
    sets.get(id).map(|(name, value)| text_len(name) + text_len(value)).sum()
}

fn varint_len(value: usize) -> usize {
    (usize::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

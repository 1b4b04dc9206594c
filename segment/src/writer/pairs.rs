//! The metadata of entries as a head has it.

use std::ops::Range;

use super::entries::{check_ends, start_of};
use crate::batch::{MetadataPairs, SharedSets};
use crate::error::WriteError;
use crate::head::HeadBlock;

/// Structured metadata of some entries: sets that they share, by number, and pairs of their
/// own. Both are well-formed pairs of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PairsColumn<'a> {
    /// One for each entry, 0 for none; empty if no entry shares a set.
    set_numbers: &'a [u8],
    sets: SharedSets<'a>,
    /// The own pairs of entry *i* are `bytes[ends[i-1]..ends[i]]`, those of the first one
    /// begin at `start`.
    bytes: &'a [u8],
    start: u32,
    /// Empty if no entry has pairs of its own.
    ends: &'a [u32],
}

impl<'a> PairsColumn<'a> {
    /// Pairs that no entries share: those of entry *i* are `bytes[ends[i-1]..ends[i]]`, those
    /// of the first one begin at `start`.
    pub fn of_own(bytes: &'a [u8], start: u32, ends: &'a [u32]) -> PairsColumn<'a> {
        PairsColumn { set_numbers: &[], sets: SharedSets::NONE, bytes, start, ends }
    }

    /// The metadata of all entries of a block.
    pub(super) fn of_head(block: &'a HeadBlock) -> PairsColumn<'a> {
        let (set_numbers, sets) = block.shared_metadata();
        let (bytes, ends) = block.own_metadata();
        PairsColumn { set_numbers, sets, bytes, start: 0, ends }
    }

    /// Some of the entries.
    pub(super) fn slice(&self, range: Range<usize>) -> PairsColumn<'a> {
        let mut slice = *self;
        if !self.set_numbers.is_empty() {
            slice.set_numbers = &self.set_numbers[range.clone()];
        }
        if !self.ends.is_empty() {
            slice.start = start_of(self.start, self.ends, range.start);
            slice.ends = &self.ends[range];
        }
        slice
    }

    /// Whether there is a place for each of so many entries.
    pub(super) fn has_places(&self, entries: usize) -> bool {
        let fits = |len: usize| len == entries || len == 0;
        fits(self.set_numbers.len()) && fits(self.ends.len())
    }

    /// Checks what the writer relies on.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        let largest = self.set_numbers.iter().fold(0, |most, &number| number.max(most));
        if usize::from(largest) > self.sets.count() {
            return Err(WriteError::Malformed("a shared set of metadata is not there"));
        }
        check_ends(self.start, self.ends, self.bytes.len())
    }

    /// Whether an entry may have pairs of its own.
    pub(super) fn has_own(&self) -> bool {
        self.ends.last().is_some_and(|&end| end > self.start)
    }

    /// The numbers of the sets of all entries, which are so many.
    pub(super) fn set_numbers(&self, entries: usize) -> impl Iterator<Item = &'a u8> {
        let missing = entries - self.set_numbers.len();
        self.set_numbers.iter().chain(std::iter::repeat_n(&0, missing))
    }

    /// The metadata of an entry.
    pub(super) fn get(&self, index: usize) -> MetadataPairs<'a> {
        let number = self.set_numbers.get(index).copied().unwrap_or(0);
        let own: &[u8] = match self.ends.get(index) {
            None => &[],
            Some(&end) => {
                &self.bytes[start_of(self.start, self.ends, index) as usize..end as usize]
            }
        };
        MetadataPairs::from_checked(self.sets.get(number), own)
    }

    /// No less than the bytes of the pairs of the first `count` entries.
    pub(super) fn most_len_of_first(&self, count: usize) -> usize {
        let longest = self.sets.iter().map(<[u8]>::len).max().unwrap_or(0);
        let own_end = self.ends[..count.min(self.ends.len())].last();
        let own = own_end.map_or(0, |&end| (end - self.start) as usize);
        own + longest * count.min(self.set_numbers.len())
    }
}

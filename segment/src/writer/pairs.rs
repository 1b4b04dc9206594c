//! The metadata of entries in the form of a head.

use std::ops::Range;

use super::entries::{check_ends, start_of};
use crate::batch::{MetadataPairs, SharedSets};
use crate::error::WriteError;
use crate::head::HeadBlock;

/// Structured metadata of entries: the numbers of their shared sets, and their own pairs. Both
/// are well-formed pairs of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PairsColumn<'a> {
    /// The number of each entry's set, 0 for none; empty if no entry has a set.
    set_numbers: &'a [u8],
    sets: SharedSets<'a>,
    /// The own pairs of entry *i* are `bytes[ends[i-1]..ends[i]]`; the first ones begin at
    /// `start`.
    bytes: &'a [u8],
    start: u32,
    /// Empty if no entry has own pairs.
    ends: &'a [u32],
}

impl<'a> PairsColumn<'a> {
    /// Own pairs alone: those of entry *i* are `bytes[ends[i-1]..ends[i]]`, and the first ones
    /// begin at `start`.
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

    /// Whether each column is empty or has so many elements.
    pub(super) fn has_places(&self, entries: usize) -> bool {
        let fits = |len: usize| len == entries || len == 0;
        fits(self.set_numbers.len()) && fits(self.ends.len())
    }

    /// Checks that numbers and ends lie within the sets and the pairs.
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

    /// The set numbers of all `entries` entries.
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

    /// An upper bound of the bytes of the pairs of the first `count` entries.
    pub(super) fn most_len_of_first(&self, count: usize) -> usize {
        let longest = self.sets.iter().map(<[u8]>::len).max().unwrap_or(0);
        let own_end = self.ends[..count.min(self.ends.len())].last();
        let own = own_end.map_or(0, |&end| (end - self.start) as usize);
        own + longest * count.min(self.set_numbers.len())
    }
}

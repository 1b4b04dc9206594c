//! The input of a writer: entries of one stream, in columns.

use std::ops::Range;

use logsvc_logql::engine::MetadataSets;

use super::pairs::PairsColumn;
use crate::columns::metadata::PlainSets;
use crate::error::WriteError;
use crate::head::HeadBlock;

/// Entries of one stream in time order, borrowed column by column.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    /// Timestamps in nanoseconds since the Unix epoch; they never fall.
    pub timestamps_ns: &'a [i64],
    /// Where the first line begins in `lines`.
    pub lines_start: u32,
    /// Exclusive end of each line in `lines`; the next line begins there.
    pub line_ends: &'a [u32],
    /// The bytes that `lines_start` and `line_ends` point into.
    pub lines: &'a [u8],
    /// Structured metadata.
    pub metadata: EntriesMetadata<'a>,
}

/// Structured metadata of the entries, in one of the forms of the store.
#[derive(Clone, Copy, Debug)]
pub enum EntriesMetadata<'a> {
    /// No entry has metadata.
    None,
    /// In the form of a head.
    Pairs(PairsColumn<'a>),
    /// In the form of a draft.
    Plain {
        /// One for each entry.
        entry_sets: &'a [u32],
        /// The sets by number.
        sets: &'a PlainSets,
    },
    /// As decoded from a segment.
    Sets {
        /// One for each entry.
        set_ids: &'a [u32],
        /// The sets by id.
        sets: &'a MetadataSets,
    },
}

impl<'a> Entries<'a> {
    /// All entries of a head block, which must be sorted.
    pub fn of_head(block: &'a HeadBlock) -> Entries<'a> {
        let metadata = match block.has_metadata() {
            false => EntriesMetadata::None,
            true => EntriesMetadata::Pairs(PairsColumn::of_head(block)),
        };
        Entries {
            timestamps_ns: block.timestamps_ns(),
            lines_start: 0,
            line_ends: block.line_ends(),
            lines: block.lines(),
            metadata,
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.timestamps_ns.len()
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.timestamps_ns.is_empty()
    }

    /// Some of the entries.
    ///
    /// # Panics
    /// If `range` is not within them, or the columns have different lengths.
    pub fn slice(&self, range: Range<usize>) -> Entries<'a> {
        Entries {
            timestamps_ns: &self.timestamps_ns[range.clone()],
            lines_start: start_of(self.lines_start, self.line_ends, range.start),
            line_ends: &self.line_ends[range.clone()],
            lines: self.lines,
            metadata: match self.metadata {
                EntriesMetadata::None => EntriesMetadata::None,
                EntriesMetadata::Pairs(column) => EntriesMetadata::Pairs(column.slice(range)),
                EntriesMetadata::Plain { entry_sets, sets } => {
                    EntriesMetadata::Plain { entry_sets: &entry_sets[range], sets }
                }
                EntriesMetadata::Sets { set_ids, sets } => {
                    EntriesMetadata::Sets { set_ids: &set_ids[range], sets }
                }
            },
        }
    }

    /// The entries from number `at` on.
    ///
    /// # Panics
    /// As [`Self::slice`].
    pub fn behind(&self, at: usize) -> Entries<'a> {
        self.slice(at..self.len())
    }

    /// The first entries, at most `most`. Checks that their columns fit each other and that their
    /// timestamps ascend.
    pub(super) fn checked_first(
        &self,
        most: usize,
        not_before_ns: i64,
    ) -> Result<Entries<'a>, WriteError> {
        let has_places = match self.metadata {
            EntriesMetadata::None => true,
            EntriesMetadata::Pairs(column) => column.has_places(self.len()),
            EntriesMetadata::Plain { entry_sets: numbers, .. }
            | EntriesMetadata::Sets { set_ids: numbers, .. } => numbers.len() == self.len(),
        };
        if !has_places {
            return Err(WriteError::Malformed("not every entry has a place for metadata"));
        }
        if self.line_ends.len() != self.len() {
            return Err(WriteError::Malformed("not every entry has a line"));
        }
        let first = self.slice(0..self.len().min(most));
        first.check(not_before_ns)?;
        Ok(first)
    }

    fn check(&self, not_before_ns: i64) -> Result<(), WriteError> {
        check_ends(self.lines_start, self.line_ends, self.lines.len())?;
        match self.metadata {
            EntriesMetadata::None => {}
            EntriesMetadata::Pairs(column) => column.check()?,
            EntriesMetadata::Plain { entry_sets, sets } => check_sets(entry_sets, sets.count())?,
            EntriesMetadata::Sets { set_ids, sets } => check_sets(set_ids, sets.len())?,
        }
        let starts_late = self.timestamps_ns.first().is_none_or(|&first| first >= not_before_ns);
        if starts_late && self.timestamps_ns.is_sorted() {
            Ok(())
        } else {
            Err(WriteError::TimeOrder)
        }
    }
}

/// Checks that there are sets with these numbers.
fn check_sets(numbers: &[u32], count: usize) -> Result<(), WriteError> {
    match numbers.iter().any(|&number| number as usize >= count) {
        true => Err(WriteError::Malformed("a set of metadata is not there")),
        false => Ok(()),
    }
}

/// The start of the part at `index`, if the first part starts at `first`.
pub(super) fn start_of(first: u32, ends: &[u32], index: usize) -> u32 {
    if index == 0 { first } else { ends[index - 1] }
}

/// Checks that ends ascend from `start` and stay within so many bytes.
pub(super) fn check_ends(start: u32, ends: &[u32], len: usize) -> Result<(), WriteError> {
    let first = ends.first().is_none_or(|&end| end >= start);
    let last = ends.last().is_none_or(|&end| end as usize <= len);
    if first && last && ends.is_sorted() {
        Ok(())
    } else {
        Err(WriteError::Malformed("ends fall or lie beyond their bytes"))
    }
}

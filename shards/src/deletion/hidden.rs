//! Finds the entries of a block that requests for deletion hide.
//!
//! Queries, tails and the removal from the disk use it, so that they agree. [`HiddenEntries::mark`]
//! takes the filters of a stream, each with the times that count ([`Hiding`]), and a block with
//! the columns that [`needs_of`] lists. It marks the hidden entries, and tells of each which filter
//! is the first that hides it. [`ShownEntries`] is a copy of the others.
//!
//! The filters compile when they first meet an entry of their times. The states may go from thread
//! to thread. Memory and time are taken from the caller's allowance, except one byte for each entry
//! of the block.
//!
//! Guarantees: an entry is hidden if, and only if, its time is within the bounds, and the query of
//! the filter returns it. The caller has checked that the filter selects the stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_logql::engine::{
    Allowance, EntryBlock, EntryMatcher, LeafPlan, MetadataColumn, Needs, PlanError, StreamState,
    rows_within,
};
use logsvc_proto::Labels;

use super::{DeleteFilter, DeleteFilters, DeleteId};

/// Compiled filters that are kept. Each may hold some hundred kilobytes.
const MATCHERS_MAX: usize = 64;

/// A filter that selects a stream, with the times of the entries that count.
#[derive(Clone, Copy, Debug)]
pub struct Hiding<'f> {
    /// The filter.
    pub filter: &'f DeleteFilter,
    /// The oldest time, in ns since the Unix epoch.
    pub start_ns: i64,
    /// The newest time, in ns since the Unix epoch.
    pub end_ns: i64,
}

impl<'f> From<&'f DeleteFilter> for Hiding<'f> {
    /// With all times of the filter.
    fn from(filter: &'f DeleteFilter) -> Hiding<'f> {
        Hiding { filter, start_ns: filter.start_ns, end_ns: filter.end_ns }
    }
}

/// The filters that may hide entries of one stream from a query.
#[derive(Clone, Debug)]
pub struct StreamDeletions {
    /// The labels that the stream is stored with.
    pub labels: Arc<Labels>,
    /// Filters that select the stream and overlap the query's times; at least one.
    pub filters: DeleteFilters,
}

impl StreamDeletions {
    /// Whether a filter hides all entries between two times, both included.
    pub fn hides_all(&self, (min_ns, max_ns): (i64, i64)) -> bool {
        self.filters.iter().any(|filter| filter.hides_all(min_ns, max_ns))
    }

    /// The numbers of the filters that may hide entries between two times, both included.
    pub fn overlapping(&self, (min_ns, max_ns): (i64, i64)) -> impl Iterator<Item = u32> {
        let filters = (0u32..).zip(self.filters.iter());
        let overlaps =
            move |(_, filter): &(u32, &Arc<DeleteFilter>)| filter.overlaps(min_ns, max_ns);
        filters.filter(overlaps).map(|(number, _)| number)
    }

    /// The columns that some of the filters, by their numbers, need.
    pub fn needs_of(&self, numbers: &[u32]) -> Needs {
        needs_of(self.numbered(numbers))
    }

    /// Some of the filters by their numbers.
    pub fn numbered<'d>(&'d self, numbers: &[u32]) -> impl Iterator<Item = &'d DeleteFilter> {
        numbers.iter().map(|&number| &*self.filters[number as usize])
    }
}

/// The columns that some filters need.
pub fn needs_of<'f>(filters: impl IntoIterator<Item = &'f DeleteFilter>) -> Needs {
    let nothing = Needs { line_lengths: false, lines: false, metadata: false };
    filters.into_iter().fold(nothing, |needs, filter| union(needs, filter.needs))
}

/// The columns that one of two needs.
pub fn union(a: Needs, b: Needs) -> Needs {
    Needs {
        line_lengths: a.line_lengths || b.line_lengths,
        lines: a.lines || b.lines,
        metadata: a.metadata || b.metadata,
    }
}

/// See the module.
#[derive(Debug)]
pub struct HiddenEntries {
    allowance: Box<dyn Allowance>,
    matchers: BTreeMap<DeleteId, Matcher>,
    is_match: Vec<bool>,
}

/// A compiled filter.
#[derive(Debug)]
struct Matcher {
    matcher: EntryMatcher,
    /// The stream that it met last, and its state.
    stream: Option<(Arc<Labels>, StreamState)>,
}

impl HiddenEntries {
    /// Without compiled filters; they take siblings of the allowance.
    pub fn new(allowance: Box<dyn Allowance>) -> HiddenEntries {
        HiddenEntries { allowance, matchers: BTreeMap::new(), is_match: Vec::new() }
    }

    /// Sets `hidden[i]` for each entry of a block that a filter hides. `labels` are the stored
    /// labels of its stream. Entries that are marked already stay marked, and no filter is asked
    /// about them. Calls `note` with the number of the filter and the index of the entry for each
    /// entry that it marks.
    ///
    /// # Errors
    /// The allowance stops it.
    pub fn mark<'f>(
        &mut self,
        filters: impl IntoIterator<Item = Hiding<'f>>,
        labels: &Arc<Labels>,
        block: &EntryBlock<'_>,
        hidden: &mut [bool],
        mut note: impl FnMut(usize, usize),
    ) -> Result<(), PlanError> {
        let mut shown = hidden.iter().filter(|&&is_hidden| !is_hidden).count();
        for (number, hiding) in filters.into_iter().enumerate() {
            let bounds = hiding.start_ns..=hiding.end_ns;
            let times = block.timestamps_ns;
            let rows = match block.sorted {
                // The last nanosecond of all belongs to no query.
                true => rows_within(times, (hiding.start_ns, hiding.end_ns.saturating_add(1))),
                false => 0..times.len(),
            };
            let is_open = |row: &usize| !hidden[*row] && bounds.contains(&times[*row]);
            if shown == 0 || !rows.clone().any(|row| is_open(&row)) {
                continue;
            }
            let is_match = match &hiding.filter.plan {
                Some(plan) => Some(self.matches(hiding, plan, labels, block)?),
                None => None,
            };
            for row in rows {
                let matches = is_match.is_none_or(|is_match| is_match[row]);
                if matches && !hidden[row] && bounds.contains(&times[row]) {
                    hidden[row] = true;
                    shown -= 1;
                    note(number, row);
                }
            }
        }
        Ok(())
    }

    /// Which entries the query of a filter returns.
    fn matches(
        &mut self,
        hiding: Hiding<'_>,
        plan: &LeafPlan,
        labels: &Arc<Labels>,
        block: &EntryBlock<'_>,
    ) -> Result<&[bool], PlanError> {
        let id = hiding.filter.id;
        if self.matchers.len() >= MATCHERS_MAX && !self.matchers.contains_key(&id) {
            self.matchers.pop_first();
        }
        let Matcher { matcher, stream } = match self.matchers.entry(id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let matcher = EntryMatcher::with_allowance(plan, self.allowance.sibling())?;
                entry.insert(Matcher { matcher, stream: None })
            }
        };
        let mut state = match stream.take() {
            Some((known, state)) if Arc::ptr_eq(&known, labels) || matcher.streams_are_alike() => {
                state
            }
            other => {
                if let Some((_, state)) = other {
                    matcher.forget(state);
                }
                matcher.stream(labels)
            }
        };
        self.is_match.resize(block.len(), false);
        let bounds_ns = (hiding.start_ns, hiding.end_ns);
        let outcome = matcher.matches(&mut state, block, bounds_ns, &mut self.is_match);
        *stream = Some((Arc::clone(labels), state));
        outcome.map_err(PlanError::Stopped)?;
        Ok(&self.is_match)
    }
}

/// A copy of the entries of a block that are not hidden.
#[derive(Debug)]
pub struct ShownEntries {
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Vec<u8>,
    set_ids: Vec<u32>,
}

impl ShownEntries {
    /// The memory that a copy takes at most, in bytes, with the marks of the block.
    pub fn max_bytes(block: &EntryBlock<'_>, needs: Needs) -> usize {
        const ENTRY_BYTES: usize = size_of::<i64>() + 2 * size_of::<u32>() + 2;
        block.len() * ENTRY_BYTES + if needs.lines { block.lines.len() } else { 0 }
    }

    /// The entries that are not marked, with the columns of the block that are needed.
    pub fn of(block: &EntryBlock<'_>, hidden: &[bool], needs: Needs) -> ShownEntries {
        let count = hidden.iter().filter(|&&is_hidden| !is_hidden).count();
        let rows = || (0..block.len()).filter(|&row| !hidden[row]);
        let mut timestamps_ns = Vec::with_capacity(count);
        timestamps_ns.extend(rows().map(|row| block.timestamps_ns[row]));
        let (mut line_ends, mut lines) = (Vec::new(), Vec::new());
        if (needs.line_lengths || needs.lines) && !block.line_ends.is_empty() {
            line_ends.reserve_exact(count);
            if needs.lines {
                lines.reserve_exact(block.lines.len());
            }
            let mut end = 0;
            for row in rows() {
                let first = row.checked_sub(1).map_or(0, |before| block.line_ends[before]);
                let last = block.line_ends[row];
                if needs.lines {
                    lines.extend_from_slice(&block.lines[first as usize..last as usize]);
                }
                end += last - first;
                line_ends.push(end);
            }
        }
        let mut set_ids = Vec::new();
        if let MetadataColumn::Sets { set_ids: all, .. } = block.metadata
            && needs.metadata
        {
            set_ids.reserve_exact(count);
            set_ids.extend(rows().map(|row| all[row]));
        }
        ShownEntries { timestamps_ns, line_ends, lines, set_ids }
    }

    /// Whether all entries are hidden.
    pub fn is_empty(&self) -> bool {
        self.timestamps_ns.is_empty()
    }

    /// The copy as a block in the place of the block that it was made of.
    pub fn block<'a>(&'a self, whole: &EntryBlock<'a>) -> EntryBlock<'a> {
        EntryBlock {
            timestamps_ns: &self.timestamps_ns,
            line_ends: &self.line_ends,
            lines: &self.lines,
            metadata: match whole.metadata {
                MetadataColumn::Sets { sets, .. } if !self.set_ids.is_empty() => {
                    MetadataColumn::Sets { set_ids: &self.set_ids, sets }
                }
                _ => MetadataColumn::None,
            },
            ..*whole
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<HiddenEntries>();

#[cfg(test)]
mod tests;

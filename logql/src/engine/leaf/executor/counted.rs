//! Counts of entries by listed labels: the entries of a block whose label sets follow from their
//! stream and few names of their metadata.
//!
//! Entries in a row mostly fall into the same steps and have the same few label sets, so they are
//! added up here before the collector gets the sums.

use super::{Collector, LeafExecutor};
use crate::engine::block::{EntryBlock, MetadataColumn, count_until};
use crate::engine::leaf::StreamState;
use crate::engine::leaf::listed_sets::ListedSets;
use crate::engine::leaf::range::RangeCollector;
use crate::engine::listed_names::ListedNames;
use crate::engine::meter::Meter;
use crate::engine::params::Cell;
use crate::engine::plan::EntryValue;

/// Entries between two looks at the meter.
const AT_ONCE: usize = 256;

/// The work of an entry, see [`crate::engine::meter`].
const ENTRY_WORK: usize = 16;

/// Label sets that are added up at a time.
const SUMS: usize = 8;

/// Entries of one label set.
#[derive(Clone, Copy, Default)]
struct Sum {
    set: u32,
    count: u64,
    bytes: u64,
}

/// Sums of one cell by label set.
#[derive(Default)]
struct Sums([Sum; SUMS]);

impl Sums {
    fn add(&mut self, added: Sum, cell: &Cell, range: &mut RangeCollector, meter: &Meter) {
        let sum = &mut self.0[added.set as usize % SUMS];
        if sum.set != added.set && sum.count > 0 {
            range.add(sum.set, cell, sum.count, sum.bytes, meter);
            *sum = Sum::default();
        }
        let (count, bytes) = (sum.count + added.count, sum.bytes + added.bytes);
        *sum = Sum { set: added.set, count, bytes };
    }

    fn flush(&mut self, cell: &Cell, range: &mut RangeCollector, meter: &Meter) {
        for sum in std::mem::take(&mut self.0).iter().filter(|sum| sum.count > 0) {
            range.add(sum.set, cell, sum.count, sum.bytes, meter);
        }
    }
}

impl LeafExecutor {
    /// The names of metadata that the result depends on, where these are few: blocks may then be
    /// given without other metadata, but for sets with a name of which
    /// [`ListedNames::needs_all`] is true.
    #[must_use]
    pub fn listed_metadata(&self) -> Option<&ListedNames> {
        self.shortcuts.listed_sets.as_ref().map(ListedSets::listed)
    }

    /// Adds the entries `first..end` of a block up, whose times ascend. False if the leaf is not
    /// of the kind that this is for; nothing was done then.
    pub(super) fn count_rows(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        first: usize,
        end: usize,
    ) -> bool {
        let Some(adds_lengths) = self.begin_counting() else { return false };
        let (times, lines) = (block.timestamps_ns, block.line_view());
        let mut sums = Sums::default();
        let mut i = first;
        while i < end {
            let Collector::Range(range) = &mut self.collector else { return true };
            let cell = range.cell(times[i]);
            let next = i + count_until(&times[i..end], cell.max_ns);
            if cell.is_gap() {
                // No step sees them, nor errors among them.
                i = next;
                continue;
            }
            if !self.labels.meter().work((next - i) * ENTRY_WORK) {
                return true;
            }
            self.stats.entries += (next - i) as u64;
            self.stats.entries_kept += (next - i) as u64;
            while i < next {
                let same = match block.metadata {
                    MetadataColumn::None => next - i,
                    MetadataColumn::Sets { set_ids, .. } => {
                        set_ids[i..next].iter().take_while(|id| **id == set_ids[i]).count()
                    }
                };
                let Some(set) = self.set_of_metadata(stream, block, i) else { return true };
                let after = i + same;
                let bytes = if adds_lengths { lines.end(after - 1) - lines.start(i) } else { 0 };
                let Collector::Range(range) = &mut self.collector else { return true };
                let sum = Sum { set, count: same as u64, bytes: bytes as u64 };
                sums.add(sum, &cell, range, self.labels.meter());
                i = after;
            }
            let Collector::Range(range) = &mut self.collector else { return true };
            sums.flush(&cell, range, self.labels.meter());
        }
        true
    }

    /// Adds the selected entries of a block up. False as for [`LeafExecutor::count_rows`].
    pub(super) fn count_selected(&mut self, stream: &StreamState, block: &EntryBlock<'_>) -> bool {
        let Some(adds_lengths) = self.begin_counting() else { return false };
        let lines = block.line_view();
        // Taken out so that the loop may borrow the rest.
        let selection = std::mem::take(&mut self.selection);
        let mut sums = Sums::default();
        let mut before: Option<Cell> = None;
        for (number, i) in selection.iter().enumerate() {
            if number % AT_ONCE == 0 && !self.labels.meter().work(AT_ONCE * ENTRY_WORK) {
                break;
            }
            let Some(set) = self.set_of_metadata(stream, block, i) else { break };
            let (time_ns, meter) = (block.timestamps_ns[i], self.labels.meter());
            let Collector::Range(range) = &mut self.collector else { break };
            let cell = match before.filter(|cell| cell.holds(time_ns)) {
                Some(cell) => cell,
                None => {
                    if let Some(before) = before {
                        sums.flush(&before, range, meter);
                    }
                    *before.insert(range.cell(time_ns))
                }
            };
            let bytes = if adds_lengths { lines.len_of(i) as u64 } else { 0 };
            sums.add(Sum { set, count: 1, bytes }, &cell, range, meter);
            self.stats.entries_kept += 1;
        }
        if let (Some(cell), Collector::Range(range)) = (before, &mut self.collector) {
            sums.flush(&cell, range, self.labels.meter());
        }
        self.selection = selection;
        true
    }

    /// Whether lengths are added up, if this is a leaf that counts by listed labels.
    fn begin_counting(&mut self) -> Option<bool> {
        let Collector::Range(range) = &self.collector else { return None };
        self.shortcuts.listed_sets.as_mut()?.clear();
        Some(range.value() == EntryValue::LineLength)
    }

    /// The label set of an entry. `None` if the query has failed.
    fn set_of_metadata(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
    ) -> Option<u32> {
        let MetadataColumn::Sets { set_ids, sets } = block.metadata else {
            return Some(stream.plain_set);
        };
        let id = set_ids[i];
        if id == 0 || !stream.needs.metadata {
            return Some(stream.plain_set);
        }
        let listed = self.shortcuts.listed_sets.as_mut()?;
        let seen = match listed.find(sets, id) {
            Ok(set) => return Some(set),
            Err(seen) => seen,
        };
        let set = self.set_of(stream, sets, id)?;
        if let (Some(listed), Some(seen)) = (&mut self.shortcuts.listed_sets, seen) {
            listed.put(seen, set, sets);
        }
        Some(set)
    }
}

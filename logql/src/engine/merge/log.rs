//! Putting the entries of a log query's leaves together.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::labels::sets::EntryLabelSet;
use super::super::leaf::log::{LogPartial, PartialEntry, rank_of, thinned};
use super::super::meter::Meter;
use super::super::params::Direction;
use super::super::result::{EntryCategories, ResultEntry, StreamResult};

/// How the entries are cut and grouped.
#[derive(Clone, Copy)]
pub(crate) struct LogMerge {
    pub(crate) direction: Direction,
    pub(crate) limit: usize,
    pub(crate) interval_ns: i64,
    pub(crate) categorize_labels: bool,
}

/// The position of an entry: the index of its partial, and its index there.
type EntryIndex = (usize, usize);

/// Bytes of an entry while entries are ordered: two indices in lists that double.
const ORDER_BYTES: usize = 6 * size_of::<EntryIndex>();

/// Bytes of an entry in a list of results that doubles.
const RESULT_BYTES: usize = 3 * size_of::<ResultEntry>();

/// The work of comparing two entries.
const COMPARE_WORK: usize = 64;

/// Bytes of a label set in the lists of the merge, besides its texts.
const SET_BYTES: usize = 3 * size_of::<OutputSet>()
    + size_of::<EntryCategories>()
    + 3 * size_of::<(&Labels, Vec<ResultEntry>)>()
    + 4 * size_of::<ResultEntry>()
    + size_of::<StreamResult>();

impl LogMerge {
    /// The first `limit` entries of all partials, grouped by labels. A meter that is stopped ends
    /// it early.
    pub(crate) fn finish(&self, meter: &Meter, partials: Vec<LogPartial>) -> Vec<StreamResult> {
        let count: usize = partials.iter().map(|partial| partial.entries.len()).sum();
        let before_bytes = meter.used_bytes();
        if !meter.admit(count * ORDER_BYTES) {
            return Vec::new();
        }
        let kept = self.kept(meter, &partials);
        if !meter.admit(kept.len() * RESULT_BYTES) {
            return Vec::new();
        }
        let streams = self.group(meter, partials, &kept);
        if !meter.is_stopped() {
            let order_bytes = count * ORDER_BYTES;
            meter.release_to(meter.used_bytes().max(before_bytes + order_bytes) - order_bytes);
        }
        streams
    }

    /// The first `limit` entries in their order.
    fn kept(&self, meter: &Meter, partials: &[LogPartial]) -> Vec<EntryIndex> {
        let mut order: Vec<EntryIndex> = partials
            .iter()
            .enumerate()
            .flat_map(|(p, partial)| (0..partial.entries.len()).map(move |e| (p, e)))
            .collect();
        let entry = |&(p, e): &EntryIndex| &partials[p].entries[e];
        let stream = |one: &EntryIndex| &partials[one.0].streams[entry(one).stream as usize];
        let labels = |one: &EntryIndex| &partials[one.0].label_sets[entry(one).label_set as usize];
        order.sort_unstable_by(|a, b| {
            // A sort cannot end early.
            meter.work(COMPARE_WORK);
            let (x, y) = (entry(a), entry(b));
            (x.rank, stream(a), x.arrival, x.index).cmp(&(y.rank, stream(b), y.arrival, y.index))
        });
        let same_instant = |a: &EntryIndex, b: &EntryIndex| {
            entry(a).rank == entry(b).rank && stream(a) == stream(b)
        };
        let mut kept: Vec<EntryIndex> = Vec::new();
        let is_duplicate = |kept: &[EntryIndex], one: &EntryIndex| {
            kept.iter().rev().take_while(|other| same_instant(other, one)).any(|other| {
                // A stopped merge has no answer, so duplicates do not matter.
                !meter.work(COMPARE_WORK)
                    || (entry(other).line == entry(one).line && labels(other) == labels(one))
            })
        };
        if self.interval_ns > 0 {
            let ranks = order.iter().map(|one| entry(one).rank);
            let mut wanted = thinned(ranks, self.interval_ns).take(self.limit).peekable();
            for one in &order {
                if wanted.next_if_eq(&entry(one).rank).is_some() {
                    kept.push(*one);
                }
            }
        } else {
            for one in order {
                if kept.len() == self.limit {
                    break;
                }
                if !is_duplicate(&kept, &one) {
                    kept.push(one);
                }
            }
        }
        kept
    }

    fn group(
        &self,
        meter: &Meter,
        partials: Vec<LogPartial>,
        kept: &[EntryIndex],
    ) -> Vec<StreamResult> {
        let mut sets: Vec<Vec<OutputSet>> = Vec::with_capacity(partials.len());
        let mut entries: Vec<Vec<Option<PartialEntry>>> = Vec::with_capacity(partials.len());
        for partial in partials {
            let sets_bytes: usize =
                partial.label_sets.iter().map(|set| 3 * set.held_bytes() + SET_BYTES).sum();
            if !meter.work(sets_bytes) || !meter.admit(sets_bytes) {
                return Vec::new();
            }
            sets.push(partial.label_sets.into_iter().map(|set| self.output_set(set)).collect());
            entries.push(partial.entries.into_iter().map(Some).collect());
        }
        let mut groups: BTreeMap<&Labels, Vec<ResultEntry>> = BTreeMap::new();
        for &(p, e) in kept {
            let Some(entry) = entries[p][e].take() else { continue };
            if !meter.work(COMPARE_WORK * GROUP_DEPTH) {
                break;
            }
            let set = &sets[p][entry.label_set as usize];
            groups.entry(&set.labels).or_default().push(ResultEntry {
                // The mapping is its own inverse.
                timestamp_ns: rank_of(entry.rank, self.direction),
                line: entry.line,
                categories: set.categories.clone(),
            });
        }
        groups
            .into_iter()
            .map(|(labels, entries)| StreamResult { labels: labels.clone(), entries })
            .collect()
    }

    fn output_set(&self, set: EntryLabelSet) -> OutputSet {
        if !self.categorize_labels {
            return OutputSet { labels: set.merged(), categories: None };
        }
        let categories =
            EntryCategories { structured_metadata: set.structured_metadata, parsed: set.parsed };
        OutputSet { labels: set.stream, categories: Some(Arc::new(categories)) }
    }
}

/// Comparisons that find a group, about.
const GROUP_DEPTH: usize = 4;

struct OutputSet {
    labels: Labels,
    categories: Option<Arc<EntryCategories>>,
}

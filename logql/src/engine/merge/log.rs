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

/// Where an entry is: its partial, and its place there.
type EntryIndex = (usize, usize);

/// What an entry takes while it is put in order: two places in lists that double.
const ORDER_BYTES: usize = 6 * size_of::<EntryIndex>();

/// What it takes in a list of results that doubles.
const RESULT_BYTES: usize = 3 * size_of::<ResultEntry>();

/// What it costs to compare two entries by their places in the order.
const COMPARE_WORK: usize = 64;

/// What a label set takes in the lists of the merge, besides its texts.
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
        let mut order: Vec<(usize, usize)> = partials
            .iter()
            .enumerate()
            .flat_map(|(p, partial)| (0..partial.entries.len()).map(move |e| (p, e)))
            .collect();
        let entry = |&(p, e): &(usize, usize)| &partials[p].entries[e];
        let stream =
            |place: &(usize, usize)| &partials[place.0].streams[entry(place).stream as usize];
        let labels =
            |place: &(usize, usize)| &partials[place.0].label_sets[entry(place).label_set as usize];
        order.sort_unstable_by(|a, b| {
            // Who sorts cannot end early.
            meter.work(COMPARE_WORK);
            let (x, y) = (entry(a), entry(b));
            (x.rank, stream(a), x.arrival, x.index).cmp(&(y.rank, stream(b), y.arrival, y.index))
        });
        let same_instant = |a: &(usize, usize), b: &(usize, usize)| {
            entry(a).rank == entry(b).rank && stream(a) == stream(b)
        };
        let mut kept: Vec<(usize, usize)> = Vec::new();
        let is_duplicate = |kept: &[(usize, usize)], place: &(usize, usize)| {
            kept.iter().rev().take_while(|other| same_instant(other, place)).any(|other| {
                // A stopped merge has no answer: the question is not asked any more.
                !meter.work(COMPARE_WORK)
                    || (entry(other).line == entry(place).line && labels(other) == labels(place))
            })
        };
        if self.interval_ns > 0 {
            let ranks = order.iter().map(|place| entry(place).rank);
            let mut wanted = thinned(ranks, self.interval_ns).take(self.limit).peekable();
            for place in &order {
                if wanted.next_if_eq(&entry(place).rank).is_some() {
                    kept.push(*place);
                }
            }
        } else {
            for place in order {
                if kept.len() == self.limit {
                    break;
                }
                if !is_duplicate(&kept, &place) {
                    kept.push(place);
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

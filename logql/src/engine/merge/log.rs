//! Putting the entries of a log query's leaves together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logsvc_proto::Labels;

use super::super::labels::sets::EntryLabelSet;
use super::super::leaf::log::{LogPartial, PartialEntry, rank_of, thinned};
use super::super::meter::Meter;
use super::super::params::LogAnswer;
use super::super::place::{EntryPlace, Place, entry_hash};
use super::super::result::{EntryCategories, ResultEntry, StreamResult};

/// The position of an entry: the index of its partial, and its index there.
type EntryIndex = (usize, usize);

/// Bytes of an entry while entries are ordered: two indices in lists that double.
const ORDER_BYTES: usize = 6 * size_of::<EntryIndex>();

/// Bytes of a hash in a set.
const KNOWN_BYTES: usize = 3 * size_of::<u64>();

/// Bytes of an entry in a list of results that doubles.
const RESULT_BYTES: usize = 3 * size_of::<ResultEntry>();

/// The work of comparing two entries.
const COMPARE_WORK: usize = 64;

/// Bytes of a label set in the lists of the merge, besides its texts.
const SET_BYTES: usize = 3 * size_of::<OutputSet>()
    + size_of::<EntryCategories>()
    + 3 * size_of::<(&Labels, Group)>()
    + 4 * size_of::<ResultEntry>()
    + size_of::<StreamResult>();

impl LogAnswer {
    /// The first `limit` entries of all partials, grouped by labels, and the place of the last one
    /// if there may be more. A meter that is stopped ends it early.
    pub(crate) fn finish(
        &self,
        meter: &Meter,
        partials: Vec<LogPartial>,
    ) -> (Vec<StreamResult>, Option<Place>) {
        let count: usize = partials.iter().map(|partial| partial.entries.len()).sum();
        let before_bytes = meter.used_bytes();
        if !meter.admit(count * ORDER_BYTES) {
            return (Vec::new(), None);
        }
        let (kept, skipped) = self.kept(meter, &partials);
        if !meter.admit(kept.len() * RESULT_BYTES) {
            return (Vec::new(), None);
        }
        let last = self.last_place(meter, &partials, &kept, skipped);
        let streams = self.group(meter, partials, &kept);
        if !meter.is_stopped() {
            let order_bytes = count * ORDER_BYTES;
            meter.release_to(meter.used_bytes().max(before_bytes + order_bytes) - order_bytes);
        }
        (streams, last)
    }

    /// The first `limit` entries in their order, and how many of the stream and the time of the
    /// last page's end come before them.
    fn kept(&self, meter: &Meter, partials: &[LogPartial]) -> (Vec<EntryIndex>, u32) {
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
        let mut skipped = 0;
        if let Some(after) = &self.after {
            let is_beside = |one: &EntryIndex| {
                entry(one).rank == rank_of(after.timestamp_ns, self.direction)
                    && stream(one).0 == after.stream_hash
            };
            let beside = order.iter().take_while(|&one| is_beside(one)).count();
            let behind = order.split_off(beside);
            skipped = drop_page(meter, partials, after, self.from_place, &mut order);
            order.extend(behind);
        }
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
        (kept, skipped)
    }

    /// The place of the last entry, if the page is full.
    fn last_place(
        &self,
        meter: &Meter,
        partials: &[LogPartial],
        kept: &[EntryIndex],
        skipped: u32,
    ) -> Option<Place> {
        // Pages of entries that keep a distance follow each other by their times.
        if kept.len() < self.limit || self.interval_ns > 0 {
            return None;
        }
        let last = kept.last()?;
        let entry = |&(p, e): &EntryIndex| &partials[p].entries[e];
        let stream = |one: &EntryIndex| partials[one.0].streams[entry(one).stream as usize].0;
        let (rank, stream_hash) = (entry(last).rank, stream(last));
        let beside = |one: &&EntryIndex| entry(one).rank == rank && stream(one) == stream_hash;
        meter.work(kept.len());
        let of_page = kept.iter().rev().take_while(beside).count();
        let timestamp_ns = rank_of(rank, self.direction);
        let is_same =
            |after: &Place| (after.timestamp_ns, after.stream_hash) == (timestamp_ns, stream_hash);
        let before = if self.after.as_ref().is_some_and(is_same) { skipped } else { 0 };
        let ordinal = before.saturating_add(u32::try_from(of_page).unwrap_or(u32::MAX));
        let entry_hash = hash_of(partials, last);
        Some(Place { timestamp_ns, stream_hash, entry_hash, ordinal })
    }

    fn group(
        &self,
        meter: &Meter,
        partials: Vec<LogPartial>,
        kept: &[EntryIndex],
    ) -> Vec<StreamResult> {
        let places = self.places_of(meter, &partials, kept);
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
        let mut groups: BTreeMap<&Labels, Group> = BTreeMap::new();
        for (at, &(p, e)) in kept.iter().enumerate() {
            let Some(entry) = entries[p][e].take() else { continue };
            if !meter.work(COMPARE_WORK * GROUP_DEPTH) {
                break;
            }
            let set = &sets[p][entry.label_set as usize];
            let group = groups.entry(&set.labels).or_default();
            group.places.extend(places.get(at));
            group.entries.push(ResultEntry {
                // The mapping is its own inverse.
                timestamp_ns: rank_of(entry.rank, self.direction),
                line: entry.line,
                categories: set.categories.clone(),
            });
        }
        groups
            .into_iter()
            .map(|(labels, Group { entries, places })| StreamResult {
                labels: labels.clone(),
                entries,
                places,
            })
            .collect()
    }

    /// The places of all entries, if they are wanted.
    fn places_of(
        &self,
        meter: &Meter,
        partials: &[LogPartial],
        kept: &[EntryIndex],
    ) -> Vec<EntryPlace> {
        // Once here, and once in lists that double.
        let places_bytes = 4 * kept.len() * size_of::<EntryPlace>();
        if !self.places || !meter.admit(places_bytes) {
            return Vec::new();
        }
        let place = |one: &EntryIndex| {
            let entry = &partials[one.0].entries[one.1];
            meter.work(COMPARE_WORK + entry.line.len());
            EntryPlace {
                stream_hash: partials[one.0].streams[entry.stream as usize].0,
                entry_hash: entry.stored_hash.unwrap_or_else(|| hash_of(partials, one)),
            }
        };
        kept.iter().map(place).collect()
    }

    fn output_set(&self, set: EntryLabelSet) -> OutputSet {
        if !self.categorize_labels {
            return OutputSet { labels: set.merged(), categories: None };
        }
        let categories =
            EntryCategories { structured_metadata: set.structured_metadata, parsed: set.parsed };
        OutputSet {
            labels: Arc::unwrap_or_clone(set.stream),
            categories: Some(Arc::new(categories)),
        }
    }
}

/// What [`Place::entry_hash`] says of an entry.
fn hash_of(partials: &[LogPartial], &(p, e): &EntryIndex) -> u64 {
    let partial = &partials[p];
    let entry = &partial.entries[e];
    let stream = &partial.streams[entry.stream as usize].1;
    entry_hash(stream, &partial.label_sets[entry.label_set as usize], &entry.line)
}

/// Drops those entries of the stream and the time of a place that are not behind it, and
/// duplicates. With `from_place` the entry of the place itself stays. Tells how many different
/// ones came before those that are left.
fn drop_page(
    meter: &Meter,
    partials: &[LogPartial],
    after: &Place,
    from_place: bool,
    beside: &mut Vec<EntryIndex>,
) -> u32 {
    let mut known = BTreeSet::new();
    let mut of_page = None;
    let mut count = 0;
    let known_bytes = beside.len() * KNOWN_BYTES;
    if !meter.admit(known_bytes) {
        return 0;
    }
    beside.retain(|one| {
        if !meter.work(COMPARE_WORK + partials[one.0].entries[one.1].line.len()) {
            return false;
        }
        let hash = hash_of(partials, one);
        if !known.insert(hash) {
            return false;
        }
        count += 1;
        if hash == after.entry_hash {
            of_page = Some(count);
        }
        true
    });
    meter.release(known_bytes);
    let of_page = of_page.unwrap_or(after.ordinal as usize).min(count);
    let of_page = if from_place { of_page.saturating_sub(1) } else { of_page };
    beside.drain(..of_page);
    u32::try_from(of_page).unwrap_or(u32::MAX)
}

/// Comparisons that find a group, about.
const GROUP_DEPTH: usize = 4;

/// Entries of one set of labels, and their places if they are wanted.
#[derive(Default)]
struct Group {
    entries: Vec<ResultEntry>,
    places: Vec<EntryPlace>,
}

struct OutputSet {
    labels: Labels,
    categories: Option<Arc<EntryCategories>>,
}

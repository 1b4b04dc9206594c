//! Parts of a log query that are shorter than its answer may be.
//!
//! Of entries that are spread over many parts, each part is likely to have its share of the answer
//! alone. So parts may be asked for fewer entries than the answer has. Those that could have more
//! entries of the answer are found behind that, and are asked again for all of them.

use std::collections::BTreeMap;

use super::super::plan::{LeafKind, LeafPlan};
use super::log::{LogPartial, PartialEntry};
use super::{LeafData, LeafResult};

/// Where an entry stands in the answer, as far as streams and times tell: rank, and the stream.
type Standing<'p> = (i64, &'p (u64, Box<str>));

impl LeafPlan {
    /// How many entries the answer has at most, if parts may be asked for fewer: not if entries are
    /// thinned, or if the answer goes on where an earlier one has ended.
    #[must_use]
    pub fn entry_limit(&self) -> Option<usize> {
        match self.kind {
            LeafKind::Log { limit, interval_ns: 0, after: None, .. } => Some(limit),
            _ => None,
        }
    }

    /// The same for fewer entries. Other kinds of leaves stay as they are.
    #[must_use]
    pub fn with_entry_limit(&self, entries: usize) -> LeafPlan {
        let mut plan = self.clone();
        if let LeafKind::Log { limit, .. } = &mut plan.kind {
            *limit = entries.min(*limit);
        }
        plan
    }
}

/// One part of a leaf, and who has it.
#[derive(Clone, Copy, Debug)]
pub struct CutPart<'r, O> {
    /// Who has found it.
    pub owner: O,
    /// What was found.
    pub result: &'r LeafResult,
    /// How many entries were looked for, if these are fewer than the answer has.
    pub entries_max: Option<usize>,
}

/// Those who may have entries of an answer of `limit` entries that their parts lack, and how many
/// entries of the answer they have at most. All parts are of one leaf.
pub fn lacking<O: Copy + Ord>(limit: usize, parts: &[CutPart<'_, O>]) -> BTreeMap<O, usize> {
    let partials: Vec<(&CutPart<'_, O>, &LogPartial)> = parts
        .iter()
        .filter_map(|part| match &part.result.data {
            LeafData::Log(partial) => Some((part, partial)),
            _ => None,
        })
        .collect();
    let is_short = |(part, partial): &&(&CutPart<'_, O>, &LogPartial)| {
        part.entries_max.is_some_and(|max| partial.entries.len() >= max)
    };
    if !partials.iter().any(|one| is_short(&one)) {
        return BTreeMap::new();
    }
    let mut entries: Vec<(Standing<'_>, &[u8], O)> = Vec::new();
    for (part, partial) in &partials {
        let of = |entry: &PartialEntry| &partial.streams[entry.stream as usize];
        let all = partial.entries.iter();
        entries.extend(all.map(|entry| ((entry.rank, of(entry)), &*entry.line, part.owner)));
    }
    entries.sort_unstable();
    // What may be a duplicate counts once, so the last entry of the answer stands here or before.
    entries.dedup_by(|one, other| (one.0, one.1) == (other.0, other.1));
    let last = limit.checked_sub(1).and_then(|last| entries.get(last)).map(|entry| entry.0);
    let mut lacking: BTreeMap<O, usize> = BTreeMap::new();
    for (part, partial) in partials.iter().filter(is_short) {
        let end = partial.entries.last();
        let end = end.map(|entry| (entry.rank, &partial.streams[entry.stream as usize]));
        if end.zip(last).is_some_and(|(end, last)| end > last) {
            continue;
        }
        // What others have before the end of this part is in the answer if the answer goes on behind
        // that end. If it does not, the owner has told all that it has of the answer.
        let before = entries.partition_point(|entry| end.is_some_and(|end| entry.0 < end));
        let of_others = entries[..before].iter().filter(|entry| entry.2 != part.owner).count();
        let most = lacking.entry(part.owner).or_default();
        let told = partials.iter().filter(|(other, _)| other.owner == part.owner);
        let told: usize = told.map(|(_, partial)| partial.entries.len()).sum();
        *most = limit.saturating_sub(of_others).max(told).max(*most);
    }
    lacking
}

//! The live set of all logs together, and what is not live any more.

use std::collections::{BTreeMap, BTreeSet};

use super::OneLog;
use crate::ledger::LedgerState;
use crate::manifest::{FooterRecord, LeftPart, LiveSegment, SegmentName, StoredSet};
use crate::types::StreamPartitions;
use crate::wal::covers::strongest;

/// What all logs say together at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Union {
    /// The live segments, and the parts of the write-ahead logs of the writers that they hold. What has
    /// left a segment stands together.
    pub stored: StoredSet,
    /// Segments that a log has removed, or that all streams have left. Their objects may be there.
    pub gone: BTreeMap<SegmentName, LiveSegment>,
    /// The first needed number of the write-ahead log of each writer, as its own log of edits says; not
    /// of writers whose own log of edits calls none needed.
    pub wal: BTreeMap<u32, u64>,
}

/// A live segment that may hold streams of some partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentOf<'a> {
    /// The segment.
    pub live: &'a LiveSegment,
    /// Its footer, if a log has it.
    pub footer: Option<&'a FooterRecord>,
    /// The streams that have left it.
    pub left: &'a [LeftPart],
}

impl Union {
    pub(super) fn of(logs: &BTreeMap<u32, OneLog>) -> Union {
        let Told { added, gone, left } = Told::by(states(logs));
        let (gone, live): (BTreeMap<_, _>, BTreeMap<_, _>) =
            added.into_iter().partition(|(name, _)| gone.contains(name));
        let footers = states(logs).flat_map(|state| &state.footers);
        let footers = footers.filter(|(name, _)| live.contains_key(name));
        let footers = footers.map(|(name, footer)| (*name, *footer)).collect();
        let covers = states(logs).flat_map(|state| &state.covers);
        // Nobody needs a write-ahead log of others.
        let covers = covers.filter(|cover| logs.contains_key(&cover.wal_epoch));
        let covers = strongest(covers.copied().collect());
        let left = left.into_iter().filter(|part| live.contains_key(&part.segment)).collect();
        let own = |(epoch, log): (&u32, &OneLog)| Some((*epoch, *log.known.state.wal.get(epoch)?));
        Union {
            stored: StoredSet { live, footers, left, covers },
            gone,
            wal: logs.iter().filter_map(own).collect(),
        }
    }

    /// The live segments that may hold streams of these partitions, by their names.
    pub fn segments_of(&self, wanted: &StreamPartitions) -> impl Iterator<Item = SegmentOf<'_>> {
        self.stored.live.values().filter_map(move |live| {
            let (left, file) = (self.left_of(live.name), live.name.writer());
            let parts: StreamPartitions = left.iter().map(|part| part.part).collect();
            // This is also so of partitions of which the file holds nothing.
            let is_left = |part| parts.contains_part_of_file(file, part);
            let footer = self.stored.footers.get(&live.name);
            (!wanted.iter().all(is_left)).then_some(SegmentOf { live, footer, left })
        })
    }

    /// What has left a segment.
    fn left_of(&self, name: SegmentName) -> &[LeftPart] {
        let left = &self.stored.left;
        let start = left.partition_point(|part| part.segment < name);
        let len = left[start..].partition_point(|part| part.segment == name);
        &left[start..start + len]
    }
}

fn states(logs: &BTreeMap<u32, OneLog>) -> impl Iterator<Item = &LedgerState> {
    logs.values().map(|log| &log.known.state)
}

/// What some logs say of segments.
pub(super) struct Told {
    /// All segments that one of them has added, whatever became of them.
    pub(super) added: BTreeMap<SegmentName, LiveSegment>,
    /// Segments that are not live, whoever has added them.
    pub(super) gone: BTreeSet<SegmentName>,
    /// What has left other segments.
    pub(super) left: BTreeSet<LeftPart>,
}

impl Told {
    pub(super) fn by<'a>(states: impl Iterator<Item = &'a LedgerState>) -> Told {
        let (mut added, mut gone) = (BTreeMap::new(), BTreeSet::new());
        let mut left: BTreeSet<LeftPart> = BTreeSet::new();
        for state in states {
            let removed = state.removed.values().flatten();
            for live in state.live.values().chain(removed) {
                added.entry(live.name).or_insert(*live);
            }
            gone.extend(state.removed.keys().copied());
            left.extend(&state.left);
        }
        let mut parts: BTreeMap<SegmentName, Vec<_>> = BTreeMap::new();
        for part in &left {
            parts.entry(part.segment).or_default().push(part.part);
        }
        for (name, parts) in parts {
            let parts: StreamPartitions = parts.into_iter().collect();
            if parts.contains_file(name.writer()) {
                gone.insert(name);
            }
        }
        left.retain(|part| !gone.contains(&part.segment));
        Told { added, gone, left }
    }
}

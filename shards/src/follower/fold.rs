//! The edits of the live set that the bucket does not have, folded into one.
//!
//! A segment that is merged before it was sent is never sent. Segments that bring only entries which
//! the bucket lacks may stay behind ("free"): a bucket without them lacks these entries and is right
//! in all else. Segments that take the place of others which the bucket has go with the removal of
//! these.
//!
//! Guarantees: applying what [`Fold::take_batch`] gives, in order, to the state of the bucket leads
//! from one live set of a moment to that of a later moment, less free segments. Covers wait for the
//! segments that they stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::ledger::LogEntry;
use crate::manifest::{FooterRecord, LeftPart, LiveSegment, ManifestEdit, SegmentName};
use crate::types::StreamPartitions;
use crate::wal::covers::{Cover, strongest};
use logsvc_runtime::Monotonic;

/// A segment that the bucket lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) live: LiveSegment,
    footer: Option<FooterRecord>,
    /// Since when some of its entries are in segments.
    pub(super) since: Monotonic,
    /// The number of the edit that brought the oldest of its entries that the bucket lacks.
    edit: u64,
    /// The shard whose edit that was.
    core: u16,
    /// Whether it may stay behind.
    is_free: bool,
    pub(super) is_draft: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    added: BTreeMap<SegmentName, Added>,
    removed: BTreeSet<SegmentName>,
    left: BTreeSet<LeftPart>,
    /// By the number of their edits.
    covers: Vec<(u64, u16, Cover)>,
    edits: u64,
    /// Since when there is something that must not wait for free segments.
    pub(super) bound_since: Option<Monotonic>,
}

/// The number of the first edit: the difference between folder and bucket at the start.
const FIRST_EDIT: u64 = 1;

/// What is sent at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    pub(super) added: BTreeMap<SegmentName, Added>,
    /// Whether the bucket has, with this batch, all segments that the folder had at the start, or
    /// those that took their place.
    pub(super) has_all_of_start: bool,
    removed: BTreeSet<SegmentName>,
    left: BTreeSet<LeftPart>,
    covers: Vec<(u64, u16, Cover)>,
    /// Entries that go as they are, behind the others.
    pub(super) adopted: Rc<[LogEntry]>,
}

/// Who has made an edit, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) core: u16,
    pub(super) now: Monotonic,
}

impl Fold {
    /// Takes an edit over. `is_known` tells which segments the bucket has or is about to have.
    pub(super) fn take(
        &mut self,
        edit: ManifestEdit,
        origin: Origin,
        is_known: impl Fn(SegmentName) -> bool,
    ) {
        let ManifestEdit { added, removed, covers, left, footers } = edit;
        self.edits += 1;
        let mut first = Added {
            live: EMPTY,
            footer: None,
            since: origin.now,
            edit: self.edits,
            core: origin.core,
            is_free: true,
            is_draft: false,
        };
        let mut inherit = |input: &Added| {
            first.since = first.since.min(input.since);
            first.edit = first.edit.min(input.edit);
            first.is_free &= input.is_free;
        };
        let comes: BTreeSet<SegmentName> = if left.is_empty() {
            BTreeSet::new()
        } else {
            added.iter().map(|live| live.name).collect()
        };
        let (mut is_bound, mut changes) = (false, false);
        for part in left {
            match self.added.get(&part.segment) {
                Some(input) => inherit(input),
                // The first edit has segments of the folder that the bucket lacks, and what has left
                // them. Without that the bucket would show again what a rewrite has left out.
                None if comes.contains(&part.segment) => {
                    self.left.insert(part);
                    continue;
                }
                None if !is_known(part.segment) => continue,
                None => {}
            }
            // The others of its streams stay in the segment, so nothing of this may stay behind.
            is_bound = true;
            changes = true;
            self.left.insert(part);
            self.drop_if_all_left(part.segment);
        }
        for name in removed {
            if let Some(input) = self.added.remove(&name) {
                inherit(&input);
                self.left.retain(|part| part.segment != name);
            } else if is_known(name) {
                (is_bound, changes) = (true, true);
                self.removed.insert(name);
            }
        }
        first.is_free &= !is_bound;
        let footers: BTreeMap<SegmentName, FooterRecord> =
            footers.into_iter().map(|footer| (footer.segment, footer)).collect();
        for live in added {
            // A retried edit may name a segment again.
            if is_known(live.name) || self.added.contains_key(&live.name) {
                continue;
            }
            let footer = footers.get(&live.name).copied();
            let is_draft = footer.is_some_and(|footer| footer.is_draft(&live));
            changes |= !first.is_free;
            self.added.insert(live.name, Added { live, footer, is_draft, ..first });
        }
        if changes {
            self.bound_since.get_or_insert(first.since);
        }
        self.covers.extend(covers.into_iter().map(|cover| (self.edits, origin.core, cover)));
    }

    /// Puts a batch back that could not be sent, because the shards have gone on since: the edits
    /// that came since are `self`.
    pub(super) fn after(self, batch: Batch, is_known: impl Fn(SegmentName) -> bool) -> Fold {
        let mut fold = Fold {
            added: batch.added,
            removed: batch.removed,
            left: batch.left,
            covers: batch.covers,
            edits: self.edits,
            bound_since: self.bound_since,
        };
        for name in self.removed {
            if fold.added.remove(&name).is_some() {
                fold.left.retain(|part| part.segment != name);
            } else if is_known(name) {
                fold.removed.insert(name);
            }
        }
        fold.added.extend(self.added);
        for part in self.left {
            fold.left.insert(part);
            fold.drop_if_all_left(part.segment);
        }
        fold.covers.extend(self.covers);
        // What took the place of a free segment of the batch is bound since, and may stay so.
        fold.bound_since = fold.added.values().map(|added| added.since).min().or(fold.bound_since);
        fold
    }

    fn drop_if_all_left(&mut self, name: SegmentName) {
        let parts = self.left.iter().filter(|part| part.segment == name).map(|part| part.part);
        let parts: StreamPartitions = parts.collect();
        if self.added.contains_key(&name) && parts.contains_file(name.writer()) {
            self.added.remove(&name);
            self.left.retain(|part| part.segment != name);
        }
    }

    /// Forgets a segment that was never sent; tells whether it was there.
    pub(super) fn forget(&mut self, name: SegmentName) -> bool {
        self.left.retain(|part| part.segment != name);
        self.added.remove(&name).is_some()
    }

    /// Bytes of segments that the bucket lacks.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.added.values().map(|added| added.live.file_len).sum()
    }

    /// The segments that the bucket lacks.
    pub(super) fn added(&self) -> impl Iterator<Item = &Added> {
        self.added.values()
    }

    /// Whether the bucket lacks a segment.
    pub(super) fn lacks(&self, name: SegmentName) -> bool {
        self.added.contains_key(&name)
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.left.is_empty()
    }

    /// What goes now: all that is bound, and the free segments that `is_due` names, of which up to
    /// `max_bytes`. At least one of these. What a shard has made before something that goes, goes
    /// too: should the disk be lost, its entries come from the log, and would stand behind later
    /// ones of the same nanosecond.
    pub(super) fn take_batch(&mut self, is_due: impl Fn(&Added) -> bool, max_bytes: u64) -> Batch {
        let mut batch = Batch { removed: std::mem::take(&mut self.removed), ..Batch::default() };
        let mut last_edits: BTreeMap<u16, u64> = BTreeMap::new();
        for added in self.added.values().filter(|added| !added.is_free || is_due(added)) {
            let last = last_edits.entry(added.core).or_default();
            *last = added.edit.max(*last);
        }
        // Segments of the start may be of any core.
        let of_start = |added: &Added| added.edit == FIRST_EDIT && !last_edits.is_empty();
        let goes = |added: &&Added| {
            let is_before = last_edits.get(&added.core).is_some_and(|&last| added.edit <= last);
            !added.is_free || is_before || of_start(added)
        };
        let mut going: Vec<Added> = self.added.values().filter(goes).copied().collect();
        going.sort_unstable_by_key(|added| (added.edit, added.live.name));
        let mut free_bytes = 0;
        for added in going {
            if added.is_free && free_bytes > 0 && free_bytes >= max_bytes {
                continue;
            }
            free_bytes += if added.is_free { added.live.file_len } else { 0 };
            self.added.remove(&added.live.name);
            batch.added.insert(added.live.name, added);
        }
        let stays = |name| self.added.contains_key(&name);
        batch.left = self.left.extract_if(.., |part| !stays(part.segment)).collect();
        // Segments of the start may have entries of any core, from logs that are covered.
        let waits = |(edit, core, _): &(u64, u16, Cover)| {
            let concerns = |added: &Added| added.core == *core || added.edit == FIRST_EDIT;
            self.added.values().any(|added| concerns(added) && added.edit <= *edit)
        };
        batch.covers = self.covers.extract_if(.., |cover| !waits(cover)).collect();
        self.bound_since = None;
        batch.has_all_of_start = self.added.values().all(|added| added.edit != FIRST_EDIT);
        batch
    }
}

impl Batch {
    /// The same with entries that go behind it.
    pub(super) fn with_adopted(self, adopted: &[LogEntry]) -> Batch {
        Batch { adopted: Rc::from(adopted), ..self }
    }

    /// Whether it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Batch { added, removed, left, covers, adopted, .. } = self;
        adopted.is_empty()
            && added.is_empty()
            && removed.is_empty()
            && left.is_empty()
            && covers.is_empty()
    }

    /// Parts of the log that the bucket has in segments with it.
    pub(super) fn covers(&self) -> impl Iterator<Item = Cover> + '_ {
        self.covers.iter().map(|(_, _, cover)| *cover)
    }

    /// The edit that the batch is, once its segments are in the bucket.
    pub(super) fn edit(&self) -> ManifestEdit {
        let covers = self.covers().collect();
        ManifestEdit {
            added: self.added.values().map(|added| added.live).collect(),
            removed: self.removed.iter().copied().collect(),
            covers: strongest(covers),
            left: self.left.iter().copied().collect(),
            footers: self.added.values().filter_map(|added| added.footer).collect(),
        }
    }
}

const EMPTY: LiveSegment = LiveSegment {
    name: SegmentName { epoch: 0, shards: 0, shard: 0, seq: 0 },
    day: crate::manifest::Day(0),
    file_len: 0,
    min_ns: 0,
    max_ns: 0,
    entries: 0,
    line_bytes: 0,
    level: 0,
    order: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Part;

    const NOW: Origin = Origin { core: 0, now: Monotonic(0) };

    fn segment(seq: u32) -> LiveSegment {
        let name = SegmentName { epoch: 1, shards: 4, shard: 0x0003_0000, seq };
        LiveSegment { name, file_len: 100, ..EMPTY }
    }

    fn left(seq: u32, part: u16) -> LeftPart {
        LeftPart { segment: segment(seq).name, part: Part::one(4, part) }
    }

    #[test]
    fn what_has_left_a_segment_of_the_start_goes_with_it() {
        let mut fold = Fold::default();
        let added = vec![segment(1), segment(2)];
        let parts = vec![left(1, 0), left(9, 0)];
        let edit = ManifestEdit { added, left: parts, ..ManifestEdit::default() };
        fold.take(edit, NOW, |_| false);
        let first = fold.take_batch(|added| added.live.name.seq == 1, 100).edit();
        assert_eq!(first.added, [segment(1)]);
        assert_eq!(first.left, [left(1, 0)], "nobody has the other segment");
        let rest = fold.take_batch(|_| true, 100).edit();
        assert_eq!((rest.added, rest.left), (vec![segment(2)], vec![]));
    }

    #[test]
    fn a_segment_of_the_start_that_all_have_left_is_not_sent() {
        let mut fold = Fold::default();
        let parts = vec![left(1, 0), left(1, 1)];
        let edit = ManifestEdit { added: vec![segment(1)], left: parts, ..ManifestEdit::default() };
        fold.take(edit, NOW, |_| false);
        let parts = vec![left(1, 2), left(1, 3)];
        let edit = ManifestEdit { added: vec![segment(2)], left: parts, ..ManifestEdit::default() };
        fold.take(edit, NOW, |_| false);
        let batch = fold.take_batch(|_| true, 100).edit();
        assert_eq!((batch.added, batch.left), (vec![segment(2)], vec![]));
    }
}

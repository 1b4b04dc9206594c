//! The list of a shard's segments: how one enters it, leaves it, and gives up its file.
//!
//! Guarantees: the list is in the order of arrival. A segment that leaves it keeps its file
//! until no scan holds the segment. A stream without entries in memory and in segments is
//! forgotten.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, StreamId};

use super::super::{Effect, Shard, StepContext};
use crate::compact::RemovedSegment;
use crate::index::Slot;
use crate::sealed::{OpenedSegment, SealedSegment};

/// How often the shard looks whether scans have let go of segments that are not live.
const RETIRE_INTERVAL: Duration = Duration::from_millis(50);

impl Shard {
    /// Makes a segment of this node readable. Segments come in their order.
    pub(in crate::shard) fn add_sealed(&mut self, mut opened: OpenedSegment) {
        let OpenedSegment { segment, directory } = &mut opened;
        let streams = directory.stream_count();
        for row in 0..streams {
            let Some(slot) = self.slot_in(segment, directory.stream_id(row)) else { continue };
            let (min_ns, max_ns) = directory.stream_bounds_ns(row);
            let state = &mut self.streams[slot as usize];
            if state.sealed_bounds_ns.is_some_and(|(_, newest_ns)| min_ns <= newest_ns) {
                segment.late.insert(row, streams);
            }
            state.newest_admitted_ns = state.newest_admitted_ns.max(max_ns);
        }
        self.insert_segment(opened);
    }

    /// The slot of a stream of the shard, if its entries in a segment count.
    pub(in crate::shard) fn slot_in(&self, segment: &SealedSegment, id: StreamId) -> Option<Slot> {
        self.by_id.get(&id).copied().filter(|_| segment.has_live(id))
    }

    /// Puts a segment into the list; its streams are known.
    pub(super) fn insert_segment(&mut self, opened: OpenedSegment) {
        let OpenedSegment { segment, directory } = opened;
        self.note_own_totals(&segment, &directory);
        for row in 0..directory.stream_count() {
            let Some(slot) = self.slot_in(&segment, directory.stream_id(row)) else { continue };
            let (min_ns, max_ns) = directory.stream_bounds_ns(row);
            let state = &mut self.streams[slot as usize];
            let bounds = state.sealed_bounds_ns.get_or_insert((i64::MAX, i64::MIN));
            *bounds = (bounds.0.min(min_ns), bounds.1.max(max_ns));
            state.sealed_in += 1;
        }
        self.sealing.refused_blocks += u64::from(segment.refused_blocks);
        let index = self.segments.partition_point(|other| other.live.order <= segment.live.order);
        if segment.footer.is_draft {
            self.drafts.add(segment.live.line_bytes);
        }
        self.segments.insert(index, Arc::new(segment));
        self.maintenance.segments_changed();
    }

    /// Takes a segment out of the list; `changes` says whether queries can tell.
    pub(super) fn remove_segment(&mut self, removed: RemovedSegment, changes: bool) {
        let RemovedSegment { name, directory } = removed;
        let Some(index) = self.segments.iter().position(|other| other.live.name == name) else {
            return;
        };
        let segment = self.segments.remove(index);
        if let Some(purge) = &mut self.maintenance.purge {
            purge.note_leaving(&segment);
        }
        if segment.footer.is_draft {
            self.drafts.remove(segment.live.line_bytes);
        }
        if changes {
            self.changes.changed_for_all(segment.live.min_ns, segment.live.max_ns);
        }
        let lives = || self.segments.iter().map(|segment| segment.live);
        let first_ns = lives().map(|live| live.min_ns).min().unwrap_or(i64::MIN);
        let last_ns = lives().map(|live| live.max_ns).max().unwrap_or(i64::MAX);
        let rows = directory.as_ref().map_or(0, |directory| directory.stream_count());
        let ids = directory.iter().flat_map(|d| (0..rows).map(|row| d.stream_id(row)));
        for id in ids {
            let Some(slot) = self.slot_in(&segment, id) else { continue };
            let state = &mut self.streams[slot as usize];
            state.sealed_in = state.sealed_in.saturating_sub(1);
            if state.sealed_in == 0 {
                state.sealed_bounds_ns = None;
                self.maintenance.maybe_empty.push(slot);
            } else if let Some(bounds) = &mut state.sealed_bounds_ns {
                // Not narrower than the segments that are left, and narrow enough to forget old
                // days.
                *bounds = (bounds.0.max(first_ns), bounds.1.min(last_ns));
            }
        }
        self.maintenance.own_totals.remove(&name);
        self.maintenance.expiries.remove(&name);
        self.maintenance.unmergeable.remove(&name);
        self.maintenance.retired.segments.push(segment);
    }

    /// Forgets streams that have nothing in memory and nothing in segments.
    pub(super) fn forget_empty_streams(&mut self) {
        let mut maybe_empty = std::mem::take(&mut self.maintenance.maybe_empty);
        maybe_empty.sort_unstable();
        maybe_empty.dedup();
        maybe_empty.retain(|&slot| {
            let stream = &mut self.streams[slot as usize];
            if stream.sealed_in > 0 {
                return false;
            }
            if !stream.head.is_empty()
                || stream.frozen.is_some()
                || stream.in_log > 0
                || stream.tails.is_some()
            {
                // Looked at again next time, unless it is sealed before.
                return true;
            }
            if stream.indexed {
                self.index.remove(&stream.tenant, slot, &stream.labels);
            }
            self.by_id.remove(&stream.id);
            let (tenant, key) = (&stream.tenant, stream.tenant_key);
            self.stream_memory.forget_stream(tenant, key, &stream.labels);
            stream.labels = Arc::new(Labels::default());
            self.free.push(slot);
            self.maintenance.status.forgotten_streams += 1;
            false
        });
        self.maintenance.maybe_empty = maybe_empty;
    }

    /// Gives up the files of segments that are not live any more and that no scan holds.
    pub(super) fn retire_unused(&mut self, context: StepContext, effects: &mut Vec<Effect>) {
        let maintenance = &mut self.maintenance;
        if maintenance.retired.segments.is_empty() {
            maintenance.retired.next_sweep = None;
            return;
        }
        let mut retired = std::mem::take(&mut maintenance.retired.segments);
        retired.retain(|segment| {
            // A merge under way may hold it, too. No reader can take another reference.
            if Arc::strong_count(segment) > 1 {
                return true;
            }
            let live = segment.live;
            let is_shared = maintenance.is_shared(segment);
            let path: Option<PathBuf> = (!is_shared).then(|| segment.path.clone());
            if is_shared {
                maintenance.retired.to_release.push(live);
                maintenance.planning.wanted = true;
            }
            effects.push(Effect::Retire { name: live.name, path });
            false
        });
        maintenance.retired.next_sweep =
            (!retired.is_empty()).then(|| context.now.after(RETIRE_INTERVAL));
        maintenance.retired.segments = retired;
    }
}

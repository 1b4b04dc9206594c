//! The list of a shard's segments: how one enters it, leaves it, and gives up its file.
//!
//! Guarantees: the list is in the order of arrival. A segment that leaves it keeps its file
//! until no scan holds the segment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Effect, Shard, StepContext};
use crate::manifest::SegmentName;
use crate::sealed::{OpenedSegment, SealedSegment};
use logsvc_segment::RowSet;

/// How often the shard looks whether scans have let go of segments that are not live.
const RETIRE_INTERVAL: Duration = Duration::from_millis(50);

impl Shard {
    /// Makes a segment readable that the shard has sealed. Segments come in their order.
    pub(in crate::shard) fn add_sealed(&mut self, opened: OpenedSegment) {
        let OpenedSegment { segment, directory } = opened;
        let mut late = RowSet::new();
        for row in 0..directory.stream_count() {
            let Some(&slot) = self.by_id.get(&directory.stream_id(row)) else { continue };
            let (min_ns, max_ns) = directory.stream_bounds_ns(row);
            let state = &mut self.streams[slot as usize];
            if min_ns <= state.sealed_newest_ns {
                late.push(row..row + 1);
            }
            state.newest_admitted_ns = state.newest_admitted_ns.max(max_ns);
            state.sealed_newest_ns = state.sealed_newest_ns.max(max_ns);
            state.sealed_order = Some(segment.live.order);
            let bounds = state.sealed_bounds_ns.get_or_insert((i64::MAX, i64::MIN));
            *bounds = (bounds.0.min(min_ns), bounds.1.max(max_ns));
        }
        segment.note_late_rows(Some(&late));
        self.insert_segment(segment);
    }

    /// Puts a segment into the list.
    pub(in crate::shard) fn insert_segment(&mut self, segment: SealedSegment) {
        self.sealing.refused_blocks += u64::from(segment.refused_blocks);
        let index = self.segments.partition_point(|other| other.live.order <= segment.live.order);
        if segment.footer.is_draft {
            self.drafts.add(segment.live.line_bytes);
        }
        self.segments.insert(index, Arc::new(segment));
        self.active.segments_changed();
        self.maintenance.segments_changed();
    }

    /// Takes a segment out of the list; `changes` says whether queries can tell.
    pub(in crate::shard) fn remove_segment(&mut self, name: SegmentName, changes: bool) {
        let Some(index) = self.segments.iter().position(|other| other.live.name == name) else {
            return;
        };
        let segment = self.segments.remove(index);
        self.active.segments_changed();
        if let Some(purge) = &mut self.maintenance.purge {
            purge.note_leaving(&segment);
        }
        if segment.footer.is_draft {
            self.drafts.remove(segment.live.line_bytes);
        }
        if changes {
            self.changes.changed_for_all(segment.live.min_ns, segment.live.max_ns);
        }
        self.maintenance.own_totals.remove(&name);
        self.maintenance.expiries.remove(&name);
        self.maintenance.unmergeable.remove(&name);
        let has_file = !self.maintenance.is_shared(&segment);
        self.maintenance.retired.segments.push((segment, has_file));
    }

    /// Takes a segment back that has left the list, if scans may hold it.
    pub(in crate::shard) fn take_retired(
        &mut self,
        name: SegmentName,
    ) -> Option<Arc<SealedSegment>> {
        let retired = &mut self.maintenance.retired.segments;
        let index = retired.iter().position(|(segment, _)| segment.live.name == name)?;
        Some(retired.swap_remove(index).0)
    }

    /// Gives up the files of segments that are not live any more and that no scan holds.
    pub(super) fn retire_unused(&mut self, context: StepContext, effects: &mut Vec<Effect>) {
        let maintenance = &mut self.maintenance;
        if maintenance.retired.segments.is_empty() {
            maintenance.retired.next_sweep = None;
            return;
        }
        let mut retired = std::mem::take(&mut maintenance.retired.segments);
        retired.retain(|(segment, has_file)| {
            // A merge under way may hold it, too. No reader can take another reference.
            if segment.is_read() {
                return true;
            }
            let live = segment.live;
            let path: Option<PathBuf> = has_file.then(|| segment.path.clone());
            if maintenance.config.node.is_shared(live.name) {
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

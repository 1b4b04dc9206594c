//! Decides at a start about segment files and live segments that do not fit each other.
//!
//! Guarantees: files whose entries may be nowhere else become live. Nothing here touches a file.

use std::path::Path;

use super::super::edit::LiveSegment;
use super::super::names::SegmentName;
use super::super::survey::FoundSegment;
use super::super::unlisted::{LiveFiles, UnlistedKind, path_of};
use super::{Clearing, OpenedManifest};
use crate::types::may_share_streams;
use crate::wal::format::WalName;

impl OpenedManifest {
    /// Decides about segment files that are not live: files whose entries may be nowhere else
    /// become live.
    pub(super) fn sort_unlisted(&mut self, replayed: &[WalName]) -> Clearing {
        let mut clearing = Clearing::default();
        let files = LiveFiles::new(&self.state, &self.survey);
        let is_pending = |live: &&LiveSegment| {
            let is_of = |found: &FoundSegment| (found.name, found.day) == (live.name, live.day);
            files.is_sound(live)
                && self.survey.pending.iter().any(is_of)
                && !self.survey.segments.iter().any(is_of)
        };
        clearing.pending = self.state.live.values().filter(is_pending).copied().collect();
        for file in std::mem::take(&mut self.unlisted) {
            let path = path_of(&self.segments_dir, &file.found, file.is_pending);
            match file.kind {
                UnlistedKind::Removed => clearing.left_overs.push(path),
                UnlistedKind::Unborn(segment) if is_replayed(&segment, replayed) => {
                    // If the file cannot be removed, it may outlive the segments that it was made
                    // of.
                    self.state.removed.insert(segment.name);
                    clearing.left_overs.push(path);
                }
                UnlistedKind::Unborn(segment) | UnlistedKind::Lost(segment) => {
                    if file.is_pending {
                        clearing.pending.push(segment);
                    }
                    self.adopt(&path, segment);
                }
                UnlistedKind::Misplaced => {
                    tracing::error!(
                        file = %path.display(),
                        "another file has the name of this segment and is live; this one goes to \
                         the quarantine folder"
                    );
                    clearing.quarantined.push((path, file.found));
                }
                UnlistedKind::Unreadable(what) => {
                    tracing::error!(
                        file = %path.display(),
                        "a segment that no edit of the manifest names cannot be read ({what}); it \
                         goes to the quarantine folder"
                    );
                    self.report.unreadable_segments += 1;
                    clearing.quarantined.push((path, file.found));
                }
                UnlistedKind::OtherVersion(unknown) => {
                    tracing::error!("left alone: {unknown}");
                    self.report.unknown_files.push(unknown);
                }
            }
        }
        if self.report.adopted_segments > 0 {
            tracing::error!(
                segments = self.report.adopted_segments,
                entries = self.report.adopted_entries,
                "the manifest has lost edits; segments that none of the others names are read"
            );
        }
        clearing
    }

    fn adopt(&mut self, path: &Path, segment: LiveSegment) {
        tracing::error!(
            file = %path.display(), entries = segment.entries,
            "no edit of the manifest names a segment whose entries may be nowhere else; it is read"
        );
        // The edit that removed it is of no use without the segments that took its place.
        self.state.removed.remove(&segment.name);
        self.state.live.insert(segment.name, segment);
        self.report.adopted_segments += 1;
        self.report.adopted_entries += segment.entries;
    }

    /// Gives live segments up that are not there, and that lost edits have most likely removed:
    /// merged segments begin as early and end as late. If they were lost in another way, that is
    /// said once here, and not at every start; a copy that is put back is read like any segment
    /// that no edit names.
    pub(super) fn forget_merged(&mut self) {
        if self.state.damage.is_empty() {
            return;
        }
        let files = LiveFiles::new(&self.state, &self.survey);
        let is_merged = |gone: &&LiveSegment| {
            let holds = |merged: &&LiveSegment| {
                merged.level > 0
                    && files.is_sound(merged)
                    && merged.day == gone.day
                    && merged.order >= gone.order
                    && may_share_streams(merged.name.writer(), gone.name.writer())
            };
            let merged = || self.state.live.values().filter(holds);
            files.len_bytes(gone).is_none()
                && merged().any(|merged| merged.min_ns <= gone.min_ns)
                && merged().any(|merged| merged.max_ns >= gone.max_ns)
        };
        let gone: Vec<LiveSegment> = self.state.live.values().filter(is_merged).copied().collect();
        for segment in gone {
            tracing::error!(
                file = %segment.name.path(&self.segments_dir, segment.day).display(),
                entries = segment.entries,
                "a segment is missing; the damaged manifest must have lost the edit by which it was \
                 merged into another one, so it is given up"
            );
            self.state.live.remove(&segment.name);
            self.report.merged_segments += 1;
        }
    }
}

/// Whether the log has the entries that a segment was sealed from: log files of its writer are
/// replayed, or of earlier starts, which its writer had replayed.
fn is_replayed(sealed: &LiveSegment, replayed: &[WalName]) -> bool {
    let SegmentName { epoch, shards, shard, .. } = sealed.name;
    let has_entries = |file: &WalName| {
        file.epoch < epoch || (file.epoch, file.shards, file.shard) == (epoch, shards, shard)
    };
    sealed.level > 0 || replayed.iter().any(has_entries)
}

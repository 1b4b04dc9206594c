//! How much of a segment is the shard's own, if other shards use it too or streams have left it.

use super::super::Shard;
use super::Maintenance;
use crate::sealed::SealedSegment;
use logsvc_segment::Directory;

/// How much of a segment is of streams of the shard that have not left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::shard) struct OwnTotals {
    /// Entries.
    pub(in crate::shard) entries: u64,
    /// Bytes of their lines.
    pub(in crate::shard) line_bytes: u64,
    /// Rows of the directory.
    pub(in crate::shard) runs: u64,
}

impl Maintenance {
    /// The shard's own part of a segment in its list.
    pub(in crate::shard) fn totals(&self, segment: &SealedSegment) -> OwnTotals {
        let whole = &segment.footer.totals;
        self.own_totals.get(&segment.live.name).copied().unwrap_or(OwnTotals {
            entries: whole.entries,
            line_bytes: whole.line_bytes,
            runs: u64::from(whole.runs),
        })
    }

    /// Whether the shard has nothing in a segment.
    pub(super) fn has_nothing_in(&self, segment: &SealedSegment) -> bool {
        self.totals(segment).runs == 0
    }
}

impl Shard {
    /// Adds up the shard's own part of a segment, unless it is all of the segment.
    pub(super) fn note_own_totals(&mut self, segment: &SealedSegment, directory: &Directory) {
        if segment.left.is_empty() && !self.maintenance.is_shared(segment) {
            return;
        }
        let mut totals = OwnTotals::default();
        for row in 0..directory.stream_count() {
            if self.slot_in(segment, directory.stream_id(row)).is_none() {
                continue;
            }
            for run in directory.runs_of_stream(row) {
                totals.entries += run.entries.len() as u64;
                totals.line_bytes += run.line_bytes.len() as u64;
                totals.runs += 1;
            }
        }
        self.maintenance.own_totals.insert(segment.live.name, totals);
    }
}

//! How much of a segment is the shard's own, if other shards use it too or streams have left it.

use super::Maintenance;
use crate::compact::OwnTotals;
use crate::manifest::SegmentName;
use crate::sealed::SealedSegment;

impl Maintenance {
    /// The shard's own part of a segment in its list; all of it as long as the part is not known.
    pub(in crate::shard) fn totals(&self, segment: &SealedSegment) -> OwnTotals {
        let whole = &segment.footer.totals;
        self.own_totals.get(&segment.live.name).copied().unwrap_or(OwnTotals {
            entries: whole.entries,
            line_bytes: whole.line_bytes,
            runs: u64::from(whole.runs),
        })
    }

    /// Whether the shard's own part of a segment has to be found out.
    pub(super) fn lacks_totals(&self, segment: &SealedSegment) -> bool {
        let is_whole = !segment.has_gone && !self.is_shared(segment);
        let name = segment.live.name;
        !is_whole && !self.own_totals.contains_key(&name) && !self.unmergeable.contains(&name)
    }

    /// Forgets the shard's own part of a segment, and when it expires: the shard has other streams
    /// than before.
    pub(in crate::shard) fn forget_totals(&mut self, name: SegmentName) {
        self.own_totals.remove(&name);
        self.expiries.remove(&name);
    }

    /// Whether the shard has nothing in a segment.
    pub(super) fn has_nothing_in(&self, segment: &SealedSegment) -> bool {
        self.totals(segment).runs == 0
    }
}

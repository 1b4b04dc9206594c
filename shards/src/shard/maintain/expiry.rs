//! Finds the segments of a shard with expired entries.
//!
//! If all streams have one period, the time bounds of a segment decide. Otherwise its streams
//! decide. A job beside the shard looks at them, and the shard remembers the result.
//!
//! Guarantees: a segment is inspected once, and once an hour while parts of it expire, until the
//! periods change.

use std::sync::Arc;

use super::super::Shard;
use super::Maintenance;
use crate::compact::{Findings, Inspected};
use crate::manifest::{Day, LiveSegment};
use crate::sealed::SealedSegment;

/// How long a segment of which too little has expired is not inspected again.
const INSPECT_AGAIN_NS: i64 = 3_600_000_000_000;

/// When the entries of a segment have expired, as of a look at its directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    /// After this moment, in ns since the Unix epoch, nothing of the shard's streams must
    /// stay.
    all_by_ns: i64,
    /// When it is worth another look, whether half of it has expired.
    again_ns: i64,
}

impl Shard {
    /// Segments of whose streams, as far as they are the shard's, nothing must stay. If none
    /// are, that holds for any period.
    pub(super) fn expired_segments(&self, now_ns: i64) -> Vec<Arc<SealedSegment>> {
        let bounds_ns = self.maintenance.config.retention.bounds_ns();
        let is_expired = |segment: &&Arc<SealedSegment>| {
            if self.maintenance.has_nothing_in(segment) {
                return true;
            }
            let Some((shortest_ns, longest_ns)) = bounds_ns else { return false };
            let max_ns = segment.live.max_ns;
            if max_ns >= now_ns.saturating_sub(shortest_ns) {
                return false;
            }
            if longest_ns.is_some_and(|longest_ns| max_ns < now_ns.saturating_sub(longest_ns)) {
                return true;
            }
            // Otherwise it has to be looked at.
            let expiry = self.maintenance.expiries.get(&segment.live.name);
            expiry.is_some_and(|expiry| now_ns > expiry.all_by_ns)
        };
        self.segments.iter().filter(is_expired).cloned().collect()
    }

    /// A segment of which it has to be found out how much is the shard's, when it expires, or
    /// whether half of it has. One at a time, since that may take long.
    pub(super) fn due_for_inspection(&self, now_ns: i64) -> Option<Arc<SealedSegment>> {
        let lacks_totals = |segment: &&Arc<SealedSegment>| self.maintenance.lacks_totals(segment);
        if let Some(segment) = self.segments.iter().find(lacks_totals) {
            return Some(Arc::clone(segment));
        }
        let Maintenance { config, expiries, unmergeable, .. } = &self.maintenance;
        let (shortest_ns, longest_ns) = config.retention.bounds_ns()?;
        // Where all streams have one period, the entries of a day expire within a day, so a segment
        // of one day goes as a whole. A segment of several days does not.
        let is_uniform = Some(shortest_ns) == longest_ns;
        let is_due = |segment: &&Arc<SealedSegment>| {
            let LiveSegment { name, min_ns, max_ns, .. } = segment.live;
            let begins_to_expire = min_ns < now_ns.saturating_sub(shortest_ns);
            match expiries.get(&name) {
                Some(expiry) => begins_to_expire && now_ns >= expiry.again_ns,
                None if max_ns < now_ns.saturating_sub(shortest_ns) => true,
                None => {
                    let goes_as_a_whole = is_uniform && Day::of(min_ns) == Day::of(max_ns);
                    !goes_as_a_whole && !unmergeable.contains(&name) && begins_to_expire
                }
            }
        };
        self.segments.iter().find(is_due).cloned()
    }

    /// Notes the outcome of an inspection: the shard's part of a segment, when it expires, and
    /// whether it is to be rewritten for it.
    pub(super) fn note_inspected(&mut self, inspected: Inspected, now_ns: i64) {
        let name = inspected.segment;
        let Some(segment) = self.segments.iter().find(|segment| segment.live.name == name) else {
            return;
        };
        let is_lacking = self.maintenance.lacks_totals(segment);
        let again_ns = now_ns.saturating_add(INSPECT_AGAIN_NS);
        let maintenance = &mut self.maintenance;
        let Some(findings) = inspected.findings else {
            // The segment stays until all periods are over, and as it is if nothing is known of the
            // shard's part of it.
            maintenance.expiries.insert(name, Expiry { all_by_ns: i64::MAX, again_ns });
            if is_lacking {
                maintenance.unmergeable.insert(name);
            }
            return;
        };
        let Findings { own, all_by_ns, expired_bytes, kept_bytes } = findings;
        if is_lacking {
            maintenance.own_totals.insert(name, own);
        }
        if inspected.policy != maintenance.policy {
            // The periods have changed meanwhile.
            return;
        }
        let can_be_rewritten = !maintenance.unmergeable.contains(&name) && now_ns <= all_by_ns;
        if can_be_rewritten && expired_bytes > 0 && expired_bytes >= kept_bytes {
            maintenance.to_rewrite = Some(name);
        }
        maintenance.expiries.insert(name, Expiry { all_by_ns, again_ns });
    }

    /// The segment that is to be rewritten because half of it has expired.
    pub(super) fn half_expired(&mut self) -> Option<Vec<usize>> {
        let name = self.maintenance.to_rewrite.take()?;
        let index = self.segments.iter().position(|segment| segment.live.name == name)?;
        // There may be more.
        self.maintenance.segments_changed();
        Some(vec![index])
    }
}

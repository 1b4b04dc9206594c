//! Finds the segments of a shard with expired entries.
//!
//! If all streams have one period, the time bounds of a segment decide. Otherwise its directory
//! decides. A job beside the shard gets the directory, which it may have to read, and the shard
//! remembers the result.
//!
//! Guarantees: a segment is inspected once, and once an hour while parts of it expire, until the
//! periods change.

use std::sync::Arc;

use super::super::{Shard, StreamState};
use super::Maintenance;
use crate::compact::RemovedSegment;
use crate::manifest::{Day, LiveSegment};
use crate::retention::expired_share;
use crate::sealed::SealedSegment;
use logsvc_segment::Directory;

/// How long a segment of which too little has expired is not inspected again.
const INSPECT_AGAIN_NS: i64 = 3_600_000_000_000;

/// How long the entries of a stream stay, as of a policy: finding it out takes a look at
/// every rule.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shard) struct KnownPeriod {
    /// Number of the policy; 0 is none.
    policy: u32,
    /// In ns; `i64::MAX`: for ever.
    ns: i64,
}

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

    /// How long the entries of a stream of a segment stay, in ns, for ever if that is the
    /// most; `None` if the stream is not the shard's, or has left the segment.
    fn period_of_row_ns(
        &self,
        segment: &SealedSegment,
        directory: &Directory,
        row: u32,
    ) -> Option<i64> {
        let slot = self.slot_in(segment, directory.stream_id(row))?;
        Some(self.period_ns(&self.streams[slot as usize]).unwrap_or(i64::MAX))
    }

    /// A segment of which it has to be found out when it expires, or whether half of it
    /// has. One at a time, since that may take long.
    pub(super) fn due_for_inspection(&self, now_ns: i64) -> Option<Arc<SealedSegment>> {
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

    /// Finds out when a segment expires, and whether it is to be rewritten for it.
    pub(super) fn inspect(&mut self, inspected: &RemovedSegment, now_ns: i64) {
        let name = inspected.name;
        let Some(segment) = self.segments.iter().find(|segment| segment.live.name == name) else {
            return;
        };
        let again_ns = now_ns.saturating_add(INSPECT_AGAIN_NS);
        let Some(directory) = &inspected.directory else {
            // The segment stays until all periods are over.
            self.maintenance.expiries.insert(name, Expiry { all_by_ns: i64::MAX, again_ns });
            return;
        };
        let expires_ns = |row| {
            let period_ns = self.period_of_row_ns(segment, directory, row)?;
            Some(directory.stream_bounds_ns(row).1.saturating_add(period_ns))
        };
        let all_by_ns = (0..directory.stream_count()).filter_map(expires_ns).max();
        let all_by_ns = all_by_ns.unwrap_or(i64::MIN);
        let can_be_rewritten = !self.maintenance.unmergeable.contains(&name) && now_ns <= all_by_ns;
        if can_be_rewritten {
            let shares = expired_share(directory, |row| {
                let period_ns = self.period_of_row_ns(segment, directory, row)?;
                Some(if period_ns == i64::MAX {
                    i64::MIN
                } else {
                    now_ns.saturating_sub(period_ns)
                })
            });
            if shares.expired_bytes >= shares.kept_bytes {
                self.maintenance.to_rewrite = Some(name);
            }
        }
        self.maintenance.expiries.insert(name, Expiry { all_by_ns, again_ns });
    }

    /// The segment that is to be rewritten because half of it has expired.
    pub(super) fn half_expired(&mut self) -> Option<Vec<usize>> {
        let name = self.maintenance.to_rewrite.take()?;
        let index = self.segments.iter().position(|segment| segment.live.name == name)?;
        // There may be more.
        self.maintenance.segments_changed();
        Some(vec![index])
    }

    /// The period of a stream in ns; `None`: for ever.
    fn period_ns(&self, stream: &StreamState) -> Option<i64> {
        let Maintenance { config, policy, .. } = &self.maintenance;
        let mut known = stream.period.get();
        if known.policy != *policy {
            let period_ns = config.retention.of_stream(&stream.tenant, &stream.labels);
            known = KnownPeriod { policy: *policy, ns: period_ns.unwrap_or(i64::MAX) };
            stream.period.set(known);
        }
        (known.ns != i64::MAX).then_some(known.ns)
    }
}

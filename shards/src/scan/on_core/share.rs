//! Divides a long scan among cores, so that a query of one busy stream uses all of them.
//!
//! A scan begins on the core that owns the streams. When it has read much and is not at its end,
//! it hands back the rest, and [`ScanJob::divide`] makes one job per core of it. Blocks of heads
//! go round. Each sealed block goes to its *home*, the same core each time, since that core's
//! cache may have it. Everything in a job is shared and immutable, so any core can run it.
//!
//! Guarantees: exactly one job reads a block. Of successive blocks of a segment every core gets
//! the same number, or one more.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::LeafPlan;

use super::ScanJob;
use super::frontier::{UnitKind, Work};
use crate::manifest::SegmentName;
use crate::scan::LeafRequest;
use crate::scan::streams::ScanStreams;

/// Which of so many cores reads a block when scans are divided.
fn home(segment: SegmentName, block: u32, cores: u32) -> u32 {
    // Small segments have one block each, so they go round, too.
    segment.seq.wrapping_add(segment.shard).wrapping_add(block) % cores
}

/// Which blocks of the segments that are not expanded yet belong to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    part: u32,
    /// 0 for a job that has all of them, see [`Share::is_whole`].
    of: u32,
}

impl Share {
    /// All blocks.
    pub(super) const ALL: Share = Share { part: 0, of: 0 };

    /// Whether the job is a whole query's: it counts the streams, and may be divided.
    pub(super) fn is_whole(self) -> bool {
        self.of == 0
    }

    /// Whether a block of a segment of the job belongs to it.
    pub(super) fn has_block(self, segment: SegmentName, block: u32) -> bool {
        self.of <= 1 || home(segment, block, self.of) == self.part
    }
}

impl ScanJob {
    /// The rest of a job that has taken so long, as a job that goes on with `plan`.
    pub(super) fn rest(
        &self,
        plan: LeafPlan,
        streams: ScanStreams,
        work: Work,
        taken: Duration,
    ) -> ScanJob {
        ScanJob {
            request: LeafRequest { plan: Arc::new(plan), ..self.request.clone() },
            streams,
            segments: Arc::clone(&self.segments),
            bundles: self.bundles.clone(),
            work,
            share: self.share,
            taken: self.taken + taken,
            missing_segments: 0,
            in_segments: self.in_segments.clone(),
            filters: self.filters,
        }
    }

    /// The same work as `count` jobs, each for another core.
    pub fn divide(self, count: u16) -> Vec<ScanJob> {
        let of = u32::from(count.max(1));
        let mut jobs: Vec<ScanJob> = (0..of)
            .map(|part| ScanJob {
                request: self.request.clone(),
                streams: self.streams.clone(),
                segments: Arc::clone(&self.segments),
                bundles: self.bundles.clone(),
                work: Work { units: Vec::new(), segments: self.work.segments.clone() },
                share: Share { part, of },
                taken: self.taken,
                missing_segments: 0,
                in_segments: self.in_segments.clone(),
                filters: self.filters,
            })
            .collect();
        let mut next_head = 0;
        for unit in self.work.units {
            let part = match unit.kind {
                UnitKind::Head { .. } => {
                    next_head += 1;
                    (next_head - 1) % of
                }
                UnitKind::Sealed { segment, block, .. } => {
                    home(self.segments[segment as usize].live.name, block, of)
                }
            };
            jobs[part as usize].work.units.push(unit);
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_one_home_and_all_cores_are_home_to_as_many() {
        for (of, seq, shard) in [(1, 5, 0), (2, 5, 1), (3, u32::MAX, 2), (7, 0, 6)] {
            let name = SegmentName { epoch: 3, shards: 8, shard, seq };
            let mut blocks = vec![0; of as usize];
            for block in 0..of * 10 {
                let has = |part: &u32| Share { part: *part, of }.has_block(name, block);
                let parts: Vec<u32> = (0..of).filter(has).collect();
                assert_eq!(parts, [home(name, block, of)]);
                blocks[parts[0] as usize] += 1;
            }
            // Seven do not divide 2^32, where numbers begin again.
            assert!(blocks.iter().all(|count: &u32| count.abs_diff(10) <= 1), "{blocks:?}");
            assert!(Share::ALL.has_block(name, 7));
        }
    }
}

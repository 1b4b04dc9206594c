//! Divides a long scan among cores, so that one busy stream keeps all of them
//! occupied.
//!
//! A scan begins on the core that owns the streams. When it has read a good deal and
//! is not at its end, it hands back what is left ([`ScanJob::divide`] makes one job
//! per core of it): the blocks it knows of go round, and of segments that it has not
//! looked at yet each core takes every so many-th block. Everything in a job is
//! shared and immutable, so any core can run it.
//!
//! Guarantees: every block is read by exactly one job.

use std::sync::Arc;

use logsvc_logql::engine::LeafPlan;

use super::ScanJob;
use super::frontier::Work;
use crate::messages::LeafRequest;

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
    pub(super) fn has_block(self, segment: u32, block: u32) -> bool {
        self.of <= 1 || (segment.wrapping_add(block)) % self.of == self.part
    }
}

impl ScanJob {
    /// What is left of a job, as one that goes on with `plan`.
    pub(super) fn rest(&self, plan: LeafPlan, work: Work) -> ScanJob {
        ScanJob {
            request: LeafRequest { plan: Arc::new(plan), ..self.request.clone() },
            streams: Arc::clone(&self.streams),
            segments: Arc::clone(&self.segments),
            work,
            share: self.share,
            missing_segments: 0,
        }
    }

    /// The same work as `count` jobs, each for another core.
    pub fn divide(self, count: u16) -> Vec<ScanJob> {
        let of = u32::from(count.max(1));
        let mut jobs: Vec<ScanJob> = (0..of)
            .map(|part| ScanJob {
                request: self.request.clone(),
                streams: Arc::clone(&self.streams),
                segments: Arc::clone(&self.segments),
                work: Work { units: Vec::new(), segments: self.work.segments.clone() },
                share: Share { part, of },
                missing_segments: 0,
            })
            .collect();
        for (number, unit) in self.work.units.into_iter().enumerate() {
            jobs[number % of as usize].work.units.push(unit);
        }
        jobs
    }
}

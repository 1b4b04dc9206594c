//! Looks at one segment for the shard: how much of it is the shard's own, and when its entries
//! expire.
//!
//! Where streams have periods of their own, the labels of all streams are read. Otherwise the
//! directory is enough.
//!
//! Guarantees: streams of other shards, and streams that have left the segment, do not count.
//! Nothing of the segment stays in memory. It fails if the disk refuses, if the labels are damaged,
//! or if the shard stops.

use std::sync::Arc;

use logsvc_runtime::Runtime;

use super::CompactError;
use super::compactor::Compactor;
use super::input::Input;
use super::throttle::{Pace, Throttle};
use crate::manifest::SegmentName;
use crate::retention::RetentionPolicy;
use crate::sealed::SealedSegment;

/// The memory of an entry besides its line, roughly, so that empty lines count.
const ENTRY_BYTES: u64 = 8;

/// Rows that are looked at before others get their turn.
const ROWS_PER_TURN: usize = 4096;

/// A segment that a shard wants to know more of.
#[derive(Debug)]
pub struct Inspection {
    pub(crate) segment: Arc<SealedSegment>,
    /// The periods by which entries expire.
    pub(crate) retention: Arc<RetentionPolicy>,
    /// The present time, in ns since the Unix epoch.
    pub(crate) now_ns: i64,
    /// The number of these periods, for the answer.
    pub(crate) policy: u32,
    /// Tells the activity of the shard.
    pub(crate) throttle: Arc<Throttle>,
}

/// How much of a segment is of streams of the shard that have not left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTotals {
    /// Entries.
    pub(crate) entries: u64,
    /// Bytes of their lines.
    pub(crate) line_bytes: u64,
    /// Rows of the directory.
    pub(crate) runs: u64,
}

/// The outcome of an [`Inspection`].
#[derive(Debug)]
pub struct Inspected {
    pub(crate) segment: SegmentName,
    /// See [`Inspection`].
    pub(crate) policy: u32,
    /// `None` if the segment could not be read.
    pub(crate) findings: Option<Findings>,
}

/// What was found in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Findings {
    pub(crate) own: OwnTotals,
    /// After this moment, in ns since the Unix epoch, nothing of the shard's streams must stay; the
    /// smallest number if there is nothing.
    pub(crate) all_by_ns: i64,
    /// Bytes of the shard's runs of which every entry has expired.
    pub(crate) expired_bytes: u64,
    /// Bytes of the others.
    pub(crate) kept_bytes: u64,
}

impl Findings {
    const NOTHING: Findings = Findings {
        own: OwnTotals { entries: 0, line_bytes: 0, runs: 0 },
        all_by_ns: i64::MIN,
        expired_bytes: 0,
        kept_bytes: 0,
    };
}

impl<R: Runtime> Compactor<R> {
    /// Looks at a segment. One that cannot be read has no findings, and is logged.
    ///
    /// # Errors
    /// The shard is stopping.
    pub(super) async fn inspect(&self, job: Inspection) -> Result<Inspected, CompactError> {
        let (segment, policy) = (job.segment.live.name, job.policy);
        let findings = match self.findings(&job).await {
            Ok(findings) => Some(findings),
            Err(CompactError::Stopped) => return Err(CompactError::Stopped),
            Err(error) => {
                tracing::error!(
                    %error, file = %job.segment.path.display(),
                    "a segment cannot be inspected; it stays until all of its entries have expired"
                );
                None
            }
        };
        Ok(Inspected { segment, policy, findings })
    }

    async fn findings(&self, job: &Inspection) -> Result<Findings, CompactError> {
        let runtime = &self.folder().runtime;
        let mut input = Input::open(self.folder(), Arc::clone(&job.segment)).await?;
        let mut pace = Pace::new(runtime, &job.throttle);
        let mut findings = Findings::NOTHING;
        match job.retention.bounds_ns() {
            // Streams may have different periods.
            Some((shortest_ns, longest_ns)) if longest_ns != Some(shortest_ns) => {
                input.load_stream(runtime).await?;
                let mut count = 0;
                while let Some(stream) = input.stream() {
                    let period_ns = job.retention.of_stream(&stream.tenant, &stream.labels);
                    if let Some(row) = input.take_stream() {
                        findings.add(&input, row, period_ns, job.now_ns);
                    }
                    input.load_stream(runtime).await?;
                    count += 1;
                    if count % ROWS_PER_TURN == 0 {
                        pace.rest(runtime).await?;
                    }
                }
            }
            bounds_ns => {
                let period_ns = bounds_ns.and_then(|(_, longest_ns)| longest_ns);
                let directory = Arc::clone(&input.directory);
                for row in 0..directory.stream_count() {
                    if input.owns(directory.stream_id(row)) {
                        findings.add(&input, row, period_ns, job.now_ns);
                    }
                    if row as usize % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
                        pace.rest(runtime).await?;
                    }
                }
            }
        }
        Ok(findings)
    }
}

impl Findings {
    /// Adds a stream of the shard, whose entries stay for `period_ns`; `None`: for ever.
    fn add<R: Runtime>(&mut self, input: &Input<R>, row: u32, period_ns: Option<i64>, now_ns: i64) {
        let newest_ns = input.directory.stream_bounds_ns(row).1;
        let gone_by_ns = period_ns.map_or(i64::MAX, |ns| newest_ns.saturating_add(ns));
        self.all_by_ns = self.all_by_ns.max(gone_by_ns);
        let cutoff_ns = period_ns.map_or(i64::MIN, |ns| now_ns.saturating_sub(ns));
        for run in input.directory.runs_of_stream(row) {
            let (entries, line_bytes) = (run.entries.len() as u64, run.line_bytes.len() as u64);
            self.own.entries += entries;
            self.own.line_bytes += line_bytes;
            self.own.runs += 1;
            let bytes = line_bytes + ENTRY_BYTES * entries;
            if run.max_ns < cutoff_ns {
                self.expired_bytes += bytes;
            } else {
                self.kept_bytes += bytes;
            }
        }
    }
}

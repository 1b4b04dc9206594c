//! One shard's part of a query, with the snapshot that it reads, and the reply to it.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::LeafResult;
use logsvc_runtime::Grant;

use super::frontier::Work;
use super::share::Share;
use crate::deletion::FilterWeight;
use crate::scan::selector::StreamSelector;
use crate::scan::streams::ScanStreams;
use crate::scan::{LeafRequest, StreamSnapshots};
use crate::sealed::SealedSegment;
use crate::types::ScanStats;

/// The segments of a job that may have streams which the shard did not have in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct UnknownSegments {
    /// What their streams are selected by; `None` if there are no such segments.
    selector: Option<Arc<StreamSelector>>,
    /// By their places in the job.
    segments: Arc<[bool]>,
}

/// A part of a query and the snapshot that it reads. May be run on any core.
#[derive(Debug)]
pub struct ScanJob {
    /// The request.
    pub request: LeafRequest,
    /// Streams that match, as far as they are known.
    pub(crate) streams: ScanStreams,
    /// Segments that overlap the query's time range, in their order.
    pub segments: Arc<[Arc<SealedSegment>]>,
    pub(super) work: Work,
    pub(super) share: Share,
    /// How long the scan has taken that this is a part of.
    pub(super) taken: Duration,
    pub(super) missing_segments: u64,
    pub(super) unknown: UnknownSegments,
    /// The work of evaluating requests for deletion.
    pub(super) filters: FilterWeight,
}

impl ScanJob {
    /// A job that reads everything of the snapshot.
    pub fn new(
        request: LeafRequest,
        streams: StreamSnapshots,
        segments: Vec<Arc<SealedSegment>>,
    ) -> ScanJob {
        let work = Work::all(request.plan.direction(), &streams, segments.len());
        ScanJob {
            request,
            streams: streams.into(),
            segments: segments.into(),
            work,
            share: Share::ALL,
            taken: Duration::ZERO,
            missing_segments: 0,
            unknown: UnknownSegments::default(),
            filters: FilterWeight::NOTHING,
        }
    }

    /// How many streams of the shard's memory it reads.
    pub fn held_streams(&self) -> usize {
        self.streams.held().len()
    }

    /// What the streams of a segment are selected by, if the job does not know all of them.
    pub(super) fn selector_for(&self, segment: u32) -> Option<&Arc<StreamSelector>> {
        let UnknownSegments { selector, segments } = &self.unknown;
        selector.as_ref().filter(|_| segments[segment as usize])
    }

    /// The same job, which has to find the streams of some segments, by their places in the job.
    #[must_use]
    pub(crate) fn with_unknown_segments(
        self,
        selector: StreamSelector,
        segments: Arc<[bool]>,
    ) -> ScanJob {
        ScanJob {
            unknown: UnknownSegments { selector: Some(Arc::new(selector)), segments },
            ..self
        }
    }

    /// The same segments, for looking things up in them beside the scan.
    pub(super) fn without_work(&self) -> ScanJob {
        ScanJob {
            request: self.request.clone(),
            streams: ScanStreams::default(),
            segments: Arc::clone(&self.segments),
            work: Work::default(),
            share: self.share,
            taken: self.taken,
            missing_segments: 0,
            unknown: UnknownSegments::default(),
            filters: self.filters,
        }
    }

    /// The same job, with requests for deletion that are so much work.
    #[must_use]
    pub(crate) fn with_filters(self, filters: FilterWeight) -> ScanJob {
        ScanJob { filters, ..self }
    }

    /// The same job, which reports that so many segments of its time cannot be read.
    #[must_use]
    pub(crate) fn with_missing_segments(self, missing_segments: u64) -> ScanJob {
        ScanJob { missing_segments, ..self }
    }
}

/// The reply to one shard's part of a query.
#[derive(Debug)]
pub struct LeafReply {
    /// The part's result.
    pub result: LeafResult,
    /// The memory of the query that the result holds.
    pub memory: Grant,
    /// The counters of the scan.
    pub stats: ScanStats,
    /// The rest of the scan, if it is so large that all cores should share it.
    pub rest: Option<Box<ScanJob>>,
}

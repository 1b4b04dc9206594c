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
use crate::sealed::{BundleMap, SealedSegment};
use crate::types::{ScanStats, TimeRange};

/// What the streams of a job's segments are selected by.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentStreams {
    /// `None` if the job has all streams that it reads.
    selector: Option<Arc<StreamSelector>>,
    /// Whether a segment may have streams that the shard did not have in memory, by its place in
    /// the job.
    is_unknown: Arc<[bool]>,
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
    /// The bundles of these segments, and of others.
    pub(super) bundles: BundleMap,
    pub(super) work: Work,
    pub(super) share: Share,
    /// How long the scan has taken that this is a part of.
    pub(super) taken: Duration,
    pub(super) missing_segments: u64,
    pub(super) in_segments: SegmentStreams,
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
            bundles: BundleMap::default(),
            work,
            share: Share::ALL,
            taken: Duration::ZERO,
            missing_segments: 0,
            in_segments: SegmentStreams::default(),
            filters: FilterWeight::NOTHING,
        }
    }

    /// How many streams of the shard's memory it reads.
    pub fn held_streams(&self) -> usize {
        self.streams.held().len()
    }

    /// The times of the entries that it reads.
    pub(super) fn time_range(&self) -> TimeRange {
        let (start_ns, end_ns) = self.request.plan.entry_bounds_ns();
        TimeRange { start_ns, end_ns }
    }

    /// What the streams of a segment are selected by, if the job does not know all of them.
    pub(super) fn selector_for(&self, segment: u32) -> Option<&Arc<StreamSelector>> {
        let SegmentStreams { selector, is_unknown } = &self.in_segments;
        selector.as_ref().filter(|_| is_unknown[segment as usize])
    }

    /// Whether streams of some segments have to be found there.
    pub(super) fn has_unknown_segments(&self) -> bool {
        self.in_segments.is_unknown.contains(&true)
    }

    /// What the streams of all segments are selected by, if that is known.
    pub(super) fn selector(&self) -> Option<&Arc<StreamSelector>> {
        self.in_segments.selector.as_ref()
    }

    /// The same job, which may find streams in segments, and has to find those of segments that
    /// are unknown, by their places in the job.
    #[must_use]
    pub(crate) fn with_selector(
        self,
        selector: StreamSelector,
        is_unknown: Arc<[bool]>,
    ) -> ScanJob {
        let selector = Some(Arc::new(selector));
        ScanJob { in_segments: SegmentStreams { selector, is_unknown }, ..self }
    }

    /// The same segments, for looking things up in them beside the scan.
    pub(super) fn without_work(&self) -> ScanJob {
        ScanJob {
            request: self.request.clone(),
            streams: ScanStreams::default(),
            segments: Arc::clone(&self.segments),
            bundles: BundleMap::default(),
            work: Work::default(),
            share: self.share,
            taken: self.taken,
            missing_segments: 0,
            in_segments: SegmentStreams::default(),
            filters: self.filters,
        }
    }

    /// The same job, with requests for deletion that are so much work.
    #[must_use]
    pub(crate) fn with_filters(self, filters: FilterWeight) -> ScanJob {
        ScanJob { filters, ..self }
    }

    /// The same job, which may ask these bundles.
    #[must_use]
    pub(crate) fn with_bundles(self, bundles: BundleMap) -> ScanJob {
        ScanJob { bundles, ..self }
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

//! Makes the snapshots that scans start from, and gives numbers for metrics.

use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::Labels;
use logsvc_runtime::mesh::InboxCounters;

use super::deletions::QueryDeletions;
use super::{Shard, StreamState};
use crate::index::Slot;
use crate::manifest::LiveSegment;
use crate::messages::ShardStatus;
use crate::scan::{
    FETCHED_AT_ONCE, HeadBlockRef, LeafRequest, ScanError, ScanJob, StreamSelector, StreamSnapshot,
};
use crate::scope::TenantScope;
use crate::sealed::{CacheCounters, DirectoryCounters, ReadCounters, SealedSegment};
use crate::types::TimeRange;

impl Shard {
    /// Streams that matchers select, which must all hold; rising.
    pub(super) fn select(&self, tenants: &TenantScope, matchers: &[CompiledMatcher]) -> Vec<Slot> {
        tenants.select(&self.index, matchers, |slot| {
            let stream = &self.streams[slot as usize];
            (&stream.tenant, &stream.labels)
        })
    }

    /// Whether a stream may have entries in a range, in memory or in known segments.
    pub(super) fn overlaps(&self, slot: Slot, range: TimeRange) -> bool {
        let sealed = self.streams[slot as usize].sealed_bounds_ns;
        self.overlaps_in_memory(slot, range) || sealed.is_some_and(|bounds| range.overlaps(bounds))
    }

    /// Whether a stream has entries in memory that may be in a range.
    pub(super) fn overlaps_in_memory(&self, slot: Slot, range: TimeRange) -> bool {
        let stream = &self.streams[slot as usize];
        let frozen = stream.frozen.as_ref().and_then(|head| head.time_bounds_ns());
        let bounds = [stream.head.time_bounds_ns(), frozen];
        bounds.into_iter().flatten().any(|bounds| range.overlaps(bounds))
    }

    /// The labels that a stream is shown with.
    pub(super) fn shown(&self, tenants: &TenantScope, slot: Slot) -> Arc<Labels> {
        let stream = &self.streams[slot as usize];
        tenants.shown(&stream.tenant, &stream.labels)
    }

    pub(super) fn status(&self) -> ShardStatus {
        ShardStatus {
            streams: self.index.tenants().map(|(t, count)| (t.clone(), count as u64)).collect(),
            created_streams: self.stream_memory.created.clone(),
            removed_streams: self.stream_memory.removed.clone(),
            head_entries: self.counters.entries,
            head_line_bytes: self.counters.line_bytes,
            head_reserved_bytes: self.head_memory.reserved.bytes(),
            duplicates: self.counters.duplicates,
            refused_streams: self.stream_memory.refused,
            wal: self.wal.counters(),
            commit_latency: self.counters.commit_latency,
            recovery: self.recovery.clone(),
            seal: self.seal_status(),
            pauses: self.deferred.status(),
            tails: self.tails.status(),
            // The driver knows these.
            cache: CacheCounters::default(),
            directories: DirectoryCounters::default(),
            reads: ReadCounters::default(),
            lane: InboxCounters::default(),
        }
    }

    /// A scan with everything that it reads, as of this moment.
    ///
    /// # Errors
    /// A matcher of the plan does not compile.
    pub(super) fn scan_job(&self, request: LeafRequest) -> Result<ScanJob, ScanError> {
        let (start_ns, end_ns) = request.plan.entry_bounds_ns();
        let range = TimeRange { start_ns, end_ns };
        let matchers = request.plan.compiled_matchers();
        let matchers = matchers.map_err(|error| ScanError::Plan(error.to_string()))?;
        let mut slots = self.select(&request.tenants, &matchers);
        if request.plan.reads_one_stream() {
            slots.retain(|&slot| request.plan.reads_stream(&self.shown(&request.tenants, slot)));
        }
        let mut deletions = QueryDeletions::new(request.deletions, range);
        let mut snapshot = |slot: Slot| {
            let stream = &self.streams[slot as usize];
            let frozen = stream.frozen.iter();
            let older = frozen.flat_map(|head| head.bounded_blocks()).zip(0..);
            let older = older.filter(|((_, bounds_ns), _)| range.overlaps(*bounds_ns));
            let older = older.map(|((block, bounds), at)| HeadBlockRef::frozen(at, block, bounds));
            let newer = stream.head.bounded_blocks().zip(0..);
            let newer = newer.filter(|((_, bounds_ns), _)| range.overlaps(*bounds_ns));
            let newer = newer.map(|((block, bounds), at)| HeadBlockRef::head(at, block, bounds));
            let blocks = older.chain(newer);
            StreamSnapshot {
                id: stream.id,
                labels: request.tenants.shown(&stream.tenant, &stream.labels),
                blocks: blocks.collect(),
                head_is_late: stream.head_is_late(),
                deletions: deletions.of(stream),
            }
        };
        let mut streams = Vec::with_capacity(slots.len());
        for slots in slots.chunks(FETCHED_AT_ONCE) {
            // To count a reference waits for the memory of the count, one stream after the other. A
            // first look at the counts fetches them all at once.
            slots.iter().for_each(|&slot| self.streams[slot as usize].fetch());
            let slots = slots.iter().copied();
            streams.extend(slots.filter(|&slot| self.overlaps(slot, range)).map(&mut snapshot));
        }
        let overlapping = |segment: &&Arc<SealedSegment>| {
            range.overlaps((segment.live.min_ns, segment.live.max_ns))
        };
        // Where no known stream is selected, known segments have none.
        let may_have = |segment: &&Arc<SealedSegment>| {
            overlapping(segment) && (!streams.is_empty() || !self.active.knows(segment))
        };
        let segments: Vec<_> = self.segments.iter().filter(may_have).cloned().collect();
        let unknown: Arc<[bool]> =
            segments.iter().map(|segment| !self.active.knows(segment)).collect();
        let is_missed = |live: &&LiveSegment| range.overlaps((live.min_ns, live.max_ns));
        let missing = self.missing.iter().filter(is_missed).count() as u64;
        let mut weight = deletions.weight();
        let filters = self.deletions.holding(request.tenants.tenants(), request.deletions, range);
        if unknown.contains(&true) {
            weight = filters.iter().fold(weight, |sum, filter| sum.and(filter.weight));
        }
        let selector = StreamSelector {
            tenants: request.tenants.clone(),
            groups: Arc::from([matchers]),
            range,
            owner: self.active.owner.clone(),
            deletions: filters,
        };
        let job = ScanJob::new(request, streams.into(), segments)
            .with_filters(weight)
            .with_missing_segments(missing)
            .with_bundles(self.maintenance.bundles.by_segment().clone())
            .with_selector(selector, unknown);
        Ok(job)
    }
}

impl StreamState {
    /// Brings the reference counts that a snapshot of the stream raises into the cache of the CPU.
    fn fetch(&self) {
        std::hint::black_box(Arc::strong_count(&self.labels));
        self.head.fetch();
    }

    /// Whether entries that are being sealed overlap, in time, entries that were sealed before them.
    pub(super) fn frozen_is_late(&self) -> bool {
        let frozen = self.frozen.as_ref().and_then(|head| head.time_bounds_ns());
        frozen.is_some_and(|(oldest_ns, _)| oldest_ns <= self.sealed_newest_ns)
    }

    /// Whether entries in memory overlap, in time, entries that were sealed or set
    /// aside before them.
    fn head_is_late(&self) -> bool {
        let sealed_newest_ns = self.sealed_newest_ns;
        let frozen = self.frozen.as_ref().and_then(|head| head.time_bounds_ns());
        let before_ns = frozen.map_or(i64::MIN, |bounds| bounds.1).max(sealed_newest_ns);
        let overlaps = |bounds: Option<(i64, i64)>, newest_ns: i64| {
            newest_ns > i64::MIN && bounds.is_some_and(|(oldest_ns, _)| oldest_ns <= newest_ns)
        };
        overlaps(frozen, sealed_newest_ns) || overlaps(self.head.time_bounds_ns(), before_ns)
    }
}

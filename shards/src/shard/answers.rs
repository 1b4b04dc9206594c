//! Answers requests that need no scan: labels, series, numbers for metrics. Makes the snapshots
//! that scans start from.

use std::collections::BTreeSet;
use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::Labels;
use logsvc_runtime::mesh::InboxCounters;

use super::deletions::QueryDeletions;
use super::{Shard, StreamState};
use crate::index::{Slot, SlotSet};
use crate::manifest::LiveSegment;
use crate::messages::{ShardStatus, StreamSelection};
use crate::scan::{FETCHED_AT_ONCE, HeadBlockRef, LeafRequest, ScanError, ScanJob, StreamSnapshot};
use crate::scope::TenantScope;
use crate::sealed::{CacheCounters, DirectoryCounters, SealedSegment};
use crate::types::TimeRange;

/// One in so many of a tenant's streams, or of a label's values, are few streams: their own
/// labels are looked at instead of the lists of the index.
const FEW_STREAMS: usize = 64;

impl Shard {
    /// Streams that matchers select, which must all hold; rising.
    pub(super) fn select(&self, tenants: &TenantScope, matchers: &[CompiledMatcher]) -> Vec<Slot> {
        tenants.select(&self.index, matchers, |slot| {
            let stream = &self.streams[slot as usize];
            (&stream.tenant, &stream.labels)
        })
    }

    /// Streams of a selection that may have entries in its range, rising.
    fn selected(&self, selection: &StreamSelection) -> Vec<Slot> {
        let mut slots = match &*selection.matcher_groups {
            [] => self.select(&selection.tenants, &[]),
            [group] => self.select(&selection.tenants, group),
            groups => {
                let mut union = SlotSet::default();
                for group in groups {
                    union.insert_all(&self.select(&selection.tenants, group));
                }
                union.slots()
            }
        };
        slots.retain(|&slot| self.overlaps(slot, selection.range));
        slots
    }

    fn overlaps(&self, slot: Slot, range: TimeRange) -> bool {
        let stream = &self.streams[slot as usize];
        let bounds = [
            stream.head.time_bounds_ns(),
            stream.frozen.as_ref().and_then(|head| head.time_bounds_ns()),
            stream.sealed_bounds_ns,
        ];
        bounds.into_iter().flatten().any(|bounds| range.overlaps(bounds))
    }

    pub(super) fn label_names(&self, selection: &StreamSelection) -> Vec<Box<str>> {
        let slots = self.selected(selection);
        if let [tenant] = selection.tenants.tenants()
            && let Some(index) = self.index.tenant(tenant)
            && slots.len() > index.streams().len() / FEW_STREAMS
        {
            // Most names are found with the first stream that the index gives for them.
            let selected = SlotSet::of(&slots);
            let names = index.names().filter(|name| index.has_name(name, &selected));
            return names.map(Box::from).collect();
        }
        let mut names = BTreeSet::new();
        for slot in slots {
            for (name, _) in self.streams[slot as usize].labels.iter() {
                let name = selection.tenants.shown_name(name);
                if !names.contains(name) {
                    names.insert(Box::from(name));
                }
            }
        }
        names.into_iter().collect()
    }

    pub(super) fn label_values(&self, selection: &StreamSelection, name: &str) -> Vec<Box<str>> {
        let selected = self.selected(selection);
        let tenants = &selection.tenants;
        if tenants.is_made_up(name) {
            let shown = selected.into_iter().map(|slot| self.shown(tenants, slot));
            let values: BTreeSet<Box<str>> =
                shown.filter_map(|labels| labels.get(name).map(Box::from)).collect();
            return values.into_iter().collect();
        }
        let indexes = || tenants.tenants().iter().filter_map(|tenant| self.index.tenant(tenant));
        let known: usize = indexes().map(|index| index.value_count(name)).sum();
        if selected.len() < known / FEW_STREAMS {
            let labels = selected.into_iter().map(|slot| &self.streams[slot as usize].labels);
            let values: BTreeSet<&str> = labels.filter_map(|labels| labels.get(name)).collect();
            return values.into_iter().map(Box::from).collect();
        }
        let selected = SlotSet::of(&selected);
        let values = indexes().flat_map(|index| index.values(name));
        let values = values.filter(|(_, slots)| selected.contains_any(slots));
        let values = values.map(|(value, _)| value);
        match tenants.tenants() {
            [_] => values.map(Box::from).collect(),
            // Sorted for each tenant, but not over all.
            _ => values.collect::<BTreeSet<_>>().into_iter().map(Box::from).collect(),
        }
    }

    /// The labels that a stream is shown with.
    fn shown(&self, tenants: &TenantScope, slot: Slot) -> Arc<Labels> {
        let stream = &self.streams[slot as usize];
        tenants.shown(&stream.tenant, &stream.labels)
    }

    pub(super) fn series(&self, selection: &StreamSelection) -> Vec<Arc<Labels>> {
        let labels = |slot| self.shown(&selection.tenants, slot);
        self.selected(selection).into_iter().map(labels).collect()
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
        let segments = if streams.is_empty() {
            Vec::new()
        } else {
            self.segments.iter().filter(overlapping).cloned().collect()
        };
        let is_missed = |live: &&LiveSegment| range.overlaps((live.min_ns, live.max_ns));
        let missing = self.missing.iter().filter(is_missed);
        Ok(ScanJob::new(request, streams.into(), segments)
            .with_filters(deletions.weight())
            .with_missing_segments(missing.count() as u64))
    }
}

impl StreamState {
    /// Brings the reference counts that a snapshot of the stream raises into the cache of the CPU.
    fn fetch(&self) {
        std::hint::black_box(Arc::strong_count(&self.labels));
        self.head.fetch();
    }

    /// Whether entries in memory overlap, in time, entries that were sealed or set
    /// aside before them.
    fn head_is_late(&self) -> bool {
        let sealed_newest_ns = self.sealed_bounds_ns.map_or(i64::MIN, |bounds| bounds.1);
        let frozen = self.frozen.as_ref().and_then(|head| head.time_bounds_ns());
        let before_ns = frozen.map_or(i64::MIN, |bounds| bounds.1).max(sealed_newest_ns);
        let overlaps = |bounds: Option<(i64, i64)>, newest_ns: i64| {
            newest_ns > i64::MIN && bounds.is_some_and(|(oldest_ns, _)| oldest_ns <= newest_ns)
        };
        overlaps(frozen, sealed_newest_ns) || overlaps(self.head.time_bounds_ns(), before_ns)
    }
}

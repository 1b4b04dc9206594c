//! Finds the streams of a segment that the shard need not have in memory.
//!
//! A shard keeps the streams that have entries in memory, and some others. A segment whose streams
//! it may not all know is searched by the labels in the segment itself.
//!
//! Guarantees: each stream is looked for among the known ones first, by its id, so its labels are
//! read once per scan. The core's other tasks get their turn after each chunk of labels. Labels
//! that cannot be read are counted as an unreadable part, and the streams are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::{Reservation, Runtime, SideQueue};

use super::ScanEnv;
use super::frontier::WantedStreams;
use super::load::{read, read_all};
use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::Leaf;
use crate::scan::error::ReadError;
use crate::scan::selector::StreamSelector;
use crate::scan::streams::{FoundStream, ScanStreams};
use crate::sealed::{HeldDirectory, SealedSegment, SegmentSource};
use crate::types::ScanStats;
use logsvc_logql::engine::LeafPlan;
use logsvc_segment::RowSet;

/// Chunks of labels that are read side by side from the bucket. Most have up to 256 KiB.
const CHUNKS_AHEAD: u32 = 16;

/// Rows of a chunk whose labels are decoded on the core.
const ROWS_MAX_ON_CORE: usize = 256;

/// What a segment is searched for.
pub(super) struct Question<'a> {
    pub(super) selector: &'a Arc<StreamSelector>,
    pub(super) segment: &'a Arc<SealedSegment>,
    pub(super) directory: &'a Arc<HeldDirectory>,
    /// The plan, if it may read one stream only.
    pub(super) plan: Option<&'a Arc<LeafPlan>>,
    /// The rows that may be of selected streams; `None`: any row.
    pub(super) rows: Option<&'a RowSet>,
}

/// Bytes of chunks of labels, by their numbers.
#[derive(Default)]
pub(super) struct ReadChunks {
    chunks: BTreeMap<u32, Vec<u8>>,
    _memory: Option<Reservation>,
}

impl Question<'_> {
    /// Rows of a chunk of the stream table that may be of selected streams which are not known.
    fn unknown_rows(&self, chunk: Range<u32>, is_known: impl Fn(u32) -> bool) -> Vec<u32> {
        let Question { selector, segment, directory, .. } = self;
        let may_be = |&row: &u32| selector.may_have(segment, directory, row) && !is_known(row);
        match self.rows {
            None => chunk.filter(may_be).collect(),
            Some(rows) => rows.within(chunk).filter(may_be).collect(),
        }
    }

    /// Whether a chunk has streams of the selector's tenants.
    fn has_tenant_in(&self, chunk: &Range<u32>) -> bool {
        let tenants = self.selector.tenants.tenants();
        let mut overlapping = self
            .directory
            .tenants()
            .filter(|(_, rows)| rows.start < chunk.end && chunk.start < rows.end);
        overlapping.any(|(name, _)| tenants.iter().any(|tenant| tenant.as_str() == name))
    }

    /// Reads chunks of labels of a segment that is in the bucket with its end: side by side, since
    /// each read takes as long as reading a MiB does. What is not given, as without memory for all,
    /// is to be read chunk by chunk.
    pub(super) async fn read_ahead<R: Runtime>(
        &self,
        env: &ScanEnv<R>,
        chunks: Range<u32>,
        is_known: impl Fn(u32) -> bool,
        stats: &mut ScanStats,
    ) -> ReadChunks {
        let source = env.directories.files.get(&env.runtime, self.segment).await;
        if !matches!(source, Ok(SegmentSource::Stored(stored)) if !stored.has_tail()) {
            return ReadChunks::default();
        }
        let is_wanted = |chunk: &u32| {
            let streams = &self.directory.label_chunk(*chunk).streams;
            self.has_tenant_in(streams) && !self.unknown_rows(streams.clone(), &is_known).is_empty()
        };
        let wanted: Vec<u32> = chunks.filter(is_wanted).collect();
        let range_of = |&chunk: &u32| self.directory.label_chunk(chunk).place.range();
        let ranges: Vec<_> = wanted.iter().map(range_of).collect();
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        let Some(memory) = env.queries.try_reserve(bytes) else { return ReadChunks::default() };
        match read_all(env, self.segment, &ranges, stats).await {
            Ok(pieces) => {
                let chunks = wanted.into_iter().zip(pieces).collect();
                ReadChunks { chunks, _memory: Some(memory) }
            }
            // Whoever reads the chunk again tells what is wrong.
            Err(_) => ReadChunks::default(),
        }
    }

    /// The selected streams of a chunk that are not known, with the numbers of their rows. `stored`
    /// has the bytes of the chunk if they have been read.
    ///
    /// # Errors
    /// The labels cannot be read.
    pub(super) async fn in_chunk<R: Runtime>(
        &self,
        env: &ScanEnv<R>,
        (chunk, stored): (u32, Option<Vec<u8>>),
        is_known: impl Fn(u32) -> bool,
        aside: Option<SideQueue>,
        stats: &mut ScanStats,
    ) -> Result<Vec<FoundStream>, ReadError> {
        let info = self.directory.label_chunk(chunk);
        if !self.has_tenant_in(&info.streams) {
            return Ok(Vec::new());
        }
        let rows = self.unknown_rows(info.streams.clone(), is_known);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let stored = match stored {
            Some(stored) => stored,
            None => read(env, self.segment, info.place.range(), stats).await?,
        };
        let (directory, selector) = (Arc::clone(self.directory), Arc::clone(self.selector));
        let plan = self.plan.cloned();
        let mut decoder = env.decoders.take();
        let is_small = rows.len() <= ROWS_MAX_ON_CORE;
        let queue = aside.or((!is_small).then_some(SideQueue::Queries));
        let find = move || {
            let mut found = Vec::new();
            let each = |_: u32, tenant: &TenantId, id: StreamId, labels: Labels| {
                if !selector.accepts(tenant, &labels) {
                    return;
                }
                let labels = Arc::new(labels);
                let deletions = selector.deletions_of(tenant, &labels);
                let labels = selector.tenants.shown(tenant, &labels);
                if plan.as_ref().is_none_or(|plan| plan.reads_stream(&labels)) {
                    found.push(FoundStream { id, labels, deletions });
                }
            };
            let read = decoder.labels_of(&directory, chunk, &stored, &rows, each);
            (read.map(|()| found), decoder)
        };
        let (found, decoder) = env.compute(queue, find).await;
        env.decoders.give_back(decoder);
        Ok(found?)
    }
}

/// The streams of a scan as far as its core knows them.
#[derive(Debug, Default)]
pub(super) struct KnownStreams {
    pub(super) streams: ScanStreams,
    pub(super) wanted: WantedStreams,
    /// Streams that were answered and are not among the others, if their number is asked for.
    pub(super) counted: BTreeSet<StreamId>,
}

impl KnownStreams {
    /// Whether a stream is known, or was counted.
    pub(super) fn is_counted(&mut self, id: StreamId) -> bool {
        self.wanted.indices(&self.streams).contains_key(&id) || self.counted.contains(&id)
    }

    /// Notes a stream that was answered.
    pub(super) fn count(&mut self, id: StreamId) {
        self.counted.insert(id);
    }
}

impl<R: Runtime> Scan<'_, R> {
    /// Makes the selected streams of a segment known to the scan.
    ///
    /// # Errors
    /// The query ends.
    pub(super) async fn learn(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
        directory: &Arc<HeldDirectory>,
        rows: Option<&RowSet>,
    ) -> Result<(), ScanError> {
        let job = self.job;
        let Some(selector) = job.selector_for(index) else { return Ok(()) };
        let segment = &job.segments[index as usize];
        let plan = job.request.plan.reads_one_stream().then_some(&job.request.plan);
        let question = Question { selector, segment, directory, plan, rows };
        let count = directory.label_chunk_count();
        let mut read = ReadChunks::default();
        for chunk in 0..count {
            self.pause(leaf).await?;
            let KnownStreams { streams, wanted, .. } = &mut self.known;
            let known = wanted.indices(streams);
            let is_known = |row: u32| known.contains_key(&directory.stream_id(row));
            let mut of_labels = ScanStats::default();
            let stats = &mut of_labels;
            if chunk.is_multiple_of(CHUNKS_AHEAD) {
                let chunks = chunk..count.min(chunk + CHUNKS_AHEAD);
                read = question.read_ahead(self.env, chunks, is_known, stats).await;
            }
            let chunk = (chunk, read.chunks.remove(&chunk));
            let found = question.in_chunk(self.env, chunk, is_known, self.aside, stats).await;
            self.stats.add_waits(&of_labels);
            match found {
                Ok(found) => self.add_streams(leaf, found),
                Err(error) => {
                    self.stats.unreadable_parts += 1;
                    self.env.note_damage(segment, Some(directory), "stream table", &error);
                }
            }
        }
        self.pause(leaf).await
    }

    /// Takes streams into the scan. Without memory for them the leaf is stopped.
    fn add_streams(&mut self, leaf: &mut Leaf, found: Vec<FoundStream>) {
        if found.is_empty() || !leaf.executor.hold(found.iter().map(FoundStream::held_bytes).sum())
        {
            return;
        }
        if self.job.share.is_whole() {
            let counted = &self.known.counted;
            let fresh = found.iter().filter(|found| !counted.contains(&found.id));
            self.stats.streams += fresh.count() as u64;
        }
        let has_label = |name: &str| found.iter().any(|found| found.labels.get(name).is_some());
        self.conditions.retain(|condition| condition.holds(has_label));
        let KnownStreams { streams, wanted, .. } = &mut self.known;
        wanted.add(streams, &found);
        // Then nobody else has a clone of the streams, unless another core goes on with them.
        leaf.streams = ScanStreams::default();
        streams.add(found);
        leaf.set_streams(streams.clone());
    }
}

//! The half of a query that runs where the entries are.
//!
//! A shard compiles a [`LeafPlan`] once, then hands over the streams that the
//! plan's matchers select, block by block, in any order. Every call is bounded by
//! one block, so the shard yields between calls; between calls it also asks
//!
//! - [`LeafExecutor::wants`] whether a block of some time range can matter at all,
//! - [`LeafExecutor::is_done`] whether anything can,
//! - [`StreamState::needs`] which columns to read,
//! - [`LeafExecutor::held_bytes`] how much memory the query holds; the caller
//!   ends the query when that exceeds its budget.
//!
//! Blocks of one stream may be given to different executors: the partial results
//! carry all that is needed to put them together again. For a log query blocks
//! are best offered in query direction, newest or oldest first, so that the limit
//! ends the scan early.
//!
//! The executor stays on its core; [`LeafResult`] travels.

pub(crate) mod log;
pub(crate) mod range;
pub(crate) mod runs;
mod set_cache;

use std::rc::Rc;

use logsvc_proto::Labels;

use super::block::{BlockSummary, EntryBlock, MetadataColumn};
use super::error::{EvalError, PlanError};
use super::filter::Selection;
use super::params::Direction;
use super::pipeline::label_sets::{LabelSets, Reduction};
use super::pipeline::labels::{BaseLabels, EntryLabels};
use super::pipeline::{Entry, Pipeline};
use super::plan::{LeafKind, LeafPlan, SeriesLabels};
use crate::syntax::ast::GroupingKind;
use log::{LogCollector, LogPartial, Position, StreamKey};
use range::{EntryValue, RangeCollector, SumSeries};
use set_cache::SetCache;

/// The columns a leaf reads of a stream's blocks. Timestamps are always read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// The lengths of the lines (`line_ends`).
    pub line_lengths: bool,
    /// The bytes of the lines; implies `line_lengths`.
    pub lines: bool,
    /// Structured metadata.
    pub metadata: bool,
}

impl Needs {
    /// True when only timestamps are read.
    #[must_use]
    pub fn timestamps_only(&self) -> bool {
        !self.line_lengths && !self.metadata
    }
}

/// What a leaf has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafStats {
    /// Entries within the leaf's time range that were looked at.
    pub entries: u64,
    /// Bytes of the lines that were looked at.
    pub line_bytes: u64,
    /// Entries that passed the whole pipeline.
    pub entries_kept: u64,
    /// Blocks of which at least one column was read.
    pub blocks: u64,
    /// Blocks answered from the block directory alone.
    pub summaries: u64,
}

impl LeafStats {
    /// Adds the work of another leaf.
    pub fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.line_bytes += other.line_bytes;
        self.entries_kept += other.entries_kept;
        self.blocks += other.blocks;
        self.summaries += other.summaries;
    }
}

/// What an executor knows of one stream.
#[derive(Debug)]
pub struct StreamState {
    base: Rc<BaseLabels>,
    /// For the order of log entries.
    key: StreamKey,
    needs: Needs,
    /// Label set of the entries that no stage and no metadata touches.
    plain_set: u32,
}

impl StreamState {
    /// The columns to read of this stream's blocks; it depends on the stream,
    /// because grouping by stream labels needs no metadata. Columns that are not
    /// needed are ignored when they are there.
    ///
    /// Structured metadata with the reserved name `__error__` fails a metric query
    /// only where metadata is needed for another reason.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.base.held_bytes() + self.key.held_bytes()
    }
}

#[derive(Debug)]
enum Collector {
    Log(LogCollector),
    Range(RangeCollector),
}

/// Runs one leaf over the blocks of one core.
#[derive(Debug)]
pub struct LeafExecutor {
    plan: LeafPlan,
    pipeline: Pipeline,
    reduction: Reduction,
    labels: EntryLabels,
    label_sets: LabelSets,
    collector: Collector,
    selection: Selection,
    set_cache: SetCache,
    line_buffer: Vec<u8>,
    stats: LeafStats,
    failure: Option<EvalError>,
}

impl LeafExecutor {
    /// Compiles a leaf.
    ///
    /// # Errors
    /// None for the leaves of a [`super::plan::Plan`], which has compiled them
    /// once to report errors before the query is sent out.
    pub fn new(plan: &LeafPlan) -> Result<Self, PlanError> {
        let pipeline = Pipeline::compile(&plan.log)?;
        let mut labels = EntryLabels::new();
        let mut reduction = Reduction::Keep;
        let collector = match &plan.kind {
            LeafKind::Log { direction, limit, interval_ns } => {
                Collector::Log(LogCollector::new(*direction, *limit, *interval_ns))
            }
            LeafKind::Range { windows, value, series } => {
                reduction = reduction_of(series, &mut labels);
                Collector::Range(RangeCollector::new(*windows, *value))
            }
        };
        Ok(Self {
            plan: plan.clone(),
            pipeline,
            reduction,
            labels,
            label_sets: LabelSets::new(),
            collector,
            selection: Selection::default(),
            set_cache: SetCache::new(),
            line_buffer: Vec::new(),
            stats: LeafStats::default(),
            failure: None,
        })
    }

    /// Prepares a stream; `labels` are its stream labels.
    pub fn stream(&mut self, labels: &Labels) -> StreamState {
        let base = self.labels.base(labels);
        self.labels.start(&base);
        let (plain_set, key) = match &self.collector {
            Collector::Log(_) => {
                (self.label_sets.intern_categorized(&self.labels), StreamKey::new(labels))
            }
            Collector::Range(_) => {
                (self.label_sets.intern_reduced(&self.labels, &self.reduction), StreamKey::first())
            }
        };
        let needs = self.needs_of(&base);
        StreamState { base, key, needs, plain_set }
    }

    fn needs_of(&self, base: &BaseLabels) -> Needs {
        let reads_line = self.pipeline.reads_line();
        match &self.collector {
            Collector::Log(_) => Needs { line_lengths: true, lines: true, metadata: true },
            Collector::Range(range) => Needs {
                line_lengths: reads_line || range.value() == EntryValue::LineLength,
                lines: reads_line,
                metadata: !self.pipeline.is_front_only()
                    || match &self.reduction {
                        Reduction::By(names) => names.iter().any(|name| !base.has(*name)),
                        Reduction::Keep | Reduction::Without(_) => true,
                    },
            },
        }
    }

    /// False when no entry within these times (both included) can change the
    /// result any more, so that blocks of that range need not be read.
    #[must_use]
    pub fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        let overlaps =
            max_timestamp_ns >= self.plan.start_ns && min_timestamp_ns < self.plan.end_ns;
        overlaps
            && !self.is_done()
            && match &self.collector {
                Collector::Log(log) => log.wants(
                    min_timestamp_ns.max(self.plan.start_ns),
                    max_timestamp_ns.min(self.plan.end_ns - 1),
                ),
                Collector::Range(range) => range.wants(min_timestamp_ns, max_timestamp_ns),
            }
    }

    /// True when the query has failed on this leaf, so that nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.failure.is_some()
    }

    /// Heap memory of the executor in bytes, without the stream states.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let collector = match &self.collector {
            Collector::Log(log) => log.held_bytes(),
            Collector::Range(range) => range.held_bytes(),
        };
        collector
            + self.label_sets.held_bytes()
            + self.labels.held_bytes()
            + self.line_buffer.capacity()
    }

    /// The work done so far.
    #[must_use]
    pub fn stats(&self) -> LeafStats {
        self.stats
    }

    /// Offers a block by its directory entry alone. True when that was enough and
    /// the block must not be given to [`LeafExecutor::block`]: nothing but counts
    /// or lengths is asked, and all of its entries are seen by the same steps.
    pub fn summary(&mut self, stream: &StreamState, block: &BlockSummary) -> bool {
        let (min, max) = (block.min_timestamp_ns, block.max_timestamp_ns);
        let Collector::Range(range) = &mut self.collector else {
            return false;
        };
        let inside = min >= self.plan.start_ns && max < self.plan.end_ns;
        if stream.needs.lines || stream.needs.metadata || !inside {
            return false;
        }
        let cell = range.cell(min);
        if !cell.holds(max) {
            return false;
        }
        range.add(stream.plain_set, &cell, block.entries, block.line_bytes);
        self.stats.summaries += 1;
        self.stats.entries += block.entries;
        self.stats.entries_kept += block.entries;
        true
    }

    /// Takes a block of a stream, each block once.
    pub fn block(&mut self, stream: &mut StreamState, block: &EntryBlock<'_>) {
        if self.is_done() {
            return;
        }
        self.stats.blocks += 1;
        let (first, end) = self.bounds_of(block);
        if first >= end {
            return;
        }
        let whole_stream_is_one_series = !stream.needs.lines && !stream.needs.metadata;
        if whole_stream_is_one_series
            && block.sorted
            && let Collector::Range(range) = &mut self.collector
        {
            add_sorted(range, stream.plain_set, block, first, end);
            self.stats.entries += (end - first) as u64;
            self.stats.entries_kept += (end - first) as u64;
            return;
        }
        self.select(block, first, end);
        if stream.needs.lines {
            let lines = block.line_view();
            self.stats.line_bytes += (lines.end(end - 1) - lines.start(first)) as u64;
            self.pipeline.front().narrow(&lines, &mut self.selection);
        }
        self.set_cache.clear();
        let backward = matches!(&self.collector, Collector::Log(log) if log.direction() == Direction::Backward);
        // The selection is taken out so that the loop may borrow the rest.
        let selection = std::mem::take(&mut self.selection);
        if backward {
            for i in selection.iter().rev() {
                self.entry(stream, block, i);
            }
        } else {
            for i in selection.iter() {
                self.entry(stream, block, i);
            }
        }
        self.selection = selection;
    }

    /// The smallest index range that holds all entries within the leaf's times.
    fn bounds_of(&self, block: &EntryBlock<'_>) -> (usize, usize) {
        if !block.sorted {
            return (0, block.len());
        }
        let times = block.timestamps_ns;
        let first = times.partition_point(|&t| t < self.plan.start_ns);
        let end = first + times[first..].partition_point(|&t| t < self.plan.end_ns);
        (first, end)
    }

    /// Selects the entries that the leaf's times allow.
    fn select(&mut self, block: &EntryBlock<'_>, first: usize, end: usize) {
        self.selection.select(first, end);
        let times = block.timestamps_ns;
        if !block.sorted {
            let bounds = self.plan.start_ns..self.plan.end_ns;
            self.selection.retain(|i| bounds.contains(&times[i]));
        }
        if let Collector::Range(range) = &mut self.collector
            && range.has_gaps()
        {
            self.selection.retain(|i| !range.cell(times[i]).is_gap());
        }
        self.stats.entries += self.selection.count() as u64;
    }

    /// Runs one entry that passed the front filters.
    fn entry(&mut self, stream: &StreamState, block: &EntryBlock<'_>, i: usize) {
        let timestamp_ns = block.timestamps_ns[i];
        if let Collector::Log(log) = &self.collector
            && !log.admits(timestamp_ns)
        {
            return;
        }
        if self.is_done() {
            return;
        }
        let stored_line = if stream.needs.lines { block.line_view().get(i) } else { &[] };
        if self.pipeline.is_front_only() {
            let Some(set) = self.untouched_set(stream, block, i) else { return };
            let line_len = match &self.collector {
                Collector::Range(range) if range.value() == EntryValue::LineLength => {
                    let lines = block.line_view();
                    lines.end(i) - lines.start(i)
                }
                _ => 0,
            };
            self.stats.entries_kept += 1;
            match &mut self.collector {
                Collector::Log(log) => {
                    let position =
                        Position::new(timestamp_ns, &stream.key, block.arrival, i, log.direction());
                    log.add(position, set, stored_line);
                }
                Collector::Range(range) => {
                    let cell = range.cell(timestamp_ns);
                    range.add(set, &cell, 1, line_len as u64);
                }
            }
            return;
        }
        self.labels.start(&stream.base);
        if let MetadataColumn::Sets { set_ids, sets } = block.metadata {
            self.labels.add_metadata(sets.get(set_ids[i]));
        }
        let mut entry = Entry::new(stored_line, &mut self.line_buffer, &mut self.labels);
        if !self.pipeline.process(&mut entry) {
            return;
        }
        self.stats.entries_kept += 1;
        match &mut self.collector {
            Collector::Log(log) => {
                let position =
                    Position::new(timestamp_ns, &stream.key, block.arrival, i, log.direction());
                let line = entry.line();
                let set = self.label_sets.intern_categorized(entry.labels);
                log.add(position, set, line);
            }
            Collector::Range(range) => {
                let line_len = entry.line().len() as u64;
                match series_of(&mut self.label_sets, entry.labels, &self.reduction) {
                    Ok(series) => {
                        let cell = range.cell(timestamp_ns);
                        range.add(series, &cell, 1, line_len);
                    }
                    Err(error) => self.failure = Some(error),
                }
            }
        }
    }

    /// The label set of an entry that no stage touches. `None` when its metadata
    /// carries an error that fails the query.
    fn untouched_set(
        &mut self,
        stream: &StreamState,
        block: &EntryBlock<'_>,
        i: usize,
    ) -> Option<u32> {
        let MetadataColumn::Sets { set_ids, sets } = block.metadata else {
            return Some(stream.plain_set);
        };
        let metadata_set = set_ids[i];
        if metadata_set == 0 || !stream.needs.metadata {
            return Some(stream.plain_set);
        }
        if let Some(set) = self.set_cache.get(metadata_set) {
            return Some(set);
        }
        self.labels.start(&stream.base);
        self.labels.add_metadata(sets.get(metadata_set));
        let set = match &self.collector {
            Collector::Log(_) => self.label_sets.intern_categorized(&self.labels),
            Collector::Range(_) => {
                match series_of(&mut self.label_sets, &self.labels, &self.reduction) {
                    Ok(set) => set,
                    Err(error) => {
                        self.failure = Some(error);
                        return None;
                    }
                }
            }
        };
        self.set_cache.put(metadata_set, set);
        Some(set)
    }

    /// What the leaf found.
    #[must_use]
    pub fn finish(self) -> LeafResult {
        let data = match (self.failure, self.collector) {
            (Some(error), _) => LeafData::Failed(error),
            (None, Collector::Log(log)) => {
                LeafData::Log(log.finish(|set| self.label_sets.categorized(set, &self.labels)))
            }
            (None, Collector::Range(range)) => {
                LeafData::Sums(range.finish(&self.label_sets, &self.labels))
            }
        };
        LeafResult { leaf: self.plan.index, stats: self.stats, data }
    }
}

/// Adds the entries `first..end` of a sorted block, all of one series: one search
/// for each change of the steps that see them.
fn add_sorted(
    range: &mut RangeCollector,
    series: u32,
    block: &EntryBlock<'_>,
    first: usize,
    end: usize,
) {
    let times = block.timestamps_ns;
    let lines = block.line_view();
    let mut i = first;
    while i < end {
        let cell = range.cell(times[i]);
        let next = i + times[i..end].partition_point(|&t| t <= cell.max_ns);
        let line_bytes = match range.value() {
            EntryValue::One => 0,
            EntryValue::LineLength => (lines.end(next - 1) - lines.start(i)) as u64,
        };
        range.add(series, &cell, (next - i) as u64, line_bytes);
        i = next;
    }
}

/// The series of a sample, or the failure when it carries an error.
fn series_of(
    sets: &mut LabelSets,
    labels: &EntryLabels,
    reduction: &Reduction,
) -> Result<u32, EvalError> {
    let Some(error) = labels.error() else {
        return Ok(sets.intern_reduced(labels, reduction));
    };
    let error = String::from_utf8_lossy(error).into_owned();
    let id = sets.intern_reduced(labels, &Reduction::Keep);
    Err(EvalError::Pipeline { error, series: sets.labels(id, labels).canonical() })
}

fn reduction_of(series: &SeriesLabels, labels: &mut EntryLabels) -> Reduction {
    match series {
        SeriesLabels::All => Reduction::Keep,
        SeriesLabels::None => Reduction::By(Vec::new()),
        SeriesLabels::Grouped(grouping) => {
            let names =
                grouping.labels.iter().map(|name| labels.name_id(name.as_bytes())).collect();
            match grouping.kind {
                GroupingKind::By => Reduction::By(names),
                GroupingKind::Without => Reduction::Without(names),
            }
        }
    }
}

/// What a leaf found on one core. Owned and `Send`.
#[derive(Clone, PartialEq, Debug)]
pub struct LeafResult {
    pub(crate) leaf: usize,
    pub(crate) stats: LeafStats,
    pub(crate) data: LeafData,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LeafData {
    Log(LogPartial),
    Sums(Vec<SumSeries>),
    Failed(EvalError),
}

impl LeafResult {
    /// The work the leaf has done.
    #[must_use]
    pub fn stats(&self) -> LeafStats {
        self.stats
    }

    /// Memory of the result in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.data {
                LeafData::Log(partial) => partial.held_bytes(),
                LeafData::Sums(series) => series.iter().map(SumSeries::held_bytes).sum(),
                LeafData::Failed(_) => 0,
            }
    }
}

/// Crosses cores.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<LeafResult>();
    assert_send::<LeafPlan>();
};

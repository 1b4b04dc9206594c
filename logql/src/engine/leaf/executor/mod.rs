//! Runs a leaf over blocks; the module above describes the protocol.

mod counted;
mod entries;
mod filtered;
mod groups;
mod matches;
mod totals;

pub use self::totals::CountedBy;

use std::sync::Arc;

use logsvc_proto::Labels;

use self::groups::ListedGroups;
use super::hints::Hints;
use super::limit::SeriesGuard;
use super::listed_sets::ListedSets;
use super::log::{LogCollector, StreamKey};
use super::probe::Probe;
use super::range::RangeCollector;
use super::repeats::Repeats;
use super::series::reduction_of;
use super::set_cache::SetCache;
use super::sizes::MetadataShares;
use super::stream_groups::StreamGroups;
use super::unwrapped::UnwrappedCollector;
use super::{LeafData, LeafResult, LeafStats, Needs, StreamState, failure_bytes};
use crate::engine::abridge::Abridger;
use crate::engine::block::{EntryBlock, MetadataColumn, rows_within};
use crate::engine::error::{EvalError, PlanError};
use crate::engine::filter::Selection;
use crate::engine::labels::sets::{LabelSets, Reduction};
use crate::engine::labels::{BaseLabels, EntryLabels, NameId, Wanted};
use crate::engine::leaf::wanted::wanted;
use crate::engine::meter::{Allowance, Meter, Stop, Unlimited};
use crate::engine::params::Direction;
use crate::engine::patterns::PatternCollector;
use crate::engine::pipeline::Pipeline;
use crate::engine::pipeline::unwrap::Unwrap;
use crate::engine::plan::EntryValue;
use crate::engine::plan::{LeafKind, LeafPlan, SeriesLabels};

#[derive(Debug)]
enum Collector {
    Log(LogCollector),
    Range(RangeCollector),
    Samples {
        samples: UnwrappedCollector,
        unwrap: Unwrap,
    },
    Patterns(PatternCollector),
    /// The indices of the entries of the block that the pipeline keeps.
    Matches(Vec<u32>),
}

/// Ways to skip work without a change of the result.
#[derive(Debug, Default)]
struct Shortcuts {
    hints: Hints,
    probe: Option<Probe>,
    /// Whether the executor ignores metadata that the query does not read.
    skips_metadata: bool,
    /// Where counts are grouped by listed labels.
    listed_sets: Option<ListedSets>,
    /// Where the outcome of an entry may follow from its line alone.
    repeats: Option<Repeats>,
}

/// Runs one leaf over the blocks of one core.
#[derive(Debug)]
pub struct LeafExecutor {
    plan: LeafPlan,
    pipeline: Pipeline,
    shortcuts: Shortcuts,
    /// True when the labels of an entry follow from its stream and its metadata.
    labels_are_stored: bool,
    reduction: Reduction,
    /// Where the result depends on no label of a stream but the labels that the reduction lists.
    listed_groups: Option<ListedGroups>,
    /// Where labels of streams alone distinguish series.
    stream_groups: Option<StreamGroups>,
    label_sets: LabelSets,
    collector: Collector,
    /// Where the answer has a series for each that the leaf finds.
    guard: Option<SeriesGuard>,
    selection: Selection,
    set_cache: SetCache,
    /// The known bytes of metadata, for queries of the size of entries.
    sizes: MetadataShares,
    /// The key of streams whose order does not matter.
    no_key: StreamKey,
    line_buffer: Vec<u8>,
    /// Memory of the [`StreamState`]s that the executor has returned.
    states_bytes: usize,
    stats: LeafStats,
    failure: Option<EvalError>,
    /// The last field, since it has the meter: memory is freed before the meter gives it back.
    labels: EntryLabels,
}

impl LeafExecutor {
    /// Compiles a leaf.
    ///
    /// # Errors
    /// None for the leaves of a [`crate::engine::Plan`], which has compiled
    /// them once to report errors before the query is sent out.
    pub fn new(plan: &LeafPlan) -> Result<Self, PlanError> {
        Self::with_allowance(plan, Box::new(Unlimited))
    }

    /// Compiles a leaf that takes no more memory and work than it is allowed, the states of
    /// its streams included.
    ///
    /// # Errors
    /// As for [`LeafExecutor::new`].
    pub fn with_allowance(
        plan: &LeafPlan,
        allowance: Box<dyn Allowance>,
    ) -> Result<Self, PlanError> {
        Self::compile(plan, allowance, false)
    }

    /// The same; it notes the entries of a log query instead of collecting them, if so wanted.
    pub(in crate::engine::leaf) fn compile(
        plan: &LeafPlan,
        allowance: Box<dyn Allowance>,
        notes_matches: bool,
    ) -> Result<Self, PlanError> {
        let meter = Meter::new(allowance);
        // The client may be gone.
        meter.check_allowance();
        // The executor itself, wherever it is put.
        let _is_admitted = meter.admit(size_of::<Self>());
        let mut labels = EntryLabels::with_meter(meter);
        labels.meter().check().map_err(PlanError::Stopped)?;
        let wanted = wanted(&plan.kind, &plan.log, &mut labels);
        labels.want(&wanted);
        let keeps_line = match &plan.kind {
            LeafKind::Log { .. } | LeafKind::Patterns { .. } => true,
            LeafKind::Range { value, .. } => *value == EntryValue::LineLength,
            LeafKind::Samples { .. } => false,
        };
        let pipeline = Pipeline::compile(&plan.log, &wanted, keeps_line, &mut labels)?;
        let mut reduction = Reduction::Keep;
        let collector = match &plan.kind {
            _ if notes_matches => Collector::Matches(Vec::new()),
            LeafKind::Log { direction, limit, interval_ns, after, places } => {
                let log = LogCollector::new(*direction, *limit, *interval_ns);
                Collector::Log(log.after(*after).telling_places(*places))
            }
            LeafKind::Range { windows, value, series } => {
                reduction = reduction_of(series, None, &mut labels);
                Collector::Range(RangeCollector::new(*windows, *value))
            }
            LeafKind::Samples { windows, unwrap, series, keep } => {
                let unwrap = Unwrap::compile(unwrap, pipeline.guards_errors(), &mut labels)?;
                reduction = reduction_of(series, Some(unwrap.label()), &mut labels);
                Collector::Samples { samples: UnwrappedCollector::new(*windows, *keep), unwrap }
            }
            LeafKind::Patterns { step_ns } => Collector::Patterns(PatternCollector::new(*step_ns)),
        };
        let guard = plan.series_limit.as_ref().map(|limit| SeriesGuard::new(limit, &mut labels));
        let probe = match wanted {
            Wanted::All => Probe::new(plan, labels.meter().sibling()),
            _ => None,
        };
        let labels_are_stored =
            pipeline.is_front_only() && !matches!(collector, Collector::Samples { .. });
        let is_counted = matches!(&collector, Collector::Range(range)
            if range.value() != EntryValue::StoredSize);
        // Metadata is renamed where the stream has a label of its name, in every kind of leaf.
        let has_renamed = |listed: &[NameId]| {
            listed.iter().any(|&name| labels.name(name).ends_with(b"_extracted"))
        };
        let groups_streams = labels_are_stored
            && is_counted
            && matches!(&reduction, Reduction::By(listed) if !has_renamed(listed));
        let stream_groups = match &plan.kind {
            LeafKind::Range { series: SeriesLabels::Stream(by), .. } => Some(StreamGroups::new(by)),
            _ => None,
        };
        let listed_sets = match &reduction {
            Reduction::By(listed) if groups_streams => ListedSets::new(listed, &labels),
            _ => None,
        };
        let hints = Hints::new(plan, &mut labels);
        // Where a parser alone reads lines, equal lines have equal fields.
        let repeats = Abridger::new(plan, &labels).map(|_| Repeats::new());
        if repeats.is_some() {
            // They end the leaf if that is too much.
            let _ = labels.meter().admit(Repeats::BYTES);
        }
        let shortcuts = Shortcuts { hints, probe, skips_metadata: true, listed_sets, repeats };
        Ok(Self {
            plan: plan.clone(),
            shortcuts,
            labels_are_stored,
            pipeline,
            reduction,
            listed_groups: groups_streams.then(ListedGroups::default),
            stream_groups,
            labels,
            label_sets: LabelSets::new(),
            collector,
            guard,
            selection: Selection::default(),
            set_cache: SetCache::new(),
            sizes: MetadataShares::default(),
            no_key: StreamKey::first(),
            line_buffer: Vec::new(),
            states_bytes: 0,
            stats: LeafStats::default(),
            failure: None,
        })
    }

    /// The same without shortcuts: the pipeline alone reads entries. For tests; the answers are
    /// the same.
    #[must_use]
    pub fn without_shortcuts(self) -> Self {
        Self { shortcuts: Shortcuts::default(), ..self }
    }

    /// Prepares a stream; `labels` are its stream labels.
    pub fn stream(&mut self, labels: &Labels) -> StreamState {
        let state = self.state_of(labels);
        if self.listed_groups.is_none() {
            self.states_bytes += state.held_bytes();
        }
        state
    }

    fn state_of(&mut self, labels: &Labels) -> StreamState {
        if let Some(groups) = &mut self.stream_groups {
            let (base, key) = (Arc::default(), self.no_key.clone());
            let (plain_set, number) = {
                let meter = self.labels.meter();
                (groups.group(labels, meter), self.sizes.stream(meter))
            };
            let needs = self.needs_of(&base);
            let is_unread = false;
            return StreamState {
                base,
                probe_base: None,
                key,
                needs,
                plain_set,
                number,
                is_unread,
            };
        }
        if let (Some(groups), Reduction::By(listed)) = (&mut self.listed_groups, &self.reduction) {
            let group = self.label_sets.intern_listed(labels, listed, &self.labels);
            let base = groups.base(group, labels, listed, &self.labels);
            let (needs, key) = (self.needs_of(&base), self.no_key.clone());
            return StreamState {
                base,
                probe_base: None,
                key,
                needs,
                plain_set: group,
                number: 0,
                is_unread: false,
            };
        }
        let base = self.labels.base(labels);
        self.labels.start(&base);
        let (key, plain_set, number) = match &mut self.collector {
            Collector::Log(_) => {
                let set = self.label_sets.intern_categorized(&self.labels);
                (StreamKey::new(labels, self.labels.meter()), set, 0)
            }
            Collector::Range(_) => {
                let set = self.label_sets.intern_reduced(&self.labels, &self.reduction);
                (self.no_key.clone(), set, 0)
            }
            Collector::Samples { samples, .. } => {
                let meter = self.labels.meter();
                (self.no_key.clone(), 0, samples.stream(labels, meter))
            }
            Collector::Patterns(_) | Collector::Matches(_) => (self.no_key.clone(), 0, 0),
        };
        let needs = self.needs_of(&base);
        let probe_base = self.shortcuts.probe.as_mut().map(|probe| probe.base(labels));
        let is_read = |(names, _): (&[NameId], bool)| names.iter().any(|name| base.has(*name));
        let is_unread =
            self.shortcuts.repeats.is_some() && !self.labels.wanted_names().is_none_or(is_read);
        StreamState { base, probe_base, key, needs, plain_set, number, is_unread }
    }

    /// Whether the labels of streams make no difference, so that one [`StreamState`] serves
    /// for all.
    #[must_use]
    pub fn streams_are_alike(&self) -> bool {
        let is_one_group =
            self.listed_groups.is_some() && self.reduction == Reduction::By(Vec::new());
        let notes_lines =
            matches!(self.collector, Collector::Matches(_)) && self.pipeline.is_front_only();
        is_one_group || notes_lines
    }

    fn needs_of(&self, base: &BaseLabels) -> Needs {
        let reads_line = self.pipeline.reads_line();
        let is_of_streams = self.stream_groups.is_some();
        match &self.collector {
            Collector::Log(_) | Collector::Patterns(_) => {
                Needs { line_lengths: true, lines: true, metadata: true }
            }
            Collector::Samples { .. } => {
                Needs { line_lengths: reads_line, lines: reads_line, metadata: true }
            }
            Collector::Matches(_) => self.match_needs(),
            Collector::Range(range) => Needs {
                line_lengths: reads_line || range.value() != EntryValue::One,
                lines: reads_line,
                metadata: !self.labels_are_stored
                    || range.value() == EntryValue::StoredSize
                    || match &self.reduction {
                        _ if is_of_streams => false,
                        Reduction::By(names) => names.iter().any(|name| !base.has(*name)),
                        Reduction::Keep | Reduction::KeepBut(_) | Reduction::Without(_) => true,
                    },
            },
        }
    }

    /// False when structured metadata does not change the result as long as
    /// `may_have` is false for the names of all of it: blocks may then be given
    /// without. Asked for the few names that matter; always true where all labels
    /// are part of the result.
    pub fn reads_metadata(&self, may_have: impl Fn(&str) -> bool) -> bool {
        self.labels_are_stored || self.labels.reads_metadata(may_have)
    }

    /// False when no entry within these times (both included) can change the
    /// result, so that blocks of that range need not be read.
    #[must_use]
    pub fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        let (start_ns, end_ns) = self.plan.entry_bounds_ns();
        if self.is_done() || max_timestamp_ns < start_ns || min_timestamp_ns >= end_ns {
            return false;
        }
        let (min_ns, max_ns) = (min_timestamp_ns.max(start_ns), max_timestamp_ns.min(end_ns - 1));
        match &self.collector {
            Collector::Log(log) => log.wants(min_ns, max_ns),
            Collector::Range(range) => range.wants(min_ns, max_ns),
            Collector::Samples { samples, .. } => samples.wants(min_ns, max_ns),
            Collector::Patterns(_) | Collector::Matches(_) => true,
        }
    }

    /// True when the query has failed on this leaf, or was stopped, so that nothing is left to
    /// do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.failure.is_some() || self.stop().is_some()
    }

    /// The reason to end the leaf early, if there is one. The leaf has no result then.
    #[must_use]
    pub fn stop(&self) -> Option<Stop> {
        self.labels.meter().stop().or_else(|| self.shortcuts.probe.as_ref().and_then(Probe::stop))
    }

    /// Checks whether the work may go on; see [`LeafExecutor::stop`].
    pub fn check(&self) {
        self.labels.meter().check_allowance();
    }

    /// Asks for memory that the caller is about to allocate for this leaf, in bytes. False if
    /// there is none. [`LeafExecutor::held_bytes`] includes it from then on.
    #[must_use]
    pub fn hold(&mut self, bytes: usize) -> bool {
        self.states_bytes += bytes;
        self.labels.meter().admit(bytes)
    }

    /// Asks for memory, in bytes, that the caller needs until the end of the next block. False if
    /// there is none.
    #[must_use]
    pub fn admits(&self, bytes: usize) -> bool {
        self.labels.meter().work(bytes) && self.labels.meter().admit(bytes)
    }

    /// Gives back buffers that outliers have made large, and sets the bytes in use.
    fn reconcile(&mut self) {
        if let Some(probe) = &mut self.shortcuts.probe {
            probe.reconcile();
        }
        let meter = self.labels.meter();
        if meter.is_reconciled() {
            return;
        }
        meter.recycle(&mut self.line_buffer);
        self.label_sets.recycle(meter);
        self.pipeline.recycle(meter);
        self.labels.recycle();
        self.labels.meter().reconcile(self.own_bytes());
    }

    /// The plan for an executor that goes on where this one stops, on another core
    /// perhaps: this one with the times that can still matter. Its result is merged
    /// with this one's.
    #[must_use]
    pub fn rest_of_plan(&self) -> LeafPlan {
        let mut plan = self.plan.clone();
        (plan.start_ns, plan.end_ns) = self.open_bounds_ns();
        plan
    }

    /// The times, `start <= t < end`, of the entries that can still change the result: the times
    /// of the plan, until a limit of entries is reached.
    #[must_use]
    pub fn open_bounds_ns(&self) -> (i64, i64) {
        let bounds_ns = self.plan.entry_bounds_ns();
        match &self.collector {
            Collector::Log(log) => log.open_bounds_ns(bounds_ns),
            Collector::Range(_)
            | Collector::Samples { .. }
            | Collector::Patterns(_)
            | Collector::Matches(_) => bounds_ns,
        }
    }

    /// Heap memory of the executor and of the stream states that it has given out, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.own_bytes() + self.shortcuts.probe.as_ref().map_or(0, Probe::held_bytes)
    }

    /// The same without the probe, which counts for itself.
    fn own_bytes(&self) -> usize {
        let collector = match &self.collector {
            Collector::Log(log) => log.held_bytes(),
            Collector::Range(range) => range.held_bytes(),
            Collector::Samples { samples, unwrap } => samples.held_bytes() + unwrap.held_bytes(),
            Collector::Patterns(patterns) => patterns.held_bytes(),
            Collector::Matches(matches) => matches.capacity() * size_of::<u32>(),
        };
        size_of::<Self>()
            + collector
            + self.pipeline.held_bytes()
            + self.shortcuts.hints.held_bytes()
            + self.reduction.held_bytes()
            + self.listed_groups.as_ref().map_or(0, ListedGroups::held_bytes)
            + self.shortcuts.listed_sets.as_ref().map_or(0, ListedSets::held_bytes)
            + self.shortcuts.repeats.as_ref().map_or(0, |_| Repeats::BYTES)
            + self.selection.held_bytes()
            + self.failure.as_ref().map_or(0, failure_bytes)
            + self.guard.as_ref().map_or(0, SeriesGuard::held_bytes)
            + self.label_sets.held_bytes()
            + self.sizes.held_bytes()
            + self.stream_groups.as_ref().map_or(0, StreamGroups::held_bytes)
            + self.labels.held_bytes()
            + self.line_buffer.capacity()
            + self.states_bytes
    }

    /// The work done so far.
    #[must_use]
    pub fn stats(&self) -> LeafStats {
        self.stats
    }

    /// Ends the query if it has more series than it may.
    fn count_series(&mut self) {
        let fresh = match &mut self.collector {
            Collector::Range(range) => &mut range.fresh,
            Collector::Samples { samples, .. } => samples.fresh(),
            Collector::Log(_) | Collector::Patterns(_) | Collector::Matches(_) => return,
        };
        match &mut self.guard {
            None => fresh.clear(),
            Some(_) if fresh.is_empty() => {}
            Some(guard) => {
                let counted = guard.note(fresh, &self.label_sets, self.labels.meter());
                self.failure = self.failure.take().or(counted.err());
            }
        }
    }

    /// Takes a block of a stream, each block once. A leaf that is stopped midway skips the rest
    /// of the block.
    pub fn block(&mut self, stream: &mut StreamState, block: &EntryBlock<'_>) {
        if self.is_done() {
            return;
        }
        self.entries_of(stream, block);
        self.count_series();
        self.reconcile();
    }

    fn entries_of(&mut self, stream: &StreamState, block: &EntryBlock<'_>) {
        let mut block = *block;
        if self.shortcuts.skips_metadata
            && let MetadataColumn::Sets { sets, .. } = block.metadata
            && !self.reads_metadata(|name| sets.may_have_name(name))
        {
            block.metadata = MetadataColumn::None;
        }
        let block = &block;
        self.stats.blocks += 1;
        let (first, end) = self.bounds_of(block);
        if first >= end {
            return;
        }
        if block.sorted
            && let Collector::Range(range) = &mut self.collector
            && !stream.needs.lines
            && (!stream.needs.metadata || range.value() == EntryValue::StoredSize)
        {
            // One series.
            let sizes = &mut self.sizes;
            let meter = self.labels.meter();
            range.add_sorted(stream.plain_set, block, first, end, meter, |first, end| {
                sizes.read(stream.number, block, first, end)
            });
            self.stats.entries += (end - first) as u64;
            self.stats.entries_kept += (end - first) as u64;
            return;
        }
        if block.sorted && !stream.needs.lines && self.count_rows(stream, block, first, end) {
            return;
        }
        if !self.select(block, first, end) {
            return;
        }
        let lines = block.line_view();
        if stream.needs.lines {
            self.stats.line_bytes += (lines.end(end - 1) - lines.start(first)) as u64;
        }
        if block.sorted && matches!(self.collector, Collector::Log(_)) {
            // Other entries cannot be in the result, whatever their lines hold.
            let open = rows_within(block.timestamps_ns, self.open_bounds_ns());
            let open = open.start.max(first)..open.end.min(end);
            if open.is_empty() {
                return;
            }
            if !self.selection.select(open.start, open.end, self.labels.meter()) {
                return;
            }
        }
        if stream.needs.lines {
            let (selection, meter) = (&mut self.selection, self.labels.meter());
            self.pipeline.front().narrow(&lines, selection, meter);
            self.shortcuts.hints.narrow(&stream.base, &block.metadata, &lines, selection, meter);
            if meter.is_stopped() {
                return;
            }
        }
        self.take_selected(stream, block);
    }

    /// Takes the selected entries of a block.
    fn take_selected(&mut self, stream: &StreamState, block: &EntryBlock<'_>) {
        if self.count_selected(stream, block) {
            return;
        }
        self.set_cache.clear();
        // The selection is taken out so that the loop may borrow the rest.
        let selection = std::mem::take(&mut self.selection);
        if self.plan.direction() == Direction::Backward {
            selection.iter().rev().for_each(|i| self.entry(stream, block, i));
        } else {
            selection.iter().for_each(|i| self.entry(stream, block, i));
        }
        self.selection = selection;
    }

    /// The smallest index range that holds all entries within the leaf's times.
    fn bounds_of(&self, block: &EntryBlock<'_>) -> (usize, usize) {
        if !block.sorted {
            return (0, block.len());
        }
        let rows = rows_within(block.timestamps_ns, (self.plan.start_ns, self.plan.end_ns));
        (rows.start, rows.end)
    }

    /// Selects the entries that the leaf's times allow. False if there is no memory for that.
    fn select(&mut self, block: &EntryBlock<'_>, first: usize, end: usize) -> bool {
        let meter = self.labels.meter();
        if !self.selection.select(first, end, meter) || !meter.work((end - first) / 8) {
            return false;
        }
        let times = block.timestamps_ns;
        if !block.sorted {
            let bounds = self.plan.start_ns..self.plan.end_ns;
            self.selection.retain(|i| bounds.contains(&times[i]));
        }
        if self.plan.has_gaps() {
            match &mut self.collector {
                Collector::Log(_) | Collector::Patterns(_) | Collector::Matches(_) => {}
                Collector::Range(range) => self.selection.retain(|i| range.sees(times[i])),
                Collector::Samples { samples, .. } => {
                    self.selection.retain(|i| samples.sees(times[i]));
                }
            }
        }
        self.stats.entries += self.selection.count() as u64;
        true
    }

    /// The result of the leaf, and the allowance, from which the memory of the result alone is
    /// taken.
    ///
    /// # Errors
    /// The leaf had to end before its end, if only because there was no memory for its result.
    pub fn finish_counted(self) -> Result<(LeafResult, Box<dyn Allowance>), Stop> {
        if let Some(stop) = self.stop() {
            return Err(stop);
        }
        let (result, meter) = self.into_result();
        if let Some(stop) = meter.stop() {
            // The incomplete result is dropped before its memory is given back.
            drop(result);
            return Err(stop);
        }
        meter.reconcile_exactly(result.held_bytes());
        meter.into_allowance().map(|allowance| (result, allowance))
    }

    /// The result of the leaf; of no use if it was stopped.
    #[must_use]
    pub fn finish(self) -> LeafResult {
        self.into_result().0
    }

    fn into_result(self) -> (LeafResult, Meter) {
        let (sets, names) = (&self.label_sets, &self.labels);
        let meter = names.meter();
        let data = match (self.failure, self.collector) {
            (Some(error), _) => LeafData::Failed(error),
            (None, Collector::Log(log)) => {
                LeafData::Log(log.finish(|set| sets.categorized(set, names), meter))
            }
            (None, Collector::Range(range)) => {
                let groups = self.stream_groups.as_ref();
                let labels = |id| match groups {
                    Some(groups) => groups.labels(id),
                    None => sets.labels(id, names),
                };
                LeafData::Sums(range.finish(labels, meter))
            }
            (None, Collector::Samples { samples, .. }) => samples.finish(sets, names),
            (None, Collector::Patterns(patterns)) => LeafData::Patterns(patterns.finish(meter)),
            (None, Collector::Matches(_)) => unreachable!("matches are read block by block"),
        };
        let result = LeafResult { leaf: self.plan.index, stats: self.stats, data };
        (result, self.labels.into_meter())
    }
}

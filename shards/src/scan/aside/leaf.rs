//! Evaluates blocks: decodes the columns that were loaded, filters lines and feeds the engine.
//!
//! Nothing here does I/O or touches the core, so any thread may do it: a [`Leaf`] and a [`Batch`]
//! go to the thread and come back together.
//!
//! Guarantees: a batch that comes back has no item that was worked on in part. Each item is done,
//! once; or it is in the batch, with the columns noted that it misses; or the query ends, and the
//! item is left. A query ends within a block, because the leaf checks before each item.

use std::sync::Arc;

use ahash::HashMap;
use logsvc_logql::engine::{
    Abridger, BlockSummary, EntryBlock, LeafExecutor, LeafPlan, LeafResult, MetadataColumn, Needs,
    StreamState,
};
use logsvc_proto::Labels;
use logsvc_runtime::Grant;

use super::allowance::PartAllowance;
use super::batch::{Batch, BlockWork, Damage, Item, RunWork, StreamRun};
use super::columns::{OpenBlock, Unready};
use super::hiding::HidingSearches;
use super::metadata::{dictionary_bytes, intern, metadata_bytes};
use super::pairs::RequiredPairs;
use super::search::Searcher;
use crate::deletion::HiddenEntries;
use crate::scan::head_blocks::arrival;
use crate::scan::streams::ScanStreams;
use crate::scan::{HeadBlockRef, ScanError};
use crate::sealed::hasher;
use crate::types::ScanStats;
use logsvc_segment::{Decoder, RunInfo};

/// Goes from thread to thread.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Leaf>();
    assert_send::<Batch>();
};

/// The engine's state, and all that it needs besides columns.
#[derive(Debug)]
pub(in crate::scan) struct Leaf {
    pub(in crate::scan) executor: LeafExecutor,
    pub(in crate::scan) searcher: Option<Searcher>,
    /// What makes lines shorter, if a parser alone reads lines.
    pub(in crate::scan) abridger: Option<Abridger>,
    pub(super) pairs: RequiredPairs,
    /// By [`Leaf::state_index`].
    pub(in crate::scan) states: Vec<Option<StreamState>>,
    /// The states of streams that are counted together, by the label's value.
    groups: HashMap<Box<str>, StreamState>,
    /// Whether all streams have one state.
    streams_are_alike: bool,
    pub(in crate::scan) decoder: Decoder,
    pub(in crate::scan) stats: ScanStats,
    pub(super) hidden: HiddenEntries,
    pub(super) hiding_searches: HidingSearches,
    /// Why requests for deletion cannot be applied.
    pub(super) failure: Option<ScanError>,
    pub(in crate::scan) streams: ScanStreams,
    /// The times of the entries that the plan looks at.
    pub(in crate::scan) bounds_ns: (i64, i64),
}

impl Leaf {
    /// A leaf that has seen nothing.
    pub(in crate::scan) fn new(
        plan: &LeafPlan,
        streams: &ScanStreams,
        mut executor: LeafExecutor,
        hidden: HiddenEntries,
        decoder: Decoder,
    ) -> Leaf {
        let streams_are_alike = executor.streams_are_alike();
        let states = if streams_are_alike { 1 } else { streams.len() };
        let abridger = executor.abridger();
        let abridger_bytes = abridger.as_ref().map_or(0, |_| Abridger::MOST_BYTES);
        let states_bytes = states * size_of::<Option<StreamState>>();
        let has_memory = executor.hold(states_bytes + abridger_bytes);
        Leaf {
            searcher: Searcher::new(plan, &executor),
            abridger,
            pairs: RequiredPairs::new(plan),
            executor,
            // Without memory the leaf is stopped and asks for no state.
            states: (0..if has_memory { states } else { 0 }).map(|_| None).collect(),
            groups: HashMap::with_hasher(hasher()),
            streams_are_alike,
            decoder,
            stats: ScanStats::default(),
            hidden,
            hiding_searches: HidingSearches::default(),
            failure: None,
            streams: streams.clone(),
            bounds_ns: plan.entry_bounds_ns(),
        }
    }

    /// Takes over streams, of which the first are those that it had. Without memory for them the
    /// leaf is stopped.
    pub(in crate::scan) fn set_streams(&mut self, streams: ScanStreams) {
        if !self.streams_are_alike {
            let more = streams.len().saturating_sub(self.states.len());
            if self.executor.hold(more * size_of::<Option<StreamState>>()) {
                self.states.resize_with(streams.len(), || None);
            }
        }
        self.streams = streams;
    }

    /// Checks whether the query may go on.
    pub(in crate::scan) fn check(&self) -> Result<(), ScanError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.executor.check();
        self.executor.stop().map_or(Ok(()), |stop| Err(stop.into()))
    }

    /// The columns that the engine needs of a stream's blocks.
    pub(in crate::scan) fn needs(&mut self, stream: u32) -> Needs {
        self.state(stream).1.needs()
    }

    /// Whether the totals in the directory answer a run; the run is done then.
    pub(in crate::scan) fn is_answered_by_summary(&mut self, run: &RunInfo, stream: u32) -> bool {
        self.counted_as_sealed(|leaf| {
            let (executor, state) = leaf.state(stream);
            executor.summary(state, &run.summary())
        })
    }

    /// Whether the totals of a stream in a segment answer it; the stream is done there then.
    pub(in crate::scan) fn is_answered_by_totals(
        &mut self,
        totals: &BlockSummary,
        stream: u32,
    ) -> bool {
        self.counted_as_sealed(|leaf| {
            let (executor, state) = leaf.state(stream);
            executor.totals(state, totals)
        })
    }

    /// Whether the totals of streams with this label, which is all that the engine tells streams
    /// apart by, answer them together; they are done then. `None`: without the label.
    pub(in crate::scan) fn is_group_answered(
        &mut self,
        label: Option<(&str, &str)>,
        totals: &BlockSummary,
    ) -> bool {
        // No label has the empty value.
        let value = label.map_or("", |(_, value)| value);
        if !self.groups.contains_key(value) {
            let bytes = size_of::<(Box<str>, StreamState)>() + value.len();
            let Ok(labels) = Labels::from_result_pairs(label) else { return false };
            if !self.executor.hold(bytes) {
                return false;
            }
            self.groups.insert(value.into(), self.executor.stream(&labels));
        }
        self.counted_as_sealed(|leaf| {
            let state = leaf.groups.get(value);
            state.is_some_and(|state| leaf.executor.totals(state, totals))
        })
    }

    /// Whether the totals of a block of a head answer it; the block is done then.
    pub(in crate::scan) fn is_head_answered_by_summary(
        &mut self,
        stream: u32,
        part: &HeadBlockRef,
    ) -> bool {
        let (executor, state) = self.state(stream);
        if !executor.takes_summaries(state) {
            return false;
        }
        let (min_timestamp_ns, max_timestamp_ns) = part.time_bounds_ns();
        let block = &*part.block;
        let summary = BlockSummary {
            blocks: 1,
            min_timestamp_ns,
            max_timestamp_ns,
            entries: block.len() as u64,
            line_bytes: block.lines().len() as u64,
            metadata_bytes: executor.counts_metadata().then(|| block.metadata_text_bytes()),
        };
        executor.summary(state, &summary)
    }

    /// Works on a batch as far as it can: the items that are left miss columns, unless the query
    /// ends here.
    pub(in crate::scan) fn work(&mut self, batch: &mut Batch) {
        for mut item in std::mem::take(&mut batch.items) {
            if self.executor.is_done() || self.check().is_err() {
                return;
            }
            match &mut item {
                Item::Head { stream, block, hidden_by } => {
                    self.head_block(*stream, *block, hidden_by);
                }
                Item::Kept { stream, number, columns, hidden_by } => {
                    self.feed(*stream, &columns.block(*number), hidden_by);
                }
                Item::Block(work) => {
                    let end = self.counted_as_sealed(|leaf| leaf.sealed_block(work));
                    batch.fresh.append(&mut work.opened.take_fresh());
                    match end {
                        Ok(()) => {}
                        Err(Unready::Missing) => batch.items.push(item),
                        Err(Unready::Failed(error)) => {
                            let directory = Arc::clone(work.opened.directory());
                            batch.damages.push(Damage { segment: work.segment, directory, error });
                        }
                    }
                }
            }
        }
    }

    /// The result, and the memory of the query that it holds.
    pub(in crate::scan) fn finish(
        self: Box<Self>,
    ) -> (Result<(LeafResult, Grant), ScanError>, Decoder) {
        let Leaf { executor, decoder, states, hidden, .. } = *self;
        drop((states, hidden));
        let found = executor
            .finish_counted()
            .map(|(result, allowance)| (result, PartAllowance::into_grant(allowance)));
        (found.map_err(ScanError::from), decoder)
    }

    /// Counts the engine's work meanwhile as work on sealed blocks.
    fn counted_as_sealed<T>(&mut self, work: impl FnOnce(&mut Leaf) -> T) -> T {
        let before = self.executor.stats();
        let result = work(self);
        let after = self.executor.stats();
        self.stats.sealed_entries += after.entries - before.entries;
        self.stats.sealed_line_bytes += after.line_bytes - before.line_bytes;
        self.stats.sealed_entries_kept += after.entries_kept - before.entries_kept;
        result
    }

    /// The index of the engine's state of a stream.
    pub(in crate::scan) fn state_index(&self, stream: u32) -> usize {
        if self.streams_are_alike { 0 } else { stream as usize }
    }

    /// The engine and its state of a stream, which is made unless it is there.
    pub(super) fn state(&mut self, stream: u32) -> (&mut LeafExecutor, &mut StreamState) {
        let index = self.state_index(stream);
        let slot = &mut self.states[index];
        let state = match slot {
            Some(state) => state,
            None => slot.insert(self.executor.stream(self.streams.labels(stream))),
        };
        (&mut self.executor, state)
    }

    /// Gives the engine a block of a stream, without the entries that requests hide.
    fn feed(&mut self, stream: u32, block: &EntryBlock<'_>, hidden_by: &[u32]) {
        if hidden_by.is_empty() {
            let (executor, state) = self.state(stream);
            executor.block(state, block);
        } else {
            self.feed_shown(stream, block, hidden_by);
        }
    }

    fn sealed_block(&mut self, work: &mut BlockWork) -> Result<(), Unready> {
        while let Some(RunWork { stream_run, number, kept, hidden_by }) = work.runs.last() {
            let StreamRun { run, stream, .. } = stream_run;
            if self.executor.wants(run.min_ns, run.max_ns) {
                match kept {
                    Some(columns) => self.feed(*stream, &columns.block(*number), hidden_by),
                    None => self.run(&mut work.opened, run, *stream, *number, hidden_by)?,
                }
            }
            work.runs.pop();
        }
        Ok(())
    }

    fn run(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
        number: u64,
        hidden_by: &[u32],
    ) -> Result<(), Unready> {
        let left;
        let mut hidden_by = hidden_by;
        if !hidden_by.is_empty() && opened.is_tested {
            left = self.hiding_by_parts(opened, run, stream, hidden_by)?;
            hidden_by = &left;
            let (executor, state) = self.state(stream);
            if hidden_by.is_empty() && executor.summary(state, &run.summary()) {
                return Ok(());
            }
        }
        let needs = self.needs_with(stream, hidden_by);
        let is_done = hidden_by.is_empty()
            && (self.lacks_pairs(opened, run, stream)?
                || self.searched_run(opened, run, stream, number)?
                || self.abridged_run(opened, run, stream, number)?);
        if !is_done {
            let columns = opened.run(run, needs, &mut self.decoder, &mut self.stats)?;
            self.feed(stream, &columns.block(number), hidden_by);
        }
        Ok(())
    }

    fn head_block(&mut self, stream: u32, index: u32, hidden_by: &[u32]) {
        let streams = self.streams.clone();
        let part: &HeadBlockRef = &streams.head_blocks(stream)[index as usize];
        let block = &*part.block;
        let (min_ns, max_ns) = part.time_bounds_ns();
        if !self.executor.wants(min_ns, max_ns) {
            return;
        }
        let wants_metadata = block.has_metadata() && self.needs_with(stream, hidden_by).metadata;
        if wants_metadata && !self.executor.admits(dictionary_bytes(block)) {
            return;
        }
        let dictionary = wants_metadata.then(|| intern(block));
        let metadata = match &dictionary {
            Some((sets, set_ids)) => MetadataColumn::Sets { set_ids, sets },
            None => MetadataColumn::None,
        };
        let columns = EntryBlock {
            timestamps_ns: block.timestamps_ns(),
            line_ends: block.line_ends(),
            lines: block.lines(),
            metadata,
            arrival: arrival(part.generation, part.within),
            sorted: block.is_sorted(),
        };
        self.feed(stream, &columns, hidden_by);
        self.stats.head_blocks += 1;
        if wants_metadata {
            self.stats.head_metadata_bytes += metadata_bytes(block);
        }
    }
}

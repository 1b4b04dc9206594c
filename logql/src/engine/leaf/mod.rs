//! The half of a query that runs where the entries are.
//!
//! A shard compiles a [`LeafPlan`] once, then hands over the streams that the
//! plan's matchers select, block by block, in any order. Every call is bounded by
//! one block, so the shard yields between calls; between calls it also asks
//!
//! - [`LeafExecutor::wants`] whether a block of some time range can matter at all,
//! - [`LeafExecutor::is_done`] whether any block can matter,
//! - [`StreamState::needs`] which columns to read,
//! - [`LeafExecutor::reads_metadata`] whether the metadata of a block matters,
//! - [`LeafExecutor::stop`] whether the leaf has to end: it takes memory of an
//!   [`Allowance`](super::meter::Allowance) before it allocates, and checks there often,
//!   also within a block, whether it may go on.
//!
//! Blocks of one stream may be given to different executors: the partial results
//! carry all data that a merge needs. For a log query blocks are best offered in
//! query direction, newest or oldest first, so that the limit ends the scan early.
//!
//! Between calls an executor and its stream states may go to another thread.
//!
//! There is one collector per kind of leaf, each in a file of its own.

mod cells;
mod check;
mod cut;
mod entries;
mod executor;
mod hints;
mod limit;
mod listed_sets;
pub(crate) mod log;
mod probe;
pub(crate) mod range;
mod repeats;
pub(crate) mod runs;
pub(crate) mod samples;
mod series;
mod set_cache;
mod sizes;
pub(crate) mod state_table;
pub(crate) mod states;
mod stream_groups;
pub(crate) mod stream_numbers;
mod unwrapped;
pub(crate) mod values;
mod wanted;
mod wire;

use std::sync::Arc;

use super::error::EvalError;
use super::labels::BaseLabels;
use super::patterns::FoundTemplate;
use super::plan::LeafPlan;
pub use cut::{CutPart, lacking};
pub use entries::EntryMatcher;
pub use executor::{CountedBy, LeafExecutor};
use log::{LogPartial, StreamKey};
use range::SumSeries;
use samples::SamplePartial;
use states::StatePartial;
use values::ValueSeries;

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

/// Counters of the work of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeafStats {
    /// Entries within the leaf's time range that were read.
    pub entries: u64,
    /// Bytes of the lines that were read.
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
        self.entries = self.entries.saturating_add(other.entries);
        self.line_bytes = self.line_bytes.saturating_add(other.line_bytes);
        self.entries_kept = self.entries_kept.saturating_add(other.entries_kept);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.summaries = self.summaries.saturating_add(other.summaries);
    }
}

/// The state of one stream within an executor.
#[derive(Debug)]
pub struct StreamState {
    base: Arc<BaseLabels>,
    /// The labels of the stream for the probe.
    probe_base: Option<Arc<BaseLabels>>,
    /// For the order of log entries.
    key: StreamKey,
    needs: Needs,
    /// Label set of the entries that no stage and no metadata touches.
    plain_set: u32,
    /// The stream's number in samples.
    number: u32,
    /// Whether the query reads no label of the stream.
    is_unread: bool,
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
        let probe = self.probe_base.as_ref().map_or(0, |base| base.held_bytes());
        self.base.held_bytes() + probe + self.key.held_bytes()
    }
}

/// The partial result of a leaf on one core. Owned and `Send`.
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
    Samples(SamplePartial),
    Values(Vec<ValueSeries>),
    States(StatePartial),
    Patterns(Vec<FoundTemplate>),
    Failed(EvalError),
}

/// Heap memory of a failure in bytes.
fn failure_bytes(failure: &EvalError) -> usize {
    match failure {
        EvalError::Pipeline { error, series } => error.capacity() + series.capacity(),
        _ => 0,
    }
}

impl LeafResult {
    /// Whether the query ends with this, whatever other parts hold: there are too many series.
    #[must_use]
    pub fn ends_query(&self) -> bool {
        matches!(self.data, LeafData::Failed(EvalError::TooManySeries { .. }))
    }

    /// The number of its leaf in the plan.
    #[must_use]
    pub fn leaf(&self) -> usize {
        self.leaf
    }

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
                LeafData::Samples(partial) => partial.held_bytes(),
                LeafData::Values(series) => series.iter().map(ValueSeries::held_bytes).sum(),
                LeafData::States(partial) => partial.held_bytes(),
                LeafData::Patterns(found) => found.iter().map(FoundTemplate::held_bytes).sum(),
                LeafData::Failed(error) => failure_bytes(error),
            }
    }
}

/// Crosses threads.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<LeafExecutor>();
    assert_send::<StreamState>();
    assert_send::<LeafResult>();
    assert_send::<LeafPlan>();
};

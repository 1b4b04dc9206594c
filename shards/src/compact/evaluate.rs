//! The part of a search for hidden entries that runs on a side thread.
//!
//! The core reads a block and says which of its runs are asked about. An [`Evaluator`] decodes the
//! block and applies the filters of the targets. It owns everything that it needs, and comes back
//! with the results.
//!
//! Memory: the decoded block, and for each target with stages what its pipeline holds, up to
//! [`PIPELINE_MAX_BYTES`]. It fails if the block is damaged, if a pipeline takes more memory, or
//! if the shard stops.

use std::sync::Arc;

use logsvc_logql::engine::{Allowance, EntryBlock, MetadataColumn, PlanError, Stop};
use logsvc_runtime::give_way;

use super::block::StoredBlock;
use super::marked::MarkedRun;
use super::throttle::{Activity, Throttle};
use crate::deletion::{HiddenEntries, Hiding, PurgeTarget, RemovedTotals, SelectedStream};
use logsvc_segment::{BlockMetadata, ColumnKind, Decoder, RunInfo, SegmentError};

/// The memory that the pipeline of one target may take.
const PIPELINE_MAX_BYTES: u64 = 64 << 20;

/// A run that may have hidden entries.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) run: RunInfo,
    /// The stream, by its place among the selected ones.
    pub(super) stream: u32,
    /// The targets that may hide entries of the run, by their numbers, rising.
    pub(super) targets: Vec<u16>,
}

/// The hidden entries of the runs of a block.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) evaluator: Box<Evaluator>,
    /// The runs with hidden entries, by their numbers.
    pub(super) marked: Vec<(u32, MarkedRun)>,
}

/// Why a block cannot be evaluated.
#[derive(Debug)]
pub(super) enum EvaluationError {
    Damaged(SegmentError),
    /// The query of a target cannot be evaluated, or its allowance stops it.
    Query(PlanError),
}

impl From<SegmentError> for EvaluationError {
    fn from(error: SegmentError) -> EvaluationError {
        EvaluationError::Damaged(error)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Evaluator {
    targets: Arc<[PurgeTarget]>,
    streams: Arc<[SelectedStream]>,
    decoder: Decoder,
    filters: HiddenEntries,
    /// The entries that each target hides, so far.
    totals: Vec<RemovedTotals>,
}

impl Evaluator {
    pub(super) fn new(
        targets: Arc<[PurgeTarget]>,
        streams: Arc<[SelectedStream]>,
        throttle: Arc<Throttle>,
    ) -> Box<Evaluator> {
        let filters = HiddenEntries::new(Box::new(PurgeAllowance::new(throttle)));
        let totals = vec![RemovedTotals::default(); targets.len()];
        Box::new(Evaluator { targets, streams, decoder: Decoder::new(), filters, totals })
    }

    /// Counts entries of a run that go without a look.
    pub(super) fn count_whole(&mut self, target: u16, run: &RunInfo) {
        self.totals[usize::from(target)].add(RemovedTotals {
            entries: run.entries.len() as u64,
            line_bytes: run.line_bytes.len() as u64,
        });
    }

    /// The entries that each target hides.
    pub(super) fn into_totals(self) -> Vec<RemovedTotals> {
        self.totals
    }

    /// Answers the questions about a block. The columns of lines and metadata may be empty if no
    /// target of them has stages.
    pub(super) fn run(
        mut self: Box<Self>,
        stored: &StoredBlock,
        questions: &[Question],
    ) -> Result<Answers, EvaluationError> {
        let has_stages = |&target: &u16| self.targets[usize::from(target)].filter.plan.is_some();
        let needs_lines = questions.iter().flat_map(|question| &question.targets).any(has_stages);
        let columns = Columns::decode(&mut self.decoder, stored, needs_lines)?;
        let mut marked = Vec::new();
        for question in questions {
            let is_hidden = self.ask(&columns, question)?;
            marked.extend(MarkedRun::of(&is_hidden).map(|run| (question.run.run, run)));
        }
        Ok(Answers { evaluator: self, marked })
    }

    /// Which entries of a run are hidden.
    fn ask(
        &mut self,
        columns: &Columns,
        question: &Question,
    ) -> Result<Vec<bool>, EvaluationError> {
        let block = columns.run(&question.run);
        let labels = &self.streams[question.stream as usize].labels;
        let filters = question.targets.iter().map(|&number| {
            let target = &self.targets[usize::from(number)];
            let (start_ns, end_ns) = target.bounds_ns();
            Hiding { filter: &target.filter, start_ns, end_ns }
        });
        let mut is_hidden = vec![false; block.len()];
        let totals = &mut self.totals;
        let note = |filter: usize, row: usize| {
            let line_start = row.checked_sub(1).map_or(0, |before| block.line_ends[before]);
            let line_bytes = u64::from(block.line_ends[row] - line_start);
            let target = usize::from(question.targets[filter]);
            totals[target].add(RemovedTotals { entries: 1, line_bytes });
        };
        let marked = self.filters.mark(filters, labels, &block, &mut is_hidden, note);
        marked.map_err(EvaluationError::Query)?;
        Ok(is_hidden)
    }
}

/// The columns of a block in the form that the engine takes.
struct Columns {
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    /// Empty if they are not needed.
    lines: Option<Vec<u8>>,
    metadata: Option<BlockMetadata>,
}

impl Columns {
    fn decode(
        decoder: &mut Decoder,
        stored: &StoredBlock,
        needs_lines: bool,
    ) -> Result<Columns, SegmentError> {
        let StoredBlock { directory, block, columns, .. } = stored;
        let bytes = |kind| columns.get(kind);
        let timestamps_ns = decoder.timestamps(directory, *block, bytes(ColumnKind::Timestamps))?;
        let line_ends = decoder.line_ends(directory, *block, bytes(ColumnKind::Lengths))?;
        let (mut lines, mut metadata) = (None, None);
        if needs_lines {
            let stored = bytes(ColumnKind::Lines);
            lines = Some(decoder.lines(directory, *block, stored, &timestamps_ns)?);
            metadata = decoder.metadata(directory, *block, bytes(ColumnKind::Metadata))?;
        }
        Ok(Columns { timestamps_ns, line_ends, lines, metadata })
    }

    fn run(&self, run: &RunInfo) -> EntryBlock<'_> {
        let metadata = self.metadata.as_ref().filter(|_| run.has_metadata);
        EntryBlock {
            timestamps_ns: run.of_entries(&self.timestamps_ns),
            line_ends: run.of_entries(&self.line_ends),
            lines: self.lines.as_ref().map_or(&[], |lines| run.of_lines(lines)),
            metadata: match metadata {
                None => MetadataColumn::None,
                Some(column) => MetadataColumn::Sets {
                    set_ids: run.of_entries(&column.set_ids),
                    sets: &column.sets,
                },
            },
            arrival: u64::from(run.run),
            sorted: true,
        }
    }
}

/// The memory of one pipeline, and time until the shard stops.
#[derive(Debug)]
struct PurgeAllowance {
    taken_bytes: u64,
    throttle: Arc<Throttle>,
}

impl PurgeAllowance {
    fn new(throttle: Arc<Throttle>) -> PurgeAllowance {
        PurgeAllowance { taken_bytes: 0, throttle }
    }
}

impl Allowance for PurgeAllowance {
    fn take(&mut self, bytes: u64) -> Result<(), Stop> {
        let taken_bytes = self.taken_bytes.saturating_add(bytes);
        if taken_bytes > PIPELINE_MAX_BYTES {
            return Err(Stop::TooLarge { max_bytes: PIPELINE_MAX_BYTES });
        }
        self.taken_bytes = taken_bytes;
        Ok(())
    }

    fn give_back(&mut self, bytes: u64) {
        self.taken_bytes = self.taken_bytes.saturating_sub(bytes);
    }

    fn check(&mut self) -> Result<(), Stop> {
        give_way();
        if self.throttle.get() == Activity::Stopping { Err(Stop::Ended) } else { Ok(()) }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(PurgeAllowance::new(Arc::clone(&self.throttle)))
    }
}

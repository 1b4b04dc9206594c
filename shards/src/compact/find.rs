//! Finds the entries of a segment that a purge has to remove.
//!
//! The directory says which runs the targets overlap. A run of which a target without stages has
//! all times goes unread. Of the others, the filters of the segment rule out blocks that lack a
//! text or metadata of the query. What is left is read block by block, and evaluated on a side
//! thread ([`super::evaluate`]), with a rest after each block.
//!
//! Guarantees: every hidden entry of the shard's streams is found, unless the result says that the
//! search ended early. An entry that several targets hide counts for the first. Filters with
//! damaged bytes rule nothing out. It fails if the disk refuses, if a block is damaged, or if the
//! shard stops.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use logsvc_runtime::Runtime;

use super::aside::QUEUE;
use super::evaluate::{EvaluationError, Evaluator, Question};
use super::input::Input;
use super::marked::{MarkedEntries, MarkedRun};
use super::throttle::Pace;
use super::{CompactError, PurgeJob};
use crate::deletion::{PurgeTarget, RemovedTotals, SelectedStream};
use crate::sealed::{HeldDirectory, conditions_of};
use logsvc_logql::engine::{PlanError, Stop};
use logsvc_segment::filter::BlockSet;
use logsvc_segment::{Directory, RunInfo};

/// Streams whose runs are looked at before others get their turn.
const STREAMS_PER_TURN: usize = 4096;

/// The hidden entries of a segment.
pub(super) struct Found {
    pub(super) marked: MarkedEntries,
    /// Of each target.
    pub(super) totals: Vec<RemovedTotals>,
    /// Whether there are no others.
    pub(super) is_complete: bool,
}

impl Found {
    /// The number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.totals.iter().map(|totals| totals.entries).sum()
    }
}

/// A search under way.
struct Search<'a, R: Runtime> {
    runtime: &'a R,
    input: &'a mut Input<R>,
    pace: Pace<'a>,
    targets: Arc<[PurgeTarget]>,
    /// The selected streams of the segment, by their rows.
    streams: Arc<[SelectedStream]>,
    /// Of each target, the blocks that may have hidden entries.
    candidates: Vec<BlockSet>,
    /// Away while it runs on a side thread, and for good after it has failed.
    evaluator: Option<Box<Evaluator>>,
    marked: MarkedEntries,
    /// See [`super::marked`].
    bits_max_bytes: usize,
}

/// The entries of a run that are to be removed, as far as the directory tells.
enum Fate {
    Stays,
    /// All of them, for this target.
    Goes(u16),
    /// These targets decide.
    Unknown(Vec<u16>),
}

impl<'a, R: Runtime> Search<'a, R> {
    /// The runs of a selected stream.
    fn fate(&self, run: &RunInfo, stream: &SelectedStream) -> Fate {
        let mut undecided = Vec::new();
        for &number in &stream.targets {
            let target = &self.targets[usize::from(number)];
            // A request that was cancelled meanwhile hides nothing, so new entries of it stay.
            if target.filter.is_ended() || !target.overlaps(run.min_ns, run.max_ns) {
                continue;
            }
            if !target.has_all(run.min_ns, run.max_ns) {
                undecided.push(number);
            } else if undecided.is_empty() {
                return Fate::Goes(number);
            } else {
                // The targets before it count their entries.
                undecided.push(number);
                break;
            }
        }
        if undecided.is_empty() { Fate::Stays } else { Fate::Unknown(undecided) }
    }

    /// Finds the blocks that may have entries of each target.
    async fn find_candidates(&mut self) -> Result<(), CompactError> {
        let directory = Arc::clone(&self.input.directory);
        let blocks = directory.block_count() as usize;
        let mut sets = vec![BlockSet::empty(blocks); self.targets.len()];
        for streams in self.streams.chunks(STREAMS_PER_TURN) {
            for stream in streams {
                for run in directory.runs_of_stream(stream.row) {
                    if let Fate::Unknown(targets) = self.fate(&run, stream) {
                        for target in targets {
                            sets[usize::from(target)].insert(run.block as usize);
                        }
                    }
                }
            }
            self.runtime.yield_now().await;
        }
        for (number, set) in sets.into_iter().enumerate() {
            let set = self.filtered(&directory, number, set).await?;
            self.candidates.push(set);
        }
        Ok(())
    }

    /// The blocks of a set that may have entries of a target, by the filters of the segment.
    async fn filtered(
        &mut self,
        directory: &HeldDirectory,
        number: usize,
        set: BlockSet,
    ) -> Result<BlockSet, CompactError> {
        let Some(plan) = &self.targets[number].filter.plan else { return Ok(set) };
        if set.is_empty() {
            return Ok(set);
        }
        let conditions = conditions_of(plan, |name| {
            let is_its = |stream: &&SelectedStream| stream.targets.contains(&(number as u16));
            let mut of_target = self.streams.iter().filter(is_its);
            of_target.any(|stream| stream.labels.get(name).is_some())
        });
        if conditions.is_empty() {
            return Ok(set);
        }
        let region = self.input.segment.footer.filters_range();
        let mut probe = directory.filters().probe(conditions, set.clone());
        while let Some(ranges) = probe.next_reads() {
            let ranges: Vec<Range<u64>> = ranges.to_vec();
            let mut pieces = Vec::with_capacity(ranges.len());
            for range in ranges {
                let range = region.start + range.start..region.start + range.end;
                pieces.push(self.input.read(range).await?);
            }
            if let Err(error) = probe.supply(&pieces) {
                tracing::error!(
                    file = %self.input.segment.path.display(), %error,
                    "the filters of a segment are damaged; all of its blocks are searched"
                );
                return Ok(set);
            }
        }
        Ok(probe.into_candidates())
    }

    /// Walks through the runs of the selected streams; gives whether it came to the end.
    async fn walk(&mut self) -> Result<bool, CompactError> {
        let directory = Arc::clone(&self.input.directory);
        let streams = Arc::clone(&self.streams);
        // Runs of one block follow each other.
        let mut questions: Vec<Question> = Vec::new();
        for (stream, selected) in (0..).zip(streams.iter()) {
            if (stream as usize).is_multiple_of(STREAMS_PER_TURN) {
                self.pace.rest(self.runtime).await?;
            }
            for run in directory.runs_of_stream(selected.row) {
                match self.fate(&run, selected) {
                    Fate::Stays => {}
                    Fate::Goes(target) => {
                        self.evaluator()?.count_whole(target, &run);
                        self.marked.insert(run.run, MarkedRun::All);
                    }
                    Fate::Unknown(mut targets) => {
                        let block = run.block as usize;
                        targets.retain(|&t| self.candidates[usize::from(t)].contains(block));
                        if targets.is_empty() {
                            continue;
                        }
                        if questions.last().is_some_and(|last| last.run.block != run.block) {
                            self.ask(&directory, std::mem::take(&mut questions)).await?;
                        }
                        if self.marked.bits_bytes() >= self.bits_max_bytes {
                            return Ok(false);
                        }
                        questions.push(Question { run, stream, targets });
                    }
                }
            }
        }
        self.ask(&directory, questions).await?;
        Ok(true)
    }

    fn evaluator(&mut self) -> io::Result<&mut Box<Evaluator>> {
        let gone = || io::Error::other("a search that has failed does not go on");
        self.evaluator.as_mut().ok_or_else(gone)
    }

    /// Evaluates runs of one block.
    async fn ask(
        &mut self,
        directory: &Directory,
        questions: Vec<Question>,
    ) -> Result<(), CompactError> {
        let Some(first) = questions.first() else { return Ok(()) };
        let block = first.run.block;
        let has_stages = |&t: &u16| self.targets[usize::from(t)].filter.plan.is_some();
        let needs_lines = questions.iter().flat_map(|question| &question.targets).any(has_stages);
        let stored = match needs_lines {
            true => self.input.stored(0, block).await?,
            false => self.input.stored_times(&directory.block(block)).await?,
        };
        self.evaluator()?;
        let Some(evaluator) = self.evaluator.take() else { return Ok(()) };
        let evaluate = move || evaluator.run(&stored, &questions);
        let answers = self.runtime.offload_to(QUEUE, evaluate).await;
        let answers = answers.map_err(|error| self.error_of(error))?;
        for (run, hidden) in answers.marked {
            self.marked.insert(run, hidden);
        }
        self.evaluator = Some(answers.evaluator);
        self.pace.rest(self.runtime).await?;
        Ok(())
    }

    fn error_of(&self, error: EvaluationError) -> CompactError {
        match error {
            EvaluationError::Damaged(error) => self.input.damaged(error),
            EvaluationError::Query(PlanError::Stopped(Stop::Ended)) => CompactError::Stopped,
            EvaluationError::Query(error) => io::Error::other(error.to_string()).into(),
        }
    }
}

/// Finds the entries of a segment that the targets of a job hide, in the streams that they select. The search ends early when their
/// bits take so many bytes.
pub(super) async fn find<R: Runtime>(
    runtime: &R,
    input: &mut Input<R>,
    job: &PurgeJob,
    streams: Arc<[SelectedStream]>,
    bits_max_bytes: usize,
) -> Result<Found, CompactError> {
    let targets = Arc::clone(&job.targets);
    let throttle = Arc::clone(&job.throttle);
    let evaluator = Evaluator::new(Arc::clone(&targets), Arc::clone(&streams), throttle);
    let mut search = Search {
        runtime,
        input,
        pace: Pace::new(runtime, &job.throttle),
        targets,
        streams,
        candidates: Vec::new(),
        evaluator: Some(evaluator),
        marked: MarkedEntries::default(),
        bits_max_bytes,
    };
    search.find_candidates().await?;
    let is_complete = search.walk().await?;
    let Search { evaluator, marked, .. } = search;
    let totals = evaluator.map(|evaluator| evaluator.into_totals()).unwrap_or_default();
    Ok(Found { marked, totals, is_complete })
}

//! Merges segments into one, stream by stream.
//!
//! Guarantees: queries find the same entries in the output as in the inputs. The entries of a
//! stream are in the order of time, and entries of equal time in the order of the segments. Of
//! equal entries in different segments the first one stays. Memory: a few blocks per input, the
//! steps that are gathered for the side thread, and the writer's.
//!
//! A run that no other input's run of the stream overlaps is taken over whole. Runs that overlap
//! are merged entry by entry. Large blocks of one stream are copied as they are stored, with
//! their filters; a stream has large blocks if it was sealed or merged with enough lines. All
//! other streams, with a little in each segment, are encoded once more.
//!
//! The core decides here about the next entries and blocks, and decodes the blocks of drafts. Side
//! threads ([`super::aside`]) compute the rest, so that everything else on the core can pass at any
//! time.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use ahash::AHashSet;
use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;

use super::CompactError;
use super::aside::{
    BLOCKS_IN_A_ROW, EndChunk, MergeWorker, QUEUE, Step, StepResults, WholeBlock, WorkError,
    next_end_chunk,
};
use super::block::{Block, StoredBlock};
use super::input::Input;
use super::repeats::{Decoded, clear_repeats};
use super::source::{OpenRun, Source, entries_of, overlaps_others};
use super::throttle::{Pace, Throttle};
use crate::retention::{CompactionFilter, FilterDecision, RunView};
use crate::sealed::{NewSegment, SegmentFolder, hasher};
use crate::types::StreamDefinition;
use logsvc_segment::{Decoder, Finished, MergedPlace, RunInfo, WriterBuffers, stream_order};

/// Bytes of lines that are gathered for one batch of steps, unless a block has to be decoded
/// earlier. The batch takes about two milliseconds. Steps hold the blocks of these lines, besides
/// the blocks that the inputs keep.
const STEPS_MAX_BYTES: usize = 512 << 10;

/// And at most so many steps, which take the core a fraction of a millisecond.
const STEPS_MAX: usize = 512;

/// Runs of together fewer entries are compared on the core.
const COMPARED_HERE: usize = 256;

/// A merge under way.
pub(super) struct Merge<'a, R: Runtime> {
    folder: &'a SegmentFolder<R>,
    inputs: Vec<Input<R>>,
    keep: &'a mut dyn CompactionFilter,
    pace: Pace<'a>,
    /// Away while it runs steps on a side thread, and for good after it has failed.
    worker: Option<Box<MergeWorker>>,
    /// For blocks that are stored as they are.
    decoder: Decoder,
    /// The steps that were gathered for the side thread, and about how many bytes they read.
    steps: Vec<Step>,
    gathered_bytes: usize,
    output: &'a mut NewSegment<R>,
    /// The streams that may repeat entries of segments before the inputs.
    late: Arc<AHashSet<StreamId>>,
    read: ReadTotals,
}

/// The sizes of the streams that were merged, as the inputs have them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTotals {
    pub(super) entries: u64,
    /// Of their lines.
    pub(super) line_bytes: u64,
}

impl<'a, R: Runtime> Merge<'a, R> {
    pub(super) fn new(
        folder: &'a SegmentFolder<R>,
        inputs: Vec<Input<R>>,
        keep: &'a mut dyn CompactionFilter,
        throttle: &'a Throttle,
        place: MergedPlace,
        buffers: Option<WriterBuffers>,
        output: &'a mut NewSegment<R>,
    ) -> Result<Merge<'a, R>, CompactError> {
        let buffers = buffers.map_or_else(WriterBuffers::new, Ok)?;
        let worker = Some(MergeWorker::new(folder.identity(output), place, buffers));
        let pace = Pace::new(&folder.runtime, throttle);
        let (steps, gathered_bytes) = (Vec::new(), 0);
        let (decoder, read) = (Decoder::new(), ReadTotals::default());
        Ok(Merge {
            folder,
            inputs,
            keep,
            pace,
            worker,
            decoder,
            steps,
            gathered_bytes,
            output,
            late: Arc::new(AHashSet::with_hasher(hasher())),
            read,
        })
    }

    /// The same merge, with streams that may repeat entries of segments before the inputs.
    pub(super) fn with_late_streams(self, late: Arc<AHashSet<StreamId>>) -> Merge<'a, R> {
        Merge { late, ..self }
    }

    /// Writes everything but the last bytes; `None` if nothing is left.
    pub(super) async fn run(mut self) -> Result<(Option<Finished>, ReadTotals), CompactError> {
        while let Some((stream, sources)) = self.next_stream().await? {
            self.keep.begin(&stream);
            let line_bytes = self.line_bytes_to_encode(&sources);
            let is_late = self.late.contains(&stream.id);
            self.step(Step::Stream { stream, line_bytes, is_late }, 0).await?;
            self.stream(sources).await?;
        }
        self.run_steps(None).await?;
        let finished = match self.worker.take() {
            Some(worker) if worker.writer.entry_count() > 0 => Some(self.end(worker).await?),
            _ => None,
        };
        Ok((finished, self.read))
    }

    async fn end(&mut self, worker: Box<MergeWorker>) -> Result<Finished, CompactError> {
        let runtime = &self.folder.runtime;
        let mut ending = runtime.offload_to(QUEUE, move || worker.end()).await?;
        loop {
            self.pace.rest(runtime).await?;
            match ending {
                EndChunk::Some(bytes, mut rest) => {
                    rest.reuse_output(self.folder.write(self.output, bytes).await?);
                    ending = runtime.offload_to(QUEUE, move || next_end_chunk(rest)).await?;
                }
                EndChunk::Last(finished) => return Ok(*finished),
            }
        }
    }

    /// Gathers a step, which reads about so many bytes.
    async fn step(&mut self, step: Step, bytes: usize) -> Result<(), CompactError> {
        self.steps.push(step);
        self.gathered_bytes += bytes;
        if self.gathered_bytes >= STEPS_MAX_BYTES || self.steps.len() >= STEPS_MAX {
            self.run_steps(None).await?;
        }
        Ok(())
    }

    /// Runs the gathered steps, and decodes a block that is wanted besides.
    async fn run_steps(
        &mut self,
        wanted: Option<StoredBlock>,
    ) -> Result<Option<Block>, CompactError> {
        let Some(worker) = self.worker.take() else {
            return Err(io::Error::other("a merge that has failed does not go on").into());
        };
        let steps = std::mem::take(&mut self.steps);
        self.gathered_bytes = 0;
        let work = move || worker.run(steps, wanted);
        let done = self.folder.runtime.offload_to(QUEUE, work).await;
        let StepResults { mut worker, steps, decoded } =
            done.map_err(|error| self.error_of(error))?;
        self.folder.write_some(self.output, &mut worker.writer).await?;
        self.worker = Some(worker);
        self.steps = steps;
        self.pace.rest(&self.folder.runtime).await?;
        Ok(decoded)
    }

    fn error_of(&self, error: WorkError) -> CompactError {
        match error {
            WorkError::Damaged { input, error } => self.inputs[input].damaged(error),
            WorkError::Write(error) => error.into(),
        }
    }

    /// The next stream, with its part in each input that has it, in their order.
    async fn next_stream(
        &mut self,
    ) -> Result<Option<(StreamDefinition, Vec<Source>)>, CompactError> {
        for input in &mut self.inputs {
            input.load_stream(&self.folder.runtime).await?;
        }
        let streams = self.inputs.iter().filter_map(Input::stream);
        let first = streams.min_by(|a, b| {
            stream_order((&a.tenant, &a.labels, a.id), (&b.tenant, &b.labels, b.id))
        });
        let Some(stream) = first.cloned() else { return Ok(None) };
        let mut sources = Vec::new();
        for (number, input) in self.inputs.iter_mut().enumerate() {
            if input.stream().is_some_and(|next| next.id == stream.id)
                && let Some(row) = input.take_stream()
            {
                let runs: Vec<RunInfo> = input.directory.runs_of_stream(row).collect();
                if let Some(first) = runs.first() {
                    input.forget_before(first.block);
                }
                self.read.entries += runs.iter().map(|run| run.entries.len() as u64).sum::<u64>();
                let line_bytes = runs.iter().map(|run| run.line_bytes.len() as u64);
                self.read.line_bytes += line_bytes.sum::<u64>();
                sources.push(Source { input: number, runs, at: 0, open: None });
            }
        }
        Ok(Some((stream, sources)))
    }

    async fn stream(&mut self, mut sources: Vec<Source>) -> Result<(), CompactError> {
        loop {
            let next = |number: usize| sources[number].next_ns().map(|ts| (ts, number));
            let Some((_, chosen)) = (0..sources.len()).filter_map(next).min() else {
                return Ok(());
            };
            // Entries of the chosen source that stand before `until` come before all entries of the
            // other sources, in time or in order.
            let until = (0..sources.len()).filter(|&n| n != chosen).filter_map(next).min();
            if sources[chosen].open.is_some() {
                self.entries(&mut sources, chosen, until).await?;
                continue;
            }
            let (at, input) = (sources[chosen].at, sources[chosen].input);
            let run = sources[chosen].runs[at].clone();
            let segment = self.inputs[input].segment.live.name;
            let fate = self.keep.run(RunView { segment, run: &run });
            match fate {
                FilterDecision::Drop => sources[chosen].at += 1,
                FilterDecision::Keep if !overlaps_others(&sources, chosen, &run) => {
                    match self.copyable_in_a_row(&sources, chosen) {
                        0 => {
                            let block = self.block(input, run.block).await?;
                            self.append(block, &run, entries_of(&run)).await?;
                        }
                        in_a_row => self.whole(input, run, in_a_row).await?,
                    }
                    sources[chosen].at += 1;
                }
                FilterDecision::Keep | FilterDecision::Each => {
                    let open = self.open(&sources, chosen, &run, fate).await?;
                    sources[chosen].open = Some(open);
                }
            }
        }
    }

    /// A decoded block. If the block has to be decoded on a side thread, the same trip does the
    /// gathered steps.
    async fn block(&mut self, input: usize, block: u32) -> Result<Arc<Block>, CompactError> {
        if let Some(kept) = self.inputs[input].kept(block) {
            return Ok(kept);
        }
        let stored = self.inputs[input].stored(input, block).await?;
        let decoded = if stored.columns.is_piece() {
            // A checksum and a copy of few bytes are too little work for a side thread.
            let decoded = stored.decode(&mut self.decoder);
            decoded.map_err(|error| self.error_of(error))?
        } else {
            let decoded = self.run_steps(Some(stored)).await?;
            decoded.ok_or_else(|| io::Error::other("a block was not decoded"))?
        };
        Ok(self.inputs[input].keep(block, decoded))
    }

    /// Decodes a run and decides which of its entries stay.
    async fn open(
        &mut self,
        sources: &[Source],
        chosen: usize,
        run: &RunInfo,
        fate: FilterDecision,
    ) -> Result<OpenRun, CompactError> {
        let mut keep = vec![true; run.entries.len()];
        for earlier in &sources[..chosen] {
            for other in &earlier.runs[earlier.overlapping(run.min_ns, run.max_ns)] {
                let other_block = self.block(earlier.input, other.block).await?;
                let block = self.block(sources[chosen].input, run.block).await?;
                let mine = Decoded { block, run: run.clone() };
                let other = Decoded { block: other_block, run: other.clone() };
                keep = self.without_repeats(mine, other, keep).await;
            }
        }
        let block = self.block(sources[chosen].input, run.block).await?;
        if fate == FilterDecision::Each {
            let segment = self.inputs[sources[chosen].input].segment.live.name;
            let view = RunView { segment, run };
            for (index, kept) in entries_of(run).zip(&mut keep) {
                *kept = *kept && self.keep.entry(view, index, &block.entry(run, index));
            }
        }
        let keep = keep.iter().any(|kept| !kept).then_some(keep);
        Ok(OpenRun { block, keep, next: run.entries.start as usize })
    }

    /// `keep` without entries that `earlier` has too.
    async fn without_repeats(
        &self,
        mine: Decoded,
        earlier: Decoded,
        mut keep: Vec<bool>,
    ) -> Vec<bool> {
        let compared = mine.run.entries.len() + earlier.run.entries.len();
        let compare = move || {
            clear_repeats(&mine, &earlier, &mut keep);
            keep
        };
        if compared < COMPARED_HERE {
            return compare();
        }
        self.folder.runtime.offload_to(QUEUE, compare).await
    }

    /// Takes over entries of the open run of a source, as far as no other one has an
    /// entry that comes first.
    async fn entries(
        &mut self,
        sources: &mut [Source],
        chosen: usize,
        until: Option<(i64, usize)>,
    ) -> Result<(), CompactError> {
        let source = &mut sources[chosen];
        let run = source.runs[source.at].clone();
        let Some(OpenRun { block, keep, next }) = source.open.take() else { return Ok(()) };
        let rest = next..run.entries.end as usize;
        let comes_first = |ts: &i64| until.is_none_or(|other| (*ts, chosen) < other);
        let count = block.timestamps_ns[rest.clone()].partition_point(comes_first);
        let end = rest.start + count;
        let mut at = rest.start;
        while at < end {
            let mut piece_end = end;
            if let Some(keep) = &keep {
                let base = run.entries.start as usize;
                let kept = keep[at - base];
                let len = keep[at - base..end - base].iter().take_while(|k| **k == kept).count();
                piece_end = at + len;
                if !kept {
                    at = piece_end;
                    continue;
                }
            }
            self.append(Arc::clone(&block), &run, at..piece_end).await?;
            at = piece_end;
        }
        if end == rest.end {
            source.at += 1;
        } else {
            source.open = Some(OpenRun { block, keep, next: end });
        }
        Ok(())
    }

    async fn append(
        &mut self,
        block: Arc<Block>,
        run: &RunInfo,
        range: Range<usize>,
    ) -> Result<(), CompactError> {
        let bytes = block.line_bytes(run, range.clone());
        self.step(Step::Entries { block, run: run.clone(), range }, bytes).await
    }

    /// About how many line bytes of a stream are not copied.
    fn line_bytes_to_encode(&self, sources: &[Source]) -> u64 {
        let of_source = |source: &Source| -> u64 {
            let input = &self.inputs[source.input];
            let encoded = source.runs.iter().filter(|run| !input.may_copy(run.block));
            encoded.map(|run| run.line_bytes.len() as u64).sum()
        };
        sources.iter().map(of_source).sum()
    }

    /// How many runs of a source, from the next one on, could be taken over as they are
    /// stored, at most [`BLOCKS_IN_A_ROW`].
    fn copyable_in_a_row(&self, sources: &[Source], chosen: usize) -> usize {
        let source = &sources[chosen];
        let input = &self.inputs[source.input];
        let runs = &source.runs[source.at..];
        let segment = input.segment.live.name;
        let stands_alone = |run: &&RunInfo| {
            input.may_copy(run.block)
                && self.keep.run(RunView { segment, run }) == FilterDecision::Keep
                && !overlaps_others(sources, chosen, run)
        };
        runs.iter().take(BLOCKS_IN_A_ROW).take_while(stands_alone).count()
    }

    /// Takes over the block of one run of the current stream, as it is stored if that is
    /// worth it.
    async fn whole(
        &mut self,
        input: usize,
        run: RunInfo,
        in_a_row: usize,
    ) -> Result<(), CompactError> {
        let filters = self.inputs[input].filters(&self.folder.runtime).await?;
        let stored = self.inputs[input].stored(input, run.block).await?;
        // To copy them is next to no work; to make the filter anew is as much as encoding.
        let mut bytes = stored.columns.len_bytes();
        if filters.is_none() {
            bytes += run.line_bytes.len();
        }
        let whole = WholeBlock { stored, run, filters, in_a_row };
        self.step(Step::Whole(Box::new(whole)), bytes).await
    }
}

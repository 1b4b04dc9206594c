//! Merges segments into one, stream by stream.
//!
//! Guarantees: the output shows what the inputs have shown: the entries of a stream by
//! time, ties in the order of the segments, of equal entries of different segments the
//! first. Memory: a few blocks per input, and what the writer holds.
//!
//! Runs that no other input's run of the stream overlaps are taken over as they are.
//! Where runs overlap, they are merged entry by entry. Blocks of one stream that are
//! large enough are copied as they are stored, with their filters; a stream is given
//! such blocks when it is sealed or merged and has lines enough. What is left, streams
//! that had little in each segment, is encoded once more, next to what was elsewhere.

use std::ops::Range;
use std::rc::Rc;

use logsvc_runtime::Runtime;

use super::CompactError;
use super::input::{Block, Input, is_full};
use super::keep::{Fate, Keep};
use super::repeats::{Decoded, clear_repeats};
use super::throttle::{Pace, Throttle};
use crate::messages::StreamDefinition;
use crate::sealed::{NewSegment, SegmentFolder, WRITE_BYTES};
use crate::segment::{
    BLOCK_TARGET_LINE_BYTES, Decoder, EncodedBlock, Finished, RunInfo, SegmentWriter, StreamKey,
    WriteError, stream_order,
};

/// Taking a block over ends the one that is being filled. That is worth it if the
/// latter has at least a quarter of its size, or if so many blocks follow that its
/// poor filling makes no odds.
const BLOCKS_IN_A_ROW: usize = 4;

/// A merge under way.
pub(super) struct Merge<'a, R: Runtime> {
    folder: &'a SegmentFolder<R>,
    inputs: Vec<Input<R>>,
    keep: &'a mut dyn Keep,
    pace: Pace<'a>,
    decoder: Decoder,
    writer: SegmentWriter,
    output: &'a mut NewSegment<R>,
    read: ReadTotals,
}

/// What the inputs have of the streams that were merged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadTotals {
    pub(super) entries: u64,
    /// Of their lines.
    pub(super) line_bytes: u64,
}

/// One stream in one input.
struct Source {
    input: usize,
    runs: Vec<RunInfo>,
    /// The next run.
    at: usize,
    open: Option<OpenRun>,
}

/// The run that is being taken over entry by entry.
struct OpenRun {
    block: Rc<Block>,
    /// Which entries stay, counted within the run; `None`: all of them.
    keep: Option<Vec<bool>>,
    /// The next entry, counted within the block.
    next: usize,
}

impl Source {
    /// Time of the next entry; `None` if there is none.
    fn next_ns(&self) -> Option<i64> {
        match &self.open {
            Some(open) => Some(open.block.timestamps_ns[open.next]),
            None => self.runs.get(self.at).map(|run| run.min_ns),
        }
    }

    /// Runs that overlap in time.
    fn overlapping(&self, min_ns: i64, max_ns: i64) -> Range<usize> {
        let start = self.runs.partition_point(|run| run.max_ns < min_ns);
        let end = self.runs.partition_point(|run| run.min_ns <= max_ns);
        start..end.max(start)
    }
}

impl<'a, R: Runtime> Merge<'a, R> {
    pub(super) fn new(
        folder: &'a SegmentFolder<R>,
        inputs: Vec<Input<R>>,
        keep: &'a mut dyn Keep,
        throttle: &'a Throttle,
        output: &'a mut NewSegment<R>,
    ) -> Result<Merge<'a, R>, CompactError> {
        let writer = SegmentWriter::new(folder.identity(output))?;
        let pace = Pace::new(&folder.runtime, throttle);
        let decoder = Decoder::new();
        let read = ReadTotals::default();
        Ok(Merge { folder, inputs, keep, pace, decoder, writer, output, read })
    }

    /// Writes everything but the last bytes; `None` if nothing is left.
    pub(super) async fn run(mut self) -> Result<(Option<Finished>, ReadTotals), CompactError> {
        while let Some((stream, sources)) = self.next_stream().await? {
            self.keep.begin(&stream);
            self.writer.begin_stream(&stream.tenant, &stream.labels, stream.id)?;
            self.writer.expect_line_bytes(self.line_bytes_to_encode(&sources));
            self.stream(&stream, sources).await?;
        }
        if self.writer.entry_count() == 0 {
            return Ok((None, self.read));
        }
        let mut end = self.writer.end()?;
        while let Some(bytes) = end.next_bytes(WRITE_BYTES) {
            self.folder.write(self.output, bytes).await?;
            self.pace.block(&self.folder.runtime).await?;
        }
        Ok((Some(end.finish()?), self.read))
    }

    /// The next stream, with its part in each input that has it, in their order.
    async fn next_stream(
        &mut self,
    ) -> Result<Option<(StreamDefinition, Vec<Source>)>, CompactError> {
        for input in &mut self.inputs {
            input.load_stream(&mut self.decoder).await?;
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
                self.read.entries += runs.iter().map(|run| run.entries.len() as u64).sum::<u64>();
                let line_bytes = runs.iter().map(|run| run.line_bytes.len() as u64);
                self.read.line_bytes += line_bytes.sum::<u64>();
                sources.push(Source { input: number, runs, at: 0, open: None });
            }
        }
        Ok(Some((stream, sources)))
    }

    async fn stream(
        &mut self,
        stream: &StreamDefinition,
        mut sources: Vec<Source>,
    ) -> Result<(), CompactError> {
        loop {
            let next = |number: usize| sources[number].next_ns().map(|ts| (ts, number));
            let Some((_, chosen)) = (0..sources.len()).filter_map(next).min() else {
                return Ok(());
            };
            // What the others have before it comes after it in time, or in order.
            let until = (0..sources.len()).filter(|&n| n != chosen).filter_map(next).min();
            if sources[chosen].open.is_some() {
                self.entries(&mut sources, chosen, until).await?;
                continue;
            }
            let (at, input) = (sources[chosen].at, sources[chosen].input);
            let run = sources[chosen].runs[at].clone();
            let fate = self.keep.run(run.min_ns, run.max_ns);
            match fate {
                Fate::Drop => sources[chosen].at += 1,
                Fate::Keep if !overlaps_others(&sources, chosen, &run) => {
                    if self.worth_copying(&sources, chosen) {
                        self.copy(stream, input, run.block).await?;
                    } else {
                        let block = self.block(input, run.block).await?;
                        self.append(&block, &run, entries_of(&run)).await?;
                    }
                    sources[chosen].at += 1;
                }
                Fate::Keep | Fate::Each => {
                    let open = self.open(&sources, chosen, &run, fate).await?;
                    sources[chosen].open = Some(open);
                }
            }
        }
    }

    async fn block(&mut self, input: usize, block: u32) -> Result<Rc<Block>, CompactError> {
        let (block, was_read) = self.inputs[input].block(&mut self.decoder, block).await?;
        if was_read {
            self.pace.block(&self.folder.runtime).await?;
        }
        Ok(block)
    }

    /// Decodes a run and decides which of its entries stay.
    async fn open(
        &mut self,
        sources: &[Source],
        chosen: usize,
        run: &RunInfo,
        fate: Fate,
    ) -> Result<OpenRun, CompactError> {
        let mut keep = vec![true; run.entries.len()];
        for earlier in &sources[..chosen] {
            for other in &earlier.runs[earlier.overlapping(run.min_ns, run.max_ns)] {
                let other_block = self.block(earlier.input, other.block).await?;
                let block = self.block(sources[chosen].input, run.block).await?;
                let mine = Decoded { block: &block, run };
                clear_repeats(mine, Decoded { block: &other_block, run: other }, &mut keep);
            }
        }
        let block = self.block(sources[chosen].input, run.block).await?;
        if fate == Fate::Each {
            for (index, kept) in entries_of(run).zip(&mut keep) {
                *kept = *kept && self.keep.entry(&block.entry(run, index));
            }
        }
        let keep = keep.iter().any(|kept| !kept).then_some(keep);
        Ok(OpenRun { block, keep, next: run.entries.start as usize })
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
            self.append(&block, &run, at..piece_end).await?;
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
        block: &Block,
        run: &RunInfo,
        range: Range<usize>,
    ) -> Result<(), CompactError> {
        let mut entries = block.entries(run, range);
        while !entries.is_empty() {
            let appended = self.writer.append(&entries)?;
            entries = entries.behind(appended.entries);
            if appended.finished_block {
                self.finished_block().await?;
            }
        }
        Ok(())
    }

    async fn finished_block(&mut self) -> Result<(), CompactError> {
        self.folder.write_some(self.output, &mut self.writer).await?;
        self.pace.block(&self.folder.runtime).await?;
        Ok(())
    }

    /// About how many line bytes of a stream are not copied.
    fn line_bytes_to_encode(&self, sources: &[Source]) -> u64 {
        let of_source = |source: &Source| -> u64 {
            let directory = &self.inputs[source.input].directory;
            let encoded = source.runs.iter().filter(|run| !is_full(&directory.block(run.block)));
            encoded.map(|run| run.line_bytes.len() as u64).sum()
        };
        sources.iter().map(of_source).sum()
    }

    /// Whether the block of the source's next run, which stands alone, had better be
    /// taken over as it is stored.
    fn worth_copying(&self, sources: &[Source], chosen: usize) -> bool {
        let source = &sources[chosen];
        let directory = &self.inputs[source.input].directory;
        let runs = &source.runs[source.at..];
        let stands_alone = |run: &&RunInfo| {
            is_full(&directory.block(run.block))
                && self.keep.run(run.min_ns, run.max_ns) == Fate::Keep
                && !overlaps_others(sources, chosen, run)
        };
        let pending_bytes = self.writer.pending_bytes();
        let in_a_row = if pending_bytes == 0 || pending_bytes >= BLOCK_TARGET_LINE_BYTES / 4 {
            1
        } else {
            BLOCKS_IN_A_ROW
        };
        runs.iter().take(in_a_row).take_while(stands_alone).count() == in_a_row
    }

    /// Takes over the block of one run of the current stream.
    async fn copy(
        &mut self,
        stream: &StreamDefinition,
        input: usize,
        block: u32,
    ) -> Result<(), CompactError> {
        let input = &mut self.inputs[input];
        let filter = input.filter(&self.folder.runtime, &mut self.pace, block).await?;
        let stored = input.stored(block).await?;
        let encoded = EncodedBlock {
            directory: &input.directory,
            block,
            columns: stored.each_ref().map(Vec::as_slice),
        };
        let key = StreamKey { tenant: &stream.tenant, labels: &stream.labels, id: stream.id };
        let copied = self.writer.append_encoded_block(&mut self.decoder, &encoded, filter, &[key]);
        copied.map_err(|error| match error {
            WriteError::Damaged(error) => input.damaged(error),
            other => other.into(),
        })?;
        self.finished_block().await
    }
}

fn entries_of(run: &RunInfo) -> Range<usize> {
    run.entries.start as usize..run.entries.end as usize
}

/// Whether another input has a run of the stream with some of the run's times.
fn overlaps_others(sources: &[Source], chosen: usize, run: &RunInfo) -> bool {
    sources.iter().enumerate().any(|(number, other)| {
        number != chosen && !other.overlapping(run.min_ns, run.max_ns).is_empty()
    })
}

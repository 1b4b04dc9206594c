//! What a scan computes: blocks whose columns were loaded are decoded, filtered and given
//! to the engine.
//!
//! There is no I/O here and nothing of the core, so it may be done on any thread: a
//! [`Leaf`] and a [`Batch`] go there and come back together.
//!
//! Guarantees: every item is either worked on to its end, once, or still in the batch with
//! the columns noted that it misses, or left because the query ends. That is looked at
//! before each item, so a query ends within a block.

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{
    BlockSummary, EntryBlock, LeafExecutor, LeafPlan, LeafResult, MetadataColumn, MetadataSets,
    Needs, StreamState,
};
use logsvc_runtime::Grant;

use super::columns::{OpenBlock, ReadError, RunColumns, Unready};
use super::frontier::RunPlace;
use super::memory::{BatchMemory, PartAllowance};
use super::search::Searcher;
use super::{HeadPart, ScanError, ScanJob, StreamSnapshots, arrival};
use crate::batch::MetadataPairs;
use crate::head::HeadBlock;
use crate::sealed::{Cached, ColumnKey, HeldDirectory};
use crate::segment::{Decoder, RunInfo};
use crate::types::ScanStats;

/// A run of a block that is to be evaluated.
#[derive(Debug)]
pub(super) struct RunWork {
    pub(super) place: RunPlace,
    /// The run's number in the order of arrival.
    pub(super) number: u64,
    /// What is left of it, if an earlier generation holds some of its entries, too.
    pub(super) kept: Option<RunColumns>,
}

/// A sealed block that is to be evaluated.
#[derive(Debug)]
pub(super) struct BlockWork {
    /// Its segment's place in the job.
    pub(super) segment: u32,
    pub(super) opened: OpenBlock,
    /// The runs that are wanted, the last one first; those that are done are gone.
    pub(super) runs: Vec<RunWork>,
    /// What was reserved for it.
    pub(super) held_bytes: u64,
}

/// Something to evaluate.
#[derive(Debug)]
pub(super) enum Item {
    /// A block of a head, by its places in the job.
    Head { stream: u32, block: u32 },
    /// What is left of one of which an earlier generation holds some entries.
    Kept { stream: u32, number: u64, columns: RunColumns },
    /// A sealed block.
    Block(Box<BlockWork>),
}

impl Item {
    /// The sealed block that it is.
    pub(super) fn block(&self) -> Option<&BlockWork> {
        match self {
            Item::Block(work) => Some(work),
            Item::Head { .. } | Item::Kept { .. } => None,
        }
    }
}

/// A block that cannot be read.
#[derive(Debug)]
pub(super) struct Damage {
    /// Its segment's place in the job.
    pub(super) segment: u32,
    pub(super) directory: Arc<HeldDirectory>,
    pub(super) error: ReadError,
}

/// Items that are worked on together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Those that are left.
    pub(super) items: Vec<Item>,
    /// Bytes of the columns that they need.
    pub(super) bytes: usize,
    /// Entries that are looked at.
    pub(super) entries: usize,
    /// Columns that were decoded.
    pub(super) fresh: Vec<(ColumnKey, Cached)>,
    /// Blocks that were given up.
    pub(super) damages: Vec<Damage>,
    /// What is reserved for columns.
    pub(super) memory: BatchMemory,
}

/// How many bytes of columns are computed aside at once: as many as take [`BATCH_TIME`]. Less
/// would cost more wake-ups, more would let other queries wait.
#[derive(Debug)]
pub(super) struct BatchSize {
    bytes: usize,
}

const BATCH_TIME: Duration = Duration::from_millis(2);

/// At least so many, which take one to three milliseconds if they have to be decoded.
const BATCH_BYTES_MIN: usize = 1 << 20;

/// At most so many: decoded lines are searched in a twentieth of the time.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Items of a batch at most, however small they are.
const BATCH_ITEMS: usize = 256;

impl Default for BatchSize {
    fn default() -> BatchSize {
        BatchSize { bytes: BATCH_BYTES_MIN }
    }
}

impl BatchSize {
    /// Whether a batch is large enough.
    pub(super) fn is_reached_by(&self, batch: &Batch) -> bool {
        batch.bytes >= self.bytes || batch.items.len() >= BATCH_ITEMS
    }

    /// Notes how long a batch of so many bytes has taken, waits included. Sizes grow slowly,
    /// as the next columns may not be decoded.
    pub(super) fn note(&mut self, bytes: usize, elapsed: Duration) {
        let in_time = bytes as u128 * BATCH_TIME.as_nanos() / elapsed.as_nanos().max(1);
        let most = (2 * bytes).min(BATCH_BYTES_MAX);
        self.bytes = usize::try_from(in_time).map_or(most, |bytes| bytes.min(most));
        self.bytes = self.bytes.max(BATCH_BYTES_MIN);
    }
}

/// Goes from thread to thread.
const _: fn() = || {
    fn assert_send<T: Send>() {}
    assert_send::<Leaf>();
    assert_send::<Batch>();
};

/// The engine's state, and what it needs beside columns.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) executor: LeafExecutor,
    pub(super) searcher: Option<Searcher>,
    /// By [`Leaf::place_of`].
    pub(super) states: Vec<Option<StreamState>>,
    /// Whether all streams have one state.
    streams_are_alike: bool,
    pub(super) decoder: Decoder,
    pub(super) stats: ScanStats,
    streams: Arc<StreamSnapshots>,
    /// The times of the entries that the plan looks at.
    pub(super) bounds_ns: (i64, i64),
}

impl Leaf {
    /// A leaf that has seen nothing.
    pub(super) fn new(job: &ScanJob, mut executor: LeafExecutor, decoder: Decoder) -> Leaf {
        let plan: &LeafPlan = &job.request.plan;
        let streams_are_alike = executor.streams_are_alike();
        let states = if streams_are_alike { 1 } else { job.streams.len() };
        let has_memory = executor.hold(states * size_of::<Option<StreamState>>());
        Leaf {
            searcher: Searcher::new(plan, &executor),
            executor,
            // Without memory the leaf is stopped and asks for no state.
            states: (0..if has_memory { states } else { 0 }).map(|_| None).collect(),
            streams_are_alike,
            decoder,
            stats: ScanStats::default(),
            streams: Arc::clone(&job.streams),
            bounds_ns: plan.entry_bounds_ns(),
        }
    }

    /// Looks whether the query may go on.
    pub(super) fn check(&self) -> Result<(), ScanError> {
        self.executor.look();
        self.executor.stop().map_or(Ok(()), |stop| Err(stop.into()))
    }

    /// What a stream's blocks are read for.
    pub(super) fn needs(&mut self, stream: u32) -> Needs {
        self.state(stream).1.needs()
    }

    /// Whether a run is answered by what the directory says of it; it is done then.
    pub(super) fn is_answered_by_summary(&mut self, run: &RunInfo, stream: u32) -> bool {
        self.counted_as_sealed(|leaf| {
            let (executor, state) = leaf.state(stream);
            executor.summary(state, &run.summary())
        })
    }

    /// Whether a block of a head is answered by what it says of itself; it is done then.
    pub(super) fn is_head_answered_by_summary(&mut self, stream: u32, part: &HeadPart) -> bool {
        let (executor, state) = self.state(stream);
        if !executor.takes_summaries(state) {
            return false;
        }
        let (min_timestamp_ns, max_timestamp_ns) = part.time_bounds_ns();
        let block = &*part.block;
        let summary = BlockSummary {
            min_timestamp_ns,
            max_timestamp_ns,
            entries: block.len() as u64,
            line_bytes: block.lines().len() as u64,
            metadata_bytes: executor.counts_metadata().then(|| block.metadata_text_bytes()),
        };
        executor.summary(state, &summary)
    }

    /// Works on a batch as far as it can: what is left misses columns, unless the query
    /// ends here.
    pub(super) fn work(&mut self, batch: &mut Batch) {
        for mut item in std::mem::take(&mut batch.items) {
            if self.executor.is_done() || self.check().is_err() {
                return;
            }
            match &mut item {
                Item::Head { stream, block } => self.head_block(*stream, *block),
                Item::Kept { stream, number, columns } => {
                    self.feed(*stream, &columns.block(*number));
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

    /// What was found, and the memory of the query that it holds.
    pub(super) fn finish(self: Box<Self>) -> (Result<(LeafResult, Grant), ScanError>, Decoder) {
        let Leaf { executor, decoder, states, .. } = *self;
        drop(states);
        let found = executor
            .finish_counted()
            .map(|(result, allowance)| (result, PartAllowance::into_grant(allowance)));
        (found.map_err(ScanError::from), decoder)
    }

    /// Counts what the engine does meanwhile as done on sealed blocks.
    fn counted_as_sealed<T>(&mut self, work: impl FnOnce(&mut Leaf) -> T) -> T {
        let before = self.executor.stats();
        let result = work(self);
        let after = self.executor.stats();
        self.stats.sealed_entries += after.entries - before.entries;
        self.stats.sealed_line_bytes += after.line_bytes - before.line_bytes;
        self.stats.sealed_entries_kept += after.entries_kept - before.entries_kept;
        result
    }

    /// Where the engine's state of a stream is.
    pub(super) fn place_of(&self, stream: u32) -> usize {
        if self.streams_are_alike { 0 } else { stream as usize }
    }

    /// The engine and its state of a stream, which is made unless it is there.
    fn state(&mut self, stream: u32) -> (&mut LeafExecutor, &mut StreamState) {
        let place = self.place_of(stream);
        let slot = &mut self.states[place];
        let state = match slot {
            Some(state) => state,
            None => slot.insert(self.executor.stream(&self.streams[stream as usize].labels)),
        };
        (&mut self.executor, state)
    }

    /// Gives the engine a block of a stream.
    fn feed(&mut self, stream: u32, block: &EntryBlock<'_>) {
        let (executor, state) = self.state(stream);
        executor.block(state, block);
    }

    fn sealed_block(&mut self, work: &mut BlockWork) -> Result<(), Unready> {
        while let Some(RunWork { place, number, kept }) = work.runs.last() {
            let RunPlace { run, stream, .. } = place;
            if self.executor.wants(run.min_ns, run.max_ns) {
                match kept {
                    Some(columns) => self.feed(*stream, &columns.block(*number)),
                    None => self.run(&mut work.opened, run, *stream, *number)?,
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
    ) -> Result<(), Unready> {
        let needs = self.needs(stream);
        if !self.searched_run(opened, run, stream, number)? {
            let columns = opened.run(run, needs, &mut self.decoder, &mut self.stats)?;
            self.feed(stream, &columns.block(number));
        }
        Ok(())
    }

    fn head_block(&mut self, stream: u32, index: u32) {
        let streams = Arc::clone(&self.streams);
        let part: &HeadPart = &streams[stream as usize].blocks[index as usize];
        let block = &*part.block;
        let (min_ns, max_ns) = part.time_bounds_ns();
        if !self.executor.wants(min_ns, max_ns) {
            return;
        }
        let (executor, state) = self.state(stream);
        let wants_metadata = block.has_metadata() && state.needs().metadata;
        if wants_metadata && !executor.admits(dictionary_bytes(block)) {
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
        executor.block(state, &columns);
        self.stats.head_blocks += 1;
        if wants_metadata {
            self.stats.head_metadata_bytes += metadata_bytes(block);
        }
    }
}

/// What the dictionary of a block's metadata takes, about, in bytes: texts and the tables that
/// find them, lists that double.
fn dictionary_bytes(block: &HeadBlock) -> usize {
    const TEXT_FACTOR: usize = 6;
    const SET_BYTES: usize = 64;
    let (_, shared) = block.shared_metadata();
    let (own, ends) = block.own_metadata();
    let text_bytes = own.len() + shared.iter().map(|set| set.len()).sum::<usize>();
    block.len() * size_of::<u32>() + ends.len() * SET_BYTES + text_bytes * TEXT_FACTOR
}

/// The dictionary form of a block's metadata, as the engine takes it.
pub(crate) fn intern(block: &HeadBlock) -> (MetadataSets, Vec<u32>) {
    // A block holds far less than the 4 GiB of text that fill a dictionary.
    const FITS: &str = "a block's metadata fits a dictionary";
    let mut sets = MetadataSets::new();
    let (numbers, shared) = block.shared_metadata();
    let mut shared_ids = vec![0];
    for set in shared.iter() {
        shared_ids.push(sets.intern(MetadataPairs::from_checked(set, &[])).expect(FITS));
    }
    let id_of = |&number: &u8| shared_ids[usize::from(number)];
    if block.own_metadata().1.is_empty() {
        return (sets, numbers.iter().map(id_of).collect());
    }
    let mut set_ids = Vec::with_capacity(block.len());
    for index in 0..block.len() {
        let metadata = block.metadata(index);
        set_ids.push(match numbers.get(index) {
            Some(number) if metadata.own_bytes().is_empty() => id_of(number),
            _ => sets.intern(metadata).expect(FITS),
        });
    }
    (sets, set_ids)
}

/// Bytes of the pairs of all entries, as encoded for each of them.
fn metadata_bytes(block: &HeadBlock) -> u64 {
    let (numbers, shared) = block.shared_metadata();
    let mut lens = vec![0];
    lens.extend(shared.iter().map(|set| set.len() as u64));
    let shared_bytes: u64 = numbers.iter().map(|&number| lens[usize::from(number)]).sum();
    shared_bytes + block.own_metadata().0.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_slowly_and_shrink_at_once() {
        let mut size = BatchSize::default();
        let full = |bytes| Batch { bytes, ..Batch::default() };
        for _ in 0..3 {
            assert!(
                !size.is_reached_by(&full(size.bytes - 1)) && size.is_reached_by(&full(size.bytes))
            );
            size.note(size.bytes, BATCH_TIME / 20);
        }
        assert_eq!(size.bytes, 8 * BATCH_BYTES_MIN);
        size.note(size.bytes, BATCH_TIME * 2);
        assert_eq!(size.bytes, 4 * BATCH_BYTES_MIN);
        for _ in 0..9 {
            size.note(size.bytes, Duration::ZERO);
        }
        assert_eq!(size.bytes, BATCH_BYTES_MAX);
        size.note(size.bytes, Duration::from_secs(1));
        assert_eq!(size.bytes, BATCH_BYTES_MIN);
        // What a scan ends with is small.
        size.note(0, Duration::ZERO);
        assert_eq!(size.bytes, BATCH_BYTES_MIN);
    }
}

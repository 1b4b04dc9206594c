//! Runs one shard's part of a query over a snapshot, beside the shard.
//!
//! What is read is a list of *units*, ordered by time in query direction so that a
//! limit ends the scan early: a block of a head, or a block of a sealed segment with
//! those of its runs that the query wants ([`frontier`]). Segments are looked at
//! only when the scan has come to their time. Of a sealed block only the columns are
//! read that the query needs ([`columns`]), and none if the directory's counts are
//! enough or the segment's filters prove that nothing in it can match ([`prune`]).
//! Lines are not put together where their filters can do without ([`search`]).
//! A scan that turns out to be long is divided among all cores ([`share`]), and runs in
//! slices, with few other long ones of its core ready at the same time ([`turns`]).
//! An entry that was stored twice because it came again after it had been sealed is
//! seen once ([`late`]).
//!
//! Guarantees: the snapshot does not change while it is read; the core's other
//! tasks get their turn at least once per [`SLICE`] plus the time of one block, or of
//! checking one segment's directory and looking up the streams in it; a
//! cancelled query stops within one block. A block whose bytes are damaged is left
//! out, counted, and logged once; the rest is answered. What else can go wrong is in
//! [`ScanError`].

mod columns;
mod frontier;
mod head_parts;
mod late;
mod prune;
mod search;
mod share;
mod snapshots;
mod turns;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashSet;
use logsvc_logql::engine::{
    BlockSummary, EntryBlock, LeafExecutor, MetadataColumn, MetadataSets, StreamState,
};
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::{Budget, Monotonic, Runtime};

use crate::filter::BlockSet;
use crate::head::HeadBlock;
use crate::manifest::SegmentName;
use crate::messages::{LeafReply, LeafRequest, ScanStats};
use crate::sealed::{BlockCache, Directories, HeldDirectory, SealedSegment, hasher};
use crate::segment::{Decoder, Directory};
use columns::{ReadError, RunColumns};
use frontier::{Frontier, RunPlace, Unit, UnitKind, WantedStreams, Work};
pub use head_parts::HeadParts;
use late::{LateStreams, Part};
use prune::Conditions;
use search::Searcher;
use share::Share;
pub(crate) use snapshots::FETCHED_AT_ONCE;
pub use snapshots::StreamSnapshots;
use turns::{Turn, Turns};

/// How long a scan keeps the core before it yields.
const SLICE: Duration = Duration::from_millis(1);

/// So often a scan yields after each slice. A push goes through the core's tasks ten to
/// twenty times, and should not wait for a slice each time; on an idle core it costs some
/// microseconds.
const YIELDS: u32 = 8;

/// So long a scan waits after each slice while sealing is urgent.
const SEALING_SLICE: Duration = Duration::from_millis(16);

/// Settings of the scans of one core.
#[derive(Clone, Debug)]
pub struct ScanConfig {
    /// Memory for decoded blocks of segments; shared by all cores of the node, each of
    /// which may take an equal part.
    pub cache: Budget,
    /// Memory for directories of segments; shared by all cores of the node.
    pub directories: Budget,
    /// A scan that has decoded so many bytes, or found them decoded, offers its rest to all
    /// cores.
    pub divide_after_bytes: u64,
}

impl ScanConfig {
    /// Scans with this memory for decoded blocks, and for directories.
    pub fn new(cache: Budget, directories: Budget) -> ScanConfig {
        ScanConfig { cache, directories, divide_after_bytes: 8 << 20 }
    }
}

/// Where the blocks of heads stand in the order of arrival: behind all segments.
/// Entries that are being sealed come before those that came since.
const GENERATION_SET_ASIDE: u32 = u32::MAX - 1;
const GENERATION_HEAD: u32 = u32::MAX;

/// The arrival number of a block: generations in their order, and the blocks of one
/// stream within a generation.
fn arrival(generation: u32, within: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(within)
}

/// What scans on one core share.
pub struct ScanEnv<R: Runtime> {
    /// The core.
    pub runtime: R,
    /// Its open segment files, and directories of segments.
    pub directories: Rc<Directories<R>>,
    /// Its decoded blocks.
    pub cache: BlockCache,
    /// Whether scans should leave the CPU to sealing. Its threads have a lower priority, so
    /// beside scans they would get too little, and pushes wait for them in the end.
    pub(crate) is_sealing_urgent: Cell<bool>,
    divide_after_bytes: u64,
    turns: Turns,
    /// Never held across a wait.
    decoder: RefCell<Decoder>,
    /// Places that could not be read, so that each is logged once and not by each query.
    /// Never held across a wait.
    damaged: RefCell<AHashSet<(SegmentName, u64)>>,
}

/// So many damaged places are remembered; what comes then is logged each time.
const DAMAGED_MAX: usize = 4096;

impl<R: Runtime> std::fmt::Debug for ScanEnv<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanEnv").field("cache", &self.cache.counters()).finish_non_exhaustive()
    }
}

impl<R: Runtime> ScanEnv<R> {
    /// An environment without decoded blocks.
    pub fn new(runtime: R, config: ScanConfig, directories: Rc<Directories<R>>) -> ScanEnv<R> {
        let share_bytes = config.cache.max_bytes() / u64::from(runtime.core_count().max(1));
        let share_bytes = usize::try_from(share_bytes).unwrap_or(usize::MAX);
        ScanEnv {
            runtime,
            directories,
            cache: BlockCache::new(&config.cache, share_bytes),
            is_sealing_urgent: Cell::new(false),
            divide_after_bytes: config.divide_after_bytes,
            turns: Turns::default(),
            decoder: RefCell::new(Decoder::new()),
            damaged: RefCell::new(AHashSet::with_hasher(hasher())),
        }
    }

    /// Logs a place of a segment that cannot be read, the first time.
    fn note_damage(
        &self,
        segment: &SealedSegment,
        directory: Option<&Directory>,
        what: &str,
        error: &ReadError,
    ) {
        let footer = &segment.footer;
        let offset = match (error, directory) {
            (ReadError::Damaged(error), Some(directory)) => directory.offset_of(error.part),
            // Nothing else is read without a directory.
            (ReadError::Damaged(_), None) | (ReadError::Directory(_), _) => footer.directory_offset,
            (ReadError::Filter(_), _) => footer.filters_offset,
            (ReadError::Io { offset, .. }, _) => *offset,
        };
        let mut damaged = self.damaged.borrow_mut();
        let place = (segment.live.name, offset);
        if damaged.contains(&place) {
            return;
        }
        if damaged.len() < DAMAGED_MAX {
            damaged.insert(place);
        }
        tracing::error!(
            file = %segment.path.display(), offset, what, %error,
            "a part of a segment cannot be read; queries leave it out and say so"
        );
    }
}

/// A block of a head.
#[derive(Clone, Debug)]
pub struct HeadPart {
    generation: u32,
    within: u32,
    /// Those of the block, so that nobody has to look at it to put it into its place.
    bounds_ns: (i64, i64),
    block: Arc<HeadBlock>,
}

impl HeadPart {
    /// Block number `within` of the entries that are being sealed, with its time bounds.
    pub(crate) fn set_aside(
        within: u32,
        block: &Arc<HeadBlock>,
        bounds_ns: (i64, i64),
    ) -> HeadPart {
        HeadPart { generation: GENERATION_SET_ASIDE, within, bounds_ns, block: Arc::clone(block) }
    }

    /// Block number `within` of the newest entries, with its time bounds.
    pub(crate) fn head(within: u32, block: &Arc<HeadBlock>, bounds_ns: (i64, i64)) -> HeadPart {
        HeadPart { generation: GENERATION_HEAD, within, bounds_ns, block: Arc::clone(block) }
    }

    /// Oldest and newest timestamp.
    pub(crate) fn time_bounds_ns(&self) -> (i64, i64) {
        self.bounds_ns
    }
}

/// One stream of a scan.
#[derive(Debug)]
pub struct StreamSnapshot {
    /// Its id.
    pub id: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Blocks of its head that overlap the query's time range.
    pub blocks: HeadParts,
    /// Whether a block of its head overlaps, in time, what was sealed or set aside
    /// before, so that it may repeat entries.
    pub head_is_late: bool,
}

/// A part of a query and the snapshot that it reads. May be run on any core.
#[derive(Debug)]
pub struct ScanJob {
    /// What to compute.
    pub request: LeafRequest,
    /// Streams that match.
    pub streams: Arc<StreamSnapshots>,
    /// Segments that overlap the query's time range, in their order.
    pub segments: Arc<[Arc<SealedSegment>]>,
    work: Work,
    share: Share,
    missing_segments: u64,
}

impl ScanJob {
    /// A job that reads everything of the snapshot.
    pub fn new(
        request: LeafRequest,
        streams: StreamSnapshots,
        segments: Vec<Arc<SealedSegment>>,
    ) -> ScanJob {
        let work = Work::all(request.plan.direction(), &streams, segments.len());
        ScanJob {
            request,
            streams: Arc::new(streams),
            segments: segments.into(),
            work,
            share: Share::ALL,
            missing_segments: 0,
        }
    }

    /// The same job, which reports that so many segments of its time cannot be read.
    #[must_use]
    pub(crate) fn with_missing_segments(self, missing_segments: u64) -> ScanJob {
        ScanJob { missing_segments, ..self }
    }
}

/// Why a part of a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The part does not compile.
    #[error("{0}")]
    Plan(String),
    /// It holds more memory than it may.
    #[error("the query holds more than {max_bytes} bytes of intermediate results")]
    Memory {
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// Nobody waits for it any more.
    #[error("the query was cancelled")]
    Cancelled,
}

/// Runs a part of a query: to its end, or, if it is long, to where its rest is
/// better shared by all cores.
///
/// # Errors
/// See [`ScanError`].
pub async fn run<R: Runtime>(env: &ScanEnv<R>, mut job: ScanJob) -> Result<LeafReply, ScanError> {
    let executor =
        LeafExecutor::new(&job.request.plan).map_err(|error| ScanError::Plan(error.to_string()))?;
    let work = std::mem::take(&mut job.work);
    // Others need some, too.
    let directories_bytes = env.directories.share_bytes() / 2;
    let mut frontier = Frontier::new(&job, work, directories_bytes);
    let mut scan = Scan {
        env,
        searcher: Searcher::new(&job.request.plan, &executor),
        executor,
        states: job.streams.iter().map(|_| None).collect(),
        states_bytes: 0,
        wanted: WantedStreams::default(),
        late: LateStreams::default(),
        conditions: prune::conditions(&job),
        stats: ScanStats::default(),
        slice_end: env.runtime.now().after(SLICE),
        turn: None,
        job: &job,
    };
    if job.share.is_whole() {
        scan.stats.streams = job.streams.len() as u64;
        scan.stats.unreadable_parts = job.missing_segments;
    }
    while !scan.executor.is_done() {
        while let Some(segment) = frontier.next_segment() {
            let units = scan.expand(segment).await?;
            frontier.add(units);
        }
        let Some(unit) = frontier.next_unit() else { break };
        scan.unit(unit).await;
        scan.pause().await?;
        let looked_at_bytes = scan.stats.decoded_bytes + scan.stats.cached_bytes;
        if job.share.is_whole() && looked_at_bytes >= env.divide_after_bytes {
            let plan = scan.executor.rest_of_plan();
            let (result, stats) = (scan.executor.finish(), scan.stats);
            let rest =
                (!frontier.is_empty()).then(|| Box::new(job.rest(plan, frontier.into_work())));
            return Ok(LeafReply { result, stats, rest });
        }
    }
    Ok(LeafReply { result: scan.executor.finish(), stats: scan.stats, rest: None })
}

struct Scan<'a, R: Runtime> {
    env: &'a ScanEnv<R>,
    job: &'a ScanJob,
    executor: LeafExecutor,
    searcher: Option<Searcher>,
    states: Vec<Option<StreamState>>,
    states_bytes: usize,
    wanted: WantedStreams,
    late: LateStreams,
    conditions: Conditions,
    stats: ScanStats,
    slice_end: Monotonic,
    /// `None` in the first slice.
    turn: Option<Turn<'a>>,
}

impl<R: Runtime> Scan<'_, R> {
    /// Lets others have the core if the slice is over, and looks whether the query
    /// may go on.
    async fn pause(&mut self) -> Result<(), ScanError> {
        let request = &self.job.request;
        if request.cancellation.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        if self.executor.held_bytes() + self.states_bytes > request.memory_max_bytes {
            return Err(ScanError::Memory { max_bytes: request.memory_max_bytes });
        }
        if self.env.runtime.now() >= self.slice_end {
            let env = self.env;
            if env.is_sealing_urgent.get() {
                // In its place, so that no other scan runs meanwhile.
                env.runtime.sleep_until(env.runtime.now().after(SEALING_SLICE)).await;
            }
            self.turn = None;
            for _ in 0..YIELDS {
                env.runtime.yield_now().await;
            }
            self.turn = Some(env.turns.take().await);
            self.slice_end = self.env.runtime.now().after(SLICE);
        }
        Ok(())
    }

    /// The units of a segment.
    async fn expand(&mut self, index: u32) -> Result<Vec<Unit>, ScanError> {
        self.pause().await?;
        let segment = &self.job.segments[index as usize];
        let Some(directory) = self.directory(segment).await else { return Ok(Vec::new()) };
        let mut units = frontier::units_of(self.job, &mut self.wanted, index, &directory);
        if units.is_empty() || self.conditions.is_empty() {
            return Ok(units);
        }
        let mut blocks = BlockSet::empty(directory.block_count() as usize);
        for block in units.iter().filter_map(Unit::block) {
            blocks.insert(block as usize);
        }
        let (env, stats) = (self.env, &mut self.stats);
        match prune::candidates(env, segment, &directory, &self.conditions, blocks, stats).await {
            Ok(left) => {
                let before = units.len();
                units.retain(|unit| unit.block().is_none_or(|block| left.contains(block as usize)));
                self.stats.blocks_filtered += (before - units.len()) as u64;
            }
            // Reading everything gives the right answer too.
            Err(error) => self.env.note_damage(segment, Some(&directory), "filters", &error),
        }
        Ok(units)
    }

    async fn unit(&mut self, unit: Unit) {
        match unit.kind {
            UnitKind::Head { stream, block } => self.head_block(stream, block).await,
            UnitKind::Sealed { segment, block } => {
                let before = self.executor.stats();
                self.sealed_block(segment, block).await;
                let after = self.executor.stats();
                self.stats.sealed_entries += after.entries - before.entries;
                self.stats.sealed_line_bytes += after.line_bytes - before.line_bytes;
                self.stats.sealed_entries_kept += after.entries_kept - before.entries_kept;
            }
        }
    }

    /// Makes the state of a stream unless it is there.
    fn prepare(&mut self, stream: u32) {
        let slot = &mut self.states[stream as usize];
        if slot.is_none() {
            let state = self.executor.stream(&self.job.streams[stream as usize].labels);
            self.states_bytes += state.held_bytes();
            *slot = Some(state);
        }
    }

    async fn head_block(&mut self, stream: u32, index: u32) {
        let snapshot = &self.job.streams[stream as usize];
        let part = &snapshot.blocks[index as usize];
        let block = &*part.block;
        let (min_ns, max_ns) = part.time_bounds_ns();
        if !self.executor.wants(min_ns, max_ns) {
            return;
        }
        if snapshot.head_is_late
            && let Some(kept) = self.without_repeated(stream, Part::Head(part)).await
        {
            self.feed(stream, &kept.block(arrival(part.generation, part.within)));
            return;
        }
        let summary = BlockSummary {
            min_timestamp_ns: min_ns,
            max_timestamp_ns: max_ns,
            entries: block.len() as u64,
            line_bytes: block.lines().len() as u64,
        };
        self.prepare(stream);
        let Some(state) = &mut self.states[stream as usize] else { return };
        // It says no where metadata could matter.
        if self.executor.summary(state, &summary) {
            return;
        }
        let wants_metadata = block.has_metadata() && state.needs().metadata;
        if wants_metadata {
            self.stats.head_metadata_bytes += block.metadata_columns().0.len() as u64;
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
        self.stats.head_blocks += 1;
        self.executor.block(state, &columns);
    }

    /// The directory of a segment; `None` if it cannot be read, which is counted.
    async fn directory(&mut self, segment: &SealedSegment) -> Option<Arc<HeldDirectory>> {
        match self.env.directories.get(segment).await {
            Ok(directory) => Some(directory),
            Err(error) => {
                self.stats.unreadable_parts += 1;
                self.env.note_damage(segment, None, "directory", &error.into());
                None
            }
        }
    }

    async fn sealed_block(&mut self, segment: u32, block: u32) {
        let sealed = &self.job.segments[segment as usize];
        let Some(directory) = self.directory(sealed).await else { return };
        let runs = frontier::runs_of(self.job, &mut self.wanted, segment, &directory, block);
        let mut opened = columns::OpenBlock::new(self.env, sealed, &directory, block);
        for RunPlace { run, stream, is_late } in &runs {
            if !self.executor.wants(run.min_ns, run.max_ns) {
                continue;
            }
            let number = arrival(segment, run.run);
            if *is_late
                && let Some(kept) = self.without_repeated(*stream, Part::Run { segment, run }).await
            {
                self.feed(*stream, &kept.block(number));
                continue;
            }
            self.prepare(*stream);
            let Some(state) = &mut self.states[*stream as usize] else { continue };
            if self.executor.summary(state, &run.summary()) {
                continue;
            }
            let needs = state.needs();
            let read = match self.searched_run(&mut opened, run, *stream, number).await {
                Ok(true) => continue,
                Ok(false) => opened.run(run, needs, &mut self.stats).await,
                Err(error) => Err(error),
            };
            match read {
                Ok(columns) => self.feed(*stream, &columns.block(number)),
                Err(error) => {
                    // The block's other runs share the damaged column.
                    self.stats.unreadable_parts += 1;
                    self.env.note_damage(sealed, Some(&directory), "block", &error);
                    return;
                }
            }
        }
    }

    /// Gives the engine a block of a stream.
    fn feed(&mut self, stream: u32, block: &EntryBlock<'_>) {
        self.prepare(stream);
        if let Some(state) = &mut self.states[stream as usize] {
            self.executor.block(state, block);
        }
    }

    /// The part without the entries that an earlier one of the stream holds too;
    /// `None` if there are none.
    async fn without_repeated(&mut self, stream: u32, part: Part<'_>) -> Option<RunColumns> {
        let (env, late, stats) = (self.env, &mut self.late, &mut self.stats);
        match late::without_repeated(env, self.job, late, stream, part, stats).await {
            Ok(kept) => kept,
            Err((segment, error)) => {
                // Seen twice is better than not at all.
                self.stats.unreadable_parts += 1;
                let segment = &self.job.segments[segment as usize];
                let directory = self.env.directories.get(segment).await.ok();
                self.env.note_damage(segment, directory.as_deref().map(|d| &**d), "block", &error);
                None
            }
        }
    }
}

/// The dictionary form of a block's metadata, as the engine takes it.
pub(crate) fn intern(block: &HeadBlock) -> (MetadataSets, Vec<u32>) {
    let mut sets = MetadataSets::new();
    let mut set_ids = Vec::with_capacity(block.len());
    for index in 0..block.len() {
        let id = sets.intern(block.metadata(index));
        // A block holds far less than the 4 GiB of text that fill a dictionary.
        set_ids.push(id.expect("a block's metadata fits a dictionary"));
    }
    (sets, set_ids)
}

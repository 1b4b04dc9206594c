//! Runs one shard's part of a query over a snapshot, beside the shard.
//!
//! What is read is a list of *units*, ordered by time in query direction so that a
//! limit ends the scan early: a block of a head, or a block of a sealed segment with
//! those of its runs that the query wants ([`frontier`]). Segments are looked at
//! only when the scan has come to their time. Of a sealed block only the columns are
//! read that the query needs ([`columns`]), and none if the directory's counts are
//! enough or the segment's filters prove that nothing in it can match ([`prune`]).
//! Lines are not put together where their filters can do without ([`search`]).
//! A scan that turns out to be long is divided among all cores ([`share`]).
//! An entry that was stored twice because it came again after it had been sealed is
//! seen once ([`late`]).
//!
//! A scan whose stages are light (`LeafPlan::core_batch_bytes`) begins on its core, one small block at
//! a time, and most are done within [`ScanConfig::first_slice`]. What comes then, what is large,
//! and all of other scans is computed on side threads, a batch of blocks at a time ([`leaf`]):
//! the core only finds the blocks, reads them ([`fill`]) and keeps what was decoded. So whatever
//! else the core has to do, such as a push, waits for no query. What a batch holds is reserved
//! ([`memory`]). A scan that goes on for longer than [`ScanConfig::heavy_after`] gets less of
//! the CPU than sealing and other queries do.
//!
//! Guarantees: the snapshot does not change while it is read; the core's other
//! tasks get their turn after the scan's first slice plus the time of one small block, and from
//! then on at least once per [`SLICE`] plus the time of checking one segment's directory and
//! looking up the streams in it; a cancelled query stops within one block. A block whose
//! bytes are damaged is left out, counted, and logged once; the rest is answered. What else
//! can go wrong is in [`ScanError`].

mod columns;
mod env;
mod fill;
mod frontier;
mod head_parts;
mod late;
mod leaf;
mod memory;
mod prune;
mod request;
mod search;
mod share;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{LeafExecutor, PlanError, Stop};
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::{Monotonic, Runtime, SideQueue};

use crate::head::HeadBlock;
use crate::sealed::SealedSegment;
use crate::segment::Decoder;
use crate::types::ScanStats;
pub use env::{ScanConfig, ScanEnv};
use frontier::{Frontier, Unit, WantedStreams, Work};
pub use head_parts::HeadParts;
use late::LateStreams;
pub(crate) use leaf::intern;
use leaf::{Batch, BatchSize, Leaf};
pub use memory::{PartAllowance, stop_of};
use prune::Conditions;
pub use request::{LeafReply, LeafRequest};
use share::Share;
pub(crate) use snapshots::FETCHED_AT_ONCE;
pub use snapshots::StreamSnapshots;

/// A scan of more streams is begun aside: it looks at each of them.
const STREAMS_MAX_ON_CORE: usize = 2_000;

/// A batch of more entries is computed aside: each costs something, however short its line is.
const ENTRIES_MAX_ON_CORE: usize = 16 << 10;

/// A leaf that holds more is finished aside: whatever it found goes into its result.
const HELD_BYTES_MAX_ON_CORE: usize = 256 << 10;

/// How long a scan keeps the core before it yields.
const SLICE: Duration = Duration::from_millis(1);

/// Where the blocks of heads stand in the order of arrival: behind all segments.
/// Entries that are being sealed come before those that came since.
const GENERATION_SET_ASIDE: u32 = u32::MAX - 1;
const GENERATION_HEAD: u32 = u32::MAX;

/// The arrival number of a block: generations in their order, and the blocks of one
/// stream within a generation.
fn arrival(generation: u32, within: u32) -> u64 {
    (u64::from(generation) << 32) | u64::from(within)
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
    /// How long the scan has taken that this is a part of.
    taken: Duration,
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
            taken: Duration::ZERO,
            missing_segments: 0,
        }
    }

    /// The same snapshot, for looking things up in it beside the scan.
    fn without_work(&self) -> ScanJob {
        ScanJob {
            request: self.request.clone(),
            streams: Arc::clone(&self.streams),
            segments: Arc::clone(&self.segments),
            work: Work::default(),
            share: self.share,
            taken: self.taken,
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
        max_bytes: u64,
    },
    /// There is no memory for what it has to look at.
    #[error("there is no memory for the query now")]
    Busy,
    /// Nobody waits for it any more.
    #[error("the query was cancelled")]
    Cancelled,
}

impl From<Stop> for ScanError {
    fn from(stop: Stop) -> ScanError {
        match stop {
            Stop::TooLarge { max_bytes } => ScanError::Memory { max_bytes },
            Stop::Busy => ScanError::Busy,
            Stop::Ended => ScanError::Cancelled,
        }
    }
}

/// Runs a part of a query: to its end, or, if it is long, to where its rest is
/// better shared by all cores.
///
/// # Errors
/// See [`ScanError`].
pub async fn run<R: Runtime>(env: &ScanEnv<R>, job: ScanJob) -> Result<LeafReply, ScanError> {
    let now = env.runtime.now();
    // A part of a divided scan is part of a long one.
    let is_short = job.share.is_whole() && job.request.plan.effort().is_short();
    let begin_aside = !is_short || job.streams.len() > STREAMS_MAX_ON_CORE;
    // Others need some, too.
    let directories_bytes = env.directories.share_bytes() / 2;
    let decoder = env.decoders.take();
    let begin = move || Begun::new(job, decoder, directories_bytes);
    let begun = env.compute(begin_aside.then_some(SideQueue::Queries), begin).await?;
    let Begun { job, mut leaf, mut frontier, conditions } = begun;
    let core_batch_bytes = if is_short { job.request.plan.core_batch_bytes() } else { 0 };
    let mut scan = Scan {
        env,
        wanted: WantedStreams::default(),
        late: LateStreams::default(),
        conditions,
        stats: ScanStats::default(),
        aside: (core_batch_bytes == 0).then_some(SideQueue::Queries),
        core_batch_bytes,
        batch_size: BatchSize::default(),
        long_after: now.after(env.first_slice),
        heavy_after: now.after(env.heavy_after.saturating_sub(job.taken)),
        slice_end: now.after(SLICE.max(env.first_slice)),
        job: &job,
    };
    if job.share.is_whole() {
        scan.stats.streams = job.streams.len() as u64;
        scan.stats.unreadable_parts = job.missing_segments;
    }
    let mut rest = None;
    while !leaf.executor.is_done() {
        let batch = scan.fill(&mut leaf, &mut frontier).await?;
        if batch.items.is_empty() {
            break;
        }
        let (bytes, begun) = (batch.bytes, env.runtime.now());
        leaf = scan.evaluate(leaf, batch).await?;
        scan.batch_size.note(bytes, env.runtime.now().since(begun));
        let looked_at_bytes = scan.bytes_looked_at(&leaf);
        if job.share.is_whole() && looked_at_bytes >= env.divide_after_bytes {
            let plan = leaf.executor.rest_of_plan();
            let taken = env.runtime.now().since(now);
            if !frontier.is_empty() {
                rest = Some(Box::new(job.rest(plan, frontier.into_work(), taken)));
            }
            break;
        }
    }
    let mut stats = scan.stats;
    stats.add(&leaf.stats);
    leaf.check()?;
    let is_small = leaf.executor.held_bytes() <= HELD_BYTES_MAX_ON_CORE;
    let finish_aside = scan.aside.or((!is_small).then_some(SideQueue::Queries));
    let (found, decoder) = env.compute(finish_aside, move || leaf.finish()).await;
    env.decoders.give_back(decoder);
    let (result, memory) = found?;
    if result.ends_query() {
        // Whatever else is found for it, nobody will look at it.
        job.request.cancellation.cancel();
    }
    Ok(LeafReply { result, memory, stats, rest })
}

/// What a scan begins with.
struct Begun {
    job: ScanJob,
    leaf: Box<Leaf>,
    frontier: Frontier,
    conditions: Conditions,
}

impl Begun {
    /// Compiles the leaf of a job, and puts what it has to visit in order.
    fn new(mut job: ScanJob, decoder: Decoder, directories_bytes: u64) -> Result<Begun, ScanError> {
        let request = &job.request;
        let (grant, cancellation) = (request.account.grant(), request.cancellation.clone());
        let allowance = Box::new(PartAllowance { grant, cancellation });
        let executor = LeafExecutor::with_allowance(&request.plan, allowance);
        let mut executor = executor.map_err(|error| match error {
            PlanError::Stopped(stop) => ScanError::from(stop),
            error => ScanError::Plan(error.to_string()),
        })?;
        let conditions = prune::conditions(&job);
        let work = std::mem::take(&mut job.work);
        // They are there already; without memory for them the leaf is stopped.
        let snapshot_bytes =
            job.streams.len() * size_of::<StreamSnapshot>() + work.units.len() * size_of::<Unit>();
        let _is_admitted = executor.hold(snapshot_bytes);
        let frontier = Frontier::new(&job, work, directories_bytes);
        let leaf = Box::new(Leaf::new(&job, executor, decoder));
        Ok(Begun { job, leaf, frontier, conditions })
    }
}

/// What of a scan stays on its core.
struct Scan<'a, R: Runtime> {
    env: &'a ScanEnv<R>,
    job: &'a ScanJob,
    wanted: WantedStreams,
    late: LateStreams,
    conditions: Conditions,
    stats: ScanStats,
    /// Which side threads compute the rest, if any.
    aside: Option<SideQueue>,
    /// A batch of more bytes is computed aside in any case.
    core_batch_bytes: usize,
    batch_size: BatchSize,
    long_after: Monotonic,
    heavy_after: Monotonic,
    slice_end: Monotonic,
}

impl<R: Runtime> Scan<'_, R> {
    /// Lets others have the core if the slice is over, and looks whether the query
    /// may go on.
    async fn pause(&mut self, leaf: &Leaf) -> Result<(), ScanError> {
        leaf.check()?;
        let now = self.env.runtime.now();
        if now >= self.heavy_after {
            self.aside = Some(SideQueue::HeavyQueries);
        } else if now >= self.long_after {
            self.aside = Some(SideQueue::Queries);
        }
        if now >= self.slice_end {
            self.env.runtime.yield_now().await;
            self.slice_end = self.env.runtime.now().after(SLICE);
        }
        Ok(())
    }

    fn bytes_looked_at(&self, leaf: &Leaf) -> u64 {
        let of = |stats: &ScanStats| stats.decoded_bytes + stats.cached_bytes;
        of(&self.stats) + of(&leaf.stats)
    }

    /// Computes a batch to its end.
    async fn evaluate(
        &mut self,
        mut leaf: Box<Leaf>,
        mut batch: Box<Batch>,
    ) -> Result<Box<Leaf>, ScanError> {
        let is_small = batch.bytes <= self.core_batch_bytes && batch.entries <= ENTRIES_MAX_ON_CORE;
        let batch_aside = (!is_small).then_some(SideQueue::Queries);
        loop {
            let work = move || {
                leaf.work(&mut batch);
                (leaf, batch)
            };
            (leaf, batch) = self.env.compute(self.aside.or(batch_aside), work).await;
            self.env.keep(std::mem::take(&mut batch.fresh));
            for damage in batch.damages.drain(..) {
                // The block's other runs share the damaged column.
                self.stats.unreadable_parts += 1;
                let segment = &self.job.segments[damage.segment as usize];
                self.env.note_damage(segment, Some(&damage.directory), "block", &damage.error);
            }
            self.pause(&leaf).await?;
            if leaf.executor.is_done() || batch.items.is_empty() {
                return Ok(leaf);
            }
            self.load_missing(&mut batch).await;
        }
    }
}

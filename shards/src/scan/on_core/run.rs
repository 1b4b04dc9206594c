//! Runs a scan on its core, from its first batch to its reply.
//!
//! Guarantees: the core's other tasks get their turn after the first slice of the scan, and
//! once per [`SLICE`] from then on; a cancelled query stops within one block.

use std::time::Duration;

use logsvc_logql::engine::{Allowance, LeafExecutor};
use logsvc_runtime::{Monotonic, Runtime, SideQueue};

use super::ahead::Ahead;
use super::batch_size::BatchSize;
use super::bundles::MetBundles;
use super::frontier::{Frontier, Unit};
use super::hiding::HidingBlocks;
use super::late::LateStreams;
use super::learn::KnownStreams;
use super::prune;
use super::{LeafReply, ScanEnv, ScanJob};
use crate::deletion::HiddenEntries;
use crate::scan::ScanError;
use crate::scan::aside::{Batch, Leaf, PartAllowance};
use crate::sealed::Condition;
use crate::types::ScanStats;
use logsvc_segment::Decoder;

/// A scan of more streams is begun aside: it looks at each of them.
const STREAMS_MAX_ON_CORE: usize = 2_000;

/// A batch of more entries is computed aside: each costs something, however short its line is.
const ENTRIES_MAX_ON_CORE: usize = 16 << 10;

/// A leaf that holds more is finished aside: whatever it found goes into its result.
const HELD_BYTES_MAX_ON_CORE: usize = 256 << 10;

/// How long a scan keeps the core before it yields.
const SLICE: Duration = Duration::from_millis(1);

/// Runs a part of a query: to its end, or, if it is long, to where its rest is
/// better shared by all cores.
///
/// # Errors
/// See [`ScanError`].
pub async fn run<R: Runtime>(env: &ScanEnv<R>, job: ScanJob) -> Result<LeafReply, ScanError> {
    let now = env.runtime.now();
    // A part of a divided scan is part of a long one.
    let filters = job.filters;
    let is_short =
        job.share.is_whole() && filters.is_short && job.request.plan.estimate().is_short();
    let begin_aside = !is_short || job.streams.len() > STREAMS_MAX_ON_CORE;
    // Others need some, too.
    let directories_bytes = env.directories.share_bytes() / 2;
    let decoder = env.decoders.take();
    let begin = move || StartedScan::new(job, decoder, directories_bytes);
    let begun = env.compute(begin_aside.then_some(SideQueue::Queries), begin).await?;
    let StartedScan { mut job, mut leaf, mut frontier, conditions, is_cut } = begun;
    let streams = std::mem::take(&mut job.streams);
    let core_batch_bytes = match is_short {
        true => job.request.plan.core_batch_bytes().min(filters.core_batch_bytes),
        false => 0,
    };
    let mut scan = Scan {
        env,
        known: KnownStreams { streams, ..KnownStreams::default() },
        late: LateStreams::default(),
        hiding: HidingBlocks::default(),
        conditions,
        bundles: MetBundles::default(),
        ahead: Ahead::default(),
        stats: ScanStats { cut_leaves: u64::from(is_cut), ..ScanStats::default() },
        aside: (core_batch_bytes == 0).then_some(SideQueue::Queries),
        core_batch_bytes,
        batch_size: BatchSize::default(),
        long_after: now.after(env.first_slice),
        heavy_after: now.after(env.heavy_after.saturating_sub(job.taken)),
        slice_end: now.after(SLICE.max(env.first_slice)),
        job: &job,
    };
    if job.share.is_whole() {
        scan.stats.streams = scan.known.streams.len() as u64;
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
        // Cores that share a scan do not know which streams the others have found.
        let may_divide = !(leaf.executor.counts_streams() && job.has_unknown_segments());
        if job.share.is_whole() && may_divide && looked_at_bytes >= env.divide_after_bytes {
            let plan = leaf.executor.rest_of_plan();
            let taken = env.runtime.now().since(now);
            if !frontier.is_empty() {
                let streams = scan.known.streams.clone();
                rest = Some(Box::new(job.rest(plan, streams, frontier.into_work(), taken)));
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
        // No client will look at further results of the query.
        job.request.cancellation.cancel();
    }
    Ok(LeafReply { result, memory, stats, rest })
}

/// A scan that is ready for its first batch.
struct StartedScan {
    job: ScanJob,
    leaf: Box<Leaf>,
    frontier: Frontier,
    conditions: Vec<Condition>,
    /// Whether it looks for fewer entries than the plan has.
    is_cut: bool,
}

impl StartedScan {
    /// Compiles the leaf of a job, and puts its units in order.
    fn new(
        mut job: ScanJob,
        decoder: Decoder,
        directories_bytes: u64,
    ) -> Result<StartedScan, ScanError> {
        let known = if job.has_unknown_segments() { usize::MAX } else { job.held_streams() };
        let is_cut = job.request.cut(known);
        let request = &job.request;
        let (grant, cancellation) = (request.account.grant(), request.cancellation.clone());
        let allowance = Box::new(PartAllowance { grant, cancellation });
        let hidden = HiddenEntries::new(allowance.sibling());
        let executor = LeafExecutor::with_allowance(&request.plan, allowance);
        let mut executor = executor.map_err(ScanError::from)?;
        let conditions = prune::conditions(&job);
        let work = std::mem::take(&mut job.work);
        // The streams are there already; without memory for them the leaf is stopped.
        let snapshot_bytes = size_of_val(job.streams.held()) + work.units.len() * size_of::<Unit>();
        let _is_admitted = executor.hold(snapshot_bytes);
        let takes_totals = executor.takes_totals() && job.share.is_whole();
        let is_counted_at_once =
            |(min_ns, max_ns): (i64, i64)| takes_totals && executor.sees_alike(min_ns, max_ns);
        let frontier = Frontier::new(&job, work, directories_bytes, is_counted_at_once);
        let leaf = Box::new(Leaf::new(&job.request.plan, &job.streams, executor, hidden, decoder));
        Ok(StartedScan { job, leaf, frontier, conditions, is_cut })
    }
}

/// The part of a scan's state that stays on its core.
pub(super) struct Scan<'a, R: Runtime> {
    pub(super) env: &'a ScanEnv<R>,
    pub(super) job: &'a ScanJob,
    pub(super) known: KnownStreams,
    pub(super) late: LateStreams,
    pub(super) hiding: HidingBlocks,
    /// The conditions that hold for all known streams.
    pub(super) conditions: Vec<Condition>,
    pub(super) bundles: MetBundles,
    pub(super) ahead: Ahead,
    pub(super) stats: ScanStats,
    /// Which side threads compute the rest, if any.
    pub(super) aside: Option<SideQueue>,
    /// A batch of more bytes is computed aside in any case.
    core_batch_bytes: usize,
    pub(super) batch_size: BatchSize,
    long_after: Monotonic,
    heavy_after: Monotonic,
    slice_end: Monotonic,
}

impl<R: Runtime> Scan<'_, R> {
    /// Lets others have the core if the slice is over, and looks whether the query
    /// may go on.
    pub(super) async fn pause(&mut self, leaf: &Leaf) -> Result<(), ScanError> {
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

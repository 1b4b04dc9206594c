//! Leaves out entries that are stored twice.
//!
//! A head drops an entry that it holds already, but not one that was sealed. Equal entries come
//! into two generations if a client repeats a push after its first try was sealed, or if a log
//! is replayed after a crash at an unlucky time. Queries must see them once. The rule: of equal
//! entries (stream, timestamp, line, metadata) the one in the earliest generation counts.
//!
//! Guarantees: only streams whose generations overlap in time pay for this. Their timestamps are
//! compared first, and lines are read only where timestamps are equal.

use std::rc::Rc;
use std::sync::Arc;

use ahash::HashMap;
use logsvc_logql::engine::{MetadataSets, Needs};
use logsvc_proto::StreamId;
use logsvc_runtime::{Runtime, SideQueue};

use super::load::{load_wanted, want_run};
use super::{ScanEnv, ScanJob};
use crate::scan::HeadBlockRef;
use crate::scan::aside::{OpenBlock, RunColumns, Unready};
use crate::scan::error::ReadError;
use crate::scan::streams::ScanStreams;
use crate::sealed::{HeldDirectory, hasher};
use crate::types::ScanStats;
use logsvc_segment::head::HeadBlock;
use logsvc_segment::{BlockMetadata, RunInfo};

const EVERYTHING: Needs = Needs { line_lengths: true, lines: true, metadata: true };

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum RunSource<'a> {
    /// A block of its head.
    Head(&'a HeadBlockRef),
    /// A run of a segment of the job.
    Run { segment: u32, run: &'a RunInfo },
}

/// Runs of streams that are late, by stream and segment of the job, found when first asked
/// for.
#[derive(Debug)]
pub(super) struct LateStreams {
    runs: HashMap<(u32, u32), Rc<[RunInfo]>>,
}

impl Default for LateStreams {
    fn default() -> LateStreams {
        LateStreams { runs: HashMap::with_hasher(hasher()) }
    }
}

impl LateStreams {
    /// The runs of a stream in a segment.
    async fn runs<R: Runtime>(
        &mut self,
        env: &ScanEnv<R>,
        job: &ScanJob,
        (stream, id): (u32, StreamId),
        segment: u32,
    ) -> Result<Rc<[RunInfo]>, SegmentFailure> {
        if let Some(runs) = self.runs.get(&(stream, segment)) {
            return Ok(Rc::clone(runs));
        }
        let directory = directory(env, job, segment).await?;
        let held = job.segments[segment as usize].has_live(id);
        let row = directory.find_stream(id).filter(|_| held);
        let runs = row.into_iter().flat_map(|row| directory.runs_of_stream(row));
        let runs: Rc<[RunInfo]> = runs.collect();
        self.runs.insert((stream, segment), Rc::clone(&runs));
        Ok(runs)
    }
}

async fn directory<R: Runtime>(
    env: &ScanEnv<R>,
    job: &ScanJob,
    segment: u32,
) -> Result<Arc<HeldDirectory>, SegmentFailure> {
    let directory = env.directories.get(&job.segments[segment as usize]).await;
    directory.map_err(|error| (segment, error.into()))
}

/// A failure to read a segment, given by its index in the job.
pub(super) type SegmentFailure = (u32, ReadError);

/// The part without the entries that an earlier generation holds too; `None` if
/// there are none. The columns of a long scan are decoded on a side thread.
///
/// # Errors
/// A segment cannot be read.
pub(super) async fn without_repeated<R: Runtime>(
    env: &ScanEnv<R>,
    (job, streams): (&ScanJob, &ScanStreams),
    late: &mut LateStreams,
    stream: u32,
    part: RunSource<'_>,
    aside: Option<SideQueue>,
    stats: &mut ScanStats,
) -> Result<Option<RunColumns>, SegmentFailure> {
    let (generation, bounds_ns) = match part {
        RunSource::Head(head) => (head.generation, head.time_bounds_ns()),
        RunSource::Run { segment, run } => (segment, (run.min_ns, run.max_ns)),
    };
    let overlaps = |other_ns: (i64, i64)| other_ns.0 <= bounds_ns.1 && other_ns.1 >= bounds_ns.0;
    let mut search = Search { env, job, part, aside, mine: None, keep: Vec::new() };
    for (segment, sealed) in (0..generation).zip(job.segments.iter()) {
        if !overlaps((sealed.live.min_ns, sealed.live.max_ns)) {
            continue;
        }
        let runs = late.runs(env, job, (stream, streams.id(stream)), segment).await?;
        for run in runs.iter().filter(|run| overlaps((run.min_ns, run.max_ns))) {
            search.compare(RunSource::Run { segment, run }, stats).await?;
        }
    }
    for head in streams.head_blocks(stream) {
        if head.generation < generation && overlaps(head.time_bounds_ns()) {
            search.compare(RunSource::Head(head), stats).await?;
        }
    }
    let Search { mine, keep, .. } = search;
    let Some(mine) = mine else { return Ok(None) };
    if keep.iter().all(|&kept| kept) {
        return Ok(None);
    }
    Ok(Some(mine.kept(&keep)))
}

/// Looks for the entries of a part in earlier parts.
struct Search<'a, R: Runtime> {
    env: &'a ScanEnv<R>,
    job: &'a ScanJob,
    part: RunSource<'a>,
    aside: Option<SideQueue>,
    /// The part, from the first one on that overlaps it.
    mine: Option<Loaded<'a>>,
    /// Which of its entries no earlier part has; empty as long as all of them.
    keep: Vec<bool>,
}

impl<R: Runtime> Search<'_, R> {
    async fn compare(
        &mut self,
        other: RunSource<'_>,
        stats: &mut ScanStats,
    ) -> Result<(), SegmentFailure> {
        let Search { env, job, part, aside, mine, keep } = self;
        let mine = match mine {
            Some(mine) => mine,
            none => none.insert(Loaded::of(env, job, *part, *aside, stats).await?),
        };
        // Timestamps decide mostly; the cache keeps the columns for the steps that follow.
        let times = Times::of(env, job, other, *aside, stats).await?;
        if !mine.shares_time_with(times.as_slice()) {
            return Ok(());
        }
        let other = Loaded::of(env, job, other, *aside, stats).await?;
        if keep.is_empty() {
            keep.resize(mine.len(), true);
        }
        mine.drop_those_in(&other, keep);
        Ok(())
    }
}

/// Timestamps of a part.
enum Times<'a> {
    Borrowed(&'a [i64]),
    Run(RunColumns),
}

impl<'a> Times<'a> {
    async fn of<R: Runtime>(
        env: &ScanEnv<R>,
        job: &ScanJob,
        part: RunSource<'a>,
        aside: Option<SideQueue>,
        stats: &mut ScanStats,
    ) -> Result<Times<'a>, SegmentFailure> {
        let needs = Needs { line_lengths: false, lines: false, metadata: false };
        Ok(match part {
            RunSource::Head(head) => Times::Borrowed(head.block.timestamps_ns()),
            RunSource::Run { segment, run } => {
                Times::Run(load(env, job, segment, run, needs, aside, stats).await?)
            }
        })
    }

    fn as_slice(&self) -> &[i64] {
        match self {
            Times::Borrowed(times) => times,
            Times::Run(columns) => &columns.timestamps[columns.entries.clone()],
        }
    }
}

async fn load<R: Runtime>(
    env: &ScanEnv<R>,
    job: &ScanJob,
    segment: u32,
    run: &RunInfo,
    needs: Needs,
    aside: Option<SideQueue>,
    stats: &mut ScanStats,
) -> Result<RunColumns, SegmentFailure> {
    let sealed = &job.segments[segment as usize];
    let directory = directory(env, job, segment).await?;
    let mut block = OpenBlock::new(sealed, &directory, run.block);
    want_run(env, &mut block, run, needs, stats);
    load_wanted(env, std::iter::once((&**sealed, &mut block)), stats).await;
    let (run, mut decoder) = (run.clone(), env.decoders.take());
    let decode = move || {
        let mut stats = ScanStats::default();
        let columns = block.run(&run, needs, &mut decoder, &mut stats);
        (columns, block.take_fresh(), decoder, stats)
    };
    let (columns, fresh, decoder, more) = env.compute(aside, decode).await;
    stats.add(&more);
    env.decoders.give_back(decoder);
    env.keep(fresh);
    columns.map_err(|unready| match unready {
        Unready::Failed(error) => (segment, error),
        Unready::Missing => unreachable!("all that the run needs was loaded"),
    })
}

/// A part with all of its columns.
enum Loaded<'a> {
    Head { block: &'a HeadBlock, times: Vec<i64> },
    Run { columns: RunColumns, times: Vec<i64> },
}

impl<'a> Loaded<'a> {
    async fn of<R: Runtime>(
        env: &ScanEnv<R>,
        job: &ScanJob,
        part: RunSource<'a>,
        aside: Option<SideQueue>,
        stats: &mut ScanStats,
    ) -> Result<Loaded<'a>, SegmentFailure> {
        Ok(match part {
            RunSource::Head(head) => {
                let mut times = head.block.timestamps_ns().to_vec();
                times.sort_unstable();
                Loaded::Head { block: &head.block, times }
            }
            RunSource::Run { segment, run } => {
                let columns = load(env, job, segment, run, EVERYTHING, aside, stats).await?;
                let times = columns.timestamps[columns.entries.clone()].to_vec();
                Loaded::Run { columns, times }
            }
        })
    }

    fn len(&self) -> usize {
        self.sorted_times().len()
    }

    fn sorted_times(&self) -> &[i64] {
        match self {
            Loaded::Head { times, .. } | Loaded::Run { times, .. } => times,
        }
    }

    fn shares_time_with(&self, times: &[i64]) -> bool {
        times.iter().any(|ts| self.sorted_times().binary_search(ts).is_ok())
    }

    fn timestamp_ns(&self, index: usize) -> i64 {
        match self {
            Loaded::Head { block, .. } => block.timestamps_ns()[index],
            Loaded::Run { times, .. } => times[index],
        }
    }

    fn line(&self, index: usize) -> &[u8] {
        match self {
            Loaded::Head { block, .. } => block.line(index),
            Loaded::Run { columns, .. } => {
                let block = columns.block(0);
                let start = index.checked_sub(1).map_or(0, |before| block.line_ends[before]);
                &block.lines[start as usize..block.line_ends[index] as usize]
            }
        }
    }

    fn metadata(&self, index: usize) -> Vec<(&str, &str)> {
        match self {
            Loaded::Head { block, .. } => block.metadata(index).collect(),
            Loaded::Run { columns, .. } => match &columns.metadata {
                None => Vec::new(),
                Some(column) => {
                    column.sets.get(column.set_ids[columns.entries.start + index]).collect()
                }
            },
        }
    }

    fn hash(&self, index: usize) -> u64 {
        hasher().hash_one((self.timestamp_ns(index), self.line(index), self.metadata(index)))
    }

    /// Notes the own entries that `other` has, too.
    fn drop_those_in(&self, other: &Loaded<'_>, keep: &mut [bool]) {
        let mut held: HashMap<u64, Vec<u32>> = HashMap::with_hasher(hasher());
        for index in 0..other.len() {
            if self.sorted_times().binary_search(&other.timestamp_ns(index)).is_ok() {
                held.entry(other.hash(index)).or_default().push(index as u32);
            }
        }
        for (index, kept) in keep.iter_mut().enumerate() {
            let Some(indices) = held.get(&self.hash(index)) else { continue };
            let equal = indices.iter().any(|&other_index| {
                let other_index = other_index as usize;
                self.timestamp_ns(index) == other.timestamp_ns(other_index)
                    && self.line(index) == other.line(other_index)
                    && self.metadata(index) == other.metadata(other_index)
            });
            *kept &= !equal;
        }
    }

    /// A copy of the entries that are kept.
    fn kept(&self, keep: &[bool]) -> RunColumns {
        let (mut timestamps, mut ends, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sets, mut ids) = (MetadataSets::new(), Vec::new());
        for index in (0..self.len()).filter(|&index| keep[index]) {
            timestamps.push(self.timestamp_ns(index));
            lines.extend_from_slice(self.line(index));
            ends.push(lines.len() as u32);
            let id = sets.intern(self.metadata(index));
            ids.push(id.expect("a block's metadata fits a dictionary"));
        }
        let sorted = timestamps.is_sorted();
        let (entries, line_bytes) = (0..timestamps.len(), 0..lines.len());
        RunColumns {
            timestamps: Arc::new(timestamps),
            ends: Some(Arc::new(ends)),
            lines: Some(Arc::new(lines)),
            metadata: Some(Arc::new(BlockMetadata { sets, set_ids: ids, listed: None })),
            entries,
            line_bytes,
            sorted,
        }
    }
}

//! The order in which a scan visits units.
//!
//! Guarantees: units come newest first or oldest first, by their newest or oldest entry. A
//! segment is expanded into units no earlier than its time has come, so a scan that ends early
//! never opens the rest.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use ahash::HashMap;
use logsvc_logql::engine::Direction;
use logsvc_proto::StreamId;

use super::ScanJob;
use super::learn::KnownStreams;
use crate::manifest::SegmentName;
use crate::scan::StreamSnapshot;
use crate::scan::aside::StreamRun;
use crate::scan::streams::{FoundStream, ScanStreams};
use crate::sealed::{SealedSegment, hasher};
use crate::types::TimeRange;
use logsvc_segment::filter::BlockSet;
use logsvc_segment::{Directory, RowSet, RunInfo};

#[derive(Debug)]
pub(super) enum UnitKind {
    /// A block of a head: indices in the job.
    Head { stream: u32, block: u32 },
    /// A sealed block: its segment's index in the job, and its number in the segment.
    Sealed {
        segment: u32,
        block: u32,
        /// The streams of the segment that are not answered yet; `None`: all of them.
        left: Option<Arc<RowSet>>,
    },
}

/// Something to read.
#[derive(Debug)]
pub(super) struct Unit {
    /// The key of the order; the largest comes first.
    key: i64,
    pub(super) kind: UnitKind,
}

impl Unit {
    /// The sealed block that it reads.
    pub(super) fn block(&self) -> Option<u32> {
        match self.kind {
            UnitKind::Head { .. } => None,
            UnitKind::Sealed { block, .. } => Some(block),
        }
    }
}

impl PartialEq for Unit {
    fn eq(&self, other: &Unit) -> bool {
        self.key == other.key
    }
}

impl Eq for Unit {}

impl PartialOrd for Unit {
    fn partial_cmp(&self, other: &Unit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Unit {
    fn cmp(&self, other: &Unit) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// The larger, the earlier in query direction.
fn key(direction: Direction, (min_ns, max_ns): (i64, i64)) -> i64 {
    match direction {
        Direction::Backward => max_ns,
        // Turns the order round without overflow.
        Direction::Forward => !min_ns,
    }
}

/// Everything that is to be visited.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) units: Vec<Unit>,
    /// Places of segments in the job that are not expanded.
    pub(super) segments: Vec<u32>,
}

impl Work {
    /// Everything that a query reads: blocks of heads, and segments.
    pub(super) fn all(direction: Direction, streams: &[StreamSnapshot], segments: usize) -> Work {
        let blocks = streams.iter().map(|snapshot| snapshot.blocks.len());
        let mut units = Vec::with_capacity(blocks.sum());
        for (stream, snapshot) in streams.iter().enumerate() {
            for (block, part) in snapshot.blocks.iter().enumerate() {
                let kind = UnitKind::Head { stream: stream as u32, block: block as u32 };
                units.push(Unit { key: key(direction, part.time_bounds_ns()), kind });
            }
        }
        Work { units, segments: (0..segments as u32).collect() }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Frontier {
    units: BinaryHeap<Unit>,
    /// Segments that are not expanded yet; the next one is last.
    segments: Vec<(i64, u32)>,
    /// Whether a segment is expanded only when all units of the segments before it are done.
    one_by_one: bool,
}

impl Frontier {
    /// The units that a job has to visit, with room for directories of so many bytes. If the
    /// directories of the job take more, segments are visited one by one, so that each directory is
    /// read once. Segments come first of whose times `is_counted_at_once` is true: totals answer
    /// most of them, and only what they leave is worth dividing among cores.
    pub(super) fn new(
        job: &ScanJob,
        work: Work,
        directories_bytes: u64,
        mut is_counted_at_once: impl FnMut((i64, i64)) -> bool,
    ) -> Frontier {
        let direction = job.request.plan.direction();
        let bounds = |index: u32| {
            let live = &job.segments[index as usize].live;
            let bounds_ns = (live.min_ns, live.max_ns);
            let comes_first = is_counted_at_once(bounds_ns);
            (if comes_first { i64::MAX } else { key(direction, bounds_ns) }, index)
        };
        let mut segments: Vec<_> = work.segments.into_iter().map(bounds).collect();
        segments.sort_unstable();
        let lens = job.segments.iter().map(|segment| segment.footer.directory_len_bytes());
        let one_by_one = lens.sum::<u64>() > directories_bytes;
        Frontier { units: work.units.into(), segments, one_by_one }
    }

    /// Takes out everything that was not visited.
    pub(super) fn into_work(self) -> Work {
        let segments = self.segments.into_iter().map(|(_, index)| index).collect();
        Work { units: self.units.into_vec(), segments }
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.segments.is_empty()
    }

    /// A segment that has to be expanded before the next unit is known.
    pub(super) fn next_segment(&mut self) -> Option<u32> {
        let &(key, segment) = self.segments.last()?;
        let comes_later = |unit: &Unit| self.one_by_one || unit.key > key;
        if self.units.peek().is_some_and(comes_later) {
            return None;
        }
        self.segments.pop();
        Some(segment)
    }

    /// The segments that are not expanded yet, the next one first.
    pub(super) fn upcoming(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().rev().map(|&(_, index)| index)
    }

    pub(super) fn add(&mut self, units: Vec<Unit>) {
        self.units.extend(units);
    }

    pub(super) fn next_unit(&mut self) -> Option<Unit> {
        self.units.pop()
    }
}

/// Numbers of the scan's streams by id, made when a segment first asks for them.
#[derive(Debug, Default)]
pub(super) struct WantedStreams(Option<HashMap<StreamId, u32>>);

impl WantedStreams {
    pub(super) fn indices(&mut self, streams: &ScanStreams) -> &HashMap<StreamId, u32> {
        self.0.get_or_insert_with(|| {
            let mut indices = HashMap::with_capacity_and_hasher(streams.len(), hasher());
            indices.extend(streams.ids().zip(0..));
            indices
        })
    }

    /// Notes streams that are about to be added to the scan's.
    pub(super) fn add(&mut self, streams: &ScanStreams, found: &[FoundStream]) {
        if let Some(indices) = &mut self.0 {
            indices.extend(found.iter().map(|found| found.id).zip(streams.len() as u32..));
        }
    }
}

/// A stream of the scan that a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldRow {
    /// Its number in the segment.
    pub(super) row: u32,
    /// Its number in the scan.
    pub(super) stream: u32,
}

/// Streams of the scan that its blocks have to answer in a segment.
#[derive(Debug, Default)]
pub(super) struct LeftRows {
    /// They rise by their rows.
    pub(super) held: Vec<HeldRow>,
    /// Their rows, if the segment holds other streams of the scan, too, which are answered.
    pub(super) rows: Option<Arc<RowSet>>,
}

/// The blocks of a segment in which some of its streams have entries of the scan's time.
pub(super) fn units_of(
    job: &ScanJob,
    index: u32,
    directory: &Directory,
    left: &LeftRows,
) -> Vec<Unit> {
    let mut units = UnitWriter::new(job, index, left.rows.clone());
    for held in &left.held {
        for run in directory.runs_of_stream(held.row) {
            if job.share.has_block(units.name, run.block) {
                units.add(&run);
            }
        }
    }
    units.finish()
}

/// The same of all streams of the scan, if their blocks are among `blocks`.
pub(super) fn units_among(
    job: &ScanJob,
    known: &mut KnownStreams,
    index: u32,
    directory: &Directory,
    blocks: &BlockSet,
) -> Vec<Unit> {
    let segment = &job.segments[index as usize];
    let wanted = known.wanted.indices(&known.streams);
    let mut units = UnitWriter::new(job, index, None);
    for block in blocks.iter() {
        for run in directory.runs_of_block(block as u32) {
            let id = directory.stream_id(run.stream);
            if wanted.contains_key(&id) && segment.has_live(id) {
                units.add(&run);
            }
        }
    }
    units.finish()
}

/// Makes units of the runs of a segment, whose blocks rise.
struct UnitWriter {
    segment: u32,
    name: SegmentName,
    direction: Direction,
    range: TimeRange,
    left: Option<Arc<RowSet>>,
    units: Vec<Unit>,
    /// The last block, and the bounds of its runs, in ns.
    open: Option<(u32, (i64, i64))>,
}

impl UnitWriter {
    fn new(job: &ScanJob, segment: u32, left: Option<Arc<RowSet>>) -> UnitWriter {
        UnitWriter {
            segment,
            name: job.segments[segment as usize].live.name,
            direction: job.request.plan.direction(),
            range: job.time_range(),
            left,
            units: Vec::new(),
            open: None,
        }
    }

    /// Adds a run, if it has entries of the scan's time.
    fn add(&mut self, run: &RunInfo) {
        let bounds = (run.min_ns, run.max_ns);
        if !self.range.overlaps(bounds) {
            return;
        }
        match &mut self.open {
            Some((block, outer)) if *block == run.block => {
                *outer = (outer.0.min(bounds.0), outer.1.max(bounds.1));
            }
            _ => {
                self.close();
                self.open = Some((run.block, bounds));
            }
        }
    }

    fn close(&mut self) {
        if let Some((block, bounds)) = self.open.take() {
            let kind = UnitKind::Sealed { segment: self.segment, block, left: self.left.clone() };
            self.units.push(Unit { key: key(self.direction, bounds), kind });
        }
    }

    fn finish(mut self) -> Vec<Unit> {
        self.close();
        self.units
    }
}

/// The blocks of a segment that are the job's, and overlap its time.
pub(super) fn blocks_of(job: &ScanJob, index: u32, directory: &Directory) -> BlockSet {
    let (name, range) = (job.segments[index as usize].live.name, job.time_range());
    let totals = &directory.footer().totals;
    if job.share.is_whole() && range.start_ns <= totals.min_ns && totals.max_ns < range.end_ns {
        return BlockSet::full(directory.block_count() as usize);
    }
    let mut blocks = BlockSet::empty(directory.block_count() as usize);
    for block in 0..directory.block_count() {
        if job.share.has_block(name, block) && range.overlaps(directory.block_bounds_ns(block)) {
            blocks.insert(block as usize);
        }
    }
    blocks
}

/// Searching for a stream costs about a dozen steps, walking one step per stream that is
/// there.
const SEARCH_STEPS: usize = 8;

/// Whether a segment has so many more streams than the scan that they are searched for in it.
pub(super) fn searches_streams(streams: usize, directory: &Directory) -> bool {
    streams * SEARCH_STEPS < directory.stream_count() as usize
}

/// Streams of the scan that the segment holds, rising by their rows. Only `rows` may be of these
/// streams, if they are given.
pub(super) fn rows_of(
    known: &mut KnownStreams,
    segment: &SealedSegment,
    directory: &Directory,
    rows: Option<&RowSet>,
) -> Vec<HeldRow> {
    let KnownStreams { streams, wanted, .. } = known;
    let count = directory.stream_count();
    if rows.is_none() && searches_streams(streams.len(), directory) {
        let held = (0..).zip(streams.ids()).filter(|(_, id)| segment.has_live(*id));
        let row_of = |(stream, id)| Some(HeldRow { row: directory.find_stream(id)?, stream });
        let mut found: Vec<HeldRow> = held.filter_map(row_of).collect();
        found.sort_unstable();
        return found;
    }
    let wanted = wanted.indices(streams);
    let held = |row: u32| {
        let id = directory.stream_id(row);
        let stream = *wanted.get(&id).filter(|_| segment.has_live(id))?;
        Some(HeldRow { row, stream })
    };
    match rows {
        Some(rows) => rows.within(0..count).filter_map(held).collect(),
        None => (0..count).filter_map(held).collect(),
    }
}

/// The runs of a block that are of streams of the job and of its time, among the rows that are
/// `left`. They are found again when the block's turn comes: a scan of many streams would hold more
/// runs than all directories together take.
pub(super) fn runs_of(
    job: &ScanJob,
    known: &mut KnownStreams,
    index: u32,
    directory: &Directory,
    block: u32,
    left: Option<&RowSet>,
) -> Vec<StreamRun> {
    let KnownStreams { streams, wanted, .. } = known;
    let segment = &job.segments[index as usize];
    let range = job.time_range();
    let in_range = |run: RunInfo, stream: u32| {
        let is_late = segment.is_late(run.stream);
        range.overlaps((run.min_ns, run.max_ns)).then_some(StreamRun { run, stream, is_late })
    };
    let info = directory.block(block);
    let is_left = |row: &u32| left.is_none_or(|left| left.contains(*row));
    if streams.len() * SEARCH_STEPS < info.runs.len() {
        let rows = info.first_stream..info.first_stream + info.runs.len() as u32;
        let mut runs = Vec::new();
        for (stream, id) in (0..).zip(streams.ids()) {
            let row = directory.find_stream(id).filter(|row| rows.contains(row));
            let row = row.filter(|row| is_left(row) && segment.has_live(id));
            let run = row.and_then(|row| directory.run_of_stream_in(row, block));
            runs.extend(run.and_then(|run| in_range(run, stream)));
        }
        runs.sort_unstable_by_key(|found| found.run.run);
        return runs;
    }
    let wanted = wanted.indices(streams);
    let runs = directory.runs_of_block(block).filter(|run| is_left(&run.stream));
    let found = runs.filter_map(|run| {
        let id = directory.stream_id(run.stream);
        let stream = *wanted.get(&id).filter(|_| segment.has_live(id))?;
        in_range(run, stream)
    });
    found.collect()
}

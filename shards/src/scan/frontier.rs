//! The order in which a scan visits what it may have to read.
//!
//! Guarantees: units come newest first or oldest first, by their newest or oldest
//! entry; a segment is expanded into units no earlier than its time has come, so
//! that a scan which ends early never looks at the rest.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ahash::HashMap;
use logsvc_logql::engine::Direction;
use logsvc_proto::StreamId;

use super::{ScanJob, StreamSnapshot};
use crate::messages::TimeRange;
use crate::sealed::hasher;
use crate::segment::RunInfo;

/// A run that a unit reads.
#[derive(Debug)]
pub(super) struct RunPlace {
    /// The run.
    pub(super) run: RunInfo,
    /// The stream's place in the job.
    pub(super) stream: u32,
    /// Whether it may repeat entries of earlier segments.
    pub(super) is_late: bool,
}

#[derive(Debug)]
pub(super) enum UnitKind {
    /// A block of a head: places in the job.
    Head { stream: u32, block: u32 },
    /// Runs of a sealed block.
    Sealed { segment: u32, block: u32, runs: Vec<RunPlace> },
}

/// Something to read.
#[derive(Debug)]
pub(super) struct Unit {
    /// What the order goes by; the largest comes first.
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

/// What is still to be visited.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) units: Vec<Unit>,
    /// Places of segments in the job that are not expanded.
    pub(super) segments: Vec<u32>,
}

impl Work {
    /// Everything that a query reads: blocks of heads, and segments.
    pub(super) fn all(direction: Direction, streams: &[StreamSnapshot], segments: usize) -> Work {
        let mut units = Vec::new();
        for (stream, snapshot) in streams.iter().enumerate() {
            for (block, part) in snapshot.blocks.iter().enumerate() {
                let kind = UnitKind::Head { stream: stream as u32, block: block as u32 };
                units.push(Unit { key: key(direction, part.block.time_bounds_ns()), kind });
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
}

impl Frontier {
    /// What a job has to visit.
    pub(super) fn new(job: &ScanJob, work: Work) -> Frontier {
        let direction = job.request.plan.direction();
        let bounds = |place: u32| {
            let live = &job.segments[place as usize].live;
            (key(direction, (live.min_ns, live.max_ns)), place)
        };
        let mut segments: Vec<_> = work.segments.into_iter().map(bounds).collect();
        segments.sort_unstable();
        Frontier { units: work.units.into(), segments }
    }

    /// Takes out what was not visited.
    pub(super) fn into_work(self) -> Work {
        let segments = self.segments.into_iter().map(|(_, place)| place).collect();
        Work { units: self.units.into_vec(), segments }
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty() && self.segments.is_empty()
    }

    /// A segment that has to be expanded before the next unit is known.
    pub(super) fn next_segment(&mut self) -> Option<u32> {
        let &(key, segment) = self.segments.last()?;
        if self.units.peek().is_some_and(|unit| unit.key > key) {
            return None;
        }
        self.segments.pop();
        Some(segment)
    }

    pub(super) fn add(&mut self, units: Vec<Unit>) {
        self.units.extend(units);
    }

    pub(super) fn next_unit(&mut self) -> Option<Unit> {
        self.units.pop()
    }
}

/// Places of the job's streams by id, made when a segment first asks for them.
#[derive(Debug, Default)]
pub(super) struct WantedStreams(Option<HashMap<StreamId, u32>>);

impl WantedStreams {
    fn places(&mut self, job: &ScanJob) -> &HashMap<StreamId, u32> {
        self.0.get_or_insert_with(|| {
            let mut places = HashMap::with_capacity_and_hasher(job.streams.len(), hasher());
            places.extend(job.streams.iter().enumerate().map(|(place, s)| (s.id, place as u32)));
            places
        })
    }
}

/// The blocks of a segment in which streams of the job have entries of its time.
pub(super) fn units_of(job: &ScanJob, wanted: &mut WantedStreams, index: u32) -> Vec<Unit> {
    let segment = &job.segments[index as usize];
    let direction = job.request.plan.direction();
    let (start_ns, end_ns) = job.request.plan.entry_bounds_ns();
    let range = TimeRange { start_ns, end_ns };
    let mut units: Vec<Unit> = Vec::new();
    let mut open: Option<(u32, (i64, i64), Vec<RunPlace>)> = None;
    let mut close = |open: &mut Option<(u32, (i64, i64), Vec<RunPlace>)>| {
        if let Some((block, bounds, runs)) = open.take() {
            let kind = UnitKind::Sealed { segment: index, block, runs };
            units.push(Unit { key: key(direction, bounds), kind });
        }
    };
    for (row, stream) in streams_of(job, wanted, index) {
        let is_late = segment.late.contains(&row);
        for run in segment.directory.runs_of_stream(row) {
            let bounds = (run.min_ns, run.max_ns);
            if !range.overlaps(bounds) || !job.share.has_block(index, run.block) {
                continue;
            }
            let block_of_run = run.block;
            let place = RunPlace { run, stream, is_late };
            match &mut open {
                Some((block, outer, runs)) if *block == block_of_run => {
                    *outer = (outer.0.min(bounds.0), outer.1.max(bounds.1));
                    runs.push(place);
                }
                _ => {
                    close(&mut open);
                    open = Some((block_of_run, bounds, vec![place]));
                }
            }
        }
    }
    close(&mut open);
    units
}

/// Streams of the job that the segment holds: their place in the segment, rising,
/// and in the job.
fn streams_of(job: &ScanJob, wanted: &mut WantedStreams, index: u32) -> Vec<(u32, u32)> {
    let directory = &job.segments[index as usize].directory;
    let mut found = Vec::new();
    // Searching costs about a dozen steps per stream, walking one step per stream of
    // the segment.
    if job.streams.len() * 8 < directory.stream_count() as usize {
        for (place, stream) in job.streams.iter().enumerate() {
            found.extend(directory.find_stream(stream.id).map(|row| (row, place as u32)));
        }
        found.sort_unstable();
        return found;
    }
    let wanted = wanted.places(job);
    for row in 0..directory.stream_count() {
        found.extend(wanted.get(&directory.stream_id(row)).map(|&place| (row, place)));
    }
    found
}

//! The runs of one stream in one input of a merge.

use std::ops::Range;
use std::sync::Arc;

use super::block::Block;
use logsvc_segment::RunInfo;

/// One stream in one input.
pub(super) struct Source {
    pub(super) input: usize,
    pub(super) runs: Vec<RunInfo>,
    /// The next run.
    pub(super) at: usize,
    pub(super) open: Option<OpenRun>,
}

/// The run that is being taken over entry by entry.
pub(super) struct OpenRun {
    pub(super) block: Arc<Block>,
    /// Which entries stay, counted within the run; `None`: all of them.
    pub(super) keep: Option<Vec<bool>>,
    /// The next entry, counted within the block.
    pub(super) next: usize,
}

impl Source {
    /// Time of the next entry; `None` if there is none.
    pub(super) fn next_ns(&self) -> Option<i64> {
        match &self.open {
            Some(open) => Some(open.block.timestamps_ns[open.next]),
            None => self.runs.get(self.at).map(|run| run.min_ns),
        }
    }

    /// Runs that overlap in time.
    pub(super) fn overlapping(&self, min_ns: i64, max_ns: i64) -> Range<usize> {
        let start = self.runs.partition_point(|run| run.max_ns < min_ns);
        let end = self.runs.partition_point(|run| run.min_ns <= max_ns);
        start..end.max(start)
    }
}

/// The entries of a run, counted within its block.
pub(super) fn entries_of(run: &RunInfo) -> Range<usize> {
    run.entries.start as usize..run.entries.end as usize
}

/// Whether another input has a run of the stream with some of the run's times.
pub(super) fn overlaps_others(sources: &[Source], chosen: usize, run: &RunInfo) -> bool {
    sources.iter().enumerate().any(|(number, other)| {
        number != chosen && !other.overlapping(run.min_ns, run.max_ns).is_empty()
    })
}

//! The entries of a segment that a purge removes.
//!
//! Memory: a run of which all entries go takes a place in a table. A run of which some go takes a
//! bit for each of its entries besides. The bits of one segment take [`BITS_MAX_BYTES`] at most,
//! and the table at most twice as much as the directory, which the purge holds too.

use ahash::AHashMap;

use crate::retention::{CompactionFilter, EntryView, FilterDecision, RunView};
use crate::sealed::hasher;
use crate::types::StreamDefinition;
use logsvc_segment::RunInfo;

/// The bits of the entries of one segment: a search that would take more ends early. They are
/// enough for 134 million entries.
pub(super) const BITS_MAX_BYTES: usize = 16 << 20;

/// The entries of a run that go.
#[derive(Debug)]
pub(super) enum MarkedRun {
    All,
    /// A bit for each entry of the run, set for the ones that go.
    Some(Box<[u64]>),
}

impl MarkedRun {
    /// The entries of a run for which `is_marked` is set, if there are any.
    pub(super) fn of(is_marked: &[bool]) -> Option<MarkedRun> {
        let count = is_marked.iter().filter(|marked| **marked).count();
        if count == 0 {
            return None;
        }
        if count == is_marked.len() {
            return Some(MarkedRun::All);
        }
        let mut bits = vec![0u64; is_marked.len().div_ceil(64)].into_boxed_slice();
        for (index, _) in is_marked.iter().enumerate().filter(|(_, marked)| **marked) {
            bits[index / 64] |= 1 << (index % 64);
        }
        Some(MarkedRun::Some(bits))
    }

    fn bits_bytes(&self) -> usize {
        match self {
            MarkedRun::All => 0,
            MarkedRun::Some(bits) => size_of_val(&**bits),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct MarkedEntries {
    /// By the number of the run in the segment.
    runs: AHashMap<u32, MarkedRun>,
    bits_bytes: usize,
}

impl Default for MarkedEntries {
    fn default() -> MarkedEntries {
        MarkedEntries { runs: AHashMap::with_hasher(hasher()), bits_bytes: 0 }
    }
}

impl MarkedEntries {
    /// Adds the entries of a run. A run is added once.
    pub(super) fn insert(&mut self, run: u32, marked: MarkedRun) {
        self.bits_bytes += marked.bits_bytes();
        self.runs.insert(run, marked);
    }

    /// Memory of the bits.
    pub(super) fn bits_bytes(&self) -> usize {
        self.bits_bytes
    }
}

/// Leaves out the entries that a purge removes, and what another filter drops.
#[derive(Debug)]
pub(super) struct PurgeFilter {
    pub(super) marked: MarkedEntries,
    pub(super) others: Box<dyn CompactionFilter>,
}

impl PurgeFilter {
    fn of(&self, run: &RunInfo) -> Option<&MarkedRun> {
        self.marked.runs.get(&run.run)
    }
}

impl CompactionFilter for PurgeFilter {
    fn begin(&mut self, stream: &StreamDefinition) {
        self.others.begin(stream);
    }

    fn run(&self, view: RunView<'_>) -> FilterDecision {
        match (self.of(view.run), self.others.run(view)) {
            (Some(MarkedRun::All), _) => FilterDecision::Drop,
            (Some(MarkedRun::Some(_)), FilterDecision::Keep) => FilterDecision::Each,
            (_, decision) => decision,
        }
    }

    fn entry(&self, view: RunView<'_>, index: usize, entry: &EntryView<'_>) -> bool {
        let is_marked = match self.of(view.run) {
            None => false,
            Some(MarkedRun::All) => true,
            Some(MarkedRun::Some(bits)) => {
                let index = index - view.run.entries.start as usize;
                bits[index / 64] >> (index % 64) & 1 == 1
            }
        };
        !is_marked && self.others.entry(view, index, entry)
    }
}

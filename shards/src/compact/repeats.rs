//! Finds the entries of a run that another run of the stream holds too.
//!
//! The rule is the one of scans ([`crate::scan`]): of equal entries (timestamp, line, metadata)
//! the one in the earliest segment counts.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use ahash::HashMap;

use super::block::Block;
use crate::retention::EntryView;
use crate::sealed::hasher;
use logsvc_segment::RunInfo;

/// As many pairs of entries of one time are compared one by one.
const COMPARED_PAIRS: usize = 64;

/// A run and the block that holds it.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) block: Arc<Block>,
    pub(super) run: RunInfo,
}

impl Decoded {
    fn times(&self) -> &[i64] {
        self.run.of_entries(&self.block.timestamps_ns)
    }

    /// An entry, counted within the run.
    fn entry(&self, index: usize) -> EntryView<'_> {
        self.block.entry(&self.run, self.run.entries.start as usize + index)
    }
}

/// Clears `keep` for the entries of `mine` that `earlier` has, too.
pub(super) fn clear_repeats(mine: &Decoded, earlier: &Decoded, keep: &mut [bool]) {
    let (mine_times, earlier_times) = (mine.times(), earlier.times());
    let (mut at, mut other_at) = (0, 0);
    while at < mine_times.len() && other_at < earlier_times.len() {
        let (ts, other_ts) = (mine_times[at], earlier_times[other_at]);
        if ts < other_ts {
            at += mine_times[at..].partition_point(|&time| time < other_ts);
        } else if other_ts < ts {
            other_at += earlier_times[other_at..].partition_point(|&time| time < ts);
        } else {
            let end = at + mine_times[at..].partition_point(|&time| time == ts);
            let other_end = other_at + earlier_times[other_at..].partition_point(|&t| t == ts);
            clear_of_one_time(mine, at..end, earlier, other_at..other_end, keep);
            (at, other_at) = (end, other_end);
        }
    }
}

fn clear_of_one_time(
    mine: &Decoded,
    range: Range<usize>,
    earlier: &Decoded,
    other_range: Range<usize>,
    keep: &mut [bool],
) {
    if range.len() * other_range.len() <= COMPARED_PAIRS {
        for index in range {
            let entry = mine.entry(index);
            let repeated = other_range.clone().any(|other| equal(&entry, &earlier.entry(other)));
            keep[index] &= !repeated;
        }
        return;
    }
    let mut held: HashMap<u64, Vec<usize>> = HashMap::with_hasher(hasher());
    for other in other_range {
        held.entry(hash(&earlier.entry(other))).or_default().push(other);
    }
    for index in range {
        let entry = mine.entry(index);
        let Some(others) = held.get(&hash(&entry)) else { continue };
        keep[index] &= !others.iter().any(|&other| equal(&entry, &earlier.entry(other)));
    }
}

/// Whether two entries of one time are equal.
fn equal(a: &EntryView<'_>, b: &EntryView<'_>) -> bool {
    a.line == b.line && a.metadata().eq(b.metadata())
}

fn hash(entry: &EntryView<'_>) -> u64 {
    let mut state = hasher().build_hasher();
    entry.line.hash(&mut state);
    entry.metadata().for_each(|pair| pair.hash(&mut state));
    state.finish()
}

//! Leaves out the entries that requests for deletion hide.
//!
//! Guarantees: the engine sees a block as if the hidden entries had never been pushed, because the
//! others are fed as a copy in its place. The memory of the copy counts for the query.

use std::ops::Range;

use ahash::HashMap;
use logsvc_logql::engine::{EntryBlock, Needs};
use logsvc_segment::{LineSearch, RunInfo};

use super::columns::{OpenBlock, Unready};
use super::leaf::Leaf;
use crate::deletion::{DeleteFilter, DeleteId, Hiding, ShownEntries, union};
use crate::sealed::hasher;

/// Whether one of some bits is set.
fn any_bit(words: &[u64], bits: Range<usize>) -> bool {
    let mut at = bits.start;
    while at < bits.end {
        let end = bits.end.min((at / 64 + 1) * 64);
        let mask = (u64::MAX >> (64 - (end - at))) << (at % 64);
        if words[at / 64] & mask != 0 {
            return true;
        }
        at = end;
    }
    false
}

/// The line filters of requests that can be searched for in the parts of blocks.
#[derive(Debug)]
pub(super) struct HidingSearches(HashMap<DeleteId, Option<LineSearch>>);

impl Default for HidingSearches {
    fn default() -> HidingSearches {
        HidingSearches(HashMap::with_hasher(hasher()))
    }
}

impl HidingSearches {
    fn of(&mut self, filter: &DeleteFilter) -> Option<&LineSearch> {
        let new = || {
            let tests = filter.plan.as_ref()?.line_tests();
            LineSearch::new(&tests.tests).map(|(search, _)| search)
        };
        self.0.entry(filter.id).or_insert_with(new).as_ref()
    }
}

impl Leaf {
    /// The columns that the engine, and some requests that may hide entries, need of a stream's
    /// blocks.
    pub(in crate::scan) fn needs_with(&mut self, stream: u32, hidden_by: &[u32]) -> Needs {
        let needs = self.needs(stream);
        match self.streams.deletions(stream) {
            Some(deletions) => union(needs, deletions.needs_of(hidden_by)),
            None => needs,
        }
    }

    /// Whether the parts of a block may tell that requests hide none of its entries.
    pub(in crate::scan) fn can_test_parts(&mut self, stream: u32, hidden_by: &[u32]) -> bool {
        let Some(deletions) = self.streams.deletions(stream) else { return false };
        let mut requests = deletions.numbered(hidden_by);
        requests.all(|filter| self.hiding_searches.of(filter).is_some())
    }

    /// The requests that may hide entries of a run, of which the lines are not put together for it.
    pub(super) fn hiding_by_parts(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
        hidden_by: &[u32],
    ) -> Result<Box<[u32]>, Unready> {
        let streams = self.streams.clone();
        let Some(deletions) = streams.deletions(stream) else { return Ok(Box::default()) };
        let mut left = Vec::new();
        for &number in hidden_by {
            let filter = &deletions.filters[number as usize];
            let Some(search) = self.hiding_searches.of(filter) else {
                left.push(number);
                continue;
            };
            let known = opened.hidden_lines.iter().position(|(id, _)| *id == filter.id);
            let index = match known {
                Some(index) => index,
                None => {
                    let Some(parts) = opened.parts(&mut self.decoder, &mut self.stats)? else {
                        left.push(number);
                        continue;
                    };
                    let outcomes = search.test(&parts, &mut opened.slot_lines);
                    let outcomes = outcomes.map_err(|_| opened.damaged_lines())?;
                    let lines = outcomes.passing.iter().zip(&outcomes.doubtful);
                    let lines = lines.map(|(passing, doubtful)| passing | doubtful).collect();
                    opened.hidden_lines.push((filter.id, lines));
                    opened.hidden_lines.len() - 1
                }
            };
            let (_, lines) = &opened.hidden_lines[index];
            if any_bit(lines, run.entries.start as usize..run.entries.end as usize) {
                left.push(number);
            }
        }
        Ok(left.into())
    }

    /// Gives the engine the entries of a block that the requests do not hide.
    pub(super) fn feed_shown(&mut self, stream: u32, block: &EntryBlock<'_>, hidden_by: &[u32]) {
        let streams = self.streams.clone();
        let Some(deletions) = streams.deletions(stream) else { return };
        let needs = self.needs(stream);
        if !self.executor.admits(ShownEntries::max_bytes(block, needs)) {
            return;
        }
        let (mut hidden, mut count) = (vec![false; block.len()], 0);
        let requests = deletions.numbered(hidden_by).map(Hiding::from);
        let marked =
            self.hidden.mark(requests, &deletions.labels, block, &mut hidden, |_, _| count += 1);
        if let Err(error) = marked {
            self.failure = Some(error.into());
            return;
        }
        self.stats.entries_hidden += count as u64;
        let (executor, state) = self.state(stream);
        if count == 0 {
            executor.block(state, block);
        } else if count < block.len() {
            let shown = ShownEntries::of(block, &hidden, needs);
            executor.block(state, &shown.block(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::any_bit;

    #[test]
    fn bits_of_a_range_are_found() {
        for set in [0, 1, 62, 63, 64, 65, 127, 128, 191] {
            let mut words = [0_u64; 3];
            words[set / 64] |= 1 << (set % 64);
            for start in 0..192 {
                for end in start..=192 {
                    let is_within = (start..end).contains(&set);
                    assert_eq!(any_bit(&words, start..end), is_within, "{set} in {start}..{end}");
                }
            }
        }
    }
}

//! Finds the requests for deletion that may hide entries of a block.
//!
//! Most runs are of streams that no request selects, or of other times. They cost one branch. The
//! filters of a segment prove of most other blocks that a request's query returns nothing of them.
//! Only runs that are left are evaluated entry by entry (`aside/leaf.rs`).
//!
//! Guarantees: a run without a request here has no hidden entry. The filters of a segment are asked
//! once for each request, and once more for each set of label names that makes a difference.

use ahash::HashMap;
use logsvc_runtime::Runtime;

use super::prune;
use super::run::Scan;
use crate::deletion::{DeleteFilter, DeleteId, StreamDeletions};
use crate::sealed::{Condition, Conditions, HeldDirectory, all_conditions_of, hasher};
use logsvc_segment::RunInfo;
use logsvc_segment::filter::BlockSet;

/// Conditions of one request that are tested; more would rule out little more.
const CONDITIONS_MAX: usize = 64;

/// The entries of a run that requests hide.
pub(super) enum Hides {
    /// All of them.
    All,
    /// Some of them, perhaps, by these requests: numbers among the requests of the stream. None
    /// if there is no number.
    By(Box<[u32]>),
}

impl Hides {
    /// None of them.
    pub(super) fn nothing() -> Hides {
        Hides::By(Box::default())
    }
}

/// The blocks of segments that may have entries that requests hide.
#[derive(Debug)]
pub(super) struct HidingBlocks {
    /// By request.
    conditions: HashMap<DeleteId, Vec<Condition>>,
    /// By segment of the job, request, and the conditions that count. `None`: all blocks.
    blocks: HashMap<(u32, DeleteId, u64), Option<BlockSet>>,
}

impl Default for HidingBlocks {
    fn default() -> HidingBlocks {
        HidingBlocks {
            conditions: HashMap::with_hasher(hasher()),
            blocks: HashMap::with_hasher(hasher()),
        }
    }
}

impl HidingBlocks {
    /// The numbers of the conditions of a request that hold for a stream, as bits.
    fn conditions_of(&mut self, filter: &DeleteFilter, deletions: &StreamDeletions) -> u64 {
        let conditions = self.conditions.entry(filter.id).or_insert_with(|| {
            let plan = filter.plan.as_ref();
            let mut conditions = plan.map_or(Vec::new(), |plan| all_conditions_of(plan));
            conditions.truncate(CONDITIONS_MAX);
            conditions
        });
        let has_label = |name: &str| deletions.labels.get(name).is_some();
        let holding = conditions.iter().enumerate().filter(|(_, one)| one.holds(has_label));
        holding.fold(0, |numbers, (number, _)| numbers | 1 << number)
    }

    /// The needles of some conditions of a request.
    fn needles_of(&self, filter: &DeleteFilter, numbers: u64) -> Conditions {
        let conditions = self.conditions.get(&filter.id).into_iter().flatten().enumerate();
        let wanted = conditions.filter(|(number, _)| numbers >> number & 1 == 1);
        wanted.map(|(_, one)| one.needles.clone()).collect()
    }
}

impl<R: Runtime> Scan<'_, R> {
    /// The requests that may hide entries of a run.
    pub(super) async fn hides(
        &mut self,
        stream: u32,
        segment: u32,
        directory: &HeldDirectory,
        run: &RunInfo,
    ) -> Hides {
        let Some(deletions) = self.known.streams.deletions(stream) else {
            return Hides::nothing();
        };
        // A clone, because the filters of segments are read meanwhile.
        let deletions = &deletions.clone();
        let bounds_ns = (run.min_ns, run.max_ns);
        if deletions.hides_all(bounds_ns) {
            return Hides::All;
        }
        let mut left = Vec::new();
        for number in deletions.overlapping(bounds_ns) {
            let filter = &deletions.filters[number as usize];
            if self.may_hide(filter, deletions, segment, directory, run.block).await {
                left.push(number);
            }
        }
        Hides::By(left.into())
    }

    /// Whether a block may have entries that the query of a request returns.
    async fn may_hide(
        &mut self,
        filter: &DeleteFilter,
        deletions: &StreamDeletions,
        segment: u32,
        directory: &HeldDirectory,
        block: u32,
    ) -> bool {
        let numbers = self.hiding.conditions_of(filter, deletions);
        if numbers == 0 {
            return true;
        }
        let key = (segment, filter.id, numbers);
        let has_block = |blocks: &Option<BlockSet>| {
            blocks.as_ref().is_none_or(|blocks| blocks.contains(block as usize))
        };
        if let Some(blocks) = self.hiding.blocks.get(&key) {
            return has_block(blocks);
        }
        let conditions = self.hiding.needles_of(filter, numbers);
        let all = BlockSet::full(directory.block_count() as usize);
        let sealed = &self.job.segments[segment as usize];
        let (env, stats) = (self.env, &mut self.stats);
        let found = prune::candidates(env, sealed, directory, &conditions, all, stats).await;
        let blocks = match found {
            Ok(blocks) => Some(blocks),
            Err(error) => {
                // Evaluating everything gives the right answer too.
                self.env.note_damage(sealed, Some(directory), "filters", &error);
                None
            }
        };
        let may_hide = has_block(&blocks);
        self.hiding.blocks.insert(key, blocks);
        may_hide
    }
}

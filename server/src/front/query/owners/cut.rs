//! Queries for lines: each owner looks for its share of the lines first.
//!
//! An answer has at most so many lines. If each owner looked for all of them, three owners would read
//! three times as much as one node that has all streams. So an owner of many streams looks for its share
//! of the lines, and for some more. Those that may have further lines of the answer are asked again.
//!
//! Guarantees: the answer is the one that it would be if each owner had looked for all lines.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::pin::pin;

use futures_util::future::{Either, select, try_join_all};
use logsvc_cluster::asker::AskReply;
use logsvc_cluster::map::Epoch;
use logsvc_logql::engine::{CutPart, LeafPlan, lacking};
use logsvc_peers::question::{Asked, Question};
use logsvc_runtime::Runtime;

use super::{Bounds, Content, PATIENCE, Unfinished};
use crate::front::core::errors::node_stopping;
use crate::front::query::Querier;

/// Answers of fewer lines cost little, wherever they are looked for.
const LINES_MIN: usize = 50;

/// What an owner looks for beyond its share, in standard deviations of that, which are about the root of
/// the share if streams write alike.
const MORE_DEVIATIONS: usize = 3;

/// The leaf of a question for lines, and how many lines the answer has at most.
fn lines_of(question: &Question) -> Option<(&LeafPlan, usize)> {
    match &question.asked {
        Asked::Leaves(leaves) => match leaves.as_slice() {
            [leaf] => Some((leaf, leaf.entry_limit()?)),
            _ => None,
        },
        _ => None,
    }
}

/// How many of `limit` lines one looks for who owns `owned` of `all` partitions, if not all of them.
fn share_of(limit: usize, owned: usize, all: usize) -> Option<NonZeroUsize> {
    let share = (limit as u128 * owned as u128).div_ceil(all.max(1) as u128);
    let share = usize::try_from(share).unwrap_or(limit);
    let each = share.saturating_add(MORE_DEVIATIONS * share.isqrt());
    NonZeroUsize::new(each).filter(|each| limit >= LINES_MIN && each.get() < limit)
}

impl<R: Runtime> Querier<R> {
    /// How many lines each owner looks for at first, if not all of them.
    pub(super) fn entries_each(&self, question: &Question) -> Option<NonZeroUsize> {
        let (_, limit) = lines_of(question)?;
        let routes = self.core.routes()?;
        let mut owned: BTreeMap<Option<Epoch>, usize> = BTreeMap::new();
        for (_, slot) in routes.map.partitions() {
            *owned.entry(slot.owner).or_default() += 1;
        }
        share_of(limit, owned.values().copied().max()?, owned.values().sum())
    }

    /// What all owners have found, by the map of this number, if each had looked for all lines.
    pub(super) async fn complete_lines(
        &self,
        mut contents: BTreeMap<Epoch, Content>,
        number: u64,
        question: &Question,
        bounds: &Bounds,
    ) -> Result<BTreeMap<Epoch, Content>, Unfinished> {
        let (Some((_, limit)), Some(each)) = (lines_of(question), question.entries_each) else {
            return Ok(contents);
        };
        let short = short_owners(limit, each, &contents);
        if short.is_empty() {
            return Ok(contents);
        }
        // Their memory is needed for what comes.
        contents.retain(|owner, _| !short.contains_key(owner));
        let ask = async |(owner, most)| {
            let entries_each = NonZeroUsize::new(most);
            let question = Question { entries_each, ..question.clone() };
            match self.ask_owner(owner, number, &question, bounds).await? {
                AskReply::Answer { content, .. } => Ok((owner, content)),
                AskReply::Newer(_) | AskReply::Wait | AskReply::NoAnswer => Err(Unfinished::Short),
            }
        };
        let all = pin!(try_join_all(short.into_iter().map(ask)));
        // One that stands still is taken over. Then everything is asked anew.
        let routes = self.core.cluster().and_then(|cluster| cluster.routes());
        let routes = routes.ok_or_else(node_stopping)?;
        let changed = pin!(routes.when(|newer| newer.number > number));
        let late = pin!(self.core.runtime.sleep_until(self.core.runtime.now().after(PATIENCE)));
        match select(all, select(changed, late)).await {
            Either::Left((more, _)) => contents.extend(more?),
            Either::Right(_) => return Err(Unfinished::Short),
        }
        Ok(contents)
    }
}

/// Those who may have more lines of an answer than they have told, and how many they have at most.
fn short_owners(
    limit: usize,
    each: NonZeroUsize,
    contents: &BTreeMap<Epoch, Content>,
) -> BTreeMap<Epoch, usize> {
    let mut parts = Vec::new();
    for (&owner, (found, _)) in contents {
        let entries_max = (found.stats.cut_leaves > 0).then_some(each.get());
        parts.extend(found.parts.iter().map(|result| CutPart { owner, result, entries_max }));
    }
    lacking(limit, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_partitions_and_a_margin() {
        let share = |limit, owned, all| share_of(limit, owned, all).map(NonZeroUsize::get);
        assert_eq!(share(1_000, 1, 3), Some(334 + 54));
        assert_eq!(share(1_000, 1, 2), Some(500 + 66));
        assert_eq!(share(5_000, 22, 64), Some(1_719 + 123));
        assert_eq!(share(100, 1, 3), Some(34 + 15));
        // One owner looks for everything.
        assert_eq!(share(1_000, 64, 64), None);
        assert_eq!(share(1_000, 15, 16), None);
        assert_eq!(share(49, 1, 3), None);
        assert_eq!(share(usize::MAX, 1, 1), None);
        assert!(share(usize::MAX, 1, 2).is_some());
    }
}

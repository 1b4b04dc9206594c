//! Asks the shards for what they have done to the live set.
//!
//! Shards answer one after another, and an edit may build upon one of another shard that has answered
//! before it was made: the last shard that leaves a shared segment removes it, and what the others have
//! made of their parts are edits of theirs. So edits have numbers of the node, and those count that were
//! there before the first shard was asked.
//!
//! Guarantees: what the fold has taken is the live set of one moment. Nothing is taken twice, and nothing
//! is left out for longer than until the next call.

use logsvc_runtime::Runtime;

use super::Follower;
use super::fold::{Batch, Origin};
use crate::lanes::Stopped;
use crate::manifest::{ManifestEdit, SegmentName, ToldEdit};
use crate::messages::{ShardReply, ShardRequest};

/// What shards have told and what does not count yet.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// With their cores.
    edits: Vec<(ToldEdit, u16)>,
    /// Segments that shards read no more. The edits that removed them have been told, or will be by the
    /// next call.
    retired: Vec<SegmentName>,
}

impl Told {
    /// The edits up to a number, by their numbers.
    fn up_to(&mut self, last: u64) -> Vec<(ToldEdit, u16)> {
        self.edits.sort_unstable_by_key(|((number, _), _)| *number);
        let count = self.edits.partition_point(|((number, _), _)| *number <= last);
        self.edits.drain(..count).collect()
    }
}

impl<R: Runtime> Follower<R> {
    /// Asks all shards for their edits, and takes all that were in force before this call.
    pub(super) async fn pull(&mut self) -> Result<(), Stopped> {
        let last = self.plan.bucket.as_ref().map_or(0, |bucket| bucket.edits.last());
        let earlier = std::mem::take(&mut self.told.retired);
        let replies = self.lanes.ask_all(|| ShardRequest::Edits).await;
        let replies = match replies {
            Ok(replies) => replies,
            Err(stopped) => {
                self.told.retired = earlier;
                return Err(stopped);
            }
        };
        for (core, reply) in replies.into_iter().enumerate() {
            let ShardReply::Edits(told) = reply else { continue };
            self.told.edits.extend(told.edits.into_iter().map(|edit| (edit, core as u16)));
            self.told.retired.extend(told.retired);
            let now_ns = self.runtime.unix_nanos();
            told.used.into_iter().for_each(|name| self.disk.cache.note_used(name, now_ns));
        }
        self.take_owned();
        for ((_, edit), core) in self.told.up_to(last) {
            self.take(edit, core);
        }
        earlier.into_iter().for_each(|name| self.retire(name));
        Ok(())
    }

    pub(super) fn take(&mut self, mut edit: ManifestEdit, core: u16) {
        if self.logs.index.is_none() && self.objects.stored_logs.is_empty() {
            edit.covers.clear();
        }
        let (live, in_flight) = (&self.objects.live, &self.in_flight.added);
        let is_known = |name| live.contains_key(&name) || in_flight.contains_key(&name);
        self.fold.take(edit, Origin { core, now: self.runtime.now() }, is_known);
    }

    /// Puts a batch back, with the edits that have come since.
    pub(super) async fn pull_behind(&mut self, batch: Batch) -> Result<(), Stopped> {
        self.in_flight = batch;
        let pulled = self.pull().await;
        let batch = std::mem::take(&mut self.in_flight);
        let newer = std::mem::take(&mut self.fold);
        let live = &self.objects.live;
        self.fold = newer.after(batch, |name| live.contains_key(&name));
        pulled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_by_their_numbers_up_to_the_one_before_the_question() {
        let edit = |number: u64| (number, ManifestEdit::default());
        let mut told = Told::default();
        told.edits.extend([(edit(2), 0), (edit(5), 0), (edit(1), 1), (edit(4), 1)]);
        let mut numbers = |last| -> Vec<(u64, u16)> {
            let taken = told.up_to(last).into_iter();
            taken.map(|((number, _), core)| (number, core)).collect()
        };
        assert_eq!(numbers(4), [(1, 1), (2, 0), (4, 1)]);
        assert_eq!(numbers(4), []);
        assert_eq!(numbers(9), [(5, 0)]);
    }
}

//! Asks the filters of segments ahead that are in the bucket with their ends: each read there takes as
//! long as reading a MiB does, so segments are asked side by side.
//!
//! The more segments in a row have no match, the further the scan looks ahead. So one that ends at its
//! first segments asks nothing in vain.
//!
//! Guarantees: a block with an entry that the query uses is never ruled out. Directories of the segments
//! that are asked at once take no more than half of what the core may keep. Filters that cannot be read
//! rule out nothing here, and are told when the segment's turn comes.

use ahash::HashMap;
use futures_util::stream::{self, StreamExt};
use logsvc_runtime::Runtime;

use super::ScanEnv;
use super::frontier::Frontier;
use super::prune;
use super::run::Scan;
use crate::sealed::{Condition, Conditions, SealedSegment, SegmentSource, hasher};
use crate::types::ScanStats;
use logsvc_segment::filter::{BlockSet, Probe};

/// Segments that are asked at once, at most.
const WIDTH_MAX: usize = 16;

/// What is known of segments ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The blocks that the conditions leave which hold whatever the streams are.
    left: HashMap<u32, BlockSet>,
    /// How many segments are asked next.
    width: usize,
}

impl Default for Ahead {
    fn default() -> Ahead {
        Ahead { left: HashMap::with_hasher(hasher()), width: 1 }
    }
}

impl<R: Runtime> Scan<'_, R> {
    /// Asks the filters of a segment, whose turn it is, and of those behind it, if it has not been
    /// asked and its end is not on the local disk.
    pub(super) async fn look_ahead(&mut self, index: u32, frontier: &Frontier) {
        let env = self.env;
        let is_of_use = env.directories.files.has_store()
            && self.ahead.width > 1
            && self.conditions.iter().any(Condition::is_certain)
            && !self.ahead.left.contains_key(&index);
        if !is_of_use || !self.is_far(index).await {
            return;
        }
        let certain = self.conditions.iter().filter(|condition| condition.is_certain());
        let needles: Conditions = certain.map(|condition| condition.needles.clone()).collect();
        let mut room_bytes = env.directories.share_bytes() / 2;
        let mut chosen = vec![index];
        for next in frontier.upcoming() {
            let segment = &self.job.segments[next as usize];
            room_bytes = room_bytes.saturating_sub(segment.footer.directory_len_bytes());
            if chosen.len() >= self.ahead.width || room_bytes == 0 {
                break;
            }
            if self.is_far(next).await {
                chosen.push(next);
            }
        }
        let asks = chosen.into_iter().map(|index| {
            let (segment, needles) = (&self.job.segments[index as usize], needles.clone());
            async move {
                let mut stats = ScanStats::default();
                (index, ask(env, segment, needles, &mut stats).await, stats)
            }
        });
        let answers: Vec<_> = stream::iter(asks).buffer_unordered(WIDTH_MAX).collect().await;
        for (index, left, stats) in answers {
            self.stats.add(&stats);
            let Some(left) = left else { continue };
            self.stats.blocks_filtered += (left.capacity() - left.count()) as u64;
            self.ahead.left.insert(index, left);
        }
    }

    /// Notes whether a segment that was expanded has nothing for the scan.
    pub(super) fn note_expanded(&mut self, has_nothing: bool) {
        let width = &mut self.ahead.width;
        *width = if has_nothing { (*width * 2).min(WIDTH_MAX) } else { 1 };
    }

    /// What filters have left of a segment that was asked.
    pub(super) fn left_ahead(&mut self, index: u32) -> Option<BlockSet> {
        self.ahead.left.remove(&index)
    }

    /// Whether a segment is in the bucket with its end, and no bundle tells of it.
    async fn is_far(&self, index: u32) -> bool {
        let segment = &self.job.segments[index as usize];
        if self.job.bundles.get(segment.live.name).is_some() {
            return false;
        }
        let source = self.env.directories.files.get(&self.env.runtime, segment).await;
        matches!(source, Ok(SegmentSource::Stored(stored)) if !stored.has_tail())
    }
}

/// The blocks of a segment that conditions leave; `None` if that cannot be found out now.
async fn ask<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    needles: Conditions,
    stats: &mut ScanStats,
) -> Option<BlockSet> {
    let directory = env.directories.get(segment).await.ok()?;
    let bytes = Probe::memory_max_bytes(directory.filters(), &needles);
    let _memory = env.queries.try_reserve(bytes)?;
    let all = BlockSet::full(directory.block_count() as usize);
    prune::candidates(env, segment, &directory, &needles, all, stats).await.ok()
}

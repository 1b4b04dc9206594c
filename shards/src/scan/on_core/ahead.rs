//! Asks the filters of segments ahead that are in the bucket with their ends: each read there takes as
//! long as reading a MiB does, so segments are asked side by side.
//!
//! The more segments in a row have no match, the further the scan looks ahead. So one that ends at its
//! first segments asks nothing in vain. Conditions on metadata hold in a segment if none of its streams
//! has the name as a label; its label index tells.
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
use super::rows::label_names;
use super::run::Scan;
use crate::scan::StreamSelector;
use crate::sealed::{Condition, Conditions, SealedSegment, SegmentSource, hasher};
use crate::types::ScanStats;
use logsvc_segment::filter::{BlockSet, Probe};

/// Segments that are asked at once, at most.
const WIDTH_MAX: usize = 16;

/// How many times as many segments are asked after a segment without a match, and how many times
/// fewer after one that has some.
const WIDTH_GROWTH: usize = 4;

/// Which conditions filters have been asked for already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedFor {
    /// Those that hold whatever the streams are.
    Certain,
    /// All that the scan had then. It only loses some.
    All,
}

/// What is known of segments ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// The blocks that conditions leave.
    left: HashMap<u32, (BlockSet, AskedFor)>,
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
            && !self.conditions.is_empty()
            && !self.ahead.left.contains_key(&index);
        if !is_of_use || !self.is_far(index).await {
            return;
        }
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
        let (job, conditions) = (self.job, &*self.conditions);
        let asks = chosen.into_iter().map(|index| async move {
            let mut stats = ScanStats::default();
            let (segment, selector) = (&job.segments[index as usize], job.selector_for(index));
            let left = ask(env, segment, selector.map(|one| &**one), conditions, &mut stats).await;
            (index, left, stats)
        });
        let answers: Vec<_> = stream::iter(asks).buffer_unordered(WIDTH_MAX).collect().await;
        for (index, answer, stats) in answers {
            self.stats.add(&stats);
            let Some((left, asked)) = answer else { continue };
            self.stats.blocks_filtered += (left.capacity() - left.count()) as u64;
            self.ahead.left.insert(index, (left, asked));
        }
    }

    /// Notes whether a segment that was expanded has nothing for the scan.
    pub(super) fn note_expanded(&mut self, has_nothing: bool) {
        let width = &mut self.ahead.width;
        *width = match has_nothing {
            true => (*width * WIDTH_GROWTH).min(WIDTH_MAX),
            false => (*width / WIDTH_GROWTH).max(1),
        };
    }

    /// What filters have left of a segment that was asked.
    pub(super) fn left_ahead(&mut self, index: u32) -> Option<(BlockSet, AskedFor)> {
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

/// The blocks of a segment that conditions leave; `None` if that cannot be found out now, or nothing
/// holds. Streams that a selector matches may have any labels of the segment.
async fn ask<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    selector: Option<&StreamSelector>,
    conditions: &[Condition],
    stats: &mut ScanStats,
) -> Option<(BlockSet, AskedFor)> {
    let mut names = None;
    if let Some(selector) = selector
        && !conditions.iter().all(Condition::is_certain)
    {
        // Labels are not what the query reads of its entries.
        let mut of_labels = ScanStats::default();
        names = label_names(env, selector, segment, &mut of_labels).await;
        stats.add_waits(&of_labels);
    }
    let may_have = |name: &str| match selector {
        Some(_) => names.as_ref().is_none_or(|names| names.contains(name)),
        // The conditions that do not hold for the known streams are gone.
        None => false,
    };
    let held = conditions.iter().filter(|condition| condition.holds(may_have));
    let needles: Conditions = held.map(|condition| condition.needles.clone()).collect();
    if needles.is_empty() {
        return None;
    }
    let asked = if needles.len() == conditions.len() { AskedFor::All } else { AskedFor::Certain };
    let directory = env.directories.get(segment).await.ok()?;
    let bytes = Probe::memory_max_bytes(directory.filters(), &needles);
    let _memory = env.queries.try_reserve(bytes)?;
    let all = BlockSet::full(directory.block_count() as usize);
    let left = prune::candidates(env, segment, &directory, &needles, all, stats).await.ok()?;
    Some((left, asked))
}

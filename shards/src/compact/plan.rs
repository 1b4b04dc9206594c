//! Chooses the segments that are merged next.
//!
//! The choice is size-tiered. Segments fall into classes, each four times the size of the next
//! smaller one. A row of neighbours no larger than a class is merged if there are enough of
//! them, and if the largest one is no larger than the others together. So a large segment is
//! not rewritten for the sake of small ones, and after a merge each byte is in a segment of at
//! least twice the size. "Enough" is a large number ([`CompactionPolicy`]), so that most bytes
//! are merged once. It is a small number on past days, which get few new segments, and where
//! the segments of one class make a large one.
//!
//! Drafts come first when they are due, up to [`CompactionPolicy::max_inputs`] of them, and only
//! with each other. The merge encodes them for the first time. Its output counts like any other
//! segment.
//!
//! Neighbours are neighbours in the order of segments: the order decides which of two entries
//! of one time came first. So a segment between two others that overlaps them in time keeps
//! them apart. The output takes the order of the last input, and stands behind all segments of
//! the same order: segments of other shards that streams have been taken from. So none of these
//! segments that may have streams of the inputs may stand behind the last input.

use std::ops::Range;

use super::CompactionPolicy;
use crate::manifest::{Day, LiveSegment};
use crate::types::may_share_streams;

/// A segment of the shard, as far as the choice goes by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Its record in the manifest.
    pub(crate) live: LiveSegment,
    /// Rows of its directory.
    pub(crate) runs: u64,
    /// Whether it may be merged at all.
    pub(crate) is_mergeable: bool,
    /// Whether it is a draft.
    pub(crate) is_draft: bool,
}

/// The positions of the segments to be merged among `all`, which are in their order.
pub(crate) fn choose(
    all: &[Candidate],
    policy: &CompactionPolicy,
    drafts_are_due: bool,
) -> Option<Vec<usize>> {
    if !policy.enabled {
        return None;
    }
    if drafts_are_due && let Some(drafts) = choose_drafts(all, policy) {
        return Some(drafts);
    }
    let is_small = |candidate: &Candidate| {
        candidate.is_mergeable
            && !candidate.is_draft
            && candidate.live.line_bytes < policy.target_line_bytes / 2
    };
    let newest = all.iter().map(|candidate| candidate.live.day).max();
    for day in days_of(all, is_small) {
        let min_inputs = if Some(day) == newest {
            policy.min_inputs
        } else {
            policy.min_last_inputs.min(policy.min_inputs)
        };
        for row in rows(all, |candidate| is_small(candidate) && candidate.live.day == day) {
            if let Some(range) = choose_of_row(all, &row, min_inputs, policy) {
                return Some(row[range].to_vec());
            }
        }
    }
    None
}

/// The days of members, newest first, because queries ask for new entries most.
fn days_of(all: &[Candidate], is_member: impl Fn(&Candidate) -> bool) -> Vec<Day> {
    let mut days: Vec<Day> = all.iter().filter(|c| is_member(c)).map(|c| c.live.day).collect();
    days.sort_unstable_by(|a, b| b.cmp(a));
    days.dedup();
    days
}

/// Drafts that are merged, or the one that is rewritten.
fn choose_drafts(all: &[Candidate], policy: &CompactionPolicy) -> Option<Vec<usize>> {
    let is_draft = |candidate: &Candidate| candidate.is_mergeable && candidate.is_draft;
    let day = days_of(all, is_draft).into_iter().next()?;
    let rows = rows(all, |candidate| is_draft(candidate) && candidate.live.day == day);
    let row = rows.into_iter().find(|row| !row.is_empty())?;
    let count = count_from(all, &row, policy, |_| true).max(1);
    Some(row[..count].to_vec())
}

/// How many segments from the first of `row` on may be merged: as many as fit into one, do not
/// overtake others and are `eligible`.
fn count_from(
    all: &[Candidate],
    row: &[usize],
    policy: &CompactionPolicy,
    eligible: impl Fn(usize) -> bool,
) -> usize {
    let (mut line_bytes, mut runs) = (0, 0);
    let fits = |&&position: &&usize| {
        let candidate = &all[position];
        line_bytes += candidate.live.line_bytes;
        runs += candidate.runs;
        eligible(position) && line_bytes <= policy.target_line_bytes && runs <= policy.max_runs
    };
    let most = &row[..row.len().min(policy.max_inputs)];
    let mut count = most.iter().take_while(fits).count();
    while count > 1 && overtakes_others(all, &most[..count]) {
        count -= 1;
    }
    count
}

/// Rows of members between which nothing stands that overlaps them in time.
fn rows(all: &[Candidate], is_member: impl Fn(&Candidate) -> bool) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut row: Vec<usize> = Vec::new();
    let mut bounds_ns = (i64::MAX, i64::MIN);
    // The time bounds of the segments that stand between the members so far.
    let mut others: Vec<(i64, i64)> = Vec::new();
    for (position, candidate) in all.iter().enumerate() {
        let LiveSegment { min_ns, max_ns, .. } = candidate.live;
        if !is_member(candidate) {
            if !row.is_empty() {
                others.push((min_ns, max_ns));
            }
            continue;
        }
        let joined = (bounds_ns.0.min(min_ns), bounds_ns.1.max(max_ns));
        if others.iter().any(|other| other.0 <= joined.1 && other.1 >= joined.0) {
            rows.push(std::mem::take(&mut row));
            others.clear();
            bounds_ns = (min_ns, max_ns);
        } else {
            bounds_ns = joined;
        }
        row.push(position);
    }
    rows.push(row);
    rows
}

/// The part of a row that is merged, if any.
fn choose_of_row(
    all: &[Candidate],
    row: &[usize],
    min_inputs: usize,
    policy: &CompactionPolicy,
) -> Option<Range<usize>> {
    let class = |position: usize| class(all[position].live.line_bytes, policy);
    let mut classes: Vec<u32> = row.iter().map(|&position| class(position)).collect();
    classes.sort_unstable();
    classes.dedup();
    for largest in classes {
        let mut start = 0;
        while start < row.len() {
            if class(row[start]) > largest {
                start += 1;
                continue;
            }
            let rest = &row[start..];
            let count = count_from(all, rest, policy, |position| class(position) <= largest);
            let sizes = || rest[..count].iter().map(|&position| all[position].live.line_bytes);
            let largest_bytes = sizes().max().unwrap_or(0);
            let others_bytes = sizes().sum::<u64>() - largest_bytes;
            // The number of large segments of this class: rewriting three large segments for the
            // sake of a small one gains little.
            let large =
                rest[..count].iter().filter(|&&position| class(position) == largest).count();
            let makes_a_large_one = largest_bytes + others_bytes >= policy.target_line_bytes / 2
                && large >= policy.min_last_inputs;
            let enough =
                if makes_a_large_one { min_inputs.min(policy.min_last_inputs) } else { min_inputs };
            if count < enough.max(2) {
                start += count.max(1);
                continue;
            }
            if largest_bytes <= others_bytes || policy.min_inputs <= 2 {
                return Some(start..start + count);
            }
            start += 1;
        }
    }
    None
}

/// Whether entries of a segment behind the last of these segments would come before the entries of
/// the merged segment.
fn overtakes_others(all: &[Candidate], positions: &[usize]) -> bool {
    let Some(&last) = positions.last() else { return false };
    let order = all[last].live.order;
    let inputs = || positions.iter().map(|&position| &all[position].live);
    let min_ns = inputs().map(|live| live.min_ns).min().unwrap_or(i64::MAX);
    let max_ns = inputs().map(|live| live.max_ns).max().unwrap_or(i64::MIN);
    let behind = all[last + 1..].iter().map(|candidate| &candidate.live);
    let mut equal = behind.take_while(|live| live.order == order);
    equal.any(|other| {
        other.min_ns <= max_ns
            && other.max_ns >= min_ns
            && inputs().any(|input| may_share_streams(input.name.writer(), other.name.writer()))
    })
}

fn class(line_bytes: u64, policy: &CompactionPolicy) -> u32 {
    (line_bytes / policy.small_line_bytes.max(1)).max(1).ilog2() / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::SegmentName;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    const MB: u64 = 1 << 20;

    fn candidate(seq: u32, min_ns: i64, max_ns: i64, line_bytes: u64) -> Candidate {
        let name = SegmentName { epoch: 0, shards: 1, shard: 0, seq };
        let live = LiveSegment {
            name,
            day: Day::of(min_ns),
            file_len: line_bytes / 8,
            min_ns,
            max_ns,
            entries: 1,
            line_bytes,
            level: 0,
            order: name.sealed_order(),
        };
        Candidate { live, runs: 1, is_mergeable: true, is_draft: false }
    }

    /// Segments of these sizes, one after the other in time.
    fn in_a_row(sizes: &[u64]) -> Vec<Candidate> {
        let nth = |(at, size): (usize, &u64)| {
            candidate(at as u32, at as i64 * 10, at as i64 * 10 + 9, size * MB)
        };
        sizes.iter().enumerate().map(nth).collect()
    }

    fn chosen(all: &[Candidate]) -> Option<Vec<usize>> {
        choose(all, &CompactionPolicy { min_inputs: 4, ..CompactionPolicy::default() }, true)
    }

    #[test]
    fn of_small_segments_many_are_waited_for_unless_their_day_is_over() {
        let policy = CompactionPolicy::default();
        assert_eq!(choose(&in_a_row(&[20; 11]), &policy, true), None);
        assert_eq!(choose(&in_a_row(&[20; 12]), &policy, true), Some((0..12).collect()));
        assert_eq!(choose(&in_a_row(&[100; 5]), &policy, true), None);
        let large = Some((0..6).collect());
        assert_eq!(choose(&in_a_row(&[100; 6]), &policy, true), large, "they make a large one");
        let three = in_a_row(&[350, 330, 250, 14]);
        assert_eq!(choose(&three, &policy, true), None, "three and a small one are not enough");
        let mut over = in_a_row(&[20; 6]);
        over.iter_mut().take(5).for_each(|candidate| candidate.live.day = Day(-1));
        assert_eq!(choose(&over, &policy, true), Some((0..5).collect()));
    }

    #[test]
    fn neighbours_of_similar_size_are_merged_when_there_are_enough() {
        assert_eq!(chosen(&in_a_row(&[60, 60, 60])), None);
        assert_eq!(chosen(&in_a_row(&[60, 60, 60, 60])), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&in_a_row(&[250, 60, 60, 60])), None);
        assert_eq!(chosen(&in_a_row(&[250, 60, 60, 60, 50])), Some(vec![1, 2, 3, 4]));
        // The smallest first; they do not join the large one.
        assert_eq!(chosen(&in_a_row(&[60, 60, 60, 60, 1, 1, 1, 1])), Some(vec![4, 5, 6, 7]));
        assert_eq!(chosen(&in_a_row(&[60, 2, 60, 60])), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&in_a_row(&[600, 600, 600, 600])), None, "they are large enough");
        let off = CompactionPolicy::OFF;
        assert_eq!(choose(&in_a_row(&[60; 4]), &off, true), None);
    }

    #[test]
    fn a_merged_segment_is_no_larger_than_it_may_be() {
        assert_eq!(chosen(&in_a_row(&[250; 9])), Some(vec![0, 1, 2, 3]));
        assert_eq!(chosen(&in_a_row(&[1; 40])), Some((0..16).collect()));
        let mut many_runs = in_a_row(&[1; 9]);
        many_runs.iter_mut().for_each(|candidate| candidate.runs = 1 << 16);
        assert_eq!(chosen(&many_runs), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn drafts_are_merged_with_drafts_and_when_they_are_due() {
        let policy = CompactionPolicy { max_inputs: 4, ..CompactionPolicy::default() };
        let mut all = in_a_row(&[32; 8]);
        all.iter_mut().skip(1).for_each(|candidate| candidate.is_draft = true);
        assert_eq!(choose(&all, &policy, false), None);
        assert_eq!(choose(&all, &policy, true), Some(vec![1, 2, 3, 4]));
        // A single draft, too: it is encoded.
        all.iter_mut().skip(2).for_each(|candidate| candidate.is_draft = false);
        assert_eq!(choose(&all, &policy, true), Some(vec![1]));
        all[1].is_mergeable = false;
        assert_eq!(choose(&all, &policy, true), None);
        // A segment that is no draft and has their times keeps them apart.
        let mut all = in_a_row(&[32; 4]);
        all.iter_mut().for_each(|candidate| candidate.is_draft = true);
        all[2].is_draft = false;
        all[2].live.max_ns = i64::MAX;
        assert_eq!(choose(&all, &policy, true), Some(vec![0, 1]));
        // Drafts of any size are encoded.
        let mut huge = in_a_row(&[3000]);
        huge[0].is_draft = true;
        assert_eq!(choose(&huge, &policy, true), Some(vec![0]));
    }

    #[test]
    fn days_and_segments_that_overlap_in_between_keep_others_apart() {
        const DAY: i64 = 86_400_000_000_000;
        let mut all = Vec::new();
        for at in 0..4i64 {
            all.push(candidate(2 * at as u32, at, at, MB));
            all.push(candidate(2 * at as u32 + 1, DAY + at, DAY + at, MB));
        }
        assert_eq!(chosen(&all), Some(vec![1, 3, 5, 7]), "the newer day first");
        // A segment that reaches into the other day.
        all[4].live.max_ns = DAY + 3;
        assert_eq!(chosen(&all), None, "the newer ones it keeps apart, the older ones others");
        all[4].live.max_ns = DAY - 1;
        all[1].is_mergeable = false;
        assert_eq!(chosen(&all), Some(vec![0, 2, 4, 6]));
    }

    /// Segments of two shards of another start, each with the same orders.
    fn of_two_shards(count: u32) -> Vec<Candidate> {
        let of_shard = |shard| {
            let one = move |seq| {
                let mut one = candidate(seq, 0, 9, MB);
                one.live.name = SegmentName { shards: 2, shard, ..one.live.name };
                one
            };
            (0..count).map(one)
        };
        let mut all: Vec<Candidate> = of_shard(0).chain(of_shard(1)).collect();
        all.sort_by_key(|candidate| (candidate.live.order, candidate.live.name));
        all
    }

    #[test]
    fn what_is_merged_overtakes_none_of_the_same_order() {
        let policy = |max_inputs| CompactionPolicy {
            min_inputs: 2,
            max_inputs,
            ..CompactionPolicy::default()
        };
        let all = of_two_shards(4);
        assert_eq!(choose(&all, &policy(8), true), Some((0..8).collect()));
        // The fifth would overtake the sixth, which has later entries of the fourth's streams.
        assert_eq!(choose(&all, &policy(5), true), Some((0..4).collect()));
        assert_eq!(choose(&all, &policy(3), true), Some((0..2).collect()));
        let mut all = of_two_shards(4);
        all[5].live.min_ns = 20;
        all[5].live.max_ns = 20;
        assert_eq!(choose(&all, &policy(5), true), Some((0..5).collect()), "not at its times");
    }

    #[test]
    fn the_choice_never_changes_the_order_of_entries_of_one_time() {
        for seed in seeds(500) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut all = Vec::new();
            let with_drafts = rng.one_in(2);
            for seq in 0..rng.below(30) as u32 {
                let min_ns = rng.below(200) as i64 * 3_600_000_000_000;
                let max_ns = min_ns + rng.below(4_000_000_000_000) as i64;
                let mut one = candidate(seq, min_ns, max_ns, rng.below(3000) * MB / 10);
                one.is_mergeable = !rng.one_in(6);
                one.is_draft = with_drafts && rng.one_in(2);
                let shards = *rng.pick(&[1, 1, 2, 3]);
                let shard = rng.below(u64::from(shards)) as u32;
                one.live.name = SegmentName { shards, shard, ..one.live.name };
                if rng.one_in(2) {
                    one.live.order /= 4;
                }
                all.push(one);
            }
            all.sort_by_key(|candidate| (candidate.live.order, candidate.live.name));
            let Some(chosen) = chosen(&all) else { continue };
            let drafts = chosen.iter().filter(|&&position| all[position].is_draft).count();
            assert!(drafts == chosen.len() || (drafts == 0 && chosen.len() >= 4));
            assert!(chosen.is_sorted());
            let bounds =
                |position: &usize| (all[*position].live.min_ns, all[*position].live.max_ns);
            let min_ns = chosen.iter().map(|position| bounds(position).0).min().unwrap();
            let max_ns = chosen.iter().map(|position| bounds(position).1).max().unwrap();
            let line_bytes: u64 =
                chosen.iter().map(|&position| all[position].live.line_bytes).sum();
            assert!(line_bytes <= 1 << 30);
            for position in chosen[0]..*chosen.last().unwrap() {
                if chosen.contains(&position) {
                    assert!(all[position].is_mergeable);
                    assert_eq!(all[position].live.day, all[chosen[0]].live.day);
                } else {
                    let (other_min, other_max) = bounds(&position);
                    assert!(other_max < min_ns || other_min > max_ns, "{chosen:?} {position}");
                }
            }
            let last = *chosen.last().unwrap();
            let order = all[last].live.order;
            for other in all[last + 1..].iter().filter(|other| other.live.order == order) {
                let parts = |one: &Candidate| one.live.name.writer();
                let apart = other.live.max_ns < min_ns || other.live.min_ns > max_ns;
                let shares =
                    |position: &usize| may_share_streams(parts(&all[*position]), parts(other));
                assert!(apart || !chosen.iter().any(shares), "{chosen:?}");
            }
        }
    }
}

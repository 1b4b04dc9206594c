//! Divides a generation by UTC day: each day, or group of days, becomes a segment.
//!
//! Retention and compaction go by day, so a segment holds one, except where a generation has
//! entries of more than [`SEGMENTS_MAX`] days, as a backfill of years has: then the oldest days
//! share segments, 2^*k* successive days each, so that no generation makes more than that many
//! files. The groups begin at a multiple of 2^*k*, so groups of different generations fall
//! together, or one into the other.
//!
//! Guarantees: the ranges are disjoint, come in order of time, and hold every entry.

use std::collections::BTreeSet;

use crate::manifest::Day;
use crate::types::TimeRange;
use logsvc_segment::head::HeadBlock;

/// Segments of a generation at most.
const SEGMENTS_MAX: usize = 32;

/// So many of the newest days are not grouped.
const SINGLE_DAYS: usize = 16;

/// The days of a generation that become a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DayRange {
    /// The day, or the first one of a group.
    pub(super) day: Day,
    /// Its times.
    pub(super) range: TimeRange,
}

/// The days that the entries of these blocks have, as the segments that they become.
pub(super) fn day_ranges<'a>(blocks: impl Iterator<Item = &'a HeadBlock>) -> Vec<DayRange> {
    let mut days = BTreeSet::new();
    for block in blocks {
        let (min_ns, max_ns) = block.time_bounds_ns();
        let (first, last) = (Day::of(min_ns), Day::of(max_ns));
        days.insert(first);
        days.insert(last);
        if first.0 + 1 >= last.0 {
            continue;
        }
        let mut before = first;
        for day in block.timestamps_ns().iter().map(|&ns| Day::of(ns)) {
            if day != before {
                days.insert(day);
                before = day;
            }
        }
    }
    ranges_of_days(&days.into_iter().collect::<Vec<Day>>())
}

/// The same for rising days.
fn ranges_of_days(days: &[Day]) -> Vec<DayRange> {
    let grouped = if days.len() > SEGMENTS_MAX { days.len() - SINGLE_DAYS } else { 0 };
    let (old, single) = days.split_at(grouped);
    let mut shift = 0;
    let groups = loop {
        let mut groups: Vec<i32> = old.iter().map(|day| day.0 >> shift).collect();
        groups.dedup();
        if groups.len() <= SEGMENTS_MAX - SINGLE_DAYS {
            break groups;
        }
        shift += 1;
    };
    let first_single_ns = single.first().map_or(i64::MAX, |day| day.first_ns());
    let group = |number: i32| {
        let first = Day(number << shift).max(Day::MIN);
        let last = Day((number << shift) + ((1 << shift) - 1)).min(Day::MAX);
        // The group of the last old day may reach into the days that are not grouped.
        DayRange { day: first, range: range(first, last, first_single_ns) }
    };
    let groups = groups.into_iter().map(group);
    let single = single.iter().map(|&day| DayRange { day, range: range(day, day, i64::MAX) });
    groups.chain(single).collect()
}

fn range(first: Day, last: Day, most_ns: i64) -> TimeRange {
    TimeRange { start_ns: first.first_ns(), end_ns: last.last_ns().saturating_add(1).min(most_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_segment::batch::MetadataPairs;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn days(numbers: impl IntoIterator<Item = i32>) -> Vec<Day> {
        numbers.into_iter().map(Day).collect()
    }

    #[test]
    fn a_month_of_days_is_a_segment_each() {
        let month = days(20_000..20_032);
        let parts = ranges_of_days(&month);
        assert!(parts.iter().map(|days| days.day).eq(month.iter().copied()));
        for days in &parts {
            assert_eq!(days.range.start_ns, days.day.first_ns());
            assert_eq!(days.range.end_ns, days.day.last_ns() + 1);
        }
        assert!(ranges_of_days(&[]).is_empty());
    }

    #[test]
    fn of_a_backfill_the_newest_days_stay_apart_and_groups_of_generations_nest() {
        let first = ranges_of_days(&days(20_000..20_100));
        assert_eq!(first.len(), 27, "84 old days in groups of 8, and 16 days");
        assert_eq!(first[1].day, Day(20_008));
        assert_eq!(first[1].range.end_ns, Day(20_016).first_ns());
        // The last group ends where the newest days begin.
        assert_eq!(first[10].day, Day(20_080));
        assert_eq!(first[10].range.end_ns, Day(20_084).first_ns());
        assert_eq!(first[11].day, Day(20_084));
        let second = ranges_of_days(&days(19_000..20_000));
        for days in &second[..second.len() - SINGLE_DAYS] {
            assert_eq!(days.day.0 % 64, if days.day == Day(19_000) { 56 } else { 0 });
        }
    }

    #[test]
    fn every_entry_is_in_exactly_one_of_few_parts() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let spread = *rng.pick(&[1u64 << 40, 1 << 50, 1 << 53, 1 << 57, 1 << 62]);
            let base = *rng.pick(&[0i64, i64::MIN, 1_750_000_000_000_000_000]);
            let mut blocks = Vec::new();
            for _ in 0..1 + rng.below(5) {
                let mut block = HeadBlock::default();
                for _ in 0..1 + rng.below(60) {
                    let ns = base.saturating_add(rng.below(spread) as i64);
                    block.push(ns, b"x", MetadataPairs::NONE);
                }
                blocks.push(block);
            }
            let parts = day_ranges(blocks.iter());
            assert!(parts.len() <= SEGMENTS_MAX);
            for pair in parts.windows(2) {
                assert!(pair[0].range.end_ns <= pair[1].range.start_ns, "{pair:?}");
            }
            let mut used = vec![false; parts.len()];
            for &ns in blocks.iter().flat_map(|block| block.timestamps_ns()) {
                let holders = parts.iter().enumerate().filter(|(_, p)| p.range.overlaps((ns, ns)));
                let holders: Vec<usize> = holders.map(|(number, _)| number).collect();
                assert_eq!(holders.len(), 1, "{ns}");
                used[holders[0]] = true;
                assert!(parts[holders[0]].day <= Day::of(ns));
            }
            assert!(used.iter().all(|used| *used), "none is empty");
        }
    }
}

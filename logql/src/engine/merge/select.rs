//! `topk`, `bottomk`, `sort` and `sort_desc`: functions that pass samples on with
//! their labels.
//!
//! Of equal values the one whose labels come first wins, name by name and value by value, in
//! both directions. So the choice among them depends on nothing but the samples of the step.

use std::cmp::Ordering;

use super::super::meter::Meter;
use super::grouping::group_labels;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::Grouping;

/// Largest `k` for which samples are inserted into a ranking one by one.
const MAX_RANKED: usize = 64;

/// The `k` largest (or smallest) samples of each group, step by step. NaN goes
/// first; among equal values the series whose labels come first stays. A meter that is stopped
/// ends it early.
pub(crate) fn extreme(
    meter: &Meter,
    k: u64,
    largest: bool,
    grouping: Option<&Grouping>,
    series: Vec<Series>,
) -> Vec<Series> {
    let k = usize::try_from(k).unwrap_or(usize::MAX);
    let mut groups = Groups::of(meter, &series, |labels| group_labels(labels, grouping));
    groups.order_members(meter, &series);
    let lists_bytes = size_of::<Vec<Point>>() + size_of::<Series>();
    if !meter.admit(series.len() * lists_bytes) {
        return Vec::new();
    }
    let mut kept: Vec<Vec<Point>> = series.iter().map(|_| Vec::new()).collect();
    for members in &groups.members {
        let points = members.iter().map(|&member| series[member].points.len()).sum();
        let before_bytes = meter.used_bytes();
        let kept_bytes = kept_bytes(k, points);
        let scratch_bytes =
            if k <= MAX_RANKED { RANKING_BYTES * points } else { SAMPLE_BYTES * points };
        if !meter.work(members.len() * MEMBER_WORK) || !meter.admit(kept_bytes + scratch_bytes) {
            break;
        }
        if k <= MAX_RANKED {
            keep_ranked(meter, k, largest, members, &series, &mut kept);
        } else {
            keep_sorted(meter, k, largest, members, &series, &mut kept);
        }
        meter.release_to(before_bytes + kept_bytes);
    }
    series
        .into_iter()
        .zip(kept)
        .filter(|(_, points)| !points.is_empty())
        .map(|(series, points)| Series { labels: series.labels, points })
        .collect()
}

/// Bytes of a sample in a ranking of its step, the ranking included, in lists that double.
const RANKING_BYTES: usize = size_of::<Vec<(usize, f64)>>() + 4 * size_of::<(usize, f64)>();

/// Bytes of a sample in a list that doubles, and to sort it.
const SAMPLE_BYTES: usize = 4 * size_of::<(u32, usize, f64)>();

/// The work of reading a member.
const MEMBER_WORK: usize = 64;

/// Bytes of the points that are kept out of `points`, in lists that double.
fn kept_bytes(k: usize, points: usize) -> usize {
    // A list has room for four points at least.
    if k == 0 { 0 } else { 4 * points * size_of::<Point>() }
}

/// Takes the samples of a group one by one into the ranking of their step.
fn keep_ranked(
    meter: &Meter,
    k: usize,
    largest: bool,
    members: &[usize],
    series: &[Series],
    kept: &mut [Vec<Point>],
) {
    let points = || members.iter().map(|&member| (member, &series[member].points));
    let first = points().filter_map(|(_, points)| points.first()).map(|point| point.step).min();
    let last = points().filter_map(|(_, points)| points.last()).map(|point| point.step).max();
    let (Some(first), Some(last)) = (first, last) else { return };
    // Best first; among equals in the order of the members.
    let mut rankings: Vec<Vec<(usize, f64)>> = vec![Vec::new(); (last - first + 1) as usize];
    for (member, points) in points() {
        if !meter.work(points.len() * 2 * k.max(8) * size_of::<f64>()) {
            return;
        }
        for point in points {
            let ranking = &mut rankings[(point.step - first) as usize];
            let is_behind =
                |other: &(usize, f64)| order(other.1, point.value, largest) != Ordering::Greater;
            if ranking.len() >= k {
                if ranking.last().is_none_or(is_behind) {
                    continue;
                }
                ranking.pop();
            }
            ranking.insert(ranking.partition_point(is_behind), (member, point.value));
        }
    }
    for (step, ranking) in (first..).zip(rankings) {
        for (member, value) in ranking {
            kept[member].push(Point { step, value });
        }
    }
}

/// Sorts all samples of a group by step, and the samples of a step by value.
fn keep_sorted(
    meter: &Meter,
    k: usize,
    largest: bool,
    members: &[usize],
    series: &[Series],
    kept: &mut [Vec<Point>],
) {
    let mut samples: Vec<(u32, usize, f64)> = members
        .iter()
        .flat_map(|&member| {
            series[member].points.iter().map(move |point| (point.step, member, point.value))
        })
        .collect();
    if !meter.work(samples.len() * 2 * SAMPLE_BYTES) {
        return;
    }
    // In the order of the members within a step.
    samples.sort_by_key(|(step, ..)| *step);
    for of_step in samples.chunk_by_mut(|a, b| a.0 == b.0) {
        of_step.sort_by(|a, b| order(a.2, b.2, largest));
        for (step, member, value) in of_step.iter().take(k) {
            kept[*member].push(Point { step: *step, value: *value });
        }
    }
}

/// Series by the value of their first point, which is the only one of an instant
/// query, NaN last, equal values by labels.
pub(crate) fn sort(descending: bool, series: &mut [Series]) {
    series.sort_by(|a, b| {
        let by_value = match (a.points.first(), b.points.first()) {
            (Some(a), Some(b)) => order(a.value, b.value, descending),
            _ => Ordering::Equal,
        };
        by_value.then_with(|| a.labels.cmp_pairs(&b.labels))
    });
}

/// Best value first, NaN last.
fn order(a: f64, b: f64, largest_first: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let ascending = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
            if largest_first { ascending.reverse() } else { ascending }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_proto::Labels;

    fn series(name: &str, values: &[(u32, f64)]) -> Series {
        Series {
            labels: Labels::from_pairs([("s", name)]).expect("valid"),
            points: values.iter().map(|&(step, value)| Point { step, value }).collect(),
        }
    }

    #[test]
    fn each_step_keeps_its_own_extremes() {
        let input = vec![
            series("a", &[(0, 1.0), (1, 9.0)]),
            series("b", &[(0, f64::NAN), (1, 5.0)]),
            series("c", &[(0, 2.0), (1, 9.0), (2, f64::NAN)]),
        ];
        let top = extreme(&Meter::default(), 1, true, None, input.clone());
        assert_eq!(top.len(), 2);
        assert_eq!(top[0], series("a", &[(1, 9.0)]));
        assert_eq!(top[1].points[0], Point { step: 0, value: 2.0 });
        assert!(top[1].points[1].value.is_nan());
        let bottom = extreme(&Meter::default(), 1, false, None, input);
        assert_eq!(bottom[0], series("a", &[(0, 1.0)]));
        assert_eq!(bottom[1], series("b", &[(1, 5.0)]));
    }

    #[test]
    fn of_equal_values_the_first_labels_win() {
        let ties = || {
            vec![
                series("c", &[(0, 1.0), (1, 3.0)]),
                series("a", &[(1, 3.0)]),
                series("b", &[(0, 1.0), (1, 3.0)]),
            ]
        };
        let names = |found: &[Series]| -> Vec<String> {
            found.iter().filter_map(|one| one.labels.get("s")).map(str::to_owned).collect()
        };
        for k in [2, MAX_RANKED as u64 + 2] {
            for largest in [true, false] {
                // More series than the ranking holds, all of the same value.
                let mut input = ties();
                let others = (0..k).map(|n| series(&format!("z{n:03}"), &[(0, 1.0), (1, 3.0)]));
                input.splice(0..0, others);
                input.reverse();
                let chosen = extreme(&Meter::default(), k, largest, None, input);
                let mut at_0: Vec<Series> = chosen.clone();
                at_0.retain(|one| one.points.iter().any(|point| point.step == 0));
                let mut found = names(&at_0);
                found.sort_unstable();
                assert_eq!(found[..2], ["b", "c"], "{k} {largest}");
                let mut at_1 = chosen;
                at_1.retain(|one| one.points.iter().any(|point| point.step == 1));
                let mut found = names(&at_1);
                found.sort_unstable();
                assert_eq!(found[..2], ["a", "b"], "{k} {largest}");
                assert_eq!(found.len() as u64, k);
            }
        }
        for descending in [true, false] {
            let mut sorted = ties();
            sort(descending, &mut sorted);
            let first = if descending { ["a", "b", "c"] } else { ["b", "c", "a"] };
            assert_eq!(names(&sorted), first);
        }
    }

    #[test]
    fn rankings_hold_what_sorting_finds() {
        let (meter, mut rng) = (Meter::default(), crate::testing::Rng::new(8));
        for round in 0..300 {
            let input: Vec<Series> = (0..1 + rng.below(12))
                .map(|number| {
                    let mut points = Vec::new();
                    for step in 0..6 {
                        if rng.below(4) > 0 {
                            let value = [0.0, 1.0, 2.0, f64::NAN, -1.0][rng.below(5)];
                            points.push((step, value));
                        }
                    }
                    series(&number.to_string(), &points)
                })
                .collect();
            let members: Vec<usize> = (0..input.len()).collect();
            let (k, largest) = (rng.below(8), rng.one_in(2));
            let mut ranked: Vec<Vec<Point>> = vec![Vec::new(); input.len()];
            let mut sorted = ranked.clone();
            keep_ranked(&meter, k, largest, &members, &input, &mut ranked);
            keep_sorted(&meter, k, largest, &members, &input, &mut sorted);
            assert_eq!(format!("{ranked:?}"), format!("{sorted:?}"), "round {round}");
        }
    }

    #[test]
    fn sorting_puts_nan_last_in_both_directions() {
        let input = || {
            vec![series("a", &[(0, f64::NAN)]), series("b", &[(0, 1.0)]), series("c", &[(0, 2.0)])]
        };
        for (descending, expected) in [(false, ["b", "c", "a"]), (true, ["c", "b", "a"])] {
            let mut sorted = input();
            sort(descending, &mut sorted);
            let names: Vec<&str> = sorted.iter().filter_map(|s| s.labels.get("s")).collect();
            assert_eq!(names, expected);
        }
    }
}

//! `topk`, `bottomk`, `sort` and `sort_desc`: functions that pass samples on with
//! their labels.

use std::cmp::Ordering;

use super::grouping::group_labels;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::Grouping;

/// The `k` largest (or smallest) samples of each group, step by step. NaN goes
/// first; among equal values the series that comes first in the input stays.
pub(crate) fn extreme(
    k: u64,
    largest: bool,
    grouping: Option<&Grouping>,
    series: Vec<Series>,
) -> Vec<Series> {
    let k = usize::try_from(k).unwrap_or(usize::MAX);
    let groups = Groups::of(&series, |labels| group_labels(labels, grouping));
    let mut kept: Vec<Vec<Point>> = series.iter().map(|_| Vec::new()).collect();
    for members in &groups.members {
        // All samples of the group by step, and by input order within a step.
        let mut samples: Vec<(u32, usize, f64)> = members
            .iter()
            .flat_map(|&member| {
                series[member].points.iter().map(move |point| (point.step, member, point.value))
            })
            .collect();
        samples.sort_by_key(|(step, ..)| *step);
        for of_step in samples.chunk_by_mut(|a, b| a.0 == b.0) {
            of_step.sort_by(|a, b| order(a.2, b.2, largest));
            for (step, member, value) in of_step.iter().take(k) {
                kept[*member].push(Point { step: *step, value: *value });
            }
        }
    }
    series
        .into_iter()
        .zip(kept)
        .filter(|(_, points)| !points.is_empty())
        .map(|(series, points)| Series { labels: series.labels, points })
        .collect()
}

/// Series by the value of their first point, which is the only one of an instant
/// query, NaN last, equal values in input order.
pub(crate) fn sort(descending: bool, series: &mut [Series]) {
    series.sort_by(|a, b| match (a.points.first(), b.points.first()) {
        (Some(a), Some(b)) => order(a.value, b.value, descending),
        _ => Ordering::Equal,
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
        let top = extreme(1, true, None, input.clone());
        assert_eq!(top.len(), 2);
        assert_eq!(top[0], series("a", &[(1, 9.0)]));
        assert_eq!(top[1].points[0], Point { step: 0, value: 2.0 });
        assert!(top[1].points[1].value.is_nan());
        let bottom = extreme(1, false, None, input);
        assert_eq!(bottom[0], series("a", &[(0, 1.0)]));
        assert_eq!(bottom[1], series("b", &[(1, 5.0)]));
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

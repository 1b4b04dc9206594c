//! Windows that are put together from parts.
//!
//! A rule is evaluated again and again, and its window is mostly longer than the time between two
//! evaluations. So a window is divided into parts at whose ends later windows end, too. What the
//! leaf counted in a part is kept, and the next evaluation runs the leaf over the parts that are
//! not known or have changed.
//!
//! Guarantees: [`WindowParts::completed`] gives, bit for bit, the result that the leaf would give
//! over the whole window, provided that a new run would give the known parts again. The caller says
//! which parts these are. Only leaves that count in integers have parts: the sum does not depend on
//! where a window is cut. Rates are divided above the leaf, after the parts are added. A leaf that
//! fails in a part fails as a whole, and nothing of it is known afterwards.

use std::ops::Range;

use super::leaf::range::SumSeries;
use super::leaf::runs::SumPoint;
use super::leaf::{LeafData, LeafResult, LeafStats};
use super::params::{Grid, Windows};
use super::plan::{LeafKind, LeafPlan};
use super::reuse::{Steps, depends_on_clock};

/// Windows that would have more parts are not divided: adding them up takes about a nanosecond for
/// each series and part.
const PARTS_MAX: i64 = 2_000;

/// The parts of a leaf's window, from the oldest to the newest.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowParts {
    leaf: LeafPlan,
    /// A step for each part.
    steps: Steps,
    offset_ns: i64,
}

/// What a leaf found in the parts of a window.
#[derive(Clone, Debug)]
pub struct KnownParts {
    steps: Steps,
    /// Ordered by labels, each once; the steps of points are parts.
    series: Vec<SumSeries>,
}

impl LeafPlan {
    /// The parts of the leaf's window, if a query is repeated every `interval_ns`. `None` if the
    /// parts would not add up exactly, or less than half of the window would come again.
    #[must_use]
    pub fn parts(&self, interval_ns: i64) -> Option<WindowParts> {
        let LeafKind::Range { windows, .. } = &self.kind else { return None };
        let Windows { grid: Grid { start_ns: time_ns, steps: 1, .. }, range_ns, offset_ns } =
            *windows
        else {
            return None;
        };
        if interval_ns <= 0 || range_ns / 2 < interval_ns || depends_on_clock(&self.log) {
            return None;
        }
        let part_ns = greatest_common_divisor(range_ns, interval_ns);
        let count = range_ns / part_ns;
        // Bounds at the ends of time are cut off.
        let (first_ns, end_ns) = self.entry_bounds_ns();
        if count > PARTS_MAX || first_ns == i64::MIN || end_ns == i64::MAX || first_ns >= end_ns {
            return None;
        }
        let start_ns = time_ns.checked_sub(range_ns - part_ns)?;
        let grid = Grid { start_ns, step_ns: part_ns, steps: u32::try_from(count).ok()? };
        let steps = Steps::of_windows(&Windows { grid, range_ns: part_ns, offset_ns });
        Some(WindowParts { leaf: self.clone(), steps, offset_ns })
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl WindowParts {
    /// How many there are, at least two.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.steps.count()
    }

    /// The number of the leaf in its plan.
    #[must_use]
    pub fn leaf_index(&self) -> usize {
        self.leaf.index
    }

    /// Half-open times of the entries of all parts, in ns.
    #[must_use]
    pub fn entry_bounds_ns(&self) -> (i64, i64) {
        self.steps.entry_bounds_ns(0..self.count())
    }

    /// What the counts of a part depend on besides the entries and the time of the part. Parts
    /// with the same text may stand for each other.
    #[must_use]
    pub fn key(&self) -> String {
        let LeafPlan { log, kind, .. } = &self.leaf;
        let LeafKind::Range { windows, value, series } = kind else { return String::new() };
        let (range_ns, offset_ns) = (windows.range_ns, windows.offset_ns);
        let (part_ns, phase_ns) = (self.steps.step_ns(), self.steps.phase_ns());
        format!("{log} {value:?} {series:?} {range_ns} {offset_ns} {part_ns} {phase_ns}")
    }

    /// The parts from the first one that is not known to the last. `changed` are half-open times,
    /// in ns, at which entries have changed: parts that see these times are not known.
    #[must_use]
    pub fn missing(&self, known: &KnownParts, changed: &[(i64, i64)]) -> Range<u32> {
        known.steps.missing(&self.steps, changed)
    }

    /// The leaf over some of the parts, at least one.
    #[must_use]
    pub fn leaf_of(&self, parts: &Range<u32>) -> LeafPlan {
        let mut leaf = self.leaf.clone();
        if let LeafKind::Range { windows, .. } = &mut leaf.kind {
            let Grid { step_ns, .. } = self.steps.grid();
            let start_ns = self.steps.time_ns(parts.start);
            let grid = Grid { start_ns, step_ns, steps: parts.len().max(1) as u32 };
            *windows = Windows { grid, range_ns: step_ns, offset_ns: self.offset_ns };
            (leaf.start_ns, leaf.end_ns) = windows.entry_bounds_ns();
        }
        leaf
    }

    /// Bytes that [`WindowParts::completed`] takes at most beside its arguments, about.
    #[must_use]
    pub fn completed_bytes(known: Option<&KnownParts>, fresh: &[LeafResult]) -> u64 {
        let fresh_bytes: usize = fresh.iter().map(LeafResult::held_bytes).sum();
        2 * (known.map_or(0, KnownParts::held_bytes) + fresh_bytes as u64)
    }

    /// All parts of the window and the result of the leaf, from known parts and from `fresh`: the
    /// results of [`WindowParts::leaf_of`] for the parts `missing`.
    ///
    /// # Errors
    /// The fresh results as they are, if one of them failed.
    pub fn completed(
        &self,
        known: Option<&KnownParts>,
        missing: &Range<u32>,
        fresh: Vec<LeafResult>,
    ) -> Result<(KnownParts, LeafResult), Vec<LeafResult>> {
        if fresh.iter().any(|result| !matches!(result.data, LeafData::Sums(_))) {
            return Err(fresh);
        }
        let mut stats = LeafStats::default();
        let mut lists: Vec<SumSeries> = known.map_or(Vec::new(), |known| {
            let behind = self.steps.distance_from(&known.steps);
            known.series.iter().filter_map(|one| self.known_of(one, behind, missing)).collect()
        });
        for result in fresh {
            stats.add(&result.stats);
            let LeafData::Sums(series) = result.data else { continue };
            lists.extend(series.into_iter().map(|mut one| {
                one.points.iter_mut().for_each(|point| point.step += missing.start);
                one
            }));
        }
        lists.sort_by(|a, b| a.labels.cmp(&b.labels));
        let mut series: Vec<SumSeries> = Vec::with_capacity(lists.len());
        for one in lists {
            match series.last_mut() {
                Some(last) if last.labels == one.labels => last.points.extend(one.points),
                _ => series.push(one),
            }
        }
        series.iter_mut().for_each(|one| add_up(&mut one.points));
        let whole = series.iter().map(|SumSeries { labels, points }| {
            let sum = points.iter().map(|point| point.sum).sum();
            SumSeries { labels: labels.clone(), points: vec![SumPoint { step: 0, sum }] }
        });
        let data = LeafData::Sums(whole.collect());
        let result = LeafResult { leaf: self.leaf.index, stats, data };
        Ok((KnownParts { steps: self.steps, series }, result))
    }

    /// The points of a known series that lie in the window and are not missing. `behind` is the
    /// number of known parts before the window.
    fn known_of(&self, one: &SumSeries, behind: i128, missing: &Range<u32>) -> Option<SumSeries> {
        let is_wanted = |step: &u32| *step < self.count() && !missing.contains(step);
        let moved = one.points.iter().filter_map(|point| {
            let step = u32::try_from(i128::from(point.step) - behind).ok().filter(is_wanted)?;
            Some(SumPoint { step, sum: point.sum })
        });
        let points: Vec<SumPoint> = moved.collect();
        (!points.is_empty()).then(|| SumSeries { labels: one.labels.clone(), points })
    }
}

/// Puts points in order, and adds up those of the same step.
fn add_up(points: &mut Vec<SumPoint>) {
    points.sort_by_key(|point| point.step);
    points.dedup_by(|point, kept| {
        let is_same = point.step == kept.step;
        if is_same {
            kept.sum += point.sum;
        }
        is_same
    });
    points.shrink_to_fit();
}

impl KnownParts {
    /// Bytes in memory, about.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let bytes: usize = self.series.iter().map(SumSeries::held_bytes).sum();
        (size_of::<KnownParts>() + bytes) as u64
    }

    /// How many points of series it has.
    #[must_use]
    pub fn points(&self) -> usize {
        self.series.iter().map(|one| one.points.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Plan, QueryParams};
    use crate::syntax;

    const S: i64 = 1_000_000_000;

    fn leaf(query: &str, params: &QueryParams) -> LeafPlan {
        let expr = syntax::parse(query).expect("a query");
        Plan::new(&expr, params).expect("a plan").leaves()[0].clone()
    }

    fn parts(query: &str, time_s: i64, interval_s: i64) -> Option<WindowParts> {
        leaf(query, &QueryParams::instant(time_s * S)).parts(interval_s * S)
    }

    #[test]
    fn parts_end_where_later_windows_end() {
        let query = r#"count_over_time({a="b"} |= "x" [5m] offset 7s)"#;
        let window = parts(query, 1003, 10).expect("parts");
        assert_eq!((window.count(), window.steps.step_ns()), (30, 10 * S));
        // (1003 - 7 - 300, 1003 - 7]
        assert_eq!(window.entry_bounds_ns(), (696 * S + 1, 996 * S + 1));
        let oldest = window.leaf_of(&(0..2));
        assert_eq!(oldest.entry_bounds_ns(), (696 * S + 1, 716 * S + 1));
        let newest = window.leaf_of(&(29..30));
        assert_eq!(newest.entry_bounds_ns(), (986 * S + 1, 996 * S + 1));
        // The interval does not divide the window.
        let window = parts(query, 1003, 45).expect("parts");
        assert_eq!((window.count(), window.steps.step_ns()), (20, 15 * S));
        let next = parts(query, 1003 + 45, 45).expect("parts");
        assert_eq!(window.key(), next.key());
        assert_ne!(window.key(), parts(query, 1004, 45).expect("parts").key());
    }

    #[test]
    fn some_windows_have_no_parts() {
        for (query, interval_s) in [
            (r#"count_over_time({a="b"}[5m])"#, 0),
            (r#"count_over_time({a="b"}[5m])"#, 151),
            // More parts than are added up quickly.
            (r#"count_over_time({a="b"}[1h])"#, 7),
            (r#"count_over_time({a="b"}[10s])"#, 10),
            (r#"sum_over_time({a="b"} | unwrap x [5m])"#, 10),
            (r#"rate({a="b"} | line_format "{{ now }}" |= "1" [5m])"#, 10),
        ] {
            assert_eq!(parts(query, 1000, interval_s), None, "{query}");
        }
        let query = r#"count_over_time({a="b"}[5m])"#;
        let range = QueryParams::range(0, 1000 * S, 10 * S);
        assert_eq!(leaf(query, &range).parts(10 * S), None);
        let earliest = QueryParams::instant(i64::MIN + 5 * S);
        assert_eq!(leaf(query, &earliest).parts(10 * S), None);
        let latest = QueryParams::instant(i64::MAX);
        assert_eq!(leaf(query, &latest).parts(10 * S), None);
        let log = leaf(r#"{a="b"}"#, &QueryParams::range(0, S, S));
        assert_eq!(log.parts(S), None);
    }
}

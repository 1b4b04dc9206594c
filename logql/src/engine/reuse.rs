//! Answers to metric range queries that are put together from known steps and new ones.
//!
//! A metric query is evaluated step by step, and the answer of a step depends only on the entries
//! in its windows. So the steps of an earlier answer to the same query can be used again as long as
//! these entries have not changed. A dashboard that asks for the last hour again and again needs
//! its last minutes only.
//!
//! Guarantees: [`KnownSteps::completed`] gives, bit for bit, the answer of a run over all steps,
//! provided that a new run would give the known steps again. The caller says which steps these are.
//! A query has no [`Steps`] if its answer cannot be divided into steps, may depend on the time of
//! the request, or is rounded in an order that depends on the first step.

use std::ops::Range;

use super::error::EvalError;
use super::params::{Grid, QueryTime, Windows};
use super::pipeline::effects;
use super::plan::{Node, Plan, Root};
use super::result::{MatrixSeries, ResultPoint};
use crate::syntax::ast::{LogExpr, RangeFunction};

/// Times of answers are in milliseconds.
const MS_NS: i64 = 1_000_000;

/// Words in the names of template functions that may tell the time.
const CLOCK_WORDS: [&[u8]; 2] = [b"now", b"date"];

/// The steps of a metric range query, and which entries each of them depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    grid: Grid,
    /// From a step's time back to the oldest entry that it sees, in ns; may be negative.
    back_ns: i64,
    /// From a step's time on to the newest entry that it sees, in ns; may be negative.
    ahead_ns: i64,
}

impl Steps {
    /// The steps of one range aggregation. Its windows do not reach the ends of time.
    pub(crate) fn of_windows(windows: &Windows) -> Steps {
        let Windows { grid, range_ns, offset_ns } = *windows;
        let back_ns = range_ns.saturating_add(offset_ns).saturating_sub(1);
        Steps { grid, back_ns, ahead_ns: offset_ns.saturating_neg() }
    }

    /// The times of the steps.
    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    /// How many steps later these steps begin than others at the same distance.
    pub(crate) fn distance_from(&self, other: &Steps) -> i128 {
        let ns = i128::from(self.grid.start_ns) - i128::from(other.grid.start_ns);
        ns / i128::from(self.grid.step_ns)
    }

    /// The steps of `wanted`, which must be steps of the same query, from the first one that is
    /// not among these steps to the last. Steps that see the half-open times `changed`, in ns,
    /// count as if they were not.
    pub(crate) fn missing(&self, wanted: &Steps, changed: &[(i64, i64)]) -> Range<u32> {
        let is_same = self.step_ns() == wanted.step_ns()
            && self.phase_ns() == wanted.phase_ns()
            && (self.back_ns, self.ahead_ns) == (wanted.back_ns, wanted.ahead_ns);
        if !is_same {
            return 0..wanted.count();
        }
        let first = wanted.first_at_or_after(self.time_ns(0));
        let last_ns = self.time_ns(self.count() - 1);
        let end = wanted.first_at_or_after(last_ns.saturating_add(1));
        // Runs of steps that are not known, in any order.
        let around = [0..first, end.max(first)..wanted.count()];
        let seen = changed.iter().map(|&times| wanted.that_see(times));
        let unknown = around.into_iter().chain(seen).filter(|steps| !steps.is_empty());
        let hull = unknown.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        hull.unwrap_or(0..0)
    }

    /// How many there are, at least one.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.grid.steps
    }

    /// The distance of two steps in ns, a whole number of milliseconds.
    #[must_use]
    pub fn step_ns(&self) -> i64 {
        self.grid.step_ns
    }

    /// The time of a step in ns.
    #[must_use]
    pub fn time_ns(&self, step: u32) -> i64 {
        self.grid.time_ns(step)
    }

    /// The time parameters of a query for some of the steps, at least one. The query must not
    /// align these times again.
    #[must_use]
    pub fn time_of(&self, steps: Range<u32>) -> QueryTime {
        QueryTime::Range {
            start_ns: self.time_ns(steps.start),
            end_ns: self.time_ns(steps.end.max(steps.start + 1) - 1),
            step_ns: self.step_ns(),
        }
    }

    /// The remainder of the time of each step divided by the distance, in ns.
    #[must_use]
    pub fn phase_ns(&self) -> i64 {
        self.grid.start_ns.rem_euclid(self.grid.step_ns)
    }

    /// Half-open times of the entries that some steps depend on, in ns.
    #[must_use]
    pub fn entry_bounds_ns(&self, steps: Range<u32>) -> (i64, i64) {
        if steps.is_empty() {
            return (0, 0);
        }
        let oldest_ns = self.time_ns(steps.start).saturating_sub(self.back_ns);
        let newest_ns = self.time_ns(steps.end - 1).saturating_add(self.ahead_ns);
        (oldest_ns, newest_ns.saturating_add(1))
    }

    /// The steps that depend on an entry of these times, half-open.
    #[must_use]
    pub fn that_see(&self, (start_ns, end_ns): (i64, i64)) -> Range<u32> {
        let first = self.first_at_or_after(start_ns.saturating_sub(self.ahead_ns));
        let end = self.first_at_or_after(end_ns.saturating_add(self.back_ns));
        first..end.max(first)
    }

    /// The first step at this time or later, or the number of steps.
    fn first_at_or_after(&self, time_ns: i64) -> u32 {
        let distance = i128::from(time_ns) - i128::from(self.grid.start_ns);
        let step = i128::from(self.grid.step_ns);
        let index = (distance.max(0) + step - 1) / step;
        u32::try_from(index).map_or(self.grid.steps, |index| index.min(self.grid.steps))
    }

    fn time_ms(&self, step: u32) -> i64 {
        self.grid.time_ms(step)
    }
}

/// How many bytes an answer with these series takes in memory, about.
fn answer_bytes(series: &[MatrixSeries]) -> u64 {
    let bytes = |one: &MatrixSeries| {
        size_of::<MatrixSeries>()
            + one.labels.as_bytes().len()
            + one.points.len() * size_of::<ResultPoint>()
    };
    series.iter().map(|one| bytes(one) as u64).sum()
}

impl Plan {
    /// The steps of the answer; `None` if it is not one by steps, or if steps of another
    /// run cannot be used.
    #[must_use]
    pub fn steps(&self) -> Option<Steps> {
        let Root::Metric { node, grid, is_instant: false, .. } = &*self.root else { return None };
        // Two steps within a millisecond could not be told apart in an answer.
        if self.leaves.is_empty() || grid.step_ns % MS_NS != 0 {
            return None;
        }
        if self.may_tell_the_time() || !is_the_same_on_any_grid(node) {
            return None;
        }
        let (first_ns, last_ns) = (grid.start_ns, grid.time_ns(grid.steps - 1));
        let mut steps = Steps { grid: *grid, back_ns: i64::MIN, ahead_ns: i64::MIN };
        for leaf in self.leaves.iter() {
            let (start_ns, end_ns) = leaf.entry_bounds_ns();
            // Bounds at the ends of time are cut off.
            if start_ns >= end_ns || start_ns == i64::MIN || end_ns == i64::MAX {
                return None;
            }
            steps.back_ns = steps.back_ns.max(first_ns.checked_sub(start_ns)?);
            steps.ahead_ns = steps.ahead_ns.max((end_ns - 1).checked_sub(last_ns)?);
        }
        Some(steps)
    }

    /// Whether a template of the query may use the time of the request.
    fn may_tell_the_time(&self) -> bool {
        self.leaves.iter().any(|leaf| depends_on_clock(&leaf.log))
    }
}

/// Whether the entries that a log query returns may depend on the time at which it runs: a
/// template may ask for it. True in vain for templates that only look so.
#[must_use]
pub fn depends_on_clock(log: &LogExpr) -> bool {
    let has_clock = |template: &[u8]| {
        let template = template.to_ascii_lowercase();
        CLOCK_WORDS.iter().any(|word| memchr::memmem::find(&template, word).is_some())
    };
    let mut stages = log.stages.iter();
    stages.any(|stage| effects(stage).templates().any(|template| has_clock(template)))
}

/// Whether the value of a node for a step does not depend on the steps before. The increases of a
/// counter are added piece by piece from window to window, and in another order their sum may
/// have other last bits. All other sums of fractions are exact.
fn is_the_same_on_any_grid(node: &Node) -> bool {
    match node {
        Node::Scalar(_) | Node::Vector(_) | Node::Sums { .. } | Node::Absent { .. } => true,
        Node::Samples { function, .. } => function.function != RangeFunction::RateCounter,
        Node::Aggregate { input, .. } | Node::LabelReplace { input, .. } => {
            is_the_same_on_any_grid(input)
        }
        Node::Binary { left, right, .. } => {
            is_the_same_on_any_grid(left) && is_the_same_on_any_grid(right)
        }
    }
}

/// Steps of a query whose answer is known.
#[derive(Clone, Debug)]
pub struct KnownSteps {
    steps: Steps,
    series: Vec<MatrixSeries>,
}

impl KnownSteps {
    /// The answer to a query, for all of its steps.
    #[must_use]
    pub fn new(steps: Steps, series: Vec<MatrixSeries>) -> KnownSteps {
        KnownSteps { steps, series }
    }

    /// Bytes that an answer with these series takes in memory, about.
    #[must_use]
    pub fn bytes_of(series: &[MatrixSeries]) -> u64 {
        size_of::<KnownSteps>() as u64 + answer_bytes(series)
    }

    /// The steps of `wanted`, which must be steps of the same query, from the first unknown
    /// step to the last. `changed` are half-open times, in ns, at which entries have changed:
    /// steps that see these times are not known.
    #[must_use]
    pub fn missing(&self, wanted: &Steps, changed: &[(i64, i64)]) -> Range<u32> {
        self.steps.missing(wanted, changed)
    }

    /// The answer for the steps of `wanted`: the steps of `missing` from `fresh`, the other
    /// steps from the known answer.
    ///
    /// # Errors
    /// There are more series than `max_series`, unless that is 0.
    pub fn completed(
        &self,
        wanted: &Steps,
        missing: &Range<u32>,
        fresh: Vec<MatrixSeries>,
        max_series: usize,
    ) -> Result<Vec<MatrixSeries>, EvalError> {
        let ms = |steps: Range<u32>| match steps.is_empty() {
            true => 0..0,
            false => wanted.time_ms(steps.start)..wanted.time_ms(steps.end - 1) + 1,
        };
        let missing = if missing.is_empty() { 0..0 } else { missing.clone() };
        let before = ms(0..missing.start);
        let behind = ms(missing.end..wanted.count());
        let mut parts: Vec<MatrixSeries> = fresh;
        for one in &self.series {
            for range in [&before, &behind] {
                let points = within(&one.points, range);
                if !points.is_empty() {
                    let labels = one.labels.clone();
                    parts.push(MatrixSeries { labels, points: points.to_vec() });
                }
            }
        }
        // Where a series has several points at a time, they come from one part.
        parts.sort_by(|a, b| {
            let first_ms = |one: &MatrixSeries| one.points.first().map(|p| p.timestamp_ms);
            a.labels.cmp(&b.labels).then(first_ms(a).cmp(&first_ms(b)))
        });
        let mut whole: Vec<MatrixSeries> = Vec::with_capacity(parts.len());
        for part in parts {
            match whole.last_mut() {
                Some(last) if last.labels == part.labels => last.points.extend(part.points),
                _ => whole.push(part),
            }
        }
        if max_series > 0 && whole.len() > max_series {
            return Err(EvalError::TooManySeries { max_series });
        }
        Ok(whole)
    }

    /// Bytes that [`KnownSteps::completed`] takes at most beside its arguments, about.
    #[must_use]
    pub fn completed_bytes(&self, fresh: &[MatrixSeries]) -> u64 {
        2 * (answer_bytes(&self.series) + answer_bytes(fresh))
    }
}

/// The points of these times.
fn within<'p>(points: &'p [ResultPoint], times_ms: &Range<i64>) -> &'p [ResultPoint] {
    let start = points.partition_point(|point| point.timestamp_ms < times_ms.start);
    let end = points.partition_point(|point| point.timestamp_ms < times_ms.end);
    &points[start..end.max(start)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::QueryParams;
    use crate::syntax;
    use logsvc_proto::Labels;

    const S: i64 = 1_000_000_000;

    fn steps_of(query: &str, start_ns: i64, end_ns: i64, step_ns: i64) -> Option<Steps> {
        let expr = syntax::parse(query).expect("a query");
        let params = QueryParams::range(start_ns, end_ns, step_ns);
        Plan::new(&expr, &params).expect("a plan").steps()
    }

    fn rate(first_s: i64, count: i64) -> Steps {
        let query = r#"rate({a="b"}[20s] offset 5s)"#;
        steps_of(query, first_s * S, (first_s + (count - 1) * 10) * S, 10 * S).expect("steps")
    }

    #[test]
    fn steps_depend_on_what_is_in_their_windows() {
        let steps = rate(100, 4);
        assert_eq!((steps.count(), steps.step_ns(), steps.phase_ns()), (4, 10 * S, 0));
        // (T - 25s, T - 5s]
        assert_eq!(steps.entry_bounds_ns(0..1), (75 * S + 1, 95 * S + 1));
        assert_eq!(steps.entry_bounds_ns(0..4), (75 * S + 1, 125 * S + 1));
        assert_eq!(steps.entry_bounds_ns(2..2), (0, 0));
        assert_eq!(steps.that_see((75 * S, 75 * S + 1)), 0..0);
        assert_eq!(steps.that_see((75 * S, 75 * S + 2)), 0..1);
        assert_eq!(steps.that_see((95 * S, 95 * S + 1)), 0..2);
        assert_eq!(steps.that_see((95 * S + 1, 95 * S + 2)), 1..3);
        assert_eq!(steps.that_see((125 * S, 200 * S)), 3..4);
        assert_eq!(steps.that_see((125 * S + 1, 200 * S)), 4..4);
        assert_eq!(steps.that_see((i64::MIN, i64::MAX)), 0..4);
    }

    #[test]
    fn several_windows_are_seen_together() {
        let query = r#"rate({a="b"}[20s]) / rate({a="b"}[1m] offset -30s)"#;
        let steps = steps_of(query, 0, 100 * S, 10 * S).expect("steps");
        assert_eq!(steps.entry_bounds_ns(0..1), (-30 * S + 1, 30 * S + 1));
        let query = r#"rate({a="b"}[20s]) / rate({a="b"}[1m] offset 30s)"#;
        let steps = steps_of(query, 0, 100 * S, 10 * S).expect("steps");
        assert_eq!(steps.entry_bounds_ns(0..1), (-90 * S + 1, 1));
    }

    #[test]
    fn some_queries_have_no_steps_to_use_again() {
        for query in [
            r#"{a="b"}"#,
            "1 + 1",
            r#"rate({a="b"} | line_format "{{ now | unixEpoch }}" |= "1" [1m])"#,
            r#"sum by (x) (rate({a="b"} | label_format x=`{{ date "15" .y }}` [1m]))"#,
            r#"sum by (x) (rate_counter({a="b"} | unwrap y [1m]))"#,
            r#"rate({a="b"}[1m]) + rate_counter({a="b"} | unwrap y [1m])"#,
        ] {
            assert_eq!(steps_of(query, 0, 100 * S, 10 * S), None, "{query}");
        }
        let query = r#"rate({a="b"} | line_format "{{.x}}" | label_format y=x [1m])"#;
        assert!(steps_of(query, 0, 100 * S, 10 * S).is_some());
        for query in [
            r#"max by (x) (max_over_time({a="b"} | unwrap y [1m]))"#,
            r#"rate({a="b"}[1m]) + avg_over_time({a="b"} | unwrap y [1m])"#,
            r#"sum by (x) (sum_over_time({a="b"} | unwrap y [1m]))"#,
            r#"stddev_over_time({a="b"} | unwrap y [1m])"#,
        ] {
            assert!(steps_of(query, 0, 100 * S, 10 * S).is_some(), "{query}");
        }
        assert_eq!(steps_of(query, 0, 100, 10), None);
        assert_eq!(steps_of(query, i64::MIN, i64::MIN + 5 * S, S), None);
        let expr = syntax::parse(query).expect("a query");
        let plan = Plan::new(&expr, &QueryParams::instant(5)).expect("a plan");
        assert_eq!(plan.steps(), None);
    }

    #[test]
    fn what_is_missing_is_one_run_of_steps() {
        let known = KnownSteps::new(rate(100, 10), Vec::new());
        assert_eq!(known.missing(&rate(100, 10), &[]), 0..0);
        // Ahead, and on both sides.
        assert_eq!(known.missing(&rate(120, 10), &[]), 8..10);
        assert_eq!(known.missing(&rate(90, 12), &[]), 0..12);
        assert_eq!(known.missing(&rate(90, 5), &[]), 0..1);
        // Nothing in common, or other times.
        assert_eq!(known.missing(&rate(300, 4), &[]), 0..4);
        assert_eq!(known.missing(&rate(0, 4), &[]), 0..4);
        assert_eq!(known.missing(&rate(101, 4), &[]), 0..4);
        // Seen by the steps at 120 and 130, and by none.
        let changed = (110 * S + 1, 110 * S + 2);
        assert_eq!(known.missing(&rate(100, 10), &[changed]), 2..4);
        assert_eq!(known.missing(&rate(110, 10), &[changed]), 1..10);
        assert_eq!(known.missing(&rate(140, 5), &[changed]), 0..0);
        assert_eq!(known.missing(&rate(100, 10), &[changed, (150 * S, 150 * S + 1)]), 2..8);
    }

    fn series(name: &str, points: &[(i64, f64)]) -> MatrixSeries {
        let labels = Labels::from_pairs([("s", name)]).expect("labels");
        let point = |&(s, value): &(i64, f64)| ResultPoint { timestamp_ms: s * 1000, value };
        MatrixSeries { labels, points: points.iter().map(point).collect() }
    }

    #[test]
    fn an_answer_is_known_steps_and_fresh_ones() {
        let old = vec![
            series("a", &[(100, 1.0), (110, 2.0), (120, 3.0), (130, 4.0)]),
            series("c", &[(100, 5.0)]),
            series("d", &[(120, 6.0), (120, 7.0), (130, 8.0)]),
        ];
        let known = KnownSteps::new(rate(100, 4), old.clone());
        let wanted = rate(110, 4);
        assert_eq!(known.missing(&wanted, &[]), 3..4);
        let fresh = vec![series("b", &[(140, 9.0)]), series("d", &[(140, 10.0)])];
        let whole = known.completed(&wanted, &(3..4), fresh.clone(), 3).expect("three");
        let expected = [
            series("a", &[(110, 2.0), (120, 3.0), (130, 4.0)]),
            series("b", &[(140, 9.0)]),
            series("d", &[(120, 6.0), (120, 7.0), (130, 8.0), (140, 10.0)]),
        ];
        assert_eq!(whole, expected);
        let refused = known.completed(&wanted, &(3..4), fresh, 2);
        assert_eq!(refused, Err(EvalError::TooManySeries { max_series: 2 }));
        // In the middle.
        let fresh = vec![series("a", &[(120, 0.5)])];
        let whole = known.completed(&rate(100, 4), &(1..3), fresh, 0).expect("no limit");
        let expected = [
            series("a", &[(100, 1.0), (120, 0.5), (130, 4.0)]),
            series("c", &[(100, 5.0)]),
            series("d", &[(130, 8.0)]),
        ];
        assert_eq!(whole, expected);
        let whole = known.completed(&rate(100, 4), &(0..0), Vec::new(), 0);
        assert_eq!(whole, Ok(old));
    }
}

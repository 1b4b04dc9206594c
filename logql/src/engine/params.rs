//! The parameters of a query: times, limits and the grid of a metric query.

use super::error::PlanError;
use super::place::Place;
use super::range::Window;

/// Steps that no query may exceed, so that the size of a single series is bounded.
const MAX_STEPS: u32 = 1_000_000;

/// Steps that a grid has at most: there is one more than distances between them, and alignment adds
/// up to two.
const GRID_MAX_STEPS: u32 = MAX_STEPS + 3;

/// Order of log entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// Oldest first.
    Forward,
    /// Newest first.
    #[default]
    Backward,
}

/// When a query is evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryTime {
    /// Metric queries only.
    Instant {
        /// Evaluation time in nanoseconds since the epoch.
        time_ns: i64,
    },
    /// Log queries read `start_ns <= t < end_ns`; metric queries are evaluated at
    /// `start_ns + k * step_ns` up to and including `end_ns`.
    Range {
        /// Start in nanoseconds since the epoch.
        start_ns: i64,
        /// End in nanoseconds since the epoch.
        end_ns: i64,
        /// Distance of evaluations in nanoseconds; ignored by log queries.
        step_ns: i64,
    },
}

/// Bounds that come from the tenant's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryLimits {
    /// Most distinct series in the result of a metric query; 0 is no limit.
    pub max_series: usize,
    /// Largest `(end - start) / step` of a metric range query; 0 leaves only the
    /// engine's own bound of a million.
    pub max_steps: u32,
}

impl Default for QueryLimits {
    /// Loki's defaults.
    fn default() -> Self {
        Self { max_series: 500, max_steps: 11_000 }
    }
}

/// Everything beside the expression that decides a query's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryParams {
    /// When.
    pub time: QueryTime,
    /// The time that `now` gives in templates, in nanoseconds since the epoch; the same on all
    /// shards.
    pub now_ns: i64,
    /// Most entries of a log query.
    pub limit: usize,
    /// Order of a log query.
    pub direction: Direction,
    /// Log queries return only entries at least this far from the one returned
    /// before, in nanoseconds; 0 returns all.
    pub interval_ns: i64,
    /// Log queries go on behind this entry of the same query's answer. Not together with an
    /// interval.
    pub after: Option<Place>,
    /// Log queries: begin with the entry of `after` itself.
    pub from_place: bool,
    /// Log queries: tell the places of all entries.
    pub places: bool,
    /// Log queries: only the stream with this [`Place::stream_hash`].
    pub only_stream: Option<u64>,
    /// Metric range queries: round the start down and the end up to multiples of
    /// the step, as Loki does where it splits queries.
    pub align_to_step: bool,
    /// Log queries: group entries by the labels of stream category alone and give
    /// each entry its other labels apart.
    pub categorize_labels: bool,
    /// Bounds.
    pub limits: QueryLimits,
}

/// How the entries that the leaves of a log query find become its answer. The fields are those of
/// [`QueryParams`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogAnswer {
    pub(crate) direction: Direction,
    pub(crate) limit: usize,
    pub(crate) interval_ns: i64,
    pub(crate) after: Option<Place>,
    pub(crate) from_place: bool,
    pub(crate) places: bool,
    pub(crate) categorize_labels: bool,
}

impl QueryParams {
    /// An instant query.
    #[must_use]
    pub fn instant(time_ns: i64) -> Self {
        Self::new(QueryTime::Instant { time_ns })
    }

    /// A range query.
    #[must_use]
    pub fn range(start_ns: i64, end_ns: i64, step_ns: i64) -> Self {
        Self::new(QueryTime::Range { start_ns, end_ns, step_ns })
    }

    /// Defaults of the interface: 100 entries, newest first. The end of the query
    /// stands for the present.
    #[must_use]
    pub fn new(time: QueryTime) -> Self {
        let now_ns = match time {
            QueryTime::Instant { time_ns } => time_ns,
            QueryTime::Range { end_ns, .. } => end_ns,
        };
        Self {
            time,
            now_ns,
            limit: 100,
            direction: Direction::Backward,
            interval_ns: 0,
            after: None,
            from_place: false,
            places: false,
            only_stream: None,
            align_to_step: false,
            categorize_labels: false,
            limits: QueryLimits::default(),
        }
    }

    /// The evaluation times of a metric query.
    ///
    /// # Errors
    /// When the step is not positive, the end lies before the start, or there are too
    /// many steps.
    pub(crate) fn grid(&self) -> Result<Grid, PlanError> {
        match self.time {
            QueryTime::Instant { time_ns } => Ok(Grid { start_ns: time_ns, step_ns: 1, steps: 1 }),
            QueryTime::Range { start_ns, end_ns, step_ns } => {
                Grid::new(start_ns, end_ns, step_ns, self.align_to_step, self.limits.max_steps)
            }
        }
    }
}

/// Evaluation times `start_ns + k * step_ns` for `k < steps`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    pub(crate) start_ns: i64,
    /// Positive.
    pub(crate) step_ns: i64,
    /// At least 1.
    pub(crate) steps: u32,
}

impl Grid {
    fn new(
        start_ns: i64,
        end_ns: i64,
        step_ns: i64,
        align: bool,
        max_steps: u32,
    ) -> Result<Self, PlanError> {
        if step_ns <= 0 {
            return Err(PlanError::InvalidStep);
        }
        if end_ns < start_ns {
            return Err(PlanError::EndBeforeStart);
        }
        // The limit is on the request as written, before it is aligned.
        let written = (i128::from(end_ns) - i128::from(start_ns)) / i128::from(step_ns);
        let max_steps = if max_steps == 0 { MAX_STEPS } else { max_steps.min(MAX_STEPS) };
        let max = i128::from(max_steps);
        if written > max {
            return Err(PlanError::TooManySteps { max_steps });
        }
        let (start, end) = if align {
            let start = i128::from(start_ns.div_euclid(step_ns)) * i128::from(step_ns);
            let end = -(-i128::from(end_ns)).div_euclid(i128::from(step_ns)) * i128::from(step_ns);
            (start, end)
        } else {
            (i128::from(start_ns), i128::from(end_ns))
        };
        let last_step = (end - start) / i128::from(step_ns);
        let steps =
            u32::try_from(last_step + 1).map_err(|_| PlanError::TooManySteps { max_steps })?;
        let start_ns = i64::try_from(start).map_err(|_| PlanError::TimeOutOfRange)?;
        i64::try_from(end).map_err(|_| PlanError::TimeOutOfRange)?;
        Ok(Self { start_ns, step_ns, steps })
    }

    /// Whether some query has this grid: one that does not leave the range of timestamps.
    fn is_possible(&self) -> bool {
        let Self { start_ns, step_ns, steps } = *self;
        let last_ns = i128::from(start_ns) + i128::from(step_ns) * (i128::from(steps) - 1);
        step_ns > 0 && (1..=GRID_MAX_STEPS).contains(&steps) && last_ns <= i128::from(i64::MAX)
    }

    /// The evaluation time of step `k < steps`.
    pub(crate) fn time_ns(&self, step: u32) -> i64 {
        // The time fits, but its distance from the start may not.
        self.start_ns.wrapping_add(self.step_ns.wrapping_mul(i64::from(step)))
    }

    /// The stamp of step `k` in results, in milliseconds, rounded down.
    pub(crate) fn time_ms(&self, step: u32) -> i64 {
        self.time_ns(step).div_euclid(1_000_000)
    }

    /// The first step whose time is `time_ns` or later, at most `steps`.
    fn first_at_or_after(&self, time_ns: i128) -> u32 {
        let distance = time_ns - i128::from(self.start_ns);
        if distance <= 0 {
            return 0;
        }
        // A step that does not fit lies behind the grid: its distance from the first one fits.
        let Ok(distance) = u64::try_from(distance) else { return self.steps };
        let index = distance.div_ceil(self.step_ns.unsigned_abs());
        u32::try_from(index.min(u64::from(self.steps))).expect("at most steps")
    }
}

/// The windows of a range aggregation over a grid: step `k` at time `T` sees the
/// entries in `(T - offset - range, T - offset]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Windows {
    pub(crate) grid: Grid,
    /// Not negative.
    pub(crate) range_ns: i64,
    pub(crate) offset_ns: i64,
}

/// The steps `first_step..end_step` whose windows hold an entry, and the interval
/// of entry times around it for which these are the same steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) first_step: u32,
    pub(crate) end_step: u32,
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
}

impl Cell {
    pub(crate) fn holds(&self, timestamp_ns: i64) -> bool {
        (self.min_ns..=self.max_ns).contains(&timestamp_ns)
    }

    /// True when no window holds the entry.
    pub(crate) fn is_gap(&self) -> bool {
        self.first_step >= self.end_step
    }
}

impl Windows {
    /// Whether some query has these windows.
    pub(crate) fn are_possible(&self) -> bool {
        self.grid.is_possible() && self.range_ns >= 0
    }

    /// The steps that see an entry at `timestamp_ns`.
    pub(crate) fn cell(&self, timestamp_ns: i64) -> Cell {
        let enters = i128::from(timestamp_ns) + i128::from(self.offset_ns);
        let leaves = enters + i128::from(self.range_ns);
        let first_step = self.grid.first_at_or_after(enters);
        let end_step = self.grid.first_at_or_after(leaves);
        // A step index k stays the answer while the time is in (T(k-1), T(k)].
        let bounds = |step: u32, shift: i128| {
            let time = |k: u32| {
                i128::from(self.grid.start_ns) + i128::from(self.grid.step_ns) * i128::from(k)
            };
            let min = if step == 0 { i128::MIN } else { time(step - 1) + 1 - shift };
            let max = if step == self.grid.steps { i128::MAX } else { time(step) - shift };
            (min, max)
        };
        let offset = i128::from(self.offset_ns);
        let (enter_min, enter_max) = bounds(first_step, offset);
        let (leave_min, leave_max) = bounds(end_step, offset + i128::from(self.range_ns));
        Cell {
            first_step,
            end_step,
            min_ns: clamp(enter_min.max(leave_min)),
            max_ns: clamp(enter_max.min(leave_max)),
        }
    }

    /// Whether some entry is seen by exactly the steps `first_step..end_step`, of which there is
    /// one at least. All such pairs are in one order: both ends ascend with the time of the entry.
    pub(crate) fn have_cell(&self, first_step: u32, end_step: u32) -> bool {
        if first_step >= end_step || end_step > self.grid.steps {
            return false;
        }
        // The first entry that comes behind the windows of the steps before both.
        let behind = |step: u32| self.window(step).end_ns + 1;
        let enters = first_step.checked_sub(1).map_or(i128::MIN, behind);
        let leaves = behind(end_step - 1) - i128::from(self.range_ns);
        let timestamp_ns = clamp(enters.max(leaves));
        let cell = self.cell(timestamp_ns);
        (cell.first_step, cell.end_step) == (first_step, end_step)
    }

    /// The window of a step.
    pub(crate) fn window(&self, step: u32) -> Window {
        let time_ns =
            i128::from(self.grid.start_ns) + i128::from(self.grid.step_ns) * i128::from(step);
        let end_ns = time_ns - i128::from(self.offset_ns);
        Window { start_ns: end_ns - i128::from(self.range_ns), end_ns }
    }

    /// False when no window sees an entry within these times, both included.
    pub(crate) fn any_sees(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        let cell = self.cell(min_timestamp_ns);
        !(cell.is_gap() && cell.holds(max_timestamp_ns))
    }

    /// True when some entries between the first and the last window are seen by
    /// none.
    pub(crate) fn have_gaps(&self) -> bool {
        self.range_ns < self.grid.step_ns
    }

    /// The half-open interval of entry times that any window sees, in nanoseconds;
    /// empty for an empty range.
    pub(crate) fn entry_bounds_ns(&self) -> (i64, i64) {
        if self.range_ns == 0 {
            return (0, 0);
        }
        let first =
            i128::from(self.grid.start_ns) - i128::from(self.offset_ns) - i128::from(self.range_ns)
                + 1;
        let last = i128::from(self.grid.start_ns)
            + i128::from(self.grid.step_ns) * i128::from(self.grid.steps - 1)
            - i128::from(self.offset_ns);
        (clamp(first), clamp(last + 1))
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_agree_with_the_definition_of_a_window() {
        for (start, step, steps, range, offset) in
            [(100, 10, 5, 10, 0), (100, 10, 5, 25, 3), (100, 7, 9, 3, -20), (0, 5, 1, 12, 0)]
        {
            let grid = Grid { start_ns: start, step_ns: step, steps };
            let windows = Windows { grid, range_ns: range, offset_ns: offset };
            let (min, max) = windows.entry_bounds_ns();
            for t in start - 80..start + 120 {
                let seen: Vec<u32> = (0..steps)
                    .filter(|&k| {
                        let at = start + step * i64::from(k) - offset;
                        t > at - range && t <= at
                    })
                    .collect();
                let cell = windows.cell(t);
                let steps_of_cell: Vec<u32> = (cell.first_step..cell.end_step).collect();
                assert_eq!(steps_of_cell, seen, "t={t} {windows:?}");
                assert!(cell.holds(t));
                assert_eq!(windows.have_cell(cell.first_step, cell.end_step), !cell.is_gap());
                if !seen.is_empty() {
                    assert!((min..max).contains(&t), "t={t} {windows:?}");
                }
                for near in t - 30..t + 30 {
                    let other = windows.cell(near);
                    let same =
                        (other.first_step, other.end_step) == (cell.first_step, cell.end_step);
                    assert_eq!(cell.holds(near), same, "t={t} near={near} {windows:?}");
                }
            }
        }
    }

    #[test]
    fn windows_have_the_cells_of_entries_and_no_others() {
        for (start, step, steps, range, offset) in
            [(100, 10, 5, 10, 0), (100, 10, 5, 25, 3), (100, 7, 9, 3, -20), (0, 5, 1, 12, 0)]
        {
            let grid = Grid { start_ns: start, step_ns: step, steps };
            let windows = Windows { grid, range_ns: range, offset_ns: offset };
            let cells: std::collections::BTreeSet<(u32, u32)> = (start - 80..start + 150)
                .map(|t| windows.cell(t))
                .filter(|cell| !cell.is_gap())
                .map(|cell| (cell.first_step, cell.end_step))
                .collect();
            for first in 0..steps + 2 {
                for end in 0..steps + 2 {
                    assert_eq!(windows.have_cell(first, end), cells.contains(&(first, end)));
                }
            }
        }
    }

    #[test]
    fn grids_follow_the_contract_or_the_reference() {
        let grid = Grid::new(95, 131, 10, false, 11_000).expect("valid");
        assert_eq!((grid.start_ns, grid.steps), (95, 4));
        let grid = Grid::new(95, 131, 10, true, 11_000).expect("valid");
        assert_eq!((grid.start_ns, grid.steps), (90, 6));
        let grid = Grid::new(-95, -90, 10, true, 11_000).expect("valid");
        assert_eq!((grid.start_ns, grid.steps), (-100, 2));
        assert!(Grid::new(0, 110_000, 10, false, 11_000).is_ok());
        assert!(matches!(
            Grid::new(0, 110_010, 10, false, 11_000),
            Err(PlanError::TooManySteps { .. })
        ));
        assert!(matches!(Grid::new(1, 0, 10, false, 0), Err(PlanError::EndBeforeStart)));
        assert!(matches!(Grid::new(0, 1, 0, false, 0), Err(PlanError::InvalidStep)));
        assert!(matches!(
            Grid::new(i64::MIN, i64::MAX, 1, false, 0),
            Err(PlanError::TooManySteps { .. })
        ));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let grid = Grid { start_ns: i64::MIN, step_ns: i64::MAX, steps: 3 };
        let windows = Windows { grid, range_ns: i64::MAX, offset_ns: i64::MIN };
        for t in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert!(windows.cell(t).holds(t));
        }
        windows.entry_bounds_ns();
    }
}

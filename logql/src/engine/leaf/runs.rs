//! Additive samples of one series, gathered by the steps that see them.
//!
//! With windows longer than the step an entry is seen by many steps. Entries that
//! are seen by the same steps form one run `first..end` of steps with a count and
//! a sum, so an entry costs one addition, whatever the window; the points are
//! made from the runs once, at the end. All numbers are integers, so that adding
//! is exact and the order of entries, blocks and shards cannot show.

use super::super::meter::Meter;
use super::super::params::Cell;

/// Entries that are seen by the steps `first_step..end_step`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Run {
    first_step: u32,
    end_step: u32,
    count: u64,
    sum: u64,
}

impl Run {
    fn steps(&self) -> (u32, u32) {
        (self.first_step, self.end_step)
    }
}

/// The value of one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SumPoint {
    pub(crate) step: u32,
    pub(crate) sum: u64,
}

/// The runs of one series.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// Sorted and joined runs, and behind them other runs in order of arrival.
    runs: Vec<Run>,
    /// The number of sorted and joined runs.
    sorted: usize,
    /// The run of the entry before: the next one falls into the same or the one behind it,
    /// as blocks are in the order of time.
    last: usize,
}

/// The work of inserting a run, see [`crate::engine::meter`].
const RUN_WORK: usize = 64;
/// The work of a point.
const POINT_WORK: usize = 16;

/// Runs that are never joined early.
const JOIN_AT_LEAST: usize = 64;

impl Runs {
    /// Whether there is no run.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds `count` entries whose values add up to `sum`; nothing if there is no memory.
    /// Returns the growth of memory in bytes.
    pub(crate) fn add(&mut self, cell: &Cell, count: u64, sum: u64, meter: &Meter) -> usize {
        let steps = (cell.first_step, cell.end_step);
        if let Some(place) = self.place_of(steps) {
            self.last = place;
            self.runs[place].count += count;
            self.runs[place].sum += sum;
            return 0;
        }
        let capacity = self.runs.capacity();
        if self.runs.len() - self.sorted >= self.sorted.max(JOIN_AT_LEAST) {
            self.join(meter);
        }
        if !meter.make_room(&mut self.runs, 1) {
            return 0;
        }
        let is_next = self.sorted == self.runs.len()
            && self.runs.last().is_none_or(|run| run.steps() < steps);
        self.last = self.runs.len();
        self.runs.push(Run { first_step: steps.0, end_step: steps.1, count, sum });
        self.sorted += usize::from(is_next);
        (self.runs.capacity() - capacity) * size_of::<Run>()
    }

    /// A run over these steps, unless there is none or it is not sorted yet.
    fn place_of(&self, steps: (u32, u32)) -> Option<usize> {
        let is_at = |place: usize| self.runs.get(place).is_some_and(|run| run.steps() == steps);
        if is_at(self.last) {
            return Some(self.last);
        }
        if is_at(self.last + 1) {
            return Some(self.last + 1);
        }
        self.runs[..self.sorted].binary_search_by_key(&steps, Run::steps).ok()
    }

    /// Sorts the runs and joins runs over the same steps. There are at most two
    /// runs per step after that: starts and ends both ascend with time.
    fn join(&mut self, meter: &Meter) {
        if self.sorted == self.runs.len() {
            return;
        }
        meter.work(self.runs.len() * RUN_WORK);
        self.runs.sort_unstable();
        self.runs.dedup_by(|run, kept| {
            let same = run.steps() == kept.steps();
            if same {
                kept.count += run.count;
                kept.sum += run.sum;
            }
            same
        });
        self.sorted = self.runs.len();
        self.last = 0;
    }

    /// The steps that see at least one entry, with the sum of the values; fewer if there is no
    /// memory for all. The memory of the runs is free then.
    pub(crate) fn points(mut self, meter: &Meter) -> Vec<SumPoint> {
        self.join(meter);
        let leaving_bytes = size_of_val(self.runs.as_slice());
        let runs_bytes = self.runs.capacity() * size_of::<Run>();
        let mut points = Vec::new();
        if !meter.admit(leaving_bytes) {
            return points;
        }
        let mut leaving: Vec<Run> = self.runs.clone();
        meter.work(leaving.len() * RUN_WORK);
        leaving.sort_unstable_by_key(|run| run.end_step);
        let mut entering = self.runs.iter().peekable();
        let mut leaving = leaving.iter().peekable();
        let (mut count, mut sum) = (0u64, 0u64);
        let mut step = 0;
        loop {
            while let Some(run) = leaving.next_if(|run| run.end_step <= step) {
                count -= run.count;
                sum -= run.sum;
            }
            if count == 0 {
                let Some(next) = entering.peek() else { break };
                step = step.max(next.first_step);
            }
            while let Some(run) = entering.next_if(|run| run.first_step <= step) {
                count += run.count;
                sum += run.sum;
            }
            if count > 0
                && !(meter.work(POINT_WORK) && meter.push(&mut points, SumPoint { step, sum }))
            {
                break;
            }
            step += 1;
        }
        meter.release(leaving_bytes + runs_bytes);
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(first_step: u32, end_step: u32) -> Cell {
        Cell { first_step, end_step, min_ns: 0, max_ns: 0 }
    }

    #[test]
    fn points_are_the_sums_of_the_runs_that_cover_a_step() {
        let mut seed = 7u32;
        let mut random = |bound: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % bound
        };
        for round in 0..200 {
            let mut runs = Runs::default();
            let mut plain = vec![(0u64, 0u64); 64];
            for _ in 0..random(300) {
                let first = random(60);
                let end = first + 1 + random(64 - first - 1).min(5);
                let (count, sum) = (u64::from(random(3) + 1), u64::from(random(100)));
                runs.add(&cell(first, end), count, sum, &Meter::default());
                for step in first..end {
                    plain[step as usize].0 += count;
                    plain[step as usize].1 += sum;
                }
            }
            let expected: Vec<SumPoint> = (0u32..)
                .zip(&plain)
                .filter(|(_, (count, _))| *count > 0)
                .map(|(step, (_, sum))| SumPoint { step, sum: *sum })
                .collect();
            assert_eq!(runs.points(&Meter::default()), expected, "round {round}");
        }
    }

    #[test]
    fn memory_is_bounded_by_the_number_of_distinct_runs() {
        let (mut runs, meter) = (Runs::default(), Meter::default());
        let mut grown = 0;
        for i in 0..100_000u32 {
            grown += runs.add(&cell(i * 7919 % 50, i * 7919 % 50 + 1), 1, 1, &meter);
        }
        assert!(grown <= 256 * size_of::<Run>(), "{grown} bytes");
    }
}

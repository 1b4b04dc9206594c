//! Evaluating windows over folds of cells.
//!
//! A window sees whole cells. So a function is evaluated over a fold per cell, whatever the leaf
//! has kept of the samples. There are at most two cells per step, and each is joined three times
//! at most ([`SlidingWindow`]), so the work does not grow with the overlap of windows.

use super::super::meter::Meter;
use super::super::params::Windows;
use super::super::range::SlidingWindow;
use super::super::range::folds::Fold;
use super::series::Point;
use crate::syntax::ast::RangeFunction;

/// The work of a point, see [`crate::engine::meter`].
const POINT_WORK: usize = 128;

/// The samples that the steps `first_step..end_step` see.
#[derive(Debug)]
struct CellFold<F> {
    first_step: u32,
    end_step: u32,
    fold: F,
}

/// The folds of one series, in the order of time: both ends of cells ascend with it.
#[derive(Debug)]
pub(super) struct CellFolds<F> {
    cells: Vec<CellFold<F>>,
}

impl<F> Default for CellFolds<F> {
    fn default() -> Self {
        Self { cells: Vec::new() }
    }
}

impl<F: Fold> CellFolds<F> {
    /// Adds the sample behind all others, which the steps `first..end` see. False if there is no
    /// memory.
    #[inline]
    pub(super) fn add(&mut self, meter: &Meter, steps: (u32, u32), value: f64) -> bool {
        match self.cells.last_mut() {
            Some(last) if (last.first_step, last.end_step) == steps => {
                last.fold.add(value);
                true
            }
            _ => self.push(meter, steps, F::of(value)),
        }
    }

    /// Adds the samples behind all others, which the steps `first..end` see. False if there is no
    /// memory.
    pub(super) fn join(&mut self, meter: &Meter, steps: (u32, u32), fold: F) -> bool {
        match self.cells.last_mut() {
            Some(last) if (last.first_step, last.end_step) == steps => {
                last.fold.join(&fold);
                true
            }
            _ => self.push(meter, steps, fold),
        }
    }

    fn push(&mut self, meter: &Meter, (first_step, end_step): (u32, u32), fold: F) -> bool {
        // The cell before has all of its samples.
        let heap_bytes = self.cells.last().map_or(0, |last| last.fold.heap_bytes());
        meter.admit(heap_bytes)
            && meter.push(&mut self.cells, CellFold { first_step, end_step, fold })
    }

    /// The steps that see each cell, from the first to before the second.
    pub(super) fn steps(&self) -> impl Iterator<Item = (u32, u32)> {
        self.cells.iter().map(|cell| (cell.first_step, cell.end_step))
    }

    /// The values of all windows that see samples. A meter that is stopped ends it early.
    pub(super) fn points(
        &self,
        meter: &Meter,
        function: RangeFunction,
        windows: &Windows,
    ) -> Vec<Point> {
        let cells = &self.cells;
        let mut points = Vec::new();
        // The last cell, and folds of suffixes of the windows.
        let heap_bytes = cells.last().map_or(0, |last| last.fold.heap_bytes());
        let joined_bytes =
            size_of::<F>() + F::joined_heap_bytes(cells.iter().map(|cell| &cell.fold));
        // The list of suffixes doubles.
        let Some(_memory) = meter.hold(heap_bytes + 3 * (cells.len() + 1) * joined_bytes) else {
            return points;
        };
        let mut sliding = SlidingWindow::new();
        let (mut first, mut end, mut step) = (0, 0, 0);
        while step < windows.grid.steps {
            while first < end && cells[first].end_step <= step {
                first += 1;
            }
            if first == end {
                let Some(next) = cells.get(end) else { break };
                step = step.max(next.first_step);
            }
            while end < cells.len() && cells[end].first_step <= step {
                end += 1;
            }
            let fold: F = sliding.fold(first, end, |cell| cells[cell].fold.clone());
            let value = fold.value(function, &windows.window(step));
            let fits = meter.work(POINT_WORK) && meter.push(&mut points, Point { step, value });
            if !fits {
                break;
            }
            step += 1;
        }
        points
    }
}

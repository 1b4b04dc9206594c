//! Functions over unwrapped values, over whatever the leaves have kept of the samples.
//!
//! The answer is the same bit for bit over samples, values and states, so a leaf that serves
//! several functions keeps what is enough for all of them.

use std::collections::BTreeMap;

use super::super::error::EvalError;
use super::super::exact_sum::Moments;
use super::super::leaf::values::CellValues;
use super::super::meter::Meter;
use super::super::params::Windows;
use super::super::range::folds::{First, Fold, Greatest, Last, Least, Total};
use super::super::range::{SampleFunction, WholeFunction, WindowSample};
use super::PairOrder;
use super::folded::CellFolds;
use super::samples;
use super::series::{Point, SERIES_WORK, Series};
use super::states::{MergedStates, StateFold};
use super::values::{self, MergedValues};
use crate::syntax::ast::RangeFunction;

/// What the leaves have kept, by series. All of them keep the same, so two of the three are empty.
#[derive(Debug)]
pub(super) struct Unwrapped {
    pub(super) samples: BTreeMap<PairOrder, Vec<WindowSample>>,
    pub(super) values: MergedValues,
    pub(super) states: MergedStates,
}

impl Unwrapped {
    /// Evaluates a function over all windows of all series. A meter that is stopped ends it early.
    ///
    /// # Errors
    /// When the function would read too many samples again and again.
    pub(super) fn evaluate(
        &self,
        meter: &Meter,
        function: &SampleFunction,
        windows: &Windows,
    ) -> Result<Vec<Series>, EvalError> {
        let parameter = function.parameter;
        let folded = Folded { meter, function: function.function, windows, of: self };
        Ok(match function.function {
            RangeFunction::QuantileOverTime if self.values.is_empty() => {
                let quantile = WholeFunction::Quantile(parameter);
                samples::evaluate(meter, quantile, windows, &self.samples)?
            }
            RangeFunction::QuantileOverTime => {
                values::quantiles(meter, parameter, windows, &self.values)?
            }
            RangeFunction::RateCounter => {
                samples::evaluate(meter, WholeFunction::RateCounter, windows, &self.samples)?
            }
            RangeFunction::StddevOverTime | RangeFunction::StdvarOverTime => {
                folded.over_all::<Moments>()
            }
            RangeFunction::MinOverTime => folded.over_states::<Least>(),
            RangeFunction::MaxOverTime => folded.over_states::<Greatest>(),
            RangeFunction::FirstOverTime => folded.over_states::<First>(),
            RangeFunction::LastOverTime => folded.over_states::<Last>(),
            RangeFunction::SumOverTime
            | RangeFunction::Rate
            | RangeFunction::AvgOverTime
            | RangeFunction::CountOverTime
            | RangeFunction::BytesRate
            | RangeFunction::BytesOverTime
            | RangeFunction::AbsentOverTime => folded.over_states::<Total>(),
        })
    }

    /// For each step of the grid whether its window holds a sample. A meter that is stopped ends
    /// it early.
    pub(super) fn steps_with_samples(&self, meter: &Meter, windows: &Windows) -> Vec<bool> {
        let mut present = vec![false; windows.grid.steps as usize];
        let mut mark = |first_step: u32, end_step: u32| {
            present[first_step as usize..end_step as usize].fill(true);
            meter.work((end_step - first_step) as usize)
        };
        for samples in self.samples.values() {
            let cells = cells_of::<Last>(meter, windows, samples);
            cells.steps().all(|(first, end)| mark(first, end));
        }
        for span in self.values.values().flatten().flat_map(|part| part.spans(0)) {
            if !mark(span.first_step, span.end_step) {
                break;
            }
        }
        for cell in self.states.series().flat_map(|(_, parts)| parts).flat_map(|(_, rows)| rows) {
            if !mark(cell.first_step, cell.end_step) {
                break;
            }
        }
        present
    }
}

/// Samples between two looks at whether the query goes on.
const CHUNK_SAMPLES: usize = 4096;

/// The folds of samples, which are in order. A meter that is stopped ends it early.
fn cells_of<F: Fold>(meter: &Meter, windows: &Windows, samples: &[WindowSample]) -> CellFolds<F> {
    let mut cells = CellFolds::default();
    let mut cell = windows.cell(0);
    for chunk in samples.chunks(CHUNK_SAMPLES) {
        let fits = meter.work(size_of_val(chunk))
            && chunk.iter().all(|sample| {
                if !cell.holds(sample.timestamp_ns) {
                    cell = windows.cell(sample.timestamp_ns);
                }
                let steps = (cell.first_step, cell.end_step);
                cell.is_gap() || cells.add(meter, steps, sample.value)
            });
        if !fits {
            break;
        }
    }
    cells
}

/// The evaluation of a function that follows from folds.
struct Folded<'u> {
    meter: &'u Meter,
    function: RangeFunction,
    windows: &'u Windows,
    of: &'u Unwrapped,
}

impl Folded<'_> {
    /// Over all that there may be.
    fn over_states<F: StateFold>(&self) -> Vec<Series> {
        let states = &self.of.states;
        if states.is_empty() {
            return self.over_all::<F>();
        }
        self.series(states.len(), states.series(), |parts| states.cells::<F>(self.meter, parts))
    }

    /// Over samples or values.
    fn over_all<F: Fold>(&self) -> Vec<Series> {
        let Unwrapped { samples, values, .. } = self.of;
        if values.is_empty() {
            return self.series(samples.len(), samples.iter(), |samples| {
                cells_of::<F>(self.meter, self.windows, samples)
            });
        }
        self.series(values.len(), values.iter(), |parts: &Vec<CellValues>| {
            values::cells::<F>(self.meter, parts)
        })
    }

    fn series<'s, T, F: Fold>(
        &self,
        count: usize,
        series: impl Iterator<Item = (&'s PairOrder, T)>,
        cells: impl Fn(T) -> CellFolds<F>,
    ) -> Vec<Series> {
        let meter = self.meter;
        if !meter.admit(count * size_of::<Series>()) {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(count);
        for (labels, kept) in series {
            let labels_bytes = labels.0.as_bytes().len();
            if !meter.work(SERIES_WORK + labels_bytes) || !meter.admit(labels_bytes) {
                break;
            }
            let before_bytes = meter.used_bytes();
            let points = cells(kept).points(meter, self.function, self.windows);
            // The cells are gone.
            meter.release_to(before_bytes + points.capacity() * size_of::<Point>());
            if !points.is_empty() {
                out.push(Series { labels: labels.0.clone(), points });
            }
        }
        out
    }
}

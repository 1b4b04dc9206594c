//! Ends a metric query as soon as it is known to give more series than it may.
//!
//! Where each series of a leaf, or each group of them, gives a series of the answer (see
//! [`SeriesLimit`]), the answer has at least as many series as one core has found. So no entries
//! are read, held and merged for an answer that is refused.
//!
//! Guarantees: every query that is refused here would have been refused at the end, because
//! different label sets are different labels in the answer (values are text once a stage has
//! written them). A query that passes here may still be refused when the series of all cores are
//! together.

use super::super::error::EvalError;
use super::super::labels::EntryLabels;
use super::super::labels::sets::{LabelSets, Reduction};
use super::super::meter::Meter;
use super::super::plan::{SeriesLabels, SeriesLimit};
use super::series::reduction_of;

/// Counts the series of one executor.
#[derive(Debug)]
pub(super) struct SeriesGuard {
    max_series: usize,
    /// Series, or groups of them, that have a value.
    count: usize,
    /// The labels of the groups, if groups are counted.
    groups: Option<Groups>,
}

#[derive(Debug)]
struct Groups {
    by: Reduction,
    found: LabelSets,
}

impl SeriesGuard {
    pub(super) fn new(limit: &SeriesLimit, labels: &mut EntryLabels) -> Self {
        let groups = limit.grouping.as_ref().map(|grouping| Groups {
            by: reduction_of(&SeriesLabels::Grouped(grouping.clone()), None, labels),
            found: LabelSets::new(),
        });
        Self { max_series: limit.max_series, count: 0, groups }
    }

    /// Notes series that have got their first value.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn note(
        &mut self,
        fresh: &mut Vec<u32>,
        sets: &LabelSets,
        meter: &Meter,
    ) -> Result<(), EvalError> {
        match &mut self.groups {
            None => self.count += fresh.drain(..).len(),
            Some(Groups { by, found }) => {
                for id in fresh.drain(..) {
                    found.intern_part(sets, id, by, meter);
                }
                self.count = found.len();
            }
        }
        if self.count > self.max_series {
            return Err(EvalError::TooManySeries { max_series: self.max_series });
        }
        Ok(())
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, |groups| groups.found.held_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::LeafExecutor;
    use crate::engine::testing::{Columns, TestEntry};
    use crate::engine::{Plan, QueryParams};
    use crate::syntax::parse;
    use logsvc_proto::Labels;

    /// The number of streams, of one line each, after which a leaf ends; `None` if it does not end.
    fn ends_after(query: &str, max_series: usize, lines: &[&[u8]]) -> Option<usize> {
        let expr = parse(query).expect("a query");
        let mut params = QueryParams::instant(50);
        params.limits.max_series = max_series;
        let plan = Plan::new(&expr, &params).expect("a plan");
        let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
        let mut taken = 0;
        while taken < lines.len() && !executor.is_done() {
            let number = taken.to_string();
            let labels = Labels::from_pairs([("app", "a"), ("s", number.as_str())]);
            let mut state = executor.stream(&labels.expect("labels"));
            let (line, metadata) = (lines[taken].to_vec(), Vec::new());
            let entry = TestEntry { timestamp_ns: 1, line, metadata };
            executor.block(&mut state, &Columns::new(&[entry], true).block(0));
            taken += 1;
        }
        let is_done = executor.is_done();
        assert_eq!(executor.finish().ends_query(), is_done, "{query}");
        is_done.then_some(taken)
    }

    const LINES: [&[u8]; 6] =
        [b"k=1 v=1", b"k=1 v=2", b"k=2 v=3", b"k=2 v=4", b"k=3 v=5", b"k=3 v=6"];

    #[test]
    fn a_leaf_ends_with_the_first_series_that_is_too_many() {
        for (query, end) in [
            ("rate({app=`a`}[1m])", Some(3)),
            ("sort(rate({app=`a`}[1m]) * 2)", Some(3)),
            ("2 - count_over_time({app=`a`} | logfmt [1m])", Some(3)),
            ("sum by (s) (rate({app=`a`}[1m]))", Some(3)),
            ("sum by (k) (rate({app=`a`} | logfmt [1m]))", Some(5)),
            ("max by (k) (rate({app=`a`} | logfmt [1m]))", Some(5)),
            ("max without (v, s) (rate({app=`a`} | logfmt [1m]))", Some(5)),
            ("avg by (k) (max_over_time({app=`a`} | logfmt | unwrap v [1m]))", Some(5)),
            ("max_over_time({app=`a`} | logfmt | unwrap v [1m]) by (k)", Some(5)),
            ("max by (app) (rate({app=`a`} | logfmt [1m]))", None),
            ("sum(rate({app=`a`} | logfmt [1m]))", None),
            ("topk(1, rate({app=`a`}[1m]))", None),
            ("rate({app=`a`}[1m]) > 5", None),
            ("rate({app=`a`}[1m]) + rate({app=`a`}[1m])", None),
            ("max by (app) (max by (s) (rate({app=`a`}[1m])))", None),
            ("label_replace(rate({app=`a`}[1m]), `s`, `x`, `s`, `.*`)", None),
            ("absent_over_time({app=`a`}[1m])", None),
        ] {
            assert_eq!(ends_after(query, 2, &LINES), end, "{query}");
            assert_eq!(ends_after(query, 6, &LINES), None, "{query}: as many as may be");
            assert_eq!(ends_after(query, 0, &LINES), None, "{query}: no limit");
        }
    }
}

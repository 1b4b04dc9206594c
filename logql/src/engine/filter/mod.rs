//! Line filters: which lines pass, tested over whole blocks where possible.
//!
//! Filters are pure predicates of the line, so a run of them may be evaluated in
//! any order. The cheapest one searches the contiguous bytes of the block; the
//! others look only at the lines that are left, or search as well while most
//! lines are left. Nothing is allocated per line.
//!
//! A defect of Loki is not copied: an operand that matches everything vanishes from an `or` chain
//! there, and so does an empty alternative of a regex. Here it makes the chain true.

mod matcher;
mod pattern;
mod selection;
pub(crate) mod spare;

pub(crate) use selection::Selection;

use super::block::Lines;
use super::literals::Literal;
use super::meter::Meter;
use crate::syntax::ast::{LineFilter as LineFilterAst, LineFilterOp};
use matcher::LineMatcher;

/// The work of a line besides its bytes, see [`super::meter`].
const LINE_WORK: usize = 32;

/// The work that is counted at once.
const COUNTED_WORK: usize = 32 << 10;

/// Less work of a filter is part of the cost of its stage.
const SMALL_WORK: usize = 2 << 10;

/// One filter: any of its operands matches, or none does.
#[derive(Debug)]
pub(crate) struct LineFilter {
    any_of: Vec<LineMatcher>,
    negated: bool,
    /// The work of testing a byte of a line, see [`super::meter`].
    work_factor: usize,
}

impl LineFilter {
    fn new(any_of: Vec<LineMatcher>, negated: bool) -> Self {
        let work_factor = any_of.iter().map(LineMatcher::work_factor).sum();
        Self { any_of, negated, work_factor }
    }

    fn compile(filter: &LineFilterAst) -> Result<Self, String> {
        let negated = matches!(
            filter.op,
            LineFilterOp::NotContains | LineFilterOp::NotRegex | LineFilterOp::NotPattern
        );
        let mut any_of = Vec::with_capacity(filter.operands.len());
        for operand in &filter.operands {
            any_of.push(LineMatcher::compile(filter.op, operand)?);
        }
        if any_of.iter().any(LineMatcher::passes_everything) {
            any_of.retain(LineMatcher::passes_everything);
            any_of.truncate(1);
        }
        merge_literals(&mut any_of)?;
        Ok(Self::new(any_of, negated))
    }

    /// Keeps lines that contain one of the texts, which are not empty.
    ///
    /// # Errors
    /// When they are too many.
    pub(crate) fn any_text(texts: &[Literal]) -> Result<Self, String> {
        let matcher = match texts {
            [Literal { bytes, ignore_case: false }] => LineMatcher::literal(bytes),
            _ => LineMatcher::any_literal(
                texts.iter().map(|text| (text.bytes.as_slice(), text.ignore_case)),
            )?,
        };
        Ok(Self::new(vec![matcher], false))
    }

    fn passes_everything(&self) -> bool {
        !self.negated && self.any_of.iter().any(LineMatcher::passes_everything)
    }

    fn cost(&self) -> (u32, bool, std::cmp::Reverse<usize>) {
        let dearest = self.any_of.iter().map(LineMatcher::cost).max().unwrap_or(0);
        let several = u32::from(self.any_of.len() > 1) * 4;
        let needle_len = self.any_of.first().and_then(|m| m.as_literal()).map_or(0, <[u8]>::len);
        (dearest + several, self.negated, std::cmp::Reverse(needle_len))
    }

    fn keeps(&self, line: &[u8]) -> bool {
        self.any_of.iter().any(|matcher| matcher.matches(line)) != self.negated
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.any_of.capacity() * size_of::<LineMatcher>()
            + self.any_of.iter().map(LineMatcher::held_bytes).sum::<usize>()
    }

    /// Narrows `selection` to the lines that pass; to some lines if the leaf ends meanwhile.
    pub(crate) fn narrow(&self, lines: &Lines<'_>, selection: &mut Selection, meter: &Meter) {
        let (first, end) = selection.range();
        // Calls per line cost about as much as searching over four short lines.
        let dense = selection.count() * 4 >= end - first;
        match self.any_of.as_slice() {
            [matcher] if matcher.can_search() && dense => {
                matcher.search(lines, self.negated, selection, meter);
            }
            _ => {
                let (mut uncounted, mut is_stopped) = (0, false);
                selection.retain(|line| {
                    let line = lines.get(line);
                    uncounted += LINE_WORK + line.len() * self.work_factor;
                    if uncounted >= COUNTED_WORK {
                        is_stopped = !meter.work(uncounted);
                        uncounted = 0;
                    }
                    !is_stopped && self.keeps(line)
                });
            }
        }
    }
}

/// Joins the plain substrings of an `or` chain into one search.
fn merge_literals(any_of: &mut Vec<LineMatcher>) -> Result<(), String> {
    let needles: Vec<&[u8]> = any_of.iter().filter_map(LineMatcher::as_literal).collect();
    if needles.len() < 2 {
        return Ok(());
    }
    let merged = LineMatcher::any_literal(needles.into_iter().map(|needle| (needle, false)))?;
    any_of.retain(|matcher| matcher.as_literal().is_none());
    any_of.push(merged);
    Ok(())
}

/// A run of line filters, all of which must hold.
#[derive(Debug, Default)]
pub(crate) struct LineFilters {
    filters: Vec<LineFilter>,
}

impl LineFilters {
    /// Compiles filters and adds them to the run, the cheapest first; not all of them where the
    /// meter is stopped. The meter admits the memory of the filters.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn add(&mut self, filters: &[LineFilterAst], meter: &Meter) -> Result<(), String> {
        for filter in filters {
            let spare_bytes = spare::of_line_filter(filter);
            let _spare = match meter.hold(spare_bytes) {
                Some(spare) if meter.work(spare_bytes) => spare,
                _ => return Ok(()),
            };
            let filter = LineFilter::compile(filter)?;
            if filter.passes_everything() {
                continue;
            }
            if !meter.admit(filter.held_bytes()) || !meter.make_room(&mut self.filters, 1) {
                return Ok(());
            }
            let place = self.filters.partition_point(|other| other.cost() <= filter.cost());
            self.filters.insert(place, filter);
        }
        Ok(())
    }

    /// True when every line passes, so that lines need not be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Heap memory in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.filters.capacity() * size_of::<LineFilter>()
            + self.filters.iter().map(LineFilter::held_bytes).sum::<usize>()
    }

    /// Tests one line, as a stage for which the line was counted once. False if the leaf ends
    /// meanwhile.
    pub(crate) fn keeps_counted(&self, line: &[u8], meter: &Meter) -> bool {
        self.filters.iter().all(|filter| {
            let work = line.len() * filter.work_factor;
            (work < SMALL_WORK || meter.work(work)) && filter.keeps(line)
        })
    }

    /// Tests one line.
    pub(crate) fn keeps(&self, line: &[u8]) -> bool {
        self.filters.iter().all(|filter| filter.keeps(line))
    }

    /// Narrows `selection` to the lines that pass; to some lines if the leaf ends meanwhile.
    pub(crate) fn narrow(&self, lines: &Lines<'_>, selection: &mut Selection, meter: &Meter) {
        for filter in &self.filters {
            filter.narrow(lines, selection, meter);
        }
    }
}

#[cfg(test)]
mod tests;

//! Selects the rows of a tenant that some matchers accept.

use std::ops::Range;

use logsvc_logql::engine::CompiledMatcher;

use super::LabelIndex;
use super::condition::Condition;
use super::steps::{Pages, step_len};
use crate::error::SegmentError;
use crate::reader::Decoder;
use crate::row_set::RowSet;

/// A selection of rows.
///
/// Read the ranges of [`Select::next_reads`] and pass their bytes to [`Select::supply`] until there
/// are no more. Matchers that look values up come first, and nothing is read once no row is left.
/// The selection may stop at any time, also after an error: [`Select::into_rows`] is then a superset
/// of the rows.
#[derive(Debug)]
pub struct Select<'a> {
    index: &'a LabelIndex,
    /// The rows of the tenant.
    rows: Range<u32>,
    selected: RowSet,
    /// The conditions that are left, the next one last.
    conditions: Vec<Condition<'a>>,
    held: Pages,
}

impl LabelIndex {
    /// Selects the rows of a tenant that all matchers accept. A row without a label matches as if
    /// the label were empty.
    #[must_use]
    pub fn select<'a>(&'a self, tenant: &str, matchers: &[&'a CompiledMatcher]) -> Select<'a> {
        let tenant = self.find_tenant(tenant);
        let rows = tenant.map_or(0..0, |number| self.rows_of(number as usize));
        // A pattern that accepts all values excludes nothing, or everything if it is negated.
        let (all, some): (Vec<&CompiledMatcher>, _) =
            matchers.iter().partition(|matcher| matcher.pattern_accepts_all());
        let selected = match all.iter().any(|matcher| matcher.is_negated()) {
            true => RowSet::new(),
            false => RowSet::from(rows.clone()),
        };
        let conditions = some.into_iter().zip(tenant.into_iter().cycle());
        let mut conditions: Vec<Condition<'a>> = match selected.is_empty() {
            true => Vec::new(),
            false => {
                conditions.map(|(matcher, tenant)| Condition::new(self, tenant, matcher)).collect()
            }
        };
        conditions.sort_by_key(|condition| std::cmp::Reverse(condition.cost()));
        let mut select = Select { index: self, rows, selected, conditions, held: Pages::default() };
        // Nothing is held, so that nothing is read here that could be damaged.
        let _ = select.advance();
        select
    }
}

impl Select<'_> {
    /// The next ranges of the file to read, one per page, ascending; `None` if the rows are final.
    #[must_use]
    pub fn next_reads(&self) -> Option<&[Range<u64>]> {
        self.held.reads()
    }

    /// Takes the bytes of the ranges of the last [`Select::next_reads`], in their order.
    ///
    /// # Errors
    /// If they are damaged. Nothing is excluded from then on.
    pub fn supply<B: AsRef<[u8]>>(
        &mut self,
        decoder: &mut Decoder,
        pieces: &[B],
    ) -> Result<(), SegmentError> {
        let read = self.held.supply(self.index, decoder, pieces).and_then(|()| self.advance());
        if read.is_err() {
            self.stop();
        }
        read
    }

    /// Goes on until pages are missing.
    fn advance(&mut self) -> Result<(), SegmentError> {
        while !self.selected.is_empty() {
            let Some(condition) = self.conditions.last_mut() else { break };
            if condition.pages().is_empty() {
                if let Some(condition) = self.conditions.pop() {
                    self.selected = condition.finish(&self.selected);
                }
                continue;
            }
            let count = step_len(self.index, condition.pages().iter().copied());
            let step = condition.pages()[..count].to_vec();
            if self.held.ask(self.index, &step) {
                return Ok(());
            }
            condition.read(count, self.held.raw(&step), &self.rows, &self.selected)?;
        }
        self.stop();
        Ok(())
    }

    /// Needs nothing more.
    fn stop(&mut self) {
        self.conditions.clear();
        self.held.clear();
    }

    /// The rows that are left. They include all rows that the matchers accept.
    #[must_use]
    pub fn into_rows(self) -> RowSet {
        self.selected
    }
}

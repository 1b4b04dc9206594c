//! `| unwrap x`: an entry becomes the number that a label holds.

use super::super::convert;
use super::super::error::PlanError;
use super::super::labels::{EntryLabels, NameId};
use super::error_guard::is_guard;
use super::label_filter::LabelFilter;
use super::{spare, stage_error};
use crate::syntax::ast::{self, UnwrapConversion};

/// A compiled `unwrap`.
#[derive(Debug)]
pub(crate) struct Unwrap {
    label: NameId,
    conversion: UnwrapConversion,
    /// The label filters behind it, all of which must hold.
    filters: Vec<LabelFilter>,
}

impl Unwrap {
    /// Compiles an `unwrap`; `is_guarded` says whether a stage before it is an error guard.
    ///
    /// # Errors
    /// [`PlanError::Stage`] for a label filter behind it that cannot be built.
    pub(crate) fn compile(
        unwrap: &ast::Unwrap,
        is_guarded: bool,
        labels: &mut EntryLabels,
    ) -> Result<Self, PlanError> {
        let mut is_guarded = is_guarded;
        let mut filters = Vec::with_capacity(unwrap.filters.len());
        for filter in &unwrap.filters {
            is_guarded |= is_guard(filter);
            let spare_bytes = spare::of_label_filter(filter);
            if !labels.meter().work(spare_bytes) || !labels.meter().admit(spare_bytes) {
                break;
            }
            let compiled = LabelFilter::compile(filter, is_guarded, labels);
            filters.push(
                compiled.map_err(|detail| {
                    stage_error(&ast::Stage::LabelFilter(filter.clone()), detail)
                })?,
            );
        }
        let label = labels.name_id(unwrap.label.as_bytes());
        Ok(Self { label, conversion: unwrap.conversion, filters })
    }

    /// Heap memory in bytes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.filters.capacity() * size_of::<LabelFilter>()
            + self.filters.iter().map(LabelFilter::held_bytes).sum::<usize>()
    }

    /// The label that is unwrapped.
    pub(crate) fn label(&self) -> NameId {
        self.label
    }

    /// The sample of an entry; `None` skips the entry, because the label is absent
    /// or empty, or because a filter rejects it. A value that is no number sets the
    /// error and gives 0.
    pub(crate) fn sample(&self, labels: &mut EntryLabels) -> Option<f64> {
        let value = labels.get(self.label).filter(|value| !value.is_empty())?;
        let spare_bytes = convert::spare_bytes(value);
        if !labels.meter().work(value.len()) || !labels.meter().admit(spare_bytes) {
            return None;
        }
        let number = match self.conversion {
            UnwrapConversion::Number => convert::number(value),
            UnwrapConversion::Bytes => convert::bytes(value).map(|size| size as f64),
            UnwrapConversion::Duration | UnwrapConversion::DurationSeconds => {
                convert::duration_seconds(value)
            }
        };
        let number = number.unwrap_or_else(|details| {
            labels.set_error(b"SampleExtractionErr", details.as_bytes());
            0.0
        });
        labels.meter().release(spare_bytes);
        self.filters.iter().all(|filter| filter.keeps(labels)).then_some(number)
    }
}

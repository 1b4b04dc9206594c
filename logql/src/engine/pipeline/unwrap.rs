//! `| unwrap x`: an entry becomes the number that a label holds.

use super::super::error::PlanError;
use super::convert;
use super::labels::{EntryLabels, NameId};
use crate::syntax::ast::{self, UnwrapConversion};

/// A compiled `unwrap`.
#[derive(Debug)]
pub(crate) struct Unwrap {
    label: NameId,
    conversion: UnwrapConversion,
}

impl Unwrap {
    /// Compiles an `unwrap`.
    ///
    /// # Errors
    /// [`PlanError::Unsupported`] for label filters behind it.
    pub(crate) fn compile(
        unwrap: &ast::Unwrap,
        labels: &mut EntryLabels,
    ) -> Result<Self, PlanError> {
        if !unwrap.filters.is_empty() {
            return Err(PlanError::Unsupported("label filter"));
        }
        Ok(Self { label: labels.name_id(unwrap.label.as_bytes()), conversion: unwrap.conversion })
    }

    /// The label that is unwrapped.
    pub(crate) fn label(&self) -> NameId {
        self.label
    }

    /// The sample of an entry; `None` skips the entry, because the label is absent
    /// or empty. A value that is no number sets the error and gives 0.
    pub(crate) fn sample(&self, labels: &mut EntryLabels) -> Option<f64> {
        let value = labels.get(self.label).filter(|value| !value.is_empty())?;
        let number = match self.conversion {
            UnwrapConversion::Number => convert::number(value),
            UnwrapConversion::Bytes => convert::bytes(value).map(|size| size as f64),
            UnwrapConversion::Duration | UnwrapConversion::DurationSeconds => {
                convert::duration_seconds(value)
            }
        };
        Some(number.unwrap_or_else(|details| {
            labels.set_error(b"SampleExtractionErr", details.as_bytes());
            0.0
        }))
    }
}

//! `| label_format dst=src, ...`, section 8.2 of the language reference.

use super::labels::{EntryLabels, NameId};
use crate::syntax::ast::{self, LabelFormatValue};

/// `dst=src`
#[derive(Debug)]
struct Rename {
    from: NameId,
    to: NameId,
}

/// A compiled `label_format` of renames.
#[derive(Debug)]
pub(crate) struct LabelFormat {
    renames: Vec<Rename>,
}

impl LabelFormat {
    /// Compiles the list; `None` when it holds templates.
    ///
    /// # Errors
    /// The detail of the reference's stage error.
    pub(crate) fn compile(
        list: &[ast::LabelFormat],
        labels: &mut EntryLabels,
    ) -> Result<Option<Self>, String> {
        check_names(list)?;
        let mut renames = Vec::with_capacity(list.len());
        for item in list {
            let LabelFormatValue::Rename(from) = &item.value else { return Ok(None) };
            let from = labels.name_id(from.as_bytes());
            renames.push(Rename { from, to: labels.name_id(item.label.as_bytes()) });
        }
        Ok(Some(Self { renames }))
    }

    pub(crate) fn process(&self, labels: &mut EntryLabels) {
        for rename in &self.renames {
            labels.rename(rename.from, rename.to);
        }
    }
}

/// The rules for the labels that are set: not twice, and not the error.
fn check_names(list: &[ast::LabelFormat]) -> Result<(), String> {
    for (i, item) in list.iter().enumerate() {
        if item.label == "__error__" {
            return Err("__error__ cannot be formatted".to_owned());
        }
        if list[..i].iter().any(|earlier| earlier.label == item.label) {
            return Err(format!(
                "multiple label name '{}' not allowed in a single format operation",
                item.label
            ));
        }
    }
    Ok(())
}

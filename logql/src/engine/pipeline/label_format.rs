//! `| label_format dst=src, dst="template"`: renames and templates, left to right.
//!
//! All templates of a stage see the labels as they are just before its first
//! template: with the renames to the left of the first template, without any other
//! change that the stage makes. So the stage executes all templates at that moment.

use super::super::labels::{EntryLabels, NameId};
use super::super::meter::Meter;
use super::super::template::Template;
use super::line_format::TEMPLATE_ERROR;
use super::{CompiledStage, Entry};
use crate::syntax::ast::{self, LabelFormatValue};

/// A compiled `label_format`.
#[derive(Debug)]
pub(crate) struct LabelFormat {
    items: Vec<Item>,
    /// Scratch: the output of the templates, values and error messages.
    written: Vec<u8>,
    /// Scratch: whether a template succeeded, and where its text in `written` ends.
    outcomes: Vec<(bool, usize)>,
}

/// `dst=src` or `dst="template"`
#[derive(Debug)]
struct Item {
    to: NameId,
    value: ItemValue,
}

#[derive(Debug)]
enum ItemValue {
    Rename(NameId),
    Template(Template),
}

impl LabelFormat {
    /// Compiles the list.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(
        list: &[ast::LabelFormat],
        labels: &mut EntryLabels,
    ) -> Result<Self, String> {
        check_names(list)?;
        let items = list.iter().map(|item| Item::compile(item, labels));
        let items = items.collect::<Result<_, _>>()?;
        Ok(Self { items, written: Vec::new(), outcomes: Vec::new() })
    }
}

impl CompiledStage for LabelFormat {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let is_template = |item: &Item| matches!(item.value, ItemValue::Template(_));
        let first_template = self.items.iter().position(is_template).unwrap_or(self.items.len());
        let (left, rest) = self.items.split_at(first_template);
        for item in left {
            if let ItemValue::Rename(from) = &item.value {
                entry.labels.rename(*from, item.to);
            }
        }
        self.written.clear();
        self.outcomes.clear();
        if !entry.meter().make_room(&mut self.outcomes, rest.len()) {
            return;
        }
        for item in rest {
            if let ItemValue::Template(template) = &item.value {
                let start = self.written.len();
                let result = template.execute(entry.template_input(), &mut self.written);
                if let Err(details) = &result {
                    self.written.truncate(start);
                    let _is_written = entry.meter().append(&mut self.written, details.as_bytes());
                }
                if entry.meter().is_stopped() {
                    return;
                }
                self.outcomes.push((result.is_ok(), self.written.len()));
            }
        }
        let mut start = 0;
        let mut outcomes = self.outcomes.iter();
        for item in rest {
            match &item.value {
                ItemValue::Rename(from) => entry.labels.rename(*from, item.to),
                ItemValue::Template(_) => {
                    let (succeeded, end) = outcomes.next().expect("every template has an outcome");
                    let text = &self.written[start..*end];
                    if *succeeded {
                        entry.labels.set(item.to, text);
                    } else {
                        entry.labels.set_error(TEMPLATE_ERROR, text);
                    }
                    start = *end;
                }
            }
        }
    }

    fn held_bytes(&self) -> usize {
        let templates = self.items.iter().map(|item| match &item.value {
            ItemValue::Rename(_) => 0,
            ItemValue::Template(template) => template.held_bytes(),
        });
        self.items.capacity() * size_of::<Item>()
            + templates.sum::<usize>()
            + self.written.capacity()
            + self.outcomes.capacity() * size_of::<(bool, usize)>()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.written);
    }

    fn reads_line(&self) -> bool {
        self.items.iter().any(|item| match &item.value {
            ItemValue::Rename(_) => false,
            ItemValue::Template(template) => template.reads_line(),
        })
    }
}

impl Item {
    fn compile(item: &ast::LabelFormat, labels: &mut EntryLabels) -> Result<Self, String> {
        let value = match &item.value {
            LabelFormatValue::Rename(from) => ItemValue::Rename(labels.name_id(from.as_bytes())),
            LabelFormatValue::Template(text) => {
                let template = Template::compile("label", text, labels).map_err(|error| {
                    format!("invalid template for label '{}': {error}", item.label)
                })?;
                ItemValue::Template(template)
            }
        };
        Ok(Self { to: labels.name_id(item.label.as_bytes()), value })
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

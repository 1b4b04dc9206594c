//! `| line_format "template"`: the line becomes the output of the template.
//!
//! When the template fails the line stays, and the error labels say why.

use super::super::labels::EntryLabels;
use super::super::meter::Meter;
use super::super::template::Template;
use super::{CompiledStage, Entry};

/// `__error__` of an entry whose template failed.
pub(super) const TEMPLATE_ERROR: &[u8] = b"TemplateFormatErr";

/// A compiled `line_format`.
#[derive(Debug)]
pub(crate) struct LineFormat {
    template: Template,
    /// Scratch: the new line.
    line: Vec<u8>,
}

impl LineFormat {
    /// Compiles the stage.
    ///
    /// # Errors
    /// The detail of Loki's stage error.
    pub(crate) fn compile(template: &[u8], labels: &mut EntryLabels) -> Result<Self, String> {
        let template = Template::compile("line", template, labels)
            .map_err(|error| format!("invalid line template: {error}"))?;
        Ok(Self { template, line: Vec::new() })
    }
}

impl CompiledStage for LineFormat {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        self.line.clear();
        match self.template.execute(entry.template_input(), &mut self.line) {
            Ok(()) => entry.replace_line(&mut self.line),
            Err(details) => entry.labels.set_error(TEMPLATE_ERROR, details.as_bytes()),
        }
    }

    fn held_bytes(&self) -> usize {
        self.line.capacity() + self.template.held_bytes()
    }

    fn recycle(&mut self, meter: &Meter) {
        meter.recycle(&mut self.line);
    }
}

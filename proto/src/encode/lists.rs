//! Label names, label values and series.

use crate::encode::{Commas, write_json_text, write_label_object};

/// Appends `["a","b"]`.
pub fn write_text_array<'a>(texts: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    out.push(b'[');
    let mut commas = Commas::default();
    for text in texts {
        commas.next(out);
        write_json_text(text, out);
    }
    out.push(b']');
}

/// Appends the answer of `labels` and label values; the texts come in ascending
/// order. When there is nothing to list, `data` is left out, as in Loki.
pub fn write_label_list<'a>(
    texts: impl Iterator<Item = &'a str>,
    warnings: &[&str],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"{\"status\":\"success\"");
    let mut texts = texts.peekable();
    if texts.peek().is_some() {
        out.extend_from_slice(b",\"data\":");
        write_text_array(texts, out);
    }
    write_warnings(warnings, out);
    out.extend_from_slice(b"}\n");
}

/// The answer of `series`. Without any, `data` is an empty array.
#[derive(Clone, Copy, Default, Debug)]
pub struct SeriesWriter {
    commas: Commas,
}

impl SeriesWriter {
    /// A writer before its answer.
    pub fn new() -> SeriesWriter {
        SeriesWriter::default()
    }

    /// Opens the answer.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"status\":\"success\",\"data\":[");
    }

    /// Writes a label set, by ascending name.
    pub fn series<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<u8>,
    ) {
        self.commas.next(out);
        write_label_object(labels, out);
    }

    /// Closes the answer, with the warnings if any.
    pub fn end(&mut self, warnings: &[&str], out: &mut Vec<u8>) {
        out.push(b']');
        write_warnings(warnings, out);
        out.extend_from_slice(b"}\n");
    }
}

/// The member `warnings` of an answer, behind another one; nothing without warnings.
pub(super) fn write_warnings(warnings: &[&str], out: &mut Vec<u8>) {
    if !warnings.is_empty() {
        out.extend_from_slice(b",\"warnings\":");
        write_text_array(warnings.iter().copied(), out);
    }
}

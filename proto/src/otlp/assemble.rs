//! Makes labels of resources and entries of records.
//!
//! The metadata of an entry is, in this order: the attributes of the record, what the
//! record says besides (times, severity, ids), the attributes of the resource, and the
//! scope. Of equal names the last counts when it is stored.

use crate::labels::{Labels, LabelsBuilder};
use crate::otlp::message::{LogRecord, ResourceLogs, ScopeLogs};
use crate::otlp::value::AnyValue;
use crate::push::metadata::write_name;
use crate::push::{EntryRef, MetadataRef, Text};

/// What becomes of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is a label of the stream.
    IndexLabel,
    /// It is structured metadata of the entry.
    StructuredMetadata,
    /// It is not stored.
    Drop,
}

/// Decides what becomes of attributes, by their names as sent.
pub trait AttributeRules {
    /// For an attribute of a resource.
    fn resource(&self, name: &[u8]) -> Action;
    /// For an attribute of a scope, which cannot be a label.
    fn scope(&self, name: &[u8]) -> Action;
    /// For an attribute of a record.
    fn record(&self, name: &[u8]) -> Action;
    /// Whether the severity text of a record is a label, too.
    fn severity_text_is_label(&self) -> bool;
}

/// The labels that a resource gives to all its records.
pub fn resource_labels(resource: &ResourceLogs<'_>, rules: &impl AttributeRules) -> Labels {
    let mut labels = LabelsBuilder::new();
    for (name, value) in resource.attributes() {
        if rules.resource(name) == Action::IndexLabel {
            add_label(name, value, &mut labels);
        }
    }
    build(&labels)
}

/// The labels of a resource with those that one of its records adds; `None` if it adds
/// none.
pub fn record_labels(
    resource: &Labels,
    record: &LogRecord<'_>,
    rules: &impl AttributeRules,
) -> Option<Labels> {
    let mut labels = LabelsBuilder::new();
    let mut added = false;
    for (name, value) in record.attributes() {
        if rules.record(name) == Action::IndexLabel {
            labels = if added { labels } else { LabelsBuilder::from_labels(resource) };
            added = true;
            add_label(name, value, &mut labels);
        }
    }
    if rules.severity_text_is_label() && !record.severity_text.is_empty() {
        labels = if added { labels } else { LabelsBuilder::from_labels(resource) };
        added = true;
        add_label(b"severity_text", AnyValue::Text(record.severity_text), &mut labels);
    }
    added.then(|| build(&labels))
}

fn build(labels: &LabelsBuilder<'_>) -> Labels {
    labels.build().expect("the names were normalised")
}

fn add_label(name: &[u8], value: AnyValue<'_>, labels: &mut LabelsBuilder<'_>) {
    flatten(&mut name.to_vec(), value, &mut |name, value| {
        let mut text = Vec::new();
        value.write_text(&mut text);
        let mut normalized = Vec::new();
        // Names with nothing in them were refused, unless there is no value either.
        if !text.is_empty() && write_name(name, &mut normalized).is_ok() {
            let name = String::from_utf8_lossy(&normalized).into_owned();
            labels.set(name, String::from_utf8_lossy(&text).into_owned());
        }
    });
}

/// Visits a value, or the values in a map with the names that lead to them, joined by
/// `_`.
fn flatten<'a>(
    name: &mut Vec<u8>,
    value: AnyValue<'a>,
    visit: &mut impl FnMut(&[u8], AnyValue<'a>),
) {
    let AnyValue::Map(map) = value else { return visit(name, value) };
    let outer_len = name.len();
    for (inner, value) in AnyValue::pairs(map) {
        name.push(b'_');
        name.extend_from_slice(inner);
        flatten(name, value, visit);
        name.truncate(outer_len);
    }
}

/// Makes entries of the records of one resource. Its buffers are the only allocations.
#[derive(Default, Debug)]
pub struct Assembler<'a> {
    /// Metadata of the resource and of the scope, in this order.
    shared: Vec<(Text<'a>, Text<'a>)>,
    resource_pairs: usize,
    resource_text_len: usize,
    scope_text_len: usize,
    shared_len_bytes: usize,
    /// Metadata of the entry.
    pairs: Vec<(Text<'a>, Text<'a>)>,
    /// Texts that are not in the message: first those of the resource, then those of
    /// the scope, then those of the entry.
    scratch: Vec<u8>,
    line: Vec<u8>,
    name: Vec<u8>,
}

impl<'a> Assembler<'a> {
    /// An assembler for the records of `resource`. [`Self::begin_scope`] comes next.
    pub fn new(resource: &ResourceLogs<'a>, rules: &impl AttributeRules) -> Assembler<'a> {
        let mut assembler = Assembler::default();
        for (name, value) in resource.attributes() {
            if rules.resource(name) == Action::StructuredMetadata {
                assembler.add_attribute(name, value);
            }
        }
        assembler.shared.append(&mut assembler.pairs);
        assembler.resource_pairs = assembler.shared.len();
        assembler.resource_text_len = assembler.scratch.len();
        assembler.scope_text_len = assembler.scratch.len();
        assembler
    }

    /// Goes on to the records of a scope.
    pub fn begin_scope(&mut self, scope: &ScopeLogs<'a>, rules: &impl AttributeRules) {
        self.shared.truncate(self.resource_pairs);
        self.scratch.truncate(self.resource_text_len);
        self.pairs.clear();
        for (name, value) in scope.attributes() {
            if rules.scope(name) == Action::StructuredMetadata {
                self.add_attribute(name, value);
            }
        }
        self.add_text(b"scope_name", scope.name);
        self.add_text(b"scope_version", scope.version);
        self.add_number(b"scope_dropped_attributes_count", scope.dropped_attributes_count.into());
        self.shared.append(&mut self.pairs);
        self.scope_text_len = self.scratch.len();
        let shared = MetadataRef::from_mixed(&self.shared, &[], 0, &self.scratch);
        self.shared_len_bytes = shared.len_bytes();
    }

    /// The entry that a record of the scope makes. `now_ns` is the time of a record that
    /// does not say when it happened.
    pub fn entry(
        &mut self,
        record: &LogRecord<'a>,
        rules: &impl AttributeRules,
        now_ns: i64,
    ) -> EntryRef<'_> {
        self.scratch.truncate(self.scope_text_len);
        self.pairs.clear();
        for (name, value) in record.attributes() {
            if rules.record(name) == Action::StructuredMetadata {
                self.add_attribute(name, value);
            }
        }
        let happened = (record.time_unix_ns, record.observed_time_unix_ns);
        let timestamp_ns = match happened {
            (0, 0) => now_ns,
            (0, time_ns) | (time_ns, _) => i64::try_from(time_ns).unwrap_or(i64::MAX),
        };
        if record.time_unix_ns != 0 {
            self.add_number(b"observed_timestamp", record.observed_time_unix_ns);
        }
        // Senders may number severities below 0 as little as above 24.
        let severity = u64::try_from(record.severity_number).unwrap_or(0);
        self.add_number(b"severity_number", severity);
        self.add_text(b"severity_text", record.severity_text);
        self.add_number(b"dropped_attributes_count", record.dropped_attributes_count.into());
        self.add_number(b"flags", record.flags.into());
        self.add_hex(b"trace_id", record.trace_id);
        self.add_hex(b"span_id", record.span_id);
        self.add_text(b"event_name", record.event_name);
        self.line.clear();
        let line = match record.body {
            AnyValue::Text(text) => text,
            other => {
                other.write_text(&mut self.line);
                &self.line
            }
        };
        let metadata = MetadataRef::from_mixed(
            &self.pairs,
            &self.shared,
            self.shared_len_bytes,
            &self.scratch,
        );
        EntryRef { timestamp_ns: Some(timestamp_ns), line, metadata }
    }

    fn add_attribute(&mut self, name: &'a [u8], value: AnyValue<'a>) {
        if let AnyValue::Text(text) = value {
            return self.add_text(name, text);
        }
        let is_map = matches!(value, AnyValue::Map(_));
        let (scratch, pairs) = (&mut self.scratch, &mut self.pairs);
        self.name.clear();
        self.name.extend_from_slice(name);
        flatten(&mut self.name, value, &mut |path, value| {
            if value.is_empty() {
                return;
            }
            let name = if is_map {
                place(scratch, |out| out.extend_from_slice(path))
            } else {
                Text::Body(name)
            };
            let value = match value {
                AnyValue::Text(text) => Text::Body(text),
                other => place(scratch, |out| other.write_text(out)),
            };
            pairs.push((name, value));
        });
    }

    fn add_text(&mut self, name: &'a [u8], text: &'a [u8]) {
        if !text.is_empty() {
            self.pairs.push((Text::Body(name), Text::Body(text)));
        }
    }

    fn add_number(&mut self, name: &'static [u8], number: u64) {
        if number != 0 {
            let number = place(&mut self.scratch, |out| {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            });
            self.pairs.push((Text::Body(name), number));
        }
    }

    /// Adds an id. One of zeros only is one that is not set.
    fn add_hex(&mut self, name: &'static [u8], bytes: &[u8]) {
        if bytes.iter().any(|&byte| byte != 0) {
            let text = place(&mut self.scratch, |out| {
                let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                out.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            });
            self.pairs.push((Text::Body(name), text));
        }
    }
}

fn place<'a>(scratch: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Text<'a> {
    let start = scratch.len();
    write(scratch);
    Text::Scratch { start, end: scratch.len() }
}

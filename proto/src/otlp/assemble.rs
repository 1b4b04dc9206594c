//! Makes labels of resources and entries of records.
//!
//! The metadata of an entry is, in this order: the attributes of the record, its other fields
//! (times, severity, ids), the attributes of the resource, and the scope. Names are in normal form;
//! of equal names the last one is stored.
//!
//! What can go wrong is a [`RecordError`]: for one record, or for all records under a scope or
//! resource with an attribute that cannot be stored.

use crate::labels::{Labels, LabelsBuilder};
use crate::otlp::fault::RecordError;
use crate::otlp::flatten::{Name, NameBuffers, NamesLeft, visit_values};
use crate::otlp::message::{Attributes, LogRecord, ResourceLogs, ScopeLogs};
use crate::otlp::value::AnyValue;
use crate::push::{EntryRef, MetadataRef, Text};

/// The use of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is a label of the stream.
    IndexLabel,
    /// It is structured metadata of the entry.
    StructuredMetadata,
    /// It is not stored.
    Drop,
}

/// Decides by an attribute's name, as sent, how the attribute is stored.
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

/// The labels that a resource gives to all its records. They end before the first label that
/// cannot be stored: no record of such a resource is stored.
pub fn resource_labels(resource: &ResourceLogs<'_>, rules: &impl AttributeRules) -> Labels {
    let mut labels = NewLabels::new(LabelsBuilder::new(), resource.len_bytes());
    for (name, value) in resource.attributes() {
        if rules.resource(name) == Action::IndexLabel && labels.add(name, value).is_err() {
            break;
        }
    }
    labels.build()
}

/// The labels of a resource with the labels that one of its records adds; `None` if it adds
/// none. The labels of a record that cannot be stored mean nothing.
pub fn record_labels(
    resource: &Labels,
    record: &LogRecord<'_>,
    rules: &impl AttributeRules,
) -> Option<Labels> {
    let begin = || NewLabels::new(LabelsBuilder::from_labels(resource), record.len_bytes());
    let mut labels = None;
    for (name, value) in record.attributes() {
        if rules.record(name) == Action::IndexLabel
            && labels.get_or_insert_with(begin).add(name, value).is_err()
        {
            break;
        }
    }
    if rules.severity_text_is_label() && !record.severity_text.is_empty() {
        let labels = labels.get_or_insert_with(begin);
        let text = String::from_utf8_lossy(record.severity_text).into_owned();
        labels.builder.set("severity_text", text);
    }
    labels.map(|labels| labels.build())
}

/// Labels that attributes make.
struct NewLabels<'l> {
    builder: LabelsBuilder<'l>,
    names_left: NamesLeft,
    buffers: NameBuffers,
}

impl<'l> NewLabels<'l> {
    /// Of a message of `len_bytes`.
    fn new(builder: LabelsBuilder<'l>, len_bytes: usize) -> NewLabels<'l> {
        let names_left = NamesLeft::of_message(len_bytes);
        NewLabels { builder, names_left, buffers: NameBuffers::default() }
    }

    fn add(&mut self, name: &[u8], value: AnyValue<'_>) -> Result<(), RecordError> {
        let NewLabels { builder, names_left, buffers } = self;
        visit_values(name, value, names_left, buffers, &mut |name, value| {
            let mut text = Vec::new();
            value.write_text(&mut text);
            let (Name::Sent(name) | Name::Written(name)) = name;
            let name = String::from_utf8_lossy(name).into_owned();
            builder.set(name, String::from_utf8_lossy(&text).into_owned());
        })
    }

    fn build(&self) -> Labels {
        self.builder.build().expect("the names are in normal form")
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
    /// Texts that are not in the message: first the texts of the resource, then of
    /// the scope, then of the entry.
    scratch: Vec<u8>,
    line: Vec<u8>,
    buffers: NameBuffers,
    /// Why no record of the resource can be stored.
    resource_fault: Option<RecordError>,
    /// Why no record of the scope can be stored.
    scope_fault: Option<RecordError>,
}

impl<'a> Assembler<'a> {
    /// An assembler for the records of `resource`. [`Self::begin_scope`] comes next.
    pub fn new(resource: &ResourceLogs<'a>, rules: &impl AttributeRules) -> Assembler<'a> {
        let mut assembler = Assembler::default();
        let added = assembler.add_attributes(resource.attributes(), resource.len_bytes(), |name| {
            rules.resource(name)
        });
        assembler.resource_fault = added.err();
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
        let added =
            self.add_attributes(scope.attributes(), scope.len_bytes(), |name| rules.scope(name));
        self.scope_fault = added.err();
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
    ///
    /// # Errors
    /// The record, its scope or its resource has something that cannot be stored.
    pub fn entry(
        &mut self,
        record: &LogRecord<'a>,
        rules: &impl AttributeRules,
        now_ns: i64,
    ) -> Result<EntryRef<'_>, RecordError> {
        if let Some(fault) = self.resource_fault.as_ref().or(self.scope_fault.as_ref()) {
            return Err(fault.clone());
        }
        self.scratch.truncate(self.scope_text_len);
        self.pairs.clear();
        self.add_attributes(record.attributes(), record.len_bytes(), |name| rules.record(name))?;
        let happened = (record.time_unix_ns, record.observed_time_unix_ns);
        let timestamp_ns = match happened {
            (0, 0) => now_ns,
            (0, unix_ns) | (unix_ns, _) => {
                i64::try_from(unix_ns).map_err(|_| RecordError::TooLate { unix_ns })?
            }
        };
        if record.time_unix_ns != 0 {
            self.add_number(b"observed_timestamp", record.observed_time_unix_ns.into());
        }
        self.add_number(b"severity_number", record.severity_number.into());
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
                other.check_depth()?;
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
        Ok(EntryRef { timestamp_ns: Some(timestamp_ns), line, metadata })
    }

    /// Adds the attributes of a resource, scope or record of `len_bytes` that become metadata.
    /// Attributes that become labels are checked as well.
    fn add_attributes(
        &mut self,
        attributes: Attributes<'a>,
        len_bytes: usize,
        action: impl Fn(&[u8]) -> Action,
    ) -> Result<(), RecordError> {
        let Assembler { scratch, pairs, buffers, .. } = self;
        let mut names_left = NamesLeft::of_message(len_bytes);
        let mut labels_left = names_left;
        for (name, value) in attributes {
            match action(name) {
                Action::Drop => {}
                Action::IndexLabel => {
                    visit_values(name, value, &mut labels_left, buffers, &mut |_, _| {})?;
                }
                Action::StructuredMetadata => {
                    visit_values(name, value, &mut names_left, buffers, &mut |name, value| {
                        let name = match name {
                            Name::Sent(name) => Text::Body(name),
                            Name::Written(name) => {
                                written(scratch, |out| out.extend_from_slice(name))
                            }
                        };
                        let value = match value {
                            AnyValue::Text(text) => Text::Body(text),
                            other => written(scratch, |out| other.write_text(out)),
                        };
                        pairs.push((name, value));
                    })?;
                }
            }
        }
        Ok(())
    }

    fn add_text(&mut self, name: &'a [u8], text: &'a [u8]) {
        if !text.is_empty() {
            self.pairs.push((Text::Body(name), Text::Body(text)));
        }
    }

    fn add_number(&mut self, name: &'static [u8], number: i128) {
        if number != 0 {
            let number = written(&mut self.scratch, |out| {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            });
            self.pairs.push((Text::Body(name), number));
        }
    }

    /// Adds an id. One of zeros only is one that is not set.
    fn add_hex(&mut self, name: &'static [u8], bytes: &[u8]) {
        if bytes.iter().any(|&byte| byte != 0) {
            let text = written(&mut self.scratch, |out| {
                let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                out.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            });
            self.pairs.push((Text::Body(name), text));
        }
    }
}

fn written<'a>(scratch: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Text<'a> {
    let start = scratch.len();
    write(scratch);
    Text::Scratch { start, end: scratch.len() }
}

//! The fields of the entries of a query's answer.
//!
//! Guarantees: memory is bounded by the number of fields asked for, at most
//! [`FIELDS_MAX`], and by the longest line; the core is given back between lines.

use std::collections::BTreeSet;

use ahash::{HashMap, RandomState};
use logsvc_logql::engine::{FieldParser, FieldReader, ResultEntry, StreamResult};
use logsvc_proto::Labels;
use logsvc_proto::encode::{DetectedField, FieldType};

use super::sketch::Sketch;
use super::value::{normalized, type_of};

/// Fields that are told apart, whatever the request asks for.
pub(super) const FIELDS_MAX: usize = 5000;

/// Labels about errors of parsing a line, which are no fields of it.
const ERROR_NAMES: [&str; 3] = ["__error__", "__error_details__", "__preserve_error__"];

/// A field, and the values that were found.
struct Field {
    name: String,
    kind: FieldType,
    values: Sketch,
    parsers: Vec<&'static str>,
    json_path: Vec<String>,
    /// The line that the path is from.
    path_line: u64,
}

/// Collects fields in the order in which they turn up.
pub(super) struct Fields {
    fields: Vec<Field>,
    places: HashMap<String, usize>,
    fields_max: usize,
    /// Lines so far.
    lines: u64,
}

/// The pairs that an entry has from the query itself.
fn queried(entry: &ResultEntry) -> (Option<&Labels>, Option<&Labels>) {
    let categories = entry.categories.as_deref();
    (categories.map(|c| &c.structured_metadata), categories.map(|c| &c.parsed))
}

impl Fields {
    pub(super) fn new(fields_max: usize) -> Fields {
        Fields {
            fields: Vec::new(),
            places: HashMap::with_hasher(RandomState::with_seeds(2, 3, 5, 7)),
            fields_max: fields_max.min(FIELDS_MAX),
            lines: 0,
        }
    }

    /// Takes an entry of the stream that `reader` is for.
    pub(super) fn add(&mut self, entry: &ResultEntry, stream: &Labels, reader: &mut FieldReader) {
        self.lines += 1;
        let (metadata, parsed) = queried(entry);
        for (name, value) in metadata.into_iter().flatten() {
            if let Some(field) = self.field(name) {
                field.take(value);
            }
        }
        let mut found: Vec<(String, String)> = Vec::new();
        let parser = reader.read(&entry.line, |name, value| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push((text(name), text(value)));
        });
        for (name, value) in parsed.into_iter().flatten() {
            if !ERROR_NAMES.contains(&name) {
                found.push((name.to_owned(), value.to_owned()));
            }
        }
        for (name, value) in &found {
            if let Some(field) = self.field(name) {
                field.take(value);
                if !field.parsers.contains(&parser.as_str()) {
                    field.parsers.push(parser.as_str());
                }
            }
        }
        if parser == FieldParser::Json {
            self.add_paths(&entry.line, stream);
        }
    }

    fn add_paths(&mut self, line: &[u8], stream: &Labels) {
        FieldReader::json_paths(line, |name, path| {
            let name = String::from_utf8_lossy(name);
            let place = if stream.get(&name).is_some() {
                self.places.get(&format!("{name}_extracted"))
            } else {
                self.places.get(&*name)
            };
            // Where several paths lead to one name, the first one of the last line
            // counts.
            let field = place.map(|&place| &mut self.fields[place]);
            if let Some(field) = field.filter(|field| field.path_line != self.lines) {
                field.path_line = self.lines;
                let keys = path.iter().map(|key| String::from_utf8_lossy(key).into_owned());
                field.json_path = keys.collect();
            }
        });
    }

    fn field(&mut self, name: &str) -> Option<&mut Field> {
        if let Some(&place) = self.places.get(name) {
            return Some(&mut self.fields[place]);
        }
        if self.fields.len() >= self.fields_max {
            return None;
        }
        self.places.insert(name.to_owned(), self.fields.len());
        self.fields.push(Field {
            name: name.to_owned(),
            kind: FieldType::String,
            values: Sketch::default(),
            parsers: Vec::new(),
            json_path: Vec::new(),
            path_line: 0,
        });
        self.fields.last_mut()
    }

    /// The answer.
    pub(super) fn finish(self) -> Vec<DetectedField> {
        let detected = |field: Field| DetectedField {
            label: field.name,
            kind: field.kind,
            cardinality: field.values.count(),
            parsers: field.parsers,
            json_path: field.json_path,
        };
        self.fields.into_iter().map(detected).collect()
    }
}

impl Field {
    fn take(&mut self, value: &str) {
        self.kind = type_of(value);
        self.values.insert(value.as_bytes());
    }
}

/// Adds the values of one field of an entry to `values`, which never holds more than
/// `values_max`.
pub(super) fn values_of(
    name: &str,
    entry: &ResultEntry,
    reader: &mut FieldReader,
    values_max: usize,
    values: &mut BTreeSet<String>,
) {
    let mut add = |value: String| {
        if values.len() < values_max {
            values.insert(value);
        }
    };
    let (metadata, parsed) = queried(entry);
    if let Some(value) = metadata.and_then(|labels| labels.get(name)) {
        add(value.to_owned());
    }
    if let Some(value) = parsed.and_then(|labels| labels.get(name)) {
        add(normalized(value));
    }
    reader.read(&entry.line, |found, value| {
        if found == name.as_bytes() {
            add(normalized(&String::from_utf8_lossy(value)));
        }
    });
}

/// Bytes of lines that an answer holds.
pub(super) fn line_bytes(streams: &[StreamResult]) -> u64 {
    let entries = streams.iter().flat_map(|stream| &stream.entries);
    entries.map(|entry| entry.line.len() as u64).sum()
}

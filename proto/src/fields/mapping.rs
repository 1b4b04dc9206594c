//! What becomes of the fields of an object.

use super::{FieldsError, Flat, read_time_ns};
use crate::push::metadata::write_name;
use crate::records::Records;

/// Most fields that one parameter of a request names. Every field of every object is compared with
/// each of them.
pub const NAMED_FIELDS_MAX: usize = 128;

/// Most bytes of such a parameter. Every object may get what it says.
pub const NAMED_FIELDS_MAX_BYTES: usize = 16 << 10;

/// Why the parameters of a request are refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RefineError {
    /// A parameter names too many fields.
    #[error("{param} names more than {NAMED_FIELDS_MAX} fields")]
    TooMany {
        /// Its name.
        param: &'static str,
    },
    /// A parameter is too long.
    #[error("{param} is longer than {NAMED_FIELDS_MAX_BYTES} bytes")]
    TooLong {
        /// Its name.
        param: &'static str,
    },
    /// An extra field has no value.
    #[error("{text:?} in extra_fields is not of the form name=value")]
    NoPair {
        /// What is there, or the begin of it.
        text: String,
    },
}

/// Bytes of a value that a text about it shows.
const SHOWN_BYTES: usize = 64;

/// Which fields are the line, the time and labels. All others are structured metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Labels with their fields.
    pub labels: Vec<(String, String)>,
    /// Fields for the line, in order of preference. An object without any of them is its line
    /// itself.
    pub messages: Vec<String>,
    /// Fields for the time, in order of preference. Without any of them, or with 0, the time is the
    /// time of arrival.
    pub times: Vec<String>,
    /// Fields that are not kept. A star at the end stands for any text.
    pub ignored: Vec<String>,
    /// Fields that all objects get, in place of their own ones.
    pub extra: Vec<(String, String)>,
}

/// What is known of an object besides its text.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// When it came, in ns since 1970.
    pub arrival_ns: i64,
    /// Labels that do not come from fields. Labels of fields win.
    pub labels: &'o [(&'o str, &'o str)],
}

impl Mapping {
    /// Changes the mapping as a request asks for, with the parameters and headers of
    /// VictoriaLogs. `value_of` gives the value of a parameter, or else of a header.
    ///
    /// # Errors
    /// A parameter is too long or names too many fields, or an extra field has no value.
    pub fn refine<'r>(
        &mut self,
        value_of: impl Fn(&str, &str) -> Option<&'r str>,
    ) -> Result<(), RefineError> {
        let words = |param: &'static str, header: &str| {
            let Some(text) = value_of(param, header).filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            if text.len() > NAMED_FIELDS_MAX_BYTES {
                return Err(RefineError::TooLong { param });
            }
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            let words: Vec<String> = words.take(NAMED_FIELDS_MAX + 1).map(str::to_owned).collect();
            if words.len() > NAMED_FIELDS_MAX {
                return Err(RefineError::TooMany { param });
            }
            Ok(Some(words))
        };
        if let Some(fields) = words("_stream_fields", "VL-Stream-Fields")? {
            self.labels = fields.into_iter().map(|field| (label_of(&field), field)).collect();
        }
        if let Some(fields) = words("_msg_field", "VL-Msg-Field")? {
            self.messages = fields;
        }
        if let Some(fields) = words("_time_field", "VL-Time-Field")? {
            self.times = fields;
        }
        if let Some(fields) = words("ignore_fields", "VL-Ignore-Fields")? {
            self.ignored = fields;
        }
        if let Some(pairs) = words("extra_fields", "VL-Extra-Fields")? {
            let pairs = pairs.iter().map(|pair| match pair.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(RefineError::NoPair { text: pair.chars().take(SHOWN_BYTES).collect() }),
            });
            self.extra = pairs.collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Makes a record of an object: of its fields, or of its text.
    ///
    /// # Errors
    /// Its time cannot be read. There is no record then.
    pub fn put(
        &self,
        flat: &Flat,
        object: &[u8],
        origin: Origin<'_>,
        records: &mut Records,
    ) -> Result<(), FieldsError> {
        let find = |names: &'_ [String]| {
            let mut found = names.iter().filter_map(|name| {
                let value = flat.get(name.as_bytes()).filter(|value| !value.is_empty())?;
                Some((name.clone(), value))
            });
            found.next()
        };
        let time = find(&self.times);
        let timestamp_ns = match &time {
            None => origin.arrival_ns,
            Some((field, value)) => match read_time_ns(value) {
                Some(0) => origin.arrival_ns,
                Some(ns) => ns,
                None => return Err(no_time(field, value)),
            },
        };
        records.begin(Some(timestamp_ns));
        for (name, value) in origin.labels {
            records.label(name, value);
        }
        let extra_of = |field: &str| {
            let extra = self.extra.iter().rev().find(|(name, _)| name == field);
            extra.map(|(_, value)| value.as_bytes())
        };
        for (label, field) in &self.labels {
            if let Some(value) = extra_of(field).or_else(|| flat.get(field.as_bytes())) {
                records.label(label, &String::from_utf8_lossy(value));
            }
        }
        let is_label = |name: &[u8]| self.labels.iter().any(|(_, field)| field.as_bytes() == name);
        for (name, value) in &self.extra {
            if !is_label(name.as_bytes()) {
                put_metadata(name.as_bytes(), value.as_bytes(), records);
            }
        }
        let Some((message, line)) = find(&self.messages) else {
            records.line(object);
            records.end();
            return Ok(());
        };
        records.line(line);
        let is_used = |name: &[u8]| {
            name == message.as_bytes()
                || time.as_ref().is_some_and(|(field, _)| field.as_bytes() == name)
                || is_label(name)
                || self.is_ignored(name)
                || self.extra.iter().any(|(extra, _)| extra.as_bytes() == name)
        };
        for (name, value) in flat.iter().filter(|(name, _)| !is_used(name)) {
            put_metadata(name, value, records);
        }
        records.end();
        Ok(())
    }

    fn is_ignored(&self, name: &[u8]) -> bool {
        self.ignored.iter().any(|ignored| match ignored.strip_suffix('*') {
            Some(begin) => name.starts_with(begin.as_bytes()),
            None => name == ignored.as_bytes(),
        })
    }
}

/// Structured metadata. A name without a letter and a digit gets one, so that it refuses no entry.
fn put_metadata(name: &[u8], value: &[u8], records: &mut Records) {
    let has_name = name.iter().any(u8::is_ascii_alphanumeric);
    records.metadata(if has_name { name } else { b"unnamed" }, value);
}

/// The label that a field becomes if no other is named.
fn label_of(field: &str) -> String {
    let mut label = Vec::new();
    match write_name(field.as_bytes(), &mut label) {
        Ok(()) => String::from_utf8_lossy(&label).into_owned(),
        Err(_) => "unnamed".to_owned(),
    }
}

fn no_time(field: &str, value: &[u8]) -> FieldsError {
    let value = &value[..value.len().min(SHOWN_BYTES)];
    FieldsError::Time {
        field: field.to_owned(),
        value: String::from_utf8_lossy(value).into_owned(),
    }
}

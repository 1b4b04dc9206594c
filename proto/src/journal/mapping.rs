//! From entries to records.
//!
//! Guarantees: an entry is never lost for a field: what is too long or one too many is left out and
//! counted. The same entry gives the same record, so that one that is sent again is known.
//! Failure: no message, or no time; then there is no record.

use std::collections::BTreeSet;

use super::parser::{Entry, Wanted};
use crate::discover::Level;
use crate::records::Records;

const MESSAGE: &str = "MESSAGE";
const PRIORITY: &str = "PRIORITY";
const RECEIVED_TIME: &str = "__REALTIME_TIMESTAMP";
const SOURCE_TIME: &str = "_SOURCE_REALTIME_TIMESTAMP";
/// Stands for the level in a mapping to labels.
const PRIORITY_KEYWORD: &str = "PRIORITY_KEYWORD";
/// Fields that name a unit.
const UNITS: [&str; 4] = ["_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT", "UNIT", "USER_UNIT"];
/// The label of an entry that has no other.
const ONLY_LABEL: (&str, &str) = ("job", "systemd-journal");
/// Longest value of a label or number.
const SHORT_MAX_BYTES: usize = 64 << 10;
/// The name of the level in metadata.
const LEVEL: &[u8] = b"level";

/// Words of the priorities of syslog.
const KEYWORDS: [&str; 8] =
    ["emerg", "alert", "crit", "error", "warning", "notice", "info", "debug"];
/// Their levels.
const LEVELS: [Level; 8] = [
    Level::Fatal,
    Level::Critical,
    Level::Critical,
    Level::Error,
    Level::Warn,
    Level::Info,
    Level::Info,
    Level::Debug,
];

/// Why an entry is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unmapped {
    /// It has no message.
    #[error("the entry has no field MESSAGE")]
    NoMessage,
    /// It has no time.
    #[error("the entry has no usable field __REALTIME_TIMESTAMP")]
    NoTime,
}

/// What is kept of entries.
#[derive(Clone, Copy, Debug)]
pub struct MappingLimits {
    /// Most bytes of a message; a longer one is cut.
    pub line_max_bytes: usize,
    /// Longest value of another field.
    pub field_max_bytes: usize,
    /// Most bytes of names and values of metadata.
    pub metadata_max_bytes: usize,
    /// Most fields in metadata.
    pub metadata_max_fields: usize,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Fields that were wanted and are not in the record.
    pub left_out: u64,
}

/// Says which fields become labels, and which become structured metadata.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Labels and the fields that they come from.
    labels: Vec<(String, String)>,
    /// Fields that are not wanted in metadata.
    dropped: BTreeSet<Vec<u8>>,
    prefers_source_time: bool,
    limits: MappingLimits,
}

impl Mapping {
    /// Makes labels of these pairs of a label and a field, and metadata of all fields but
    /// `dropped`.
    pub fn new(
        labels: impl IntoIterator<Item = (String, String)>,
        dropped: impl IntoIterator<Item = String>,
        prefers_source_time: bool,
        limits: MappingLimits,
    ) -> Mapping {
        let labels = labels.into_iter().collect();
        let dropped = dropped.into_iter().map(String::into_bytes).collect();
        Mapping { labels, dropped, prefers_source_time, limits }
    }

    /// What is kept of the field of this name.
    pub fn wanted(&self, name: &[u8]) -> Wanted {
        if name == MESSAGE.as_bytes() {
            return Wanted::Start(self.limits.line_max_bytes);
        }
        let is_short = name == PRIORITY.as_bytes()
            || name == RECEIVED_TIME.as_bytes()
            || (self.prefers_source_time && name == SOURCE_TIME.as_bytes())
            || self.is_label(name);
        if is_short {
            Wanted::Whole(self.limits.field_max_bytes.max(SHORT_MAX_BYTES))
        } else if self.is_metadata(name) {
            Wanted::Whole(self.limits.field_max_bytes)
        } else {
            Wanted::Nothing
        }
    }

    /// Adds the record of an entry.
    ///
    /// # Errors
    /// There is none; `records` is as before.
    pub fn write(&self, entry: &Entry, records: &mut Records) -> Result<Written, Unmapped> {
        let timestamp_ns = self.time_ns(entry).ok_or(Unmapped::NoTime)?;
        let message = entry.get(MESSAGE).ok_or(Unmapped::NoMessage)?;
        let priority = priority(entry);
        records.begin(Some(timestamp_ns));
        records.line(message);
        let mut has_label = false;
        for (label, field) in &self.labels {
            let value = match field.as_str() {
                PRIORITY_KEYWORD => priority.map(|number| KEYWORDS[number].as_bytes()),
                field => entry.get(field),
            };
            let value = String::from_utf8_lossy(value.unwrap_or_default());
            let value = if UNITS.contains(&field.as_str()) { unit_kind(&value) } else { value };
            has_label |= !value.is_empty();
            records.label(label, &value);
        }
        if !has_label {
            records.label(ONLY_LABEL.0, ONLY_LABEL.1);
        }
        let left_out = entry.left_out() + self.write_metadata(entry, priority, records);
        records.end();
        Ok(Written { left_out })
    }

    /// Returns how many fields were left out.
    fn write_metadata(&self, entry: &Entry, priority: Option<usize>, records: &mut Records) -> u64 {
        let mut metadata =
            Metadata { limits: self.limits, names: BTreeSet::new(), len_bytes: 0, left_out: 0 };
        if let Some(number) = priority {
            metadata.add(LEVEL.to_vec(), LEVELS[number].as_str().as_bytes(), records);
        }
        // Fields of journald itself cannot be set by clients, so they come first.
        for is_trusted in [true, false] {
            for (name, value) in entry.fields() {
                let is_wanted = self.is_metadata(name) && !self.is_whole_label(name, value);
                if name.starts_with(b"_") == is_trusted && is_wanted && !value.is_empty() {
                    metadata.add(metadata_name(name), value, records);
                }
            }
        }
        metadata.left_out
    }

    fn time_ns(&self, entry: &Entry) -> Option<i64> {
        let time_of = |name| number(entry.get(name)?)?.checked_mul(1000);
        let source = if self.prefers_source_time { time_of(SOURCE_TIME) } else { None };
        source.or_else(|| time_of(RECEIVED_TIME))
    }

    fn is_label(&self, name: &[u8]) -> bool {
        self.labels.iter().any(|(_, field)| field.as_bytes() == name)
    }

    /// Whether a label has all that the field says.
    fn is_whole_label(&self, name: &[u8], value: &[u8]) -> bool {
        let is_unit = UNITS.iter().any(|unit| unit.as_bytes() == name);
        let is_cut = || unit_kind(&String::from_utf8_lossy(value)).as_bytes() != value;
        self.is_label(name) && !(is_unit && is_cut())
    }

    /// Whether a field may be structured metadata. Names that begin with two underscores are
    /// addresses in the journal of the host.
    fn is_metadata(&self, name: &[u8]) -> bool {
        name != MESSAGE.as_bytes() && !name.starts_with(b"__") && !self.dropped.contains(name)
    }
}

/// The metadata of one record.
struct Metadata {
    limits: MappingLimits,
    names: BTreeSet<Vec<u8>>,
    len_bytes: usize,
    left_out: u64,
}

impl Metadata {
    /// Adds a field; of equal names the first counts.
    fn add(&mut self, name: Vec<u8>, value: &[u8], records: &mut Records) {
        let len_bytes = self.len_bytes + name.len() + value.len();
        let has_room = len_bytes <= self.limits.metadata_max_bytes
            && self.names.len() < self.limits.metadata_max_fields;
        if name.is_empty() || !has_room || self.names.contains(&name) {
            self.left_out += 1;
            return;
        }
        self.len_bytes = len_bytes;
        records.metadata(&name, value);
        self.names.insert(name);
    }
}

/// The name in lower case and without underscores before it.
fn metadata_name(name: &[u8]) -> Vec<u8> {
    let start = name.iter().position(|byte| *byte != b'_').unwrap_or(name.len());
    name[start..].to_ascii_lowercase()
}

/// Decimal digits and nothing else.
fn number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn priority(entry: &Entry) -> Option<usize> {
    let number = usize::try_from(number(entry.get(PRIORITY)?)?).ok()?;
    (number < LEVELS.len()).then_some(number)
}

/// The name of a unit without the part that is of one run only: scopes and units of `systemd-run`
/// are named anew each time, so each would be a stream of its own. `session-12.scope` becomes
/// `session.scope`.
fn unit_kind(unit: &str) -> std::borrow::Cow<'_, str> {
    let is_transient = unit.ends_with(".scope") || unit.starts_with("run-");
    match (unit.split_once('-'), unit.rsplit_once('.')) {
        (Some((kind, _)), Some((_, suffix))) if is_transient && !kind.is_empty() => {
            format!("{kind}.{suffix}").into()
        }
        _ => unit.into(),
    }
}

//! Two properties of pushed entries that their sender did not give: the `service_name` label of a
//! stream and the `detected_level` metadata of an entry.
//!
//! The level of an entry is, in this order, its metadata `detected_level`, a level field among the
//! labels of its stream, one in its metadata, its OpenTelemetry `severity_number`, a level field of
//! its line read as JSON or logfmt, and the first level word of its line. This module has the
//! single steps; the caller holds the order of the first three, since it knows the stream.
//!
//! Guarantees: no function here allocates, recurses or panics, whatever the line. A line is read
//! two or three times at most, most of it sixteen bytes at once.

mod fields;
mod json;
mod level;
mod logfmt;
mod metadata;
mod service;
mod words;

pub use fields::{DEFAULT_LEVEL_FIELDS, LevelFields};
pub use level::{Level, is_known_level, normalize_level, severity_number_level};
pub use metadata::{DETECTED_LEVEL, WithLevel, beside_level};
pub use service::{
    DEFAULT_SERVICE_LABELS, SERVICE_NAME, UNKNOWN_SERVICE, service_name, with_service_name,
};

/// The level that a line itself tells.
///
/// `json_max_depth` says how many objects deep a JSON line is searched; 0 searches
/// all.
#[inline]
pub fn line_level(line: &[u8], fields: &LevelFields, json_max_depth: usize) -> Level {
    let told = match (first_visible(line), last_visible(line)) {
        (Some(b'{'), Some(b'}')) if fields.may_occur_in(line) => {
            json::level_field(line, fields, json_max_depth)
        }
        (Some(b'{'), Some(b'}')) => None,
        _ if memchr::memchr(b'=', line).is_some() && fields.may_occur_in(line) => {
            logfmt::level_field(line, fields)
        }
        _ => None,
    };
    told.and_then(Level::from_word).or_else(|| words::first_level(line)).unwrap_or(Level::Unknown)
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn first_visible(line: &[u8]) -> Option<u8> {
    line.iter().copied().find(|&byte| !is_blank(byte))
}

fn last_visible(line: &[u8]) -> Option<u8> {
    line.iter().rev().copied().find(|&byte| !is_blank(byte))
}

#[cfg(test)]
mod tests;

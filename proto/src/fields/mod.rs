//! Objects of JSON as log entries: which field is the line, which the time, which are labels.
//!
//! An object is flattened: the field `c` in the object `b` in the object `a` is `a.b.c`. Numbers and
//! arrays are kept as they are written; a field that is null is not there. [`Mapping`] then tells
//! what becomes of each field.
//!
//! Guarantees: depth, number and names of fields are bounded, so an object takes at most about a
//! megabyte more than its text. An object that has a fault leaves nothing.

mod flat;
mod mapping;
#[cfg(test)]
mod tests;
mod time;

pub use flat::{FIELDS_MAX, Flat, NAME_MAX_BYTES};
pub use mapping::{Mapping, NAMED_FIELDS_MAX, NAMED_FIELDS_MAX_BYTES, Origin, RefineError};
pub use time::read_time_ns;

use crate::push::json::JsonError;

/// Why an object is no entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FieldsError {
    /// The text is no object, or more than one.
    #[error("no JSON object: {message} at byte {}", offset_bytes + 1)]
    Json {
        /// Where, from 0.
        offset_bytes: usize,
        /// The problem, in words.
        message: &'static str,
    },
    /// There is no text.
    #[error("no JSON object: it is empty")]
    Empty,
    /// The field of the time has something else.
    #[error(
        "the field {field:?} is no time: {value:?} is neither RFC 3339 nor a number since 1970"
    )]
    Time {
        /// Its name.
        field: String,
        /// Its value, or the begin of it.
        value: String,
    },
}

impl From<JsonError> for FieldsError {
    fn from(error: JsonError) -> FieldsError {
        match error {
            JsonError::Empty => FieldsError::Empty,
            JsonError::Invalid { offset_bytes, message } => {
                FieldsError::Json { offset_bytes, message }
            }
        }
    }
}

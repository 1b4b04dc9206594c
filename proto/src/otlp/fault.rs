//! Faults that refuse a record, or all records of a scope or resource, and leave the rest of the
//! request.

use crate::otlp::MAX_DEPTH;
use crate::push::metadata::MetadataError;

/// Why a record cannot be stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// A value is nested more than [`MAX_DEPTH`] levels deep.
    #[error("values are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Values are nested in maps whose joined names are much longer than the message.
    #[error("names of nested values are too long")]
    NamesTooLong,
    /// The name of an attribute cannot be stored.
    #[error("symbolizer lookup: {0}")]
    Name(#[from] MetadataError),
    /// Signed 64-bit nanoseconds do not reach so far.
    #[error("the time of the record, {unix_ns} ns since 1970, is later than can be stored")]
    TooLate {
        /// The time, in ns since the Unix epoch.
        unix_ns: u64,
    },
}

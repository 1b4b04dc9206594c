//! Ids, label sets, hashing, wire formats and response encoders of the log service, and the error
//! type its API answers with.
//!
//! This crate does no I/O and knows no clock, no thread and no storage. Every
//! function depends on its arguments alone, so every decoder can be fuzzed and every
//! format can be pinned by golden values.
//!
//! Guarantees of all decoders here: no panic on any input, memory bounded by a constant factor of
//! the input (or by a limit argument), time linear in the input, recursion not at all, or no deeper
//! than a fixed limit ([`otlp`]).

pub mod body;
pub mod bulk;
pub mod bytes;
pub mod discover;
pub mod encode;
pub mod error;
pub mod fields;
pub mod go;
pub mod ids;
pub mod journal;
pub mod labels;
pub mod lines;
pub mod messages;
pub mod otlp;
pub mod push;
pub mod records;
pub mod syslog;
pub mod tenant;
pub mod time;
pub mod transfer;
pub mod varint;
pub mod words;

pub use error::ApiError;
pub use ids::StreamId;
pub use labels::{LabelError, LabelParseError, Labels, LabelsBuilder, parse_labels};
pub use tenant::{TenantError, TenantId};

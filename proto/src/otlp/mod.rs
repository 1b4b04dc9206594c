//! OpenTelemetry logs: the export request of OTLP over HTTP, walked in place.
//!
//! [`LogsRequest::protobuf`] walks a whole message once and refuses it if it does not decode
//! or has a number that is out of its range; a JSON message is written anew as protobuf first
//! ([`transcode_json`]), so that there is one decoder behind both. Resources, scopes and
//! records are then visited, and [`Assembler`] makes an entry of each record, with the
//! attributes that rules make labels of left out.
//!
//! An attribute that cannot be stored refuses records, not the message ([`RecordError`]): an
//! attribute of a record refuses that record, an attribute of a scope or resource refuses the
//! records under it.
//!
//! Values may be nested [`MAX_DEPTH`] levels deep, which bounds the recursion of
//! everything here; time and memory are linear in the message.
//!
//! Schema (`opentelemetry/proto/logs/v1/logs.proto` and `common/v1/common.proto`):
//!
//! ```text
//! ExportLogsServiceRequest { repeated ResourceLogs resource_logs = 1; }
//! ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; }
//! Resource     { repeated KeyValue attributes = 1; }
//! ScopeLogs    { InstrumentationScope scope = 1; repeated LogRecord log_records = 2; }
//! InstrumentationScope { string name = 1; string version = 2;
//!                        repeated KeyValue attributes = 3;
//!                        uint32 dropped_attributes_count = 4; }
//! LogRecord    { fixed64 time_unix_nano = 1; int32 severity_number = 2;
//!                string severity_text = 3; AnyValue body = 5;
//!                repeated KeyValue attributes = 6; uint32 dropped_attributes_count = 7;
//!                fixed32 flags = 8; bytes trace_id = 9; bytes span_id = 10;
//!                fixed64 observed_time_unix_nano = 11; string event_name = 12; }
//! KeyValue     { string key = 1; AnyValue value = 2; }
//! AnyValue     { oneof { string = 1; bool = 2; int64 = 3; double = 4;
//!                ArrayValue array = 5; KeyValueList kvlist = 6; bytes = 7; } }
//! ```

mod assemble;
mod check;
mod fault;
mod flatten;
mod json;
mod message;
mod response;
mod status;
mod value;

pub use assemble::{Action, Assembler, AttributeRules, record_labels, resource_labels};
pub use fault::RecordError;
pub use json::transcode_json;
pub use message::{Attributes, LogRecord, LogsRequest, Records, ResourceLogs, ScopeLogs, Scopes};
pub use response::{PartialSuccess, ResponseFormat};
pub use status::{STATUS_CONTENT_TYPE, encode_status};
pub use value::AnyValue;

/// Deepest nesting of values.
pub const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests;

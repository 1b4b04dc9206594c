//! Messages of the protobuf push form.

use prost::Message;

/// A push: entries of several streams.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) streams: Vec<StreamAdapter>,
}

/// Entries of one stream.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StreamAdapter {
    #[prost(string, tag = "1")]
    pub(crate) labels: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) entries: Vec<EntryAdapter>,
}

/// One entry.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EntryAdapter {
    #[prost(message, optional, tag = "1")]
    pub(crate) timestamp: Option<Timestamp>,
    #[prost(string, tag = "2")]
    pub(crate) line: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) structured_metadata: Vec<LabelPairAdapter>,
}

/// One pair of structured metadata.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelPairAdapter {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A point in time.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

//! The push messages as plain structs, for code that builds bodies: the load
//! generator and tests. The server never decodes into these; it walks bodies in
//! place ([`crate::push::protobuf`], which also shows the schema).

use prost::Message;

/// A whole push.
#[derive(Clone, PartialEq, Message)]
pub struct PushRequest {
    /// Streams in any order.
    #[prost(message, repeated, tag = "1")]
    pub streams: Vec<StreamAdapter>,
    /// Internal to Loki; ignored.
    #[prost(string, tag = "2")]
    pub format: String,
}

/// One stream.
#[derive(Clone, PartialEq, Message)]
pub struct StreamAdapter {
    /// Label set: `{app="x", env="y"}`.
    #[prost(string, tag = "1")]
    pub labels: String,
    /// Entries in any order.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<EntryAdapter>,
    /// Internal to Loki; ignored.
    #[prost(uint64, tag = "3")]
    pub hash: u64,
}

/// One entry.
#[derive(Clone, PartialEq, Message)]
pub struct EntryAdapter {
    /// When; an absent one is year 1.
    #[prost(message, optional, tag = "1")]
    pub timestamp: Option<Timestamp>,
    /// The log line; the wire type is a string that is not checked for UTF-8.
    #[prost(bytes = "vec", tag = "2")]
    pub line: Vec<u8>,
    /// Structured metadata.
    #[prost(message, repeated, tag = "3")]
    pub structured_metadata: Vec<LabelPairAdapter>,
    /// Internal to Loki; ignored.
    #[prost(message, repeated, tag = "4")]
    pub parsed: Vec<LabelPairAdapter>,
}

/// A name and a value.
#[derive(Clone, PartialEq, Message)]
pub struct LabelPairAdapter {
    /// The name.
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds within the second, never negative.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The message for a time in nanoseconds since the Unix epoch.
    pub fn from_unix_ns(unix_ns: i64) -> Timestamp {
        Timestamp {
            seconds: unix_ns.div_euclid(1_000_000_000),
            nanos: unix_ns.rem_euclid(1_000_000_000) as i32,
        }
    }
}

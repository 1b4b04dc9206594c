//! Reasons why bytes are not a push message. The texts equal the texts of Go's generated
//! decoders, which client authors know.

use crate::varint::VarintError;

/// Why bytes are not a push message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtobufError {
    /// The message, or a part of it, ends too early.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A varint does not fit 64 bits.
    #[error("proto: integer overflow")]
    IntegerOverflow,
    /// A length is negative when read as a signed number.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A field number is zero or too large.
    #[error("proto: illegal tag {0}")]
    IllegalTag(u64),
    /// A wire type that does not exist, or a group.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A known field has the wire type of something else.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType {
        /// The wire type of the tag.
        wire_type: u8,
        /// Name of the field.
        field: &'static str,
    },
    /// A number that its field cannot hold.
    #[error("proto: {number} is out of range for field {field}")]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
        /// The value that was sent.
        number: i128,
    },
    /// A timestamp whose parts are out of their ranges, or which signed 64-bit
    /// nanoseconds (years 1678 to 2262) cannot hold.
    #[error("timestamp: seconds:{seconds} nanos:{nanos}: {problem}")]
    Timestamp {
        /// Seconds since the Unix epoch.
        seconds: i64,
        /// Nanoseconds within the second.
        nanos: i32,
        /// The problem.
        problem: &'static str,
    },
}

impl From<VarintError> for ProtobufError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Truncated => ProtobufError::UnexpectedEof,
            VarintError::Invalid => ProtobufError::IntegerOverflow,
        }
    }
}

//! The body of error answers: `google.rpc.Status` with its message alone.

use crate::varint;

/// Content type of the answer.
pub const STATUS_CONTENT_TYPE: &str = "application/octet-stream";

/// Encodes `Status { string message = 2; }`.
pub fn encode_status(message: &str) -> Vec<u8> {
    const MESSAGE_TAG: u8 = 2 << 3 | 2;
    let mut out = Vec::with_capacity(message.len() + 6);
    out.push(MESSAGE_TAG);
    varint::write(&mut out, message.len() as u64);
    out.extend_from_slice(message.as_bytes());
    out
}

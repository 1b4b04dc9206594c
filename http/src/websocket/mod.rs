//! WebSocket (RFC 6455), the server's side: handshake, frames, messages and the
//! closing handshake as state machines, and a driver that runs them over a
//! connection. No extensions, no subprotocols.

mod drive;
mod frame;
mod handshake;
mod message;
mod socket;

pub use frame::{FrameHeader, Opcode, encode_frame, parse_header, unmask};
pub use handshake::{Handshake, NotAWebSocket, accept_key};
pub use message::{Event, MessageDecoder};
pub use socket::{Closed, TrySendError, Upgrade, WebSocket, WebSocketConfig};

pub(crate) use drive::drive;

/// A message, put together from its fragments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

impl Message {
    /// Length of the payload.
    pub fn len_bytes(&self) -> usize {
        match self {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
        }
    }
}

/// Why a WebSocket was closed (RFC 6455, section 7.4).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{code} {reason}")]
pub struct CloseReason {
    /// One of [`code`], or a number of 3000 to 4999.
    pub code: u16,
    /// For people; at most 123 bytes are sent.
    pub reason: String,
}

impl CloseReason {
    /// A reason.
    pub fn new(code: u16, reason: impl Into<String>) -> CloseReason {
        CloseReason { code, reason: reason.into() }
    }
}

/// Close codes.
pub mod code {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: u16 = 1000;
    /// The server stops.
    pub const GOING_AWAY: u16 = 1001;
    /// The other side broke the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// A kind of data that this side does not take.
    pub const UNSUPPORTED: u16 = 1003;
    /// The close frame had no code. Never sent.
    pub const NO_STATUS: u16 = 1005;
    /// The connection ended without a close frame. Never sent.
    pub const ABNORMAL: u16 = 1006;
    /// Text that is no UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// A message over the size limit.
    pub const TOO_BIG: u16 = 1009;
    /// The server failed.
    pub const INTERNAL_ERROR: u16 = 1011;
}

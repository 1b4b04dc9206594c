//! Syslog: messages in a stream of bytes, and what they say (RFC 5424, RFC 3164, RFC 6587).
//!
//! Guarantees: there is no invalid message. What cannot be parsed is the line, and
//! [`Message::fault`] says why. Framing is found for each message anew. Time and memory are linear
//! in the input; a count that a sender claims reserves nothing.

mod frame;
mod legacy;
mod message;
mod parse;
mod stamp;
mod structured;
#[cfg(test)]
mod tests;

pub use frame::{Frame, Framer, STEP_ROOM_BYTES, datagram};
pub use message::{Fault, Message, SeverityWords};
pub use parse::parse;
pub use stamp::Arrival;

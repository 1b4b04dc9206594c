//! What is around every message: version, kind, label, checksum.

use super::bytes::{Input, put_text};
use super::damaged::Damaged;
use crate::settings::LABEL_MAX_BYTES;

/// The version of messages that this server writes and reads.
pub const VERSION: u8 = 1;
/// Longest datagram.
pub const DATAGRAM_MAX_BYTES: usize = 1_400;
/// Longest message on a connection.
pub const STREAM_MAX_BYTES: usize = 1 << 20;

const SUM_BYTES: usize = 4;
/// What is around a body besides the label.
const AROUND_BYTES: usize = 3 + SUM_BYTES;
/// The longest label leaves room for all that one message of gossip has to have.
const _: () = assert!(DATAGRAM_MAX_BYTES - AROUND_BYTES - LABEL_MAX_BYTES > 1_000);

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A packet of the engine.
    Gossip,
    /// All that the sender knows; the receiver is to answer the same.
    Ask,
    /// All that the sender knows, as an answer.
    Answer,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Kind::Gossip => 1,
            Kind::Ask => 2,
            Kind::Answer => 3,
        }
    }
}

/// A message whose checksum is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened<'a> {
    /// What it is for.
    pub kind: Kind,
    /// The label of the sender's cluster.
    pub label: &'a str,
    /// The rest.
    pub body: &'a [u8],
}

/// The longest body of gossip beside a label.
#[must_use]
pub fn gossip_max_bytes(label: &str) -> usize {
    DATAGRAM_MAX_BYTES - AROUND_BYTES - label.len()
}

/// Writes a message. The label has at most [`LABEL_MAX_BYTES`].
#[must_use]
pub fn seal(kind: Kind, label: &str, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(AROUND_BYTES + label.len() + body.len());
    message.extend_from_slice(&[VERSION, kind.byte()]);
    put_text(&mut message, label);
    message.extend_from_slice(body);
    let sum = crc32c::crc32c(&message);
    message.extend_from_slice(&sum.to_le_bytes());
    message
}

/// Reads a message.
///
/// # Errors
/// It is damaged, or of a version or kind that this server does not know.
pub fn open(message: &[u8]) -> Result<Opened<'_>, Damaged> {
    let (summed, sum) = message.split_last_chunk().ok_or(Damaged::Short)?;
    let mut input = Input::new(summed);
    // Of another version nothing else is known, where the checksum is neither.
    let version = input.u8()?;
    if version != VERSION {
        return Err(Damaged::Version(version));
    }
    if crc32c::crc32c(summed) != u32::from_le_bytes(*sum) {
        return Err(Damaged::Sum);
    }
    let kind = match input.u8()? {
        1 => Kind::Gossip,
        2 => Kind::Ask,
        3 => Kind::Answer,
        kind => return Err(Damaged::Kind(kind)),
    };
    let label = input.text()?;
    Ok(Opened { kind, label, body: input.rest() })
}
